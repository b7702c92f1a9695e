"""Relations to DuckDB's SQL. Every name in the text is one that the planner made; analyst SQL is never run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from dpquery.backends.duckdb.sql.aggregates_sql import exact
from dpquery.backends.duckdb.sql.semijoin_reduction import LOOKED_FOR, is_looked_for, matched
from dpquery.backends.duckdb.sql.sentinels import combined, is_guarded, joined
from dpquery.backends.duckdb.sql.shared_parts import MANY, shared
from dpquery.backends.duckdb.sql.sql_expressions import lower
from dpquery.backends.duckdb.sql.values_sql import name, normal
from dpquery.backends.duckdb.sql.windows_sql import over
from dpquery.plan.expr import Call, Expression, Literal, children, columns_of, conjuncts
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    is_private,
    output,
)
from dpquery.plan.types import DATE, TIMESTAMP

_JOINS: dict[JoinKind, str] = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "cross": "CROSS JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationWriter:
    """Writes relations as SELECT statements whose columns are named by id.

    Attributes:
        scan: A scan to a SELECT that reads its table as declared, given how it refers to a run's numbers.
        released: The number of a released table to its name in the engine.
        has_statistics: Whether the engine has statistics of private rows.
        numbers: Places of the numbers of 64 bits that a run gives, as far as the SQL refers to them as $1, $2, ...
    """

    scan: Callable[[Scan, Callable[[int], str]], str]
    released: Callable[[int], str]
    has_statistics: bool = False
    numbers: set[int] = field(default_factory=set)

    def number(self, place: int) -> str:
        """Returns SQL for a number of 64 bits that differs from run to run: the first of a run is number 1."""
        self.numbers.add(place)
        return f"${place}::UBIGINT"

    def select(self, relation: Relation) -> str:
        """Returns one SELECT statement that gives the rows of the relation."""
        match relation:
            case Scan():
                return self.scan(relation, self.number)
            case Values():
                return self._values(relation)
            case Released():
                columns = ", ".join(name(c.id) for c in relation.columns) or "*"
                return f"SELECT {columns} FROM {self.released(relation.index)}"
            case Filter():
                passing = self._passing(relation.condition, is_joined=isinstance(relation.source, Join))
                return f"SELECT * FROM {self._from(relation.source)} WHERE {passing}"
            case Project():
                if len(relation.columns) >= MANY and not is_private(relation):
                    relation = shared(relation)
                columns = ", ".join([f"{self.write(c.expression)} AS {name(c.id)}" for c in relation.columns])
                columns = columns or "1 AS nothing"
                return f"SELECT {columns} FROM {self._from(relation.source)}"
            case Join():
                columns = ", ".join(name(c.id) for c in output(relation)) or "1 AS nothing"
                if is_guarded(relation):
                    return self._guarded(relation, columns)
                return f"SELECT {columns} FROM {self._chain(relation)}"
            case SetOperation():
                return self._set_operation(relation)
            case Aggregate():
                return self._aggregate(relation, self._nested(relation.source))
            case Window():
                return self._window(relation)
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

    def _from(self, relation: Relation) -> str:
        """Returns a relation as an item of FROM: joins stand in one clause, so that the engine chooses their order."""
        if isinstance(relation, Join) and not is_guarded(relation):
            return self._chain(relation)
        return self._nested(relation)

    def _passing(self, condition: Expression, *, is_joined: bool) -> str:
        """Returns a condition of rows. The engine may compare none but dates with the statistics of row groups, which
        it then leaves unread: it knows nothing of what COALESCE gives, nor makes filters of private rows of it. A
        filter of public rows would be one, by what a join equates. What compares both sides of a join is left as it is:
        the engine may join them by it."""
        if not self.has_statistics:
            return f"({self.write(condition)})"
        written = []
        for part in conjuncts(condition):
            is_of_dates = all(column.type in (DATE, TIMESTAMP) for column in columns_of(part))
            is_plain = is_of_dates or (is_joined and _compares_columns(part))
            written.append(f"({self.write(part)})" if is_plain else f"COALESCE({self.write(part)}, FALSE)")
        return " AND ".join(written)

    def _chain(self, join: Join) -> str:
        conditions = [f"{self.write(a)} = {self.write(b)}" for a, b in join.equalities]
        if join.condition is not None:
            conditions.append(self._passing(join.condition, is_joined=True))
        kind = _kind(join)
        on = f" ON {' AND '.join(conditions) or 'TRUE'}" if kind != "cross" else ""
        return f"{self._from(join.left)} {_JOINS[kind]} {self._nested(join.right)}{on}"

    def _guarded(self, join: Join, columns: str) -> str:
        """Returns a join of two private relations. Of what is grouped for it, rows of keys that the left side lacks are
        left out first."""
        word, right = _JOINS[_kind(join)], join.right
        if not (isinstance(right, Aggregate) and is_looked_for(join, right)):
            return joined(join, columns, word, (self._from(join.left), self._from(right)), self.write)
        met = matched(join, right)
        of_met = ", ".join(name(c.id) for c in output(met))
        rows = joined(met, of_met, _JOINS[met.kind], (self._from(met.left), LOOKED_FOR), self.write)
        sides = LOOKED_FOR, f"({self._aggregate(right, f'({rows})')})"
        text = joined(join, columns, word, sides, self.write)
        return f"WITH {LOOKED_FOR} AS MATERIALIZED ({self.select(join.left)}) {text}"

    def _values(self, values: Values) -> str:
        """Returns the literal rows; each cell is bound as a parameter."""
        if not values.columns or not values.rows:
            nothing = [f"{self.write(Literal(value=None, type=c.type))} AS {name(c.id)}" for c in values.columns]
            return f"SELECT {', '.join(nothing or ['1 AS nothing'])} FROM range({len(values.rows)})"
        rows = [
            ", ".join(self.write(Literal(value=v, type=c.type)) for v, c in zip(row, values.columns, strict=True))
            for row in values.rows
        ]
        named = ", ".join(name(column.id) for column in values.columns)
        return f"SELECT * FROM (VALUES {', '.join(f'({row})' for row in rows)}) AS given({named})"

    def _set_operation(self, operation: SetOperation) -> str:
        """Returns both sides with their columns in one order; rows are compared with each float in one form."""
        compared = operation.kind != "union_all"
        left = [normal(name(c.left), c.type) if compared else name(c.left) for c in operation.columns]
        right = [normal(name(c.right), c.type) if compared else name(c.right) for c in operation.columns]
        sides = []
        for relation, read in ((operation.left, left), (operation.right, right)):
            columns = ", ".join(f"{r} AS {name(c.id)}" for r, c in zip(read, operation.columns, strict=True))
            sides.append(f"SELECT {columns} FROM {self._nested(relation)}")
        word = operation.kind.replace("_", " ").upper()
        if is_guarded(operation):
            return combined(operation, output(operation), word, (sides[0], sides[1]))
        return f"SELECT * FROM (({sides[0]}) {word} ({sides[1]}))"

    def _window(self, window: Window) -> str:
        """Returns the source with the columns of window functions; above the boundary its rows keep their order."""
        source, given = self._nested(window.source), output(window.source)
        made = ", ".join(f"{over(c, given, self.write)} AS {name(c.id)}" for c in window.columns)
        if is_private(window.source):
            return f"SELECT *, {made} FROM {source}"
        placed = f"(SELECT *, row_number() OVER () AS place FROM {source})"
        columns = ", ".join(name(c.id) for c in output(window))
        return f"SELECT {columns} FROM (SELECT *, {made} FROM {placed}) ORDER BY place"

    def _aggregate(self, aggregate: Aggregate, rows: str) -> str:
        types = {column.id: column.type for column in output(aggregate.source)}
        keys = [name(id) for id in aggregate.group_by]
        shown = [f"{normal(name(id), types[id])} AS {name(id)}" for id in aggregate.group_by]
        columns = [*shown, *(f"{exact(a, self.write)} AS {name(a.id)}" for a in aggregate.aggregates)]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(columns)} FROM {rows}{grouped}"

    def write(self, expression: Expression) -> str:
        """Returns an expression in SQL, over columns named by id.

        Ranges are not used to leave out guards: stored values may break their declared bounds.
        """
        return lower(expression, names=name)


def _compares_columns(part: Expression) -> bool:
    is_comparison = isinstance(part, Call) and part.function in _COMPARISONS
    return is_comparison and all(any(columns_of(side)) for side in children(part))


def _kind(join: Join) -> JoinKind:
    """Returns the kind of a join, as which it is written: a cross join with a condition is an inner one."""
    has_condition = bool(join.equalities) or join.condition is not None
    return "inner" if join.kind == "cross" and has_condition else join.kind


def is_quick(relation: Relation) -> bool:
    """Whether reading the rows twice is quicker than keeping them."""
    match relation:
        case Scan():
            return True
        case Filter() | Project():
            return is_quick(relation.source)
        case _:
            return False
