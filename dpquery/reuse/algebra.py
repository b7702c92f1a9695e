"""Linear algebra and whole numbers that least squares are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.reuse.block_sums import Floats
from dpquery.reuse.cells import Blocks

MOST_STEPS = 400
"""Of conjugate gradients."""
CLOSE = 1e-26
"""By how much squared residuals shrink until they are small enough."""
FLAT = 1e-12
"""Curvature along a direction, relative to that of its parts by themselves, below which it is none."""
FAR = 1e-4
"""Pivots of a matrix with ones on its diagonal that is inverted as it is; one with smaller ones may have no inverse."""


def inverted(matrix: Floats) -> Floats:
    """Returns a generalised inverse of a symmetric matrix of ones or zeros on its diagonal and no negative value."""
    try:
        if float(np.linalg.cholesky(matrix).diagonal().min()) > FAR:
            found = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
            return (found + found.T) / 2
    except np.linalg.LinAlgError:
        pass  # along some direction nothing was released
    return np.asarray(np.linalg.pinv(matrix, rcond=FLAT, hermitian=True), dtype=np.float64)


def descended(normal: Callable[[Floats], Floats], right: Floats, weights: Floats) -> Floats:
    """Returns a solution of normal equations by conjugate gradients.

    Args:
        normal: The product with their matrix.
        weights: The inverses of its diagonal, 0 where that is 0.
    """
    diagonal = np.divide(1.0, weights, out=np.zeros(len(right)), where=weights > 0)
    x, r = np.zeros(len(right)), right.copy()
    z = weights * r
    p, last = z.copy(), float((r * z).sum())
    first = last
    for _ in range(MOST_STEPS):
        if last <= first * CLOSE:
            break
        q = normal(p)
        curve = float((p * q).sum())
        if curve <= FLAT * float((p * p * diagonal).sum()):
            break  # along it nothing was released
        x += (last / curve) * p
        r -= (last / curve) * q
        z = weights * r
        now = float((r * z).sum())
        p = z + (now / last) * p
        last = now
    return x


def kept_apart(blocks: Sequence[Blocks]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the first of the places that some table tells from all before it, and for each place its number."""
    codes = np.stack([b.codes for b in {b.codes.tobytes(): b for b in blocks}.values()])
    _, first, number = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[number.reshape(-1)]


def whole_of(values: Floats) -> NDArray[Any]:
    """Returns whole floats as integers, in 64 bits where they fit, else as Python's."""
    if np.abs(values).max(initial=0.0) < 2**61:
        return values.astype(np.int64)
    made = np.empty(values.shape, dtype=object)
    made.reshape(-1)[:] = [int(value) for value in values.reshape(-1).tolist()]
    return made


def exact(numbers: NDArray[Any], by: int = 1) -> NDArray[Any]:
    """Returns whole numbers in 64 bits where they, times a factor and added up, fit, else as Python's."""
    if numbers.size == 0:
        return numbers
    largest = max(-int(numbers.min()), int(numbers.max())) * max(1, abs(by)) * numbers.size
    return numbers.astype(np.int64 if largest < 2**62 else object)
