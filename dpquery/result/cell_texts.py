"""Values, intervals and rows as people read them, in terminals and notebooks."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal

from dpquery.accuracy.intervals import MOST_DIGITS, digits_of

ROUNDING = 1e-9
"""Half-widths of whole numbers are written as whole ones, rounded up but for this."""
ROUNDED = 0.5
"""A whole number is nearer than this to the middle of the interval of what it was rounded from."""
NONE = "[none]"
"""In place of an interval: nothing is known of how far the value may be off."""


def shown(value: object, low: float, high: float, none: str = NONE) -> tuple[str, str]:
    """Returns a noisy value and its interval as people read them; `none` where no interval is known.

    Example:
        >>> shown(8011, 7987.0, 8035.0), shown(39.2984, 38.8, 40.12), shown(40.0, float("nan"), float("nan"))
        (('8,011', '± 24'), ('39.30', '[38.80, 40.12]'), ('40', '[none]'))
        >>> shown(354, 286.3, 422.1), shown(354, 354.0, 422.0), shown(44.6, 44.6, 44.6)
        (('354', '± 69'), ('354', '[354, 422]'), ('44.6', '± 0'))
    """
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return value_text(value), none if isinstance(value, datetime.date) else ""
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        value = int(value)
    value = int(value) if isinstance(value, int) else float(value)
    if not math.isfinite(high - low) or low == high:
        text, beside = value_text(value), "± 0" if low == high else none
        return text.rstrip("0").rstrip(".") if isinstance(value, float) and "." in text else text, beside
    digits = 0 if isinstance(value, int) else digits_of((high - low) / 2)
    text = value_text(value, digits)
    is_rounded = isinstance(value, int) and abs((high + low) / 2 - value) < ROUNDED
    if is_rounded or math.isclose(high - value, value - low, rel_tol=1e-6, abs_tol=1e-12):
        half = max(high - value, value - low)
        return text, f"± {value_text(half if digits else math.ceil(half - ROUNDING), digits)}"
    return text, f"[{value_text(low, digits)}, {value_text(high, digits)}]"


def with_intervals(values: Sequence[object], lower: Sequence[float], upper: Sequence[float], none: str) -> list[str]:
    """Returns the texts of a column's values, each with its interval, both aligned; `none` as in `shown`."""
    cells = [shown(value, low, high, none) for value, low, high in zip(values, lower, upper, strict=False)]
    width = [max((len(cell[i]) for cell in cells), default=0) for i in (0, 1)]
    return [f"{text:>{width[0]}} {interval:<{width[1]}}" for text, interval in cells]


def _printable(text: str) -> str:
    """Returns a text on one line, without characters that a terminal would act on."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def value_text(value: object, digits: int = 6) -> str:
    """Returns a value on one line, a float with so many places."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        tiny = digits >= MOST_DIGITS and abs(value) < 10.0**-MOST_DIGITS
        return f"{value:,.{digits}f}" if abs(value) < 1e15 and not (tiny and value) else f"{value:.6g}"
    return _printable(str(value))


def exact(value: object) -> str:
    """Returns a value that carries no noise, as it is."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value_text(value)


def line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    """Returns a row of a table, its cells padded to these widths: numbers on the left."""
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    )
    return "  ".join(padded).rstrip()
