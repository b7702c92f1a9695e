"""How far the numbers of a plan are expected to be off: measured, stored, or estimated from others."""

from __future__ import annotations

import math

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.reuse.coordinates import is_of_vector
from dpquery.reuse.dividing import Split
from dpquery.reuse.reconciled import Source, Vectors, stored


def expected_deviations(parts: Split) -> dict[str, float]:
    """Returns the standard deviation of the noise of each measure that queries read, by its id, in its own unit: of the
    group that is least exact; NaN of choices."""
    sources: dict[str, list[Source]] = {}
    for one, rest in zip(parts.wanted, parts.missing, strict=True):
        measured = {m.id for m in rest.aggregate.measures} if rest is not None else set[str]()
        for place, measure in enumerate(one.budgeted.aggregate.measures):
            if one.asked is not None and measure.id in measured:
                text = one.asked.measures[place]
                if is_of_vector(one.asked.frame, text):
                    source = Source(one.asked.frame, one.facts, text, one.noises[place], one.asked.equations)
                    sources.setdefault(one.asked.frame.base, []).append(source)
    vectors = {base: Vectors([*stored(parts.over[base]), *some]) for base, some in sources.items()}
    found = {}
    for one, there in zip(parts.wanted[: parts.read], parts.found, strict=False):
        for place, (measure, estimate) in enumerate(zip(one.budgeted.aggregate.measures, there.estimates, strict=True)):
            variance = estimate.variance if estimate is not None else None
            if one.asked is not None and one.asked.frame.base in vectors:
                made = vectors[one.asked.frame.base].variance(one.asked, one.facts, one.asked.measures[place])
                variance = variance if made is None else made
            if variance is None and one.noises[place].is_added:
                variance = variance_of(one.noises[place])
            is_number = one.noises[place].is_added and variance is not None
            found[measure.id] = math.sqrt(variance or 0.0) * float(measure.unit) if is_number else math.nan
    return found
