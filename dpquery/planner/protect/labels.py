"""What measures are called, for people."""

from __future__ import annotations

import math
from fractions import Fraction

from dpquery.kernel.plan import Count, Lattice


def label_of(count: Count, name: str, kept: str, lattice: Lattice | None, target: Fraction | None) -> str:
    """Returns what a measure is called.

    Args:
        name: What the value is called.
        kept: What its filter is called; "" without one.
    """
    if lattice is not None and lattice.offset:
        sign = "-" if lattice.offset > 0 else "+"
        name = f"{name} {sign} {_short(abs(lattice.offset) * lattice.grid)}"
    if lattice is not None and lattice.squared:
        name = f"({name})^2"
    label = {
        Count.UNITS: "COUNT(DISTINCT unit)",
        Count.DECIDING: "units in rounds",
        Count.ROWS: "COUNT(*)",
        Count.VALUES: f"COUNT({name})",
        Count.DISTINCT: f"COUNT(DISTINCT {name})",
        Count.SUM: f"SUM({name})",
        Count.QUANTILE: _quantile_label(name, target),
        Count.MODE: f"MODE({name})",
    }[count]
    return f"{label} FILTER (WHERE {kept})" if kept else label


def term_of(*values: tuple[str, Lattice]) -> str:
    """Returns a product of Bernstein terms, each of a value with a name: C (x - lower)^i (upper - x)^k."""
    times, factors = 1, []
    for name, lattice in values:
        above, below = lattice.bernstein or (0, 0)
        low, high = lattice.lower * lattice.grid, lattice.upper * lattice.grid
        lower = f"{name} {'-' if low > 0 else '+'} {_short(abs(low))}" if low else name
        times *= math.comb(above + below, above)
        factors += [(part, power) for part, power in ((lower, above), (f"{_short(high)} - {name}", below)) if power]
    if len(factors) == 1 and factors[0][1] == 1:
        return factors[0][0]
    shown = [part if part.isidentifier() else f"({part})" for part, _ in factors]
    shown = [part if power == 1 else f"{part}^{power}" for part, (_, power) in zip(shown, factors, strict=True)]
    return " * ".join([*([str(times)] if times > 1 else []), *shown])


def _quantile_label(name: str, target: Fraction | None) -> str:
    known = {Fraction(0): "MIN", Fraction(1): "MAX", Fraction(1, 2): "MEDIAN"}.get(target or Fraction(0))
    return f"{known}({name})" if known else f"QUANTILE({name}, {_short(target or Fraction(0))})"


def _short(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.6g}"
