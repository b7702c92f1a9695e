"""How many rows a unit is declared to have, and which columns follow from the unit.

Both only choose the contribution bounds of a plan. Whatever is chosen is enforced, so a wrong declaration costs
accuracy and never privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from dpquery.catalog import Catalog
from dpquery.catalog.cached_locality import cached_locality
from dpquery.catalog.names import plain
from dpquery.catalog.rows import RowsToMeasure, has_one_row, rows_of
from dpquery.errors import MissingBoundsError
from dpquery.plan.cached import cached
from dpquery.plan.expr import Call, Column, Expression, Literal, columns_of, conjuncts
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
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
    sources,
)
from dpquery.units.joins import unique_sets

_FLIPPED = {"eq": "eq", "le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}
"""Comparisons, and what they are when their sides are exchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What the catalog says of one unit's rows in a relation.

    Attributes:
        rows: The most rows of one unit; None where no table declares `max_rows`.
        attributes: Ids of the columns that have one value for each unit.
        max_groups: The smallest declared `max_groups` of the tables read, or None.
    """

    rows: int | None
    attributes: frozenset[str]
    max_groups: int | None = None


@cached
def contribution_of(relation: Relation, catalog: Catalog) -> Contribution:
    """Returns what is declared of one unit's rows in a unit-local relation."""
    match relation:
        case Scan():
            return _scan(relation, catalog)
        case Filter():
            return _filter(relation, catalog)
        case Project():
            source = contribution_of(relation.source, catalog)
            follows = {c.id for c in relation.columns if _follows(c.expression, source.attributes)}
            if is_private(relation):
                follows |= cached_locality(relation, catalog.declarations).units
            return Contribution(rows=source.rows, attributes=frozenset(follows), max_groups=source.max_groups)
        case Join(kind="semi" | "anti"):
            return contribution_of(relation.left, catalog)
        case Join():
            return _join(relation, catalog)
        case Aggregate():
            source = contribution_of(relation.source, catalog)
            if set(relation.group_by) <= source.attributes:
                everything = frozenset(column.id for column in output(relation))
                return Contribution(rows=1, attributes=everything, max_groups=source.max_groups)
            kept = frozenset(relation.group_by) & source.attributes
            return Contribution(rows=source.rows, attributes=kept, max_groups=source.max_groups)
        case Sort() | Limit():
            return contribution_of(relation.source, catalog)
        case Window():
            return contribution_of(relation.source, catalog)
        case SetOperation():
            return _set_operation(relation, catalog)
        case Values() | Released():
            return Contribution(rows=None, attributes=frozenset())
        case _:
            assert_never(relation)


def counted_rows(relation: Relation, catalog: Catalog, asked: int | None) -> int:
    """Returns how many rows of one unit count: as the query asks, else as declared of the relation, else the catalog's
    default, else the most that a table has which it reads.

    Raises:
        MissingBoundsError: Only a measurement would tell, and none was made.
    """
    if (known := asked or contribution_of(relation, catalog).rows or catalog.defaults.max_rows) is not None:
        return known
    return most_declared(relation, catalog)


def most_declared(relation: Relation, catalog: Catalog) -> int:
    """Returns the most rows of one unit that a table has which a relation reads.

    Raises:
        MissingBoundsError: Only a measurement would tell, and none was made.
    """
    rows = {name: rows_of(catalog.tables[name], catalog) for name in _tables(relation, catalog)}
    unknown = [name for name, most in rows.items() if isinstance(most, RowsToMeasure)]
    if unknown:
        raise MissingBoundsError(
            f"the rows of one {catalog.privacy_unit} in {plain(unknown[0])} were not measured (max_rows: auto)",
            advice="The owner runs dpquery profile, or session.profile(epsilon='0.05'), with more epsilon where it "
            "shows too few units; or writes a number; or the query says max_rows=.",
        )
    return max((most for most in rows.values() if not isinstance(most, RowsToMeasure)), default=1)


