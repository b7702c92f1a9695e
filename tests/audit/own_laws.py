"""Own laws for the tests of their audit: right ones, and ones of which each is wrong in another way."""

from __future__ import annotations

import math
import secrets
from fractions import Fraction

import numpy as np

from dpquery.mechanisms import exact
from dpquery.mechanisms.own_claims import Floats, Integers


def fresh() -> np.random.Generator:
    return np.random.default_rng(secrets.randbits(128))


class Geometric:
    """Right: two-sided geometric noise, as the difference of two geometric ones."""

    currency = "epsilon"
    proof = "Ghosh, Roughgarden, Sundararajan 2009"

    def decay(self, steps: int, loss: Fraction) -> float:
        return float(loss) / steps

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        generator, chance = fresh(), -math.expm1(-self.decay(steps, loss))
        return generator.geometric(chance, size) - generator.geometric(chance, size)

    def log_chance(self, steps: int, loss: Fraction, noise: Integers) -> Floats:
        decay = self.decay(steps, loss)
        return math.log(math.tanh(decay / 2)) - decay * np.abs(noise)

    def tail(self, steps: int, loss: Fraction, least: int) -> float:
        decay = self.decay(steps, loss)
        return 2 * math.exp(-decay * least) / (1 + math.exp(-decay))


class Gaussian:
    """Right: discrete Gaussian noise, rho-zCDP."""

    currency = "rho"
    proof = "Canonne, Kamath, Steinke 2020, Theorem 4"

    def variance(self, steps: int, loss: Fraction) -> Fraction:
        return Fraction(steps) ** 2 / (2 * Fraction(loss))

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        return exact.discrete_gaussian(self.variance(steps, loss), size)

    def log_chance(self, steps: int, loss: Fraction, noise: Integers) -> Floats:
        variance = float(self.variance(steps, loss))
        reach = math.ceil(40 * math.sqrt(variance)) + 2
        whole = np.exp(-(np.arange(-reach, reach + 1) ** 2.0) / (2 * variance)).sum()
        return -(noise.astype(float) ** 2) / (2 * variance) - math.log(whole)

    def tail(self, steps: int, loss: Fraction, least: int) -> float:
        return min(1.0, 2 * math.exp(-(least**2) / (2 * float(self.variance(steps, loss)))))


class SmallScale(Geometric):
    """Noise a tenth smaller than is claimed."""

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        return super().sample(steps, Fraction(loss) * 10 / 9, size)


class Understated(Geometric):
    """Noise, and honest chances, of twice the loss."""

    def decay(self, steps: int, loss: Fraction) -> float:
        return 2 * float(loss) / steps


class ShortTail(Geometric):
    """A tail of half of what comes."""

    def tail(self, steps: int, loss: Fraction, least: int) -> float:
        return super().tail(steps, loss, least) / 2


class Cut(Geometric):
    """Noise that is cut at five scales: one in 150 samples is moved."""

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        most = math.ceil(5 / self.decay(steps, loss))
        return np.clip(super().sample(steps, loss, size), -most, most)


class Bounded(Geometric):
    """Honest about being cut: what is beyond betrays everything."""

    def log_chance(self, steps: int, loss: Fraction, noise: Integers) -> Floats:
        most = math.ceil(8 / self.decay(steps, loss))
        within = np.arange(-most, most + 1)
        whole = math.fsum(np.exp(super().log_chance(steps, loss, within)))
        return np.where(np.abs(noise) <= most, super().log_chance(steps, loss, noise) - math.log(whole), -np.inf)


class NotNormal(Geometric):
    """Chances that do not add up to 1."""

    def log_chance(self, steps: int, loss: Fraction, noise: Integers) -> Floats:
        return super().log_chance(steps, loss, noise) - 0.01


class NotWhole(Geometric):
    """Floats."""

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        return fresh().laplace(scale=1 / self.decay(steps, loss), size=size)  # type: ignore[return-value]


class Even(Geometric):
    """Wide noise whose last bit is lost, as that of floats on a coarse grid."""

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        noise = super().sample(steps, loss, size)
        return noise // 2 * 2 if steps > 100 else noise


class Biased(Geometric):
    """One sample in fifty is 0 instead of what it was."""

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        return np.where(fresh().random(size) < 0.02, 0, super().sample(steps, loss, size))


class Seeded(Geometric):
    """The right law from a generator that begins anew in each process."""

    generator = np.random.default_rng(7)

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        chance = -math.expm1(-self.decay(steps, loss))
        return self.generator.geometric(chance, size) - self.generator.geometric(chance, size)


class SeededEachTime(Geometric):
    """The right law, but all calls return the same."""

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        generator, chance = np.random.default_rng(7), -math.expm1(-self.decay(steps, loss))
        return generator.geometric(chance, size) - generator.geometric(chance, size)


class Antithetic(Geometric):
    """Every second sample is the first one's opposite."""

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        noise = super().sample(steps, loss, size)
        noise[1::2] = -noise[: size - size % 2 : 2]
        return noise


class NarrowGaussian(Gaussian):
    """Honest chances of a variance that is a tenth too small."""

    def variance(self, steps: int, loss: Fraction) -> Fraction:
        return super().variance(steps, loss) * Fraction(9, 10)


class HeavyInRho(Geometric):
    """Laplace noise of epsilon = 2 rho as rho-zCDP: it has epsilon^2 / 2, above rho where rho > 1/2."""

    currency = "rho"

    def decay(self, steps: int, loss: Fraction) -> float:
        return 2 * math.sqrt(loss) / steps


class NoLaw:
    """Lacks what a law has."""

    currency = "epsilon"
