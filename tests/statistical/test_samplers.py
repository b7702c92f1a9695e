"""The samplers' laws, with fresh randomness. Each check must also reject a law that is slightly wrong.

A correct sampler fails one check with a chance of at most FALSE_ALARM. There are fewer than 500 checks, so that
this file fails wrongly with a chance below 5e-8; that a near miss passes is less likely than 1e-15 each.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from dpquery.kernel import samplers, tails
from tests.forking import fork
from tests.statistical.laws import (
    Integers,
    allowed_gap,
    gaussian_cdf,
    gaussian_probability,
    laplace_cdf,
    laplace_probability,
    largest_gap,
    plausible,
)

FALSE_ALARM = 1e-10  # of one check
SAMPLES = 1_000_000  # rejects a scale 4 % off as surely as it accepts the correct one
ALLOWED_GAP = allowed_gap(SAMPLES, FALSE_ALARM)

SCALES = [Fraction(1, 2), Fraction(3), Fraction(1000, 7), Fraction(10**6)]
VARIANCES = [Fraction(1, 4), Fraction(8), Fraction(9), Fraction(12345, 7), Fraction(10**8)]
FACTORS = [("1", True), ("0.9", False), ("1.1", False)]


def tilted(samples: Integers) -> Integers:
    """Returns the samples with the sign of one in twenty negative ones turned: a near miss of symmetry."""
    samples = samples.copy()
    samples[::20] = np.abs(samples[::20])
    return samples


# The whole law.


@pytest.mark.parametrize(("factor", "accepted"), FACTORS)
@pytest.mark.parametrize("scale", SCALES)
def test_laplace_has_its_scale_and_no_other(scale: Fraction, factor: str, accepted: bool) -> None:
    samples = samplers.discrete_laplace(scale, SAMPLES)
    gap = largest_gap(samples, lambda k: laplace_cdf(k, float(scale * Fraction(factor))))
    assert (gap <= ALLOWED_GAP) is accepted


@pytest.mark.parametrize(("factor", "accepted"), FACTORS)
@pytest.mark.parametrize("variance", VARIANCES)
def test_gaussian_has_its_deviation_and_no_other(variance: Fraction, factor: str, accepted: bool) -> None:
    samples = samplers.discrete_gaussian(variance, SAMPLES)
    gap = largest_gap(samples, lambda k: gaussian_cdf(k, float(variance * Fraction(factor) ** 2)))
    assert (gap <= ALLOWED_GAP) is accepted


@pytest.mark.parametrize("draws", [1, 40])
def test_small_draws_have_the_law_of_large_ones(draws: int) -> None:
    laplace = np.concatenate([samplers.discrete_laplace(Fraction(3), draws) for _ in range(10_000)])
    gaussian = np.concatenate([samplers.discrete_gaussian(Fraction(9), draws) for _ in range(10_000)])
    allowed = allowed_gap(len(laplace), FALSE_ALARM)
    assert largest_gap(laplace, lambda k: laplace_cdf(k, 3.0)) <= allowed
    assert largest_gap(gaussian, lambda k: gaussian_cdf(k, 9.0)) <= allowed
    assert largest_gap(laplace, lambda k: laplace_cdf(k, 6.0)) > allowed
    assert largest_gap(gaussian, lambda k: gaussian_cdf(k, 36.0)) > allowed


# Its parts.


@pytest.mark.parametrize(("factor", "accepted"), FACTORS)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_zero_has_its_probability(law: str, factor: str, accepted: bool) -> None:
    zero, wrong = np.zeros(1, np.int64), float(Fraction(factor))
    for width in (1, 4, 10):
        if law == "laplace":
            samples = samplers.discrete_laplace(Fraction(width), SAMPLES)
            probability = float(laplace_probability(zero, width * wrong)[0])
        else:
            samples = samplers.discrete_gaussian(Fraction(width**2), SAMPLES)
            probability = float(gaussian_probability(zero, (width * wrong) ** 2)[0])
        hits = int((samples == 0).sum())
        assert plausible(hits, SAMPLES, probability, FALSE_ALARM) is accepted


@pytest.mark.parametrize(("change", "accepted"), [(lambda x: x, True), (tilted, False), (lambda x: x | 1, False)])
@pytest.mark.parametrize("width", [1, 4, 20])
def test_the_laws_are_symmetric(width: int, change: Callable[[Integers], Integers], accepted: bool) -> None:
    laplace = samplers.discrete_laplace(Fraction(width), SAMPLES)
    gaussian = samplers.discrete_gaussian(Fraction(width**2), SAMPLES)
    for samples in (change(laplace), change(gaussian)):
        positive, negative = int((samples > 0).sum()), int((samples < 0).sum())
        assert plausible(positive, positive + negative, 0.5, FALSE_ALARM) is accepted


@pytest.mark.parametrize(("factor", "accepted"), FACTORS)
def test_neighbouring_outcomes_have_the_ratio_that_privacy_rests_on(factor: str, accepted: bool) -> None:
    """P(k + 1) / P(k) is exp(-1/scale), or exp(-(2k + 1) / (2 variance)), on both sides of zero."""
    wrong = float(Fraction(factor))
    laplace = samplers.discrete_laplace(Fraction(2), 4 * SAMPLES)
    gaussian = samplers.discrete_gaussian(Fraction(4), 4 * SAMPLES)
    for samples, exponents in (
        (laplace, [1 / (2 * wrong)] * 6),
        (gaussian, [(2 * k + 1) / (8 * wrong**2) for k in range(6)]),
    ):
        for side in (samples, -samples):
            counts = np.bincount(side[side >= 0], minlength=7).tolist()
            outcomes = []
            for k, exponent in enumerate(exponents):
                chance = 1 / (1 + math.exp(exponent))
                outcomes.append(plausible(counts[k + 1], counts[k] + counts[k + 1], chance, FALSE_ALARM))
            assert all(outcomes) is accepted


@pytest.mark.parametrize("width", [5, 1000])
def test_far_outcomes_are_as_frequent_as_their_tails_say(width: int) -> None:
    laplace = samplers.discrete_laplace(Fraction(width), SAMPLES)
    gaussian = samplers.discrete_gaussian(Fraction(width**2), SAMPLES)
    for probability, factor in ((Fraction(1, 20), 2), (Fraction(1, 1000), 2), (Fraction(1, 20_000), 10)):
        far = tails.laplace_quantile(Fraction(width), 2 * probability) + 1
        farther = tails.gaussian_quantile(Fraction(width**2), 2 * probability) + 1
        for samples, k, bound in (
            (laplace, far, tails.laplace_tail(Fraction(width), far)),
            (gaussian, farther, tails.gaussian_tail(Fraction(width**2), farther)),
        ):
            for hits in (int((samples >= k).sum()), int((samples <= -k).sum())):
                assert plausible(hits, SAMPLES, float(bound), FALSE_ALARM)
                assert not plausible(hits, SAMPLES, float(bound * factor), FALSE_ALARM)


@pytest.mark.parametrize(("factor", "accepted"), FACTORS)
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1000), Fraction(2**40), Fraction(2**52)])
def test_every_binary_digit_has_its_probability(scale: Fraction, factor: str, accepted: bool) -> None:
    """The lowest digits of a wide law, which its distribution function does not show, and their neighbours."""
    samples = samplers.discrete_laplace(scale, SAMPLES)
    wrong = float(scale * Fraction(factor))
    magnitudes = np.where(samples < 0, ~samples, samples)
    earlier, chance_earlier = samples < 0, 1 / (1 + math.exp(1 / wrong))
    outcomes = [plausible(int(earlier.sum()), SAMPLES, chance_earlier, FALSE_ALARM)]
    for j in range(60):
        if 2**j > 20 * scale:
            break
        digit, chance = magnitudes >> j & 1 == 1, 1 / (1 + math.exp(2**j / wrong))
        outcomes.append(plausible(int(digit.sum()), SAMPLES, chance, FALSE_ALARM))
        outcomes.append(plausible(int((digit & earlier).sum()), SAMPLES, chance * chance_earlier, FALSE_ALARM))
        earlier, chance_earlier = digit, chance
    assert all(outcomes) is accepted


@pytest.mark.parametrize("j", [0, 1, 7, 8, 15, 16])
def test_low_digits_of_a_wide_gaussian_are_fair(j: int) -> None:
    digits = samplers.discrete_gaussian(Fraction(2**60), SAMPLES) >> j & 1  # fair to 2^-50
    assert plausible(int(digits.sum()), SAMPLES, 0.5, FALSE_ALARM)
    digits[::50] = 0
    assert not plausible(int(digits.sum()), SAMPLES, 0.5, FALSE_ALARM)


# Independence.


@pytest.mark.parametrize(("repeated", "accepted"), [(0, True), (10, False)])
@pytest.mark.parametrize("lag", [1, 2, 16384])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_samples_are_uncorrelated(law: str, lag: int, repeated: int, accepted: bool) -> None:
    """Two samples `lag` apart are both positive, or both far from zero, as often as the product says."""
    if law == "laplace":
        samples, cdf = samplers.discrete_laplace(Fraction(10), SAMPLES), laplace_cdf(np.array([0, 8]), 10.0)
    else:
        samples, cdf = samplers.discrete_gaussian(Fraction(100), SAMPLES), gaussian_cdf(np.array([0, 8]), 100.0)
    pairs = samples[: SAMPLES // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
    if repeated:  # the near miss: every tenth sample is a copy of its partner
        pairs[::repeated, 1] = pairs[::repeated, 0]
    positive, far = 1 - float(cdf[0]), 2 * (1 - float(cdf[1]))
    for events, probability in ((pairs > 0, positive), (np.abs(pairs) > 8, far)):
        both = events.all(axis=1)
        assert plausible(int(both.sum()), both.size, probability**2, FALSE_ALARM) is accepted


def fingerprints() -> list[bytes]:
    """Returns one draw of each kind. That two of a kind agree has a chance below 2^-120."""
    return [
        samplers.random_bytes(16),
        samplers.random_bytes(10_000)[:16],
        samplers.random_key().to_bytes(16, "big"),
        samplers.discrete_laplace(Fraction(2**50), 4).tobytes(),
        samplers.discrete_laplace(Fraction(2**50), 50_000)[-4:].tobytes(),
        samplers.discrete_gaussian(Fraction(2**100), 4).tobytes(),
        samplers.discrete_gaussian(Fraction(2**100), 50_000)[-4:].tobytes(),
    ]


def forked_fingerprints() -> list[bytes]:
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.write(writer, b"".join(draw.ljust(32) for draw in fingerprints()))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    return [drawn[start : start + 32] for start in range(0, len(drawn), 32)]


def test_draws_differ_between_calls_threads_and_forked_processes() -> None:
    draws = [*fingerprints(), *fingerprints()]  # first of all, so that children inherit whatever there is
    for _ in range(6):
        draws += forked_fingerprints()
    with ThreadPoolExecutor(6) as threads:
        for drawn in [threads.submit(fingerprints) for _ in range(12)]:
            draws += drawn.result()
    assert len(draws) == 7 * 20
    assert len({draw.ljust(32) for draw in draws}) == len(draws)


# The bit source.


@pytest.mark.parametrize(
    ("change", "accepted"), [(lambda x: x, True), (lambda x: x & 0xFE, False), (lambda x: x % 255, False)]
)
@pytest.mark.parametrize("size", [2048, 2**20, 2**22])
def test_random_bytes_are_uniform(size: int, change: Callable[[Integers], Integers], accepted: bool) -> None:
    calls = 2**22 // size
    octets = np.frombuffer(b"".join(bytes(samplers.random_bytes(size)) for _ in range(calls)), np.uint8)
    counts = np.bincount(change(octets.astype(np.int64)), minlength=256).tolist()
    assert all(plausible(hits, octets.size, 1 / 256, FALSE_ALARM / 256) for hits in counts) is accepted


def test_blocks_of_random_bytes_never_repeat() -> None:
    blocks = np.frombuffer(b"".join(samplers.random_bytes(2**14) for _ in range(64)), "V16")
    assert len(set(blocks.tolist())) == len(blocks)
