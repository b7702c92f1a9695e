"""Which sums are scaled to the `max_total` of their column, and which keep the ordinary weights of rows.

Nothing here is believed: the gate proves a total of the plan that uses it (docs/proofs/weights.md, Theorem 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpquery.catalog import Catalog
from dpquery.kernel.plan import Lattice, Total
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.expr import Column, Expression, columns_of
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Filter,
    Join,
    LogicalPlan,
    Project,
    Relation,
    Scan,
    SetOperation,
    Window,
    sources,
)
from dpquery.plan.scaled_weights import Scaled
from dpquery.planner.protect.lattices import for_total
from dpquery.units.sizes import Sizes
from dpquery.units.weights import weighed

SCALED = "tw_"
"""What the ids of scaled weights begin with."""

Ids = frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How a column may be added up instead: on this lattice, with these weights."""

    lattice: Lattice
    total: Total

    def is_better(self, lower: Fraction, upper: Fraction, rows: int) -> bool:
        """Whether its noise is smaller than that of values in [lower, upper] of which a unit has so many rows."""
        least, greatest = self.lattice.values
        most = self.total.most * self.lattice.grid
        sides = 2 if least < 0 < greatest else 1
        width = max(Fraction(0), upper) - min(Fraction(0), lower)
        return most < rows * max(-lower, upper) and sides * most <= rows * width


def scaled_by(scan: Scan, catalog: Catalog, max_rows: int) -> tuple[Scaled, ...]:
    """Returns scaled weights for the columns of a scan that have a `max_total`."""
    found = []
    for column in scan.columns:
        declared = catalog.tables[scan.table].columns[column.name]
        known = declared.range
        if declared.max_total is None or known.lower is None or known.upper is None:
            continue
        lattice, most = for_total(column.type, known.lower, known.upper, declared.max_total)
        found.append(
            Scaled(
                id=f"{SCALED}{column.id}",
                column=column.name,
                grid=lattice.grid,
                lower=lattice.lower,
                upper=lattice.upper,
                most=most,
                max_rows=max_rows,
            )
        )
    return tuple(found)


def scalings(source: Relation, catalog: Catalog, sizes: Sizes) -> dict[str, Scaling]:
    """Returns for each column of a boundary's relation how it may be added up to a total."""
    found = dict[str, Scaling]()
    for id, pair in sorted(weighed(source, catalog.declarations, sizes).scaled.items()):
        grid, lower, upper = pair.lattice
        made = Scaling(lattice=Lattice(grid=grid, lower=lower, upper=upper), total=Total(column=id, most=pair.most))
        for value in sorted(pair.values):
            if value not in found or found[value].total.most > pair.most:
                found[value] = made
    return found


def mixes(logical: LogicalPlan) -> bool:
    """Whether a number of the result is computed from a sum and another aggregate, as a ratio to a count is: under
    different weights that would mean nothing. Sums of one column, of rows of one relation, go together."""
    behind = {column.id: frozenset({column.id}) for boundary in logical.boundaries for column in boundary.aggregates}
    meant = {c.id: _meant(number, c) for number, b in enumerate(logical.boundaries) for c in b.aggregates}
    return any(
        len({meant[id] for id in ids}) > 1 and any(meant[id][0] is SUM for id in ids)
        for ids in _computed(logical.result, behind)
    )


def _meant(number: int, column: AggregateColumn) -> tuple[object, object, object]:
    if column.function is SUM and isinstance(column.argument, Column):
        return column.function, number, column.argument
    return column.function, number, column.id


def _computed(relation: Relation, behind: dict[str, Ids]) -> Iterator[Ids]:
    """Yields which aggregates each computed number follows from, and notes it in `behind`; sources first."""
    for source in sources(relation):
        yield from _computed(source, behind)
    match relation:
        case Project():
            for computed in relation.columns:
                behind[computed.id] = _read((computed.expression,), behind)
                if not isinstance(computed.expression, Column):
                    yield behind[computed.id]
        case Aggregate():
            for column in relation.aggregates:
                behind[column.id] = _read((column.argument, column.second, column.filter), behind)
                yield behind[column.id]
        case Window():
            for over in relation.columns:
                ordered = (behind.get(key.column, frozenset()) for key in over.order_by)
                behind[over.id] = _read((*over.arguments, over.filter), behind).union(*ordered)
                yield _read((*over.arguments, over.filter), behind)
        case SetOperation():
            for matched in relation.columns:
                behind[matched.id] = behind.get(matched.left, frozenset()) | behind.get(matched.right, frozenset())
        case Filter():
            yield _read((relation.condition,), behind)
        case Join():
            yield _read((relation.condition, *(part for pair in relation.equalities for part in pair)), behind)
        case _:
            pass


def _read(parts: tuple[Expression | None, ...], behind: Mapping[str, Ids]) -> Ids:
    read = (column.id for part in parts if part is not None for column in columns_of(part))
    return frozenset[str]().union(*(behind.get(id, frozenset()) for id in read))