def _tables(relation: Relation, catalog: Catalog) -> Iterator[str]:
    """Yields the private tables that a relation reads."""
    if isinstance(relation, Scan) and not catalog.tables[relation.table].public:
        yield relation.table
    for source in sources(relation):
        yield from _tables(source, catalog)


def _scan(scan: Scan, catalog: Catalog) -> Contribution:
    table = catalog.tables[scan.table]
    if catalog.declarations.unit_is_row and not scan.public:
        return Contribution(rows=1, attributes=frozenset(c.id for c in output(scan)))
    if scan.unit is None or scan.ownership is None:
        return Contribution(rows=None, attributes=frozenset())
    if has_one_row(scan.ownership, table.unique):
        return Contribution(rows=1, attributes=frozenset(c.id for c in output(scan)))
    rows = None if isinstance(table.max_rows, RowsToMeasure) else table.max_rows
    return Contribution(rows=rows, attributes=frozenset({scan.unit}), max_groups=table.max_groups)


def _filter(relation: Filter, catalog: Catalog) -> Contribution:
    """A condition such as ROW_NUMBER() OVER (PARTITION BY unit ...) <= k leaves a unit k rows."""
    source = contribution_of(relation.source, catalog)
    bounds = [most for part in conjuncts(relation.condition) if (most := _first_rows(part, relation.source, catalog))]
    if not bounds:
        return source
    most = min([*bounds, *([source.rows] if source.rows else [])])
    attributes = frozenset(column.id for column in output(relation)) if most == 1 else source.attributes
    return Contribution(rows=most, attributes=attributes, max_groups=source.max_groups)


def _first_rows(condition: Expression, relation: Relation, catalog: Catalog) -> int | None:
    """Returns k where a condition lets at most the first k rows of each unit pass, else None."""
    if not (isinstance(condition, Call) and len(condition.arguments) == 2 and condition.function in _FLIPPED):
        return None
    function, (number, limit) = condition.function, condition.arguments
    if isinstance(number, Literal):
        function, number, limit = _FLIPPED[function], limit, number
    if not (isinstance(number, Column) and isinstance(limit, Literal) and isinstance(limit.value, int)):
        return None
    most = {"eq": 1, "le": limit.value, "lt": limit.value - 1}.get(function, 0)
    return most if most >= 1 and _numbers_rows_of_unit(number.id, relation, catalog) else None


def _numbers_rows_of_unit(id: str, relation: Relation, catalog: Catalog) -> bool:
    """Whether a column numbers all rows of a unit: a row number whose partitions are the unit's."""
    match relation:
        case Filter():
            return _numbers_rows_of_unit(id, relation.source, catalog)
        case Project():
            made = next((c.expression for c in relation.columns if c.id == id), None)
            return isinstance(made, Column) and _numbers_rows_of_unit(made.id, relation.source, catalog)
        case Window():
            made_here = next((c for c in relation.columns if c.id == id), None)
            if made_here is None:
                return _numbers_rows_of_unit(id, relation.source, catalog)
            attributes = contribution_of(relation.source, catalog).attributes
            return made_here.function == "row_number" and set(made_here.partition_by) <= attributes
        case _:
            return False


def _join(join: Join, catalog: Catalog) -> Contribution:
    left, right = contribution_of(join.left, catalog), contribution_of(join.right, catalog)
    if is_private(join.left) and is_private(join.right):
        bounds = [bound for bound in (left.max_groups, right.max_groups) if bound is not None]
        return Contribution(
            rows=_pairs(join, left, right, catalog),
            attributes=_attributes(join, left, right),
            max_groups=min(bounds, default=None),
        )
    on_the_left = is_private(join.left)
    private, public = (left, join.right) if on_the_left else (right, join.left)
    keys = [(a, b) if on_the_left else (b, a) for a, b in join.equalities]
    joined = {column.id for _, column in keys if isinstance(column, Column)}
    if not _is_unique(public, joined, catalog):
        return Contribution(rows=None, attributes=private.attributes, max_groups=private.max_groups)
    attributes = private.attributes
    given = frozenset(column.id for column in output(public))
    same_match = join.kind == "inner" or join.condition is None or _follows(join.condition, attributes | given)
    if same_match and all(_follows(own, attributes) for own, _ in keys):
        attributes |= given
    return Contribution(rows=private.rows, attributes=attributes, max_groups=private.max_groups)


