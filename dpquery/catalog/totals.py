"""`max_total` of a column: to what sum one privacy unit's values are scaled, in all or in each block."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.catalog.names import shown
from dpquery.catalog.tree import Node, Reading, Word
from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import parse_amount
from dpquery.plan.ranges import number_of
from dpquery.plan.types import Kind, Type, Value

if TYPE_CHECKING:
    from dpquery.catalog.read_table import TableDraft

FINEST = Fraction(1, 2**40)
"""A total is no smaller than this part of the largest magnitude of a value, so that sums keep their digits."""


def read_total(fields: Mapping[str, Node], type: Type, lower: Value, upper: Value, reading: Reading) -> Fraction | None:
    """Returns a column's `max_total`, or None where it says none or after noting a mistake."""
    node = fields.get("max_total")
    if node is None:
        return None
    low, high = number_of(lower), number_of(upper)
    if type.kind not in (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL):
        reading.refuse(node, f"a column of type {type} cannot be added up, so it has no total")
        return None
    if low is None or high is None:
        reading.refuse(node, "needs bounds: declare lower and upper; values are clamped to them before they are scaled")
        return None
    content = node.content
    try:
        total = parse_amount(content.text if isinstance(content, Word) else content, name="max_total")
    except InvalidLossError as error:
        reading.refuse(node, error.reason)
        return None
    least = Fraction(0) if type.kind is Kind.FLOAT64 else Fraction(1, 10**type.scale)
    if total < max(least, max(-low, high) * FINEST):
        reading.refuse(node, "is far smaller than a single value may be; declare narrower bounds or a larger max_total")
        return None
    return total


def require_owners_of_totals(drafts: Mapping[str, TableDraft], unit: str | None, reading: Reading) -> None:
    """Notes totals of columns whose rows are not those of a privacy unit."""
    for draft in drafts.values():
        with_total = [c.name for c in draft.columns.values() if c is not None and c.max_total is not None]
        if with_total and draft.public:
            reading.refuse(
                draft.node,
                f"max_total of {shown(with_total[0])} bounds the total of a privacy unit; a public table has none",
            )
        elif with_total and unit == "row":
            reading.refuse(
                draft.node,
                f"max_total of {shown(with_total[0])} bounds the total of one unit; where each row is a unit, "
                "lower and upper are enough",
            )
