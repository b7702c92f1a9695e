"""Noisy numbers that print their intervals: an int, a float or a Decimal in every other respect.

What is computed from one is a plain number again: the interval is that of the number that was released.
"""

from __future__ import annotations

import html
import math
from decimal import Decimal
from typing import Any, TypeVar

from dpquery.result.cell_texts import NONE, shown
from dpquery.result.choices import within


class Noisy:
    """What an int, a float and a Decimal with noise have in common.

    Attributes:
        low, high: The ends of the interval; None where none is known.
        confidence: How often such an interval holds.
        ranks: Of a quantile, a minimum or a maximum, how many ranks it is off at most; else None.
    """

    low: float | None
    high: float | None
    confidence: float
    ranks: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, or None where no interval is known."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def __repr__(self) -> str:
        return " ".join(self._shown())

    def _shown(self) -> tuple[str, str]:
        low, high = self.interval or (math.nan, math.nan)
        return shown(self._plain(), low, high, NONE if self.ranks is None else within(self.ranks))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self._plain(), spec) if spec else str(self)

    def _repr_html_(self) -> str:
        number, beside = self._shown()
        title = f"{self.confidence * 100:g} % interval of the noise"
        return f"{html.escape(number)} <small title='{title}'>{html.escape(beside)}</small>"

    def _plain(self) -> Any:
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._plain(), self.low, self.high, self.confidence, self.ranks)

    def __copy__(self) -> Noisy:
        return self

    def __deepcopy__(self, memo: object) -> Noisy:
        return self


class NoisyInt(Noisy, int):
    """A noisy whole number."""

    def __new__(cls, value: int, low: float | None, high: float | None, confidence: float) -> NoisyInt:
        return _bounded(super().__new__(cls, value), _whole(low), _whole(high), confidence)

    def _plain(self) -> int:
        return int(self)


class NoisyFloat(Noisy, float):
    """A noisy float."""

    def __new__(cls, value: float, low: float | None, high: float | None, confidence: float) -> NoisyFloat:
        return _bounded(super().__new__(cls, value), low, high, confidence)

    def _plain(self) -> float:
        return float(self)


class NoisyDecimal(Noisy, Decimal):  # type: ignore[misc]
    """A noisy decimal."""

    def __new__(cls, value: Decimal, low: float | None, high: float | None, confidence: float) -> NoisyDecimal:
        return _bounded(super().__new__(cls, value), low, high, confidence)

    def _plain(self) -> Decimal:
        return Decimal(self)


def _again(value: Any, low: float | None, high: float | None, confidence: float, ranks: float | None) -> Any:
    return noisy(value, low, high, confidence, ranks)


def noisy(value: Any, low: float | None, high: float | None, confidence: float, ranks: float | None = None) -> Any:
    """Returns a number that knows its interval and its error in ranks; anything else, and what is missing, as it is."""
    made = _noisy(value, low, high, confidence)
    if isinstance(made, Noisy):
        made.ranks = ranks
    return made


def _noisy(value: Any, low: float | None, high: float | None, confidence: float) -> Any:
    if low is None or high is None or not math.isfinite(high - low):
        low = high = None
    match value:
        case bool():
            return value
        case int():
            return NoisyInt(value, low, high, confidence)
        case float() if not math.isnan(value):
            return NoisyFloat(value, low, high, confidence)
        case Decimal():
            return NoisyDecimal(value, low, high, confidence)
        case _:
            return value


Number = TypeVar("Number", bound=Noisy)


def _bounded(made: Number, low: float | None, high: float | None, confidence: float) -> Number:
    made.low, made.high, made.confidence = low, high, confidence
    return made


def _whole(end: float | None) -> float | None:
    """Returns an end as an int where it is one."""
    return int(end) if end is not None and float(end).is_integer() else end
