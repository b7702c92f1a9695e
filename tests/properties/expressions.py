"""Random expressions over columns with known ranges, and points in those ranges, their ends and NULL among them."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpquery.plan.expr import Case, Column, Expression, Literal
from dpquery.plan.functions import FUNCTIONS, SignatureError, call, cast, castable, common_type
from dpquery.plan.functions.bounds import INT64_MAX, INT64_MIN
from dpquery.plan.ranges import EPOCH, MICROSECOND, Range, number_of
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Kind, Type, Value, decimal

PRICE, WIDE = decimal(8, 2), decimal(20, 6)
TYPES = (BOOLEAN, INT64, FLOAT64, PRICE, WIDE, TEXT, DATE, TIMESTAMP, decimal(5, 0), decimal(18, 9))
UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


def _day(text: str) -> Fraction:
    number = number_of(datetime.date.fromisoformat(text))
    assert number is not None
    return number


_ENDS: dict[Type, list[tuple[object, object]]] = {
    BOOLEAN: [(None, None), (0, 1), (1, 1)],
    INT64: [
        (None, None),
        (0, 100),
        (-5, 5),
        (1, 10),
        (0, 0),
        (-3, -1),
        (0, 2**62),
        (INT64_MIN, INT64_MAX),
        (5, None),
        (-(2**31), 2**31),
        (None, -1),
    ],
    FLOAT64: [
        (None, None),
        (0, 1),
        (-10, 10),
        ("0.1", 5),
        (0, None),
        (None, 3),
        ("-1e300", "1e300"),
        (1, 1),
        (-2, "-0.5"),
        (0, "1e-300"),
        ("1e18", "1e19"),
        (-400, 800),
    ],
    PRICE: [(None, None), (0, 100), ("-0.05", "0.05"), ("0.01", "99.99"), ("-999999.99", 0)],
    WIDE: [(None, None), (0, "12345678901234.5"), ("-0.000001", 7), (1, 2)],
    TEXT: [(None, None)],
    DATE: [
        (None, None),
        (_day("2020-01-30"), _day("2021-03-02")),
        (_day("2024-05-06"), _day("2024-05-12")),
        (_day("0001-01-01"), _day("1970-01-01")),
        (_day("9990-01-01"), None),
    ],
    TIMESTAMP: [
        (None, None),
        (_day("2020-01-30") * 86_400_000_000 + 7, _day("2020-02-02") * 86_400_000_000 + 12345678901),
        (_day("2024-05-06") * 86_400_000_000, _day("2024-05-06") * 86_400_000_000 + 59_999_999),
    ],
}
_FREE: dict[Type, Sequence[Value]] = {
    BOOLEAN: [True, False],
    INT64: [0, 1, -1, 2, 7, -100, INT64_MAX, INT64_MIN, 2**53 + 1, 3037000500, 2**62],
    FLOAT64: [0.0, -0.0, 1.0, -1.5, 0.3, 1e308, -1e308, math.inf, -math.inf, 5e-324, 2.0**63, 1e19, 710.0, 1e-9],
    PRICE: [Decimal("0.00"), Decimal("-999999.99"), Decimal("999999.99"), Decimal("2.50"), Decimal("0.05")],
    WIDE: [
        Decimal("0.000000"),
        Decimal("99999999999999.999999"),
        Decimal("-2.500000"),
        Decimal("9007199254740.993000"),
    ],
    TEXT: ["", "abc", "5", "-1.5", "2020-02-29", "true", "ß x", "1e400", "a,b", "9223372036854775808", "x" * 50],
    DATE: [
        datetime.date(1, 1, 1),
        datetime.date(9999, 12, 31),
        datetime.date(1969, 12, 31),
        datetime.date(2024, 2, 29),
    ],
    TIMESTAMP: [
        datetime.datetime(1, 1, 1),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 1),
        datetime.datetime(2024, 2, 29, 12),
    ],
}


@dataclass(frozen=True)
class Drawn:
    """An expression, the ranges of its columns, and rows that keep to them."""

    expression: Expression
    columns: tuple[Column, ...]
    ranges: dict[str, Range]
    rows: list[dict[str, Value]]


def value_at(number: Fraction, of: Type) -> Value:
    """Returns the value of a type that a number stands for, if it is one (floats: the nearest)."""
    match of.kind:
        case Kind.BOOLEAN:
            return number != 0
        case Kind.INT64 | Kind.INTERVAL:
            return int(number // 1)
        case Kind.FLOAT64:
            return float(number)
        case Kind.DECIMAL:
            return Decimal(int(number * 10**of.scale // 1)).scaleb(-of.scale)
        case Kind.DATE:
            return EPOCH.date() + datetime.timedelta(days=int(number // 1))
        case _:
            return EPOCH + int(number // 1) * MICROSECOND


def inside(value: Value, known: Range) -> bool:
    """Whether a value keeps to a range."""
    if value is None:
        return known.nullable
    if isinstance(value, float) and math.isinf(value):
        return (known.upper if value > 0 else known.lower) is None
    if isinstance(value, str):
        return known.longest is None or len(value) <= known.longest
    number = number_of(value)
    if number is None:
        return True
    return (known.lower is None or known.lower <= number) and (known.upper is None or number <= known.upper)


def _column(chance: random.Random, place: int) -> tuple[Column, Range]:
    of = list(_ENDS)[place % len(_ENDS)]
    lower, upper = chance.choice(_ENDS[of])
    known = Range(
        lower=None if lower is None else Fraction(lower),  # type: ignore[call-overload]
        upper=None if upper is None else Fraction(upper),  # type: ignore[call-overload]
        nullable=chance.random() < 0.5,
        longest=chance.choice((None, 0, 3, 20)) if of == TEXT else None,
    )
    return Column(id=f"c{place}", type=of), known


def _point(chance: random.Random, of: Type, known: Range) -> Value:
    if known.nullable and chance.random() < 0.1:
        return None
    ends = [end for end in (known.lower, known.upper) if end is not None]
    for _ in range(20):
        if len(ends) == 2 and chance.random() < 0.5:
            share = Fraction(chance.choice([0, 1, 2, 3, 5, 8, 500, 997, 1000]), 1000)
            value = value_at(ends[0] + (ends[1] - ends[0]) * share, of)
        elif ends and chance.random() < 0.7:
            value = value_at(chance.choice(ends), of)
        else:
            value = chance.choice(_FREE[of])
        if isinstance(value, str):
            value = value[: known.longest]
        if inside(value, known):
            return value
    return value_at(ends[0], of) if ends else chance.choice(_FREE[of])


def _constant(chance: random.Random) -> Literal:
    of = chance.choice((BOOLEAN, INT64, INT64, FLOAT64, PRICE, TEXT, DATE, TIMESTAMP))
    values = [v for v in _FREE[of] if not (isinstance(v, float) and math.isinf(v))]
    small: dict[Type, list[Value]] = {INT64: [0, 1, 2, 3, -4, 12], FLOAT64: [0.5, 2.0, -3.0, 0.0]}
    value = chance.choice([*values, *small.get(of, []), *small.get(of, [])])
    return Literal(value=None, type=TEXT) if chance.random() < 0.05 else Literal(value=value, type=of)


def _number(chance: random.Random, *choices: int) -> Literal:
    return Literal(value=chance.choice(choices), type=INT64)


def _word(chance: random.Random, *choices: str) -> Literal:
    return Literal(value=chance.choice(choices), type=TEXT)


Pick = Callable[[], Expression]
_ARGUMENTS: dict[str, Callable[[random.Random, Pick], list[Expression]]] = {
    "clamp": lambda c, p: [p(), _number(c, -7, 0, 2), _number(c, 2, 50, 10**6)],
    "round": lambda c, p: [p(), _number(c, -3, 0, 1, 2, 6)],
    "width_bucket": lambda c, p: [p(), _number(c, -7, 0), _number(c, 2, 50), _number(c, 1, 3, 10)],
    "in": lambda c, p: [p(), *(_number(c, 0, 1, 2, 5) for _ in range(2))],
    "date_trunc": lambda c, p: [_word(c, *UNITS), p()],
    "date_diff": lambda c, p: [_word(c, *UNITS), p(), p()],
    "format_date": lambda c, p: [p(), _word(c, "%Y-%m", "%d %H:%M:%S")],
    "make_date": lambda c, p: [p(), p(), p()],
    "replace": lambda c, p: [p(), _word(c, "a", "ab", ""), _word(c, "", "xyz")],
    "split_part": lambda c, p: [p(), _word(c, ",", "b"), _number(c, 1, 2, -1)],
    "lpad": lambda c, p: [p(), _number(c, 0, 3, 100), _word(c, "x", "é1")],
    "rpad": lambda c, p: [p(), _number(c, 0, 3, 100)],
    "like": lambda c, p: [p(), _word(c, "a%", "_", "%5%")],
    "ilike": lambda c, p: [p(), _word(c, "A%", "_", "%X%")],
    "regexp_matches": lambda c, p: [p(), _word(c, "^a", "[0-9]+", "(b|c)$")],
    "regexp_extract": lambda c, p: [p(), _word(c, "^a", "[0-9]+", "x(b|c)?$")],
    "regexp_replace": lambda c, p: [p(), _word(c, "a+", "[0-9]"), _word(c, "", "xyz"), _word(c, "", "g")],
    "substring": lambda c, p: [p(), p(), *([p()] if c.random() < 0.5 else [])],
    "power": lambda c, p: [p(), p() if c.random() < 0.5 else _number(c, -1, 0, 2, 3)],
}


_OFTEN = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "int_divide",
    "modulo",
    "abs",
    "coalesce",
    "least",
    "greatest",
    "power",
)


def _step(chance: random.Random, pick: Pick) -> Expression | None:
    """Returns a cast, a CASE or an operation on expressions drawn by `pick`, or None if none fits."""
    kind = chance.random()
    name = chance.choice(_OFTEN if kind > 0.7 else list(FUNCTIONS))
    special = _ARGUMENTS.get(name)
    for _ in range(60):
        try:
            if kind < 0.08:
                argument, target = pick(), chance.choice(TYPES)
                return cast(argument, target) if castable(argument.type, target) else None
            if kind < 0.15:
                return _case(pick)
            arguments = special(chance, pick) if special else [pick() for _ in range(chance.choice((1, 2, 2, 2, 3)))]
            return call(name, arguments)
        except SignatureError:
            continue
    return None


def _case(pick: Pick) -> Expression | None:
    condition, first, second = pick(), pick(), pick()
    if condition.type != BOOLEAN:
        return None
    shared = common_type((first.type, second.type), (first, second))
    if shared is None:
        return None
    return Case(branches=((condition, cast(first, shared)),), otherwise=cast(second, shared), type=shared)


def size(expression: Expression) -> int:
    """Returns how many nodes an expression has."""
    from dpquery.plan.expr import children

    return 1 + sum(map(size, children(expression)))


def draw(chance: random.Random, points: int) -> Drawn:
    """Returns a random expression of a few operations with rows to try it on."""
    known = [_column(chance, place) for place in range(9)]
    leaves: list[Expression] = [column for column, _ in known]
    grown: list[Expression] = []
    wanted = chance.choice((1, 2, 3, 4, 6))
    for _ in range(100):

        def pick() -> Expression:
            if grown and chance.random() < 0.5:
                return chance.choice(grown)
            return chance.choice(leaves) if chance.random() < 0.75 else _constant(chance)

        made = _step(chance, pick)
        if made is not None and size(made) <= 40:
            grown.append(made)
            if len(grown) >= wanted:
                break
    ranges = {column.id: r for column, r in known}
    rows = [{c.id: _point(chance, c.type, r) for c, r in known} for _ in range(points)]
    return Drawn(expression=grown[-1], columns=tuple(c for c, _ in known), ranges=ranges, rows=rows)
