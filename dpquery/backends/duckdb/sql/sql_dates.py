"""Dates and timestamps as DuckDB SQL, within the years 1 to 9999."""

from __future__ import annotations

from collections.abc import Mapping

from dpquery.backends.duckdb.sql.sql_rules import Lowering, Read, Rule, arguments, within
from dpquery.plan.expr import Call
from dpquery.plan.functions.bounds import DAY, FIRST_DAY, FIRST_MICROSECOND, LAST_DAY, LAST_MICROSECOND
from dpquery.plan.functions.dates import UNITS
from dpquery.plan.functions.table import constant
from dpquery.plan.types import DATE

_EPOCH = "DATE '1970-01-01'"
_MONDAY = "TIMESTAMP '0001-01-01 00:00:00'"


def moved_day(lowering: Lowering, day: str, wide: str) -> str:
    """Returns a date moved by days: `wide` is SQL in 128 bits, such as `+ CAST(1 AS HUGEINT)`."""
    number = within(lowering, f"({day} - {_EPOCH} {wide})", FIRST_DAY, LAST_DAY)
    return f"({_EPOCH} + CAST({number} AS INTEGER))"


def _moved_moment(lowering: Lowering, x: str, wide: str) -> str:
    return f"make_timestamp(CAST({within(lowering, f'(epoch_us({x}) {wide})', *_MOMENTS)} AS BIGINT))"


_MOMENTS = (FIRST_MICROSECOND, LAST_MICROSECOND)


def _add_days(lowering: Lowering, call: Call, read: list[Read]) -> str:
    x, count = arguments(call, read)
    if call.type == DATE:
        return moved_day(lowering, x, f"+ CAST({count} AS HUGEINT)")
    return _moved_moment(lowering, x, f"+ CAST({count} AS HUGEINT) * {DAY}")


def _add_microseconds(lowering: Lowering, call: Call, read: list[Read]) -> str:
    x, count = arguments(call, read)
    return _moved_moment(lowering, x, f"+ CAST({count} AS HUGEINT)")


def _add_months(lowering: Lowering, call: Call, read: list[Read]) -> str:
    x, count = arguments(call, read)

    def body(v: str, w: str) -> str:
        month = f"CAST({w} AS HUGEINT) + (year({v}) * 12 + month({v}) - 1)"
        return f"({v} + to_months(TRY_CAST((CASE WHEN {month} BETWEEN 12 AND 119999 THEN {w} END) AS INTEGER)))"

    moved = lowering.let(x, lambda v: lowering.let(count, lambda w: body(v, w)))
    return f"CAST({moved} AS DATE)" if call.type == DATE else moved


def _unit(call: Call) -> str:
    unit = constant(call, 0)
    return str(UNITS[UNITS.index(unit)])


def _date_trunc(_: Lowering, call: Call, read: list[Read]) -> str:
    return f"date_trunc('{_unit(call)}', {read[1](call.arguments[1])})"


def _date_diff(_: Lowering, call: Call, read: list[Read]) -> str:
    """DuckDB counts full weeks between the two, not Mondays."""
    a, b = (one(argument) for one, argument in zip(read[1:], call.arguments[1:], strict=True))
    if _unit(call) == "week":
        weeks = [f"date_diff('day', {_MONDAY}, {x}) // 7" for x in (b, a)]
        return f"({weeks[0]} - {weeks[1]})"
    return f"date_diff('{_unit(call)}', {a}, {b})"


def _full_months_between(lowering: Lowering, call: Call, read: list[Read]) -> str:
    a, b = arguments(call, read)

    def body(v: str, w: str) -> str:
        months = f"(year({w}) * 12 + month({w}) - year({v}) * 12 - month({v}))"
        first, last = (f"(epoch_us({x}) - epoch_us(date_trunc('month', {x})))" for x in (v, w))
        late, early = f"{w} >= {v} AND {last} < {first} THEN -1", f"{w} < {v} AND {last} > {first} THEN 1"
        return f"({months} + CASE WHEN {late} WHEN {early} ELSE 0 END)"

    return lowering.let(a, lambda v: lowering.let(b, lambda w: body(v, w)))


def _make_date(lowering: Lowering, call: Call, read: list[Read]) -> str:
    year, month, day = arguments(call, read)
    return f"TRY(make_date({within(lowering, year, 1, 9999)}, {month}, {day}))"


def _format(lowering: Lowering, call: Call, read: list[Read]) -> str:
    """DuckDB has no directive of the quarter: what stands before it and behind are written apart."""
    x = read[0](call.arguments[0])
    pieces = []
    for number, piece in enumerate(constant(call, 1).split("%q")):
        pieces += [f"CAST(quarter({x}) AS VARCHAR)"] if number else []
        pieces += [f"strftime({x}, {lowering.text(piece)})"] if piece else []
    return pieces[0] if len(pieces) == 1 else f"({' || '.join(pieces)})"


DATE_RULES: Mapping[str, Rule] = {
    "date_trunc": _date_trunc,
    "format_date": _format,
    "add_days": _add_days,
    "add_months": _add_months,
    "add_microseconds": _add_microseconds,
    "date_diff": _date_diff,
    "full_months_between": _full_months_between,
    "make_date": _make_date,
}
