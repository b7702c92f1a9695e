"""Values of made-up rows, by column: at bounds and beyond them, missing, unreadable as numbers, listed and not."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import ClassVar

from dpquery.catalog.tables import ColumnDeclaration
from dpquery.plan.calendar import By, first_day
from dpquery.plan.types import Kind, Type

FIRST_DAY = datetime.date(2000, 1, 1)
SHARED = ("n0", "n1", "n2", "n3")
ODD_TEXTS = ("", " ", "NaN", "-0", "1e400", "'; DROP TABLE t; --", '"', "\\", "\u202e", "é", "a" * 300)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the rows of one unit are like.

    Attributes:
        values: Of numbers and dates, `high` and `low` at the bounds, `above` and `below` far beyond them.
        keys: Of groups, the `same` in all rows, `each` row another one, `unlisted`, or `mixed`.
        rows: How many: `one`, `few`, `full` as the table says, `heavy` with more.
        key: Which of the keys is first.
    """

    values: str
    keys: str
    rows: str
    key: int = 0

    VALUES: ClassVar[tuple[str, ...]] = ("low", "high", "below", "above", "null", "odd", "mixed")
    KEYS: ClassVar[tuple[str, ...]] = ("same", "each", "unlisted", "mixed")
    ROWS: ClassVar[tuple[str, ...]] = ("one", "few", "full", "heavy")

    @property
    def words(self) -> str:
        """The recipe for people."""
        which = {"same": f"key {self.key + 1}", "each": "every key", "unlisted": "unlisted keys", "mixed": "any keys"}
        return f"{self.rows} rows, values {self.values}, {which[self.keys]}"


@dataclass(frozen=True, kw_only=True)
class ValuePool:
    """Draws values of columns.

    Attributes:
        known: Values of interest by kind of type.
        keys_from: Gives the values of a public column.
    """

    random: Random
    known: Mapping[Kind, Sequence[object]]
    keys_from: Callable[[str, str], Sequence[object]]

    def value(self, column: ColumnDeclaration, recipe: Recipe, place: int, unit: int) -> object:
        """Returns a value of a column in the row at this place of a unit."""
        listed = self._listed(column)
        known = self.known.get(column.type.kind, ())
        if known and recipe.values == "mixed" and self.random.random() < 0.4:
            return self.random.choice(known)
        if listed or column.type.kind in (Kind.BOOLEAN, Kind.TEXT):
            return self._key(column, listed or self._unlisted_keys(column, known), recipe, place, unit)
        if column.type.kind in (Kind.DATE, Kind.TIMESTAMP):
            return self._moment(column, recipe, place)
        if column.lower is None and recipe.keys == "each" and recipe.values in ("low", "high"):
            return _as_type(column.type, place)
        return self._number(column, recipe)

    def _listed(self, column: ColumnDeclaration) -> Sequence[object]:
        if column.randomized is not None:
            return column.randomized.categories
        if column.keys is not None:
            return column.keys
        return self.keys_from(*column.keys_from) if column.keys_from is not None else ()

    def _unlisted_keys(self, column: ColumnDeclaration, known: Sequence[object]) -> Sequence[object]:
        return (True, False) if column.type.kind is Kind.BOOLEAN else (*known, *SHARED)

    def _key(
        self, column: ColumnDeclaration, listed: Sequence[object], recipe: Recipe, place: int, unit: int
    ) -> object:
        match recipe.keys:
            case "same":
                return listed[recipe.key % len(listed)]
            case "each":
                free = column.type.kind is Kind.TEXT and not self._listed(column)
                return f"n{place}" if free else listed[(place + recipe.key) % len(listed)]
            case "unlisted":
                return unlisted(column.type, unit, place)
        odd = ODD_TEXTS if column.type.kind is Kind.TEXT and self.random.random() < 0.1 else ()
        return self.random.choice([*listed, *listed, None, *odd])

    def _number(self, column: ColumnDeclaration, recipe: Recipe) -> object:
        low, high = (0, 9) if column.lower is None or column.upper is None else (column.lower, column.upper)
        kind, random = column.type.kind, self.random
        style = (
            random.choice(Recipe.VALUES[:6]) if recipe.values == "mixed" and random.random() < 0.5 else recipe.values
        )
        match style:
            case "low" | "high":
                return _as_type(column.type, low if style == "low" else high)
            case "below" | "above":
                sign = -1 if style == "below" else 1
                return sign * _far(column.type, random)  # type: ignore[operator]
            case "null":
                return math.nan if kind is Kind.FLOAT64 and random.random() < 0.5 else None
            case "odd":
                odd = (math.nan, math.inf, -math.inf, -0.0, None, 5e-324)
                return random.choice(odd) if kind is Kind.FLOAT64 else random.choice([None, _as_type(column.type, low)])
        lower, upper = float(low), float(high)  # type: ignore[arg-type]
        drawn = random.uniform(lower - 1, upper + 1)
        return _as_type(column.type, drawn)

    def _moment(self, column: ColumnDeclaration, recipe: Recipe, place: int) -> object:
        low, high = column.lower, column.upper
        is_date = column.type.kind is Kind.DATE
        first = low if isinstance(low, datetime.date) else FIRST_DAY
        last = high if isinstance(high, datetime.date) else FIRST_DAY + datetime.timedelta(days=400)
        style = self.random.choice(Recipe.VALUES[:6]) if recipe.values == "mixed" else recipe.values
        days = max(1, (last - first).days + 1)
        day: datetime.date | None
        match style:
            case "low":
                day = first if recipe.keys == "same" else _moved(first, place % days)
            case "high":
                day = last if recipe.keys == "same" else _moved(last, -(place % days))
            case "below":
                day = datetime.date(1, 1, 1)
            case "above":
                day = datetime.date(9999, 12, 31)
            case "null":
                day = None
            case _:
                day = _moved(first, self.random.randrange(days))
        return day if day is None or is_date else _midday(day)


