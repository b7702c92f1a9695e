"""How little of a measure has to be paid where a part of what an error needs is stored: the difference.

Estimates weight what is stored and what is new by the inverses of their variances, so these add up: a number whose
stored estimate has the variance V, and may have v, needs a new measurement of precision 1/v - 1/V. Under rho that is
the part 1 - v/V of the loss of a measurement by itself; under epsilon its root, as precisions are squares there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.accuracy.noise_shapes import spread_of
from dpquery.errors import InvalidLossError
from dpquery.kernel.plan import CHOICES, BudgetedPlan
from dpquery.reuse.estimates import StoredEstimate, Wanted, find
from dpquery.reuse.provenance import planned_vectors
from dpquery.reuse.releases import StoredRelease
from dpquery.reuse.targets_met import bases_of, largest_by_base, reached, times
from dpquery.reuse.vector_estimates import Vectors
from dpquery.units.declarations import Declarations

TRIES = 4
"""Steps up from the loss that continuous laws need."""
MARGIN = 1.0005
MOST = 1.25
"""Times the planned precision that may be needed, as estimates are rounded once more than single numbers."""
LEAST = 1e-4
"""Part of a loss that is paid at least where a number is not as exact as was asked."""


def refined(
    wanted: tuple[Wanted, ...],
    found: Sequence[StoredEstimate],
    demanded: Sequence[Wanted],
    known: Sequence[Sequence[StoredRelease]],
    vectors: Mapping[str, Vectors],
    over: Mapping[str, Sequence[StoredRelease]],
    follows: frozenset[str],
    failure: Fraction,
    declared: Declarations,
) -> tuple[Wanted, ...] | None:
    """Returns the aggregates of a plan with noise that keeps their errors beside what is stored; None where even the
    planned noise does not, because what others were to be estimated from is stored and less exact together.

    Args:
        wanted: As planned, where nothing is stored.
        demanded: Those that are read, with the noise that their numbers may have at most.
        known, vectors, over: What is stored: of the same rows, and by base.
        follows: The ids of what is not measured.
    """
    if not any(known) and not any(over.values()):
        return wanted

    def needs(made: Sequence[Wanted]) -> dict[str, float]:
        planned = planned_vectors(made, found, vectors, over, follows)
        return {id: need for id, (_, need) in reached(demanded, planned, failure).items()}

    bases, whole = bases_of(wanted), needs(wanted)
    if demanded is not wanted and any(whole.get(id, 1.0) > MOST for id in bases_of(demanded)):
        return None
    of_bases = {} if demanded is wanted else _by_base(demanded, vectors, whole, failure)
    parts = _alone(wanted, found, known, vectors, follows, declared)
    parts |= {id: of_bases[base] for id, base in bases.items() if base in of_bases and id in parts}
    for _ in range(TRIES):
        made = _made(wanted, parts, declared)
        if made is None:
            break
        now = needs(made)
        if all(need <= 1 for need in now.values()):
            return made
        largest = largest_by_base({id: (bases[id], need) for id, need in now.items() if id in bases})
        lacking = {id: (largest.get(bases[id], 1.0) if id in bases else 1.0) - 1 for id in parts}
        parts = {id: min(MOST, part * MARGIN + max(lacking[id], 0.0)) for id, part in parts.items()}
    return wanted


def exact_enough(
    wanted: Sequence[Wanted], found: Sequence[StoredEstimate], vectors: Mapping[str, Vectors], failure: Fraction
) -> list[StoredEstimate]:
    """Returns what is found without the stored sums whose intervals are wider than those that were asked for."""
    needs = reached(wanted, vectors, failure)
    made = []
    for one, there in zip(wanted, found, strict=True):
        pairs = zip(one.budgeted.aggregate.measures, there.estimates, strict=True)
        kept = tuple(None if needs.get(m.id, ("", 1.0))[1] > 1 else estimate for m, estimate in pairs)
        made.append(replace(there, estimates=kept))
    return made


def _alone(
    wanted: Sequence[Wanted],
    found: Sequence[StoredEstimate],
    known: Sequence[Sequence[StoredRelease]],
    vectors: Mapping[str, Vectors],
    follows: frozenset[str],
    declared: Declarations,
) -> dict[str, float]:
    """Returns for each measure that is measured the part of its precision that is not stored; 1 where nothing is. Terms
    of one vector have equal noise, and so the largest part of any."""
    parts, terms = dict[str, float](), dict[object, list[str]]()
    for one, there, releases in zip(wanted, found, known, strict=True):
        if one.asked is None or one.asked.frame.is_selected:
            continue
        stored = vectors.get(one.asked.frame.base, Vectors(()))
        now = find(one, releases, stored, unit_is_row=declared.unit_is_row, enough=False).estimates
        for place, measure in enumerate(one.budgeted.aggregate.measures):
            if there.estimates[place] is not None or measure.id in follows or measure.count in CHOICES:
                continue
            estimate = now[place]
            lacking = 1.0 if estimate is None else 1 - spread_of(one.noises[place]) / estimate.variance
            parts[measure.id] = max(min(lacking * MARGIN, 1.0), LEAST)
            if measure.family is not None:
                terms.setdefault((id(one), measure.family), []).append(measure.id)
    for together in terms.values():
        parts |= dict.fromkeys(together, max(parts[id] for id in together))
    return parts


def _by_base(
    demanded: Sequence[Wanted],
    vectors: Mapping[str, Vectors],
    planned: Mapping[str, float],
    failure: Fraction,
) -> dict[str, float]:
    """Returns by base the part of all losses that is enough where numbers are estimated from others.

    Precisions of estimates are concave in the precisions of what is measured, so where they are between nothing new and
    all of it is at least as far as on the line between both.
    """
    before = reached(demanded, vectors, failure)
    found: dict[str, float] = {}
    for id, base in bases_of(demanded).items():
        old, new = 1 / before[id][1] if id in before else 0.0, 1 / planned[id] if id in planned else 1.0
        part = LEAST if old >= 1 else min(1.0, MARGIN * (1 - old) / max(new - old, LEAST))
        found[base] = max(found.get(base, 0.0), part)
    return found


def _made(wanted: Sequence[Wanted], parts: Mapping[str, float], declared: Declarations) -> tuple[Wanted, ...] | None:
    made = []
    for one in wanted:
        if not any(measure.id in parts for measure in one.budgeted.aggregate.measures):
            made.append(one)
            continue
        (budgeted,) = times(BudgetedPlan(aggregates=(one.budgeted,)), parts).aggregates
        try:
            made.append(replace(Wanted.of(budgeted, one.asked, one.facts, declared.neighbours), tau=one.tau))
        except InvalidLossError:  # noise that cannot be sampled
            return None
    return tuple(made)
