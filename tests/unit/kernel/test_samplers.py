"""The samplers bit by bit: every decision they can take, against decimal arithmetic. Deterministic."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB

from dpquery.errors import InternalError
from dpquery.kernel import samplers

CONTEXT = Context(prec=420, Emin=-(10**9))  # a libmpdec exponential is correctly rounded
TOLERANCE = Fraction(1, 2**256)
SCALES = [Fraction(1, 2**10), Fraction(1, 4), Fraction(1), Fraction(10, 3), Fraction(10**6), Fraction(2**52)]
VARIANCES = [Fraction(1, 2**20), Fraction(1, 3), Fraction(1), Fraction(50), Fraction(10**12), Fraction(2**100)]


def exact_exponential(x: Fraction) -> Fraction:
    """Returns exp(-x), correct to 400 digits."""
    return Fraction(CONTEXT.exp(CONTEXT.divide(Decimal(-x.numerator), Decimal(x.denominator))))


def script(monkeypatch: pytest.MonkeyPatch, source: Callable[[int], bytes]) -> None:
    monkeypatch.setattr(samplers, "random_bytes", source)


def constant(octet: int) -> Callable[[int], bytes]:
    return lambda size: bytes([octet]) * size


def thresholds(scale: Fraction) -> list[int]:
    """Returns the sampler's constants for a scale as integers of 320 bits."""
    return [int.from_bytes(row.astype(">u2").tobytes(), "big") for row in samplers._laplace_thresholds(scale)]


def words(numbers: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint16]]:
    """Returns integers of 320 bits as rows of 20 words, leading first."""
    return np.array([[number >> 16 * (19 - i) & 0xFFFF for i in range(20)] for number in numbers], np.uint16)


# The bit source.


@pytest.mark.parametrize("size", [0, 1, 16, 2048, 2049, 2**20, 2**20 + 1])
def test_random_bytes_has_the_size_asked_for(size: int) -> None:
    assert len(samplers.random_bytes(size)) == size


def test_many_bytes_are_the_aes_256_keystream_of_a_secret_made_for_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def urandom(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    monkeypatch.setattr(os, "urandom", urandom)
    for size in (4096, 2**21):  # a zero block under a zero key: AESAVS, appendix B
        assert samplers.random_bytes(size)[:16].hex() == "dc95c078a2408989ad48a21492842087"
    assert samplers.random_bytes(2048) == bytes(2048)
    assert asked == [48, 48, 2048]
    monkeypatch.setattr(os, "urandom", lambda size: bytes(range(size)))
    block = Cipher(AES256(bytes(range(32))), ECB()).encryptor().update(bytes(range(32, 48)))
    assert samplers.random_bytes(4096)[:16] == block


def test_random_key_is_128_bits_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, constant(0xFF))
    assert samplers.random_key() == 2**128 - 1


# All samplers.


@pytest.mark.parametrize("size", [0, 1, 1000, 100_000])
@pytest.mark.parametrize(("law", "parameter"), [("laplace", s) for s in SCALES] + [("gaussian", v) for v in VARIANCES])
def test_zero_bytes_make_zero_noise(law: str, parameter: Fraction, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, constant(0))
    sampler = samplers.discrete_laplace if law == "laplace" else samplers.discrete_gaussian
    samples = sampler(parameter, size)
    assert samples.dtype == np.int64
    assert samples.shape == (size,)
    assert samples.flags.owndata
    assert samples.flags.writeable
    assert not samples.any()


@pytest.mark.parametrize(
    "scale", [Fraction(0), Fraction(-1), Fraction(1, 1025), Fraction(2**52 + 1), 1.0, 1, "1", None]
)
def test_a_laplace_scale_out_of_range_is_refused(scale: Fraction) -> None:
    with pytest.raises(InternalError, match="scale"):
        samplers.discrete_laplace(scale, 1)


