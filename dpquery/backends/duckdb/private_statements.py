"""Private aggregates as statements of the embedded engine: one SELECT, and what a run has to give it."""

from __future__ import annotations

from dataclasses import dataclass

from dpquery.backends.duckdb.engine import Domain
from dpquery.backends.duckdb.row_weights import Names
from dpquery.backends.duckdb.sql.histogram_sql import signatures
from dpquery.backends.duckdb.sql.private_sql import PrivateWriter
from dpquery.backends.duckdb.sql.relations import RelationWriter
from dpquery.backends.duckdb.table_reading import TableReader
from dpquery.errors import BackendError
from dpquery.kernel.plan import CHOICES, Count, Measure, PrivateAggregate

FEW_ROWS = 1000
"""Fewer rows are fetched row by row, which is quicker: of released tables, and of private ones with fewer groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A private aggregate as a statement.

    Attributes:
        text: One SELECT.
        numbers: Places of the run's numbers that it refers to: the halves of the key.
        domains: The public domains that it reads.
        limited: The tables in which rows are left out of units that have too many.
        weights: Which units' rows weigh less than 1, as it reads them.
        contested: Places of the measures that `matching` completes.
    """

    aggregate: PrivateAggregate
    text: str
    numbers: tuple[int, ...]
    domains: tuple[Domain, ...]
    limited: frozenset[str]
    weights: Names
    contested: tuple[int, ...]


def written(
    tables: TableReader, aggregate: PrivateAggregate, domains: list[Domain | None], choices: list[Domain | None]
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Returns the SELECT of an aggregate, the places of a run's numbers that it refers to, and those of the measures
    that `matching` completes."""
    relations = RelationWriter(scan=tables.scan, released=no_released, has_statistics=tables.has_statistics)
    writer = PrivateWriter(
        relations=relations,
        aggregate=aggregate,
        domains=tuple(None if domain is None else domain.name for domain in domains),
        choices=tuple(None if domain is None else domain.name for domain in choices),
        in_blocks=any(table.blocks is not None for table in tables.catalog.tables.values()),
    )
    text, keys = writer.select(), [f"key{i}" for i in range(len(aggregate.keys))]
    if not is_small(aggregate):
        plain = [(i, m) for i, m in enumerate(aggregate.measures) if m.count not in CHOICES]
        numbers = [part for i, m in plain for part in _in_64_bits(f"number{i}", is_wide=_is_wide(aggregate, m))]
        kept = [f"kept{i}" for i in range(len(signatures(aggregate.measures)))]
        kept += [f"contested{i}" for i in writer.contested]
        kept += ["deciding"] if writer.deciding is not None else []
        text = f"SELECT {', '.join([*keys, *numbers, *kept])} FROM ({text})"
    return text, tuple(sorted(relations.numbers)), tuple(writer.contested)


def is_small(aggregate: PrivateAggregate) -> bool:
    """Whether the statement of an aggregate gives few numbers, which are fetched row by row."""
    return not signatures(aggregate.measures) and (aggregate.public_groups or FEW_ROWS) < FEW_ROWS


def no_released(index: int) -> str:
    """Refuses to read a released table, which no private aggregate does."""
    raise BackendError(f"release {index} was read below the privacy boundary")


def _is_wide(aggregate: PrivateAggregate, measure: Measure) -> bool:
    """Whether a number may take 128 bits: others are no more than there are rows."""
    return measure.count is Count.SUM or aggregate.steps(measure) > 1


def _in_64_bits(number: str, *, is_wide: bool) -> tuple[str, ...]:
    """Returns two columns for a sum of 128 bits: its value where it fits into 64, else its digits; one for a count."""
    fits = f"TRY_CAST({number} AS BIGINT)"
    if not is_wide:
        return (f"{fits} AS {number}",)
    return f"{fits} AS {number}", f"CASE WHEN {fits} IS NULL THEN CAST({number} AS VARCHAR) END AS {number}_digits"
