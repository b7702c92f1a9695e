"""What a name means at one place of a query: visible columns, common table expressions, fresh ids."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.catalog.names import fold
from dpquery.errors import QueryError, Span, UnknownNameError, UnsupportedQueryError
from dpquery.plan.expr import Column, Expression, children
from dpquery.plan.logical import Aggregate, Relation
from dpquery.plan.types import Type, Value
from dpquery.plan.zones import UTC, wall_clock
from dpquery.sql.bind.wording import advised_instead, clause_of, meant
from dpquery.sql.parse.parse import span_of

MAX_PARTS = 20_000
"""Parts of expressions that are bound for one query."""
MAX_SIZE = 50_000
"""Parts of expressions that a query may hold, each column written out over stored columns."""
MAX_TABLES = 40
MAX_SUBQUERIES = 40
"""Subqueries in expressions; each is one more join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """A column that a name can mean: the name, the table alias before it, and the column's id and type.

    `merged` columns are those that USING made one with another: only a name with its table means them.
    `stored` columns stand under the name of their table, which a schema may precede.
    """

    name: str
    table: str | None
    id: str
    type: Type
    merged: bool = False
    stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicSide:
    """What an outer join of FROM keeps although no private row meets it: a public relation, whose columns are keys.

    The scope's relation holds the rows that met; `relation` is the public side, with WHERE applied to it.
    """

    relation: Relation
    node: exp.Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class LateJoin:
    """A join with a released table that is made once the private rows are aggregated; see `late_joins`.

    `pairs` are what must be equal: an expression over private rows, which is to be a key, and a released column.
    """

    relation: Relation
    pairs: tuple[tuple[Expression, Column], ...]
    node: exp.Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A relation and the columns that names can mean in it, in order.

    Attributes:
        correlated: Conditions of WHERE that read columns of the query around as well; whoever joins the relation owes
            them. The columns of the relation that they read are given by it.
        items: The relations that FROM joins, while they are not joined yet.
        over_nothing: Where an aggregation without GROUP BY was grouped by the columns of such conditions: the value of
            each visible column for a group without rows.
        late: Joins with released tables that wait until the rows are aggregated.
    """

    relation: Relation
    columns: tuple[Visible, ...]
    correlated: tuple[Expression, ...] = ()
    over_nothing: tuple[Value, ...] | None = None
    items: tuple[Relation, ...] = ()
    public_side: PublicSide | None = None
    late: tuple[LateJoin, ...] = ()

    def find(self, node: exp.Column, context: Context) -> Column:
        """Returns the one column that the name means; raises UnknownNameError or, if two fit, UnsupportedQueryError."""
        name, table = node.this, node.args.get("table")
        if node.args.get("db") is not None and not is_schema(node, context.catalog):
            raise context.refuse(UnknownNameError, f"column {node.sql()} does not exist", node)
        found = [
            column
            for column in self.columns
            if same_name(name, column.name)
            and (column.stored or node.args.get("db") is None)
            and (not column.merged if table is None else bool(column.table and same_name(table, column.table)))
        ]
        if not found:
            names = sorted({column.name for column in self.columns if column.name})
            near = meant(node.name, names)
            if not near and name.quoted and table is None:
                near = f"A text has single quotes: {exp.Literal.string(node.name).sql()}. "
            advice = f"{near}Columns here: {', '.join(names[:12])}." if names else near.rstrip()
            raise context.refuse(UnknownNameError, f"column {node.sql()} does not exist", node, advice)
        if len({column.id for column in found}) > 1:
            raise context.unsupported(f"column {node.sql()} is ambiguous", node, "Write the table's name before it.")
        return Column(id=found[0].id, type=found[0].type, span=span_of(node, context.text))


SCHEMAS = ("public", "main")
"""Names of the schema that every table is in."""


def is_schema(node: exp.Table | exp.Column, catalog: Catalog) -> bool:
    """Whether the schema and catalog before a table's name, if any, are those that every table has, or the dataset."""
    schema, database = node.args.get("db"), node.args.get("catalog")
    is_dataset = schema is not None and database is None and fold(schema.name) == fold(catalog.dataset)
    is_here = schema is None or is_dataset or schema.name.casefold() in SCHEMAS
    return is_here and (database is None or fold(database.name) == fold(catalog.dataset))


def same_name(identifier: exp.Expression, name: str) -> bool:
    """Whether an identifier of the query means a declared or given name: exact if quoted, else in any case."""
    written = identifier.name
    return written == name if identifier.args.get("quoted") else written.casefold() == name.casefold()


def with_names(clause: exp.Expression, items: Sequence[tuple[str, exp.Expression]], scope: Scope) -> exp.Expression:
    """Returns the condition of HAVING or QUALIFY: a name that is not a column of FROM means a column of the select
    list."""
    visible = {column.name.casefold() for column in scope.columns}
    trees = {name.casefold(): tree for name, tree in reversed(items)}

    def named(node: exp.Expression) -> exp.Expression:
        plain = isinstance(node, exp.Column) and not node.args.get("table")
        if not plain or node.name.casefold() in visible or node.name.casefold() not in trees:
            return node
        if node.find_ancestor(exp.Select, exp.SetOperation) is not None:
            return node  # a name of a query within the condition
        return exp.Paren(this=trees[node.name.casefold()].copy())

    changed: exp.Expression = clause.copy().transform(named, copy=False)
    changed.parent = clause.parent  # its place in the text
    inner: exp.Expression = changed.this
    return inner


