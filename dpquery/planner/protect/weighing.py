"""Which weights the rows of a boundary get: those of a stored table, carried up through its relation, where they hold.

Nothing here is believed: the gate proves what a plan says of its weights (`units/weights.py`). A mistake makes an
answer that is dearer or weighs otherwise, or a plan that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dpquery.catalog import Catalog, Table
from dpquery.catalog.cached_locality import cached_locality
from dpquery.errors import UnsupportedQueryError
from dpquery.kernel.plan import WHOLE_ROW, Key, Weighing, Weights
from dpquery.plan.aggregates.counts import COUNT_DISTINCT
from dpquery.plan.definitions import kinds
from dpquery.plan.expr import Call, Column, Literal, columns_of
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
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
from dpquery.plan.types import BOOLEAN
from dpquery.planner.protect.carrying import carry, limit_of, without
from dpquery.planner.protect.equivalent_relations import simpler
from dpquery.planner.protect.existence import asking_existence
from dpquery.planner.ranges.contributions import most_declared
from dpquery.units.sizes import Sizes
from dpquery.units.weights import Weighed, distinct_groups, multiplies, rows_in_group, weighed

DEAR = 10
"""Joins of private tables whose rows of a unit are more than so many times a table's need a word of the query."""
MOST_LISTED = 100
"""Public keys that are written into a filter below an inner aggregate."""
SELECTED_GROUPS = 4
"""In how many groups a unit counts where groups are selected by their numbers of units, by default."""
GROUPS_IN_ROUNDS = 16
"""The same where they are selected in rounds: in so many of those that are not shown yet."""
LEAST_BESIDE_NUMBERS = 8
"""Where units count in so many groups, these are selected in rounds beside their numbers of units; in fewer by these
numbers themselves, which then have the whole loss."""
MANY_ROWS = 64
"""A unit with so many rows of full weight is taken to be in more than a few groups, of which people are counted."""

