"""Densities of noise around the numbers of two neighbours, as textbooks draw them. For pictures: in floating point."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dpquery.accounting.amounts import Amount, read, whole
from dpquery.errors import InvalidLossError, extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Density = Callable[[float], float]


def laplace_density(scale: Amount, center: float = 0.0) -> Density:
    """Returns the density of a number with continuous Laplace noise: e^(-|x - center| / scale) / (2 scale).

    Source: Dwork, McSherry, Nissim, Smith 2006.
    Example:
        >>> here, there = laplace_density(2), laplace_density(2, center=1)
        >>> round(math.log(here(-3) / there(-3)), 9)  # epsilon is 1 / 2, and reached on one side of both
        0.5
    """
    width = float(read(scale, "scale"))
    return lambda x: math.exp(-abs(x - center) / width) / (2 * width)


def gaussian_density(scale: Amount, center: float = 0.0) -> Density:
    """Returns the density of a number with continuous Gaussian noise; `scale` is the standard deviation.

    Source: Dwork, Kenthapadi, McSherry, Mironov, Naor 2006.
    """
    width = float(read(scale, "scale"))
    return lambda x: math.exp(-(((x - center) / width) ** 2) / 2) / (width * math.sqrt(2 * math.pi))


def plot_densities(
    functions: Mapping[str, Density], *, lower: float, upper: float, points: int = 401, axes: Axes | None = None
) -> Axes:
    """Returns matplotlib axes with densities between two ends, by name.

    Raises:
        DPQueryError: matplotlib is not there; it comes with `pip install 'dpquery[plot]'`.
        InvalidLossError: The ends are in another order.
    """
    if not lower < upper:
        raise InvalidLossError("the lower end of a plot must be below its upper end")
    if axes is None:
        axes = extra("matplotlib.pyplot", of="plot", purpose="a plot").subplots()[1]
    last = max(1, whole(points, "points") - 1)
    places = [lower + (upper - lower) * place / last for place in range(last + 1)]
    for name, density in functions.items():
        axes.plot(places, [density(place) for place in places], label=name)
    axes.set(xlabel="released number", ylabel="density")
    axes.legend()
    return axes
