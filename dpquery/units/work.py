"""How much work one stored private row can cause, recomputed from the plan that runs. docs/proofs/work.md.

By induction over the relational operators: how many rows one row of a table can become, what each of them costs, and
how many characters of text are held for it. What no rule covers is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from dpquery.errors import Span
from dpquery.plan.expr import Column, Expression, columns_of
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    WindowColumn,
    is_private,
    output,
)
from dpquery.plan.windows import WINDOW_FUNCTIONS
from dpquery.units.costs import SORT, STEP, cost, lengths, of_aggregate
from dpquery.units.declarations import Declarations
from dpquery.units.join_multiplicity import Ids, Meeting, least, times
from dpquery.units.locality import Locality, locality
from dpquery.units.public_work import PUBLIC_PART, beyond
from dpquery.units.row_counts import FewRows
from dpquery.units.sizes import Sizes, Unbounded

AGGREGATE_FIRST = (
    "Make one row of each {unit} of one side first: GROUP BY the {unit}'s column, SELECT DISTINCT, or a table that the "
    "catalog declares unique."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCost:
    """What one operator costs for one stored row.

    Attributes:
        what: The operator, in words.
        rows: How many rows it makes of one stored row.
        characters: What it reads and makes, in characters; 64 are a step.
        held: Characters of the texts that it holds in memory.
        span: Where in the query's text, or None.
    """

    what: str
    rows: int
    characters: int
    held: int
    span: Span | None


@dataclass(slots=True)
class Work:
    """Adds up the work of the operators of relations that `locality` has accepted.

    Attributes:
        declared: The declarations.
        sizes: Facts of stored tables.
        parts: What each operator costs.
    """

    declared: Declarations
    sizes: Sizes
    parts: list[OperatorCost] = field(default_factory=list)
    _known: dict[int, tuple[Relation, Locality]] = field(default_factory=dict)
    _meeting: Meeting = field(init=False)

    def __post_init__(self) -> None:
        self._meeting = FewRows(self.sizes, self._units, self.declared.undated)

    def add(self, relation: Relation, needed: Ids) -> int:
        """Returns how many rows one stored row can become in a relation, after adding what its operators cost; 0 where
        no private row is read.

        Args:
            needed: The columns that are read above.
        Privacy:
            Where every table holds at most r rows of a unit, the relation has at most r times as many rows of that
            unit, and the operators take at most r times the steps of `parts` because of them.
        Raises:
            Unbounded: No rule bounds an operator.
        Source:
            docs/proofs/work.md, Theorem 1.
        """
        if not is_private(relation):
            if more := beyond(relation, self._meeting):
                self.parts.append(OperatorCost(what=PUBLIC_PART, rows=1, characters=more, held=0, span=None))
            return 0
        match relation:
            case Scan():
                return self._scan(relation, needed)
            case Filter():
                read = _read([relation.condition])
                rows = self.add(relation.source, needed | read)
                spent = cost(relation.condition, lengths(relation.source))
                return self._part("a filter", rows, spent.characters, spent.made, relation.condition.span)
            case Project():
                return self._project(relation, needed)
            case Join():
                return self._join(relation, needed)
            case Aggregate():
                return self._aggregate(relation)
            case Window():
                return self._window(relation, needed)
            case SetOperation():
                return self._set_operation(relation)
            case Values() | Sort() | Limit() | Released():
                raise Unbounded("no rule bounds the work of this operator over private rows")
            case _:
                assert_never(relation)

    def _part(self, what: str, rows: int, characters: int, held: int, span: Span | None = None) -> int:
        """Adds an operator that does the same for each of its rows; returns how many they are."""
        part = OperatorCost(what=what, rows=rows, characters=rows * characters, held=rows * held, span=span)
        self.parts.append(part)
        return rows

    def _scan(self, scan: Scan, needed: Ids) -> int:
        longest = lengths(scan)
        read = [longest[id] for id in longest if id in needed]
        steps = 0 if scan.ownership is None else len(scan.ownership.path)
        return self._part(f"reading {scan.table}", 1, STEP * (1 + len(read) + steps) + sum(read), 0)

    def _project(self, project: Project, needed: Ids) -> int:
        """Columns that are only given on cost nothing where nothing above reads them; what is computed always does."""
        kept = [c.expression for c in project.columns if c.id in needed or not isinstance(c.expression, Column)]
        rows = self.add(project.source, _read(kept))
        given = lengths(project.source)
        spent = [cost(expression, given) for expression in kept]
        dearest = max(zip(spent, kept, strict=True), key=lambda pair: pair[0].characters, default=None)
        span = None if dearest is None else dearest[1].span
        return self._part("SELECT", rows, sum(s.characters for s in spent), sum(s.made for s in spent), span)

    def _join(self, join: Join, needed: Ids) -> int:
        condition = [] if join.condition is None else [join.condition]
        keys = [[pair[side] for pair in join.equalities] for side in (0, 1)]
        read = needed | _read(condition) | _read(keys[0]) | _read(keys[1])
        rows = [self.add(side, read) for side in (join.left, join.right)]
        longest = lengths(join)
        looks = 2 if isinstance(join.right, Aggregate) else 1  # rows may be looked for before they are grouped
        for count, side in zip(rows, keys, strict=True):
            compared = [cost(key, longest) for key in side] * looks
            held = sum(key.made + key.longest for key in compared)
            self._part("the keys of a join", count, sum(key.characters for key in compared), held)
        pairs = self._pairs(join, rows)
        compared = [cost(part, longest) for part in condition]
        spent, texts = STEP + sum(part.characters for part in compared), sum(part.made for part in compared)
        made = sum(longest[column.id] for column in output(join) if column.id in read)
        if join.kind in ("semi", "anti"):
            self._part("EXISTS, IN or a comparison with a subquery", pairs, spent, texts, join.span)
            return rows[0]
        self._part("a join", pairs, spent + made, texts + made, join.span)
        kept = {"left": rows[0], "right": rows[1], "full": sum(rows)}.get(join.kind, 0)
        return pairs + kept if is_private(join.left) and is_private(join.right) else max(pairs, kept)

    def _pairs(self, join: Join, rows: list[int]) -> int:
        """Returns how many pairs of rows a join compares beside its equalities: rows of one side, times those that each
        of them meets."""
        if join.kind in ("semi", "anti") and join.condition is None:
            return sum(rows)  # each row is looked up, or put where it is looked for, once
        counts = [times(count, self._meeting.met(join, left=i == 0)) if count else None for i, count in enumerate(rows)]
        pairs = least(*counts)
        if pairs is None:
            unit = self.declared.privacy_unit
            raise Unbounded(
                f"this join multiplies the rows of one {unit}: each row on one side is joined with all of the "
                f"{unit}'s rows on the other side, and their number is not bounded",
                AGGREGATE_FIRST.format(unit=unit),
                join.span,
            )
        return pairs

    def _aggregate(self, aggregate: Aggregate) -> int:
        parts = [part for a in aggregate.aggregates for part in (a.argument, a.second, a.filter) if part is not None]
        keys = frozenset(aggregate.group_by)
        rows = self.add(aggregate.source, keys | _read(parts))
        given = lengths(aggregate.source)
        spent = [of_aggregate(a, given) for a in aggregate.aggregates]
        texts = sum(given[key] for key in keys)
        characters = STEP * (1 + len(keys)) + texts + sum(s.characters for s in spent)
        spans = [a.span for a in aggregate.aggregates if a.span is not None]
        return self._part("GROUP BY", rows, characters, texts + sum(s.made for s in spent), next(iter(spans), None))

    def _window(self, window: Window, needed: Ids) -> int:
        """All columns are read, as they order rows that the query's order leaves equal."""
        whole = frozenset(column.id for column in output(window.source))
        rows = self.add(window.source, whole)
        given = lengths(window.source)
        sorts = len({(column.partition_by, column.order_by) for column in window.columns})
        texts = sum(given[id] for id in whole)
        characters = sorts * (SORT + 2 * (STEP * len(whole) + texts))
        spent = [_of_window(column, given) for column in window.columns]
        characters += sum(one for one, _ in spent)
        span = next((column.span for column in window.columns if column.span is not None), None)
        return self._part("window functions", rows, characters, 2 * texts + sum(held for _, held in spent), span)

    def _set_operation(self, operation: SetOperation) -> int:
        """Rows are compared in all columns."""
        left = self.add(operation.left, frozenset(column.left for column in operation.columns))
        right = self.add(operation.right, frozenset(column.right for column in operation.columns))
        longest = lengths(operation)
        texts = sum(longest.values())
        word = operation.kind.replace("_", " ").upper()
        self._part(word, left + right, STEP * (1 + len(longest)) + texts, texts)
        return left + right if operation.kind == "union_all" else left

    def _units(self, relation: Relation) -> Ids:
        """Returns the columns that tell the unit of each row; a full join has them in the projection over it alone."""
        if isinstance(relation, Join) and relation.kind == "full":
            return frozenset()
        return self._local(relation, self.declared).units

    def _local(self, relation: Relation, declared: Declarations) -> Locality:
        """Returns the relation's `locality`, worked out once; relations are kept, so that identities last."""
        if (known := self._known.get(id(relation))) is None:
            known = self._known[id(relation)] = (relation, locality(relation, declared, self._local))
        return known[1]


def _read(expressions: Iterable[Expression]) -> Ids:
    return frozenset(column.id for expression in expressions for column in columns_of(expression))


def _of_window(column: WindowColumn, given: dict[str, int]) -> tuple[int, int]:
    """Returns what a window function costs for each row, and how many characters it holds for it.

    Every known one has a running form, or one of a tree over the partition, so that a row costs as much as in sorting,
    however large its frame.
    """
    if column.function not in WINDOW_FUNCTIONS:
        raise Unbounded(f"the window function {column.function} has no known running form")
    read = [*column.arguments, *([column.filter] if column.filter else [])]
    spent = [cost(part, given) for part in read]
    return SORT + sum(part.characters + part.longest for part in spent), sum(part.made + part.longest for part in spent)
