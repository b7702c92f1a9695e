"""What is asked with queries: options as an analyst gives them, and requests that are made of them."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypedDict, TypeVar, Unpack

from dpquery.catalog.tables import Defaults
from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import parse_amount
from dpquery.plan.types import Value
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.budget.targets import AccuracyTarget
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.result.simultaneous import read_confidence
from dpquery.sql.parse.parameters import Given

MOST_QUERIES = 50
"""Queries of one batch."""
MOST_NAMES = 1000
"""Columns that can be given weights or errors at once."""
PARAMETERS = frozenset({type(None), bool, int, float, Decimal, str, datetime.date, datetime.datetime})
LOSSES = ("epsilon", "rho", "error")
"""Of these a query asks for one."""

Method = TypeVar("Method", bound=Callable[..., Any])


class Asked(TypedDict, total=False):
    """The fields of `Options`, as keyword arguments."""

    epsilon: object
    delta: object
    rho: object
    error: object
    weights: Mapping[str, object] | None
    max_groups: int | None
    max_rows: int | None
    dialect: str
    confidence: object
    simultaneous: bool
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked with queries. `Session.sql`, `batch` and `explain` also take each field as a keyword argument, in
    place of that of their `options`.

    Attributes:
        epsilon, delta, rho: What the query may lose, as str, int, Decimal, Fraction or float; by default what the
            catalog says.
        error: Instead of a loss, the largest half-width of the intervals: a number for all columns, or a dict of
            columns. The least loss for it is charged. Counts and sums can have one; averages and ratios to counts with
            the rows that a group is assumed to have at least: `error={"mean": (0.5, 1000)}`; quantiles, minima and
            maxima in ranks.
        weights: A dict of columns to positive numbers: a column of weight 2 gets twice the loss of one of weight 1.
        max_rows: In place of the table's weights: rows of a privacy unit weigh in full up to so many, counted in
            the query's own relation (after WHERE). Such answers add up with no others.
        max_groups: In how many groups a unit counts where units are counted, instead of what the catalog says.
        dialect: The SQL dialect of the query; any that sqlglot reads.
        confidence: Of the intervals, between 0 and 1.
        simultaneous: Whether it is the confidence with which all intervals of an answer, and all errors that are asked
            for, hold at once; otherwise that of each by itself.
        fresh: Whether everything is measured again and charged for, also what is stored; later answers combine both.

    Example:
        >>> usual = Options(epsilon="0.1", dialect="duckdb")
        >>> usual.but(rho="0.01").epsilon is None
        True
    """

    epsilon: object = None
    delta: object = None
    rho: object = None
    error: object = None
    weights: Mapping[str, object] | None = None
    max_groups: int | None = None
    max_rows: int | None = None
    dialect: str = "postgres"
    confidence: object = "0.95"
    simultaneous: bool = False
    fresh: bool = False

    def __repr__(self) -> str:
        said = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        usual = {one.name: one.default for one in dataclasses.fields(self)}
        return f"Options({', '.join(f'{name}={value!r}' for name, value in said.items() if value != usual[name])})"

    def but(self, **asked: Unpack[Asked]) -> Options:
        """Returns these options with others: a loss replaces the loss here, not its delta; None replaces nothing."""
        if unknown := sorted(asked.keys() - set(NAMES)):
            raise TypeError(f"{unknown[0]!r} is not an option of a query; known: {', '.join(NAMES)}")
        given: dict[str, Any] = {n: value for n, value in asked.items() if value is not None or n not in UNSAID}
        replaced = dict.fromkeys(LOSSES) if any(name in given for name in LOSSES) else {}
        return dataclasses.replace(self, **{**replaced, **given})

    def request(self, query: str, params: Given, defaults: Defaults) -> Request:
        """Returns the request of a query with these options.

        Raises:
            InvalidLossError: A loss, an error, a weight or a confidence out of its domain, or two that exclude each
                other.
        """
        if type(self.simultaneous) is not bool:
            raise InvalidLossError("simultaneous must be True or False")
        offer = QueryBudget.of(self.epsilon, self.delta, self.rho)
        bounds = ContributionBounds(max_groups=self.max_groups, max_rows=self.max_rows)
        held = read_confidence(self.confidence)
        usual = QueryBudget(epsilon=defaults.epsilon, delta=defaults.delta, rho=defaults.rho)
        asks_error = self.error is not None
        if asks_error and (offer.epsilon is not None or offer.rho is not None):
            raise InvalidLossError("give either a privacy loss or error=, not both", advice="Leave one of them out.")
        if asks_error and self.weights:
            raise InvalidLossError(
                "weights= divides a privacy loss, so it cannot be combined with error=", advice="Leave one of them out."
            )
        return Request(
            text=query,
            offer=offer.or_default(usual),
            bounds=bounds,
            dialect=self.dialect,
            confidence=held,
            params=tuple(params) if isinstance(params, list) else dict(params) if isinstance(params, dict) else params,
            weights=_weights(self.weights),
            accuracy=_accuracy(self.error, 1 - held, self.simultaneous) if asks_error else None,
            simultaneous=self.simultaneous,
            fresh=self.fresh,
        )


