"""Bounds without guessing: private histograms over public ladders, and the bounds that they suggest.

Every number comes out of ordinary queries, answered through the session and charged as one. The ladder of a type is
public: 1, 2, 5, 10, 20, ... with both signs, or years. Each privacy unit counts once, with its largest value, its
smallest, and its number of rows. What is done with the noisy histograms is post-processing.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from dpquery.catalog import Catalog, ColumnDeclaration, Table
from dpquery.catalog.names import quoted, shown
from dpquery.catalog.rows import AUTO, has_one_row
from dpquery.catalog.write import write_catalog
from dpquery.errors import ParameterError, UnknownNameError
from dpquery.kernel.loss import PrivacyLoss, parse_amount
from dpquery.plan.types import Kind, Type, Value
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.result.batch import Batch
from dpquery.result.table import Result
from dpquery.session.profile import TableProfile

Ask = Callable[[Sequence[str], str], Batch]
"""Answers queries at once, with intervals of a confidence."""

MANTISSAS = (1, 2, 5)
LARGEST_ROWS = 1_000_000
MISSED = Fraction(1, 1000)
"""Chance that some empty step of a histogram is taken for one with people in it, at most."""
YEARS = range(1800, 2201)
NUMERIC = (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """What was found; `str()` is a whole catalog to edit.

    Attributes:
        bounds: For each column, as (table, column), its lower and upper bound.
        max_rows: For each table how many rows of one unit to declare.
        missing: Columns for which the noise is larger than any step of the histogram.
        charge: What the ledger counted.
    """

    bounds: Mapping[tuple[str, str], tuple[Value, Value]]
    max_rows: Mapping[str, int]
    missing: tuple[tuple[str, str], ...]
    charge: PrivacyLoss
    catalog: Catalog = field(repr=False)
    coverage: Fraction = field(repr=False)
    profiled: frozenset[str] = field(default=frozenset(), repr=False)

    def __str__(self) -> str:
        part = f"about {float(self.coverage * 100):g} % of units"
        notes = [
            f"Bounds and max_rows with a comment are suggested: {part} have all their values, or rows, within.",
            f"Charged {self.charge}. Edit them as you see fit, and load the catalog with the same ledger.",
        ]
        if self.profiled:
            notes.append(f"max_rows of {', '.join(sorted(self.profiled))}: of the profile, for queries of 24 groups.")
        notes += [
            f"{table}.{column}: too few units for this epsilon; nothing was found." for table, column in self.missing
        ]
        notes += [
            f"{name}.max_rows: nothing was found; write a number."
            for name, table in self.catalog.tables.items()
            if table.max_rows is AUTO and name not in self.max_rows
        ]
        return write_catalog(self.catalog, bounds=self.bounds, max_rows=self.max_rows, notes=notes, why="suggested")

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One histogram: of which column or of rows, which end, over which steps."""

    table: str
    column: str | None
    upper: bool
    steps: tuple[Value, ...]
    query: str


def suggest(
    catalog: Catalog,
    ask: Ask,
    columns: Sequence[str] | None,
    coverage: object,
    profiles: Mapping[str, TableProfile],
    offer: QueryBudget,
) -> Suggestions:
    """Returns suggested bounds.

    Args:
        columns: As `column` or `table.column`; None for all numbers, dates and timestamps without bounds.
        coverage: The part of units that bounds hold all of, between 0 and 1.
        profiles: What was bought of tables; their rows are not asked again, and the bound is the profile's.
        offer: What this may lose; it stands for usual queries where the catalog does not say what they lose.
    Raises:
        UnknownNameError: A column is not declared.
        ParameterError: A column can have no bounds, or there is nothing to ask.
    """
    if catalog.withholds:
        raise ParameterError(
            "bounds are suggested from counts of few people, which min_units withholds",
            advice="Suggest bounds before min_units is declared, or declare bounds that you know.",
        )
    part = parse_amount(coverage, name="coverage")
    if part >= 1:
        raise ParameterError("coverage must be between 0 and 1", advice="0.99 is usual.")
    wanted = _chosen(catalog, columns)
    asked = [one for table, column in wanted for one in _of_column(catalog.tables[table], column)]
    measured = _measured(catalog) if columns is None else []
    for name in dict.fromkeys([*(table for table, _ in wanted), *measured]):
        asked += [] if name in profiles else _of_rows(catalog.tables[name], catalog)
    longest = max(len(one.steps) for one in asked) + 1
    level = 1 - MISSED / longest
    answers = ask([one.query for one in asked], str(level))
    bounds: dict[tuple[str, str], tuple[Value, Value]] = {}
    rows = {name: _of_profile(profiles[name], offer) for name, _ in wanted if name in profiles}
    profiled = frozenset(rows)
    found = [_step(one, answer, part) for one, answer in zip(asked, answers, strict=True)]
    for one, place in zip(asked, found, strict=True):
        if one.column is None and place is not None and place < len(one.steps):
            rows[one.table] = int(str(one.steps[place]))
    for (one, low), (_, high) in _pairs(asked, found):
        if low is not None and high is not None:
            bounds[one.table, one.column or ""] = (one.steps[max(0, low - 1)], one.steps[min(high, len(one.steps) - 1)])
    return Suggestions(
        bounds=bounds,
        max_rows=rows,
        missing=tuple((table, column.name) for table, column in wanted if (table, column.name) not in bounds),
        charge=answers.charge,
        catalog=catalog,
        coverage=part,
        profiled=profiled,
    )


