"""Prefixes, ranges and periods of one ordered value that are asked together: what is measured in their place.

Their conditions and keys cut the value into places (`lines`, `families`). What is measured are GROUP BYs of these
places, chosen by `partitions` and made by `line_groupings`: ordinary private aggregates with public keys. What was
asked follows from their noisy groups by least squares. docs/concepts/stored-answers.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.accountant import BudgetKind, guarantee_of
from dpquery.kernel.mechanisms import calibrated
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan
from dpquery.planner.protect.grouping_sets import DeclaredGrouping
from dpquery.reuse.block_sums import Floats
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.families import Family, families, places_of
from dpquery.reuse.implied import Replaced, without
from dpquery.reuse.line_groupings import aggregate_by, label_of
from dpquery.reuse.partitions import Labels, best_ways, merged
from dpquery.reuse.strategy import GAIN, amount_of, exact_shares, noise_of
from dpquery.units.declarations import Declarations
from dpquery.units.sizes import Sizes

MOST_PLACES = 256
"""Places that some sum tells apart; where there are more, nothing is chosen."""
LEAST_WAYS = 3
"""Ways to group places that there may be, however few sums are asked."""
MOST_NAMED = 60
"""Sums whose errors are told one by one."""


def with_ranges(
    plan: BudgetedPlan,
    wanted: Sequence[Wanted],
    wholes: Sequence[frozenset[str]],
    kind: BudgetKind,
    declared: Declarations,
    sizes: Sizes,
    kept: frozenset[str] = frozenset(),
) -> Replaced:
    """Returns a plan of the same charge in which families of sums over lines err less; else the plan as it is.

    Args:
        wholes: Of each aggregate the sums of what is never NULL.
        kept: The ids of what stays as it is.
    """
    made = Replaced(plan=plan)
    if declared.blocks is not None:  # a part of the blocks may be asked, and all of them would be charged
        return made
    for family in families(wanted, kind, kept):
        tried = _chosen(made, family, frozenset().union(*wholes), declared, sizes)
        if tried is not None and tried.costs_no_more(made, kind, declared):
            made = tried
    return made


def _chosen(
    made: Replaced, family: Family, whole: frozenset[str], declared: Declarations, sizes: Sizes
) -> Replaced | None:
    """Returns the plan with a family measured otherwise, where that errs less."""
    amounts = [float(amount_of(one.noise)) for one in family.sums]
    weights = [amount / sum(amounts) for amount in amounts]
    asked = places_of(family)
    distinct, numbers = merged(np.concatenate(asked))
    spent = _spent(made.plan, family, declared)
    if distinct.shape[1] > MOST_PLACES or not spent:
        return None
    ends = np.cumsum([len(rows) for rows in asked])[:-1]
    each = np.split(distinct, ends)
    roots = np.concatenate(
        [np.full(len(rows), math.sqrt(w / len(rows))) for w, rows in zip(weights, each, strict=True)]
    )
    power = 1 if family.sums[0].noise.loss.rho else 2
    most = max(LEAST_WAYS, 7 * len(family.sums) // 5)  # not many more are read than were asked
    ways = [(labels[numbers], share) for labels, share in best_ways(roots[:, None] * distinct, power, most)]
    shares = exact_shares(np.array([share for _, share in ways]))
    added, groupings = list[BudgetedAggregate](), list[DeclaredGrouping]()
    for number, ((labels, _), share) in enumerate(zip(ways, shares, strict=True)):
        if share:
            prefix = f"w{len(made.groupings) + number + 1}"
            aggregate, grouping = aggregate_by(
                family, np.where(family.possible, labels, -1), prefix, whole, declared, sizes
            )
            added.append(BudgetedAggregate(aggregate=aggregate, noise=(noise_of(family.sums[0].noise, spent * share),)))
            groupings.append(grouping)
    kept = [labels for (labels, _), share in zip(ways, shares, strict=True) if share]
    variances = _variances(each, [labels_of(labels, numbers) for labels in kept], added, declared)
    before = [one.variance for one in family.sums]
    if float(np.dot(weights, variances)) * GAIN > float(np.dot(weights, before)):
        return None
    return Replaced(
        plan=BudgetedPlan(aggregates=(*made.plan.aggregates, *added)),
        groupings=(*made.groupings, *groupings),
        follows=made.follows | {one.measure.id for one in family.sums},
        settled=made.settled | {m.id for one in added for m in one.aggregate.measures},
        notes=(*made.notes, _note(family, kept, variances)),
    )


def labels_of(labels: Labels, numbers: Labels) -> Labels:
    """Returns the groups of places that are counted once, of those of all places."""
    found = np.zeros(int(numbers.max()) + 1, dtype=np.int64)
    found[numbers] = labels
    return found


def _spent(plan: BudgetedPlan, family: Family, declared: Declarations) -> Fraction:
    """Returns what a family adds to what the noise of its kind loses, of epsilon or rho."""
    first = family.sums[0].noise
    others = {
        measure.id
        for b in plan.aggregates
        for measure, noise in zip(b.aggregate.measures, b.noise, strict=True)
        if bool(noise.loss.rho) is not bool(first.loss.rho)
    }
    own = {one.measure.id for one in family.sums}
    before, after = (guarantee_of(without(plan, frozenset(ids)), declared.neighbours) for ids in (others, others | own))
    return before.rho - after.rho if first.loss.rho else before.epsilon - after.epsilon


def _variances(
    asked: Sequence[Floats], ways: Sequence[Labels], added: Sequence[BudgetedAggregate], declared: Declarations
) -> Floats:
    """Returns the mean variance of each sum, estimated from what was added."""
    noises = [variance_of(calibrated(one, declared.neighbours)[0]) for one in added]
    known = sum((way[:, None] == way) / noise for way, noise in zip(ways, noises, strict=True))
    inverse = np.linalg.inv(known)
    return np.array([((rows @ inverse) * rows).sum(axis=1).mean() for rows in asked])


def _note(family: Family, ways: Sequence[Labels], variances: Floats) -> str:
    """Returns what is measured and what is expected of each sum, and what it would be if it were measured itself."""
    unit = float(family.sums[0].measure.unit)
    each = [
        f"{label_of(one, keys, conditions)}: {math.sqrt(chosen) * unit:.3g} ({math.sqrt(one.variance) * unit:.3g})"
        for one, conditions, keys, chosen in zip(
            family.sums, family.conditions, family.keys, variances.tolist(), strict=True
        )
    ]
    groups = ", ".join(str(len(np.unique(way))) for way in ways)
    more = f"; and {len(each) - MOST_NAMED} more" if len(each) > MOST_NAMED else ""
    return (
        f"{len(each)} sums over one value are estimated from {len(ways)} releases by {groups} of its intervals: "
        "standard deviations of what is shown, and in brackets what each would have for its own part, of "
        f"{'; of '.join(each[:MOST_NAMED])}{more}"
    )
