"""Batch: the answers to queries that were measured at once, and what they cost together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import overload

from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.measurements import Measurement
from dpquery.kernel.release import NoisyAggregates
from dpquery.result.table import Result


class Batch(Sequence[Result]):
    """Answers in the order of the queries.

    Attributes:
        charge: What the ledger counted for all of them together, once.
        guarantee: What all of them together satisfy.
        measurements: How each noisy column was measured; what several queries read is there once.
    """

    def __init__(self, results: Sequence[Result], *, noisy: NoisyAggregates, guarantee: PrivacyLoss) -> None:
        self._results = tuple(results)
        self.charge: PrivacyLoss = noisy.charge
        self.guarantee: PrivacyLoss = guarantee
        self.measurements: tuple[Measurement, ...] = noisy.measurements

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


def of_tables(noisy: NoisyAggregates, tables: frozenset[int]) -> NoisyAggregates:
    """Returns what was released with the measurements of these tables alone."""
    kept = {m.id for number in tables if number < len(noisy.tables) for m in noisy.tables[number].aggregate.measures}
    return replace(noisy, measurements=tuple(m for m in noisy.measurements if m.id in kept))
