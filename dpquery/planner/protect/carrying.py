"""Weights of scans, carried up through a relation to its boundary as far as rows are passed on.

Nothing here is believed: the gate proves what a plan says of its weights (`units/weights.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dpquery.catalog import Catalog
from dpquery.catalog.rows import RowsToMeasure, rows_of
from dpquery.plan.definitions import definition
from dpquery.plan.expr import Column
from dpquery.plan.functions import call
from dpquery.plan.logical import (
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
from dpquery.plan.types import INT64
from dpquery.planner.protect.totals import SCALED, scaled_by

Ids = tuple[str, ...]


def limit_of(scan: Scan, catalog: Catalog) -> int | None:
    """Returns M of a table whose rows have owners; None where it was to be measured, and was not."""
    rows = rows_of(catalog.tables[scan.table], catalog)
    return None if isinstance(rows, RowsToMeasure) else rows


@dataclass(frozen=True, slots=True)
class CarriedWeights:
    """A relation with weights among its columns, and the ids of those that count its rows."""

    relation: Relation
    ids: frozenset[str] = frozenset()

    @property
    def has_scaled(self) -> bool:
        """Whether weights are carried that are scaled to the total of a column."""
        return bool(_scaled(self.relation))


def _scaled(relation: Relation) -> list[str]:
    """Returns the columns of a relation that hold weights scaled to the total of a column."""
    return [column.id for column in output(relation) if column.id.startswith(SCALED)]


def carry(relation: Relation, catalog: Catalog) -> CarriedWeights:
    """Returns the relation with the weights of its scans among its columns, as far up as rows are passed on."""
    if not is_private(relation):
        return CarriedWeights(relation)
    match relation:
        case Scan():
            most = limit_of(relation, catalog)
            if relation.ownership is None or most is None:
                return CarriedWeights(relation)
            id = f"wt_{relation.columns[0].id if relation.columns else relation.unit}"
            scaled = scaled_by(relation, catalog, most) if catalog.has_totals else ()
            strata = catalog.tables[relation.table].strata
            made = replace(relation, weight=id, max_rows=most, scaled=scaled, strata=strata)
            return CarriedWeights(made, frozenset({id}))
        case Filter() | Window():
            below = carry(relation.source, catalog)
            return CarriedWeights(replace(relation, source=below.relation), below.ids)
        case Project():
            return _project(relation, catalog)
        case Join():
            return _join(relation, catalog)
        case SetOperation(kind="union_all"):
            return _union(relation, catalog)
        case _:
            return CarriedWeights(relation)


def _project(project: Project, catalog: Catalog) -> CarriedWeights:
    below = carry(project.source, catalog)
    columns = [*project.columns, *(Computed(id=id, name="", expression=_weight(id)) for id in sorted(below.ids))]
    made = below.ids
    if isinstance(below.relation, Join) and below.relation.kind == "full":
        either = _either(below.relation, below.ids)
        columns = [*project.columns, *either]
        made = frozenset(column.id for column in either)
    scaled = (Computed(id=id, name="", expression=_weight(id)) for id in _scaled(below.relation))
    return CarriedWeights(Project(source=below.relation, columns=(*columns, *scaled)), made)


def _join(join: Join, catalog: Catalog) -> CarriedWeights:
    left = carry(join.left, catalog)
    if join.kind in ("semi", "anti"):
        return CarriedWeights(replace(join, left=left.relation), left.ids)
    right = carry(join.right, catalog)
    made, ids = replace(join, left=left.relation, right=right.relation), left.ids | right.ids
    if join.kind != "left" or not right.ids:
        return CarriedWeights(made, ids)
    either = _either(made, ids)  # a row that met none has no weight of the right side
    passed = (Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(made))
    return CarriedWeights(Project(source=made, columns=(*passed, *either)), left.ids | {column.id for column in either})


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


def _union(operation: SetOperation, catalog: Catalog) -> CarriedWeights:
    """Both sides give one weight each: the first of each table that is read, as `choose` takes the least of those."""
    left, right = carry(operation.left, catalog), carry(operation.right, catalog)
    if not (left.ids and right.ids):
        return CarriedWeights(operation)
    pairs = [(a, b) for a in sorted(left.ids) for b in sorted(right.ids)]
    columns = [Matched(id=f"{a}_and_{b}", name="", type=INT64, left=a, right=b) for a, b in pairs]
    columns += _matched_scaled(operation, left.relation, right.relation)
    made = replace(operation, left=left.relation, right=right.relation, columns=(*operation.columns, *columns))
    return CarriedWeights(made, frozenset(f"{a}_and_{b}" for a, b in pairs))


def _matched_scaled(operation: SetOperation, left: Relation, right: Relation) -> list[Matched]:
    """Returns the scaled weights of the columns that have some on both sides, named like these."""
    found, sides = [], ((left, frozenset(_scaled(left))), (right, frozenset(_scaled(right))))
    for column in operation.columns if all(ids for _, ids in sides) else ():
        behind = [definition(id, side)[0] for id, (side, _) in zip((column.left, column.right), sides, strict=True)]
        held = [f"{SCALED}{one.id}" if isinstance(one, Column) else "" for one in behind]
        if all(id in ids for id, (_, ids) in zip(held, sides, strict=True)):
            found.append(Matched(id=f"{SCALED}{column.id}", name="", type=INT64, left=held[0], right=held[1]))
    return found


def _weight(id: str) -> Column:
    return Column(id=id, type=INT64)


def without(relation: Relation, wanted: frozenset[str]) -> Relation:
    """Returns the relation without the carried weights that nothing wanted reads."""
    match relation:
        case Scan():
            return relation if relation.weight in wanted else replace(relation, weight=None, max_rows=None, strata=None)
        case Project():
            kept = tuple(c for c in relation.columns if not c.id.startswith("wt_") or c.id in wanted)
            read = {id for c in kept if c.id in wanted for id in _parts(c)}
            source = without(relation.source, frozenset(read))
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
                left=without(relation.left, sides[0]),
                right=without(relation.right, sides[1]),
            )
        case _:
            return with_sources(relation, tuple(without(source, wanted) for source in sources(relation)))


def _parts(column: Computed) -> Iterator[str]:
    parts = [column.expression] if isinstance(column.expression, Column) else column.expression.arguments  # type: ignore[union-attr]
    return (part.id for part in parts if isinstance(part, Column))
