"""Settings of a connection that are options of queries, checked, and held below the owner's caps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from dpquery.errors import QueryError
from dpquery.frontends.postgres.wire.answers import INVALID_VALUE, Refusal
from dpquery.kernel.loss import parse_amount, show_amount
from dpquery.session.options import Asked

PREFIX = "dpquery."
AMOUNTS = ("epsilon", "delta", "rho")
BOUNDS = ("max_groups", "max_rows")
MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that one query may ask for, for any settings; None where only the budget limits it."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    max_groups: int | None = None
    max_rows: int | None = None


def options_of(settings: Mapping[str, str], caps: Caps) -> Asked:
    """Returns the options of a session's call that the settings of a connection ask for.

    Raises:
        Refusal: A value is not an amount, is above its cap, or belongs to no setting that exists.
    """
    options: dict[str, object] = {}
    for name, value in settings.items():
        short = name.lower().removeprefix(PREFIX)
        if not name.lower().startswith(PREFIX) or value.strip().lower() in ("", "default"):
            continue
        if short in AMOUNTS:
            options[short] = _amount(short, value.strip(), getattr(caps, short))
        elif short in BOUNDS:
            options[short] = _bound(short, value.strip(), getattr(caps, short))
        elif short == "confidence":
            options[short] = value.strip()
    if "rho" in options and "epsilon" in options:
        raise Refusal(INVALID_VALUE, "a query offers epsilon or rho, not both", None, "RESET one of the settings.")
    return cast(Asked, options)


def _amount(name: str, value: str, cap: Fraction | None) -> str:
    try:
        amount = parse_amount(value, name=name)
    except QueryError as error:
        raise Refusal(INVALID_VALUE, f"invalid value for {PREFIX}{name}: {error.reason}") from None
    if cap is not None and amount > cap:
        raise Refusal(INVALID_VALUE, f"{PREFIX}{name} is at most {show_amount(cap)} here")
    return value


def _bound(name: str, value: str, cap: int | None) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 7 and 1 <= int(value) <= MOST):
        raise Refusal(INVALID_VALUE, f"invalid value for {PREFIX}{name}: it is a whole number of at least 1")
    if cap is not None and int(value) > cap:
        raise Refusal(INVALID_VALUE, f"{PREFIX}{name} is at most {cap} here")
    return int(value)
