"""What stands in OVER (...) and in WINDOW: partitions, order and frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpquery.plan.logical import Frame
from dpquery.sql.bind.scope import Context, same_name

MOST_ROWS = 10**9
"""Rows before or after the current one that a frame can name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """A window as the query writes it."""

    partition: Sequence[exp.Expression]
    order: Sequence[exp.Expression]
    frame: Frame | None


class Specifications:
    """The windows of one SELECT: those with a name, and any that is written in place."""

    def __init__(self, named: Sequence[exp.Expression], context: Context) -> None:
        self._context = context
        self._nodes = list(named)
        self._named: list[tuple[exp.Expression, Specification]] = []
        self._used: set[int] = set()
        for node in named:
            if any(same_name(known, node.this.name) for known, _ in self._named):
                raise self._context.unsupported(f"two windows are named {node.this.name}", node)
            self._named.append((node.this, self.of(node)))

    def of(self, node: exp.Expression) -> Specification:
        """Returns what a window function, or a named window, asks for, with what the window it refers to gives."""
        self._context.only(node, "this", "partition_by", "order", "spec", "alias", "over")
        order = node.args.get("order")
        if order is not None:
            self._context.only(order, "expressions")
        spec = node.args.get("spec")
        own = Specification(
            partition=node.args.get("partition_by") or [],
            order=[] if order is None else order.expressions,
            frame=None if spec is None else self._frame(spec),
        )
        alias = node.args.get("alias")
        return own if alias is None else self._refined(self._find(alias), own, node)

    def check_used(self) -> None:
        """Refuses a named window that nothing refers to: its content would be ignored."""
        for place, node in enumerate(self._nodes):
            if place not in self._used:
                raise self._context.unsupported(f"window {node.this.name} is not used", node)

    def _find(self, alias: exp.Expression) -> Specification:
        for place, (name, known) in enumerate(self._named):
            if same_name(alias, name.name):
                self._used.add(place)
                return known
        raise self._context.unsupported(
            f"window {alias.name} does not exist", alias, "Define it with WINDOW ... AS (...)."
        )

    def _refined(self, base: Specification, own: Specification, node: exp.Expression) -> Specification:
        if own.partition:
            raise self._context.unsupported(
                "a window that extends a named window cannot have its own PARTITION BY", node
            )
        if own.order and base.order:
            raise self._context.unsupported(
                "a window that extends an ordered window cannot have its own ORDER BY", node
            )
        if base.frame is not None and (own.order or own.frame is not None):
            raise self._context.unsupported("a window with a frame cannot be extended", node)
        return Specification(
            partition=base.partition, order=own.order or base.order, frame=own.frame if own.frame else base.frame
        )

    def _frame(self, spec: exp.Expression) -> Frame:
        excluded = spec.args.get("exclude")
        if excluded is not None and excluded.name.upper() != "NO OTHERS":
            raise self._context.unsupported("EXCLUDE in a frame is not supported", spec)
        self._context.only(spec, "kind", "start", "start_side", "end", "end_side", "exclude")
        mode = str(spec.args.get("kind") or "").lower()
        start = self._end(spec, "start", "PRECEDING")
        end = self._end(spec, "end", "FOLLOWING") if spec.args.get("end") is not None else 0
        if mode == "range" and {start, end} - {0, None}:
            raise self._context.unsupported(
                "a frame of RANGE with an offset is not supported", spec, "Use ROWS or GROUPS."
            )
        if start is not None and end is not None and start > end:
            raise self._context.unsupported("the frame ends before it starts", spec)
        if mode == "rows":
            return Frame(mode="rows", start=start, end=end)
        if mode == "groups":
            return Frame(mode="groups", start=start, end=end)
        if mode == "range":
            return Frame(mode="range", start=start, end=end)
        raise self._context.unsupported(f"a frame of {mode.upper()} is not supported", spec)

    def _end(self, spec: exp.Expression, name: str, open_side: str) -> int | None:
        value, side = spec.args.get(name), str(spec.args.get(f"{name}_side") or "").upper()
        if value == "CURRENT ROW":
            return 0
        if value == "UNBOUNDED":
            if side != open_side:
                raise self._context.unsupported(f"a frame cannot {name} with UNBOUNDED {side}", spec)
            return None
        if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit():
            number = int(value.name)
            if number <= MOST_ROWS and side in ("PRECEDING", "FOLLOWING"):
                return -number if side == "PRECEDING" else number
        if str(spec.args.get("kind")).upper() == "RANGE":
            raise self._context.unsupported(
                "a frame of RANGE with an offset is not supported", spec, "Use ROWS or GROUPS."
            )
        reason = f"a frame is given in whole numbers of rows, at most {MOST_ROWS}"
        raise self._context.unsupported(reason, value if isinstance(value, exp.Expression) else spec)
