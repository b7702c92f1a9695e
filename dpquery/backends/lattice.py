"""What a value is on a lattice, in Python: the meaning that backends write in the language of their engine."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction

from dpquery.errors import InternalError
from dpquery.kernel.plan import Lattice
from dpquery.plan.ranges import number_of
from dpquery.plan.types import Value


def lattice_value(lattice: Lattice, value: Value) -> int:
    """Returns the integer that stands for a value that is not NULL: exact, though a float is divided by a power of two.

    It is clamped to the lattice's bounds, then rounded, half to even.
    """
    if isinstance(value, datetime.date):
        whole = number_of(value)
        value = int(whole) if whole is not None else 0
    if isinstance(value, float) and math.isinf(value):
        step = lattice.lower if value < 0 else lattice.upper
    elif isinstance(value, int | float | Decimal):
        ratio = Fraction(value) / lattice.grid
        step = round(min(max(ratio, Fraction(lattice.lower)), Fraction(lattice.upper)))
    else:
        raise InternalError("only numbers and moments are on a lattice")
    if lattice.bernstein is not None:
        above, below = lattice.bernstein
        factors = [step - lattice.lower] * above + [lattice.upper - step] * below
        return math.comb(lattice.degree, above) * math.prod(factors)
    deviation = step - lattice.offset
    return deviation * deviation - lattice.offset_of_square if lattice.squared else deviation
