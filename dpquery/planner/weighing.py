"""Which weights the rows of a boundary get: those of a stored table, carried up through its relation, where they hold.

Nothing here is believed: the gate proves what a plan says of its weights (`units/weights.py`). A mistake makes an
answer that is dearer or weighs otherwise, or a plan that is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dpquery.catalog import Catalog, Table
from dpquery.catalog.rows import Measured, rows_of
from dpquery.errors import UnsupportedQueryError
from dpquery.kernel.plan import WHOLE_ROW, Key, Weighing, Weights
from dpquery.plan.expr import Call, Column, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Join,
    Matched,
    Project,
    Relation,
    Scan,
    SetOperation,
    Window,
    is_private,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import BOOLEAN, INT64
from dpquery.planner.contributions import most_declared
from dpquery.planner.simpler import simpler
from dpquery.units.sizes import Sizes
from dpquery.units.weights import Weighed, distinct_groups, multiplies, rows_in_group, weighed

DEAR = 10
"""Joins of private tables whose rows of a unit are more than so many times a table's need a word of the query."""
MOST_LISTED = 100
"""Public keys that are written into a filter below an inner aggregate."""
SELECTED_GROUPS = 4
"""In how many groups a unit counts where groups are selected and nobody says."""

Ids = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A boundary's relation, with the column of weights that it needs, and what its rows weigh."""

    source: Relation
    weights: Weights


def choose(
    boundary: Aggregate,
    keys: tuple[Key, ...],
    catalog: Catalog,
    sizes: Sizes,
    max_rows: int | None,
    max_groups: int | None,
) -> Chosen:
    """Returns the relation of a boundary and the weights of its rows: those under which one unit weighs least, also in
    one group. See `_chosen`."""
    found = _chosen(boundary, keys, catalog, sizes, max_rows, max_groups)
    most = found.weights.max_rows
    one = rows_in_group(found.source, keys, catalog.declarations, sizes) if keys and most > 1 else None
    if one is None or one >= most:
        return found
    return replace(found, weights=replace(found.weights, rows_in_group=one))


def _chosen(
    boundary: Aggregate,
    keys: tuple[Key, ...],
    catalog: Catalog,
    sizes: Sizes,
    max_rows: int | None,
    max_groups: int | None,
) -> Chosen:
    """Returns the relation of a boundary and the weights of its rows: those under which one unit weighs least.

    Args:
        keys: The grouping columns.
        max_rows: What the query says: weights are then counted over its own relation.
        max_groups: What the query says of the groups in which a unit counts.
    Raises:
        UnsupportedQueryError: Private tables are joined so that a unit may have very many rows.
    """
    source, declared = boundary.source, catalog.declarations
    if declared.unit_is_row or not is_private(source):
        return Chosen(source=source, weights=WHOLE_ROW)
    plain = _within_keys(simpler(source), keys)
    source = _cut(plain, catalog, sizes)
    whole, carried = weighed(source, declared, sizes), _carry(source, catalog)
    stored = weighed(carried.relation, declared, sizes).stored
    groups = _groups(boundary, keys, source, catalog, sizes, max_groups)
    column = min(carried.ids & stored.keys(), key=lambda id: (stored[id], id), default=None)
    if whole.rows == 1:  # whatever max_rows is, which may be unknown yet
        return Chosen(source=source, weights=Weights(weighing=Weighing.WHOLE, max_rows=1, max_groups=groups))
    offered = stored[column] if column is not None else max_rows or most_declared(source, catalog)
    if whole.rows is not None and whole.rows <= (max_rows or offered):
        return Chosen(source=source, weights=Weights(weighing=Weighing.WHOLE, max_rows=whole.rows, max_groups=groups))
    if max_rows is None and column is not None:
        kept = _without(carried.relation, frozenset({column}))
        made = Weights(
            weighing=Weighing.STORED, max_rows=offered, column=column, max_groups=groups, most_rows=whole.rows
        )
        return Chosen(source=kept, weights=made)
    if max_rows is None and source is not plain and whole.rows is not None:
        _refuse_dear(boundary, whole, most_declared(source, catalog))
        return Chosen(source=source, weights=Weights(weighing=Weighing.WHOLE, max_rows=whole.rows, max_groups=groups))
    counted = Weights(
        weighing=Weighing.COUNTED,
        max_rows=max_rows or most_declared(source, catalog),
        max_groups=groups,
        most_rows=whole.rows_in_all,
    )
    return Chosen(source=source, weights=counted)


def _refuse_dear(boundary: Aggregate, found: Weighed, most: int) -> None:
    if found.rows is not None and found.rows > DEAR * most:
        raise UnsupportedQueryError(
            f"a join of private tables may give one privacy unit {found.rows:,} rows, and each of them counts",
            advice="Make one row of each unit of one side first (GROUP BY, SELECT DISTINCT), or say max_rows=, the "
            "rows of a unit that count in full.",
            span=next(iter(boundary.spans), None),
        )


