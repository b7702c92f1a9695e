"""Private relations in the form of which most is proved, with the same rows:

- an outer join whose matches are thrown away is an anti-join;
- what compares both sides of an inner join stands in the join;
- a row number is tested before its rows are joined;
- UNION ALL of rows of one table that no row is in twice is one scan, filtered by either condition, so that a unit
  weighs in it what it weighs in the table, and not twice that.

The gate looks at what these rules made, and believes nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpquery.catalog import Catalog
from dpquery.plan.definitions import definition, ending_of, taken_apart
from dpquery.plan.expr import Call, Case, Column, Expression, Literal, columns_of, conjuncts, substitute
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Computed,
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    ScanColumn,
    SetOperation,
    Window,
    is_private,
    output,
    sources,
    with_sources,
)
from dpquery.planner.ranges.ranges import ranges_of
from dpquery.units.disjoint import disjoint

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq"})


def simpler(relation: Relation, catalog: Catalog) -> Relation:
    """Returns a relation with the same columns and rows, as far as declarations say."""
    relation = with_sources(relation, tuple(simpler(source, catalog) for source in sources(relation)))
    if not is_private(relation):
        return relation
    if isinstance(relation, SetOperation):
        return one_table(relation)
    if isinstance(relation, Join):
        return _tested(relation, catalog)
    return _filter(relation, catalog) if isinstance(relation, Filter) else relation


def _tested(join: Join, catalog: Catalog) -> Relation:
    """Moves tests of a row number that stand in ON to the side that they are of."""
    parts = [] if join.condition is None or join.kind != "inner" else conjuncts(join.condition)
    names = {column.id: column.id for column in output(join)}
    given = [({column.id for column in output(side)}, side) for side in (join.left, join.right)]
    moved = [part for part in parts if any(_tests_number(part, names, *one) for one in given)]
    if not moved:
        return join
    rest = [part for part in parts if part not in moved]
    left = replace(join, condition=all_of(rest) if rest else None)
    return _filter(Filter(source=left, condition=all_of(moved)), catalog)


def _filter(filtered: Filter, catalog: Catalog) -> Relation:
    join, names = _join_below(filtered.source)
    if join is None:
        return filtered
    numbered = _numbered(filtered, join, names, catalog)
    if numbered is not None:
        return numbered
    if join.kind == "left":
        return _anti(filtered, join, names, catalog)
    return _compared(filtered, join, names) if join.kind in ("inner", "cross") else filtered


def _join_below(relation: Relation) -> tuple[Join | None, dict[str, str]]:
    """Returns the join that a relation passes on, and of its columns what they are in the join."""
    names = {column.id: column.id for column in output(relation)}
    while isinstance(relation, Project):
        made = {c.id: c.expression.id for c in relation.columns if isinstance(c.expression, Column)}
        names = {id: made[held] for id, held in names.items() if held in made}
        relation = relation.source
    return (relation, names) if isinstance(relation, Join) else (None, {})


def _numbered(filtered: Filter, join: Join, names: dict[str, str], catalog: Catalog) -> Relation | None:
    """Moves tests of a row number to the side of the join that numbers its rows; None where there are none.

    A side that is filled up keeps its rows until it is joined.
    """
    kept = {"inner": (True, True), "cross": (True, True)}.get(join.kind, (True, False))
    if join.kind in ("right", "full"):
        return None
    parts = conjuncts(filtered.condition)
    for place, side in enumerate((join.left, join.right)):
        given = {column.id for column in output(side)}
        moved = [part for part in parts if kept[place] and _tests_number(part, names, given, side)]
        if moved:
            tested = Filter(source=side, condition=all_of([_renamed(part, names) for part in moved]))
            below = _filter(tested, catalog)
            made = replace(join, left=below) if place == 0 else replace(join, right=below)
            rest = _filtered(_instead(filtered.source, made), [part for part in parts if part not in moved])
            return _filter(rest, catalog) if isinstance(rest, Filter) else rest
    return None


def _tests_number(part: Expression, names: dict[str, str], given: set[str], side: Relation) -> bool:
    """Whether a condition reads one column, and that numbers the rows of a side."""
    read = {names.get(column.id) for column in columns_of(part)}
    (id,) = read if len(read) == 1 else (None,)
    if id is None or id not in given:
        return False
    meaning = definition(id, side)[0]
    window = ending_of(meaning.id, side) if isinstance(meaning, Column) else None
    return isinstance(window, Window) and any(
        column.function == "row_number"
        for column in window.columns
        if column.id == meaning.id  # type: ignore[union-attr]
    )


def _anti(filtered: Filter, join: Join, names: dict[str, str], catalog: Catalog) -> Relation:
    """A row whose match must be NULL in what equals a column of the left has met none: NULL equals nothing. So has one
    whose match must be NULL in what is never NULL there."""
    equated = {b.id for _, b in join.equalities if isinstance(b, Column)}
    equated |= {id for id, known in ranges_of(join.right, catalog).items() if not known.nullable}
    parts = conjuncts(filtered.condition)
    unmatched = [part for part in parts if _is_null(part, names, equated)]
    if not unmatched:
        return filtered
    anti = replace(join, kind="anti")
    columns = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(join.left)]
    columns += [Computed(id=c.id, name=c.name, expression=Literal(value=None, type=c.type)) for c in output(join.right)]
    below = _instead(filtered.source, Project(source=anti, columns=tuple(columns)))
    return _filtered(below, [part for part in parts if part not in unmatched])


def _is_null(part: Expression, names: dict[str, str], equated: set[str]) -> bool:
    match part:
        case Call(function="is_null", arguments=(Column(id=id),)):
            return names.get(id) in equated
        case _:
            return False


def _compared(filtered: Filter, join: Join, names: dict[str, str]) -> Relation:
    """Moves comparisons of a private with a public side into the join, where they bound how many rows meet."""
    if is_private(join.left) and is_private(join.right):
        return filtered
    sides = [{column.id for column in output(side)} for side in (join.left, join.right)]
    moved: list[Expression] = []
    kept: list[Expression] = []
    for part in conjuncts(filtered.condition):
        held = {names.get(column.id) for column in columns_of(part)}
        both = None not in held and all(held & side for side in sides)
        if both and isinstance(part, Call) and part.function in COMPARISONS:
            moved.append(_renamed(part, names))
        else:
            kept.append(part)
    if not moved:
        return filtered
    given = [] if join.condition is None else [join.condition]
    kind = "inner" if join.kind == "cross" else join.kind
    made = replace(join, kind=kind, condition=all_of([*given, *moved]))
    return _filtered(_instead(filtered.source, made), kept)


def _renamed(part: Expression, names: dict[str, str]) -> Expression:
    return substitute(part, {c.id: replace(c, id=names[c.id]) for c in columns_of(part)})


def _instead(relation: Relation, join: Relation) -> Relation:
    """Returns the projections of a relation over another join."""
    if isinstance(relation, Project):
        return replace(relation, source=_instead(relation.source, join))
    return join


def _filtered(relation: Relation, parts: list[Expression]) -> Relation:
    return Filter(source=relation, condition=all_of(parts)) if parts else relation


def all_of(parts: list[Expression]) -> Expression:
    """Returns the conjunction of conditions, at least one."""
    return parts[0] if len(parts) == 1 else call("and", tuple(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some rows of a scan: those that fulfil a condition, and what each column of the part is over the scan."""

    scan: Scan
    condition: Expression
    values: dict[str, Expression]


