"""From what is measured to answers: the parts of `pipeline.answer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from dpquery.backends.base import Backend
from dpquery.cancelling import check_cancelled
from dpquery.catalog import Catalog
from dpquery.errors import BackendError, DPQueryError, InternalError
from dpquery.kernel.failures import one_error
from dpquery.kernel.ledger_interface import DurableLedger
from dpquery.kernel.plan import BudgetedPlan
from dpquery.kernel.release import NoisyAggregates, release
from dpquery.kernel.work import Allowed
from dpquery.plan.logical import Relation
from dpquery.planner.keys.conditions import unlisted_constants
from dpquery.result.batch import Batch, of_tables
from dpquery.result.finish import Finished, finish
from dpquery.result.table import Result
from dpquery.reuse.answers import Answered
from dpquery.reuse.query_split import Reuse
from dpquery.session.options import Request
from dpquery.session.planning import PreparedQuery

if TYPE_CHECKING:
    from dpquery.result.measurements import Measurement
    from dpquery.session.known_profile import KnownProfiles

Made = TypeVar("Made")
LEAST_PART = Fraction(1, 10**12)
"""Of a limit, what a part of a reserved charge uses at least: the whole was at least the least charge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """Notes and warnings of an answer, known before it is measured: what bounds leave out, which numbers say nothing.

    Attributes:
        intervals: What adds the intervals of numbers of public rows, by what the answer was computed by.
    """

    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    intervals: Callable[[Finished, Relation], Finished] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Where queries are answered: declarations, data, what was spent, what is stored, and who asks.

    Attributes:
        ledger: Charges at the version of the data that the session began with.
        reuse: How stored answers are used; None where nothing is stored.
        is_reserved: Whether what is charged is a part of a charge that was at least the least one.
    """

    catalog: Catalog
    backend: Backend
    ledger: DurableLedger
    reuse: Reuse | None
    analyst: str
    is_reserved: bool = False


def release_rest(
    requests: Sequence[Request], prepared: Sequence[PreparedQuery], rest: BudgetedPlan, execution: Execution
) -> NoisyAggregates | None:
    """Returns what the gate released of a plan, charged for; None where nothing is lacking."""
    if prepared[0].steps:
        raise InternalError("a plan over rows that are not known yet cannot be measured")
    if not rest.aggregates:
        return None
    check_cancelled()
    _require_unchanged(execution.backend)
    return release(
        rest,
        engine=execution.backend,
        allowed=Allowed(steps=execution.catalog.work, sizes=execution.backend),
        ledger=execution.ledger,
        analyst=execution.analyst,
        query=";\n".join(request.recorded for request in requests),
        least=LEAST_PART if execution.is_reserved else execution.catalog.defaults.least_charge,
    )


def after_charge(noisy: NoisyAggregates | None, compute: Callable[[], Made]) -> Made:
    """Returns compute(). If something was charged, any exception becomes the one constant error (`one_error`)."""
    return compute() if noisy is None or noisy.entry is None else one_error(compute, noisy.entry)


def finish_all(
    requests: Sequence[Request],
    prepared: Sequence[PreparedQuery],
    remarks: Sequence[Remarks],
    answered: Answered,
    backend: Backend,
) -> Batch:
    """Returns the answers that follow from released and public tables."""
    results, tables = [], answered.tables[: len(prepared[0].read)]
    for request, made, said in zip(requests, prepared, remarks, strict=True):
        done = finish(
            tables,
            made.private.result,
            evaluate=backend.evaluate,
            added=[(one.leaf, one.aggregate) for one in made.private.added],
            variances=made.private.variances,
            whole=frozenset[str]().union(*[grouping.whole for grouping in made.private.groupings]),
            halved=[one for grouping in made.private.groupings for one in grouping.halved],
            taus={one.id: one.tau for one in answered.measurements if one.tau is not None},
            withheld=made.private.withheld,
        )
        if said.intervals is not None:
            done = said.intervals(done, made.private.result)
        own = of_tables(answered.tables, answered.measurements, done.tables)
        results.append(
            Result(
                done,
                charge=answered.charge,
                guarantee=answered.guarantee,
                measurements=answered.measurements if len(requests) == 1 else own,
                confidence=request.confidence,
                simultaneous=request.simultaneous,
                protects=answered.protects,
                blocks=answered.blocks,
                charged_with=len(requests),
                entry=answered.entry,
                notes=said.notes,
                warnings=said.warnings,
            )
        )
    return Batch(results, charge=answered.charge, guarantee=answered.guarantee, measurements=answered.measurements)


def remarks_of(
    requests: Sequence[Request],
    prepared: Sequence[PreparedQuery],
    measured: tuple[Measurement, ...],
    reuse: Reuse | None,
    profiles: KnownProfiles,
    catalog: Catalog,
) -> list[Remarks]:
    """Returns for each query what is told with its answer; refuses errors that are out of reach."""
    bounds = requests[0].bounds
    ranked = [made for made in measured if made.unit == "ranks"]
    for request, one in zip(requests, prepared, strict=True):
        profiles.require_reachable(one, request, reuse)
    return [
        Remarks(
            notes=profiles.notes(one, measured, bounds, reuse),
            warnings=(
                *unlisted_constants(one.private.aggregates, catalog),
                *(dict.fromkeys(profiles.too_small(one, measured, bounds, reuse)) if ranked else ()),
            ),
        )
        for one in prepared
    ]


def _require_unchanged(backend: Backend) -> None:
    """Raises BackendError where the data are not those that were opened; the words of other errors may quote them."""
    try:
        backend.check()
        return
    except DPQueryError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise BackendError(f"the tables could not be looked at ({kind}); nothing was charged")
