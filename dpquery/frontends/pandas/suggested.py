"""Bounds that were found with noise, in the words of `protect` and `assign_bounds`."""

from __future__ import annotations

import datetime
import html
from collections.abc import Mapping
from dataclasses import dataclass

from dpquery.kernel.loss import PrivacyLoss
from dpquery.plan.types import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedBounds:
    """What was found; `str()` says what to write.

    Attributes:
        bounds: For each column its lower and upper bound, as `protect(bounds=)` and `assign_bounds` take them.
        max_rows: How many rows one unit has in all, as `protect(max_rows=)` takes it; None where it was not found.
        missing: Columns for which the noise is larger than any step of the histogram.
        charge: What the ledger counted.
    """

    bounds: Mapping[str, tuple[Value, Value]]
    max_rows: int | None
    missing: tuple[str, ...]
    charge: PrivacyLoss

    def __str__(self) -> str:
        pairs = {column: tuple(map(_shown, pair)) for column, pair in self.bounds.items()}
        said = [f"bounds={pairs!r}"] if pairs else []
        said += [f"max_rows={self.max_rows}"] if self.max_rows is not None else []
        lines = [f"# Charged {self.charge}. Edit the bounds as you see fit, and give them to protect."]
        lines += [", ".join(said)] if said else []
        lines += [f"# {column}: too few units for this epsilon; nothing was found." for column in self.missing]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _shown(value: Value) -> Value:
    """Returns a bound as people write it: moments as texts."""
    return str(value) if isinstance(value, datetime.date) else value
