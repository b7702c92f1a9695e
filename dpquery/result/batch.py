"""Batch: the answers to queries that were measured at once, and what they cost together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.release import NoisyTable
from dpquery.result.added_tables import AddedTable
from dpquery.result.measurements import Measurement
from dpquery.result.table import Result


class Batch(Sequence[Result]):
    """Answers in the order of the queries.

    Attributes:
        charge: What the ledger counted for all of them together, once.
        guarantee: What all of them together satisfy.
        measurements: How each noisy column was measured; what several queries read is there once.

    Example:
        >>> batch = session.batch(["SELECT COUNT(*) AS n FROM visits", "SELECT AVG(cost) FROM visits"], epsilon="0.1")
        >>> len(batch), batch.charge, batch[0].columns
        (2, epsilon 0.1, ('n',))
    """

    def __init__(
        self,
        results: Sequence[Result],
        *,
        charge: PrivacyLoss,
        guarantee: PrivacyLoss,
        measurements: tuple[Measurement, ...],
    ) -> None:
        self._results = tuple(results)
        self.charge: PrivacyLoss = charge
        self.guarantee: PrivacyLoss = guarantee
        self.measurements: tuple[Measurement, ...] = measurements

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Result]: ...

    def __getitem__(self, index: int | slice) -> Result | Sequence[Result]:
        return self._results[index]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __str__(self) -> str:
        return "\n\n".join(str(result) for result in self._results)

    def __repr__(self) -> str:
        return str(self)


def of_tables(
    tables: Sequence[NoisyTable | AddedTable], measurements: tuple[Measurement, ...], read: frozenset[int]
) -> tuple[Measurement, ...]:
    """Returns the measurements of the tables with these numbers alone."""
    kept = {measure.id for number in read for measure in tables[number].aggregate.measures}
    return tuple(measurement for measurement in measurements if measurement.id in kept)
