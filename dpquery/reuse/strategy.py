"""What to spend on each of several groupings of the same rows, so that all of them, reconciled, are off least.

Groupings by some of d keys are marginals of one table. Gaussian or Laplace noise of variance v_A on a cell of each
marginal A, and weighted least squares over all of them, make the estimate of a cell of A off by the variance

    sum over B within A of  prod_{i in B} (1 - 1/n_i) prod_{i in A - B} 1/n_i  /  (n_A p_B),
    p_B = sum over measured C that hold B of  1 / (n_C v_C),

n_i the values of key i and n_A their product over A: the parts B are orthogonal, and each is measured by all marginals
that hold it. A loss that is split in parts x_A makes 1 / v_A in proportion to x_A (rho) or to its square (epsilon).

Source:
    Xiao, He, Zhang, Kifer 2023, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss
    Functions" (ResidualPlanner), from which the parts are; docs/concepts/stored-answers.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.accountant import BudgetKind
from dpquery.kernel.parallel import chains
from dpquery.kernel.plan import BudgetedPlan, Noise
from dpquery.reuse.block_sums import Floats
from dpquery.reuse.coordinates import is_of_vector
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.releases import labels_of
from dpquery.units.declarations import Declarations, Neighbours

Marginal = frozenset[int]
MOST_PARTS = 4_000
"""Sets of keys that the errors of a workload are sums over."""
STEPS = 300
"""Rounds of the search for shares."""
LEAST = 1e-3
"""Below this part of an equal share a grouping is not measured, if it follows from the others."""
GAIN = 1.01
"""How much larger the errors of the plan as it was have to be for another one."""
LOWEST = 1e-100
"""Precisions below this count as this one."""
RESOLUTION = 10**6
"""Shares are multiples of one part in so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One measure in several groupings of the same rows, in a plan.

    Attributes:
        label: Of the measure.
        names: Of each grouping.
        ids: The measure in each grouping.
        sizes: Of each key the number of its values.
        marginals: The keys of each grouping.
        precisions: Of each the inverse of its variance where it gets all that they lose together.
        whole: What they lose together, of epsilon or rho.
        given: The shares that the plan has, which are their weights too; summing to 1.
        power: 1 for rho, 2 for epsilon.
        unit: Of the numbers.
        keys: Of each key the texts of its columns.
    """

    label: str
    names: tuple[str, ...]
    ids: tuple[str, ...]
    sizes: tuple[int, ...]
    marginals: tuple[Marginal, ...]
    precisions: tuple[float, ...]
    whole: float
    given: tuple[float, ...]
    power: int
    unit: float
    keys: tuple[tuple[str, ...], ...] = ()


def best_shares(workload: Workload, now: Floats) -> Floats:
    """Returns the shares of the least weighted sum of variances that is found; the best, where the loss is rho.

    Args:
        now: Shares that they are no worse than.
    """
    starts = [np.array(workload.given)]
    if workload.power > 1:  # there are several minima: of each start one is reached
        starts.append(now)
        count = len(now)
        starts += [np.full(count, 0.1 / count) + 0.9 * np.eye(count)[place] for place in range(count)]
    into, weights = matrices(workload)
    need = weights @ np.array(workload.given)
    found = [searched(start / start.sum(), into, need, workload.power) for start in starts]
    return min(found, key=lambda shares: error(shares, into, need, workload.power))


def variances(workload: Workload, shares: Floats) -> Floats:
    """Returns the variance of an estimate in each grouping, in squared steps; infinite where it is not determined."""
    into, weights = matrices(workload)
    with np.errstate(divide="ignore", invalid="ignore"):
        made = weights / (into @ (shares**workload.power))[:, None]
    found: Floats = np.where(weights > 0, made, 0.0).sum(axis=0)
    return found


def parts_of(workload: Workload) -> list[Marginal]:
    """Returns the orthogonal parts that its numbers are sums of."""
    return sorted({frozenset(p) for m in workload.marginals for p in _subsets(sorted(m))}, key=sorted)


def matrices(workload: Workload) -> tuple[Floats, Floats]:
    """Returns how much each grouping tells of each part, shape (parts, groupings), and how much of each part a cell
    of it holds."""
    sizes, parts = workload.sizes, parts_of(workload)
    into, weights = np.zeros((2, len(parts), len(workload.marginals)))
    for column, (marginal, precision) in enumerate(zip(workload.marginals, workload.precisions, strict=True)):
        cells = math.prod(sizes[i] for i in marginal)
        for row, part in enumerate(parts):
            if part <= marginal:
                into[row, column] = precision / cells
                inner = math.prod(1 - 1 / sizes[i] for i in part)
                weights[row, column] = inner * math.prod(1 / sizes[i] for i in marginal - part) / cells
    return into, weights


def _subsets(keys: Sequence[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for key in keys:
        found += [(*part, key) for part in found]
    return found


def error(shares: Floats, into: Floats, need: Floats, power: int) -> float:
    """Returns the weighted sum of variances.

    Args:
        need: How much of each part the numbers hold, each by its weight.
    """
    known = into @ (shares**power)
    return float((need[need > 0] / np.maximum(known[need > 0], LOWEST)).sum())


def searched(shares: Floats, into: Floats, need: Floats, power: int) -> Floats:
    """Returns shares from which no step leads down: each is multiplied by the root of what it is worth.

    Source:
        Of rho it is the multiplicative algorithm for optimal designs, which never goes up (Yu 2010).
    """
    for _ in range(STEPS):
        known = np.maximum(into @ (shares**power), LOWEST)
        worth = (need / known**2) @ into * shares ** (power - 1)
        shares = shares * (worth / worth.max()) ** (1 / (power + 1))
        shares = shares / shares.sum()
    return shares


def workloads(
    plan: BudgetedPlan,
    wanted: Sequence[Wanted],
    kind: BudgetKind,
    neighbours: Neighbours,
    others: frozenset[str] = frozenset(),
) -> list[Workload]:
    """Returns the measures of a plan, but for `others`, that are asked in several groupings of the same rows, of which
    each has public values that cover every row, and no two have keys in common but whole ones; where what they lose
    adds up."""
    found = chains([budgeted.aggregate for budgeted in plan.aggregates], neighbours)
    alone = {number for chain in found if len(chain) == 1 for number in chain[0]}
    alike: dict[object, list[tuple[Wanted, int]]] = {}
    number = 0
    for one in wanted:
        for place, measure in enumerate(one.budgeted.aggregate.measures):
            asked, mechanism = one.asked, one.budgeted.noise[place].mechanism
            usable = asked is not None and number in alone and all(one.facts.covering) and measure.id not in others
            if asked is not None and usable and is_of_vector(asked.frame, asked.measures[place]):
                rows = asked.frame.base, asked.frame.conditions, asked.frame.weights.of_rows, one.facts.catalog
                alike.setdefault((rows, asked.measures[place], mechanism), []).append((one, place))
            number += 1
    every = (made for some in alike.values() if (made := _workload(some)) is not None)
    return [one for one in every if one.power == 1 or kind is BudgetKind.PURE]


def _workload(some: Sequence[tuple[Wanted, int]]) -> Workload | None:
    keys: dict[tuple[str, ...], tuple[int, object]] = {}
    marginals = []
    for one, _ in some:
        assert one.asked is not None
        for key in one.asked.frame.keys:
            if keys.setdefault(key.columns, (len(keys), key.domain))[1] != key.domain:
                return None
        marginals.append(frozenset(keys[key.columns][0] for key in one.asked.frame.keys))
    columns = [column for own in keys for column in own]
    parts = sum(2 ** len(marginal) for marginal in marginals)
    if (
        len({*marginals}) < 2
        or len({*marginals}) < len(marginals)
        or len({*columns}) < len(columns)
        or parts > MOST_PARTS
    ):
        return None
    first, place = some[0]
    power = 2 if first.budgeted.noise[place].loss.epsilon else 1
    losses = [float(amount_of(one.budgeted.noise[place])) for one, place in some]
    whole = sum(losses)
    return Workload(
        label=first.budgeted.aggregate.measures[place].label,
        names=tuple(", ".join(labels_of(one.budgeted.aggregate)[0]) or "all rows" for one, _ in some),
        ids=tuple(one.budgeted.aggregate.measures[place].id for one, place in some),
        sizes=tuple(len(domain) for _, domain in keys.values()),  # type: ignore[arg-type]
        marginals=tuple(marginals),
        precisions=tuple(
            (whole / loss) ** power / variance_of(one.noises[own])
            for loss, (one, own) in zip(losses, some, strict=True)
        ),
        whole=whole,
        given=tuple(loss / whole for loss in losses),
        power=power,
        unit=float(first.budgeted.aggregate.measures[place].unit),
        keys=tuple(keys),
    )


def amount_of(noise: Noise) -> Fraction:
    """Returns the epsilon or the rho of a noise."""
    return noise.loss.epsilon or noise.loss.rho


def noise_of(like: Noise, amount: Fraction) -> Noise:
    """Returns a noise of the same kind for another epsilon or rho."""
    loss = replace(like.loss, rho=amount) if like.loss.rho else replace(like.loss, epsilon=amount)
    return replace(like, loss=loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A plan in which groupings of the same rows get what makes them err least together.

    Attributes:
        follows: The ids of what is not measured, because it follows from others.
        is_better: Whether it errs less than the plan that it was compared with.
        notes: What was chosen, for people.
    """

    plan: BudgetedPlan
    follows: frozenset[str]
    is_better: bool
    notes: tuple[str, ...]


