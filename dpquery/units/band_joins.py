"""How many public rows one private row meets in a join by comparisons, as with price bands and calendars.

A row of the public side lets the values of an expression of the private side between two ends pass. A sweep over the
ends finds the most that let one value pass. docs/proofs/weights.md, Lemma 3; docs/proofs/work.md, Lemma 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Cast, Expression, Literal, children, columns_of, conjuncts
from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.logical import Filter, Join, Project, Relation, Scan, Values, output
from dpquery.plan.types import Kind, Value
from dpquery.units.sizes import Sizes

MOST_ROWS = 20_000
"""Rows of a public side that are looked at; of more nothing is known."""
_CHOOSING = frozenset(row.name for row in FUNCTIONS.values() if row.chapter in ("logic", "nulls"))
"""Functions that compare values or choose one of them, which every engine does alike."""
_WHOLE = frozenset({Kind.BOOLEAN, Kind.INT64, Kind.DATE, Kind.TIMESTAMP})
"""Types whose functions give the same on every engine, to the last digit."""
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}

Row = Mapping[str, Value]
Point = tuple[Any, int]
"""A value and 0, or 1 for what is just above it."""


def swept(join: Join, private: Relation, public: Relation, sizes: Sizes) -> int | None:
    """Returns the most rows of the public side that one row of the private side meets, or None.

    Args:
        private, public: The sides of the join.
    Privacy:
        Reads public rows alone. Each pair that meets fulfils all conditions of the join; leaving some out, and taking
        values between two others for possible, can only raise the number. What is computed here is what the engine
        computes: expressions whose last digit may depend on it are left out.
    Source:
        docs/proofs/weights.md, Lemma 3.
    """
    compared = _compared(join, private, public)
    if not any(_is_bounded(ends) for ends in compared.values()):
        return None
    if (found := _rows(public, sizes)) is None:
        return None
    rows, copies = found
    known = [_most(ends, _equated(join, private, public), rows) for ends in compared.values() if _is_bounded(ends)]
    counts = [count for count in known if count is not None]
    return min(counts) * copies if counts else None


Ends = list[tuple[str, Expression]]
"""How an expression of the private side compares with expressions of the public side."""


def _is_bounded(ends: Ends) -> bool:
    kinds = {function for function, _ in ends}
    return "eq" in kinds or bool(kinds & {"ge", "gt"} and kinds & {"le", "lt"})


def _compared(join: Join, private: Relation, public: Relation) -> dict[str, Ends]:
    """Returns the comparisons of each expression of the private side, by its text."""
    own, other = ({column.id for column in output(side)} for side in (private, public))
    found: dict[str, Ends] = {}
    for part in [] if join.condition is None else conjuncts(join.condition):
        if not (isinstance(part, Call) and part.function in _TURNED and len(part.arguments) == 2):
            continue
        (a, b), function = part.arguments, part.function
        if _reads(b) <= own:
            a, b, function = b, a, _TURNED[function]
        sides = _reads(a) and _reads(a) <= own and _reads(b) and _reads(b) <= other
        if sides and a.type == b.type and _is_exact(b):
            found.setdefault(repr(a), []).append((function, b))
    return found


def _equated(join: Join, private: Relation, public: Relation) -> list[Expression]:
    """Returns the expressions of the public side that the join equates with the private side."""
    other = {column.id for column in output(public)}
    sides = [side for pair in join.equalities for side in pair if _is_exact(side)]
    return [side for side in sides if _reads(side) and _reads(side) <= other]


def _is_exact(expression: Expression) -> bool:
    """Whether every engine gives the value that `evaluate` gives."""
    parts, known = children(expression), True
    match expression:
        case Call() if expression.function not in _CHOOSING:
            given = [part.type.kind for part in parts if not isinstance(part, Literal)]
            known = {expression.type.kind, *given} <= _WHOLE
        case Cast(argument=argument):
            kinds = argument.type.kind, expression.type.kind
            known = {*kinds} <= _WHOLE or kinds == (Kind.INT64, Kind.FLOAT64)
    return known and all(_is_exact(part) for part in parts)


def _reads(expression: Expression) -> set[str]:
    return {column.id for column in columns_of(expression)}


def _most(ends: Ends, equated: list[Expression], rows: list[Row]) -> int | None:
    """Returns the most intervals with one point in common, among rows that agree in what is equated."""
    intervals = []
    try:
        for row in rows:
            key = tuple(evaluate(expression, row) for expression in equated)
            span = _interval(ends, row)
            if None not in key and span is not None and span[0] < span[1]:
                intervals.append((key, span))
        intervals.sort(key=lambda one: one[0])
        depths = (_deepest(span for _, span in same) for _, same in groupby(intervals, lambda one: one[0]))
        return max(depths, default=0)
    except TypeError:  # values that Python does not compare
        return None


def _interval(ends: Ends, row: Row) -> tuple[Point, Point] | None:
    """Returns the first point that passes and the first that passes no more; None if an end is NULL."""
    starts: list[Point] = []
    stops: list[Point] = []
    for function, expression in ends:
        value = evaluate(expression, row)
        if value is None:
            return None
        starts += [(value, 1 if function == "gt" else 0)] if function in ("ge", "gt", "eq") else []
        stops += [(value, 0 if function == "lt" else 1)] if function in ("le", "lt", "eq") else []
    return max(starts), min(stops)


def _deepest(spans: Iterable[tuple[Point, Point]]) -> int:
    events = sorted(event for start, stop in spans for event in ((start, 1), (stop, -1)))
    depth = most = 0
    for _, change in events:  # of one point, what stops comes before what starts
        depth += change
        most = max(most, depth)
    return most


def _rows(relation: Relation, sizes: Sizes) -> tuple[list[Row], int] | None:
    """Returns the different rows of a public relation, and how often each of them is there at most; None if unknown."""
    match relation:
        case Values() if len(relation.rows) <= MOST_ROWS:
            ids = [column.id for column in relation.columns]
            return list[Row](dict(zip(ids, row, strict=True)) for row in relation.rows), 1
        case Scan() if relation.public and 0 < sizes.rows(relation.table) <= MOST_ROWS and relation.columns:
            names = tuple(column.name for column in relation.columns)
            given = sizes.public_rows(relation.table, names)
            rows: list[Row] = [dict(zip((c.id for c in relation.columns), row, strict=True)) for row in given]
            return rows, sizes.rows(relation.table) - len(rows) + 1
        case Filter():
            found = _rows(relation.source, sizes)
            if found is None or not _is_exact(relation.condition):
                return found
            return [row for row in found[0] if evaluate(relation.condition, row) is True], found[1]
        case Project():
            found = _rows(relation.source, sizes)
            if found is None or not all(_is_exact(column.expression) for column in relation.columns):
                return None
            made = [{c.id: evaluate(c.expression, row) for c in relation.columns} for row in found[0]]
            return list[Row](made), found[1]
        case _:
            return None
