"""The least error of any strategy of the matrix mechanism that is known: what workloads are measured against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]
STEPS = 2_000


def gaussian_optimum(asked: Floats) -> float:
    """Returns the least sum of variances of sums over cells, shape (sums, cells), at sensitivity 1 in L2.

    The trace of W (A'A)^-1 W' is convex in A'A with ones on its diagonal; it is descended over A.

    Source:
        Li, Miklau, Hay, McGregor, Rastogi 2015, "The matrix mechanism"; Yuan et al. 2016 for the convex form.
    """
    gram, size = asked.T @ asked, asked.shape[1]
    values, vectors = np.linalg.eigh(gram)
    start = (vectors * np.maximum(values, 1e-3) ** 0.25) @ vectors.T

    def looked_at(flat: Floats) -> tuple[float, Floats]:
        strategy = flat.reshape(size, size)
        lengths = np.sqrt((strategy**2).sum(axis=0))
        scaled = strategy / lengths
        inverse = np.linalg.inv(scaled.T @ scaled + 1e-12 * np.eye(size))
        slope = -2 * scaled @ (inverse @ gram @ inverse)
        slope = (slope - scaled * (slope * scaled).sum(axis=0)) / lengths
        return float((gram * inverse).sum()), slope.ravel()

    found = minimize(looked_at, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return float(found.fun)


def laplace_optimum(asked: Floats, seed: int = 0) -> float:
    """Returns the least sum of variances that is found at sensitivity 1 in L1, of strategies that measure each cell
    and some further sums; noise of variance 1.

    Source:
        McKenna, Miklau, Hay, Machanavajjhala 2018, "Optimizing error of high-dimensional statistical queries under
        differential privacy" (HDMM): p-identity strategies, p a sixteenth and an eighth of the cells.
    """
    gram, size = asked.T @ asked, asked.shape[1]
    best = float(np.trace(gram))
    for rows in (size // 16 + 1, size // 8 + 1):

        def looked_at(flat: Floats, rows: int = rows) -> tuple[float, Floats]:
            more = flat.reshape(rows, size)
            sums = 1 + more.sum(axis=0)
            inverse = np.linalg.inv(np.eye(size) + more.T @ more)
            scaled = gram * np.outer(sums, sums)
            slope = -2 * more @ (inverse @ scaled @ inverse) + 2 * ((gram * inverse) @ sums)
            return float((scaled * inverse).sum()), slope.ravel()

        start = np.random.default_rng(seed).random(rows * size) / 2
        found = minimize(
            looked_at, start, jac=True, bounds=[(0, None)] * len(start), method="L-BFGS-B", options={"maxiter": STEPS}
        )
        best = min(best, float(found.fun))
    return best