@pytest.mark.parametrize(
    "variance", [Fraction(0), Fraction(-1), Fraction(1, 2**21), Fraction(2**100 + 1), 1.0, 1, None]
)
def test_a_gaussian_variance_out_of_range_is_refused(variance: Fraction) -> None:
    with pytest.raises(InternalError, match="variance"):
        samplers.discrete_gaussian(variance, 1)


@pytest.mark.parametrize(
    "x", [Fraction(0), Fraction(1, 2**60), Fraction(1, 3), Fraction(1), Fraction(511, 2), Fraction(1024)]
)
def test_exponential_is_within_its_error(x: Fraction) -> None:
    ideal = exact_exponential(x) * 2**samplers.PRECISION
    assert abs(samplers.exponential(x) - ideal) < samplers.EXPONENTIAL_ERROR


def test_exponential_of_a_large_number_is_zero() -> None:
    assert samplers.exponential(Fraction(1025)) == 0
    assert samplers.exponential(Fraction(10**40)) == 0


# The discrete Laplace law.


@pytest.mark.parametrize("scale", SCALES)
def test_thresholds_are_within_2_to_the_minus_319(scale: Fraction) -> None:
    sign, *digits = thresholds(scale)
    assert sign == digits[0]
    for j, threshold in enumerate(digits):
        zero = 1 / (1 + exact_exponential(2**j / scale))
        assert abs(Fraction(threshold + 1, 2**320) - zero) <= Fraction(1, 2**319)


@pytest.mark.parametrize("scale", SCALES)
def test_the_digits_reach_far_enough_and_not_too_far(scale: Fraction) -> None:
    reach = 2 ** (len(thresholds(scale)) - 1)
    assert reach >= 185 * scale
    assert reach <= 2**60
    assert exact_exponential(reach / scale) <= Fraction(1, 2**266)


