"""Prepared statements, portals and cursors: results that are made once and read in any order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import Described, Field, Refusal, StatementAnswer
from dpquery.frontends.postgres.wire.rows import CopyForm

if TYPE_CHECKING:
    from dpquery.frontends.postgres.commands.nodes import Command

PRICE = (Field(name="QUERY PLAN", oid=oids.TEXT),)
PRICE_AS_JSON = (Field(name="QUERY PLAN", oid=oids.JSON),)
ALL_SETTINGS = tuple(Field(name=name, oid=oids.TEXT) for name in ("name", "setting", "description"))
MOST_STATEMENTS = 1_000
MOST_PORTALS = 200
MOST_TEXT = 4 << 20
"""Characters of all prepared statements of a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a statement gave: a tag, rows if it has any, and words beside them.

    Attributes:
        fields: The columns, or None for a statement without rows.
        is_counted: Whether the tag ends with the number of rows that were sent.
        copy: How the rows are sent by COPY, or None.
    """

    tag: str
    fields: tuple[Field, ...] | None = None
    table: pa.Table | None = None
    is_counted: bool = False
    copy: CopyForm | None = None
    notices: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(answered: StatementAnswer, tag: str = "SELECT", copy: CopyForm | None = None) -> Outcome:
        """Returns the rows of an answer."""
        notices = tuple(("00000", words) for words in answered.notices)
        if not answered.fields and copy is None:
            return Outcome(tag=f"{tag} 0", notices=notices)
        fields, table = answered.fields, answered.table
        return Outcome(tag=tag, fields=fields, table=table, is_counted=True, copy=copy, notices=notices)

    @staticmethod
    def of_texts(fields: tuple[Field, ...], rows: list[tuple[str, ...]]) -> Outcome:
        """Returns rows of texts, as SHOW gives them."""
        columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(fields))]
        return Outcome(tag="SHOW", fields=fields, table=pa.table(columns, names=[str(i) for i in range(len(fields))]))

    @staticmethod
    def of_plan(lines: list[str], *, is_json: bool, notices: tuple[tuple[str, str], ...]) -> Outcome:
        """Returns the lines of a plan as EXPLAIN gives them: as rows, or as one value of JSON."""
        texts, fields = ([as_json(lines)], PRICE_AS_JSON) if is_json else (lines, PRICE)
        return Outcome(
            tag="EXPLAIN", fields=fields, table=pa.table({"0": pa.array(texts, pa.string())}), notices=notices
        )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return 0 if self.table is None else len(self.table)


def as_json(lines: list[str]) -> str:
    """Returns the lines of a plan as PostgreSQL nests plans: a line that is indented is below the one before."""
    nodes: list[tuple[int, dict[str, Any]]] = []
    for line in lines:
        node: dict[str, Any] = {"Node Type": line.strip()}
        depth = len(line) - len(line.lstrip()) + 1 if nodes else 0
        above = next((one for level, one in reversed(nodes) if level < depth), None)
        if above is not None:
            above.setdefault("Plans", []).append(node)
        nodes.append((depth, node))
    return json.dumps([{"Plan": node} for _, node in nodes[:1]])


@dataclass(slots=True)
class PreparedStatement:
    """A prepared statement; `command` is None where the text is empty.

    Attributes:
        has_intervals: Whether it was described with the ends of intervals.
        is_told: Whether its client was told the columns.
    """

    text: str
    command: Command | None
    oids: tuple[int, ...]
    has_parameters: bool
    described: Described | None = None
    has_intervals: bool = False
    is_told: bool = False


@dataclass(slots=True)
class Portal:
    """A statement with its parameters, and its result once it was run; as a cursor it has a result from the start.

    Attributes:
        place: 0 before the first row, n on row n, one more than there are rows behind the last.
        described: The columns that its client was told, which the result has to keep to.
        has_intervals: Whether they have the ends of intervals.
    """

    command: Command | None
    parameters: tuple[object, ...] = ()
    result_formats: tuple[int, ...] = ()
    described: Described | None = None
    outcome: Outcome | None = None
    is_complete: bool = False
    place: int = 0
    is_cursor: bool = False
    is_held: bool = False
    can_scroll: bool = True
    is_new: bool = True
    has_intervals: bool = False

    @property
    def oids(self) -> tuple[int, ...]:
        """The OIDs of its parameters, to describe it anew: none is given."""
        return tuple(0 for _ in self.parameters)

    def formats(self, count: int) -> tuple[int, ...]:
        """Returns the format of each column."""
        given = self.result_formats
        if len(given) not in (0, 1, count):
            raise Refusal("08P01", "bind message has another number of result formats than the query has columns")
        return given if len(given) == count else (given[0] if given else 0,) * count


@dataclass(slots=True)
class NamedStatements:
    """What a connection has named: prepared statements, and portals and cursors, which share their names."""

    statements: dict[str, PreparedStatement] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)

    def statement(self, name: str) -> PreparedStatement:
        """Returns a prepared statement."""
        found = self.statements.get(name)
        if found is None:
            what = f'prepared statement "{name[:63]}"' if name else "unnamed prepared statement"
            raise Refusal("26000", f"{what} does not exist")
        return found

    def portal(self, name: str, what: str = "portal") -> Portal:
        """Returns a portal or cursor; `what` names it where there is none."""
        found = self.portals.get(name)
        if found is None:
            raise Refusal("34000", f'{what} "{name[:63]}" does not exist')
        return found

    def add_statement(self, name: str, prepared: PreparedStatement) -> None:
        """Names a prepared statement."""
        if name and name in self.statements:
            raise Refusal("42P05", f'prepared statement "{name[:63]}" already exists')
        if len(self.statements) >= MOST_STATEMENTS:
            raise Refusal("54000", f"a connection has at most {MOST_STATEMENTS:,} prepared statements")
        if sum(len(known.text) for known in self.statements.values()) + len(prepared.text) > MOST_TEXT:
            raise Refusal("54000", "the prepared statements of a connection are too long together")
        self.statements[name] = prepared

    def check_portal(self, name: str) -> None:
        """Raises Refusal where no portal of this name can be made."""
        if name and name in self.portals:
            raise Refusal("42P03", f'cursor "{name[:63]}" already exists')
        if len(self.portals) >= MOST_PORTALS:
            raise Refusal("54000", f"a connection has at most {MOST_PORTALS} open portals")

    def forget_statement(self, name: str | None) -> None:
        """Forgets a prepared statement, or all."""
        if name is None:
            self.statements.clear()
        else:
            self.statement(name)
            del self.statements[name]

    def close_cursor(self, name: str | None) -> None:
        """Closes a cursor or portal, or all cursors."""
        if name is None:
            self.portals = {known: portal for known, portal in self.portals.items() if not portal.is_cursor}
        else:
            self.portal(name, "cursor")
            del self.portals[name]

    def end_transaction(self, *, is_committed: bool) -> None:
        """Closes what does not outlive a transaction: portals, and cursors without HOLD or that it has made in vain."""
        for name, portal in list(self.portals.items()):
            if not portal.is_held or (portal.is_new and not is_committed):
                del self.portals[name]
            else:
                portal.is_new = False


@dataclass(frozen=True, slots=True)
class Motion:
    """Rows that a cursor passes: the first, how many, in which direction, and where it is then."""

    first: int
    count: int
    step: int
    place: int

    def is_forward(self, place: int) -> bool:
        """Whether it passes only rows behind a place."""
        return self.place >= place and self.step > 0 and (self.count == 0 or self.first > place)

    def rows(self, table: pa.Table) -> pa.Table:
        """Returns the rows, in the order in which they are passed."""
        if self.step > 0 or self.count <= 1:
            return table.slice(self.first - 1, self.count) if self.count else table.slice(0, 0)
        return table.slice(self.first - self.count, self.count).take(list(range(self.count - 1, -1, -1)))


def motion(place: int, rows: int, direction: str, count: int | None) -> Motion:
    """Returns what FETCH does from a place among so many rows; None counts all."""
    if direction in ("absolute", "relative"):
        assert count is not None
        if direction == "relative":
            target = place + count
        else:
            target = count if count >= 0 else rows + 1 + count
        target = min(max(target, 0), rows + 1)
        return Motion(target, 1 if 1 <= target <= rows else 0, 1, target)
    if count is not None and count < 0:
        direction, count = ("backward" if direction == "forward" else "forward"), -count
    if count == 0:
        return Motion(place, 1 if 1 <= place <= rows else 0, 1, place)
    if direction == "forward":
        passed = max(rows - place, 0) if count is None else min(count, max(rows - place, 0))
        is_past = count is None or passed < count
        return Motion(place + 1, passed, 1, rows + 1 if is_past else place + passed)
    before = min(place - 1, rows) if place else 0
    passed = before if count is None else min(count, before)
    is_past = count is None or passed < count
    return Motion(place - 1, passed, -1, 0 if is_past else place - passed)
