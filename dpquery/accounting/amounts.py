"""Amounts as people write them, read as in the rest of the package."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import parse_amount

Amount = str | int | float | Decimal | Fraction
"""A text such as "0.5", "1e-6" or "1/2", an integer, Decimal, Fraction, or finite float: the decimal Python prints."""


def read(value: Amount, name: str, *, zero: bool = False) -> Fraction:
    """Returns the exact amount; a Fraction, such as a function here returned, of any size.

    Raises:
        InvalidLossError: Not a number, negative, or zero where zero is not in the domain.
    """
    if type(value) is not Fraction:
        return parse_amount(value, name=name, allow_zero=zero)
    if value < 0 or (value == 0 and not zero):
        raise InvalidLossError(f"{name} must be a positive number")
    return value


def read_delta(value: Amount, name: str = "delta") -> Fraction:
    """Returns an amount between 0 and 1, neither of them."""
    delta = read(value, name)
    if delta >= 1:
        raise InvalidLossError(f"{name} must lie between 0 and 1")
    return delta


def read_chance(value: Amount, name: str) -> Fraction:
    """Returns an amount from 0 to 1."""
    chance = read(value, name, zero=True)
    if chance > 1:
        raise InvalidLossError(f"{name} must lie between 0 and 1")
    return chance


def whole(value: int, name: str) -> int:
    """Returns an integer of at least 1; refuses all else, booleans included."""
    if type(value) is not int or value < 1:
        raise InvalidLossError(f"{name} must be an integer of at least 1")
    return value
