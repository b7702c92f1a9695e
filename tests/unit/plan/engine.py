"""The reference and DuckDB side by side: adversarial values of each type, and every expression on all of them."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Sequence
from decimal import Decimal

import duckdb

from dpquery.backends.duckdb.sql.reading import read
from dpquery.backends.duckdb.sql.sql_casts import type_name
from dpquery.backends.duckdb.sql.sql_expressions import lower
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Kind, Type, Value, decimal

PRICE, WIDE, SHARE = decimal(10, 2), decimal(38, 6), decimal(4, 4)
DATES = [
    "0001-01-01",
    "0001-01-07",
    "0004-02-29",
    "1582-10-15",
    "1900-02-28",
    "1899-12-31",
    "1969-12-31",
    "1970-01-01",
    "2000-02-29",
    "2020-01-31",
    "2020-12-28",
    "2021-01-03",
    "2024-02-29",
    "2024-12-30",
    "2038-01-19",
    "9999-12-31",
]
CLOCKS = ["00:00:00", "00:00:00.000001", "12:34:56.789", "23:59:59.999999", "00:59:59.5"]
VALUES: dict[Type, list[Value]] = {
    BOOLEAN: [None, True, False],
    INT64: [
        None,
        0,
        1,
        -1,
        2,
        -2,
        3,
        7,
        -7,
        10,
        100,
        -100,
        12345,
        2**31,
        -(2**31) - 1,
        2**53 + 1,
        3037000500,
        2**62,
        -(2**62),
        2**63 - 1,
        -(2**63),
        -(2**63) + 1,
    ],
    FLOAT64: [
        None,
        math.nan,
        0.0,
        -0.0,
        0.1,
        -0.1,
        0.5,
        -0.5,
        1.0,
        -1.0,
        1.5,
        2.5,
        -2.5,
        3.0,
        0.125,
        2.675,
        1e-300,
        5e-324,
        -5e-324,
        123456.789,
        2.0**52,
        2.0**53 + 2,
        9.2e18,
        2.0**63,
        -(2.0**63),
        1e20,
        1e300,
        1.7e308,
        -1.7e308,
        math.inf,
        -math.inf,
        math.pi,
    ],
    PRICE: [
        None,
        *map(
            Decimal,
            [
                "0.00",
                "0.01",
                "-0.01",
                "1.00",
                "-1.00",
                "1.25",
                "-1.25",
                "2.50",
                "2.55",
                "-2.50",
                "7.77",
                "99999999.99",
                "-99999999.99",
                "33.33",
            ],
        ),
    ],
    WIDE: [
        None,
        *map(
            Decimal,
            [
                "0.000000",
                "0.000001",
                "1.500000",
                "-2.500000",
                "12345678901234567890.123456",
                "9" * 32 + ".999999",
                "-" + "9" * 32 + ".999999",
                "9223372036854775807.500000",
                "-9223372036854775808.499999",
                "-9223372036854775808.500000",
            ],
        ),
    ],
    SHARE: [None, *map(Decimal, ["0.0000", "0.0001", "0.5000", "-0.0500", "0.9999", "-0.9999"])],
    TEXT: [
        None,
        "",
        " ",
        "a",
        "abc",
        "ABC",
        "  padded\t ",
        "aXbXc",
        "xax",
        "100%",
        "a_b",
        "a\\b",
        "\n",
        "a\n",
        "line\nline",
        "straße",
        "ŞİĞıĸßǅǆ",
        "éx",
        "e\u0301a\u0308",
        "日本語",
        "🤦🏼\u200d♂️x",
        "\U0010ffff",
        "\u0000x",
        "0",
        "-5",
        "+7",
        " 5",
        "5 ",
        "1e3",
        "0x1F",
        "1_000",
        "1.5",
        "2.5",
        "-0.125",
        ".5",
        "5.",
        "1e400",
        "-1e400",
        "1e-400",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "0" * 60 + "9",
        "9" * 60,
        "1." + "3" * 70,
        "1.005",
        "-1.015",
        "true",
        "False",
        "T",
        "yes",
        "ﬀ",
        "1\n",
        "2020-02-29",
        "2021-02-29",
        "0000-01-01",
        "2020-1-5",
        "9999-12-31",
        "10000-01-01",
        "2020-01-05 10:20",
        "2020-01-05T10:20:30.5",
        "2020-01-05 24:00:00",
        "2020-01-05 10:20:30.1234567",
        "infinity",
        "nan",
        "epoch",
        "today",
        "a,b,c",
        ",,",
        "x" * 300,
        "ab" * 6000,
        "' OR 1=1 --",
        "$1",
        "\u212a\u017f",
    ],
    DATE: [None, *map(datetime.date.fromisoformat, DATES)],
    TIMESTAMP: [
        None,
        *(datetime.datetime.fromisoformat(f"{d} {c}") for d in DATES for c in CLOCKS[:2]),
        *(datetime.datetime.fromisoformat(f"2023-03-15 {c}") for c in CLOCKS),
    ],
}
OUTSIDE = {
    DATE: ["infinity", "-infinity", "5000000-01-01", "0001-01-01 (BC)"],
    TIMESTAMP: ["infinity", "-infinity", "12000-01-01 00:00:00", "0001-12-31 (BC) 23:59:59"],
    FLOAT64: ["NaN"],
}
"""Stored values that no expression knows: a scan reads them as NULL."""


class Engine:
    """A DuckDB with one table for each type."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self.values: dict[Type, list[Value]] = {}
        for number, (of, values) in enumerate(VALUES.items()):
            self._fill(f"t{number}", of, values)
            self.values[of] = [*values, *(None for _ in OUTSIDE.get(of, []))]
        self._tables = {of: f"t{number}" for number, of in enumerate(VALUES)}

    def _fill(self, table: str, of: Type, values: Sequence[Value]) -> None:
        name = type_name(of)
        self._connection.execute(f"CREATE TABLE raw (id INTEGER, v {name})")
        rows = [*map(stored, values), *OUTSIDE.get(of, [])]
        for place, value in enumerate(rows):
            self._connection.execute(f"INSERT INTO raw VALUES (?, CAST(? AS {name}))", [place, value])
        self._connection.execute(f"CREATE TABLE {table} AS SELECT id, {read(name, of, 'v')} AS v FROM raw")
        self._connection.execute("DROP TABLE raw")

    def compare(self, expressions: Sequence[Expression], columns: Sequence[Column]) -> list[str]:
        """Returns every difference between the reference and the engine on all rows of these columns."""
        names = {column.id: f"{column.id}.v" for column in columns}
        written = [lower(e, names=names.__getitem__) for e in expressions]
        tables = " CROSS JOIN ".join(f"{self._tables[c.type]} AS {c.id}" for c in columns) or "(SELECT 1)"
        order = ", ".join(f"{c.id}.id" for c in columns) or "1"
        query = f"SELECT {', '.join(f'{sql} AS r{i}' for i, sql in enumerate(written))} FROM {tables} ORDER BY {order}"
        found = self._connection.execute(query).fetchall()
        rows = itertools.product(*(self.values[c.type] for c in columns))
        problems = []
        for row, answers in zip(rows, found, strict=True):
            given = dict(zip(names, row, strict=True))
            for expression, sql, answer in zip(expressions, written, answers, strict=True):
                expected = evaluate(expression, given)
                if not agree(expected, answer, expression.type):
                    problems.append(f"{shown(expression)} on {given}: {expected!r}, DuckDB {answer!r}: {sql[:300]}")
        return problems


