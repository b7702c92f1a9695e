"""Any plan to text, without touching data; also the form of the golden files."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import assert_never

from dpquery.catalog.strata import written
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.kernel.plan import BudgetedPlan, Count, PrivateAggregate, Weighing
from dpquery.plan.expr import Expression
from dpquery.plan.logical import (
    ROW_LIMIT,
    Aggregate,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    column,
    output,
)
from dpquery.plan.ranges import EPOCH, MICROSECOND
from dpquery.plan.show import names_of, show, show_aggregate, show_window
from dpquery.plan.types import Kind, Type
from dpquery.planner.passes import Draft, Pass
from dpquery.result.measurements import Measurement

MOST_SHOWN = 120
"""Characters of a key that are shown."""
MOST_NAMED = 8
"""Entries of the ledger that are named one by one."""


def explain(
    plan: BudgetedPlan,
    result: Relation,
    measurements: tuple[Measurement, ...],
    charge: PrivacyLoss,
    *,
    added: Sequence[tuple[int, PrivateAggregate]] = (),
    notes: Sequence[str] = (),
    loss: PrivacyLoss | None = None,
    blocks: str = "",
) -> str:
    """Returns a plan for people: what is released, with which noise, from what, and at what price.

    Args:
        added: Tables added up from released ones, as (number of the released table, what it gives); numbered on.
        notes: What was decided for each GROUP BY with several grouping sets.
        loss: What the noise loses, where the charge may be more: the least charge of a question.
        blocks: The blocks that are charged, in words, where rows are in blocks.
    """
    lines = list(_result(result))
    remaining = iter(measurements)
    for number, budgeted in enumerate(plan.aggregates, start=1):
        described = [next(remaining) for _ in budgeted.aggregate.measures]
        tau = described[0].tau if described else None
        chosen = "" if tau is None else f"  tau={tau}  delta={amount(budgeted.selection_delta)}"
        lines += [f"Release {number}: {released_by(budgeted.aggregate)}{chosen}"]
        lines += [f"  {line}" for line in _measured(budgeted.aggregate, described)]
    for number, (leaf, aggregate) in enumerate(added, start=len(plan.aggregates) + 1):
        lines.append(f"Release {number}: {_named(aggregate)}, free: sums of release {leaf + 1}")
    lines += [f"Grouping sets: {note}" for note in notes]
    lines.append("Charge: nothing" if charge == ZERO else f"Charge: {charge}")
    if loss is not None and loss != charge:
        lines.append(f"  the least charge of a fresh question; what is measured loses {loss}")
    lines += [f"Blocks: {blocks}"] if blocks else []
    return "\n".join(lines)


def show_passes(trace: Sequence[tuple[Pass, Draft]]) -> Iterator[str]:
    """Yields the passes that planned one query, each with its reason, and the draft where it changed."""
    before: list[str] = []
    for number, (one, draft) in enumerate(trace, start=1):
        yield f"Pass {number}, {one.name}: {one.reason}"
        lines = list(_draft(draft))
        yield from (f"  {line}" for line in (lines if lines != before else ["nothing changed"]))
        before = lines


def ranks_needed(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yields of which groups a quantile, a minimum or a maximum can say nothing, for any data."""
    for made in measurements:
        if made.unit == "ranks":
            ranks = math.ceil(made.error95)
            small = f"; it says nothing of groups of {2 * ranks:,} rows or fewer" if ranks else ""
            yield f"{made.label} is within {ranks:,} {'rank' if ranks == 1 else 'ranks'}{small}"


def _draft(draft: Draft) -> Iterator[str]:
    """Yields the first query of a draft as far as it is planned: with boundaries, their measures, or noise."""
    if draft.budgeted is not None:
        for number, budgeted in enumerate(draft.budgeted.aggregates, start=1):
            for measure, noise in zip(budgeted.aggregate.measures, budgeted.noise, strict=True):
                yield f"Release {number}, {measure.label}: {noise.mechanism.value} {_loss(noise.loss)}"
        return
    if draft.measured:
        if draft.private:
            yield from _result(draft.private[0].result)
            if more := len(draft.private[0].alternatives):
                yield f"{more} other plans to choose from"
        for number, measured in enumerate(draft.measured[0], start=1):
            aggregate = measured.aggregate
            yield f"Boundary {number}: {released_by(aggregate)}"
            yield f"  measured {', '.join(measure.label for measure in aggregate.measures)}"
            yield f"  weighed {_weighing(aggregate)}"
            yield from (f"  {line}" for line in _below(aggregate.source))
        return
    yield from _result(draft.logical[0].result)
    for number, boundary in enumerate(draft.logical[0].boundaries, start=1):
        yield f"Boundary {number}:"
        yield from (f"  {line}" for line in _below(boundary))


def _result(result: Relation) -> Iterator[str]:
    yield "Result: " + ", ".join(column.name for column in output(result))
    for line in _above(result):
        yield f"  {line}"


