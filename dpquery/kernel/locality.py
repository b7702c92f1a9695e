"""Which relations are unit-local: the rows of one privacy unit are a function of that unit's rows and of public tables.

One rule per operator; whatever has no rule is refused. The planner uses these rules to refuse queries with a place,
and the gate applies them again to the plan that will run (docs/proofs/unit-local.md proves each).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from dpquery.errors import InternalError
from dpquery.kernel.declarations import Declarations
from dpquery.plan.expr import Call, Column, Expression, children
from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    Sort,
    output,
    sources,
)


class NotUnitLocal(InternalError):
    """A relation that no rule covers.

    Attributes:
        reason: What is refused and why.
        advice: What to write instead.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Locality:
    """What is known of a relation.

    Attributes:
        private: Whether it reads private rows. If not, nothing in it needs protection.
        units: Ids of the columns that hold, on every row, the privacy unit that the row belongs to. Empty for public
            relations, and where the unit is the row (then each row stems from exactly one private row, and from each
            private row stems at most one).
    """

    private: bool
    units: frozenset[str] = frozenset()


PUBLIC = Locality(private=False)


def locality(relation: Relation, declared: Declarations) -> Locality:
    """Returns what is known of the relation's rows and units.

    Raises:
        NotUnitLocal: No rule shows that one unit's rows depend on that unit and public tables alone.
    Privacy:
        If `private`, then for every database and unit u the rows whose unit columns equal u are a function of the rows
        that u owns and of the public tables; `units` hold u on each of them.
    Source:
        docs/proofs/unit-local.md.
    """
    ids = [column.id for column in output(relation)]
    if len(set(ids)) != len(ids):
        raise NotUnitLocal("a relation gives two columns the same id")
    match relation:
        case Scan():
            return _scan(relation, declared)
        case Filter():
            _check_expressions([relation.condition], relation.source)
            return locality(relation.source, declared)
        case Project():
            _check_expressions([c.expression for c in relation.columns], relation.source)
            return _project(relation, locality(relation.source, declared))
        case Join():
            return _join(relation, declared)
        case Aggregate():
            return _aggregate(relation, locality(relation.source, declared))
        case Sort() | Limit():
            if locality(relation.source, declared).private:
                raise NotUnitLocal(
                    "ORDER BY and LIMIT rank the rows of different privacy units against each other",
                    "Aggregate first, then sort or limit the result.",
                )
            return PUBLIC
        case Released():
            raise NotUnitLocal("a released table cannot be joined with private rows", "Aggregate first, then join.")
        case _:
            assert_never(relation)


def _scan(scan: Scan, declared: Declarations) -> Locality:
    table = declared.tables.get(scan.table)
    if table is None or table.public is not scan.public or table.ownership != scan.ownership:
        raise NotUnitLocal(f"table {scan.table} is not what the ledger's declarations say")
    if scan.public:
        return PUBLIC
    if declared.unit_is_row:
        return Locality(private=True)
    if scan.unit is None or scan.ownership is None:
        raise NotUnitLocal(f"rows of {scan.table} have no privacy unit")
    for column in scan.columns:
        read = (column.name, column.type)
        if column.id == scan.unit and (scan.ownership.path or read != (scan.ownership.column, scan.ownership.type)):
            raise NotUnitLocal(f"column {column.name} of {scan.table} is not its privacy unit")
    return Locality(private=True, units=frozenset({scan.unit}))


def _project(project: Project, source: Locality) -> Locality:
    units = {
        column.id
        for column in project.columns
        if isinstance(column.expression, Column) and column.expression.id in source.units
    }
    if source.units and not units:
        raise NotUnitLocal("a projection drops the privacy unit")
    return Locality(private=source.private, units=frozenset(units))