def _groups(
    boundary: Aggregate, keys: tuple[Key, ...], source: Relation, catalog: Catalog, sizes: Sizes, said: int | None
) -> int | None:
    """Returns in how many groups a unit counts: what the query or the catalog says, no more than it can be in; where
    groups are selected, `SELECTED_GROUPS` where nobody says."""
    declared = [t.max_groups for t in _tables(source, catalog) if t.max_groups is not None]
    wanted = said or min(declared, default=None) or catalog.defaults.max_groups
    if wanted is None and any(key.domain is None for key in keys):
        wanted = SELECTED_GROUPS
    possible = distinct_groups(source, frozenset(boundary.group_by), catalog.declarations, sizes)
    limits = [limit for limit in (wanted, possible) if limit is not None]
    return max(1, min(limits)) if limits else None


def _tables(relation: Relation, catalog: Catalog) -> list[Table]:
    return [catalog.tables[scan.table] for scan in _scans(relation)]


def _scans(relation: Relation) -> Iterator[Scan]:
    """Yields the scans of rows that have owners."""
    if isinstance(relation, Scan) and relation.ownership is not None:
        yield relation
    for source in sources(relation):
        yield from _scans(source)


def limit_of(scan: Scan, catalog: Catalog) -> int | None:
    """Returns M of a table whose rows have owners; None where it was to be measured, and was not."""
    rows = rows_of(catalog.tables[scan.table], catalog)
    return None if isinstance(rows, Measured) else rows


# Carrying weights from scans to the boundary.


@dataclass(frozen=True, slots=True)
class _Carried:
    relation: Relation
    ids: frozenset[str] = frozenset()


def _carry(relation: Relation, catalog: Catalog) -> _Carried:
    """Returns the relation with the weights of its scans among its columns, as far up as rows are passed on."""
    if not is_private(relation):
        return _Carried(relation)
    match relation:
        case Scan():
            most = limit_of(relation, catalog)
            if relation.ownership is None or most is None:
                return _Carried(relation)
            id = f"wt_{relation.columns[0].id if relation.columns else relation.unit}"
            return _Carried(replace(relation, weight=id, max_rows=most), frozenset({id}))
        case Filter() | Window():
            below = _carry(relation.source, catalog)
            return _Carried(replace(relation, source=below.relation), below.ids)
        case Project():
            return _project(relation, catalog)
        case Join():
            return _join(relation, catalog)
        case SetOperation(kind="union_all"):
            return _union(relation, catalog)
        case _:
            return _Carried(relation)


def _project(project: Project, catalog: Catalog) -> _Carried:
    below = _carry(project.source, catalog)
    columns = [*project.columns, *(Computed(id=id, name="", expression=_weight(id)) for id in sorted(below.ids))]
    made = below.ids
    if isinstance(below.relation, Join) and below.relation.kind == "full":
        either = _either(below.relation, below.ids)
        columns = [*project.columns, *either]
        made = frozenset(column.id for column in either)
    return _Carried(Project(source=below.relation, columns=tuple(columns)), made)


def _join(join: Join, catalog: Catalog) -> _Carried:
    left = _carry(join.left, catalog)
    if join.kind in ("semi", "anti"):
        return _Carried(replace(join, left=left.relation), left.ids)
    right = _carry(join.right, catalog)
    made, ids = replace(join, left=left.relation, right=right.relation), left.ids | right.ids
    if join.kind != "left" or not right.ids:
        return _Carried(made, ids)
    either = _either(made, ids)  # a row that met none has no weight of the right side
    passed = (Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(made))
    return _Carried(Project(source=made, columns=(*passed, *either)), left.ids | {column.id for column in either})


def _either(join: Join, ids: frozenset[str]) -> list[Computed]:
    """Returns columns that hold the weight of the right row, or of the left row where there is none; of a full join
    the other way round, too."""
    sides = [sorted(ids & {column.id for column in output(side)}) for side in (join.left, join.right)]
    return [
        Computed(id=f"{right}_or_{left}", name="", expression=call("coalesce", (_weight(right), _weight(left))))
        for left in sides[0]
        for right in sides[1]
    ] + [
        Computed(id=f"{left}_or_{right}", name="", expression=call("coalesce", (_weight(left), _weight(right))))
        for left in sides[0]
        for right in sides[1]
        if join.kind == "full"
    ]


