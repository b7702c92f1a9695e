"""Which rows of private tables a measure reads, as far as filters tell. docs/proofs/disjoint.md, Lemma 2."""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.plan.cached import cached
from dpquery.plan.expr import Call, Column, Expression, Literal, size_of, substitute
from dpquery.plan.logical import Filter, Project, Relation, Scan, sources
from dpquery.plan.types import BOOLEAN
from dpquery.units.disjoint import disjoint

MOST_PARTS = 400
"""Conditions of more parts are left out: less is then known of the rows that are read."""
STORED = "stored"

Rows = tuple[Relation | str, tuple[str, ...], Expression]
"""The rows that are read: what the condition's columns belong to, private tables, and what is true of each row."""


@cached
def rows_read(relation: Relation, kept: str | None) -> Rows:
    """Returns which rows of a relation are read where the boolean column `kept` is true; None: all of them."""
    owner, condition = _condition(relation, kept)
    return owner, tuple(sorted(set(_tables(relation)))), condition


@cached
def are_apart(a: Rows, b: Rows) -> bool:
    """Whether it is certain that no row is read by both. Conditions on columns of one owner alone are compared."""
    (owner, tables, condition), (other_owner, other_tables, other) = a, b
    of_other_tables = bool(tables and other_tables) and not {*tables} & {*other_tables}
    return of_other_tables or (is_one(owner, other_owner) and disjoint(condition, other))


def is_one(owner: Relation | str, other: Relation | str) -> bool:
    """Whether columns of the same id belong to the same rows; 0.0 and -0.0 are equal, and functions tell them apart."""
    return owner is other or repr(owner) == repr(other)


def _tables(relation: Relation) -> Iterator[str]:
    if isinstance(relation, Scan) and not relation.public:
        yield relation.table
    for source in sources(relation):
        yield from _tables(source)


def _condition(relation: Relation, kept: str | None) -> tuple[Relation | str, Expression]:
    """Returns what is true of each row that is read: of a private table's own rows by the names of its columns, else of
    the rows of the relation where projections and filters end, by their ids."""
    parts: list[Expression] = [] if kept is None else [Column(id=kept, type=BOOLEAN)]
    while isinstance(relation, Filter | Project):
        if isinstance(relation, Filter):
            parts.append(relation.condition)
        else:
            inner = {column.id: column.expression for column in relation.columns}
            parts = [made for part in parts if size_of(made := substitute(part, inner)) <= MOST_PARTS]
        relation = relation.source
    is_stored = isinstance(relation, Scan) and not relation.public
    if isinstance(relation, Scan) and is_stored:
        names = {c.id: Column(id=f"{relation.table}.{c.name}", type=c.type) for c in relation.columns}
        parts = [substitute(part, dict[str, Expression](names)) for part in parts]
    true = Literal(value=True, type=BOOLEAN)
    condition = Call(function="and", arguments=tuple(parts), type=BOOLEAN) if parts else true
    return STORED if is_stored else relation, condition