def stored(value: Value) -> object:
    """Returns what DuckDB is given to store; decimals as text, which Python's driver would shorten."""
    return str(value) if isinstance(value, Decimal) else value


def agree(expected: Value, found: Value, of: Type) -> bool:
    """Whether both are the same value of a type; floats may differ in their last digits."""
    if expected is None or found is None:
        return expected is None and found is None
    if of.kind is not Kind.FLOAT64:
        return type(expected) is type(found) and expected == found
    assert isinstance(expected, float)
    assert isinstance(found, float)
    if math.isinf(expected) or math.isinf(found) or math.isnan(found):
        return expected == found
    return abs(expected - found) <= 4 * max(math.ulp(expected), math.ulp(found))


def shown(expression: Expression) -> str:
    """Returns an expression in short."""
    match expression:
        case Column():
            return f"{expression.id}:{expression.type}"
        case Literal():
            return repr(expression.value)
        case _:
            parts = [shown(part) for part in getattr(expression, "arguments", [getattr(expression, "argument", None)])]
            return f"{getattr(expression, 'function', 'cast')}({', '.join(parts)})::{expression.type}"


def column(of: Type, id: str = "a") -> Column:
    """Returns a column of a type."""
    return Column(id=id, type=of)


def literal(value: Value, of: Type | None = None) -> Literal:
    """Returns a constant, whose type is found where it is plain."""
    kinds = {bool: BOOLEAN, int: INT64, float: FLOAT64, str: TEXT, datetime.date: DATE, datetime.datetime: TIMESTAMP}
    return Literal(value=value, type=of or (TEXT if value is None else kinds[type(value)]))
