"""Private aggregates over prepared tables, rewritten to read what these hold: integers of lattices instead of numbers,
codes instead of public keys, and the numbers of units instead of units.

The rows and all that is counted of them stay the same. Where nothing stored fits, a column is read as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from dpquery.data.prepared import CODE
from dpquery.data.stored_encodings import Forms, code_of, step_of
from dpquery.kernel.plan import Count, Key, Lattice, Measure, PrivateAggregate
from dpquery.plan.cached import cached
from dpquery.plan.expr import Column, Expression, columns_of, substitute
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Ownership,
    Project,
    Relation,
    Scan,
    ScanColumn,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import INT64, TEXT, Value

Item = TypeVar("Item")
Domain = tuple[tuple[Value, ...], ...]
FormsOf = Mapping[str, Forms]
"""The forms of each prepared table."""
Find = Callable[[str, str], str | None]
"""From a table and a column of it to the stored column that holds the form that is asked for, or None."""


@dataclass(frozen=True, slots=True)
class Formed:
    """A private aggregate of the same integers.

    Attributes:
        steps: Ids of columns that hold lattice integers, within the bounds of the lattice of the measure.
        is_owned: Whether each row of the source has an owner, as rows of prepared tables do.
    """

    aggregate: PrivateAggregate
    steps: frozenset[str] = frozenset()
    is_owned: bool = False


@cached
def formed(aggregate: PrivateAggregate, forms: FormsOf) -> Formed:
    """Returns the aggregate over stored forms, as far as there are any."""
    made, steps = aggregate, set[str]()
    for place, measure in enumerate(made.measures):
        if measure.lattice is None or measure.value is None:
            continue
        carried = _carried(made.source, measure.value, "step", _steps_on(measure.lattice, forms))
        if carried is not None:
            source, id = carried
            measures = (*made.measures[:place], replace(measure, value=id), *made.measures[place + 1 :])
            made = replace(made, source=source, measures=measures)
            steps.add(id)
    for place, key in enumerate(made.keys):
        for position, type in enumerate(key.types):
            coded = _coded(made.source, key, position, forms) if type == TEXT and key.domain is not None else None
            if coded is not None:
                source, key = coded
                made = replace(made, source=source, keys=(*made.keys[:place], key, *made.keys[place + 1 :]))
    made = _by_number(made, forms)
    is_owned = made.unit is not None and _has_owners(made.source, made.unit, forms)
    return Formed(made, frozenset(steps), is_owned)


def _steps_on(lattice: Lattice, forms: FormsOf) -> Find:
    """Finds columns of the steps of a lattice, also where something is computed of these."""
    wanted = lattice.grid, lattice.lower, lattice.upper

    def find(table: str, column: str) -> str | None:
        held = forms[table].lattices.get(column) if table in forms else None
        return step_of(column) if held is not None and (held.grid, held.lower, held.upper) == wanted else None

    return find


def _coded(relation: Relation, key: Key, position: int, forms: FormsOf) -> tuple[Relation, Key] | None:
    """Returns the source with the codes of a key's column, and the key over these; None where some public value has
    no code."""
    domains = dict[str, Domain]()

    def find(table: str, column: str) -> str | None:
        keys = forms[table].keys.get(column) if table in forms else None
        made = None if keys is None else _in_codes(key.domain or (), position, keys)
        if made is None:
            return None
        domains["made"] = made
        return code_of(column)

    carried = _carried(relation, key.columns[position], "code", find)
    if carried is None or carried[1] in key.columns:
        return None
    source, id = carried
    columns, types = _with(key.columns, position, id), _with(key.types, position, INT64)
    return source, replace(key, columns=columns, types=types, domain=domains["made"])


@cached
def _in_codes(domain: Domain, position: int, keys: tuple[str, ...]) -> Domain | None:
    """Returns a domain with codes of the values in one place, NULL for NULL; None where one is not among the keys."""
    codes: dict[Value, Value] = {None: None, **{key: code for code, key in enumerate(keys)}}
    if not all(row[position] in codes for row in domain):
        return None
    return tuple(_with(row, position, codes[row[position]]) for row in domain)


def _with(items: tuple[Item, ...], place: int, item: Item) -> tuple[Item, ...]:
    return (*items[:place], item, *items[place + 1 :])


def _carried(relation: Relation, id: str, suffix: str, find: Find) -> tuple[Relation, str] | None:
    """Returns the relation with one more column, and its id: the stored form of a column that is carried along from a
    scan as it is. None where it is not, or nothing is stored."""
    new = f"{id}_{suffix}"
    match relation:
        case Scan():
            name = next((column.name for column in relation.columns if column.id == id), None)
            held = None if name is None else find(relation.table, name)
            if held is None:
                return None
            added = ScanColumn(id=new, name=held, type=INT64)
            columns = relation.columns if added in relation.columns else (*relation.columns, added)
            return replace(relation, columns=columns), new
        case Filter():
            below = _carried(relation.source, id, suffix, find)
            return None if below is None else (replace(relation, source=below[0]), below[1])
        case Project():
            given = next((column for column in relation.columns if column.id == id), None)
            if given is None or not isinstance(given.expression, Column):
                return None
            below = _carried(relation.source, given.expression.id, suffix, find)
            if below is None:
                return None
            more = replace(given, id=new, expression=Column(id=below[1], type=INT64))
            computed = relation.columns if more in relation.columns else (*relation.columns, more)
            return replace(relation, source=below[0], columns=computed), new
        case Join():
            is_left = id in {column.id for column in output(relation.left)}
            if not is_left and relation.kind in ("semi", "anti"):
                return None
            below = _carried(relation.left if is_left else relation.right, id, suffix, find)
            if below is None:
                return None
            made = replace(relation, left=below[0]) if is_left else replace(relation, right=below[0])
            return made, below[1]
        case _:
            return None


def _has_owners(relation: Relation, unit: str, forms: FormsOf) -> bool:
    """Whether a column of units, carried along from the scan of a prepared table, is never NULL."""
    match relation:
        case Scan():
            return relation.unit == unit and relation.table in forms
        case Filter():
            return _has_owners(relation.source, unit, forms)
        case Project():
            made = next((column.expression for column in relation.columns if column.id == unit), None)
            return isinstance(made, Column) and _has_owners(relation.source, made.id, forms)
        case Join():
            if unit in {column.id for column in output(relation.left)}:
                return relation.kind not in ("right", "full") and _has_owners(relation.left, unit, forms)
            return relation.kind in ("inner", "cross", "right") and _has_owners(relation.right, unit, forms)
        case _:
            return False


# Units by their numbers.


def _by_number(aggregate: PrivateAggregate, forms: FormsOf) -> PrivateAggregate:
    """Returns the aggregate with units told apart by their numbers, which are the same in all tables; as it is where a
    hash of the unit decides something, or an expression reads it."""
    is_hashed = any(measure.count in (Count.DISTINCT, Count.DECIDING) for measure in aggregate.measures)
    is_hashed |= aggregate.is_selected and any(measure.count is Count.UNITS for measure in aggregate.measures)
    read = {id for measure in aggregate.measures for id in _read(measure)}
    read |= {id for key in aggregate.keys for id in key.columns}
    units = set[str]()
    if aggregate.unit is None or is_hashed or not _collect(aggregate.source, units, forms) or read & units:
        return aggregate
    return replace(aggregate, source=_numbered(aggregate.source, units))


def _read(measure: Measure) -> set[str]:
    second, total = measure.second, measure.total
    read = [measure.value, measure.filter, second.value if second else None, total.column if total else None]
    return {id for id in read if id is not None}


def _collect(relation: Relation, units: set[str], forms: FormsOf) -> bool:
    """Adds the ids of units; returns whether they are only carried along, compared with each other, or grouped by."""
    if not all(_collect(source, units, forms) for source in sources(relation)):
        return False
    match relation:
        case Scan():
            units |= {relation.unit} - {None}  # type: ignore[arg-type]
            return relation.public or relation.table in forms
        case Filter():
            return not _reads(relation.condition, units)
        case Project():
            made = [column for column in relation.columns if _is_unit(column.expression, units)]
            units |= {column.id for column in made}
            return not any(_reads(column.expression, units) for column in relation.columns if column not in made)
        case Join():
            rest = [side for pair in relation.equalities for side in pair if not all(_is_unit(s, units) for s in pair)]
            return not any(_reads(part, units) for part in (*rest, relation.condition))
        case Aggregate():
            parts = [part for a in relation.aggregates for part in (a.argument, a.second, a.filter)]
            return not any(_reads(part, units) for part in parts)
        case _:
            return False


def _reads(expression: Expression | None, units: set[str]) -> bool:
    return expression is not None and any(column.id in units for column in columns_of(expression))


def _is_unit(expression: Expression, units: set[str]) -> bool:
    return isinstance(expression, Column) and expression.id in units


def _numbered(relation: Relation, units: set[str]) -> Relation:
    """Returns the relation with numbers in place of units."""
    numbers: dict[str, Expression] = {id: Column(id=id, type=INT64) for id in units}
    given = tuple(_numbered(source, units) for source in sources(relation))
    relation = with_sources(relation, given) if given else relation
    match relation:
        case Scan() if relation.unit is not None:
            columns = tuple(column for column in relation.columns if column.id != relation.unit)
            return replace(relation, columns=columns, ownership=Ownership(path=(), column=CODE, type=INT64))
        case Project():
            computed = [replace(c, expression=substitute(c.expression, numbers)) for c in relation.columns]
            return replace(relation, columns=tuple(computed))
        case Join():
            pairs = [(substitute(a, numbers), substitute(b, numbers)) for a, b in relation.equalities]
            return replace(relation, equalities=tuple(pairs))
        case _:
            return relation