def _union(operation: SetOperation, catalog: Catalog) -> _Carried:
    """Both sides give one weight each: the first of each table that is read, as `choose` takes the least of those."""
    left, right = _carry(operation.left, catalog), _carry(operation.right, catalog)
    if not (left.ids and right.ids):
        return _Carried(operation)
    pairs = [(a, b) for a in sorted(left.ids) for b in sorted(right.ids)]
    columns = tuple(Matched(id=f"{a}_and_{b}", name="", type=INT64, left=a, right=b) for a, b in pairs)
    made = replace(operation, left=left.relation, right=right.relation, columns=(*operation.columns, *columns))
    return _Carried(made, frozenset(column.id for column in columns))


def _weight(id: str) -> Column:
    return Column(id=id, type=INT64)


def _without(relation: Relation, wanted: frozenset[str]) -> Relation:
    """Returns the relation without the carried weights that nothing wanted reads."""
    match relation:
        case Scan():
            return relation if relation.weight in wanted else replace(relation, weight=None, max_rows=None)
        case Project():
            kept = tuple(c for c in relation.columns if not c.id.startswith("wt_") or c.id in wanted)
            read = {id for c in kept if c.id in wanted for id in _read(c)}
            source = _without(relation.source, frozenset(read))
            same = [c.id for c in output(source)] == [c.id for c in kept] and all(
                isinstance(c.expression, Column) and c.expression.id == c.id and not c.name for c in kept
            )
            return source if same and isinstance(source, Join) else Project(source=source, columns=kept)
        case SetOperation():
            own = tuple(c for c in relation.columns if not c.id.startswith("wt_") or c.id in wanted)
            sides = (
                frozenset(c.left for c in own if c.id in wanted),
                frozenset(c.right for c in own if c.id in wanted),
            )
            return replace(
                relation,
                columns=own,
                left=_without(relation.left, sides[0]),
                right=_without(relation.right, sides[1]),
            )
        case _:
            return with_sources(relation, tuple(_without(source, wanted) for source in sources(relation)))


def _read(column: Computed) -> Iterator[str]:
    parts = [column.expression] if isinstance(column.expression, Column) else column.expression.arguments  # type: ignore[union-attr]
    return (part.id for part in parts if isinstance(part, Column))


# Rows of one unit and key: outside the public keys none counts, so that none needs to be made.


def _within_keys(source: Relation, keys: tuple[Key, ...]) -> Relation:
    """Returns the relation without rows that no public group holds, where the rows of a unit differ by the keys."""
    for key in keys:
        values = [value for (value,) in key.domain] if key.domain is not None and len(key.columns) == 1 else [None]
        if None not in values and 0 < len(values) <= MOST_LISTED:
            source = _grouped(source, key.columns[0], tuple(Literal(value=v, type=key.types[0]) for v in values))
    return source


def _grouped(relation: Relation, id: str, listed: tuple[Literal, ...]) -> Relation:
    """Returns the relation with a filter below the aggregate or window that groups by a column, if one is found."""
    match relation:
        case Filter():
            return replace(relation, source=_grouped(relation.source, id, listed))
        case Project():
            made = next(column.expression for column in relation.columns if column.id == id)
            return (
                replace(relation, source=_grouped(relation.source, made.id, listed))
                if isinstance(made, Column)
                else relation
            )
        case Window() if all(id in column.partition_by for column in relation.columns):
            return replace(relation, source=_listed(relation.source, id, listed))
        case Aggregate() if id in relation.group_by:
            return replace(relation, source=_listed(relation.source, id, listed))
        case _:
            return relation


def _listed(relation: Relation, id: str, listed: tuple[Literal, ...]) -> Relation:
    of = next(column.type for column in output(relation) if column.id == id)
    return Filter(
        source=relation, condition=Call(function="in", arguments=(Column(id=id, type=of), *listed), type=BOOLEAN)
    )


# Joins of private tables on both sides of which a unit has many rows: these are cut below the join.


def _cut(relation: Relation, catalog: Catalog, sizes: Sizes) -> Relation:
    """Returns the relation with at most M rows read of each unit of tables that are multiplied by each other."""
    names = frozenset(_multiplying(relation, catalog, sizes))
    return _limited(relation, names, catalog) if names else relation


def _multiplying(relation: Relation, catalog: Catalog, sizes: Sizes) -> Iterator[str]:
    for source in sources(relation):
        yield from _multiplying(source, catalog, sizes)
    if isinstance(relation, Join) and relation.kind not in ("semi", "anti"):
        sides = (relation.left, relation.right)
        if all(is_private(side) for side in sides) and multiplies(relation, catalog.declarations, sizes):
            yield from (scan.table for side in sides for scan in _scans(side))


def _limited(relation: Relation, names: frozenset[str], catalog: Catalog) -> Relation:
    if isinstance(relation, Scan):
        most = limit_of(relation, catalog) if relation.ownership is not None and relation.table in names else None
        return relation if most is None else replace(relation, row_limit=min(relation.row_limit, most))
    return with_sources(relation, tuple(_limited(source, names, catalog) for source in sources(relation)))