def _join(join: Join, declared: Declarations) -> Locality:
    left, right = locality(join.left, declared), locality(join.right, declared)
    left_ids, right_ids = {c.id for c in output(join.left)}, {c.id for c in output(join.right)}
    if left_ids & right_ids:
        raise NotUnitLocal("the two sides of a join share a column id")
    _check_expressions([a for a, _ in join.equalities], join.left)
    _check_expressions([b for _, b in join.equalities], join.right)
    if join.condition is not None:
        _check_expressions([join.condition], join.left, join.right)
    if not (left.private or right.private):
        return PUBLIC
    if any(_is_limited(side) for side in (join.left, join.right)):
        raise NotUnitLocal(
            "which rows a LIMIT keeps is not determined, so private rows cannot be joined with it",
            "Leave LIMIT out, or use WHERE.",
        )
    if left.private and right.private:
        return _join_of_private(join, left, right, declared)
    if join.kind == "left" and not left.private:
        raise NotUnitLocal(
            "a join that keeps unmatched rows of a public table shows which of them have no private row",
            "Use an inner join, or declare public keys for the column.",
        )
    if join.kind not in ("inner", "cross", "left"):
        raise NotUnitLocal(f"a {join.kind.upper()} JOIN of private rows has no rule yet", "Use an inner join.")
    if declared.unit_is_row:
        public, keys = (join.right, [b for _, b in join.equalities])
        if right.private:
            public, keys = (join.left, [a for a, _ in join.equalities])
        _require_unique(public, keys, declared)
    return Locality(private=True, units=left.units | right.units)


def _join_of_private(join: Join, left: Locality, right: Locality, declared: Declarations) -> Locality:
    if declared.unit_is_row:
        raise NotUnitLocal("a join of two private tables mixes rows, and each row is a privacy unit")
    if join.kind not in ("inner", "cross"):
        raise NotUnitLocal(f"a {join.kind.upper()} JOIN of private tables has no rule yet", "Use an inner join.")
    for a, b in join.equalities:
        if isinstance(a, Column) and a.id in left.units and isinstance(b, Column) and b.id in right.units:
            return Locality(private=True, units=left.units | right.units)
    raise NotUnitLocal(
        f"a join of private tables must equate their privacy units ({declared.privacy_unit}); otherwise rows of "
        "different people meet",
        f"Add the equality of the {declared.privacy_unit} columns of both sides to the ON condition.",
    )


def _is_limited(relation: Relation) -> bool:
    return isinstance(relation, Limit) or any(_is_limited(source) for source in sources(relation))


def _require_unique(public: Relation, keys: list[Expression], declared: Declarations) -> None:
    """Each private row must meet at most one public row, or one row would become several units' worth of rows."""
    joined = frozenset(key.id for key in keys if isinstance(key, Column))
    if not any(unique <= joined for unique in _unique_sets(public, declared)):
        raise NotUnitLocal(
            "each row is a privacy unit, and this join may turn one row into several",
            "Join on columns of the public table that the catalog declares unique.",
        )


def _unique_sets(relation: Relation, declared: Declarations) -> Iterable[frozenset[str]]:
    """Sets of columns of a public relation of which no two rows agree."""
    match relation:
        case Scan():
            ids = {column.name: column.id for column in relation.columns}
            declared_sets = declared.tables[relation.table].unique
            return [frozenset(ids[name] for name in names) for names in declared_sets if names <= ids.keys()]
        case Filter():
            return _unique_sets(relation.source, declared)
        case Project():
            renamed = {c.expression.id: c.id for c in relation.columns if isinstance(c.expression, Column)}
            sets = _unique_sets(relation.source, declared)
            return [frozenset(renamed[id] for id in ids) for ids in sets if ids <= renamed.keys()]
        case Aggregate():
            return [frozenset(relation.group_by)]
        case Join() | Sort() | Limit() | Released():
            return []
        case _:
            assert_never(relation)


def _aggregate(aggregate: Aggregate, source: Locality) -> Locality:
    given = {column.id for column in output(aggregate.source)}
    if not set(aggregate.group_by) <= given:
        raise NotUnitLocal("a grouping column is not given by the source")
    parts = [part for a in aggregate.aggregates for part in (a.argument, a.second, a.filter) if part is not None]
    _check_expressions(parts, aggregate.source)
    if not source.private:
        return PUBLIC
    units = source.units & set(aggregate.group_by)
    if not units:
        raise NotUnitLocal(
            "an exact aggregate over rows of different privacy units",
            "Group by the privacy unit in the inner query, or aggregate once.",
        )
    return Locality(private=True, units=units)


def _check_expressions(expressions: Iterable[Expression], *given: Relation) -> None:
    """Every column must come from the given relations, and every function must be one that is known to be row-local."""
    ids = {column.id for relation in given for column in output(relation)}
    pending = list(expressions)
    while pending:
        expression = pending.pop()
        if isinstance(expression, Column) and expression.id not in ids:
            raise NotUnitLocal(f"column {expression.id} is not given by the source")
        if isinstance(expression, Call) and expression.function not in FUNCTIONS:
            raise NotUnitLocal(f"function {expression.function} is not known")
        pending.extend(children(expression))
