"""What stored columns may hold, from declarations, literals and public tables alone.

Columns come in *atoms*, which hold tuples of values: the columns read of one public table, whose tuples are its rows;
one private column with its declared values; moments of a timestamp; the columns of a set operation, or of the side
that an outer join fills up.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpquery.catalog import Catalog
from dpquery.plan.cached import cached
from dpquery.plan.evaluate import evaluate, normal
from dpquery.plan.expr import Expression, columns_of
from dpquery.plan.logical import Scan, Values
from dpquery.plan.ranges import EPOCH, Range
from dpquery.plan.types import BOOLEAN, DATE, INT64, Value
from dpquery.planner.keys.images import MAX_STEPS, Domain, in_order, integers
from dpquery.planner.keys.moments import moments

PublicRows = Callable[[str, tuple[str, ...]], tuple[tuple[Value, ...], ...]]
"""(public table, columns) to the different rows of these columns."""

Row = tuple[Value, ...]
Rows = tuple[Row, ...]

_DAY = datetime.timedelta(days=1)


MAX_TESTS = 200_000
"""Tuples times conditions that are tried for one atom; more leave its tuples as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySources:
    """What may be read to find public values.

    Attributes:
        ranges: What is known of every column anywhere below, by id.
        catalog: The declarations.
        public: Reads public tables.
    """

    ranges: dict[str, Range]
    catalog: Catalog
    public: PublicRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """Columns of scans, by id, and the tuples of values that they may hold together, each once."""

    columns: tuple[str, ...]
    rows: Rows

    def passing(self, conditions: Iterable[Expression]) -> Atom:
        """Returns the tuples with which a row can fulfil the conditions that read these columns alone."""
        own = [c for c in conditions if {column.id for column in columns_of(c)} <= {*self.columns}]
        if not own or len(self.rows) * len(own) > MAX_TESTS:
            return self
        dicts = (dict(zip(self.columns, row, strict=True)) for row in self.rows)
        kept = (tuple(row.values()) for row in dicts if all(evaluate(c, row) is True for c in own))
        return Atom(columns=self.columns, rows=tuple(kept))

    def of(self, columns: Sequence[str]) -> Rows:
        """Returns what some of the columns may hold, each tuple once."""
        places = [self.columns.index(column) for column in columns]
        return tuple(dict.fromkeys(tuple(row[i] for i in places) for row in self.rows))


def joined(left: Atom, right: Atom, same: dict[str, str]) -> Atom | None:
    """Returns the tuples of both in which equated columns are equal and not NULL; None if they are too many.

    Args:
        same: For each column that is equated the name that stands for all those it equals.
    """
    places = {same[id]: i for i, id in enumerate(left.columns) if id in same}
    pairs = [(places[same[id]], i) for i, id in enumerate(right.columns) if same.get(id) in places]
    met = _met(right, [i for _, i in pairs])
    return _limited(
        (*left.columns, *right.columns),
        ((*row, *other) for row in left.rows for other in met.get(tuple(row[i] for i, _ in pairs), ())),
    )


def filled(left: Atom, right: Atom, pairs: Sequence[tuple[str, str]], *, always: bool) -> Atom | None:
    """Returns the tuples of a left join: those of both with equal columns, and NULLs where there are none.

    Args:
        pairs: Columns of the left and of the right that are equal where rows meet; () if nothing is known of it.
        always: Whether rows may also fail to meet for another reason.
    """
    places = [left.columns.index(one) for one, _ in pairs]
    met = _met(right, [right.columns.index(other) for _, other in pairs])
    nulls = (None,) * len(right.columns)

    def meeting(row: Row) -> Iterator[Row]:
        others = met.get(tuple(row[i] for i in places), ())
        yield from others
        if (always or not others) and nulls not in others:
            yield nulls

    return _limited((*left.columns, *right.columns), ((*row, *other) for row in left.rows for other in meeting(row)))


def _met(atom: Atom, places: Sequence[int]) -> dict[Row, list[Row]]:
    """Returns the tuples by their values at some places, without those that are NULL there: NULL equals nothing."""
    found: dict[Row, list[Row]] = {}
    for row in atom.rows:
        values = tuple(row[i] for i in places)
        if None not in values:
            found.setdefault(values, []).append(row)
    return found


def _limited(columns: tuple[str, ...], rows: Iterator[Row]) -> Atom | None:
    found = tuple(itertools.islice(rows, MAX_STEPS + 1))
    return Atom(columns=columns, rows=found) if len(found) <= MAX_STEPS else None


def of_table(scan: Scan | Values, columns: Sequence[str], known: KeySources) -> Atom:
    """Returns the rows of a public table or of literals in some columns, as far as declared keys let them in."""
    if isinstance(scan, Values):
        given = [column.id for column in scan.columns]
        rows = tuple(tuple(normal(value) for value in row) for row in scan.rows)
        return Atom(columns=tuple(columns), rows=Atom(columns=tuple(given), rows=rows).of(columns))
    names = {column.id: column.name for column in scan.columns}
    declared = known.catalog.tables[scan.table].columns
    rows = known.public(scan.table, tuple(names[id] for id in columns))
    allowed = [declared[names[id]].keys for id in columns]
    kept = (
        row
        for row in rows
        if all(keys is None or value is None or value in keys for keys, value in zip(allowed, row, strict=True))
    )
    return Atom(columns=tuple(columns), rows=tuple(kept))


def of_column(leaf: str, scan: Scan | Values, known: KeySources) -> Atom | None:
    """Returns what the catalog declares of one stored column, NULL last if it is possible; of a literal one its values.

    Declared keys, else the values of the public table that holds the keys, else of its own, else a bounded range.
    """
    values = _declared(leaf, scan, known)
    if values is None:
        return None
    possible = (*values, None) if known.ranges[leaf].nullable else values
    return Atom(columns=(leaf,), rows=tuple((value,) for value in possible))


def _declared(leaf: str, scan: Scan | Values, known: KeySources) -> Domain | None:
    if isinstance(scan, Values):
        place = next(i for i, column in enumerate(scan.columns) if column.id == leaf)
        return in_order(normal(row[place]) for row in scan.rows)
    name = next(column.name for column in scan.columns if column.id == leaf)
    declared = known.catalog.tables[scan.table].columns[name]
    if declared.keys is not None:
        return _ordered(declared.keys)
    if declared.keys_from is not None:
        table, column = declared.keys_from
        return _first(known.public(table, (column,)))
    if declared.type == BOOLEAN:
        return (False, True)
    if scan.public:
        return _first(known.public(scan.table, (name,)))
    bounded = integers(known.ranges[leaf], MAX_STEPS) if declared.type in (INT64, DATE) else None
    if bounded is None:
        return None
    return tuple(EPOCH.date() + day * _DAY for day in bounded) if declared.type == DATE else tuple(bounded)


@cached
def _ordered(values: tuple[Value, ...]) -> Domain:
    return in_order(values)


@cached
def _first(rows: Rows) -> Domain:
    return in_order(value for (value,) in rows)


def of_moments(id: str, width: int, known: Range) -> Atom | None:
    """Returns one moment of each cell of a timestamp's range, NULL last if it is possible."""
    found = moments(known, width, MAX_STEPS)
    return None if found is None else Atom(columns=(id,), rows=tuple((moment,) for moment in found))