def with_strategy(
    plan: BudgetedPlan,
    wanted: Sequence[Wanted],
    paid: Mapping[str, Fraction],
    kind: BudgetKind,
    declared: Declarations,
    others: frozenset[str] = frozenset(),
) -> Strategy:
    """Returns a plan of the same charge in which the weighted sum of variances of each workload is at most as large.

    Args:
        others: The ids of what is chosen otherwise, and stays as it is.
        plan, wanted: A plan in which all groupings are measured, each for an equal part of the offer or as it is
            weighted.
        paid: What each measure loses in the plan that it is compared with; what follows from others there has nothing.
    """
    notes, losses, is_better = list[str](), dict(paid), False
    for workload in workloads(plan, wanted, kind, declared.neighbours, others):
        before = [paid.get(id, Fraction(0)) for id in workload.ids]
        whole = sum(before, Fraction(0))
        if not whole:
            continue
        now = np.array([float(loss / whole) for loss in before])
        shares = exact_shares(best_shares(workload, now))
        made, scale = np.array([float(share) for share in shares]), float(whole) / workload.whole
        into, weights = matrices(workload)
        before_it, after = (error(x, into, weights @ np.array(workload.given), workload.power) for x in (now, made))
        if GAIN * after < before_it:
            losses |= {id: whole * share for id, share in zip(workload.ids, shares, strict=True)}
            now, is_better = made, True
        else:
            losses |= dict(zip(workload.ids, before, strict=True))
        notes.append(_note(workload, now * scale))
    ids = [measure.id for budgeted in plan.aggregates for measure in budgeted.aggregate.measures]
    return Strategy(
        plan=with_losses(plan, losses),
        follows=frozenset(id for id in ids if not losses.get(id, Fraction(1))),
        is_better=is_better and losses.keys() >= {*ids},
        notes=tuple(notes),
    )


