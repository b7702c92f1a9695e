"""Queries in steps: what a step releases is a table of constants for the next; each is a request of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from dpquery.errors import InsufficientBudgetError, UnsupportedQueryError
from dpquery.kernel.checks import blocks_of
from dpquery.kernel.loss import ZERO
from dpquery.ledger.ledger import Ledger
from dpquery.plan.types import Value
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.result.batch import Batch
from dpquery.result.table import Result
from dpquery.reuse.query_split import QuerySplit
from dpquery.session.options import Request
from dpquery.sql.bind.steps import MOST_ROWS


def in_steps(request: Request, count: int) -> tuple[Request, ...]:
    """Returns the requests of a query with so many steps before its answer, which is last: each has an equal part of
    the loss.

    Raises:
        UnsupportedQueryError: An error is asked for instead of a loss.
    """
    if not count:
        return (request,)
    if request.accuracy is not None:
        raise UnsupportedQueryError(
            "error= cannot be asked of a query that uses a released result to choose private rows",
            advice="Give epsilon= or rho= instead, or ask for the inner query first and write its answer here.",
        )
    amounts = {"epsilon": request.offer.epsilon, "delta": request.offer.delta, "rho": request.offer.rho}
    offer = QueryBudget(**{name: None if x is None else x / (count + 1) for name, x in amounts.items()})
    part = replace(request, offer=offer)
    return (*(replace(part, step=place, weights={}) for place in range(count)), part)


def answered_in_steps(requests: Sequence[Request], answer: Callable[[Request], Result]) -> Batch:
    """Returns the answer of the last request, which reads those of the others.

    Raises:
        UnsupportedQueryError: A step released more rows than fit.
    """
    last, earlier = with_given(requests, answer)
    found = answer(last).after(earlier)
    return Batch([found], charge=found.charge, guarantee=found.guarantee, measurements=found.measurements)


def with_given(requests: Sequence[Request], answer: Callable[[Request], Result]) -> tuple[Request, list[Result]]:
    """Returns the last request with what the others release, and their answers; raises as `answered_in_steps`."""
    given: tuple[tuple[tuple[Value, ...], ...], ...] = ()
    earlier: list[Result] = []
    for request in requests[:-1]:
        found = answer(replace(request, given=given))
        earlier.append(found)
        given = (*given, _rows(found))
    return replace(requests[-1], given=given), earlier


def _rows(answer: Result) -> tuple[tuple[Value, ...], ...]:
    if len(answer) > MOST_ROWS:
        raise UnsupportedQueryError(
            f"a step released {len(answer):,} rows, and at most {MOST_ROWS:,} can choose private rows; it is charged",
            advice="Keep fewer of them by HAVING, or ORDER BY and LIMIT.",
        )
    columns = [column.to_pylist() for column in answer.to_arrow().columns]
    return tuple(tuple(map(_finite, row)) for row in zip(*columns, strict=True))


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def require_enough(divided: Sequence[QuerySplit], ledger: Ledger, analyst: str) -> None:
    """Raises InsufficientBudgetError where all steps together cost more than is left for any of them."""
    declared = ledger.declarations
    total = sum((parts.charge(ledger.budget.kind, declared) for parts in divided), ZERO)
    for parts in divided:
        remaining = ledger.remaining(analyst, blocks_of(parts.rest, declared))
        if total.epsilon > remaining.epsilon or total.rho > remaining.rho or total.delta > remaining.delta:
            raise InsufficientBudgetError(
                f"The query costs {total} in {len(divided)} steps; what is left is {remaining}.",
                requested=total,
                remaining=remaining,
            )
