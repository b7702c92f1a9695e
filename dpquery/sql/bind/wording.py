"""How messages name what is not supported: as people write it, never by the parser's names; and what may be meant."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from sqlglot import exp

from dpquery.catalog.names import closest
from dpquery.errors import QueryError
from dpquery.plan.aggregates import AGGREGATES
from dpquery.sql.names.functions import NAMED, PLAIN, is_known
from dpquery.sql.parse.parse import OTHERS, read

LONGEST_CALL = 1000
"""Characters of a call that is looked for in them."""
_FORMS: dict[type[exp.Expression], str] = {
    exp.Add: "this sum",
    exp.Sub: "this difference",
    exp.Like: "LIKE with a pattern that is not a constant",
    exp.ILike: "ILIKE with a pattern that is not a constant",
    exp.SimilarTo: "SIMILAR TO",
    exp.Glob: "GLOB",
    exp.Interval: "an interval in this place",
    exp.Placeholder: "a parameter",
    exp.Tuple: "a row of values",
    exp.Array: "a list",
    exp.Bracket: "an element of a list",
    exp.Struct: "a structure of named values",
    exp.Dot: "a field of a value",
    exp.Star: "a star in this place",
    exp.Column: "a star in this place",
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS",
    exp.Lambda: "a lambda function",
    exp.Collate: "COLLATE",
    exp.Alias: "an alias in this place",
    exp.Table: "a table in this place",
}
"""What people call a form that the parser knows and the binder does not."""

ADVISED = {
    "age": "Write EXTRACT(YEAR FROM AGE(a, b)), as in EXTRACT(YEAR FROM AGE(a, b)) >= 65, or compare a - b with an "
    "INTERVAL of days.",
    **dict.fromkeys(
        ("datediff", "date_diff"),
        "PostgreSQL has none: write b::date - a::date for days, EXTRACT(EPOCH FROM b - a) / 3600 for hours, or the "
        "query with dialect=\"duckdb\", where date_diff('month', a, b) counts months.",
    ),
    "the text constant is not a valid date": "Write it like '2024-12-31'.",
    "the text constant is not a valid timestamp": "Write it like '2024-12-31 18:30:00'.",
    "a row of values": "Compare each column by itself: (a = 1 AND b = 2) OR (a = 3 AND b = 4).",
    "a list": "A column holds one value: ask for each by itself, as PERCENTILE_CONT(0.5), or write IN (...).",
    "an element of a list": "Ask for the value itself, as PERCENTILE_CONT(0.5) or FIRST(x ORDER BY y).",
    "an interval in this place": "An interval is one number of weeks, days, hours, minutes or seconds, as INTERVAL '30 "
    "days': it is compared with a difference of timestamps, and moves them; months have no fixed length.",
    "generate_series": "Declare a public table of these values, or list them: FROM (VALUES (1), (2)) AS t (x).",
}
"""What to write instead of functions that are not known as they are called, and of forms that are not."""

_INSTEAD = {
    "pivots": "Write a column for each value: COUNT(*) FILTER (WHERE kind = 'a') AS a.",
    "sample": "A sample hides people only if its members stay secret, which no engine promises: ask all rows, for "
    "the same loss and a smaller error. `accounting.subsampled` says what a secret sample would save.",
    "recursive": "For a calendar or numbers, write FROM generate_series(DATE '2024-01-01', DATE '2024-12-31', "
    "INTERVAL '1 day').",
}
_CLAUSES = {
    "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE",
    "method": "this kind of JOIN",
    "with_ties": "WITH TIES",
    "limit_options": "this form of LIMIT",
    "grouping_sets": "a list of keys before GROUPING SETS",
    "totals": "WITH TOTALS",
    "pivots": "PIVOT",
    "into": "SELECT INTO",
    "recursive": "WITH RECURSIVE",
    "symmetric": "BETWEEN SYMMETRIC",
    "laterals": "LATERAL",
    "distinct": "DISTINCT",
    "hint": "a hint",
    "kind": "this kind of SELECT",
    "joins": "a join in this place",
    "order": "ORDER BY in this place",
    "limit": "LIMIT in this place",
    "offset": "OFFSET in this place",
    "group": "GROUP BY in this place",
    "having": "HAVING in this place",
    "where": "WHERE in this place",
    "qualify": "QUALIFY in this place",
    "connect": "CONNECT BY",
    "match": "MATCH_RECOGNIZE",
    "by_name": "BY NAME",
    "materialized": "MATERIALIZED",
    "default": "a default in this place",
    "nulls_first": "NULLS FIRST or LAST in this place",
    "with_fill": "WITH FILL",
    "ordinality": "WITH ORDINALITY",
    "only": "ONLY",
    "version": "a version of a table",
    "when": "a version of a table",
    "except_": "EXCEPT in a star",
    "replace": "REPLACE in a star",
    "rename": "RENAME in a star",
    "ilike": "LIKE in a star",
    "format": "a format of CAST",
    "action": "this form of CAST",
    "windows": "WINDOW in this place",
}
"""Clauses by the parser's names, in words."""


def form_of(node: exp.Expression) -> str:
    """Returns what to call an expression that is not supported; the message quotes it from the query."""
    return _FORMS.get(type(node), "this expression")


def clause_of(part: str) -> str:
    """Returns what to call a part of a clause that is not supported, by the parser's name of it."""
    return _CLAUSES.get(part, "this part of the query")


def advised_instead(part: str) -> str:
    """Returns what to write instead of a part of a clause that is not supported, "" where nothing is known."""
    return _INSTEAD.get(part, "")


def meant(name: str, known: Iterable[str]) -> str:
    """Returns "Did you mean ...? " where a known name is near, else "": the beginning of an advice."""
    near = closest(name, known)
    return f"Did you mean {near}? " if near is not None else ""


def function_meant(name: str, call: str) -> str:
    """Returns the beginning of an advice on a function that is not known: a dialect that has it, or a near name.

    Args:
        call: The text of its call.
    """
    for dialect in OTHERS if len(call) <= LONGEST_CALL else ():
        with suppress(QueryError):
            found = read(f"SELECT {call}", dialect)[0].find(exp.Func)
            if isinstance(found, exp.Expression) and is_known(found):
                return f'It is one of {dialect}: write it as PostgreSQL has it, or with dialect="{dialect}". '
    return meant(name, function_names()) if len(name) > 3 else ""


@cache
def function_names() -> tuple[str, ...]:
    """Returns the names by which functions and aggregates can be called, in small letters."""
    classes = (name for cls in PLAIN if issubclass(cls, exp.Func) for name in cls.sql_names())
    return tuple(sorted({name.lower() for name in (*classes, *NAMED, *AGGREGATES)}))
