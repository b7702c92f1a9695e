"""The flow of a query, a call for each stage: `plan`, from text to what is measured, and `answer`, from there on.

The parts of the first are in `planning.py`, those of the second in `answering.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpquery.backends.base import PublicFacts
from dpquery.backends.features import NO_GAPS, Gaps
from dpquery.catalog import Catalog
from dpquery.ledger.ledger import Ledger
from dpquery.planner.passes import BUDGET, PROTECT, Draft, Observer, run_passes
from dpquery.result.batch import Batch
from dpquery.reuse.answers import combined, turn
from dpquery.reuse.dividing import Reuse, Split, split
from dpquery.session.answering import Surroundings, Told, after_charge, finished, measured
from dpquery.session.options import Request
from dpquery.session.planning import (
    Prepared,
    bound,
    first_refused,
    in_form_of_store,
    located,
    prepared_of,
    require_answerable,
    terms_of,
    together,
)


def plan(
    requests: Sequence[Request],
    *,
    catalog: Catalog,
    ledger: Ledger,
    public: PublicFacts,
    gaps: Gaps = NO_GAPS,
    observe: Observer | None = None,
    derives: bool = False,
) -> tuple[Prepared, ...]:
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

    def private(some: Sequence[Request]) -> Draft:
        return run_passes(PROTECT, Draft(logical=bound(some, catalog)), terms, observe)

    with located(requests):
        protected = first_refused(requests, private)
        budgeted = run_passes(BUDGET, protected, terms, observe)
        chosen = together(protected, budgeted, requests[0], terms, ledger, derives)
        require_answerable(chosen, terms, gaps)
    return prepared_of(chosen)


def divide(prepared: Sequence[Prepared], *, ledger: Ledger, reuse: Reuse | None) -> Split:
    """Returns what of prepared queries is stored, and what is to be measured; reads no private row."""
    first, declared = prepared[0], ledger.declarations
    wanted, plain = in_form_of_store(first, declared, reuse)
    return split(first.budgeted, wanted, reuse, declared, first.follows, plain, len(first.read), first.failure)


def answer(
    requests: Sequence[Request],
    prepared: Sequence[Prepared],
    parts: Split,
    told: Sequence[Told],
    around: Surroundings,
) -> Batch:
    """Answers queries that were planned together: the stages in order, and nothing else.

    Args:
        parts: What of them is stored, and what is to be measured.
        told: For each what its answer says beside its intervals.
    """
    declared = around.ledger.declarations
    with turn(parts, around.reuse, declared) as lacking:
        noisy = measured(requests, prepared, lacking.rest, around)
        answered = after_charge(noisy, lambda: combined(lacking, noisy, around.reuse, declared))
    return after_charge(noisy, lambda: finished(requests, prepared, told, answered, around.backend))