def _set_operation(operation: SetOperation, catalog: Catalog) -> Contribution:
    """The rows of UNION ALL add up, and of its columns the unit alone has one value for each unit."""
    left, right = contribution_of(operation.left, catalog), contribution_of(operation.right, catalog)
    columns = [column for column in operation.columns if column.left in left.attributes]
    rows = left.rows
    if operation.kind == "union_all":
        rows = None if left.rows is None or right.rows is None else left.rows + right.rows
        units = [_units(side, catalog) for side in (operation.left, operation.right)]
        columns = [c for c in operation.columns if c.left in units[0] and c.right in units[1]]
    elif operation.kind.startswith("intersect"):
        rows = min((rows for rows in (left.rows, right.rows) if rows is not None), default=None)
        columns += [column for column in operation.columns if column.right in right.attributes]
    if catalog.declarations.unit_is_row and is_private(operation):
        rows, columns = 1, list(operation.columns)
    groups = [side.max_groups for side in (left, right) if side.max_groups is not None]
    return Contribution(
        rows=rows, attributes=frozenset(column.id for column in columns), max_groups=min(groups, default=None)
    )


def _units(relation: Relation, catalog: Catalog) -> frozenset[str]:
    return cached_locality(relation, catalog.declarations).units if is_private(relation) else frozenset()


def _pairs(join: Join, left: Contribution, right: Contribution, catalog: Catalog) -> int | None:
    """Returns the most rows of one unit in a join of private relations; a side may be there without the other."""
    if left.rows is None or right.rows is None:
        return None
    met = left.rows * right.rows
    if join.kind != "full" and _is_unique(
        join.right, {b.id for _, b in join.equalities if isinstance(b, Column)}, catalog
    ):
        met = left.rows
    return met if join.kind != "full" or _meets_fully(join, catalog) else max(met, left.rows + right.rows)


def _meets_fully(join: Join, catalog: Catalog) -> bool:
    """Whether all rows of a unit on one side meet all of its rows on the other: nothing but units is compared."""
    units = [cached_locality(side, catalog.declarations).units for side in (join.left, join.right)]
    pairs = [(a.id, b.id) for a, b in join.equalities if isinstance(a, Column) and isinstance(b, Column)]
    of_units = [pair for pair in pairs if pair[0] in units[0] and pair[1] in units[1]]
    return join.condition is None and len(of_units) == len(join.equalities)


def _attributes(join: Join, left: Contribution, right: Contribution) -> frozenset[str]:
    """Returns the attributes of a join of private relations.

    A side that is filled up with NULL keeps its attributes where the unit's rows of the other side all meet or all do
    not: where the join compares attributes of that side alone.
    """
    filled = {"left": [(right, left)], "full": [(right, left), (left, right)]}.get(join.kind, [])
    lost: frozenset[str] = frozenset()
    for side, other in filled:
        outside = {column.id for column in output(join.left if other is left else join.right)}
        parts = [expression for pair in join.equalities for expression in pair]
        parts += [] if join.condition is None else [join.condition]
        read = {column.id for part in parts for column in columns_of(part)} & outside
        if not read <= other.attributes:
            lost |= side.attributes
    return (left.attributes | right.attributes) - lost


def _is_unique(relation: Relation, joined: set[str], catalog: Catalog) -> bool:
    """Whether no two rows of a relation agree in the joined columns, as far as is declared."""
    return any(unique <= joined for unique in unique_sets(relation, catalog.declarations))


def _follows(expression: Expression, attributes: frozenset[str]) -> bool:
    return all(column.id in attributes for column in columns_of(expression))
