"""What measures are called, for people."""

from __future__ import annotations

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


def _quantile_label(name: str, target: Fraction | None) -> str:
    known = {Fraction(0): "MIN", Fraction(1): "MAX", Fraction(1, 2): "MEDIAN"}.get(target or Fraction(0))
    return f"{known}({name})" if known else f"QUANTILE({name}, {_short(target or Fraction(0))})"


def _short(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.6g}"
