"""How far linear combinations of noisy numbers may be off, for any data."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpquery.accuracy.noise_shapes import scale_of
from dpquery.accuracy.simulated import LEAST_SCALE, SimulatedLaw, half_width_of_sum
from dpquery.kernel.mechanisms import NoiseLaw

Part = tuple[Fraction, NoiseLaw]
"""A factor, in the unit of the number for each lattice step, and the noise of a measure in lattice steps."""


def half_width(parts: Sequence[Part], failure: Fraction) -> Fraction:
    """Returns a w with P(|sum of the noises, each times its factor| > w) <= failure.

    Of one noise it is exact. Of several it is the narrower of the sum of their half-widths, of which each fails with an
    equal part of `failure`, and what is simulated, which holds with about the confidence.
    """
    plain = together(parts, failure / max(1, len(parts)))
    laws = [(float(factor), law_of(noise)) for factor, noise in parts]
    found = half_width_of_sum(laws, float(failure))
    return plain if found is None else min(plain, Fraction(found))


def together(parts: Sequence[Part], failure: Fraction) -> Fraction:
    """Returns how far the sum may be off where each noise is within its half-width; each may fail so often."""
    return sum((abs(factor) * noise.half_width(failure) for factor, noise in parts), Fraction(0))


def law_of(noise: NoiseLaw, unit: float = 1.0, *, table: int = 0, is_added: bool = False) -> SimulatedLaw:
    """Returns the noise of a number as it is simulated: continuous where it has many steps.

    Args:
        unit: What a lattice step is.
        table, is_added: As in `SimulatedLaw`.
    """
    scale = float(scale_of(noise))
    step = unit if scale < LEAST_SCALE else 0.0  # a rounding of finer noise, too, is small beside more
    return SimulatedLaw(
        table=table,
        is_added=is_added,
        mechanism=noise.mechanism,
        scale=scale * unit,
        step=step,
        is_rounded=step > 0 and noise.steps != 1,
    )
