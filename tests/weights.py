"""Weights for aggregates that tests make by hand."""

from __future__ import annotations

from dpquery.kernel.plan import WHOLE_ROW, Weighing, Weights


def by_hand(
    unit: str | None, max_rows: int = 1, max_groups: int | None = None, weighing: Weighing = Weighing.COUNTED
) -> Weights:
    """Returns weights counted over the source, or those of rows that are units themselves."""
    if unit is None:
        return WHOLE_ROW
    return Weights(weighing=weighing, max_rows=max_rows, max_groups=max_groups)
