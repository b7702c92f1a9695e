"""Relations as data: the relational algebra that queries become.

Every node says which columns it gives, each with an id that is unique in the whole plan. A relation is below the
privacy boundary (over private tables) or above it (over released and public tables); the nodes are the same.
A node refuses kinds and values that it cannot have; that its source gives what it reads is for `units/locality.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from operator import attrgetter
from typing import Any, get_args
from typing import Literal as OneOf

from dpquery.errors import Span
from dpquery.plan.aggregates import AggregateFunction, aggregate_named
from dpquery.plan.cached import cached
from dpquery.plan.expr import Column, Expression
from dpquery.plan.scaled_weights import Scaled as Scaled
from dpquery.plan.scan import LARGEST_ROW_LIMIT as LARGEST_ROW_LIMIT
from dpquery.plan.scan import LONGEST_OWNER as LONGEST_OWNER
from dpquery.plan.scan import LONGEST_TEXT as LONGEST_TEXT
from dpquery.plan.scan import ROW_LIMIT as ROW_LIMIT
from dpquery.plan.scan import Ownership as Ownership
from dpquery.plan.scan import OwnerStep as OwnerStep
from dpquery.plan.scan import Scan as Scan
from dpquery.plan.scan import ScanColumn as ScanColumn
from dpquery.plan.strata import Strata as Strata
from dpquery.plan.types import BOOLEAN, INT64, Type, Value, are_values
from dpquery.plan.window_functions import Frame as Frame
from dpquery.plan.window_functions import FrameMode as FrameMode
from dpquery.plan.window_functions import SortKey as SortKey
from dpquery.plan.window_functions import WindowColumn as WindowColumn

_ID = attrgetter("id")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputColumn:
    """A column that a relation gives."""

    id: str
    name: str
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The rows for which the condition is true."""

    source: Relation
    condition: Expression

    def __post_init__(self) -> None:
        if self.condition.type != BOOLEAN:
            raise ValueError("a filter needs a boolean condition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """An output column: its id, the name a person sees, and how to compute it."""

    id: str
    name: str
    expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One row for each row of the source, with these columns alone."""

    source: Relation
    columns: tuple[Computed, ...]

    def __post_init__(self) -> None:
        _require_columns(self.columns)


JoinKind = OneOf["inner", "left", "right", "full", "cross", "semi", "anti"]
SetKind = OneOf["union_all", "intersect", "intersect_all", "except", "except_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Pairs of rows for which every equality holds (NULL equals nothing) and the condition, if any, is true."""

    left: Relation
    right: Relation
    kind: JoinKind
    equalities: tuple[tuple[Expression, Expression], ...]
    """(expression over the left side, expression over the right side), of the same type"""
    condition: Expression | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(JoinKind):
            raise ValueError(f"{self.kind} is no kind of join")
        _require_tuples(self.equalities)
        for left, right in self.equalities:
            if left.type != right.type:
                raise ValueError("a join compares expressions of the same type")
        if self.condition is not None and self.condition.type != BOOLEAN:
            raise ValueError("a join needs a boolean condition")


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateColumn:
    """One aggregate; its arguments and its filter are expressions over the source of the aggregation.

    `second` is the other argument of aggregates of two (`corr(argument, second)`); `fraction` is the p of
    `quantile_cont` and `quantile_disc`.
    """

    id: str
    name: str
    function: AggregateFunction
    argument: Expression | None
    filter: Expression | None
    type: Type
    second: Expression | None = None
    fraction: Fraction | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "function", aggregate_named(str(self.function)))  # no other is an aggregate


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One row for each group of equal keys (one row in all where there are no keys). NULL is a key like others.

    `group_by` names columns of the source by id; they keep their ids. Without aggregates it is DISTINCT. `spans` are
    the places of the keys in the query's text, as far as they are known.
    """

    source: Relation
    group_by: tuple[str, ...]
    aggregates: tuple[AggregateColumn, ...]
    spans: tuple[Span | None, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        _require_columns(self.aggregates, self.group_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """The rows of the source in an order. Only above the boundary."""

    source: Relation
    keys: tuple[SortKey, ...]

    def __post_init__(self) -> None:
        _require_tuples(self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most `count` rows after the first `offset`. Only above the boundary."""

    source: Relation
    count: int | None
    offset: int = 0

    def __post_init__(self) -> None:
        if self.offset < 0 or (self.count is not None and self.count < 0):
            raise ValueError("a limit keeps and leaves out at least no row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The rows of the source with more columns."""

    source: Relation
    columns: tuple[WindowColumn, ...]

    def __post_init__(self) -> None:
        _require_columns(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """A column of a set operation, and the ids of the columns of its type that it takes its values from."""

    id: str
    name: str
    type: Type
    left: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperation:
    """Rows of two relations put together; rows are equal where all columns are equal or both NULL."""

    kind: SetKind
    left: Relation
    right: Relation
    columns: tuple[Matched, ...]

    def __post_init__(self) -> None:
        if self.kind not in get_args(SetKind):
            raise ValueError(f"{self.kind} is no set operation")
        _require_columns(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """A literal table: public.

    `is_sample`: its rows stand for as many that an earlier step of the query will release. Their values say nothing,
    and nothing is measured of such a plan.
    """

    columns: tuple[OutputColumn, ...]
    rows: tuple[tuple[Value, ...], ...]
    is_sample: bool = False

    def __post_init__(self) -> None:
        made_of = {type(row) for row in (self.columns, self.rows, *self.rows)}
        if made_of != {tuple} or {len(row) for row in self.rows} - {len(self.columns)}:
            raise ValueError("each row of a literal table is a tuple with a value for each column")
        by_column = zip(self.columns, zip(*self.rows, strict=True), strict=bool(self.rows))
        if any(not are_values(values, column.type) for column, values in by_column):
            raise ValueError("values of a literal table have the types of its columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The noisy table number `index` of the query. Only above the boundary; what follows is post-processing."""

    index: int
    columns: tuple[OutputColumn, ...]

    def __post_init__(self) -> None:
        if self.index < 0:
            raise ValueError("noisy tables are numbered from 0")


Relation = Scan | Values | Filter | Project | Join | SetOperation | Aggregate | Window | Sort | Limit | Released


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """What an answer leaves out: the groups of fewer than `least` people by a released count, or a total of fewer."""

    groups: Relation
    least: int
    is_total: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalPlan:
    """A query, split at the privacy boundary.

    Attributes:
        boundaries: The lowest aggregations over private rows; number i is read above as `Released(index=i)`.
        result: What is computed from released and public tables, in order; its columns are the answer's.
        steps: How many steps have to be answered before this plan is known; 0 where it is.
        families: Boundaries of one GROUP BY with several grouping sets, as their numbers. They have the same source and
            the aggregates of that GROUP BY; a boundary that other parts of the query read too may have more.
        reads_clock: Whether the plan holds for the moment alone at which the query was asked.
        withheld: What `result` leaves out because of few people, where the catalog wants it.
    """

    boundaries: tuple[Aggregate, ...]
    result: Relation
    families: tuple[tuple[int, ...], ...] = ()
    reads_clock: bool = False
    steps: int = 0
    withheld: tuple[Withheld, ...] = ()

    def __post_init__(self) -> None:
        if self.families and {index for family in self.families for index in family} - {*range(len(self.boundaries))}:
            raise ValueError("a family has boundaries of its plan")


def _inputs(kind: type) -> tuple[str, ...]:
    """Returns the fields of a node that hold relations, in order.

    Raises:
        TypeError: A field holds relations in another form, where whoever looks through a plan would not find them.
    """
    forms = {field.name: str(field.type) for field in fields(kind)}
    found = tuple(name for name, form in forms.items() if "Relation" in form)
    if any(forms[name] != "Relation" for name in found):
        raise TypeError(f"a field of {kind.__name__} holds relations, but is not one Relation")
    return found


_INPUTS: Mapping[type, tuple[str, ...]] = {kind: _inputs(kind) for kind in get_args(Relation)}


def sources(relation: Relation) -> tuple[Relation, ...]:
    """Returns the direct inputs of a relation, left before right; its class alone says which they are."""
    return tuple(map(relation.__getattribute__, _INPUTS[type(relation)]))


@cached
def output(relation: Relation) -> tuple[OutputColumn, ...]:
    """Returns the columns that a relation gives, in order; of a scan last its unit, if not a column, and weights."""
    match relation:
        case Scan():
            given = tuple([OutputColumn(id=c.id, name=c.name, type=c.type) for c in relation.columns])
            unit, owner = relation.unit, relation.ownership
            if unit is not None and owner is not None and unit not in {c.id for c in given}:
                given = (*given, OutputColumn(id=unit, name="", type=owner.type))
            held = [relation.weight, *(scaled.id for scaled in relation.scaled)]
            return given + tuple(OutputColumn(id=id, name="", type=INT64) for id in held if id is not None)
        case Released() | Values():
            return relation.columns
        case Project():
            return tuple([OutputColumn(id=c.id, name=c.name, type=c.expression.type) for c in relation.columns])
        case Join():
            left = output(relation.left)
            return left if relation.kind in ("semi", "anti") else left + output(relation.right)
        case SetOperation():
            return tuple(OutputColumn(id=c.id, name=c.name, type=c.type) for c in relation.columns)
        case Window():
            made = tuple(OutputColumn(id=c.id, name=c.name, type=c.type) for c in relation.columns)
            return output(relation.source) + made
        case Aggregate():
            by_id = {column.id: column for column in output(relation.source)}
            keys = tuple(by_id[id] for id in relation.group_by)
            return keys + tuple(OutputColumn(id=a.id, name=a.name, type=a.type) for a in relation.aggregates)
        case Filter() | Sort() | Limit():
            return output(relation.source)


def with_sources(relation: Relation, given: tuple[Relation, ...]) -> Relation:
    """Returns the relation with its direct inputs replaced, in the order of `sources`."""
    made: dict[str, Any] = dict(zip(_INPUTS[type(relation)], given, strict=True))
    return replace(relation, **made) if made else relation


def column(relation: Relation, id: str) -> Column:
    """Returns an expression that reads a column of the relation by its id."""
    return Column(id=id, type={given.id: given.type for given in output(relation)}[id])


def is_private(relation: Relation) -> bool:
    """Whether private rows are read under this relation without a release in between."""
    return (isinstance(relation, Scan) and not relation.public) or any(map(is_private, sources(relation)))


def _require_tuples(*held: object) -> None:
    if any(type(one) is not tuple for one in held):
        raise ValueError("a node holds tuples: what may change is no part of a plan")


def _require_columns(columns: tuple[Any, ...], keys: tuple[str, ...] = ()) -> None:
    ids = [*keys, *map(_ID, columns)]
    if not type(columns) is type(keys) is tuple or len({*ids}) < len(ids):
        raise ValueError("a relation has a tuple of columns, with ids of their own")