def paid_in(plan: BudgetedPlan, follows: frozenset[str]) -> dict[str, Fraction]:
    """Returns what each measure of a plan loses, of epsilon or rho; nothing where it follows from others."""
    return {
        measure.id: Fraction(0) if measure.id in follows else amount_of(noise)
        for budgeted in plan.aggregates
        for measure, noise in zip(budgeted.aggregate.measures, budgeted.noise, strict=True)
    }


def exact_shares(shares: Floats) -> tuple[Fraction, ...]:
    """Returns shares that sum to 1, none of them very small: a grouping that is worth little is not measured."""
    kept = np.where(shares < LEAST / len(shares), 0.0, shares)
    whole = np.floor(kept / kept.sum() * RESOLUTION).astype(np.int64)
    whole[int(whole.argmax())] += RESOLUTION - int(whole.sum())
    return tuple(Fraction(int(part), RESOLUTION) for part in whole)


def with_losses(plan: BudgetedPlan, losses: Mapping[str, Fraction]) -> BudgetedPlan:
    """Returns the plan in which these measures lose so much, of epsilon or rho; those that lose nothing stay."""

    def paid(id: str, noise: Noise) -> Noise:
        given = losses.get(id)
        return noise_of(noise, given) if given else noise

    return BudgetedPlan(
        aggregates=tuple(
            replace(
                budgeted,
                noise=tuple(
                    paid(m.id, noise) for m, noise in zip(budgeted.aggregate.measures, budgeted.noise, strict=True)
                ),
            )
            for budgeted in plan.aggregates
        )
    )


def _note(workload: Workload, shares: Floats) -> str:
    """Returns what is expected of each grouping, and what would be if all had their own part of the offer."""
    pairs = zip(workload.names, variances(workload, shares), variances(workload, np.array(workload.given)), strict=True)
    each = (
        f"{name}: {math.sqrt(chosen) * workload.unit:.3g} ({math.sqrt(alike) * workload.unit:.3g})"
        for name, chosen, alike in pairs
    )
    return (
        f"strategy for {workload.label}: standard deviations of what is shown, and in brackets what equal parts would "
        f"give, by {'; by '.join(each)}"
    )
