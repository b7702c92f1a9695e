"""What operations mean, worked out by hand, and what they refuse."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal as D
from fractions import Fraction as F

import duckdb
import pytest

from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Literal
from dpquery.plan.functions import FUNCTIONS, SignatureError, UnknownOperationError, call, cast
from dpquery.plan.functions.text import lower, upper
from dpquery.plan.intervals import range_of
from dpquery.plan.ranges import Range
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Type, Value, decimal
from tests.unit.plan.engine import column, literal


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def typed(value: Value) -> Literal:
    if isinstance(value, D):
        digits, scale = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
        return Literal(value=value, type=decimal(max(digits, scale), scale))
    return literal(value)


MEANINGS: list[tuple[str, list[Value], Value]] = [
    ("add", [2**63 - 1, 1], None),
    ("add", [math.inf, -math.inf], None),
    ("add", [D("0.1"), D("0.2")], D("0.3")),
    ("add", [1e308, 1e308], math.inf),
    ("subtract", [day("2020-03-01"), day("2020-02-28")], 2),
    ("subtract", [day("2020-03-01"), 1], day("2020-02-29")),
    ("add", [day("9999-12-31"), 1], None),
    ("multiply", [3037000500, 3037000500], None),
    ("multiply", [0.0, math.inf], None),
    ("multiply", [3, D("0.10")], D("0.30")),
    ("divide", [7, 2], 3.5),
    ("divide", [1, 0], None),
    ("divide", [1.0, -0.0], None),
    ("int_divide", [-7, 2], -3),
    ("int_divide", [-(2**63), -1], None),
    ("modulo", [-7, 3], -1),
    ("modulo", [-(2**63), -1], 0),
    ("modulo", [D("-7.5"), D("2.0")], D("-1.5")),
    ("abs", [-(2**63)], None),
    ("octet_length", ["straße"], 7),
    ("round", [2.5], 2.0),
    ("round", [D("2.5")], D("3")),
    ("round", [D("-2.5")], D("-3")),
    ("round", [2.675, 2], 2.68),
    ("round", [1234.5, -2], 1200.0),
    ("ceil", [D("9.9")], D("10")),
    ("floor", [-0.5], -1.0),
    ("sqrt", [-1.0], None),
    ("ln", [0.0], None),
    ("power", [0.0, -1.0], None),
    ("power", [-8.0, 0.5], None),
    ("power", [-2.0, 3.0], -8.0),
    ("sin", [math.inf], None),
    ("exp", [1000.0], math.inf),
    ("atan2", [-0.0, -1.0], math.pi),
    ("width_bucket", [10, 0, 10, 5], 6),
    ("width_bucket", [9.99, 0, 10, 5], 5),
    ("width_bucket", [-1, 0, 10, 5], 0),
    ("greatest", [1, None, 3], 3),
    ("least", [None, None], None),
    ("clamp", [None, 0, 100], None),
    ("clamp", [math.inf, 0, 100], 100.0),
    ("coalesce", [None, 2], 2),
    ("nullif", [0.0, -0.0], None),
    ("and", [False, None], False),
    ("and", [True, None], None),
    ("or", [True, None], True),
    ("in", [3, 1, None], None),
    ("in", [1, 1, None], True),
    ("eq", [None, None], None),
    ("is_not_distinct_from", [None, None], True),
    ("lt", ["Z", "a"], True),
    ("lt", ["z", "é"], True),
    ("eq", [day("2020-01-31"), "2020-01-31"], True),
    ("upper", ["straße"], "STRAẞE"),
    ("length", ["e\u0301"], 2),
    ("reverse", ["e\u0301a"], "a\u0301e"),
    ("substring", ["abcdef", 0, 3], "ab"),
    ("substring", ["abcdef", 2, -1], None),
    ("left", ["abc", -1], "ab"),
    ("right", ["abc", -1], "bc"),
    ("concat", ["a", None], None),
    ("concat_without_nulls", ["a", None], "a"),
    ("concat", ["x" * 9_999, "yz"], "x" * 9_999 + "y"),
    ("replace", ["abc", "", "x"], "abc"),
    ("position", ["日本語", "語"], 3),
    ("split_part", ["a,b,c", ",", -1], "c"),
    ("split_part", ["a,b,c", ",", 9], ""),
    ("lpad", ["abc", 5, "xy"], "xyabc"),
    ("lpad", ["abc", 2, "xy"], "ab"),
    ("like", ["a%b", "a\\%b"], True),
    ("like", ["axb", "a\\%b"], False),
    ("like", ["a\nb", "a_b"], True),
    ("ilike", ["ÀB", "à%"], True),
    ("regexp_matches", ["a\n", "a$"], False),
    ("regexp_matches", ["é", r"\w"], False),
    ("regexp_extract", ["https://a.b/c", "https?://([^/]+)"], "a.b"),
    ("regexp_extract", ["abc", "b+"], "b"),
    ("regexp_extract", ["abc", "x"], None),
    ("regexp_extract", ["ab", "a(x)?"], ""),
    ("regexp_replace", ["1.2.3", r"\.", "-"], "1-2.3"),
    ("regexp_replace", ["1.2.3", r"\.", "-", "g"], "1-2-3"),
    ("format_date", [day("2024-02-05"), "%a %A %b %B %y %q %G %V %u %j"], "Mon Monday Feb February 24 1 2024 06 1 036"),
    ("extract_dow", [day("2024-01-07")], 0),
    ("extract_isodow", [day("2024-01-07")], 7),
    ("extract_week", [day("2021-01-03")], 53),
    ("extract_isoyear", [day("2021-01-03")], 2020),
    ("extract_epoch", [moment("1969-12-31 23:59:59.5")], -0.5),
    ("date_trunc", ["week", day("2024-01-07")], moment("2024-01-01")),
    ("add_months", [day("2024-01-31"), 1], day("2024-02-29")),
    ("add_months", [day("9999-12-31"), 1], None),
    ("add_days", [moment("2024-02-28 12:00:00"), 2], moment("2024-03-01 12:00:00")),
    ("add_microseconds", [moment("0001-01-01"), -1], None),
    ("date_diff", ["month", day("2020-01-31"), day("2020-02-01")], 1),
    ("microseconds_between", [moment("2020-01-01 00:00:01"), moment("2020-01-01 00:00:00")], -1_000_000),
    ("full_months_between", [moment("2020-01-31 00:00:00"), moment("2020-02-29 00:00:00")], 0),
    ("full_months_between", [moment("2020-01-29 10:00:00"), moment("2020-02-29 09:00:00")], 0),
    ("full_months_between", [moment("2020-01-29 10:00:00"), moment("2020-02-29 10:00:00")], 1),
    ("full_months_between", [moment("2020-02-29 00:00:00"), moment("2019-02-28 23:00:00")], -12),
    ("full_months_between", [moment("2020-02-28 00:00:00"), moment("2019-02-28 23:00:00")], -11),
    ("date_diff", ["week", day("2020-01-31"), day("2020-02-03")], 1),
    ("date_diff", ["hour", moment("2020-01-01 00:59:59"), moment("2020-01-01 01:00:00")], 1),
    ("make_date", [2023, 2, 29], None),
    ("last_day", [day("2024-02-01")], day("2024-02-29")),
    ("format_date", [day("0007-02-03"), "%Y-%m"], "0007-02"),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), MEANINGS)
def test_an_operation_means(name: str, arguments: list[Value], expected: Value) -> None:
    found = evaluate(call(name, [typed(value) for value in arguments]), {})
    assert found == expected
    assert found is None or type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "to", "expected"),
    [
        (2.5, INT64, 2),
        (3.5, INT64, 4),
        (D("2.5"), INT64, 3),
        (D("-2.5"), INT64, -3),
        (2.0**63, INT64, None),
        ("5", INT64, 5),
        (" 5", INT64, None),
        ("1e3", INT64, None),
        ("0x1F", INT64, None),
        ("1_000", INT64, None),
        ("9223372036854775808", INT64, None),
        ("1.5", INT64, None),
        ("1e3", FLOAT64, 1000.0),
        ("nan", FLOAT64, None),
        ("inf", FLOAT64, None),
        (".5", FLOAT64, None),
        ("1e400", FLOAT64, math.inf),
        ("1.005", decimal(5, 2), D("1.01")),
        ("999.995", decimal(5, 2), None),
        (0.125, decimal(5, 2), D("0.12")),
        (1e20, decimal(5, 2), None),
        (D("9.99"), decimal(2, 1), None),
        (D("0.50"), TEXT, "0.50"),
        (True, TEXT, "true"),
        ("TRUE", BOOLEAN, True),
        ("yes", BOOLEAN, None),
        ("2021-02-29", DATE, None),
        ("2020-1-5", DATE, None),
        ("0000-01-01", DATE, None),
        ("2020-01-05T10:20", TIMESTAMP, moment("2020-01-05 10:20:00")),
        ("infinity", TIMESTAMP, None),
        (moment("2020-01-05 10:20:30.120"), TEXT, "2020-01-05 10:20:30.12"),
        (5, BOOLEAN, True),
        (moment("1969-12-31 23:00:00"), DATE, day("1969-12-31")),
    ],
)
def test_a_cast_means(value: Value, to: Type, expected: Value) -> None:
    assert evaluate(cast(typed(value), to), {}) == expected


@pytest.mark.parametrize(
    ("pattern"),
    [
        r"(a)\1",
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        "(?P<n>a)",
        "(?i)a",
        "a++",
        "a*+",
        "a**",
        "(?>a)",
        r"\b",
        r"\pL",
        "[[:alpha:]]",
        "a{,3}",
        "a{1001}",
        "a{3,2}",
        "(",
        ")",
        "[",
        "a)",
        "*a",
        "(a{100}){100}",
        r"\Qa\E",
        "[a&&b]",
        "[z-a]",
        r"[\d-z]",
        "\\",
        r"\x41",
        "(?#c)",
        "(?m)^a",
        "x" * 201,
        "((((((((((((((((((((((a))))))))))))))))))))))",
    ],
)
def test_patterns_that_engines_read_differently_are_refused(pattern: str) -> None:
    with pytest.raises(SignatureError):
        call("regexp_matches", [column(TEXT), literal(pattern)])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("like", [column(TEXT), column(TEXT, "b")]),
        ("like", [column(TEXT), literal("a\\")]),
        ("regexp_matches", [column(TEXT), column(TEXT, "b")]),
        ("clamp", [column(INT64), column(INT64), literal(3)]),
        ("clamp", [column(INT64), literal(3), literal(1)]),
        ("lpad", [column(TEXT), column(INT64)]),
        ("lpad", [column(TEXT), literal(10_001)]),
        ("replace", [column(TEXT), column(TEXT), literal("x")]),
        ("in", [column(INT64), column(INT64, "b")]),
        ("eq", [column(INT64), column(TEXT)]),
        ("eq", [column(INT64), literal("abc")]),
        ("add", [column(TEXT), literal(1)]),
        ("and", [column(INT64)]),
        ("date_trunc", [literal("century"), column(DATE)]),
        ("concat", [column(FLOAT64), literal("x")]),
        ("split_part", [column(TEXT), literal(","), literal(0)]),
        ("width_bucket", [column(INT64), literal(5), literal(5), literal(1)]),
        ("format_date", [column(DATE), literal("%c")]),
        ("regexp_replace", [column(TEXT), literal("a*"), literal("")]),
        ("regexp_replace", [column(TEXT), literal("a"), literal(r"\1")]),
        ("regexp_replace", [column(TEXT), literal("a"), literal(""), literal("i")]),
        ("regexp_extract", [column(TEXT), literal("(a)(b)")]),
        ("subtract", [column(TIMESTAMP), column(TIMESTAMP, "b")]),
    ],
)
def test_arguments_that_have_no_bounded_or_portable_meaning_are_refused(name: str, arguments: list[Literal]) -> None:
    with pytest.raises(SignatureError):
        call(name, arguments)


def test_unknown_operations_are_refused() -> None:
    with pytest.raises(UnknownOperationError):
        call("random", [])
    with pytest.raises(SignatureError):
        cast(column(FLOAT64), TEXT)


def test_letters_have_the_case_that_duckdb_gives_them() -> None:
    found = (
        duckdb.connect()
        .execute(
            "SELECT chr(i::INT), upper(chr(i::INT)), lower(chr(i::INT)) FROM range(1, 1114112) r(i) "
            "WHERE i NOT BETWEEN 55296 AND 57343"
        )
        .fetchall()
    )
    cased = [(c, up, low) for c, up, low in found if {up, low, c.upper(), c.lower()} != {c}]
    assert len(cased) > 2_500
    assert [c for c, up, low in cased if (upper.meaning(c), lower.meaning(c)) != (up, low)] == []


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("multiply", [column(FLOAT64), literal(2)], Range(lower=F(-20), upper=F(10))),
        ("multiply", [column(FLOAT64), column(FLOAT64, "b")], Range(lower=F(-50), upper=F(100))),
        ("divide", [column(FLOAT64), column(INT64, "n")], Range(lower=F(-10), upper=F(5))),
        ("abs", [column(FLOAT64)], Range(lower=F(0), upper=F(10))),
        ("greatest", [column(FLOAT64), column(INT64, "n")], Range(lower=F(0), upper=F(100), nullable=False)),
        ("clamp", [column(FLOAT64, "unknown"), literal(0), literal(5)], Range(lower=F(0), upper=F(5))),
        ("coalesce", [column(FLOAT64), literal(500)], Range(lower=F(-10), upper=F(500), nullable=False)),
        ("add", [column(INT64, "n"), column(INT64, "n")], Range(lower=F(0), upper=F(200), nullable=False)),
        ("add", [column(INT64, "n"), column(INT64, "unknown")], Range()),
        ("sqrt", [column(INT64, "n")], Range(lower=F(0), upper=F(10), nullable=False)),
        ("extract_month", [column(DATE, "unknown")], Range(lower=F(1), upper=F(12))),
    ],
)
def test_a_range_is_as_narrow_as_expected(name: str, arguments: list[Literal], expected: Range) -> None:
    known = {
        "a": Range(lower=F(-10), upper=F(5)),
        "b": Range(lower=F(-10), upper=F(5)),
        "n": Range(lower=F(0), upper=F(100), nullable=False),
    }
    assert range_of(call(name, arguments), known) == expected


def test_every_operation_is_documented() -> None:
    assert all(function.doc.endswith(".") and function.name == name for name, function in FUNCTIONS.items())
    assert len(FUNCTIONS) >= 75