def _of_profile(found: TableProfile, offer: QueryBudget) -> int:
    """Returns the bound for queries that lose what the catalog says, or else as much as is offered here."""
    if found.is_assumed and (offer.epsilon is not None or offer.rho is not None):
        return found.suggest_max_rows(epsilon=offer.epsilon, rho=offer.rho)
    return found.suggest_max_rows()


def _pairs(
    asked: Sequence[_Asked], found: Sequence[int | None]
) -> list[tuple[tuple[_Asked, int | None], tuple[_Asked, int | None]]]:
    """Returns the two ends of each column."""
    ends = [(one, place) for one, place in zip(asked, found, strict=True) if one.column is not None]
    return list(zip(ends[0::2], ends[1::2], strict=True))


def _chosen(catalog: Catalog, names: Sequence[str] | None) -> list[tuple[str, ColumnDeclaration]]:
    private = {name: table for name, table in catalog.tables.items() if not table.public}
    if names is None:
        found = [
            (name, column)
            for name, table in private.items()
            for column in table.columns.values()
            if column.lower is None and _has_bounds(column.type) and not _is_link(table, column.name)
        ]
    else:
        if isinstance(names, str):
            raise ParameterError("columns must be a list of names, not a single string", advice="Write ['spend'].")
        found = [one for name in names for one in _named(private, name)]
    if not found and not (names is None and _measured(catalog)):
        reason = "there is no column to find bounds for"
        reason += ": numbers, dates and timestamps have bounds already" if names is None else ""
        raise ParameterError(reason, advice="Name one, as visits.spend, to find others.")
    for table, column in found:
        if not _has_bounds(column.type) or column.randomized is not None:
            raise ParameterError(f"{table}.{column.name} can have no bounds: it is {column.type}")
    return list(dict.fromkeys(found))


def _measured(catalog: Catalog) -> list[str]:
    """Returns the tables whose number of rows is to be measured, and that name their unit themselves."""
    return [name for name, table in catalog.tables.items() if table.max_rows is AUTO and _unit(table) is not None]


def _named(private: Mapping[str, Table], name: str) -> list[tuple[str, ColumnDeclaration]]:
    found = [
        (place, table.columns[column])
        for place, table in private.items()
        for column in (str(name), str(name).removeprefix(f"{place}."))
        if column in table.columns
    ]
    if not found:
        raise UnknownNameError(f"{shown(name)} is not a declared column of a private table")
    return found


def _has_bounds(type: Type) -> bool:
    return type.kind in (*NUMERIC, Kind.DATE, Kind.TIMESTAMP)


def _is_link(table: Table, column: str) -> bool:
    """Whether a column tells whose a row is, which no query sums."""
    path = table.ownership.path if table.ownership is not None else ()
    own = {child for child, _, _ in path[0].on} if path else {*table.ownership.columns} if table.ownership else set()
    return column in own or any({column} == columns for columns in table.unique)


def _of_column(table: Table, column: ColumnDeclaration) -> list[_Asked]:
    """Returns the histograms of the smallest and the largest values, in this order."""
    steps = _ladder(column.type)
    return [
        _Asked(
            table=table.name, column=column.name, upper=upper, steps=steps, query=_query(table, column, steps, upper)
        )
        for upper in (False, True)
    ]


