"""What an analyst asks for, read: a request of the pipeline, or a refusal that says what is wrong with it."""

from __future__ import annotations

from dpquery.catalog.tables import Defaults
from dpquery.errors import InvalidLossError
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.result.together import read_confidence
from dpquery.session.pipeline import Request
from dpquery.session.prices import read_accuracy, read_weights
from dpquery.sql.parse.parameters import Given


def request_of(
    defaults: Defaults,
    query: str,
    params: Given,
    offer: QueryBudget,
    bounds: ContributionBounds,
    dialect: str,
    confidence: object,
    error: object,
    weights: object,
) -> Request:
    """Returns a query with what is asked with it; see `Session.sql`.

    Raises:
        InvalidLossError: A loss, an error, a weight or a confidence out of its domain, or two that exclude each other.
    """
    held = read_confidence(confidence)
    usual = QueryBudget(epsilon=defaults.epsilon, delta=defaults.delta, rho=defaults.rho)
    asks_error = error is not None
    if asks_error and (offer.epsilon is not None or offer.rho is not None):
        raise InvalidLossError("a query offers a loss or asks an error, not both", advice="Leave one of them out.")
    if asks_error and weights is not None:
        raise InvalidLossError("weights split a loss, and error= asks for none", advice="Leave one of them out.")
    accuracy = read_accuracy(error, 1 - held) if asks_error else None
    return Request(
        text=query,
        offer=offer.or_default(usual),
        bounds=bounds,
        dialect=dialect,
        confidence=held,
        params=tuple(params) if isinstance(params, list) else dict(params) if isinstance(params, dict) else params,
        weights=read_weights(weights),
        accuracy=accuracy,
    )