def _above(relation: Relation) -> Iterator[str]:
    """Yields what is computed above the boundary, outermost first; plain projections are left out."""
    names = names_of(relation)
    match relation:
        case Released():
            yield f"from release {relation.index + 1}"
        case Scan():
            yield f"from public table {relation.table}"
        case Project():
            yield from _above(relation.source)
        case Filter():
            yield f"where {show(relation.condition, names)}"
            yield from _above(relation.source)
        case Sort():
            keys = (show(_column(relation, k.column), names) + (" DESC" if k.descending else "") for k in relation.keys)
            yield f"order by {', '.join(keys)}"
            yield from _above(relation.source)
        case Limit():
            yield f"limit {relation.count}" + (f" offset {relation.offset}" if relation.offset else "")
            yield from _above(relation.source)
        case Aggregate():
            computed = ", ".join(show_aggregate(a, names) for a in relation.aggregates)
            yield f"aggregate {computed}" if computed else "distinct"
            yield from _above(relation.source)
        case Join():
            yield f"{relation.kind} join"
            yield from _above(relation.left)
            yield from _above(relation.right)
        case SetOperation():
            yield relation.kind.replace("_", " ")
            for part in _parts(relation):
                yield from _above(part)
        case Window():
            for over in relation.columns:
                yield f"window {show_window(over, names)}"
            yield from _above(relation.source)
        case Values():
            yield f"from {_rows(relation, 'literal rows')}"
        case _:
            assert_never(relation)


def _rows(values: Values, kind: str) -> str:
    step = " at most, of an earlier step" if values.is_sample else ""
    return f"{len(values.rows)} {kind}{step}"


def _parts(operation: SetOperation) -> Iterator[Relation]:
    """Yields what a chain of UNION ALL puts together; of other operations the two sides."""
    for side in (operation.left, operation.right):
        if operation.kind == "union_all" and isinstance(side, SetOperation) and side.kind == "union_all":
            yield from _parts(side)
        else:
            yield side


def _column(relation: Relation, id: str) -> Expression:
    return column(relation, id)


def released_by(aggregate: PrivateAggregate) -> str:
    """Returns the groups of what is released, in words; of expressions that are long, their beginning."""
    if not aggregate.keys:
        return "grand total"
    names = names_of(aggregate.source)
    keys = []
    for key in aggregate.keys:
        kind = "selected" if key.domain is None else f"public({len(key.domain)})"
        shown = ", ".join(_short(show(_column(aggregate.source, id), names)) for id in key.columns)
        keys.append(f"({shown}) {kind}" if len(key.columns) > 1 else f"{shown} {kind}")
    return "by " + ", ".join(keys)


