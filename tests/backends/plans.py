"""Plans by hand, in few words. Ids of columns are a table's alias and the column's name."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpquery.catalog import Catalog
from dpquery.kernel.plan import (
    WHOLE_ROW,
    Count,
    Key,
    Lattice,
    Measure,
    PrivateAggregate,
    Weighing,
    Weights,
)
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    Scan,
    ScanColumn,
    column,
    output,
)
from dpquery.plan.types import BOOLEAN, FLOAT64, INT64, TEXT, Type, Value

UNITS = Measure(id="units", label="units", count=Count.UNITS)
ROWS = Measure(id="rows", label="rows", count=Count.ROWS)
MANY = 1_000_000
"""A limit that does not bind."""


def scan(catalog: Catalog, table: str, alias: str = "") -> Scan:
    """Returns a scan of all declared columns; the unit is <alias>_unit where the table has no column for it."""
    declared, prefix = catalog.tables[table], alias or table
    columns = tuple(ScanColumn(id=f"{prefix}_{c.name}", name=c.name, type=c.type) for c in declared.columns.values())
    unit, owner = None, declared.ownership
    if owner is not None:
        unit = f"{prefix}_{owner.column}" if not owner.path else f"{prefix}_unit"
    return Scan(table=table, columns=columns, public=declared.public, ownership=owner, unit=unit)


def literal(value: bool | int | float | str) -> Literal:
    """Returns a constant of the type that its value shows."""
    types: dict[type, Type] = {bool: BOOLEAN, int: INT64, float: FLOAT64, str: TEXT}
    return Literal(value=value, type=types[type(value)])


def where(source: Relation, id: str, function: str, *others: bool | int | float | str) -> Filter:
    """Returns the rows for which an operation on a column and constants is true."""
    condition = call(function, (column(source, id), *(literal(other) for other in others)))
    return Filter(source=source, condition=condition)


def extended(source: Relation, **computed: Expression) -> Project:
    """Returns all columns of a relation and computed ones."""
    kept = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(source)]
    added = [Computed(id=id, name=id, expression=expression) for id, expression in computed.items()]
    return Project(source=source, columns=(*kept, *added))


def joined(left: Relation, right: Relation, *pairs: tuple[str, str], kind: JoinKind = "inner") -> Join:
    """Returns a join on equal columns."""
    equalities = tuple((column(left, a), column(right, b)) for a, b in pairs)
    return Join(left=left, right=right, kind=kind, equalities=equalities)


def grouped(source: Relation, keys: Sequence[str], **functions: tuple[str, str | None, Type]) -> Aggregate:
    """Returns exact aggregates: id=(function, argument, type)."""
    return Aggregate(
        source=source,
        group_by=tuple(keys),
        aggregates=tuple(
            AggregateColumn(
                id=id,
                name=id,
                function=function,  # type: ignore[arg-type]
                argument=None if argument is None else column(source, argument),
                filter=None,
                type=type,
            )
            for id, (function, argument, type) in functions.items()
        ),
    )


def values_of(column: str, filter: str | None = None) -> Measure:
    """Counts the values of a column that are not NULL."""
    return Measure(id=f"values_{column}", label="", count=Count.VALUES, value=column, filter=filter)


def distinct(column: str, filter: str | None = None) -> Measure:
    """Counts the different values of a column."""
    return Measure(id=f"distinct_{column}", label="", count=Count.DISTINCT, value=column, filter=filter)


def total(column: str, lattice: Lattice, filter: str | None = None, id: str = "") -> Measure:
    """Adds up the lattice values of a column."""
    return Measure(id=id or f"total_{column}", label="", count=Count.SUM, value=column, filter=filter, lattice=lattice)


def lattice(lower: int, upper: int, grid: Fraction | int = 1, offset: int = 0) -> Lattice:
    """Returns the lattice of steps of `grid` between `lower` and `upper` steps."""
    return Lattice(grid=Fraction(grid), lower=lower, upper=upper, offset=offset)


def squares(lower: int, upper: int, grid: Fraction | int = 1, offset: int = 0, shift: int = 0) -> Lattice:
    """Returns the lattice of squared deviations from `offset`, less `shift`."""
    return Lattice(grid=Fraction(grid), lower=lower, upper=upper, offset=offset, squared=True, offset_of_square=shift)


def aggregate(
    source: Relation,
    *measures: Measure,
    unit: str | None,
    keys: dict[str, tuple[Value, ...] | None] | None = None,
    groups: int = MANY,
    rows: int = MANY,
) -> PrivateAggregate:
    """Returns a private aggregate; with a key that has no domain, the measure `units` selects groups.

    Rows weigh 1 where no limit on them is given; else their weights are counted over the source.
    """
    known = {c.id: c.type for c in output(source)}
    made = tuple(Key.of(id, known[id], domain) for id, domain in (keys or {}).items())
    selected = any(key.domain is None for key in made)
    weighing = Weighing.WHOLE if rows == MANY else Weighing.COUNTED
    return PrivateAggregate(
        source=source,
        unit=unit,
        keys=made,
        weights=WHOLE_ROW if unit is None else Weights(weighing=weighing, max_rows=rows, max_groups=groups),
        measures=measures,
        selection=UNITS.id if selected else None,
    )
