"""Exact draws that a law of one's own can be made of: integers, from random bits of the operating system."""

from dpquery.accounting.local_reports import by_mass
from dpquery.kernel.exponential import uniform_below
from dpquery.kernel.samplers import discrete_gaussian, discrete_laplace, exponential

__all__ = ["by_mass", "discrete_gaussian", "discrete_laplace", "exponential", "uniform_below"]