def _moved(day: datetime.date, by: int) -> datetime.date:
    return day + datetime.timedelta(days=by)


def _midday(day: datetime.date) -> datetime.datetime:
    return day if isinstance(day, datetime.datetime) else datetime.datetime.combine(day, datetime.time(12))


def _far(type: Type, random: Random) -> object:
    match type.kind:
        case Kind.INT64:
            return 2**63 - 1
        case Kind.DECIMAL:
            return Decimal(10**type.precision - 1).scaleb(-type.scale)
        case _:
            return random.choice([1e300, math.inf])


def _as_type(type: Type, value: object) -> object:
    number = float(value) if not isinstance(value, int | Decimal) else value  # type: ignore[arg-type]
    match type.kind:
        case Kind.INT64:
            return int(number)
        case Kind.DECIMAL:
            return Decimal(number).quantize(Decimal(1).scaleb(-type.scale))
        case _:
            return float(number)


def serial(type: Type, number: int) -> object:
    """Returns the value of a type that has this number: different numbers are different values."""
    match type.kind:
        case Kind.INT64 | Kind.INTERVAL:
            return number
        case Kind.DECIMAL:
            return Decimal(number).scaleb(-type.scale)
        case Kind.FLOAT64:
            return float(number)
        case Kind.TEXT:
            return f"n{number}"
        case Kind.BOOLEAN:
            return bool(number % 2)
        case Kind.DATE:
            return FIRST_DAY + datetime.timedelta(days=number)
        case Kind.TIMESTAMP:
            return _midday(FIRST_DAY + datetime.timedelta(days=number))


def unlisted(type: Type, unit: int, place: int) -> object:
    """Returns a value that is no public key, and that no other unit has."""
    match type.kind:
        case Kind.TEXT:
            return f"alone {unit} {place}"
        case Kind.BOOLEAN:
            return None
        case Kind.INT64 | Kind.FLOAT64 | Kind.DECIMAL:
            return _as_type(
                type, 10**6 + unit if type.kind is not Kind.DECIMAL else 10 ** (type.precision - type.scale) - 1
            )
        case _:
            return datetime.date(1900, 1, 1) if type.kind is Kind.DATE else datetime.datetime(1900, 1, 1)


def number_within(column: ColumnDeclaration, block: int, by: By, random: Random) -> object:
    """Returns a date in a block: its first or last day, or another."""
    first, after = first_day(block, by), first_day(block + 1, by)
    days = (after - first).days
    day = _moved(first, random.choice([0, days - 1, random.randrange(days)]))
    return day if column.type.kind is Kind.DATE else _midday(day)
