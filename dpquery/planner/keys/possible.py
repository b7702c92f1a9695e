"""Group keys: for each, the public values that follow from the declarations and the query, or none.

Keys whose values follow from each other, as the columns of one public table do, are one key of the kernel. A key
without public values makes its groups selected.

Each column is an expression over atoms (see `atoms`). Atoms that joins equate are joined, others are independent; the
expressions that read the same atoms are evaluated together, on each tuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dpquery.kernel.plan import Key
from dpquery.kernel.selection import sort_key
from dpquery.plan.definitions import definition
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Expression, size_of
from dpquery.plan.logical import Relation, output, sources
from dpquery.plan.ranges import Range
from dpquery.plan.types import Value
from dpquery.planner.keys.atoms import Atom, KeySources, Row, Rows
from dpquery.planner.keys.conditions import conditions_of
from dpquery.planner.keys.images import MAX_KEYS, MAX_STEPS, MAX_WORK, image_of
from dpquery.planner.keys.narrowing import narrowed
from dpquery.planner.keys.network import Network, ids_read


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """Columns whose values follow from each other, and the tuples they may hold; None where these are unknown or many.

    NULL is among the values of a column that can be NULL in a row that passes the query's conditions.
    """

    ids: tuple[str, ...]
    rows: Rows | None


def factors(ids: Sequence[str], relation: Relation, known: KeySources) -> tuple[Factor, ...]:
    """Returns the columns in groups that are independent of each other, with what each group may hold, in order.

    Columns stay apart where all combinations of their values are possible, and where their tuples are too many.
    """
    network = Network.of(ids, relation, known, tuples_of)
    found: list[Factor] = []
    for group in network.related():
        rows = _tuples(group, network) if len(group) > 1 else None
        if rows is None:
            found += (Factor(ids=(id,), rows=_values(id, relation, network)) for id in group)
        elif _are_independent(rows):
            found += (Factor(ids=(id,), rows=_sorted((row[i],) for row in rows)) for i, id in enumerate(group))
        else:
            found.append(Factor(ids=group, rows=rows))
    return tuple(found)


def tuples_of(ids: Sequence[str], relation: Relation, known: KeySources) -> Rows | None:
    """Returns what columns of a relation may hold together, in the order of the ids; None if unknown or too many."""
    columns: list[str] = []
    rows: list[Row] = [()]
    for factor in factors(tuple(dict.fromkeys(ids)), relation, known):
        if factor.rows is None or len(rows) * len(factor.rows) > MAX_STEPS:
            return None
        columns += factor.ids
        rows = [(*row, *more) for row in rows for more in factor.rows]
    return Atom(columns=tuple(columns), rows=tuple(rows)).of(ids)


def keys_of(ids: Sequence[str], relation: Relation, known: KeySources) -> tuple[Key, ...]:
    """Returns the keys of grouping columns, with their public values in the order of the result, NULL last."""
    types = {column.id: column.type for column in output(relation)}
    return tuple(
        Key(columns=factor.ids, types=tuple(types[id] for id in factor.ids), domain=factor.rows)
        for factor in factors(ids, relation, known)
    )


def domain_of(id: str, relation: Relation, known: KeySources) -> tuple[Value, ...] | None:
    """Returns the public values of one column in the order of the result, NULL last; None if none follow."""
    (factor,) = factors((id,), relation, known)
    return None if factor.rows is None else tuple(value for (value,) in factor.rows)


def covers_all_rows(key: Key, relation: Relation, ranges: dict[str, Range]) -> bool:
    """Whether every row has one of a key's public values, as far as the declarations say.

    NULL is the value that declarations allow and domains may lack.
    """
    if key.domain is None:
        return False
    return all(_has_null(id, values, relation, ranges) for id, values in zip(key.columns, _columns(key), strict=True))


def leaf_ranges(relation: Relation, ranges_of: Callable[[Relation], dict[str, Range]]) -> dict[str, Range]:
    """Returns the ranges of every column given anywhere below, by id."""
    found = ranges_of(relation)
    for source in sources(relation):
        found = leaf_ranges(source, ranges_of) | found
    return found


def _tuples(ids: tuple[str, ...], network: Network) -> Rows | None:
    """Returns what the columns may hold together, sorted; None if it is not known or too much."""
    expressions = tuple(network.meanings[id] for id in ids)
    atom = network.joined(expressions)
    if atom is None or len(atom.rows) * sum(map(size_of, expressions)) > MAX_WORK:
        return None
    nullable = tuple(network.may_be_null(id) for id in ids)
    found = _evaluated(expressions, atom, nullable)
    return found if len(found) <= MAX_KEYS else None


@lru_cache(maxsize=128)
def _evaluated(expressions: tuple[Expression, ...], atom: Atom, nullable: tuple[bool, ...]) -> Rows:
    rows = (dict(zip(atom.columns, row, strict=True)) for row in atom.rows)
    made = dict.fromkeys(tuple(evaluate(expression, row) for expression in expressions) for row in rows)
    kept = (row for row in made if all(null or value is not None for null, value in zip(nullable, row, strict=True)))
    return _sorted(kept)


def _sorted(rows: Iterable[Row]) -> Rows:
    """Returns the different rows in the order of the result, NULL last in each column."""
    return tuple(sorted(dict.fromkeys(rows), key=lambda row: tuple(map(sort_key, row))))


def _values(id: str, relation: Relation, network: Network) -> Rows | None:
    """Returns what one column may hold, in the order of the result, NULL last; None if it is not known or too much."""
    found = _tuples((id,), network)
    if found is not None:
        return found
    expression = definition(id, relation)[0]
    domains = tuple((leaf, values) for leaf in ids_read(expression) if (values := network.values_of(leaf)) is not None)
    ranges = tuple((leaf, network.ranges[leaf]) for leaf in ids_read(expression) if leaf in network.ranges)
    listed = narrowed(expression, image_of(expression, domains, ranges), network.conditions)
    if listed is None:
        return None
    return tuple((value,) for value in listed if value is not None or network.may_be_null(id))


def _are_independent(rows: Rows) -> bool:
    return len(rows) == math.prod(len(set(column)) for column in zip(*rows, strict=True)) or not rows


def _columns(key: Key) -> list[tuple[Value, ...]]:
    return list(zip(*key.domain, strict=True)) if key.domain else [()] * len(key.columns)


def _has_null(id: str, values: tuple[Value, ...], relation: Relation, ranges: dict[str, Range]) -> bool:
    """Whether NULL is among a column's public values, or impossible."""
    if None in values or not ranges[id].nullable:
        return True
    return narrowed(definition(id, relation)[0], (None,), tuple(conditions_of(relation))) == ()
