"""Groupings of the same rows that are measured as differences: SUM(CASE WHEN b IN (...) THEN 1 ELSE -1 END) BY a.

A table of counts by a and b tells of both by themselves too, and of the total. Where many tables share their columns,
these are told again and again, and paid for. Rows that count with signs which are balanced over b tell what a and b
have in common and what b tells, and nothing else. Such sums are ordinary private aggregates, of values from -1 to 1, by
public keys, so the kernel knows nothing of them; the counts follow by least squares (`coordinates`,
`vector_estimates`).

With H a Hadamard matrix of order m, its first row of ones left out, the m - 1 sums of the signs of the first n columns
tell of b as H'H says, which is m on the diagonal, and 1 less everywhere: of each difference m, of the total m - n.
docs/concepts/stored-answers.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.accountant import BudgetKind
from dpquery.kernel.mechanisms import calibrated
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan, Count, Key, Measure, Noise
from dpquery.plan.expr import Case, Column, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import Computed, Project, output
from dpquery.plan.types import FLOAT64, INT64, Type
from dpquery.planner.protect.grouping_sets import DeclaredGrouping
from dpquery.reuse.block_sums import Floats
from dpquery.reuse.coordinates import SIGNS
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.implied import Replaced
from dpquery.reuse.line_groupings import grouped
from dpquery.reuse.strategy import (
    Marginal,
    Workload,
    amount_of,
    best_shares,
    error,
    exact_shares,
    matrices,
    noise_of,
    parts_of,
    searched,
    with_losses,
)
from dpquery.units.declarations import Declarations
from dpquery.units.sizes import Sizes

MOST_VALUES = 16
"""Of a key whose rows get signs: it takes as many sums."""
MOST_SUMS = (400, 150, 80, 40)
"""Sums that a workload is measured by, at most: fewer, where so many are too much work for each row."""
GAIN = 1.05
"""How much larger the sum of variances of counts has to be for sums of signs to be measured."""
FEW = 0.3
"""Part of an equal share below which something is not measured, if the rest is about as good without it."""
SLIGHTLY = 1.005
"""By what the sum of variances may grow for that."""


@dataclass(frozen=True, slots=True)
class _Option:
    """What may be measured: counts or, of a key, signed sums, by the other keys of a grouping.

    Attributes:
        number: Of the grouping whose rows and keys it has.
        signed: The key; None for counts of all rows together.
    """

    number: int
    signed: int | None

    def sums(self, workload: Workload) -> int:
        """Returns how many sums these are."""
        return 1 if self.signed is None else _order(workload.sizes[self.signed]) - 1

    def told(self, workload: Workload, parts: Sequence[Marginal], precision: float) -> Floats:
        """Returns how much it tells of each part, where it gets all that the workload loses.

        Args:
            precision: The inverse of the variance of one sum that would get all of it.
        """
        if self.signed is None:
            return np.array([0.0 if part else precision for part in parts])
        others, size = workload.marginals[self.number] - {self.signed}, workload.sizes[self.signed]
        order, cells = _order(size), math.prod(workload.sizes[i] for i in others)
        each = [order if self.signed in part else order - size for part in parts]
        held = np.array([part - {self.signed} <= others for part in parts])
        return np.where(held, np.array(each) * precision / (size * cells * (order - 1)), 0.0)


def with_contrasts(
    made: Replaced,
    tables: Sequence[Workload],
    wanted: Sequence[Wanted],
    kind: BudgetKind,
    declared: Declarations,
    sizes: Sizes,
    most: int,
) -> Replaced:
    """Returns a plan of the same charge in which counts by several sets of keys err less; else the plan as it is.

    Args:
        tables: The workloads of the plan, whose losses add up, in rho.
        wanted: Of the aggregates of the plan, in order.
        most: How many sums with signs a workload is measured by, at most.
    """
    if declared.blocks is not None:  # a part of the blocks may be asked, and all of them would be charged
        return made
    places = {m.id: (one, place) for one in wanted for place, m in enumerate(one.budgeted.aggregate.measures)}
    for workload in tables:
        tried = _chosen(made, workload, [places[id] for id in workload.ids], declared, sizes, most)
        if tried is not None and tried.costs_no_more(made, kind, declared):
            made = tried
    return made


def _chosen(
    made: Replaced,
    workload: Workload,
    own: Sequence[tuple[Wanted, int]],
    declared: Declarations,
    sizes: Sizes,
    most: int,
) -> Replaced | None:
    """Returns the plan with a workload measured otherwise, where that errs less."""
    first, place = own[0]
    if first.budgeted.aggregate.measures[place].count is not Count.ROWS:
        return None
    options = _options(workload, [one for one, _ in own], most)
    into, weights = matrices(workload)
    need, parts = weights @ np.array(workload.given), parts_of(workload)
    counts = error(best_shares(workload, np.array(workload.given)), into, need, 1)
    alike = [workload.precisions[option.number] for option in options]
    if _searched(workload, options, alike, into, need, parts)[1] * GAIN > counts:
        return None
    whole = sum((amount_of(one.budgeted.noise[at]) for one, at in own), Fraction(0))
    nominal = whole / (len(own) + len(options))
    prefixes = [f"s{len(made.groupings) + number + 1}" for number in range(len(options))]
    built = [_built(o, workload, *own[o.number], p, declared, sizes) for o, p in zip(options, prefixes, strict=True)]
    alike = [float(whole / nominal) / _variance(one[0], nominal, declared) for one in built]
    shares, error_of_all = _searched(workload, options, alike, into, need, parts)
    if error_of_all * GAIN > counts:
        return None
    parted = dict(zip(workload.ids, shares, strict=False))
    added = [
        (_of_loss(one, whole * share / option.sums(workload)), grouping)
        for option, (one, grouping), share in zip(options, built, shares[len(own) :], strict=True)
        if share
    ]
    plan = with_losses(made.plan, {id: whole * share for id, share in parted.items()})
    sums = sum(len(one.aggregate.measures) for one, _ in added)
    note = (
        f"{workload.label} by {len(own)} sets of keys is estimated from {sums} sums in which rows count as 1 or -1, by "
        f"fewer keys, and from {sum(map(bool, parted.values()))} of the sets: the standard deviation of what is shown, "
        f"the root of the mean of all, is {math.sqrt(error_of_all) * workload.unit:.3g}, where counts alone would give "
        f"{math.sqrt(counts) * workload.unit:.3g}"
    )
    return Replaced(
        plan=BudgetedPlan(aggregates=(*plan.aggregates, *(one for one, _ in added))),
        groupings=(*made.groupings, *(grouping for _, grouping in added)),
        follows=made.follows | {id for id, share in parted.items() if not share},
        settled=made.settled | {*workload.ids, *(m.id for one, _ in added for m in one.aggregate.measures)},
        notes=(*made.notes, note),
    )


def _options(workload: Workload, own: Sequence[Wanted], most: int) -> list[_Option]:
    """Returns one way to sign each grouping, each time by the key with the fewest values, the least used of these, or
    where that takes too many sums, for some groupings, evenly; and the total, if it is not among the groupings."""
    used: Counter[int] = Counter()
    found = list[_Option]()
    for number, marginal in enumerate(workload.marginals):
        keys = {axis: _key(workload, own[number], axis) for axis in sorted(marginal)}
        able = [a for a, key in keys.items() if len(key.columns) == 1 and key.types[0] != FLOAT64]
        able = [axis for axis in able if 2 <= workload.sizes[axis] <= MOST_VALUES]
        if able:
            axis = min(able, key=lambda axis: (workload.sizes[axis], used[axis], axis))
            used[axis] += 1
            found.append(_Option(number, axis))
    sums = sum(option.sums(workload) for option in found)
    if sums > most:
        count = len(found) * most // sums
        found = [found[place * len(found) // count] for place in range(count)]
    return found if frozenset() in workload.marginals else [*found, _Option(0, None)]


def _key(workload: Workload, one: Wanted, axis: int) -> Key:
    assert one.asked is not None
    texts = [key.columns for key in one.asked.frame.keys]
    return one.budgeted.aggregate.keys[texts.index(workload.keys[axis])]


def _searched(
    workload: Workload,
    options: Sequence[_Option],
    precisions: Sequence[float],
    into: Floats,
    need: Floats,
    parts: Sequence[Marginal],
) -> tuple[tuple[Fraction, ...], float]:
    """Returns the best shares of groupings and options that are found, and the sum of variances of these.

    Args:
        into: What each grouping tells of each orthogonal part, for a whole loss, shape (parts, groupings).
        need: How much each part counts, shape (parts,).
    """
    told = [option.told(workload, parts, p) for option, p in zip(options, precisions, strict=True)]
    both = np.concatenate([into, np.array(told).T.reshape(len(parts), -1)], axis=1)  # (parts, groupings and options)
    shares = searched(np.full(both.shape[1], 1 / both.shape[1]), both, need, 1)
    fewer = np.where(shares < FEW / len(shares), 0.0, shares)
    fewer = searched(fewer / fewer.sum(), both, need, 1)
    if error(fewer, both, need, 1) < SLIGHTLY * error(shares, both, need, 1):
        shares = fewer
    found = exact_shares(shares)
    return found, error(np.array([float(share) for share in found]), both, need, 1)


def _built(
    option: _Option, workload: Workload, one: Wanted, place: int, prefix: str, declared: Declarations, sizes: Sizes
) -> tuple[BudgetedAggregate, DeclaredGrouping]:
    """Returns the aggregate of an option, with the noise of its grouping, and what is known of its groups."""
    given = one.budgeted.aggregate
    measure, noise = given.measures[place], one.budgeted.noise[place]
    types = {column.id: column.type for column in output(given.source)}
    signed = None if option.signed is None else _key(workload, one, option.signed)
    pairs = zip(given.keys, one.facts.covering, strict=True)
    others = [] if signed is None else [(key, covers) for key, covers in pairs if key != signed]
    read = [given.unit, given.weights.column, measure.filter, *(id for key, _ in others for id in key.columns)]
    columns = [Computed(id=id, name="", expression=Column(id=id, type=types[id])) for id in dict.fromkeys(read) if id]
    if signed is None:
        measures: tuple[Measure, ...] = (replace(measure, id=f"{prefix}_rows"),)
    else:
        signs = [*_signs(signed, types[signed.columns[0]])]
        ids = [f"{prefix}_sign{number}" for number in range(len(signs))]
        columns += [Computed(id=id, name="", expression=sign) for id, sign in zip(ids, signs, strict=True)]
        measures = tuple(
            replace(
                measure, id=f"{id}_sum", count=Count.SUM, value=id, lattice=SIGNS, label=f"signs of {measure.label}"
            )
            for id in ids
        )
    source = Project(source=given.source, columns=tuple(columns)) if columns else given.source
    aggregate, grouping = grouped(
        given,
        source,
        tuple(key for key, _ in others),
        measures,
        tuple(covers for _, covers in others),
        frozenset(m.id for m in measures if m.count is Count.SUM),
        declared,
        sizes,
    )
    return BudgetedAggregate(aggregate=aggregate, noise=(noise,) * len(measures)), grouping


def _signs(key: Key, type: Type) -> Iterator[Case]:
    """Yields expressions that are 1 or -1 for each value of a key: rows of a Hadamard matrix, but the first."""
    values = [value for (value,) in key.domain or ()]
    for row in range(1, _order(len(values))):
        signs = [-1 if (row & column).bit_count() % 2 else 1 for column in range(len(values))]
        other = signs[values.index(None)] if None in values else -1
        listed = [Literal(value=v, type=type) for v, sign in zip(values, signs, strict=True) if sign != other]
        yield Case(
            branches=(
                (call("in", (Column(id=key.columns[0], type=type), *listed)), Literal(value=-other, type=INT64)),
            ),
            otherwise=Literal(value=other, type=INT64),
            type=INT64,
        )


def _order(values: int) -> int:
    """Returns the order of the Hadamard matrix, a power of 2, whose columns these are some of."""
    return 1 << (values - 1).bit_length()


def _of_loss(one: BudgetedAggregate, amount: Fraction) -> BudgetedAggregate:
    noises: tuple[Noise, ...] = tuple(noise_of(noise, amount) for noise in one.noise)
    return replace(one, noise=noises)


def _variance(one: BudgetedAggregate, amount: Fraction, declared: Declarations) -> float:
    return variance_of(calibrated(_of_loss(one, amount), declared.neighbours)[0])
