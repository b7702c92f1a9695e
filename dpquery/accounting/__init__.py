"""The arithmetic of privacy losses, for analysts and researchers: read-only, and apart from any session.

Amounts go in as texts, integers, Decimals, Fractions or floats, and come out as Fractions. A loss rounds up, what may
be spent rounds down, a scale of noise rounds up. Nothing here charges a ledger or reads a row.
"""

from dpquery.accounting.amounts import Amount
from dpquery.accounting.attackers import (
    TradeOff,
    approximate,
    gaussian,
    laplace,
    leak,
    leaky_response,
    plot_roc,
    randomised_response,
    roc,
)
from dpquery.accounting.batches import Noise, batch_delta, batch_epsilon, discrete_gaussian, discrete_laplace
from dpquery.accounting.combining import advanced, group, loss, optimal, optimal_delta, parallel, sequential
from dpquery.accounting.conversions import (
    ORDERS,
    RenyiCurve,
    compose_rdp,
    discrete_gaussian_delta,
    discrete_gaussian_variance,
    discrete_laplace_rdp,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_rdp,
    gaussian_scale,
    laplace_delta,
    laplace_rdp,
    pure_to_rdp,
    pure_to_zcdp,
    randomised_response_rdp,
    rdp_delta,
    rdp_to_approximate,
    zcdp_to_approximate,
    zcdp_to_rdp,
    zcdp_within,
)
from dpquery.kernel.loss import PrivacyLoss

__all__ = [
    "ORDERS",
    "Amount",
    "Noise",
    "PrivacyLoss",
    "RenyiCurve",
    "TradeOff",
    "advanced",
    "approximate",
    "batch_delta",
    "batch_epsilon",
    "compose_rdp",
    "discrete_gaussian",
    "discrete_gaussian_delta",
    "discrete_gaussian_variance",
    "discrete_laplace",
    "discrete_laplace_rdp",
    "gaussian",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_rdp",
    "gaussian_scale",
    "group",
    "laplace",
    "laplace_delta",
    "laplace_rdp",
    "leak",
    "leaky_response",
    "loss",
    "optimal",
    "optimal_delta",
    "parallel",
    "plot_roc",
    "pure_to_rdp",
    "pure_to_zcdp",
    "randomised_response",
    "randomised_response_rdp",
    "rdp_delta",
    "rdp_to_approximate",
    "roc",
    "sequential",
    "zcdp_to_approximate",
    "zcdp_to_rdp",
    "zcdp_within",
]
