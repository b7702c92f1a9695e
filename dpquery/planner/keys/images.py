"""The values of one expression over its arguments' values, or in its range, where they are few enough to be listed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import lru_cache

from dpquery.kernel.selection import sort_key
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, children, columns_of, rebuild, size_of
from dpquery.plan.intervals import range_of
from dpquery.plan.ranges import Range, whole_values
from dpquery.plan.types import BOOLEAN, FLOAT64, Value
from dpquery.planner.keys.moments import by_cells, cell_of, moments

MAX_KEYS = 10_000
"""Values that one key's domain may have when it is enumerated."""
MAX_STEPS = 40_000
"""Values that are tried to find such a domain."""

MAX_WORK = 2_000_000
"""Parts of expressions that are evaluated to find the domain of one key."""

Domain = tuple[Value, ...]

_INTEGRAL = frozenset({"floor", "ceil", "trunc", "round"})


@lru_cache(maxsize=256)
def image_of(
    expression: Expression, domains: tuple[tuple[str, Domain], ...], ranges: tuple[tuple[str, Range], ...]
) -> Domain | None:
    """Returns the possible values of an expression, sorted, NULL last; None if they are too many or unknown.

    NULL is tried as an argument wherever it is possible: COALESCE(key, 0) may be 0.
    """
    values = _values(expression, dict(domains), dict(ranges), _Work())
    if values is None:
        missing = (None,) if range_of(expression, dict(ranges)).nullable else ()
        return (False, True, *missing) if expression.type == BOOLEAN else None
    possible = list(values)
    unique = in_order(possible)
    if len(unique) > MAX_KEYS:
        return None
    return (*unique, None) if None in possible else unique


class _Work:
    """What may still be evaluated: domains that cost more are not found, and their groups are selected."""

    def __init__(self) -> None:
        self._left = MAX_WORK

    def allows(self, expression: Expression, rows: int) -> bool:
        """Whether an expression may be evaluated on so many rows; counts it if so."""
        cost = rows * size_of(expression)
        if rows > MAX_STEPS or cost > self._left:
            return False
        self._left -= cost
        return True


def _values(
    expression: Expression, domains: dict[str, Domain], ranges: dict[str, Range], work: _Work
) -> Iterable[Value] | None:
    leaves = sorted({column.id for column in columns_of(expression)})
    if all(leaf in domains for leaf in leaves):
        size = 1
        for leaf in leaves:
            size *= len(domains[leaf])
        if work.allows(expression, size):
            rows = itertools.product(*(domains[leaf] for leaf in leaves))
            return [evaluate(expression, dict(zip(leaves, row, strict=True))) for row in rows]
    if isinstance(expression, Case):
        arms = [_values(arm, domains, ranges, work) for arm in (*children(expression)[1::2], expression.otherwise)]
        return None if any(arm is None for arm in arms) else [v for arm in arms if arm is not None for v in arm]
    ways = (_whole(expression, ranges), _stepped(expression, ranges, work), _image(expression, domains, ranges, work))
    listed = [set(values) for values in ways if values is not None]
    return min(listed, key=len) if listed else None


def _whole(expression: Expression, ranges: dict[str, Range]) -> Iterable[Value] | None:
    """Returns the whole numbers of the expression's range, if it has no other values."""
    known = range_of(expression, ranges)
    listed, missing = integers(known, MAX_KEYS), [None] if known.nullable else []
    if listed is not None and expression.type.is_whole:
        return [*whole_values(expression.type, listed), *missing]
    if listed is not None and expression.type == FLOAT64 and _is_integral(expression):
        return [*(float(value) for value in listed), *missing]
    return None


def _image(
    expression: Expression, domains: dict[str, Domain], ranges: dict[str, Range], work: _Work
) -> Iterable[Value] | None:
    """Returns the values of an operation over all combinations of its arguments' values."""
    if not isinstance(expression, Call | Cast):
        return None
    parts = children(expression)
    known = [_values(part, domains, ranges, work) for part in parts]
    if any(values is None for values in known):
        return None
    columns = tuple(Column(id=f"argument{i}", type=part.type) for i, part in enumerate(parts))
    sets = [list(dict.fromkeys(values)) for values in known if values is not None]
    size = 1
    for values in sets:
        size *= len(values)
    if not work.allows(expression, size):
        return None
    literal = tuple(part if isinstance(part, Literal) else column for part, column in zip(parts, columns, strict=True))
    over = rebuild(expression, literal)
    names = [column.id for column in columns]
    return [evaluate(over, dict(zip(names, row, strict=True))) for row in itertools.product(*sets)]


def _stepped(expression: Expression, ranges: dict[str, Range], work: _Work) -> Iterable[Value] | None:
    """Returns the values of a timestamp cut to days, or the like: those of one moment in each cell of its range."""
    cell = cell_of(expression)
    if cell is None:
        return None
    inner, width = cell
    stepped = moments(range_of(inner, ranges), width, MAX_STEPS)
    if stepped is None or not work.allows(expression, len(stepped)):
        return None
    column = Column(id="moment", type=inner.type)
    over = by_cells(expression, {inner: (column, width)})
    return [evaluate(over, {"moment": moment}) for moment in stepped]


def integers(known: Range, most: int) -> range | None:
    """Returns the integers of a range, or None if they are more than `most`."""
    if known.lower is None or known.upper is None:
        return None
    first, last = -(-known.lower // 1), known.upper // 1
    return range(int(first), int(last) + 1) if last - first < most else None


def _is_integral(expression: Expression) -> bool:
    if isinstance(expression, Cast) and expression.type == FLOAT64:
        return expression.argument.type.is_whole
    return isinstance(expression, Call) and expression.function in _INTEGRAL and len(expression.arguments) == 1


def in_order(values: Iterable[Value]) -> Domain:
    """Returns the different values but NULL, in the order of the result."""
    return tuple(sorted(dict.fromkeys(value for value in values if value is not None), key=sort_key))
