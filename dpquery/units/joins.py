"""The unit-local rules of joins and set operations: of relations of which each side has been judged already.

docs/proofs/unit-local.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never, get_args

from dpquery.plan.expr import Call, Column, Expression, Literal, conjuncts
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
    SetKind,
    SetOperation,
    Sort,
    Values,
    Window,
    output,
    sources,
)
from dpquery.units.declarations import Declarations
from dpquery.units.semijoins import of_semi_join
from dpquery.units.unit_local import PUBLIC, Locality, NotUnitLocal, check_expressions


def of_join(join: Join, left: Locality, right: Locality, declared: Declarations) -> Locality:
    """Returns what is known of a join whose sides are known."""
    _check_sides(join)
    if not (left.private or right.private):
        return PUBLIC
    _refuse_limits(join)
    if (known := _along_key(join, left, right)) is not None:
        return known
    if join.kind in ("semi", "anti"):
        return of_semi_join(join, left, right, declared)
    if left.private and right.private:
        return _join_of_private(join, left, right, declared)
    if join.kind not in ("inner", "cross") and not (join.kind == "left" and left.private):
        raise NotUnitLocal(
            "a join that keeps unmatched rows of a public table would show which of them have no private row",
            "Use an inner join, or keep only the unmatched rows of the private table.",
        )
    if declared.unit_is_row:
        public, side = (join.left, 0) if right.private else (join.right, 1)
        _require_unique(public, [equal[side] for equal in join.equalities], declared)
    return left if left.private else right


def _along_key(join: Join, left: Locality, right: Locality) -> Locality | None:
    """Returns what is known of a join that leads each row of a side without units to the stored row that owns it.

    None where it does not: where the whole foreign key is not equated, or unmatched rows of that side are kept.
    """
    pairs = {(a.id, b.id) for a, b in join.equalities if isinstance(a, Column) and isinstance(b, Column)}
    is_inner = join.kind in ("inner", "cross")
    keeps_left = is_inner or join.kind in ("left", "semi", "anti")
    if right.owner is not None and keeps_left and right.owner.is_named(left.rows, pairs):
        return replace(left, rows=left.rows | right.rows) if is_inner else left
    if left.owner is not None and is_inner and left.owner.is_named(right.rows, {(b, a) for a, b in pairs}):
        return replace(right, rows=left.rows | right.rows)
    return None


def _join_of_private(join: Join, left: Locality, right: Locality, declared: Declarations) -> Locality:
    _require_equal_units(join, left, right, declared)
    match join.kind:
        case "inner" | "cross":
            met = _equal_units(join, left, right)
            units = left.units | right.units | met
            partial = (left.partial | right.partial) - units
            return Locality(private=True, units=units, partial=partial, rows=left.rows | right.rows)
        case "left":
            return replace(left, partial=left.partial | right.telling)
        case _:
            raise NotUnitLocal(
                f"a plain {join.kind.upper()} JOIN of private tables has no column with the unit of every row"
            )


def of_full_join(project: Project, join: Join, left: Locality, right: Locality, declared: Declarations) -> Locality:
    """Returns what is known of a projection that stands directly over a full join of private relations.

    A row may lack either side, so that neither side's unit column is enough; COALESCE of two that the join equates is.
    """
    _check_sides(join)
    _refuse_limits(join)
    _require_equal_units(join, left, right, declared)
    pairs = {(a.id, b.id) for a, b in join.equalities if isinstance(a, Column) and isinstance(b, Column)}
    pairs = {(a, b) for a, b in pairs if a in left.units and b in right.units}
    units, partial = set(), set()
    for column in project.columns:
        match column.expression:
            case Call(function="coalesce", arguments=(Column() as a, Column() as b)) if (a.id, b.id) in pairs:
                units.add(column.id)
            case Column() as read if read.id in left.telling | right.telling:
                partial.add(column.id)
    if not units:
        raise NotUnitLocal(
            f"a full join must equate columns that hold the privacy unit ({declared.privacy_unit}) of every row of "
            "their side, and COALESCE of them must be kept",
            f"Add the equality of the {declared.privacy_unit} columns of both sides to the ON condition.",
        )
    return Locality(private=True, units=frozenset(units), partial=frozenset(partial))


def _check_sides(join: Join) -> None:
    """The kind is known, the sides share no column, and each expression reads the side that it belongs to."""
    if join.kind not in get_args(JoinKind):
        raise NotUnitLocal(f"{join.kind} is no kind of join")
    if {c.id for c in output(join.left)} & {c.id for c in output(join.right)}:
        raise NotUnitLocal("both sides of a join use the same column id")
    check_expressions([a for a, _ in join.equalities], join.left)
    check_expressions([b for _, b in join.equalities], join.right)
    if any((a.type.kind, a.type.scale) != (b.type.kind, b.type.scale) for a, b in join.equalities):
        raise NotUnitLocal("an equality of a join has sides of different types, of which one may equal many")
    if join.condition is not None:
        check_expressions([join.condition], join.left, join.right)


def _refuse_limits(join: Join) -> None:
    if any(_is_limited(side) for side in (join.left, join.right)):
        raise NotUnitLocal(
            "a LIMIT without a complete order keeps arbitrary rows, so its result cannot be joined with private rows",
            "Leave LIMIT out, or use WHERE.",
        )


def _equal_units(join: Join, left: Locality, right: Locality) -> frozenset[str]:
    """Columns that the equalities equate with one of the other side, both of which tell the unit."""
    pairs = [(a.id, b.id) for a, b in join.equalities if isinstance(a, Column) and isinstance(b, Column)]
    return frozenset(id for a, b in pairs if a in left.telling and b in right.telling for id in (a, b))


def _require_equal_units(join: Join, left: Locality, right: Locality, declared: Declarations) -> None:
    """Rows of different units never meet: NULL equals nothing, and what is not NULL tells the unit."""
    if declared.unit_is_row:
        raise NotUnitLocal("a join of two private tables would mix rows, but each row is a privacy unit")
    if not _equal_units(join, left, right):
        raise NotUnitLocal(
            f"a join of private tables must equate their privacy units ({declared.privacy_unit}); otherwise rows of "
            "different people meet",
            f"Add the equality of the {declared.privacy_unit} columns of both sides to the ON condition.",
        )


def of_set_operation(operation: SetOperation, left: Locality, right: Locality, declared: Declarations) -> Locality:
    """Returns what is known of a set operation whose sides are known."""
    if operation.kind not in get_args(SetKind):
        raise NotUnitLocal(f"{operation.kind} is no set operation")
    given = [{column.id: column.type for column in output(side)} for side in (operation.left, operation.right)]
    for column in operation.columns:
        if given[0].get(column.left) != column.type or given[1].get(column.right) != column.type:
            raise NotUnitLocal("a set operation matches columns of different types")
    if not (left.private or right.private):
        return PUBLIC
    if not (left.private and right.private):
        raise NotUnitLocal(
            "a set operation would mix private rows with public rows", "Aggregate the private side first."
        )
    if declared.unit_is_row:
        return _set_operation_of_rows(operation)
    units = {c.id for c in operation.columns if c.left in left.units and c.right in right.units}
    if not units:
        word = operation.kind.removesuffix("_all").upper()
        raise NotUnitLocal(
            f"{word} over private rows compares rows of different people unless both sides select their privacy unit "
            f"({declared.privacy_unit}) in the same place",
            f"Select the {declared.privacy_unit} column on both sides, or aggregate first.",
        )
    return Locality(private=True, units=frozenset(units))


def _set_operation_of_rows(operation: SetOperation) -> Locality:
    """UNION ALL of different tables: the same stored row must not come out twice, nor decide on another one."""
    if operation.kind != "union_all":
        word = operation.kind.removesuffix("_all").upper()
        raise NotUnitLocal(f"{word} compares private rows, but each row is a privacy unit", "Aggregate first.")
    twice = _private_tables(operation.left) & _private_tables(operation.right)
    if twice:
        raise NotUnitLocal(
            f"each row is a privacy unit, but UNION ALL may return rows of {min(twice)} twice",
            "Read each private table on one side only, for example with OR or CASE.",
        )
    return Locality(private=True)


def _private_tables(relation: Relation) -> frozenset[str]:
    own = {relation.table} if isinstance(relation, Scan) and not relation.public else set()
    return frozenset(own).union(*(_private_tables(source) for source in sources(relation)))


def _is_limited(relation: Relation) -> bool:
    return isinstance(relation, Limit) or any(_is_limited(source) for source in sources(relation))


def _require_unique(public: Relation, keys: list[Expression], declared: Declarations) -> None:
    """Each private row must meet at most one public row, or one row would become several units' worth of rows."""
    joined = frozenset(key.id for key in keys if isinstance(key, Column))
    if not any(unique <= joined for unique in unique_sets(public, declared)):
        raise NotUnitLocal(
            "each row is a privacy unit, but this join may turn one row into several",
            "Join on columns of the public table that the catalog declares unique.",
        )


