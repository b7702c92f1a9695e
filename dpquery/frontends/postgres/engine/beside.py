"""Columns with the ends of intervals, for connections that say `SET dpquery.intervals = on`.

Which columns these are follows from the query alone, so that a description without an answer names them too.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from dpquery.data.arrow import arrow_type
from dpquery.frontends.postgres.engine.routing import Statement
from dpquery.frontends.postgres.wire.answers import Field
from dpquery.frontends.postgres.wire.names import FLOAT8, field_of
from dpquery.plan.types import FLOAT64, Type
from dpquery.result.beside import names_beside, with_intervals
from dpquery.result.table import Result
from dpquery.sql.bind.shape import Shape

SETTING = "dpquery.intervals"


def fields_of(made: Shape, statement: Statement, settings: Mapping[str, str]) -> tuple[Field, ...]:
    """Returns the columns of a query's answer, with those of its intervals where a connection asks for them."""
    is_exact = not statement.placeholders
    added = names_beside([name for name, _ in made.columns], _numbers(made)) if _asks(settings) else {}
    fields: list[Field] = []
    for place, (name, type) in enumerate(made.columns):
        fields.append(field_of(name, type, is_exact=is_exact))
        fields += [Field(name=end, oid=FLOAT8) for end in added.get(place, ())]
    return tuple(fields)


def answer_table(result: Result, made: Shape, fields: tuple[Field, ...]) -> pa.Table:
    """Returns an answer's table with the columns that were described, of the types of the plan."""
    has_intervals = len(fields) > len(made.columns)
    table = with_intervals(result, made.noisy) if has_intervals else result.to_arrow()
    types: list[Type] = []
    for place, (_, type) in enumerate(made.columns):
        types += [type, FLOAT64, FLOAT64] if has_intervals and place in _numbers(made) else [type]
    columns = [
        column if column.type == arrow_type(type) else column.cast(arrow_type(type))
        for column, type in zip(table.columns, types, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def without_intervals(table: pa.Table, made: Shape, fields: tuple[Field, ...]) -> pa.Table:
    """Returns an answer that no data were asked for, with NULL in the columns of intervals that were described."""
    if len(fields) == len(made.columns):
        return table
    columns = []
    for place, column in enumerate(table.columns):
        columns += [column, *[pa.nulls(len(table), pa.float64())] * (2 if place in _numbers(made) else 0)]
    return pa.table(columns, names=[field.name for field in fields])


def _numbers(made: Shape) -> frozenset[int]:
    return frozenset(place for place in made.noisy if made.columns[place][1].is_numeric)


def _asks(settings: Mapping[str, str]) -> bool:
    return settings.get(SETTING) == "on"