def _short(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def _named(aggregate: PrivateAggregate) -> str:
    names = names_of(aggregate.source)
    keys = (show(_column(aggregate.source, id), names) for key in aggregate.keys for id in key.columns)
    return "by " + ", ".join(keys) if aggregate.keys else "grand total"


def _measured(aggregate: PrivateAggregate, described: list[Measurement]) -> Iterator[str]:
    for made in described:
        loss = _loss(made.loss)
        if made.stored:
            entries = ", ".join(map(str, made.stored))
            loss = f"free, from release{'s' if len(made.stored) > 1 else ''} {entries} of the ledger"
            if len(made.stored) > MOST_NAMED:
                ends = f"{made.stored[0]} to {made.stored[-1]}"
                loss = f"free, estimated from {len(made.stored)} releases of the ledger, {ends}"
        unit = f" {made.unit}" if made.unit else ""
        shared = f"  one of {made.together} chosen together" if made.together else ""
        shared += f"  one of {made.parallel} in parallel" if made.parallel and not made.stored else ""
        yield f"{made.label}: {made.mechanism} scale={figure(made.scale)}{unit}  {loss}  {_error(made)}{shared}"
        yield f"  linf={amount(made.linf)} l1={amount(made.l1)} l2={figure(made.l2)}"
    yield from dict.fromkeys(_clamps(aggregate))
    yield from dict.fromkeys(f"Scale {name}  max_total={total}" for name, total in scaled_sums(aggregate))
    names = names_of(aggregate.source)
    if aggregate.unit is not None:
        unit = show(_column(aggregate.source, aggregate.unit), names)
        yield f"Weigh {unit}  {_weighing(aggregate)}"
    else:
        yield "Each row is a privacy unit"
    for line in _below(aggregate.source):
        yield f"  {line}"


def _loss(loss: PrivacyLoss) -> str:
    return f"epsilon={amount(loss.epsilon)}" if loss.epsilon else f"rho={amount(loss.rho)}"


def _weighing(aggregate: PrivateAggregate) -> str:
    """Returns what rows of a unit weigh together, where that was decided, and in how many groups a unit counts."""
    weights = aggregate.weights
    limited = weights.max_groups is not None and any(
        measure.count in (Count.UNITS, Count.DECIDING) for measure in aggregate.measures
    )
    groups = f"  max_groups={weights.max_groups}" if limited else ""
    return f"max_rows={weights.max_rows}  {_WEIGHINGS[weights.weighing]}{groups}"


_WEIGHINGS = {Weighing.STORED: "stored", Weighing.WHOLE: "whole", Weighing.COUNTED: "counted here"}


def _error(made: Measurement) -> str:
    return f"error95={math.ceil(made.error95)} {made.unit}" if made.unit else f"error95={figure(made.error95)}"


def _clamps(aggregate: PrivateAggregate) -> Iterator[str]:
    names = names_of(aggregate.source)
    for measure in aggregate.measures:
        if measure.lattice is not None and measure.value is not None:
            lattice = measure.lattice
            value = show(_column(aggregate.source, measure.value), names)
            type = _column(aggregate.source, measure.value).type
            ends = ", ".join(_bound(end * lattice.grid, type) for end in (lattice.lower, lattice.upper))
            yield f"Clamp {value} [{ends}]  grid={amount(lattice.grid)}{_STEPS.get(type.kind, '')}"


def scaled_sums(aggregate: PrivateAggregate) -> Iterator[tuple[str, str]]:
    """Yields the columns whose sums are scaled, and to what total of one unit."""
    names = names_of(aggregate.source)
    for measure in aggregate.measures:
        if measure.total is not None and measure.lattice is not None and measure.value is not None:
            value = show(_column(aggregate.source, measure.value), names)
            yield value, amount(measure.total.most * measure.lattice.grid)


_STEPS = {Kind.DATE: " days", Kind.TIMESTAMP: " microseconds"}


def _bound(value: Fraction, type: Type) -> str:
    if type.kind is Kind.DATE:
        return str(EPOCH.date() + datetime.timedelta(days=int(value)))
    return str(EPOCH + int(value) * MICROSECOND) if type.kind is Kind.TIMESTAMP else amount(value)


def _below(relation: Relation) -> Iterator[str]:
    """Yields the relation under the boundary as a tree; plain projections are left out."""
    names = names_of(relation)
    match relation:
        case Scan():
            unit = "" if relation.ownership is None else f"  unit={_owner(relation)}"
            limit = f"  row_limit={relation.row_limit}" if unit and relation.row_limit != ROW_LIMIT else ""
            weights = "" if relation.max_rows is None else f"  weights max_rows={relation.max_rows}"
            if relation.strata is not None:
                weights += f", {relation.strata.max_rows} per {written(relation.strata)}"
            yield f"Scan {relation.table}{'  public' if relation.public else unit}{weights}{limit}"
            return
        case Project():
            yield from _below(relation.source)
            return
        case Filter():
            yield f"Filter {show(relation.condition, names)}"
            inner = [relation.source]
        case Join():
            equal = [f"{show(a, names)} = {show(b, names)}" for a, b in relation.equalities]
            extra = [] if relation.condition is None else [show(relation.condition, names)]
            yield f"Join {relation.kind} {' AND '.join(equal + extra)}".rstrip()
            inner = [relation.left, relation.right]
        case Aggregate():
            keys = ", ".join(show(_column(relation, id), names) for id in relation.group_by)
            made = ", ".join(show_aggregate(a, names) for a in relation.aggregates)
            yield (f"Aggregate {made} by {keys}" if keys else f"Aggregate {made}") if made else f"Distinct {keys}"
            inner = [relation.source]
        case SetOperation():
            yield f"SetOperation {relation.kind.replace('_', ' ')}"
            inner = [relation.left, relation.right]
        case Window():
            yield "Window " + ", ".join(show_window(made, names) for made in relation.columns)
            inner = [relation.source]
        case Values():
            yield f"Values {_rows(relation, 'rows')}"
            return
        case Sort() | Limit() | Released():
            return
        case _:
            assert_never(relation)
    for source in inner:
        for line in _below(source):
            yield f"  {line}"


def _owner(scan: Scan) -> str:
    assert scan.ownership is not None
    if scan.unit is None:
        return f"that of {scan.ownership.path[0].parent}"
    return ".".join([*(step.parent for step in scan.ownership.path), scan.ownership.column])


def figure(value: Fraction | float) -> str:
    """Returns a number in six digits, and without an exponent where it is not needed."""
    text = f"{float(value):.6g}"
    return f"{float(value):.0f}" if "e+" in text and abs(float(value)) < 1e12 else text


def amount(value: Fraction) -> str:
    """Returns an exact number as people write it: a short decimal, a small fraction, or six digits."""
    if value.denominator == 1 and abs(value) < 10**15:
        return str(value.numerator)
    if value.denominator <= 1000 and -(10**15) < value < 10**15:
        return f"{value.numerator}/{value.denominator}"
    return f"{float(value):.6g}"
