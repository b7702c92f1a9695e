"""Exact discrete noise from the operating system's randomness.

The only place of randomness in dpquery, and it keeps none: no generator, no seed, no state. Everything
draws through `random_bytes`, which takes a fresh secret from the operating system at each call, so forked
processes and threads cannot repeat each other.

Each sample is within 2^-256 in total variation of its ideal law, given uniform bytes. Floating point only
sorts the clear cases; the doubtful ones are decided with integers. Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from dpquery.errors import InternalError

MIN_LAPLACE_SCALE = Fraction(1, 2**10)
MAX_LAPLACE_SCALE = Fraction(2**52)  # every sample has a magnitude of at most 2^60
MIN_GAUSSIAN_VARIANCE = Fraction(1, 2**20)
MAX_GAUSSIAN_VARIANCE = Fraction(2**100)  # every sample has a magnitude of at most 2^58

PRECISION = 1024  # binary places of the fixed-point exponential
EXPONENTIAL_ERROR = 2**30  # what `exponential` may be off by, in units of 2^-PRECISION

_THRESHOLD_BITS = 320  # binary places of a Bernoulli threshold
_WORD_BITS = 16
_TAIL_EXPONENT = 185  # digits are kept until the mass beyond them is at most exp(-185) < 2^-266
_CHUNK_BYTES = 2**20  # random bytes for one round of work; fits the caches
_CHUNK_PROPOSALS = 2**15
_SYSTEM_BYTES = 2**11  # up to here the system call is faster than setting up the cipher
_ZEROS = memoryview(bytes(_CHUNK_BYTES))
_MARGIN = 2.0**-30  # more than the word of 32 bits and every rounding in `_accept` can hide


def random_bytes(size: int) -> bytes:
    """Returns `size` fresh uniform bytes: the one bit source, which tests script.

    Few bytes come from the operating system; many are the AES-256-CTR keystream under a key and a first
    counter that the operating system makes for this call alone.
    """
    if size <= _SYSTEM_BYTES:
        return os.urandom(size)
    secret = os.urandom(48)
    keystream = Cipher(AES256(secret[:32]), CTR(secret[32:])).encryptor()
    return keystream.update(_ZEROS[:size] if size <= len(_ZEROS) else bytes(size))


def random_key() -> int:
    """Returns a fresh key of 128 bits for keyed hashing."""
    return int.from_bytes(random_bytes(16), "little")


def discrete_laplace(scale: Fraction, size: int) -> NDArray[np.int64]:
    """Returns independent samples with P(k) proportional to exp(-|k| / scale).

    Args:
        scale: In lattice steps, from MIN_LAPLACE_SCALE to MAX_LAPLACE_SCALE.
        size: How many, at least 0.
    Returns:
        A fresh array, shape (size,); magnitudes at most 2^60.
    Privacy:
        With scale >= sensitivity / epsilon, adding a sample is epsilon-private, up to a total variation of
        2^-256. The work done depends on scale and size, not on the values drawn.
        Neighbours: any for which the sensitivity holds.
    Source:
        Ghosh, Roughgarden, Sundararajan 2009 (the law); Dwork, Kenthapadi, McSherry, Mironov, Naor 2006
        (independent digits); docs/proofs/samplers.md.
    """
    check_scale(scale)
    thresholds = _laplace_thresholds(scale)
    samples = np.empty(size, np.int64)
    chunk = _CHUNK_BYTES // (2 * len(thresholds))
    for start in range(0, size, chunk):
        part = samples[start : start + chunk]
        _assemble(_bernoullis(thresholds, part.size), out=part)
    return samples


def discrete_gaussian(variance: Fraction, size: int) -> NDArray[np.int64]:
    """Returns independent samples with P(k) proportional to exp(-k^2 / (2 variance)).

    Args:
        variance: In squared lattice steps, from MIN_GAUSSIAN_VARIANCE to MAX_GAUSSIAN_VARIANCE. It is the
            parameter; the variance of the discrete law is a little smaller.
        size: How many, at least 0.
    Returns:
        A fresh array, shape (size,); magnitudes at most 2^58.
    Privacy:
        With variance >= sensitivity^2 / (2 rho), adding a sample is rho-zero-concentrated private, up to a
        total variation of 2^-256. Rejected proposals are independent of the values kept.
        Neighbours: any for which the sensitivity holds.
    Source:
        Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithm 3;
        docs/proofs/samplers.md.
    """
    check_variance(variance)
    scale = math.isqrt(math.floor(variance)) + 1
    rate = _acceptance_rate(float(variance), scale)
    samples = np.empty(size, np.int64)
    filled = 0
    while filled < size:
        missing = size - filled
        wanted = math.ceil(missing / rate + 4 * math.sqrt(missing)) + 4
        proposals = discrete_laplace(Fraction(scale), min(wanted, _CHUNK_PROPOSALS))
        kept = proposals[_accept(proposals, variance, scale)][:missing]
        samples[filled : filled + kept.size] = kept
        filled += kept.size
    return samples


def exponential(x: Fraction) -> int:
    """Returns exp(-x) in units of 2^-PRECISION, off by at most EXPONENTIAL_ERROR, for x >= 0.

    The Taylor series at x / 2^halvings < 2^-8, then squared `halvings` times.
    """
    if x > PRECISION:
        return 0
    halvings = math.floor(x).bit_length() + 8
    reduced = (x.numerator << PRECISION) // (x.denominator << halvings)
    power = term = 1 << PRECISION
    index = 0
    while term:
        index += 1
        term = (term * reduced >> PRECISION) // index
        power += -term if index % 2 else term
    for _ in range(halvings):
        power = power * power >> PRECISION
    return power


def check_scale(scale: Fraction) -> None:
    """Refuses anything but a Fraction in the range of `discrete_laplace`."""
    if not isinstance(scale, Fraction) or not MIN_LAPLACE_SCALE <= scale <= MAX_LAPLACE_SCALE:
        raise InternalError(f"a discrete Laplace scale must be a Fraction in [2^-10, 2^52], not {scale!r}")


def check_variance(variance: Fraction) -> None:
    """Refuses anything but a Fraction in the range of `discrete_gaussian`."""
    if not isinstance(variance, Fraction) or not MIN_GAUSSIAN_VARIANCE <= variance <= MAX_GAUSSIAN_VARIANCE:
        raise InternalError(f"a discrete Gaussian variance must be a Fraction in [2^-20, 2^100], not {variance!r}")


@lru_cache(maxsize=256)
def _laplace_thresholds(scale: Fraction) -> NDArray[np.uint16]:
    """Returns P(bit = 0) for the sign and each binary digit, shape (1 + digits, 20): words, leading first.

    Digit j is 1 with probability q^(2^j) / (1 + q^(2^j)), q = exp(-1/scale); the sign has that of digit 0.
    """
    digits = max(1, (math.ceil(_TAIL_EXPONENT * scale) - 1).bit_length())
    one = 1 << PRECISION
    power = exponential(1 / scale)
    rows = []
    for _ in range(digits):
        threshold = (one << _THRESHOLD_BITS) // (one + power)
        rows.append(min(threshold, (1 << _THRESHOLD_BITS) - 1).to_bytes(_THRESHOLD_BITS // 8, "big"))
        power = power * power >> PRECISION
    words = np.frombuffer(b"".join([rows[0], *rows]), ">u2").astype(np.uint16)
    words.setflags(write=False)
    return words.reshape(1 + digits, _THRESHOLD_BITS // _WORD_BITS)


def _bernoullis(thresholds: NDArray[np.uint16], size: int) -> NDArray[np.bool_]:
    """Returns independent bits, shape (rows, size): row i is 1 where a uniform number exceeds threshold i.

    The numbers are compared by their leading words; words are added only where all were equal so far. Rows of
    zeros are appended until, without the sign, there are 8, 16, 32 or 64, at least one of them.
    """
    rows, words = thresholds.shape
    padded = max(8, 1 << (rows - 1).bit_length())
    bits = np.zeros((1 + padded, size), np.bool_)
    uniform = _random_words(rows * size).reshape(rows, size)
    leading = thresholds[:, :1]
    np.greater(uniform, leading, out=bits[:rows])
    tied = np.flatnonzero(uniform == leading)
    flat = bits.reshape(-1)
    for word in range(1, words):
        if tied.size == 0:
            break
        uniform, threshold = _random_words(tied.size), thresholds[tied // size, word]
        flat[tied] = uniform > threshold
        tied = tied[uniform == threshold]
    return bits


def _assemble(bits: NDArray[np.bool_], *, out: NDArray[np.int64]) -> None:
    """Writes the integers whose two's complement has the sign bits[0] and the digits bits[1:] XOR the sign.

    Neighbouring digits are merged into numbers of 2, 4, 8, ... bits, in words no wider than needed.
    """
    merged: NDArray[np.unsignedinteger] = bits[1:].view(np.uint8)
    for width, word in ((1, np.uint8), (2, np.uint8), (4, np.uint8), (8, np.uint16), (16, np.uint32), (32, np.uint64)):
        if len(merged) == 1:
            break
        merged = merged.astype(word, copy=False)
        merged = merged[0::2] + merged[1::2] * word(1 << width)
    magnitude: NDArray[np.signedinteger] = merged[0].view(f"i{merged.itemsize}")
    np.bitwise_xor(magnitude, -bits[0].view(np.int8), out=out)


def _random_words(size: int) -> NDArray[np.uint16]:
    return np.frombuffer(random_bytes(2 * size), np.uint16)


def _acceptance_rate(variance: float, scale: int) -> float:
    """Returns roughly the share of proposals that `_accept` keeps; it only sets the size of batches."""
    mass = max(1.0, math.sqrt(2 * math.pi * variance))
    return mass * math.tanh(0.5 / scale) * math.exp(-variance / (2 * scale**2))


def _accept(proposals: NDArray[np.int64], variance: Fraction, scale: int) -> NDArray[np.bool_]:
    """Returns for each proposal y an independent bit, 1 with probability exp(-(|y| - variance/scale)^2 / (2 variance)).

    The probability is calculated as the 1024th power of a Taylor polynomial, with additions and multiplications
    alone, to within 2^-32; a uniform number known to 32 bits within _MARGIN of it is completed and compared exactly.
    """
    leading = np.frombuffer(random_bytes(4 * proposals.size), np.uint32)
    spread = math.sqrt(2 * variance)
    exponent = np.abs(proposals.astype(np.float64))
    exponent *= 1 / spread
    exponent -= spread / (2 * scale)
    exponent *= exponent
    np.minimum(exponent, 32, out=exponent)
    exponent *= -(2.0**-10)
    chance = exponent * (1 / 24)
    for coefficient in (1 / 6, 1 / 2, 1.0):
        chance += coefficient
        chance *= exponent
    chance += 1.0
    for _ in range(10):
        chance *= chance
    gap = leading * 2.0**-32 - chance
    accepted = gap < 0
    for index in np.flatnonzero(np.abs(gap) <= _MARGIN):
        accepted[index] = _accepts_exactly(int(leading[index]), int(proposals[index]), variance, scale)
    return accepted


def _accepts_exactly(leading: int, proposal: int, variance: Fraction, scale: int) -> bool:
    """Returns whether a uniform number of 320 bits, the first 32 given, is below the probability of `_accept`."""
    missing = _THRESHOLD_BITS - 32
    uniform = leading << missing | int.from_bytes(random_bytes(missing // 8), "little")
    chance = exponential((abs(proposal) - variance / scale) ** 2 / (2 * variance))
    return uniform < chance >> (PRECISION - _THRESHOLD_BITS)
