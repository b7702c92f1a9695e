"""Which of the released numbers decided about the groups that are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Count
from dpquery.kernel.release import NoisyTable
from dpquery.result.added import AddedTable


def deciding(tables: Sequence[NoisyTable | AddedTable], taus: Mapping[str, int]) -> dict[str, tuple[NoiseLaw, int]]:
    """Returns the measures that decided by themselves which groups are shown: their noise and tau."""
    return {
        measure.id: (noise, taus[measure.id])
        for table in tables
        for measure, noise in zip(table.aggregate.measures, table.noises, strict=True)
        if measure.id == table.aggregate.selection and measure.count is Count.UNITS and measure.id in taus
        if isinstance(noise, NoiseLaw) and noise.steps == 1
    }