@pytest.mark.parametrize("scale", [Fraction(1, 2**10), Fraction(1, 4), Fraction(1), Fraction(5, 3)])
def test_the_whole_law_is_within_its_total_variation(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws every pattern of bits once, and sums the probabilities of the patterns by what they gave."""
    levels = thresholds(scale)
    rows = len(levels)
    patterns = np.arange(2**rows) >> np.arange(rows)[:, None] & 1
    uniform = [(patterns * 0xFFFF).astype(np.uint16)]

    def source(size: int) -> bytes:
        octets = uniform.pop().tobytes() if uniform else b"\xff" * size
        assert len(octets) == size
        return octets

    script(monkeypatch, source)
    samples = samplers.discrete_laplace(scale, 2**rows)
    law = dict.fromkeys(range(-(2 ** (rows - 1)), 2 ** (rows - 1)), 0)
    for sample, pattern in zip(samples.tolist(), patterns.T.tolist(), strict=True):
        weight = 1
        for bit, level in zip(pattern, levels, strict=True):
            weight *= 2**320 - 1 - level if bit else level + 1
        law[sample] += weight
    if max(levels) < 2**320 - 1:  # else a bit is never 1
        assert len(set(samples.tolist())) == len(samples)
    ratio = exact_exponential(1 / scale)
    ideal = {k: (1 - ratio) / (1 + ratio) * exact_exponential(abs(k) / scale) for k in law}
    distance = sum(abs(Fraction(law[k], 2 ** (320 * rows)) - ideal[k]) for k in law) + (1 - sum(ideal.values()))
    assert distance / 2 <= TOLERANCE


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10**6), Fraction(2**52)])
def test_every_sample_of_every_chunk_is_written(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, constant(0xFF))
    farthest = -(2 ** (len(thresholds(scale)) - 1))
    assert (samplers.discrete_laplace(scale, 150_000) == farthest).all()


@pytest.mark.parametrize("offset", [-1, 0, 1, -(2**16), 2**16, -(2**100), 2**100, -(2**290), 2**290])
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(3), Fraction(10**6)])
def test_ties_are_continued_to_the_last_bit(scale: Fraction, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = thresholds(scale)
    numbers = [min(max(level + offset, 0), 2**320 - 1) for level in levels]
    uniform, level_words = words(numbers), words(levels)
    calls: list[int] = []

    def source(size: int) -> bytes:
        word = len(calls)
        tied = (uniform[:, :word] == level_words[:, :word]).all(axis=1)
        octets: bytes = uniform[tied, word].tobytes()
        assert len(octets) == size
        calls.append(size)
        return octets

    script(monkeypatch, source)
    bits = samplers._bernoullis(samplers._laplace_thresholds(scale), 1)[: len(levels), 0]
    assert bits.tolist() == [number > level for number, level in zip(numbers, levels, strict=True)]
    assert len(calls) <= 20


# The discrete Gaussian law.


def acceptance(proposal: int, variance: Fraction, scale: int) -> Fraction:
    return exact_exponential(min(Fraction(2000), (abs(proposal) - variance / scale) ** 2 / (2 * variance)))


def proposals_for(scale: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    reach = 6 * scale + 6
    return np.unique(np.linspace(-reach, reach, 101).astype(np.int64))


@pytest.mark.parametrize("variance", VARIANCES)
def test_clear_acceptances_agree_with_exact_ones(variance: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = math.isqrt(int(variance)) + 1
    proposals = proposals_for(scale)
    stream = hashlib.shake_256(b"acceptance").digest(4 * len(proposals))
    script(monkeypatch, lambda size: stream if size == len(stream) else bytes(size))
    by_float = samplers._accept(proposals, variance, scale)
    monkeypatch.setattr(samplers, "_MARGIN", 2.0)
    exactly = samplers._accept(proposals, variance, scale)
    uniform = np.frombuffer(stream, np.uint32).tolist()
    ideal = [
        Fraction(u, 2**32) < acceptance(y, variance, scale) for u, y in zip(uniform, proposals.tolist(), strict=True)
    ]
    assert by_float.tolist() == exactly.tolist() == ideal


@pytest.mark.parametrize(("octet", "accepted"), [(0x00, True), (0xFF, False)])
@pytest.mark.parametrize("variance", VARIANCES)
def test_doubtful_acceptances_are_decided_by_further_bits(
    variance: Fraction, octet: int, accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale = math.isqrt(int(variance)) + 1
    proposals = np.array([y for y in proposals_for(scale).tolist() if 0 < acceptance(y, variance, scale) < 1])
    chances = [acceptance(y, variance, scale) for y in proposals.tolist()]
    leading = np.array([int(chance * 2**32) for chance in chances], np.uint32)  # the uniform number's cell holds it
    visible = np.array([chance * 2**320 >= 1 for chance in chances])  # the others are never accepted
    script(monkeypatch, lambda size: leading.tobytes() if size == leading.nbytes else bytes([octet]) * size)
    assert samplers._accept(proposals, variance, scale).tolist() == (visible & accepted).tolist()


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_proposals_have_the_scale_of_the_source(variance: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Fraction] = []

    def proposals(scale: Fraction, size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        asked.append(scale)
        return np.zeros(size, np.int64)

    monkeypatch.setattr(samplers, "discrete_laplace", proposals)
    samplers.discrete_gaussian(variance, 10)
    (scale,) = set(asked)
    assert (scale - 1) ** 2 <= variance < scale**2


def test_rejected_proposals_are_replaced_and_accepted_ones_kept_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def proposals(scale: Fraction, size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        fresh = np.arange(len(drawn), len(drawn) + size)
        drawn.extend(fresh.tolist())
        return fresh

    monkeypatch.setattr(samplers, "discrete_laplace", proposals)
    monkeypatch.setattr(samplers, "_accept", lambda proposals, variance, scale: proposals % 7 == 3)
    samples = samplers.discrete_gaussian(Fraction(4), 100_000)
    assert samples.tolist() == list(range(3, 700_000, 7))
