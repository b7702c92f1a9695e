"""How each operation is written in SQL (PostgreSQL's dialect, the default), for the reference pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dpquery.plan.functions import FUNCTIONS


@dataclass(frozen=True, slots=True)
class Description:
    """One row of the table of functions: what to write, what it is called in plans, what it gives and when NULL."""

    sql: str
    operation: str
    result: str
    meaning: str


_NUMBER, _SAME = "type of the arguments", "common type of the arguments"
SPELLINGS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "eq": ("a = b", "boolean"),
        "ne": ("a <> b", "boolean"),
        "lt": ("a < b", "boolean"),
        "le": ("a <= b", "boolean"),
        "gt": ("a > b", "boolean"),
        "ge": ("a >= b", "boolean"),
        "is_distinct_from": ("a IS DISTINCT FROM b", "boolean"),
        "is_not_distinct_from": ("a IS NOT DISTINCT FROM b", "boolean"),
        "is_null": ("a IS NULL", "boolean"),
        "is_not_null": ("a IS NOT NULL", "boolean"),
        "is_true": ("a IS TRUE", "boolean"),
        "is_false": ("a IS FALSE", "boolean"),
        "is_not_true": ("a IS NOT TRUE", "boolean"),
        "is_not_false": ("a IS NOT FALSE", "boolean"),
        "and": ("a AND b", "boolean"),
        "or": ("a OR b", "boolean"),
        "not": ("NOT a", "boolean"),
        "in": ("a IN (1, 2)", "boolean"),
        "coalesce": ("COALESCE(a, b)", _SAME),
        "nullif": ("NULLIF(a, b)", _SAME),
        "greatest": ("GREATEST(a, b)", _SAME),
        "least": ("LEAST(a, b)", _SAME),
        "clamp": ("CLAMP(a, 0, 10)", _SAME),
        "add": ("a + b", "int64, decimal or float64; date for a date and days"),
        "subtract": ("a - b", "int64, decimal or float64; date, or int64 for two dates"),
        "multiply": ("a * b", "int64, decimal or float64"),
        "divide": ("a / b", "float64"),
        "int_divide": ("a / b of two integers", "int64"),
        "modulo": ("a % b", "int64, decimal or float64"),
        "negate": ("-a", _NUMBER),
        "abs": ("ABS(a)", _NUMBER),
        "sign": ("SIGN(a)", "int64"),
        "bit_and": ("a & b", "int64"),
        "bit_or": ("a | b", "int64"),
        "bit_xor": ("a # b", "int64"),
        "floor": ("FLOOR(a)", _NUMBER),
        "ceil": ("CEIL(a)", _NUMBER),
        "trunc": ("TRUNC(a)", _NUMBER),
        "round": ("ROUND(a, 2)", _NUMBER),
        "width_bucket": ("WIDTH_BUCKET(a, 0, 10, 5)", "int64"),
        "sqrt": ("SQRT(a)", "float64"),
        "cbrt": ("CBRT(a)", "float64"),
        "exp": ("EXP(a)", "float64"),
        "ln": ("LN(a)", "float64"),
        "log10": ("LOG(a)", "float64"),
        "log2": ("LOG(2, a)", "float64"),
        "power": ("POWER(a, b)", "float64"),
        "sin": ("SIN(a)", "float64"),
        "cos": ("COS(a)", "float64"),
        "asin": ("ASIN(a)", "float64"),
        "acos": ("ACOS(a)", "float64"),
        "atan": ("ATAN(a)", "float64"),
        "atan2": ("ATAN2(a, b)", "float64"),
        "radians": ("RADIANS(a)", "float64"),
        "degrees": ("DEGREES(a)", "float64"),
        "pi": ("PI()", "float64"),
        "upper": ("UPPER(a)", "text"),
        "lower": ("LOWER(a)", "text"),
        "length": ("LENGTH(a)", "int64"),
        "trim": ("TRIM(a)", "text"),
        "ltrim": ("LTRIM(a)", "text"),
        "rtrim": ("RTRIM(a)", "text"),
        "substring": ("SUBSTRING(a FROM 1 FOR 2)", "text"),
        "left": ("LEFT(a, 2)", "text"),
        "right": ("RIGHT(a, 2)", "text"),
        "replace": ("REPLACE(a, 'x', 'y')", "text"),
        "concat": ("a || b", "text"),
        "concat_without_nulls": ("CONCAT(a, b)", "text"),
        "position": ("POSITION(b IN a)", "int64"),
        "starts_with": ("STARTS_WITH(a, b)", "boolean"),
        "ends_with": ("ENDS_WITH(a, b)", "boolean"),
        "contains": ("CONTAINS(a, b)", "boolean"),
        "reverse": ("REVERSE(a)", "text"),
        "split_part": ("SPLIT_PART(a, ',', 1)", "text"),
        "lpad": ("LPAD(a, 5, '0')", "text"),
        "rpad": ("RPAD(a, 5, '0')", "text"),
        "like": ("a LIKE 'x%'", "boolean"),
        "ilike": ("a ILIKE 'x%'", "boolean"),
        "regexp_matches": ("a ~ 'x+'", "boolean"),
        "extract_year": ("EXTRACT(YEAR FROM a)", "int64"),
        "extract_quarter": ("EXTRACT(QUARTER FROM a)", "int64"),
        "extract_month": ("EXTRACT(MONTH FROM a)", "int64"),
        "extract_day": ("EXTRACT(DAY FROM a)", "int64"),
        "extract_dow": ("EXTRACT(DOW FROM a)", "int64"),
        "extract_isodow": ("EXTRACT(ISODOW FROM a)", "int64"),
        "extract_doy": ("EXTRACT(DOY FROM a)", "int64"),
        "extract_week": ("EXTRACT(WEEK FROM a)", "int64"),
        "extract_isoyear": ("EXTRACT(ISOYEAR FROM a)", "int64"),
        "extract_hour": ("EXTRACT(HOUR FROM a)", "int64"),
        "extract_minute": ("EXTRACT(MINUTE FROM a)", "int64"),
        "extract_second": ("EXTRACT(SECOND FROM a)", "int64"),
        "extract_epoch": ("EXTRACT(EPOCH FROM a)", "float64"),
        "date_trunc": ("DATE_TRUNC('month', a)", "timestamp"),
        "format_date": ("TO_CHAR(a, 'YYYY-MM')", "text"),
        "add_days": ("a + INTERVAL '7 days'", "type of the date"),
        "add_months": ("a - INTERVAL '1 month'", "type of the date"),
        "add_microseconds": ("a + INTERVAL '3 hours'", "timestamp"),
        "date_diff": ("DATE_DIFFERENCE('month', a, b)", "int64"),
        "make_date": ("MAKE_DATE(2024, a, 1)", "date"),
        "last_day": ("LAST_DAY(a)", "date"),
    }
)
"""By operation: an example of its SQL, and what type it gives."""


def descriptions() -> Iterator[Description]:
    """Yields the table of functions, in the order of the operations' table."""
    for name, function in FUNCTIONS.items():
        sql, result = SPELLINGS[name]
        yield Description(sql=sql, operation=name, result=result, meaning=function.doc)
