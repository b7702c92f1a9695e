"""Into which groups to cut a line, and what to spend on each way to cut it, so that sums over places err least.

Each way is a GROUP BY whose groups get noise of one variance. Of ways P_l with parts x_l of a loss, estimates by least
squares of the sums W have the variances of W X^-1 W' with X = sum x_l^p P_l, where P_l tells which places share a
group, p is 1 for rho and 2 for epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpquery.reuse.block_sums import Floats

Labels = NDArray[np.int64]
"""Of each place the group that it is in."""
MOST_WAYS = 80
ROUNDS = 4
"""Steps towards the best parts after each further way; at the end ten times as many."""
ENOUGH = 1.02
"""Further ways are not looked for where none can lead down by more than this factor."""
SLOW = 1.003
"""Nor where the last four led down by less than this one together."""
LEAST = 1e-3
"""Ways of a smaller part of an equal one are left out."""
JOINS_FROM = 20
"""From so many ways on two of three may join places that are not beside each other."""
FINALISTS = 4
"""Trees whose parts are worked out well; of the others a first look is enough."""
BRANCHES = (*range(2, 17), 18, 20, 22, 25, 28, 32, 40, 50, 64)


def merged(asked: Floats) -> tuple[Floats, Labels]:
    """Returns the sums over places that no sum tells apart, in the order of the first of each, and where each place
    went."""
    _, first, numbers = np.unique(asked, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return asked[:, first[order]], ranks[numbers.reshape(-1)]


def best_ways(asked: Floats, power: int, most: int = MOST_WAYS) -> list[tuple[Labels, float]]:
    """Returns ways to cut a line and the parts of the loss that they get, for a small sum of variances.

    Args:
        asked: Which places each sum adds up, times the root of its weight, shape (sums, places); no two places are
            alike.
        power: 1 for rho, 2 for epsilon.
        most: How many ways there may be.
    """
    read: NDArray[np.bool_] = np.any(asked, axis=0)
    gram = asked[:, read].T @ asked[:, read]  # (places that are read, the same)
    ways, parts = _by_gradient(gram, most) if power == 1 else _by_levels(gram)
    ways = [_with_unread(way, read) for way in ways]
    kept = parts >= LEAST / len(parts)
    kept[0] = True  # every place by itself, so that all sums are determined
    ways, parts = [way for way, keep in zip(ways, kept, strict=True) if keep], parts[kept] / parts[kept].sum()
    return list(zip(ways, parts.tolist(), strict=True))


def _with_unread(way: Labels, read: NDArray[np.bool_]) -> Labels:
    """Returns the groups of all places: those that no sum reads are one further group."""
    labels = np.full(len(read), len(way), dtype=np.int64)
    labels[read] = way
    return labels


def total(gram: Floats, ways: Sequence[Labels], parts: Floats, power: int) -> float:
    """Returns the sum of variances."""
    return _looked_at(gram, _together(ways), parts, power)[0]


def _together(ways: Sequence[Labels]) -> Floats:
    """Returns for each way which pairs of places share a group, shape (ways, pairs)."""
    first, second = np.triu_indices(len(ways[0]), 1)
    return np.array([way[first] == way[second] for way in ways], dtype=np.float64)


def _looked_at(gram: Floats, shared: Floats, parts: Floats, power: int) -> tuple[float, Floats]:
    """Returns the sum of variances, and by how much it falls with each entry of X."""
    known = np.zeros_like(gram)
    known[np.triu_indices(len(gram), 1)] = parts**power @ shared  # (ways,) @ (ways, pairs): X above its diagonal
    known += known.T
    np.fill_diagonal(known, (parts**power).sum())
    inverse = np.linalg.inv(known)
    worth = inverse @ gram @ inverse  # (places, places), as are X and the Gram matrix of the sums
    return float((gram * inverse).sum()), worth


def _better(gram: Floats, shared: Floats, parts: Floats, power: int, rounds: int) -> Floats:
    """Returns parts after steps of the algorithm of `strategy`: each is multiplied by the root of what it is worth."""
    pairs = np.triu_indices(len(gram), 1)
    for _ in range(rounds):
        worth = _looked_at(gram, shared, parts, power)[1]
        each = (2 * shared @ worth[pairs] + np.trace(worth)) * parts ** (power - 1)  # (ways,)
        parts = parts * (each / each.max()) ** (1 / (power + 1))
        parts = np.maximum(parts / parts.sum(), 1e-9)
    return parts


def _by_gradient(gram: Floats, most: int) -> tuple[list[Labels], Floats]:
    """Returns ways under rho: one after another the one that leads down most is added.

    The sum of variances is convex in X, so no strategy of intervals has less than it over the last factor.
    """
    ways, parts = [np.arange(len(gram))], np.ones(1)
    shared, values = _together(ways), list[float]()
    while True:
        parts = _better(gram, shared, parts, 1, ROUNDS)
        value, worth = _looked_at(gram, shared, parts, 1)
        values.append(value)
        found = _cut(worth)
        if len(ways) >= JOINS_FROM and len(ways) % 3:
            found = _settled(worth, _joined(worth, found))
        gain = float(worth[found[:, None] == found].sum())
        is_slow = len(values) > 4 and values[-5] < SLOW * value
        if gain < ENOUGH * value or is_slow or len(ways) >= min(most, MOST_WAYS):
            return ways, _better(gram, shared, parts, 1, 10 * ROUNDS)
        ways.append(found)
        shared = np.concatenate([shared, _together([found])])
        parts = np.append(parts * (1 - 1 / len(ways)), 1 / len(ways))


def _cut(worth: Floats) -> Labels:
    """Returns the cut of a line into intervals that are worth most: each what its places are worth together."""
    size = len(worth)
    sums = np.zeros((size + 1, size + 1))
    sums[1:, 1:] = worth.cumsum(axis=0).cumsum(axis=1)  # (ends, ends): of the first places by the first places
    corner, best, begins = np.diag(sums), np.zeros(size + 1), np.zeros(size + 1, dtype=np.int64)
    for end in range(1, size + 1):
        each = best[:end] + sums[end, end] - sums[:end, end] - sums[end, :end] + corner[:end]  # (begins before,)
        begins[end] = int(each.argmax())
        best[end] = each[begins[end]]
    labels, end = np.zeros(size, dtype=np.int64), size
    while end:
        labels[begins[end] : end] = begins[end]
        end = int(begins[end])
    return np.unique(labels, return_inverse=True)[1].reshape(-1)


def _joined(worth: Floats, labels: Labels) -> Labels:
    """Returns groups in which intervals are joined as long as that is worth something."""
    chosen = (labels[:, None] == np.arange(labels.max() + 1)).astype(np.float64)  # (places, groups)
    between = chosen.T @ worth @ chosen  # (groups, groups)
    while True:
        np.fill_diagonal(between, -np.inf)
        first, second = divmod(int(between.argmax()), len(between))
        if not between[first, second] > 0:
            return np.unique(labels, return_inverse=True)[1].reshape(-1)
        labels = np.where(labels == second, first, labels)
        between[first] += between[second]
        between[:, first] += between[:, second]
        between[second] = between[:, second] = -np.inf


def _settled(worth: Floats, labels: Labels) -> Labels:
    """Returns groups in which each place was moved to where it is worth most, twice over all of them."""
    labels = labels.copy()
    shares = worth @ (labels[:, None] == np.arange(labels.max() + 1))  # (places, groups)
    for place in [*range(len(labels))] * 2:
        gains = shares[place].copy()
        gains[labels[place]] -= worth[place, place]
        best = int(gains.argmax())
        if best != labels[place] and gains[best] > gains[labels[place]]:
            shares[:, labels[place]] -= worth[:, place]
            shares[:, best] += worth[:, place]
            labels[place] = best
    return np.unique(labels, return_inverse=True)[1].reshape(-1)


def _by_levels(gram: Floats) -> tuple[list[Labels], Floats]:
    """Returns ways under epsilon, where more of them cost more: trees of one branching, the best one moved further."""
    size = len(gram)
    single = np.arange(size)
    trees = [[single]]
    for branches in BRANCHES:
        levels, width = [single], branches
        while width < size:
            levels.append(single // width)
            trees.append([*levels])
            width *= branches
    found = [(ways, np.full(len(ways), 1 / len(ways))) for ways in trees]
    for rounds, most in ((ROUNDS, FINALISTS), (3 * ROUNDS, 1)):
        found = [(ways, _better(gram, _together(ways), parts, 2, rounds)) for ways, parts in found]
        found = sorted(found, key=lambda one: total(gram, one[0], one[1], 2))[:most]
    ways, parts = found[0]
    return _moved(gram, ways, parts, total(gram, ways, parts, 2))


def _moved(gram: Floats, ways: list[Labels], parts: Floats, value: float) -> tuple[list[Labels], Floats]:
    """Returns ways whose borders were moved by one place as long as that leads down."""
    is_better = True
    while is_better:
        is_better = False
        for number, way in enumerate(ways[1:], start=1):
            for border in np.flatnonzero(np.diff(way)):
                for place, other in ((border, border + 1), (border + 1, border)):
                    tried = ways[number].copy()
                    tried[place] = tried[other]
                    made = [*ways[:number], tried, *ways[number + 1 :]]
                    now = total(gram, made, parts, 2)
                    if now < value * (1 - 1e-6):
                        ways, value, is_better = made, now, True
        parts = _better(gram, _together(ways), parts, 2, ROUNDS)
        value = total(gram, ways, parts, 2)
    return ways, parts
