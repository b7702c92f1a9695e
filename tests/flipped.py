"""The law of permute-and-flip, worked out apart from the sampler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

_nodes = cache(np.polynomial.legendre.leggauss)


def flipped(chances: Sequence[float]) -> list[float]:
    """Returns the probability of each candidate, given with which chance each is taken where it is tried.

    Candidate t is tried at a uniform time z and wins if none before it was taken: the integral over z of p_t times the
    product of 1 - p_s z over all others, a polynomial, which so many nodes integrate exactly.
    """
    p = np.array(chances)
    nodes, weights = _nodes(len(p) // 2 + 1)
    at, weights = (nodes + 1) / 2, weights / 2
    found = []
    for t in range(len(p)):
        others = np.delete(p, t)
        found.append(float((weights * p[t] * np.prod(1 - others * at[:, None], axis=1)).sum()))
    return found