Ids = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedRelation:
    """A boundary's relation, with the column of weights that it needs, and what its rows weigh."""

    source: Relation
    weights: Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One step from a boundary's relation to one of the same rows, or of those that count, in which a unit weighs less.

    Attributes:
        reason: What it is for, and why it is where it is.
        needs: The kinds of nodes without which it changes nothing; empty where any relation may change.
    """

    name: str
    reason: str
    needs: frozenset[type]
    run: Callable[[Relation, Aggregate, tuple[Key, ...], Catalog, Sizes], Relation]


def _asking(relation: Relation, boundary: Aggregate, _: tuple[Key, ...], catalog: Catalog, __: Sizes) -> Relation:
    if not _counts_units(boundary, boundary.source, catalog):
        return relation
    return asking_existence(relation, _read(boundary, boundary.source, catalog))


CUT = Rewrite(
    name="cut",
    reason="of tables that a join multiplies by each other only as many rows of a unit are read as count in full. "
    "Last, as fewer joins multiply by then",
    needs=frozenset({Join}),
    run=lambda relation, _, __, catalog, sizes: _cut(relation, catalog, sizes),
)
REWRITES = (
    Rewrite(
        name="equivalent",
        reason="joins and unions of which a plainer relation has the same rows. First, as the others know plain ones",
        needs=frozenset({Join, SetOperation}),
        run=lambda relation, _, __, catalog, ___: simpler(relation, catalog),
    ),
    Rewrite(
        name="within keys",
        reason="inner groups that no public key of the answer shows are filtered away, so a unit is in fewer. "
        "After `equivalent`, which finds the aggregate or window behind joins",
        needs=frozenset({Aggregate, Window}),
        run=lambda relation, _, keys, __, ___: _within_keys(relation, keys),
    ),
    Rewrite(
        name="existence",
        reason="where units alone are counted, a join becomes a question whether there is a row. After `equivalent`, "
        "as it asks plain joins, and before `cut`, as a question multiplies no rows",
        needs=frozenset(),
        run=_asking,
    ),
    CUT,
)
"""All of them, in order. `cut` leaves out rows; tests/properties/test_protect_rewrites.py holds the others over random
tables."""


def choose(
    boundary: Aggregate,
    keys: tuple[Key, ...],
    catalog: Catalog,
    sizes: Sizes,
    max_rows: int | None,
    max_groups: int | None,
    *,
    only_units: bool = False,
    shows_units: bool = False,
) -> WeighedRelation:
    """Returns the relation of a boundary and the weights of its rows: those under which one unit weighs least, also in
    one group. See `_chosen`."""
    asked = (max_rows, max_groups)
    found = _chosen(boundary, keys, catalog, sizes, *asked, only_units=only_units, shows_units=shows_units)
    most = found.weights.max_rows
    if not keys or most <= 1:
        return found
    one = rows_in_group(found.source, keys, catalog.declarations, sizes, found.weights.column)
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
    *,
    only_units: bool,
    shows_units: bool,
) -> WeighedRelation:
    """Returns the relation of a boundary and the weights of its rows: those under which one unit weighs least.

    Args:
        keys: The grouping columns.
        max_rows: What the query says: weights are then counted over its own relation.
        max_groups: What the query says of the groups in which a unit counts.
        only_units: Whether units are counted and nothing else, so that no row's weight is read.
        shows_units: Whether units are counted.
    Raises:
        UnsupportedQueryError: Private tables are joined so that a unit may have very many rows.
    """
    source, declared, is_cut = boundary.source, catalog.declarations, False
    if declared.unit_is_row or not is_private(source):
        return WeighedRelation(source=source, weights=WHOLE_ROW)
    holds = kinds(source)
    for one in REWRITES:
        if not one.needs or holds & one.needs:
            made = one.run(source, boundary, keys, catalog, sizes)
            source, is_cut = made, one is CUT and made is not source
    whole, carried = weighed(source, declared, sizes), carry(source, catalog)
    stored = weighed(carried.relation, declared, sizes).stored
    groups = _groups(boundary, keys, source, catalog, sizes, max_groups, shows_units)
    column = min(carried.ids & stored.keys(), key=lambda id: (stored[id], id), default=None)
    if carried.has_scaled:
        source = without(carried.relation, frozenset())
    if whole.rows == 1:  # for any max_rows, which may be unknown yet
        return WeighedRelation(source=source, weights=Weights(weighing=Weighing.WHOLE, max_rows=1, max_groups=groups))
    if only_units and column is None and max_rows is None and _unmeasured(source, catalog):
        none = Weights(weighing=Weighing.COUNTED, max_rows=1, max_groups=groups, most_rows=whole.rows_in_all)
        return WeighedRelation(source=source, weights=none)
    offered = stored[column] if column is not None else max_rows or most_declared(source, catalog)
    if whole.rows is not None and whole.rows <= (max_rows or offered):
        return WeighedRelation(
            source=source, weights=Weights(weighing=Weighing.WHOLE, max_rows=whole.rows, max_groups=groups)
        )
    if max_rows is None and column is not None:
        kept = without(carried.relation, frozenset({column}))
        as_stored = Weights(
            weighing=Weighing.STORED, max_rows=offered, column=column, max_groups=groups, most_rows=whole.rows
        )
        return WeighedRelation(source=kept, weights=as_stored)
    if max_rows is None and is_cut and whole.rows is not None:
        _refuse_dear(boundary, whole, most_declared(source, catalog))
        return WeighedRelation(
            source=source, weights=Weights(weighing=Weighing.WHOLE, max_rows=whole.rows, max_groups=groups)
        )
    counted = Weights(
        weighing=Weighing.COUNTED,
        max_rows=max_rows or most_declared(source, catalog),
        max_groups=groups,
        most_rows=whole.rows_in_all,
    )
    return WeighedRelation(source=source, weights=counted)


def _counts_units(boundary: Aggregate, source: Relation, catalog: Catalog) -> bool:
    """Whether nothing but units is counted: how many rows they have in a group moves no such number."""
    units = cached_locality(source, catalog.declarations).units
    counted = [a.argument for a in boundary.aggregates if a.function is COUNT_DISTINCT]
    are_units = all(isinstance(value, Column) and value.id in units for value in counted)
    return 0 < len(counted) == len(boundary.aggregates) and are_units


def _read(boundary: Aggregate, source: Relation, catalog: Catalog) -> frozenset[str]:
    """Returns the columns that a boundary reads, and the unit that is counted."""
    parts = [part for a in boundary.aggregates for part in (a.argument, a.filter) if part is not None]
    unit = min(cached_locality(source, catalog.declarations).units)
    return frozenset({unit, *boundary.group_by, *(column.id for part in parts for column in columns_of(part))})


def _refuse_dear(boundary: Aggregate, found: Weighed, most: int) -> None:
    if found.rows is not None and found.rows > DEAR * most:
        raise UnsupportedQueryError(
            f"a join of private tables may give one privacy unit {found.rows:,} rows, and each of them counts",
            advice="Make one row of each unit of one side first (GROUP BY, SELECT DISTINCT), or say max_rows=, the "
            "rows of a unit that count in full.",
            span=next(iter(boundary.spans), None),
        )


def _groups(
    boundary: Aggregate,
    keys: tuple[Key, ...],
    source: Relation,
    catalog: Catalog,
    sizes: Sizes,
    said: int | None,
    shows_units: bool,
) -> int | None:
    """Returns in how many groups a unit counts: what the query or the catalog says, no more than it can be in; where
    groups are selected, a usual number by default, fewer for numbers of units that mostly have few rows."""
    declared = [t.max_groups for t in _tables(source, catalog) if t.max_groups is not None]
    wanted = said or min(declared, default=None) or catalog.defaults.max_groups
    if wanted is None and any(key.domain is None for key in keys):
        few = shows_units and not any((limit_of(scan, catalog) or 0) >= MANY_ROWS for scan in _scans(source))
        wanted = SELECTED_GROUPS if few else GROUPS_IN_ROUNDS
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


def _unmeasured(source: Relation, catalog: Catalog) -> bool:
    """Whether a table is read of which no number of rows is known."""
    return any(limit_of(scan, catalog) is None for scan in _scans(source))


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
    if isinstance(relation, Join) and (relation.condition is not None or relation.kind not in ("semi", "anti")):
        sides = (relation.left, relation.right)
        if all(is_private(side) for side in sides) and multiplies(relation, catalog.declarations, sizes):
            yield from (scan.table for side in sides for scan in _scans(side))


def _limited(relation: Relation, names: frozenset[str], catalog: Catalog) -> Relation:
    if isinstance(relation, Scan):
        most = limit_of(relation, catalog) if relation.ownership is not None and relation.table in names else None
        return relation if most is None else replace(relation, row_limit=min(relation.row_limit, most))
    return with_sources(relation, tuple(_limited(source, names, catalog) for source in sources(relation)))


def private_scans(relation: Relation) -> Iterator[Scan]:
    """Yields the scans of private tables, left before right."""
    if isinstance(relation, Scan) and not relation.public:
        yield relation
    for source in sources(relation):
        yield from private_scans(source)
