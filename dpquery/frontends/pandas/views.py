"""What a chain such as `df.dp.query(...).join(...)` has come to: a relation in SQL, and its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dpquery.errors import ParameterError, UnsupportedQueryError
from dpquery.frontends.pandas.column_expressions import GroupKey
from dpquery.frontends.pandas.columns import FrameColumn
from dpquery.frontends.pandas.query_text import condition_of
from dpquery.frontends.pandas.values import TABLE, known, plain, quoted

_WITH = re.compile(r"\s*with\s+(?!recursive\b)", re.IGNORECASE)
MOST_CELLS = 900
"""Values of a public frame that a query can hold itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A relation over the protected frame.

    Attributes:
        text: A SELECT that gives its rows, or "" for the frame itself.
        params: The values of its parameters, by name.
        columns: Its columns, by name, in order.
        filters: The conditions of filters that follow one another, so that many are no deeper than one.
        unfiltered: What they filter, as it stands behind FROM.
        table: The frame's name in its catalog.
    """

    columns: Mapping[str, FrameColumn]
    text: str = ""
    params: Mapping[str, object] = field(default_factory=dict)
    filters: tuple[str, ...] = ()
    unfiltered: str = ""
    table: str = TABLE

    @property
    def source(self) -> str:
        """What stands behind FROM."""
        if self.text:
            return f"({self.text}) AS {TABLE}"
        return TABLE if self.table == TABLE else f"{self.table} AS {TABLE}"

    def value(self, value: object, params: dict[str, object]) -> str:
        """Returns the parameter that stands for a value, which joins `params`."""
        name = f"dp{len(self.params) + len(params)}"
        params[name] = value
        return f":{name}"


def root(columns: Mapping[str, FrameColumn], table: str = TABLE) -> View:
    """Returns the frame itself."""
    return View(columns=MappingProxyType(dict(columns)), table=table)


def filtered(view: View, text: str, *, why_not: Mapping[str, str], local_dict: Mapping[str, object]) -> View:
    """Returns the rows for which a condition holds, in the words of `DataFrame.query`."""
    made = condition_of(text, view.columns, why_not=why_not, local_dict=local_dict, first=len(view.params))
    source, filters = view.unfiltered or view.source, (*view.filters, made.text)
    text = f"SELECT * FROM {source} WHERE {' AND '.join(filters)}"
    return replace(view, text=text, params={**view.params, **made.params}, filters=filters, unfiltered=source)


def clamped(view: View, bounds: Mapping[str, tuple[object, object]], why_not: Mapping[str, str]) -> View:
    """Returns the view with columns clamped to bounds, which they then have."""
    params: dict[str, object] = {}
    columns, written = dict(view.columns), {name: quoted(name) for name in view.columns}
    for name, pair in bounds.items():
        column = columns[known(name, columns, dict(why_not))]
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise UnsupportedQueryError(f"the bounds of {name} must be a pair", advice=f"Write {name}=(lower, upper).")
        ends = [plain(value, column) for value in pair]
        if any(end is None for end in ends) or not (column.is_number or column.is_moment):
            raise UnsupportedQueryError(f"{name} cannot be clamped to these bounds", advice="Numbers and dates can.")
        lower, upper = (view.value(end, params) for end in ends)
        written[name] = f"CLAMP({quoted(name)}, {lower}, {upper}) AS {quoted(name)}"
        columns[name] = replace(column, bounds=(ends[0], ends[1]))
    text = f"SELECT {', '.join(written.values())} FROM {view.source}"
    return View(columns=MappingProxyType(columns), text=text, params={**view.params, **params})


def with_keys(view: View, keys: Sequence[GroupKey]) -> View:
    """Returns the view with more columns: keys that follow from others."""
    if taken := [key.name for key in keys if key.name in view.columns]:
        raise UnsupportedQueryError(f"the frame has a column {taken[0]!r} already", advice="Rename it.")
    listed = ", ".join(f"{key.sql} AS {quoted(key.name)}" for key in keys)
    columns = {**view.columns, **{key.name: key.shown for key in keys}}
    text = f"SELECT *, {listed} FROM {view.source}"
    return View(columns=MappingProxyType(columns), text=text, params=view.params, table=view.table)


def joined(
    view: View,
    *,
    on: Sequence[str],
    to: Sequence[str],
    columns: Mapping[str, FrameColumn],
    rows: Sequence[Sequence[object]] | None,
    table: str,
    how: str,
) -> View:
    """Returns the view joined with a public frame.

    Args:
        on, to: The columns of both that have to be equal.
        columns: All columns of the public frame.
        rows: Its rows, to be written into the query, or None where it is the declared table `table`.
    """
    params: dict[str, object] = {}
    added = {name: column for name, column in columns.items() if name not in to}
    if overlap := sorted(added.keys() & view.columns.keys()):
        raise UnsupportedQueryError(f"both frames have the column {overlap[0]}", advice="Rename one of them.")
    if how not in ("left", "inner"):
        advice = "A right or outer join would show which public rows have no private row. Use left or inner."
        raise UnsupportedQueryError(
            f"how={how!r} is not a supported join of private rows with public ones", advice=advice
        )
    if rows is None:
        source = f"{quoted(table)} AS joined"
    else:
        listed = ", ".join(f"({', '.join(view.value(v, params) for v in row)})" for row in rows)
        source = f"(VALUES {listed}) AS joined ({', '.join(quoted(name) for name in columns)})"
    equal = " AND ".join(f"{TABLE}.{quoted(a)} = joined.{quoted(b)}" for a, b in zip(on, to, strict=True))
    shown = [f"{TABLE}.{quoted(n)}" for n in view.columns] + [f"joined.{quoted(n)}" for n in added]
    text = f"SELECT {', '.join(shown)} FROM {view.source} {how.upper()} JOIN {source} ON {equal}"
    made = {**view.columns, **{name: replace(column, nullable=True) for name, column in added.items()}}
    return View(columns=MappingProxyType(made), text=text, params={**view.params, **params})


def with_view(view: View, text: str, params: object) -> tuple[str, object]:
    """Returns a SELECT of the analyst's own over the view, which it calls `this`, and its parameters."""
    if not isinstance(text, str):
        raise UnsupportedQueryError(f"a query must be a string, not {type(text).__name__}")
    if not view.text and view.table == TABLE:
        return text, params
    own = _WITH.match(text)
    rows = view.text or f"SELECT * FROM {view.table}"
    made = f"WITH {TABLE} AS ({rows})" + (f",\n{text[own.end() :]}" if own else f"\n{text}")
    if not view.params:
        return made, params
    if params is not None and not isinstance(params, dict):
        raise ParameterError("behind query, join and assign_bounds, parameters have names", advice="Write :name.")
    if taken := sorted(view.params.keys() & (params or {}).keys()):
        raise ParameterError(f"the name {taken[0]} is taken", advice="Give the parameter another name.")
    return made, {**view.params, **(params or {})}
