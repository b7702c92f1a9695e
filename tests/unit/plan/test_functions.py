# mypy: disable-error-code="arg-type, no-untyped-call"
"""Every operation: what the reference says is what DuckDB gives, on adversarial values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from dpquery.backends.duckdb.sql.sql_expressions import RULES
from dpquery.plan.expr import Call, Case, Expression
from dpquery.plan.functions import FUNCTIONS, SignatureError, call, cast, castable
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Type
from tests.unit.plan.engine import PRICE, SHARE, VALUES, WIDE, Engine, column, literal

NUMBERS = (INT64, FLOAT64, PRICE, WIDE, SHARE)
PAIRS = [(a, b) for a, b in itertools.product(NUMBERS, NUMBERS) if (a, b) not in ((SHARE, SHARE), (SHARE, PRICE))]
PAIRS += [(t, t) for t in (BOOLEAN, TEXT, DATE)] + [
    (DATE, TIMESTAMP),
    (DATE, INT64),
    (TIMESTAMP, INT64),
    (TEXT, INT64),
    (TIMESTAMP, TIMESTAMP),
]
A, B = (lambda of: column(of, "a")), (lambda of: column(of, "b"))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def accepted(name: str, *arguments: Expression) -> Call | None:
    try:
        return call(name, arguments)
    except SignatureError:
        return None


def plain_cases(name: str) -> Iterator[tuple[Type, ...]]:
    """The column types that an operation accepts, one or two at a time."""
    for of in VALUES:
        if accepted(name, A(of)):
            yield (of,)
    for first, second in PAIRS:
        if accepted(name, A(first), B(second)):
            yield first, second


def special_cases() -> list[Call]:
    """Operations that take constants, or many arguments."""
    texts = ["a", "X", "", "ß", "é", "日", ",", "%", "'", "ab"]
    cases = [call("pi", [])]
    cases += [
        call(f, [A(TEXT), literal(t)])
        for f in ("trim", "ltrim", "rtrim", "position", "contains", "starts_with", "ends_with", "eq", "lt")
        for t in texts
    ]
    cases += [call("replace", [A(TEXT), literal(x), literal(y)]) for x in texts for y in ("", "zzz", "a")]
    cases += [
        call("split_part", [A(TEXT), literal(x), literal(n)]) for x in ("X", ",", "ab", "ß") for n in (1, 2, -1, -9, 99)
    ]
    cases += [
        call(f, [A(TEXT), literal(n), *fill])
        for f in ("lpad", "rpad")
        for n in (0, 2, 5, 301, 10_000)
        for fill in ([], [literal("x")], [literal("日é")])
    ]
    cases += [
        call(f, [A(TEXT), literal(p)])
        for f in ("like", "ilike")
        for p in (
            "",
            "%",
            "_",
            "a%",
            "%b%",
            "A_C",
            "%\n%",
            "100\\%",
            "a\\_b",
            "a\\\\b",
            "%ß%",
            "_\u0301%",
            "%%a%%c",
            "Ş%",
            "'%",
        )
    ]
    cases += [call("like", [A(TEXT), literal(p), literal(e)]) for p, e in (("100!%", "!"), ("a\\b", ""), ("a!_b", "!"))]
    cases += [call("regexp_extract", [A(TEXT), literal(p)]) for p in ("a.", "^(a)?", "(b|c)$", r"\d+")]
    cases += [
        call("regexp_replace", [A(TEXT), literal(p), literal(new), literal(flags)])
        for p in ("a", "[^a]", "a.|b")
        for new in ("", "xyz")
        for flags in ("", "g")
    ]
    cases += [
        call("regexp_matches", [A(TEXT), literal(p)])
        for p in (
            "",
            "a",
            "^a",
            "c$",
            "^$",
            ".",
            "^.$",
            "a.c",
            r"\d",
            r"^\s*$",
            r"\w+",
            r"\W",
            r"\S\D",
            "[^a]",
            "^[^a-z]+$",
            "(a|b)+c",
            "(?:ab){2,5}",
            r"\.",
            r"^[+-]?\d+$",
            "[é-ü]",
            r"[\s\d]x",
            "x{3,}",
            "a*?b",
            r"\_|\%",
            r"[\]\-a]",
            "日|本",
            "^(a|ab)(c|bcd)?$",
            "[0-9a-fA-F]{3}",
            "a??",
            r"\n",
            "[\\n]$",
            "(()|a)+b",
        )
    ]
    cases += [
        call("in", [A(INT64), *map(literal, (1, 7, -100))]),
        call("in", [A(INT64), literal(1), literal(None)]),
        call("in", [A(TEXT), literal("a"), literal("'")]),
        call("in", [A(FLOAT64), literal(0.0), literal(2.5)]),
        call("in", [A(DATE), literal("2020-01-31"), literal("1970-01-01")]),
        call("in", [A(INT64), literal(1), literal(2.5)]),
        call("in", [A(BOOLEAN), literal(True)]),
    ]
    cases += [call("clamp", [A(of), literal(-3), literal(50)]) for of in NUMBERS]
    cases += [
        call("clamp", [A(FLOAT64), literal(-1.5), literal(2.5)]),
        call("clamp", [A(DATE), literal("1970-01-01"), literal("2020-01-01")]),
    ]
    cases += [call("round", [A(of), literal(n)]) for of in NUMBERS for n in (0, 1, 2, 5, 15)]
    cases += [call("round", [A(FLOAT64), literal(n)]) for n in (-1, -2, -15)]
    cases += [
        call("width_bucket", [A(of), literal(lo), literal(hi), literal(n)])
        for of in NUMBERS
        for lo, hi, n in ((0, 10, 5), (-1.5, 2.5, 3), (0.1, 0.7, 7))
    ]
    cases += [
        call("date_trunc", [literal(u), A(of)])
        for of in (DATE, TIMESTAMP)
        for u in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
    ]
    cases += [
        call("date_diff", [literal(u), A(x), B(y)])
        for x, y in ((DATE, DATE), (TIMESTAMP, TIMESTAMP))
        for u in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
    ]
    cases += [
        call("format_date", [A(of), literal(f)])
        for of in (DATE, TIMESTAMP)
        for f in ("%Y-%m-%d %H:%M:%S", "%Y", "%m/%d", "%Y.%j")
    ]
    cases += [call("make_date", [A(INT64), literal(m), literal(d)]) for m, d in ((1, 1), (2, 29), (13, 1), (12, -1))]
    cases += [call("make_date", [literal(2023), A(INT64), B(INT64)])]
    cases += [
        call("substring", [A(TEXT), literal(s), *n])
        for s in (-2, 0, 1, 2, 2**63 - 1, -(2**63))
        for n in ([], [literal(0)], [literal(3)], [literal(-1)], [literal(2**63 - 1)])
    ]
    cases += [call("substring", [literal("abcdefg"), A(INT64), B(INT64)])]
    cases += [call(f, [A(BOOLEAN), B(BOOLEAN), literal(c)]) for f in ("and", "or") for c in (True, False, None)]
    cases += [call(f, [A(INT64), B(FLOAT64), literal(3)]) for f in ("coalesce", "greatest", "least")]
    cases += [
        call("coalesce", [literal(None), A(TEXT), literal("x")]),
        call("greatest", [literal(None), literal(None)]),
    ]
    cases += [call("concat", [A(TEXT), literal("-"), B(of)]) for of in (INT64, PRICE, BOOLEAN)]
    cases += [call("power", [A(of), literal(n)]) for of in (FLOAT64, INT64) for n in (0, 1, 2, 3, -1, 0.5, -0.5)]
    return cases


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_reference_and_duckdb_agree_on_columns(engine: Engine, name: str) -> None:
    problems = []
    for types in plain_cases(name):
        columns = [column(of, id) for of, id in zip(types, "ab", strict=False)]
        problems += engine.compare([call(name, columns)], columns)
    assert problems[:5] == []


SPECIAL = special_cases()


@pytest.mark.parametrize("name", sorted({case.function for case in SPECIAL}))
def test_reference_and_duckdb_agree_with_constants(engine: Engine, name: str) -> None:
    problems = []
    for case in SPECIAL:
        if case.function == name:
            columns = [c for c in columns_in(case) if c is not None]
            problems += engine.compare([case], columns)
    assert problems[:5] == []


def columns_in(expression: Expression) -> list[object]:
    from dpquery.plan.expr import columns_of

    return list({c.id: c for c in columns_of(expression)}.values())


def test_every_operation_is_tried_and_has_a_lowering() -> None:
    tried = {case.function for case in SPECIAL}
    tried |= {name for name in FUNCTIONS if next(plain_cases(name), None)}
    assert tried == set(FUNCTIONS) == set(RULES)


@pytest.mark.parametrize("source", list(VALUES), ids=str)
def test_casts_agree(engine: Engine, source: Type) -> None:
    targets = [t for t in (*VALUES, *DECIMALS) if t != source and castable(source, t)]
    assert engine.compare([cast(column(source), t) for t in targets], [column(source)])[:5] == []


def _decimals() -> list[Type]:
    from dpquery.plan.types import decimal

    return [
        decimal(p, s)
        for p, s in ((1, 0), (2, 1), (5, 5), (9, 4), (18, 0), (18, 18), (19, 3), (38, 0), (38, 37), (37, 20))
    ]


DECIMALS = _decimals()


@pytest.mark.parametrize("source", [t for t in _decimals() if t.scale < 38], ids=str)
def test_casts_between_decimals_and_texts_agree(engine: Engine, source: Type) -> None:
    narrow = [cast(cast(column(of), source), t) for of in (TEXT, WIDE) for t in (TEXT, INT64, FLOAT64, PRICE, SHARE)]
    problems = []
    for expression in narrow:
        problems += engine.compare([expression], columns_in(expression))
    assert problems[:5] == []


def test_case_takes_the_first_true_branch(engine: Engine) -> None:
    a = column(INT64)
    branches = ((call("gt", [a, literal(5)]), literal(1)), (call("lt", [a, literal(0)]), call("negate", [a])))
    case = Case(branches=branches, otherwise=literal(None, INT64), type=INT64)
    assert engine.compare([case], [a]) == []