@dataclass(slots=True, kw_only=True)
class Context:
    """What one query shares: its text, the catalog, the boundaries found so far, fresh ids, and how large it has grown.

    A short text can mean a plan of exponential size: common tables that read others twice, columns computed from
    columns, conditions that repeat their operand. Hence the limits on what a text grows into.
    """

    text: str
    catalog: Catalog
    dialect: str = "postgres"
    boundaries: list[Aggregate] = field(default_factory=list)
    families: list[tuple[int, ...]] = field(default_factory=list)
    counter: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    started: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    reads_clock: bool = False
    """Whether the query's meaning depends on when it is asked."""
    sizes: dict[str, int] = field(default_factory=dict)
    parts: int = 0
    total: int = 0
    tables: int = 0
    subqueries: int = 0
    measured: dict[Aggregate, int] = field(default_factory=dict)
    """Sources and keys of the boundaries, in canonical form, and their places."""
    given: tuple[tuple[tuple[Value, ...], ...], ...] = ()
    """The rows of the first steps, where they are answered already; see `steps`."""
    steps: dict[Relation, Relation] = field(default_factory=dict)
    """Relations over released tables that private rows are compared with, by their canonical form, in order."""
    is_shared: bool = False
    """Whether other queries read the same boundaries."""
    is_narrowed: bool = False
    """Whether a boundary has taken the place of one that nothing reads now; see `asked_groups`."""
    can_wait: bool = True
    """Whether joins with released tables may be made after the aggregation; see `late_joins`."""
    outer: Scope | None = None
    """What the next SELECT may read of the query around it, if it is a subquery of an expression."""
    enclosing: list[Scope] = field(default_factory=list)
    """The queries around the one that is being bound."""

    def now(self, node: exp.Expression) -> datetime.datetime:
        """Returns when the query was asked, as the clock of the catalog's zone shows it, UTC where no column declares
        one; the plan then holds for that moment alone."""
        self.reads_clock = True
        local = None if self.catalog.zone is None else wall_clock(self.started, self.catalog.zone or UTC)
        if local is None:
            reason = "the columns of the catalog are read in several time zones, and in which one is now is not said"
            raise self.unsupported(reason, node, "Write a timestamp, such as '2024-03-31 12:00:00'.")
        return local

    def fresh(self) -> str:
        """Returns an id that no other column of the plan has."""
        return f"c{next(self.counter)}"

    def count_parts(self, count: int = 1) -> None:
        """Counts parts of expressions; raises when the query has grown too large."""
        self.parts += count
        if self.parts > MAX_PARTS:
            raise self._too_large()

    def count_table(self, node: exp.Expression) -> None:
        """Counts one table that is read; raises when they are too many."""
        self.tables += 1
        if self.tables > MAX_TABLES:
            raise self.unsupported(f"a query reads at most {MAX_TABLES} tables, each use of a WITH counted", node)

    def count_subquery(self, node: exp.Expression) -> None:
        """Counts one subquery in an expression; raises when they are too many."""
        self.subqueries += 1
        if self.subqueries > MAX_SUBQUERIES:
            reason = f"a query holds at most {MAX_SUBQUERIES} subqueries in expressions, each use of a WITH counted"
            raise self.unsupported(reason, node)

    def take_outer(self) -> Scope | None:
        """Returns what this SELECT may read of the query around it; what stands inside it sees nothing of that."""
        outer, self.outer = self.outer, None
        return outer

    def measure(self, id: str, *expressions: Expression) -> None:
        """Notes how large a computed column is over stored columns; raises when the query has grown too large."""
        size, pending = 1, list(expressions)
        while pending:
            part = pending.pop()
            size += self.sizes.get(part.id, 1) if isinstance(part, Column) else 1
            pending.extend(children(part))
            if self.total + size > MAX_SIZE:
                raise self._too_large()
        self.sizes[id] = size
        self.total += size

    def _too_large(self) -> QueryError:
        return UnsupportedQueryError(
            "the query becomes too large", advice="Repeat fewer expressions, or split the query."
        )

    def refuse(self, kind: type[QueryError], reason: str, node: exp.Expression | None, advice: str = "") -> QueryError:
        """Returns an error at the place of a node, or of the nearest node around it that has a place."""
        return kind(reason, advice=advice, span=self.span_around(node))

    def unsupported(self, reason: str, node: exp.Expression | None, advice: str = "") -> QueryError:
        """Returns the error of what is not supported at the place of a node."""
        return self.refuse(UnsupportedQueryError, reason, node, advice)

    def rows_of_units(self, node: exp.Expression, advice: str = "") -> QueryError:
        """Returns the refusal of a query whose rows would be those of single privacy units."""
        usual = "Aggregate them, for example with COUNT(*), or AVG over a subquery that groups by the unit."
        reason = f"the result would hold rows of single privacy units ({self.catalog.privacy_unit})"
        return self.unsupported(reason, node, advice or usual)

    def span_around(self, node: exp.Expression | None) -> Span | None:
        """Returns the place of a node, or of the nearest node around it that has a place."""
        span, around = None, node
        while around is not None and span is None:
            span = span_of(around, self.text)
            around = around.parent if isinstance(around.parent, exp.Expression) else None
        return span

    def only(self, node: exp.Expression, *known: str) -> None:
        """Raises unless the node carries nothing but the parts named: what is not understood is never ignored."""
        for name, value in node.args.items():
            if name not in known and value not in (None, False, [], ()):
                part = value[0] if isinstance(value, list) else value
                place = part if isinstance(part, exp.Expression) else node
                raise self.unsupported(f"{clause_of(name)} is not supported", place, advised_instead(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonTable:
    """A common table expression: its tree, its column names if it gives any, and the ones it can see itself."""

    tree: exp.Expression
    names: tuple[str, ...]
    reach: Reach


Reach = Mapping[str, CommonTable]
"""Common table expressions in reach, by case-folded name."""