def one_table(operation: SetOperation) -> Relation:
    """Returns the rows of UNION ALL as rows of one scan, or the operation itself where it cannot be told."""
    left, right = _part(operation.left), _part(operation.right)
    if operation.kind != "union_all" or left is None or right is None:
        return operation
    over = _over_one(left.scan, right.scan)
    if over is None:
        return operation
    scan, names = over
    condition = substitute(right.condition, names)
    if not disjoint(left.condition, condition):
        return operation
    columns = []
    for column in operation.columns:
        one, other = left.values[column.left], substitute(right.values[column.right], names)
        made = one if one == other else Case(branches=((left.condition, one),), otherwise=other, type=column.type)
        columns.append(Computed(id=column.id, name=column.name, expression=made))
    return Project(
        source=Filter(source=scan, condition=call("or", (left.condition, condition))), columns=tuple(columns)
    )


def _part(relation: Relation) -> _Part | None:
    """Returns filters and projections over a scan of private rows; None without a filter, and over anything else."""
    relation, conditions, values = taken_apart(relation)
    if not isinstance(relation, Scan) or relation.public or relation.weight is not None or not conditions:
        return None
    whole = conditions[0] if len(conditions) == 1 else call("and", tuple(conditions))
    return _Part(scan=relation, condition=whole, values=values)


def _over_one(left: Scan, right: Scan) -> tuple[Scan, dict[str, Expression]] | None:
    """Returns a scan that reads the columns of both, and the right one's columns in it; None for different tables."""
    same = ("table", "ownership", "row_limit")
    if any(getattr(left, name) != getattr(right, name) for name in same) or left.unit is None or right.unit is None:
        return None
    known = {_what(column): column for column in left.columns}
    added = tuple(column for column in right.columns if _what(column) not in known)
    known |= {_what(column): column for column in added}
    names: dict[str, Expression] = {c.id: Column(id=known[_what(c)].id, type=c.type) for c in right.columns}
    types = {column.id: column.type for column in output(right)}
    names[right.unit] = Column(id=left.unit, type=types[right.unit])
    return replace(left, columns=(*left.columns, *added)), names


def _what(column: ScanColumn) -> tuple[object, ...]:
    return column.name, column.type, column.max_length
