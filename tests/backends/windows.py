"""Random window functions over a relation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal as OneOf

from dpquery.plan.expr import Expression, Literal
from dpquery.plan.logical import Frame, Relation, SortKey, Window, WindowColumn, output
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, Kind, Type, decimal
from dpquery.plan.windows import PICKS, RANKS, TOTALS, WINDOW_FUNCTIONS, is_positional

MODES: tuple[OneOf["rows", "range", "groups"], ...] = ("rows", "rows", "range", "groups")
ARGUMENTS = (INT64, FLOAT64, decimal(8, 2), TEXT, DATE, BOOLEAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Makes windows.

    Attributes:
        fresh: Returns a new id.
        expression: Returns an expression of a type over a relation.
    """

    random: Random
    fresh: Callable[[], str]
    expression: Callable[[Relation, Type, int], Expression]

    def over(self, source: Relation, partition_by: tuple[str, ...]) -> Window:
        """Returns a relation with up to three window functions; those that depend on places share an order."""
        first = self.column(source, partition_by)
        columns = [first]
        for _ in range(self.random.choice([0, 0, 1, 2])):
            other = self.column(source, partition_by)
            orders = {(c.partition_by, c.order_by) for c in (*columns, other) if is_positional(c)}
            columns += [other] if len(orders) <= 1 else []
        return Window(source=source, columns=tuple(columns))

    def column(self, source: Relation, partition_by: tuple[str, ...]) -> WindowColumn:
        """Returns one window function whose partitions are by these columns and perhaps more."""
        random = self.random
        function = random.choice(sorted(WINDOW_FUNCTIONS - {"avg"}))  # the last digits of averages are free
        given = [column.id for column in output(source)]
        more = tuple(random.sample(given, 1)) if random.random() < 0.2 else ()
        keys = random.sample(given, min(len(given), random.choice([0, 1, 1, 2])))
        order = tuple(
            SortKey(column=id, descending=random.random() < 0.5, nulls_first=random.random() < 0.5) for id in keys
        )
        arguments, type = self.arguments(source, function)
        kept = self.expression(source, BOOLEAN, 1) if function in TOTALS and random.random() < 0.3 else None
        return WindowColumn(
            id=self.fresh(),
            name="",
            function=function,
            arguments=arguments,
            filter=kept,
            partition_by=tuple(dict.fromkeys((*partition_by, *more))),
            order_by=order,
            frame=self.frame(bool(order)) if function in TOTALS | PICKS else None,
            type=type,
        )

    def arguments(self, source: Relation, function: str) -> tuple[tuple[Expression, ...], Type]:
        """Returns the arguments of a function and the type of its result."""
        if function in RANKS | {"row_number"}:
            return (), FLOAT64 if function in ("percent_rank", "cume_dist") else INT64
        if function == "ntile":
            return (self.number(1),), INT64
        type = self.random.choice(ARGUMENTS[:3] if function == "sum" else ARGUMENTS)
        value = self.expression(source, type, 1)
        if function == "count":
            return ((value,) if self.random.random() < 0.6 else ()), INT64
        if function == "sum":
            return (value,), decimal(38, type.scale) if type.kind is Kind.DECIMAL else type
        if function == "nth_value":
            return (value, self.number(1)), type
        if function in ("lag", "lead"):
            default = (self.expression(source, type, 1),) if self.random.random() < 0.5 else ()
            return (value, self.number(0), *default), type
        return (value,), type

    def number(self, least: int) -> Literal:
        """Returns a constant number, mostly a small one."""
        return Literal(value=least + self.random.choice([0, 1, 2, 3, 10**9 - 1]), type=INT64)

    def frame(self, ordered: bool) -> Frame | None:
        """Returns a random frame."""
        mode = self.random.choice(MODES if ordered else ("rows", "range"))
        if self.random.random() < 0.3:
            return None
        offsets = [0, None] if mode == "range" else [None, -3, -2, -1, 0, 1, 2, 10**9]
        start, end = self.random.choice(offsets), self.random.choice(offsets)
        if start is not None and end is not None and start > end:
            start, end = end, start
        return Frame(mode=mode, start=start, end=end)