def unique_sets(relation: Relation, declared: Declarations) -> Iterable[frozenset[str]]:
    """Sets of columns of a public relation of which no two rows agree, NULL agreeing with nothing.

    The empty set is one of them where the relation has at most one row.
    """
    match relation:
        case Scan():
            ids = {column.name: column.id for column in relation.columns}
            declared_sets = declared.tables[relation.table].unique
            return [frozenset(ids[name] for name in names) for names in declared_sets if names <= ids.keys()]
        case Filter():
            fixed = _fixed(relation.condition)
            return [ids - fixed for ids in unique_sets(relation.source, declared)]
        case Project():
            renamed = {c.expression.id: c.id for c in relation.columns if isinstance(c.expression, Column)}
            sets = unique_sets(relation.source, declared)
            return [frozenset(renamed[id] for id in ids) for ids in sets if ids <= renamed.keys()]
        case Aggregate():
            return [frozenset(relation.group_by)]
        case Window():
            return unique_sets(relation.source, declared)
        case Join(kind="semi" | "anti"):
            return unique_sets(relation.left, declared)
        case Join(kind="inner" | "cross"):
            rights = list(unique_sets(relation.right, declared))
            return [a | b for a in unique_sets(relation.left, declared) for b in rights]
        case Values():
            given = {c.id: [row[i] for row in relation.rows] for i, c in enumerate(relation.columns)}
            known = {id: [value for value in values if value is not None] for id, values in given.items()}
            single = [frozenset({id}) for id, values in known.items() if len(set(values)) == len(values)]
            return [*single, *([frozenset[str]()] if len(relation.rows) <= 1 else [])]
        case Join() | SetOperation() | Sort() | Limit() | Released():
            return []
        case _:
            assert_never(relation)


def _fixed(condition: Expression) -> frozenset[str]:
    """Columns that a condition equates with a constant: rows that pass agree in them."""
    pairs = [tuple(c.arguments) for c in conjuncts(condition) if isinstance(c, Call) and c.function == "eq"]
    both = [pair for a, b in pairs for pair in ((a, b), (b, a))]
    return frozenset(a.id for a, b in both if isinstance(a, Column) and isinstance(b, Literal))
