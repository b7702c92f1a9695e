"""The flow of a query, a call for each stage: `answer_queries`, which a session calls, and below it its stages.

`plan` goes from texts to what is measured; `divide` says what of that is stored; `answer` releases the rest. The parts
of the first are in `planning.py`, those of the last in `answering.py`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

from dpquery.backends.base import PublicFacts
from dpquery.backends.features import NO_GAPS, Gaps
from dpquery.catalog import Catalog
from dpquery.ledger.ledger import Ledger
from dpquery.planner.passes import BUDGET, PROTECT, Draft, Observer, run_passes
from dpquery.result.batch import Batch
from dpquery.reuse.answers import combine_with_stored, one_at_a_time
from dpquery.reuse.query_split import QuerySplit, Reuse, split
from dpquery.session.answering import Execution, Remarks, after_charge, finish_all, release_rest
from dpquery.session.options import Request
from dpquery.session.planning import (
    PreparedQuery,
    as_stored,
    bind_all,
    blaming_one,
    errors_located,
    parse_all,
    prepare,
    require_answerable,
    share_measurements,
    terms_of,
)

if TYPE_CHECKING:
    from dpquery.session.stages import Stages

_LIBRARIES = ThreadpoolController()
_LIMITING = threading.Lock()
"""Held by the one thread that limits them: what the last of several restored would be the limit."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limits linear algebra to one thread: those of OpenBLAS wait for each other in busy loops, so that where other
    work has the processors two take up to twenty times as long. Until
    https://github.com/OpenMathLib/OpenBLAS/issues/5171 ends."""
    if not _LIMITING.acquire(blocking=False):
        yield
        return
    try:
        with _LIBRARIES.limit(limits=1, user_api="blas"):
            yield
    finally:
        _LIMITING.release()


def answer_queries(requests: tuple[Request, ...], own: Stages, reuse: Reuse | None) -> tuple[Batch, bool]:
    """Answers queries that share one charge: the whole flow, a call for each stage, and nothing else.

    Args:
        own: What the session adds to the stages: `own.prepared` is `plan`, or what is kept of it.
        reuse: How stored answers are used; None where nothing is stored.
    Returns:
        The answers, and whether they may be kept: computed from stored releases alone, whenever asked.
    """
    prepared = own.prepared(requests, reuse)
    if prepared[0].steps:
        return own.in_steps(requests, prepared[0].steps, reuse), False
    parts = divide(prepared, ledger=own.ledger, reuse=reuse)
    remarks = own.remarks(requests, prepared, parts, reuse)
    with own.executing(requests, reuse) as execution:
        answers = answer(requests, prepared, parts, remarks, execution)
    return answers, bool(parts.wanted) and not parts.rest.aggregates and not prepared[0].reads_clock


@one_thread()
def plan(
    requests: Sequence[Request],
    *,
    catalog: Catalog,
    ledger: Ledger,
    public: PublicFacts,
    gaps: Gaps = NO_GAPS,
    observe: Observer | None = None,
    derives: bool = False,
) -> tuple[PreparedQuery, ...]:
    """Returns the plans of queries that are measured at once: they share tables, one split and one charge.

    Args:
        requests: They differ in their texts and parameters alone.
        public: What may be known of data; no private row is read.
        gaps: What the backend lacks that is to answer.
        observe: Is told of each pass.
        derives: Whether what follows from other numbers of a batch is left out; it is computed from what is stored.
    Raises:
        QueryError: What is refused, with its place in the text.
    """
    terms = terms_of(requests[0], catalog, ledger, public)

    def protect(some: Sequence[Request]) -> Draft:
        logical = bind_all(parse_all(some), some, catalog)
        return run_passes(PROTECT, Draft(logical=logical), terms, observe)

    with errors_located(requests):
        private = blaming_one(requests, protect)
        budgeted = run_passes(BUDGET, private, terms, observe)
        shared = share_measurements(private, budgeted, requests[0], terms, ledger, derives)
        require_answerable(shared, terms, gaps)
    return prepare(shared)


@one_thread()
def divide(prepared: Sequence[PreparedQuery], *, ledger: Ledger, reuse: Reuse | None) -> QuerySplit:
    """Returns what of prepared queries is stored, and what is to be measured; reads no private row."""
    first, declared = prepared[0], ledger.declarations
    wanted, plain = as_stored(first, declared, reuse)
    return split(first.budgeted, wanted, reuse, declared, first.follows, plain, len(first.read), first.failure)


@one_thread()
def answer(
    requests: Sequence[Request],
    prepared: Sequence[PreparedQuery],
    parts: QuerySplit,
    remarks: Sequence[Remarks],
    execution: Execution,
) -> Batch:
    """Answers queries that were planned together: the stages in order, and nothing else.

    Args:
        parts: What of them is stored, and what is to be measured.
        remarks: For each what its answer says beside its intervals.
    """
    reuse, declared = execution.reuse, execution.ledger.declarations
    with one_at_a_time(parts, reuse, declared) as lacking:
        noisy = release_rest(requests, prepared, lacking.rest, execution)
        released = after_charge(noisy, lambda: combine_with_stored(lacking, noisy, reuse, declared))
    return after_charge(noisy, lambda: finish_all(requests, prepared, remarks, released, execution.backend))
