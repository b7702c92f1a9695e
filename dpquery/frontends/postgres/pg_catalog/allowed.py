"""What statements over the catalogs, and statements without tables, may do: functions that they may call, and how long
a series may be; all else is refused. An engine makes a series as one list in memory, even if little of it is read."""

from __future__ import annotations

import re

from sqlglot import exp

from dpquery.backends.duckdb.system_process import TOO_LONG_SERIES
from dpquery.frontends.postgres.pg_catalog.relations import text_of
from dpquery.frontends.postgres.wire.answers import TOO_MUCH, Refusal

_RESERVED = ", ".join(f"'{word}'" for word in text_of("reserved.txt").split())
_TEXT = text_of("macros.sql").replace("{reserved}", _RESERVED)

_CLASS_NAMES = """
    Connector Case If Cast Coalesce Nullif Greatest Least Count Sum Min Max Avg LogicalAnd LogicalOr ArrayAgg
    GroupConcat Array ArrayToString ArraySize ArrayConcat ArrayContains ArrayContainsAll ArrayAppend StringToArray
    Explode Unnest GenerateSeries ExplodingGenerateSeries RowNumber Rank DenseRank Lower Upper Initcap Length
    Substring Left Right Trim Concat ConcatWs DPipe Replace StrPosition SplitPart StartsWith RegexpLike RegexpILike
    RegexpReplace Format Extract DateTrunc TimestampTrunc CurrentDate CurrentTimestamp CurrentUser CurrentSchema
    CurrentSchemas CurrentCatalog SessionUser CurrentDatabase CurrentVersion Abs Ceil Floor Round Sign Sqrt Pow Exp
    Ln Mod Exists Any All JSONObject TimeToStr Filter Collate WithinGroup Encode
"""
_CLASSES: tuple[type[exp.Expr], ...] = tuple(getattr(exp, name) for name in _CLASS_NAMES.split())

_OTHER_NAMES = """
    version current_database current_schema current_schemas current_setting set_config pg_advisory_unlock_all
    pg_backend_pid array_agg string_agg array_position generate_subscripts unnest now quote_ident format row_number
    cardinality getdatabaseencoding session_user current_user statement_timestamp transaction_timestamp
    clock_timestamp generate_series json_build_object btrim ltrim rtrim regexp_replace concat any all some
    json_object user array_to_string array_length lower upper length char_length substring substr replace coalesce
    nullif left right split_part strpos starts_with concat_ws count max min sum array_append array_cat
    string_to_array abs round bool_and bool_or float4 regexp_split_to_table regexp_split_to_array to_char
"""
_NAMES = frozenset([*_OTHER_NAMES.split(), *re.findall(r"^CREATE MACRO (\w+)", _TEXT, re.MULTILINE)])
"""Functions that the parser has no class for."""
_TABLES = re.findall(r"^CREATE MACRO (\w+)\([^)]*\) AS TABLE", _TEXT, re.MULTILINE)
_FROM = frozenset({"generate_series", "unnest", "generate_subscripts", *_TABLES})

_FROM_CLASSES = (exp.GenerateSeries, exp.ExplodingGenerateSeries, exp.Explode, exp.Unnest)


def refused_function(tree: exp.Expr) -> exp.Expr | None:
    """Returns the first call of a function that is not allowed, or None."""
    for node in tree.walk():
        if isinstance(node, exp.Anonymous):
            if str(node.this).lower() not in _NAMES:
                return node
        elif isinstance(node, exp.Func) and not isinstance(node, _CLASSES):
            return node
        elif isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else node.this.sql_name().lower()
            if name not in _FROM and not isinstance(node.this, _FROM_CLASSES):
                return node
    return None


MOST_SERIES = 100_000
"""Values of one series."""
_PARTS = ("start", "end", "step")

MACROS = f"""{_TEXT}
CREATE MACRO series_end(a, b, s) AS CASE WHEN s <> 0 AND (CAST(b AS DOUBLE) - CAST(a AS DOUBLE)) / s > {MOST_SERIES}
    THEN CAST(error('{TOO_LONG_SERIES}') AS BIGINT) ELSE b END;
CREATE MACRO moment_end(a, b, s) AS CASE WHEN (epoch(CAST(b AS TIMESTAMP)) - epoch(CAST(a AS TIMESTAMP)))
    / nullif(epoch(s), 0) > {MOST_SERIES} THEN CAST(error('{TOO_LONG_SERIES}') AS TIMESTAMP) ELSE b END;
"""
"""All macros; the last are the end of a series, or an error where the series is too long."""


def bound_series(tree: exp.Expr) -> None:
    """Bounds each series of a statement: by its constants at once, else when it is made.

    Raises:
        Refusal: A series between constants has too many values.
    """
    for node in list(tree.find_all(exp.GenerateSeries, exp.ExplodingGenerateSeries)):
        start, end, step = (node.args.get(part) for part in _PARTS)
        if not (isinstance(start, exp.Expr) and isinstance(end, exp.Expr)):
            continue
        numbers = [_number(part) for part in (start, end, step or exp.Literal.number(1))]
        first, last, by = numbers
        if first is not None and last is not None and by is not None:
            if by and (last - first) / by > MOST_SERIES:
                hint = "Ask for fewer values."
                raise Refusal(TOO_MUCH, f"a series has at most {MOST_SERIES:,} values here", None, hint)
            continue
        is_moments = isinstance(step, exp.Interval)
        step = step.copy() if isinstance(step, exp.Expr) else exp.Literal.number(1)
        macro = "moment_end" if is_moments else "series_end"
        node.set("end", exp.Anonymous(this=macro, expressions=[start.copy(), end.copy(), step]))


def _number(node: exp.Expr) -> float | None:
    """Returns the value of a written number, or None for anything else."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        inside = _number(node.this)
        return None if inside is None else -inside
    if isinstance(node, exp.Literal) and not node.is_string:
        try:
            return float(node.name)
        except ValueError:
            return None
    return None
