"""Private aggregates as statements of the embedded engine: one SELECT, and what a run has to give it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpquery.backends.duckdb.engine import Domain
from dpquery.backends.duckdb.row_weights import Names
from dpquery.backends.duckdb.sql.distinct_sql import IN_TURN
from dpquery.backends.duckdb.sql.histogram_sql import signatures
from dpquery.backends.duckdb.sql.private_sql import PrivateWriter
from dpquery.backends.duckdb.sql.relations import RelationWriter
from dpquery.backends.duckdb.stored_forms import Formed
from dpquery.backends.duckdb.table_reading import TableReader
from dpquery.errors import BackendError
from dpquery.kernel.plan import CHOICES, Count, PrivateAggregate

FEW_ROWS = 1000
"""Fewer rows are fetched row by row, which is quicker: of released tables, and of private ones with fewer groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedAggregate:
    """A private aggregate as a statement.

    Attributes:
        text: One SELECT.
        numbers: Places of the run's numbers that it refers to: the halves of the key.
        domains: The public domains that it reads.
        limited: The tables in which rows are left out of units that have too many.
        weights: Which units' rows weigh less than 1, as it reads them.
        contested: Places of the measures that `matching` completes.
        parts: Where each shard is read by itself, the SELECT of each in turn, and `text` adds up what they return.
    """

    aggregate: PrivateAggregate
    text: str
    numbers: tuple[int, ...]
    domains: tuple[Domain, ...]
    limited: frozenset[str]
    weights: Names
    contested: tuple[int, ...]
    parts: tuple[str, ...] = ()


def written(
    tables: TableReader,
    formed: Formed,
    domains: list[Domain | None],
    choices: list[Domain | None],
    *,
    is_part: bool = False,
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Returns the SELECT of an aggregate, the places of a run's numbers that it refers to, and those of the measures
    that `matching` completes.

    Args:
        is_part: Whether it reads a part of the rows, and `added_up` follows; all of them where nothing adds up.
    """
    aggregate = formed.aggregate
    relations = RelationWriter(scan=tables.scan, released=no_released, has_statistics=tables.has_statistics)
    writer = PrivateWriter(
        relations=relations,
        aggregate=aggregate,
        domains=tuple(None if domain is None else domain.name for domain in domains),
        choices=tuple(None if domain is None else domain.name for domain in choices),
        in_blocks=any(table.blocks is not None for table in tables.catalog.tables.values()),
        is_part=is_part and adds_up(aggregate),
        steps=formed.steps,
        is_owned=formed.is_owned,
    )
    text = writer.select()
    if not is_part:
        text = _shown(aggregate, text, [f"contested{i}" for i in writer.contested])
    return text, tuple(sorted(relations.numbers)), tuple(writer.contested)


def _shown(aggregate: PrivateAggregate, text: str, more: Sequence[str] = ()) -> str:
    """Returns a SELECT of the same rows, with numbers in a form that is fetched quickly, where there may be many."""
    if is_small(aggregate):
        return text
    keys = [f"key{i}" for i in range(len(aggregate.keys))]
    plain = [(i, m) for i, m in enumerate(aggregate.measures) if m.count not in CHOICES]
    numbers = [part for i, m in plain for part in _in_64_bits(f"number{i}", is_wide=m.count is Count.SUM)]
    kept = [f"kept{i}" for i in range(len(signatures(aggregate.measures)))]
    kept += [*more, *(["deciding"] if decides_in_rounds(aggregate) else [])]
    return f"SELECT {', '.join([*keys, *numbers, *kept])} FROM ({text})"


def decides_in_rounds(aggregate: PrivateAggregate) -> bool:
    """Whether units decide in rounds which groups are shown, so that the statement lists them."""
    return any(measure.count is Count.DECIDING for measure in aggregate.measures)


def adds_up(aggregate: PrivateAggregate) -> bool:
    """Whether the integers of shards add up to those of all rows: docs/proofs/shards.md. Different values do not, as
    two units may have the same one."""
    return all(measure.count is not Count.DISTINCT for measure in aggregate.measures)


def added_up(aggregate: PrivateAggregate, parts: str, shards: int, contested: Sequence[int] = ()) -> str:
    """Returns the SELECT that adds up what the statements of shards return.

    Args:
        parts: A table of it, with a column `shard` from 0.
        shards: How many there are; 1 for what does not add up.
        contested: Places of the measures that `matching` completes, which do not add up.
    """
    if not adds_up(aggregate):
        return _shown(aggregate, f"SELECT * FROM {parts}", [f"contested{i}" for i in contested])
    keys = [f"key{i}" for i in range(len(aggregate.keys))]
    plain = [i for i, measure in enumerate(aggregate.measures) if measure.count not in CHOICES]
    columns = [*keys, *(f"SUM(number{i}) AS number{i}" for i in plain)]
    columns += [f"{_joined(f'kept{i}')} AS kept{i}" for i in range(len(signatures(aggregate.measures)))]
    if decides_in_rounds(aggregate):  # each shard counts its units from 1
        apart = f"LAMBDA one: (one // {IN_TURN} * {shards} + shard) * {IN_TURN} + one % {IN_TURN}"
        columns.append(f"{_joined(f'list_transform(deciding, {apart})')} AS deciding")
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    deciding = [f"SUM(number{i}) > 0" for i in plain if aggregate.measures[i].id == aggregate.selection]
    shown = f" HAVING {' AND '.join(deciding)}" if deciding else ""
    return _shown(aggregate, f"SELECT {', '.join(columns)} FROM {parts}{grouped}{shown}")


def in_digits(aggregate: PrivateAggregate, text: str, type: str = "VARCHAR") -> str:
    """Returns a SELECT of the same rows, with numbers as their digits, as Arrow has no integers of 128 bits; with the
    type HUGEINT, one of such rows with numbers again."""
    plain = [f"number{i}" for i, measure in enumerate(aggregate.measures) if measure.count not in CHOICES]
    made = ", ".join(f"CAST({number} AS {type}) AS {number}" for number in plain)
    return f"SELECT *{f' REPLACE ({made})' if made else ''} FROM ({text})"


def _joined(lists: str) -> str:
    return f"flatten(LIST({lists}) FILTER (WHERE {lists} IS NOT NULL))"


def is_small(aggregate: PrivateAggregate) -> bool:
    """Whether the statement of an aggregate gives few numbers, which are fetched row by row."""
    return not signatures(aggregate.measures) and (aggregate.public_groups or FEW_ROWS) < FEW_ROWS


def no_released(index: int) -> str:
    """Refuses to read a released table, which no private aggregate does."""
    raise BackendError(f"release {index} was read below the privacy boundary")


def _in_64_bits(number: str, *, is_wide: bool) -> tuple[str, ...]:
    """Returns two columns for a sum of 128 bits: its value where it fits into 64, else its digits; one for a count, as
    fewer than 2^37 rows weigh less than 2^61 steps."""
    fits = f"TRY_CAST({number} AS BIGINT)"
    if not is_wide:
        return (f"{fits} AS {number}",)
    return f"{fits} AS {number}", f"CASE WHEN {fits} IS NULL THEN CAST({number} AS VARCHAR) END AS {number}_digits"
