"""What holds after each pass of planning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

import dpquery as dp
from dpquery.kernel.checks import check
from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.sensitivity import sensitivity
from dpquery.plan.cached import cached
from dpquery.plan.expr import Column, Expression, children
from dpquery.plan.logical import Aggregate, Relation, Released, Scan, SortKey, output, sources
from dpquery.planner.passes import Draft, Pass
from dpquery.session import pipeline
from dpquery.session.options import Options

Trace = list[tuple[Pass, Draft]]


def traced_with(session: dp.Session, queries: Sequence[str], options: Mapping[str, Any]) -> Trace:
    """Returns each pass with the draft that it made of queries with these options."""
    trace: Trace = []
    pipeline.plan(
        [Options(**options).request(query, None, session.catalog.defaults) for query in queries],
        catalog=session.catalog,
        ledger=session._ledger,
        public=session._backend,
        observe=lambda one, draft: trace.append((one, draft)),
    )
    return trace


def tracing(monkeypatch: pytest.MonkeyPatch) -> list[Trace]:
    """Returns a list to which each planning that follows adds its passes, as `traced_with` returns them."""
    plan, traces = pipeline.plan, list[Trace]()

    def traced(*given: Any, **named: Any) -> Any:
        trace: Trace = []
        traces.append(trace)
        return plan(*given, **named | {"observe": lambda one, draft: trace.append((one, draft))})

    monkeypatch.setattr(pipeline, "plan", traced)
    return traces


def check_passes(session: dp.Session, trace: Trace) -> None:
    """Checks after each pass what has to hold, and that none changes the answer's columns."""
    names: set[tuple[str, ...]] = set()
    for one, draft in trace:
        for holds in HOLDS[one.name]:
            holds(draft, session)
        results = [plan.result for plan in draft.private or draft.logical]
        names |= {tuple(column.name for column in output(result)) for result in results}
    assert len(names) == 1, "no pass changes the answer's columns"


def names_resolve(draft: Draft, _: dp.Session) -> None:
    """Every column that is read is given by what is below, with the type that its reader takes it for."""
    for plan in draft.logical:
        for relation in (plan.result, *plan.boundaries):
            _resolves(relation)
    for private in draft.private:
        _resolves(private.result)
    for aggregate in _aggregates(draft):
        _resolves(aggregate.source)


def boundaries_are_read(draft: Draft, _: dp.Session) -> None:
    """The result reads boundaries that exist."""
    for plan in draft.logical:
        assert {leaf.index for leaf in _leaves(plan.result) if isinstance(leaf, Released)} <= {
            *range(len(plan.boundaries))
        }


def reports_are_estimated(draft: Draft, session: dp.Session) -> None:
    """What is computed from reports above the boundary reads a column for their randomness."""
    for plan, variances in zip(draft.logical, draft.variances, strict=True):
        stored = [leaf for one in plan.boundaries for leaf in _leaves(one) if isinstance(leaf, Scan)]
        declared = session.catalog.tables
        reports = {c.id for s in stored for c in s.columns if declared[s.table].columns[c.name].randomized is not None}
        assert bool(variances) is bool(reports & {id for one in plan.boundaries for id in one.group_by})


def sensitivity_is_finite(draft: Draft, session: dp.Session) -> None:
    """What is measured has keys that are public or selected, and a sensitivity."""
    declared = session.catalog.declarations
    for aggregate in _aggregates(draft):
        assert aggregate.is_selected is (aggregate.selection is not None)
        for measure in aggregate.measures:
            assert sensitivity(aggregate, measure, declared.neighbours).l1 < float("inf")


def results_read_released_tables(draft: Draft, _: dp.Session) -> None:
    """Nothing private is left above the boundary, in no plan that may be chosen."""
    for plan in (one for chosen in draft.private for one in (chosen, *chosen.alternatives)):
        leaves = list(_leaves(plan.result))
        assert all(leaf.public for leaf in leaves if isinstance(leaf, Scan))
        known = range(len(plan.aggregates) + len(plan.added))
        assert {leaf.index for leaf in leaves if isinstance(leaf, Released)} <= {*known}


def noise_is_paid(draft: Draft, session: dp.Session) -> None:
    """Each measure has noise, one plan is chosen, and the gate will have it."""
    assert draft.budgeted is not None and not any(plan.alternatives for plan in draft.private)
    for budgeted in draft.budgeted.aggregates:
        assert all(noise.loss.epsilon or noise.loss.rho for noise in budgeted.noise)
        check(budgeted, session.catalog.declarations, session._backend)


Invariant = Callable[[Draft, dp.Session], None]
LOGICAL: tuple[Invariant, ...] = (names_resolve, boundaries_are_read)
MEASURED: tuple[Invariant, ...] = (*LOGICAL, reports_are_estimated, sensitivity_is_finite)
HOLDS: dict[str, tuple[Invariant, ...]] = {
    "unread": LOGICAL,
    "declared": LOGICAL,
    "disjoint counts": LOGICAL,
    "blocks": LOGICAL,
    "reports": (*LOGICAL, reports_are_estimated),
    "small groups": (*LOGICAL, reports_are_estimated),
    "measure": MEASURED,
    "combine": (*MEASURED, results_read_released_tables),
    "allocate": (*MEASURED, results_read_released_tables, noise_is_paid),
}


def _aggregates(draft: Draft) -> Iterator[PrivateAggregate]:
    yield from (one.aggregate for measured in draft.measured for one in measured)


def _leaves(relation: Relation) -> Iterator[Relation]:
    if not sources(relation):
        yield relation
    for source in sources(relation):
        yield from _leaves(source)


@cached  # most passes leave most relations as they are
def _resolves(relation: Relation) -> None:
    below = {column.id: column.type for source in sources(relation) for column in output(source)}
    if sources(relation):
        for field in dataclasses.fields(relation):
            for read in _read(getattr(relation, field.name)):
                assert below[read.id] == read.type
    if isinstance(relation, Aggregate):
        assert {*relation.group_by} <= below.keys()
    for source in sources(relation):
        _resolves(source)


def _read(value: object) -> Iterator[Column]:
    """Yields the columns that a field reads, but for those of relations below."""
    if isinstance(value, Column):
        yield value
    elif isinstance(value, Expression):
        yield from (column for part in children(value) for column in _read(part))
    elif isinstance(value, tuple):
        yield from (column for part in value for column in _read(part))
    elif dataclasses.is_dataclass(value) and not isinstance(value, Relation | SortKey):
        yield from (column for field in dataclasses.fields(value) for column in _read(getattr(value, field.name)))