def _of_rows(table: Table, catalog: Catalog) -> list[_Asked]:
    """Returns the histogram of rows of one unit, where the table names its unit."""
    unit = _unit(table)
    if unit is None or table.strata is not None or has_one_row(table.ownership, table.unique):
        return []
    steps = tuple(m * 10**k for k in range(7) for m in (1, 2, 3, 4, 5, 6, 8) if m * 10**k <= LARGEST_ROWS)
    inner = f"SELECT COUNT(*) AS v FROM {quoted(table.name)} GROUP BY {unit}"
    return [_Asked(table=table.name, column=None, upper=True, steps=steps, query=_histogram(inner, steps, True))]


def _query(table: Table, column: ColumnDeclaration, steps: tuple[Value, ...], upper: bool) -> str:
    unit, name = _unit(table), quoted(column.name)
    if unit is None:  # rows by themselves, or found by foreign keys: bounded as the catalog says
        inner = f"SELECT {name} AS v FROM {quoted(table.name)}"
    else:
        largest = f"{'MAX' if upper else 'MIN'}({name}) AS v"
        inner = f"SELECT {largest} FROM {quoted(table.name)} GROUP BY {unit}"
    return _histogram(inner, steps, upper)


def _histogram(inner: str, steps: Sequence[Value], upper: bool) -> str:
    compared = "<=" if upper else "<"
    arms = " ".join(f"WHEN v {compared} {_literal(step)} THEN {place}" for place, step in enumerate(steps))
    step = f"CASE {arms} ELSE {len(steps)} END"
    stepped = f"SELECT {step} AS step FROM ({inner}) AS t WHERE v IS NOT NULL"  # the steps are written and read once
    return f"SELECT step, COUNT(*) AS n FROM ({stepped}) AS s GROUP BY step"


def _unit(table: Table) -> str | None:
    """Returns what a table's rows are grouped by to have one for each unit, where it names its unit."""
    own = table.ownership
    return ", ".join(map(quoted, own.columns)) if own is not None and not own.path else None


def _ladder(type: Type) -> tuple[Value, ...]:
    """Returns the public steps of a type, ascending."""
    if type.kind is Kind.DATE:
        return tuple(datetime.date(year, 1, 1) for year in YEARS)
    if type.kind is Kind.TIMESTAMP:
        return tuple(datetime.datetime(year, 1, 1) for year in YEARS)
    first, last = {Kind.INT64: (0, 18), Kind.FLOAT64: (-6, 15)}.get(
        type.kind, (-type.scale, type.precision - type.scale - 1)
    )
    steps = [Fraction(m) * Fraction(10) ** k for k in range(first, last + 1) for m in MANTISSAS]
    both = sorted({Fraction(0), *steps, *(-step for step in steps)})
    if type.kind is Kind.INT64:
        return tuple(int(step) for step in both)
    if type.kind is Kind.FLOAT64:
        return tuple(float(step) for step in both)
    return tuple(Decimal(step.numerator) / Decimal(step.denominator) for step in both)


def _literal(step: Value) -> str:
    if isinstance(step, datetime.datetime):
        return f"TIMESTAMP '{step.isoformat(sep=' ')}'"
    if isinstance(step, datetime.date):
        return f"DATE '{step.isoformat()}'"
    return format(step, "f") if isinstance(step, Decimal) else repr(step)


def _step(asked: _Asked, answer: Result, coverage: Fraction) -> int | None:
    """Returns the step at which the part of units is reached, from below for upper ends and from above for lower.

    Numbers of units below the half-width of their interval count as none; if all are, nothing is known.
    """
    frame = answer.to_pandas()
    bounds = answer.accuracy["n"]
    floor = (bounds.upper - bounds.lower) / 2
    kept = frame.n.where(frame.n > floor, 0).to_list()
    places = [int(place) for place in frame.step]
    total = sum(kept)
    if total <= 0:
        return None
    pairs = sorted(zip(places, kept, strict=True), reverse=not asked.upper)
    reached = 0
    for place, count in pairs:
        reached += count
        if reached >= math.floor(coverage * total) and reached > 0:
            return place
    return pairs[-1][0]
