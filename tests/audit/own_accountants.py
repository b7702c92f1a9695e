"""Accountants for the tests of the audit: right ones, and wrong ones in one way each."""

import math
from fractions import Fraction

from dpquery import accounting
from dpquery.mechanisms.own_composition import Losses


class Zcdp:
    """Right: every loss in rho, added up, and converted."""

    proof = "Bun, Steinke 2016; Canonne, Kamath, Steinke 2020"

    def rho(self, losses: Losses) -> Fraction:
        return sum((loss.rho + loss.epsilon**2 / 2 for loss in losses), Fraction(0))

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return accounting.zcdp_to_approximate(self.rho(losses), delta)


class Pure(Zcdp):
    """Right: epsilons add up; what has a rho is converted with all of delta."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        pure = sum((loss.epsilon for loss in losses), Fraction(0))
        rho = sum((loss.rho for loss in losses), Fraction(0))
        return pure + (accounting.zcdp_to_approximate(rho, delta) if rho else 0)


class Steep(Pure):
    """Right, and more than it needs: each further loss costs more."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return super().epsilon(losses, delta) + Fraction(len(losses) ** 2, 5)


class Halved(Zcdp):
    """Wrong: half of the epsilon."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return super().epsilon(losses, delta) / 2


class Largest(Zcdp):
    """Wrong: what is asked one after the other is taken to be in parallel."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return max(Zcdp.epsilon(self, [loss], delta) for loss in losses)


class Forgetful(Zcdp):
    """Wrong: only the first hundred losses count."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return super().epsilon(losses[:100], delta)


class Ordered(Zcdp):
    """Wrong: the first loss weighs more."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return super().epsilon(losses, delta) + losses[0].epsilon + losses[0].rho


class Falling(Zcdp):
    """Wrong: it falls as further losses come."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return super().epsilon(losses, delta) + Fraction(10, len(losses))


class Rising(Zcdp):
    """Wrong: a larger delta costs more."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return super().epsilon(losses, delta) * (1 + delta) + 100 * delta ** Fraction(1) * 1000


class Infinite(Zcdp):
    """Wrong: it claims no number."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return math.nan


class Slope(Zcdp):
    """Wrong by little: rho alone, without its tail."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        rho = float(self.rho(losses))
        return rho + math.sqrt(2 * rho * math.log(1 / delta)) * 0.9


class Unproved:
    """Not an accountant: nothing says where it is proved."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        return 1
