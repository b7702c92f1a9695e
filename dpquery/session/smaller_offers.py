"""What of a refused price would still fit, in the words in which it was asked: planned again, without touching data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from dpquery.errors import InsufficientBudgetError, QueryError
from dpquery.kernel.loss import PrivacyLoss, show_amount
from dpquery.session.options import Request

TRIES = 5
LEAST = Fraction(1, 10**6)
"""Of what was asked: less is not proposed."""

Requests = tuple[Request, ...]


def in_words_of(
    error: InsufficientBudgetError, requests: Requests, charge: Callable[[Requests], PrivacyLoss]
) -> InsufficientBudgetError:
    """Returns the refusal in the currency that was asked in, with what would still fit.

    Args:
        charge: What other requests would be charged.
    """
    first = requests[0]
    fits = _fitting(error, requests, charge)
    told = {name: _shown(value) for name, value in fits.items()}
    advice = "; ".join(f"{name}={value} would still fit." for name, value in told.items())
    if not fits:
        advice = "No smaller amount was found that would fit."
    reason, asked = error.reason, _asked(first)
    if not any(getattr(error.requested, name, 0) for name in asked):
        words = ", ".join(f"{name} {_shown(value)}" for name, value in asked.items())
        reason = reason.replace("The query costs", f"The query asks {words} and costs", 1)
    return InsufficientBudgetError(
        reason, requested=error.requested, remaining=error.remaining, advice=advice, fits=fits
    )


Asked = Mapping[str, Fraction | Mapping[str, Fraction]]


def _asked(request: Request) -> Asked:
    """Returns the amount that decides a request's price, under its argument's name."""
    if request.accuracy is not None:
        return {"error": request.accuracy.errors}
    offer = request.offer
    return {"rho": offer.rho} if offer.rho is not None else {"epsilon": offer.epsilon or Fraction(0)}


def _fitting(error: InsufficientBudgetError, requests: Requests, charge: Callable[[Requests], PrivacyLoss]) -> Asked:
    """Returns the first amount that fits, of some that begin with the one that would by the usual law; or nothing."""
    asked, left = error.requested, error.remaining
    pairs = ((asked.epsilon, left.epsilon), (asked.rho, left.rho))
    share = min((Fraction(rest, used) for used, rest in pairs if used), default=Fraction(1))
    is_error, is_square = requests[0].accuracy is not None, bool(asked.rho) and requests[0].offer.rho is None
    factor = Fraction(math.sqrt(share)) if is_square else share
    for _ in range(TRIES if asked.delta <= left.delta else 0):
        if factor < LEAST:
            break
        cheaper = tuple(_cheaper(request, factor) for request in requests)
        try:
            cost = charge(cheaper)
        except QueryError:
            break
        if cost.epsilon <= left.epsilon and cost.rho <= left.rho and cost.delta <= left.delta:
            return _asked(cheaper[0])
        factor *= Fraction(9, 10) if not is_error else Fraction(2, 3)
    return {}


def _cheaper(request: Request, factor: Fraction) -> Request:
    """Returns the request for a part of the loss, or for an error that is larger by as much."""
    if request.accuracy is not None:
        errors = request.accuracy.errors
        wider = (
            {name: _rounded(error / factor, up=True) for name, error in errors.items()}
            if isinstance(errors, Mapping)
            else _rounded(errors / factor, up=True)
        )
        return replace(request, accuracy=replace(request.accuracy, errors=wider))
    offer = request.offer
    rho = None if offer.rho is None else _rounded(offer.rho * factor)
    epsilon = None if offer.epsilon is None else _rounded(offer.epsilon * factor)
    return replace(request, offer=replace(offer, rho=rho, epsilon=epsilon))


def _rounded(amount: Fraction, *, up: bool = False) -> Fraction:
    """Returns an amount with two digits, rounded to the cheaper side."""
    step = Fraction(10) ** (math.floor(math.log10(amount)) - 1)
    whole = math.ceil(amount / step) if up else math.floor(amount / step)
    return whole * step


def _shown(value: Fraction | Mapping[str, Fraction]) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {show_amount(amount)}" for name, amount in value.items()) + "}"
    return show_amount(value)
