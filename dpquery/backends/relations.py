"""Relations to DuckDB's SQL. Every name in the text is one that the planner made; analyst SQL is never run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from dpquery.backends.sql_expressions import lower
from dpquery.errors import InternalError
from dpquery.plan.expr import Cast, Expression
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    Sort,
    output,
)
from dpquery.plan.types import FLOAT64, Kind, Type, Value

_JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "cross": "CROSS JOIN"}
_ID = re.compile(r"[a-z][a-z0-9_]*")
_LARGEST_SUMMAND = {"sum": "1e290", "avg": "1e290"}
_LARGEST_SQUARED = "1e140"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationWriter:
    """Writes relations as SELECT statements whose columns are named by id.

    Attributes:
        scan: A scan to a SELECT that reads its table as declared.
        released: The number of a released table to its name in the engine.
        parameters: The texts of the query; the SQL refers to them as $1, $2, ...
    """

    scan: Callable[[Scan], str]
    released: Callable[[int], str]
    parameters: list[Value] = field(default_factory=list)

    def select(self, relation: Relation) -> str:
        """Returns one SELECT statement that gives the rows of the relation."""
        match relation:
            case Scan():
                return self.scan(relation)
            case Released():
                columns = ", ".join(name(c.id) for c in relation.columns) or "*"
                return f"SELECT {columns} FROM {self.released(relation.index)}"
            case Filter():
                return f"SELECT * FROM {self._nested(relation.source)} WHERE {self.write(relation.condition)}"
            case Project():
                columns = ", ".join(f"{self.write(c.expression)} AS {name(c.id)}" for c in relation.columns)
                return f"SELECT {columns} FROM {self._nested(relation.source)}"
            case Join():
                return self._join(relation)
            case Aggregate():
                return self._aggregate(relation)
            case Sort():
                keys = ", ".join(
                    f"{name(k.column)} {'DESC' if k.descending else 'ASC'} NULLS {'FIRST' if k.nulls_first else 'LAST'}"
                    for k in relation.keys
                )
                return f"SELECT * FROM {self._nested(relation.source)} ORDER BY {keys}"
            case Limit():
                count = "" if relation.count is None else f" LIMIT {relation.count}"
                return f"SELECT * FROM {self._nested(relation.source)}{count} OFFSET {relation.offset}"
            case _:
                assert_never(relation)

    def _nested(self, relation: Relation) -> str:
        return f"({self.select(relation)})"

    def _join(self, join: Join) -> str:
        if join.kind not in _JOINS:
            raise InternalError(f"a {join.kind} join has no form in SQL here")
        conditions = [f"{self.write(a)} = {self.write(b)}" for a, b in join.equalities]
        if join.condition is not None:
            conditions.append(f"({self.write(join.condition)})")
        kind = "inner" if join.kind == "cross" and conditions else join.kind
        on = f" ON {' AND '.join(conditions) or 'TRUE'}" if kind != "cross" else ""
        columns = ", ".join(name(c.id) for c in output(join))
        return f"SELECT {columns} FROM {self._nested(join.left)} {_JOINS[kind]} {self._nested(join.right)}{on}"

    def _aggregate(self, aggregate: Aggregate) -> str:
        types = {column.id: column.type for column in output(aggregate.source)}
        keys = [name(id) for id in aggregate.group_by]
        shown = [f"{normal(name(id), types[id])} AS {name(id)}" for id in aggregate.group_by]
        columns = [*shown, *(f"{self._call(a)} AS {name(a.id)}" for a in aggregate.aggregates)]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(columns)} FROM {self._nested(aggregate.source)}{grouped}"

    def write(self, expression: Expression) -> str:
        """Returns an expression in SQL, over columns named by id.

        Ranges are not used to leave out guards: stored values may break their declared bounds.
        """
        return lower(expression, names=name, parameters=self.parameters)

    def _call(self, column: AggregateColumn) -> str:
        """Returns an exact aggregate; total, and independent of the order of rows."""
        kept = "" if column.filter is None else f" FILTER (WHERE {self.write(column.filter)})"
        if column.argument is None:
            return f"COUNT(*){kept}"
        argument = self.write(column.argument)
        match column.function:
            case "count":
                return f"COUNT({argument}){kept}"
            case "count_distinct":
                return f"COUNT(DISTINCT {argument}){kept}"
            case "min" | "max":
                return f"{column.function.upper()}({argument}){kept}"
            case "sum":
                return self._sum(column, argument, kept)
            case "mode":
                return f"MODE({argument} ORDER BY {argument}){kept}"
            case "quantile_cont" | "quantile_disc":
                return self._quantile(column, kept)
            case "avg" | "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
                limit = _LARGEST_SUMMAND.get(column.function, _LARGEST_SQUARED)
                return f"{column.function.upper()}({_ordered(self._float(column.argument), limit)}){kept}"
            case _:
                raise InternalError(f"the aggregate {column.function} has no form in SQL here")

    def _quantile(self, column: AggregateColumn, kept: str) -> str:
        """Returns the value at a place of the sorted list, or between two places; exact arithmetic finds the place."""
        assert column.argument is not None and column.fraction is not None
        r, q = column.fraction.numerator, column.fraction.denominator
        argument = self.write(column.argument)
        if column.function == "quantile_disc":
            place = f"GREATEST(1, (COUNT({argument}){kept} * {r} + {q - 1}) // {q})"
            return f"list_extract(list_sort(LIST({argument}){_non_null(argument, kept)}), {place})"
        argument = _within(self._float(column.argument), _LARGEST_SUMMAND["avg"])
        count, values = f"COUNT({argument}){kept}", f"list_sort(LIST({argument}){_non_null(argument, kept)})"
        place = f"(({count} - 1) * {r})"
        low, high = (f"list_extract({values}, {place} // {q} + {after})" for after in (1, 2))
        between = f"{low} + ({high} - {low}) * (({place} % {q}) / {q}::DOUBLE)"
        return f"CASE WHEN {count} = 0 THEN NULL WHEN {place} % {q} = 0 THEN {low} ELSE {between} END"

    def _sum(self, column: AggregateColumn, argument: str, kept: str) -> str:
        """Integers and decimals of up to 18 digits add up exactly in 128 bits; others as floats in order of value."""
        assert column.argument is not None
        given = column.argument.type
        if given.kind is Kind.INT64:
            return f"TRY_CAST(SUM({argument}){kept} AS BIGINT)"
        if given.kind is Kind.DECIMAL and given.precision <= 18:
            return f"SUM({argument}){kept}"
        total = f"SUM({_ordered(self._float(column.argument), _LARGEST_SUMMAND['sum'])}){kept}"
        return total if given == FLOAT64 else f"TRY_CAST({total} AS DECIMAL(38, {given.scale}))"

    def _float(self, expression: Expression) -> str:
        return self.write(expression if expression.type == FLOAT64 else Cast(argument=expression, type=FLOAT64))


def normal(value: str, type: Type) -> str:
    """Returns a grouping value in one form: 0.0 and -0.0 are one group, and either of them could stand for it."""
    return f"({value} + 0.0::DOUBLE)" if type == FLOAT64 else value


def name(id: str) -> str:
    """Returns an id as a name in SQL; only names that the planner makes have this form."""
    if not _ID.fullmatch(id):
        raise InternalError("an id of a plan cannot be a name in SQL")
    return id


def _ordered(value: str, limit: str) -> str:
    """Returns a float argument clamped so that no sum overflows, with the order that makes its rounding repeatable."""
    return f"{_within(value, limit)} ORDER BY {value}"


def _within(value: str, limit: str) -> str:
    most, least = f"{limit}::DOUBLE", f"-{limit}::DOUBLE"
    return f"CASE WHEN {value} > {most} THEN {most} WHEN {value} < {least} THEN {least} ELSE {value} END"


def _non_null(value: str, kept: str) -> str:
    """Returns the filter with the condition that a value is not NULL."""
    present = f"({value}) IS NOT NULL"
    return f" FILTER (WHERE {present})" if not kept else f"{kept[:-1]} AND {present})"