NAMES = tuple(field.name for field in dataclasses.fields(Options))
NO_OPTIONS = Options()
UNSAID = frozenset(one.name for one in dataclasses.fields(Options) if one.default is None)
"""Options of which None says nothing."""
WRITTEN = {"weight": "weights={'n': 2}", "error": "error={'n': 2}", "number of rows": "error={'n': (2, 1000)}"}
"""How amounts by column are written."""


def takes_options(method: Method) -> Method:
    """Returns a method of `**asked: Unpack[Asked]` whose signature, for `help` and editors, names every option."""
    signature = inspect.signature(method)
    kept = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    named = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in dataclasses.fields(Options)
    ]
    shown: Any = method
    shown.__signature__ = signature.replace(parameters=[*kept, *named])
    return method


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A query and all that is asked with it.

    Attributes:
        params: The values of the query's parameters, by position or by name.
        weights: How much the errors of columns count when the loss is split.
        accuracy: The errors asked for instead of a loss.
        simultaneous: Whether all intervals of the answer hold at once with the confidence.
        fresh: Whether nothing that is stored is read.
        given: What the first steps of the query released, where it has steps.
        step: Which of its steps is asked, from 0; None for its answer.
    """

    text: str
    offer: QueryBudget
    bounds: ContributionBounds
    dialect: str = "postgres"
    confidence: Fraction = Fraction(95, 100)
    params: Given = None
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    accuracy: AccuracyTarget | None = None
    simultaneous: bool = False
    fresh: bool = False
    given: tuple[tuple[tuple[Value, ...], ...], ...] = ()
    step: int | None = None

    @property
    def key(self) -> tuple[object, ...] | None:
        """What tells requests apart, parameters by their types too; None for what will be refused."""
        given = () if self.params is None else self.params
        if not isinstance(given, Mapping | tuple):
            return None
        params = given if isinstance(given, Mapping) else dict(enumerate(given))
        if {type(self.text), type(self.dialect)} != {str} or not {*map(type, params.values())} <= PARAMETERS:
            return None
        errors = () if self.accuracy is None else (self.accuracy.errors, self.accuracy.failure, self.accuracy.rows)
        amounts = (repr(self.offer), repr(self.bounds), repr(self.weights), repr(errors), str(self.confidence))
        return (
            self.text,
            self.dialect,
            self.simultaneous,
            *amounts,
            tuple((name, type(v), repr(v)) for name, v in params.items()),
            self.step,
            repr(self.given),
        )

    def of_part(self, share: Fraction) -> Request:
        """Returns the request for a part of what it offers to lose."""
        epsilon, rho = (None if x is None else x * share for x in (self.offer.epsilon, self.offer.rho))
        return replace(self, offer=replace(self.offer, epsilon=epsilon, rho=rho))

    @property
    def recorded(self) -> str:
        """The text for the ledger's log, with the values of its parameters."""
        step = "" if self.step is None else f"\n-- step {self.step + 1}"
        return f"{self.text}{step}" if not self.params else f"{self.text}\n-- params: {self.params!a}{step}"


def _weights(given: object) -> dict[str, Fraction]:
    """Returns the weights of columns; raises InvalidLossError for what is none."""
    found = _amounts({} if given is None else given, "weight")
    if isinstance(found, Fraction):
        raise InvalidLossError("weights must name columns", advice=f"Write {WRITTEN['weight']}.")
    if found and max(found.values()) / min(found.values()) > 10**6:
        raise InvalidLossError("weights may differ by at most a factor of a million")
    return found


def _accuracy(given: object, failure: Fraction, simultaneous: bool) -> AccuracyTarget:
    """Returns what `error=` asks: a number, or for each column one or a pair of it and the rows that are assumed."""
    if not isinstance(given, dict):
        return AccuracyTarget(errors=_amounts(given, "error"), failure=failure, simultaneous=simultaneous)
    pairs = {name: value for name, value in given.items() if isinstance(value, tuple | list)}
    if any(len(pair) != 2 for pair in pairs.values()):
        raise InvalidLossError(
            "an error must be a number, or a pair of a number and rows", advice="Write error={'mean': (0.5, 1000)}."
        )
    errors = _amounts({name: pairs[name][0] if name in pairs else given[name] for name in given}, "error")
    rows = _amounts({name: pair[1] for name, pair in pairs.items()}, "number of rows")
    assert not isinstance(errors, Fraction) and not isinstance(rows, Fraction)
    return AccuracyTarget(errors=errors, failure=failure, rows=rows, simultaneous=simultaneous)


def _amounts(given: object, what: str) -> dict[str, Fraction] | Fraction:
    """Returns one positive amount, or one for each column named."""
    if not isinstance(given, dict):
        return parse_amount(given, name=what)
    if len(given) > MOST_NAMES or any(type(name) is not str for name in given):
        raise InvalidLossError(f"each {what} must be given by column name", advice=f"Write {WRITTEN[what]}.")
    return {name: parse_amount(value, name=f"the {what} of {name}") for name, value in given.items()}


def several(queries: Sequence[str], options: Options, defaults: Defaults) -> tuple[Request, ...]:
    """Returns the requests of a batch; raises InvalidLossError for what is no list of queries."""
    if not isinstance(queries, list | tuple) or not 1 <= len(queries) <= MOST_QUERIES:
        raise InvalidLossError(f"a batch must be a list of 1 to {MOST_QUERIES} queries", advice="Write [query, query].")
    return tuple(options.request(query, None, defaults) for query in queries)
