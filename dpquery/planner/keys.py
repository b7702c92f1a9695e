"""Group keys: for each, the public values that follow from the declarations and the query, or none.

A key without public values makes its groups selected.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import assert_never

from dpquery.catalog import Catalog
from dpquery.kernel.selection import sort_key
from dpquery.plan.evaluate import evaluate, normal
from dpquery.plan.expr import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    children,
    columns_of,
    conjuncts,
    rebuild,
    size_of,
    substitute,
)
from dpquery.plan.functions import call
from dpquery.plan.intervals import range_of
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
    is_private,
    sources,
)
from dpquery.plan.ranges import EPOCH, Range
from dpquery.plan.remembered import remembered
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TIMESTAMP, Value
from dpquery.planner.definitions import Leaves, definition, ending_of, side_of
from dpquery.planner.narrowing import narrowed
from dpquery.planner.passing import passing, within

MAX_KEYS = 10_000
"""Values that one key's domain may have when it is enumerated."""
MAX_STEPS = 40_000
"""Values that are tried to find such a domain."""

MAX_WORK = 2_000_000
"""Parts of expressions that are evaluated to find the domain of one key."""

PublicValues = Callable[[str, str], tuple[Value, ...]]
"""(public table, column) to the different non-NULL values of the column."""

Domain = tuple[Value, ...]

_DAY = datetime.timedelta(days=1)
_MICROSECONDS = 86_400_000_000
_INTEGRAL = frozenset({"floor", "ceil", "trunc", "round"})


def domain_of(
    id: str, relation: Relation, ranges: dict[str, Range], catalog: Catalog, public: PublicValues
) -> Domain | None:
    """Returns the public values of a grouping column in the order of the result; None if none follow.

    NULL is the last of them where the column can be NULL in a row that passes the query's conditions.

    Args:
        id: The column.
        relation: The relation that gives it.
        ranges: What is known of the columns of the scans under it.
        public: Reads public tables.
    """
    expression, scans = definition(id, relation)
    leaves = {column.id for column in columns_of(expression)}
    known = {leaf: _declared(leaf, scans, ranges, catalog, public) for leaf in leaves}
    for leaf in leaves - scans.keys():
        origin = ending_of(leaf, relation)
        if isinstance(origin, SetOperation):
            known[leaf] = _of_sides(leaf, origin, ranges, catalog, public)
        elif isinstance(origin, Join):
            known[leaf] = domain_of(leaf, side_of(leaf, origin), ranges, catalog, public)
    conditions = tuple(conditions_of(relation))
    domains = tuple(
        (leaf, passing(leaf, (*values, None) if ranges[leaf].nullable else values, conditions))
        for leaf, values in sorted(known.items())
        if values is not None
    )
    tested = ((leaf, within(leaf, ranges[leaf], conditions)) for leaf in leaves if leaf in ranges)
    relevant = tuple(sorted(tested, key=lambda pair: pair[0]))
    found = narrowed(expression, _enumerate(expression, domains, relevant), conditions)
    if found is None or id not in ranges or ranges[id].nullable:
        return found
    return tuple(value for value in found if value is not None)  # of a full join's USING, one side's value is there


def covers_all_rows(id: str, domain: Domain | None, relation: Relation, ranges: dict[str, Range]) -> bool:
    """Whether every row has one of a grouping column's public values, as far as the declarations say.

    NULL is the value that declarations allow and domains may lack.
    """
    if domain is None:
        return False
    expression, _ = definition(id, relation)
    if None in domain or not ranges[id].nullable:
        return True
    return narrowed(expression, (None,), tuple(conditions_of(relation))) == ()


def _of_sides(
    id: str, operation: SetOperation, ranges: dict[str, Range], catalog: Catalog, public: PublicValues
) -> Domain | None:
    """Returns the public values that a column of a set operation takes from its sides."""
    matched = next(column for column in operation.columns if column.id == id)
    left = domain_of(matched.left, operation.left, ranges, catalog, public)
    if operation.kind.startswith("except"):
        return left
    right = domain_of(matched.right, operation.right, ranges, catalog, public)
    if operation.kind.startswith("intersect"):
        return left if right is None else right if left is None else _sorted(v for v in left if v in set(right))
    return None if left is None or right is None else _sorted((*left, *right))


def conditions_of(relation: Relation) -> list[Expression]:
    """Returns what WHERE demands of every row, over the columns of scans."""
    match relation:
        case Filter():
            read = {column.id for column in columns_of(relation.condition)}
            meaning = {id: definition(id, relation.source)[0] for id in read}
            own = conjuncts(substitute(relation.condition, meaning))
            return [*own, *conditions_of(relation.source)]
        case Project() | Aggregate() | Window() | Sort():
            return conditions_of(relation.source)
        case Join(kind="inner" | "cross"):
            return [*_met(relation), *conditions_of(relation.left), *conditions_of(relation.right)]
        case Join(kind="left" | "semi" | "anti"):
            return conditions_of(relation.left)
        case Join() | SetOperation() | Scan() | Values() | Limit() | Released():
            return []
        case _:
            assert_never(relation)


def _met(join: Join) -> list[Expression]:
    """Returns what an inner join demands of private rows that meet others: what is equated is not NULL.

    Nothing is demanded of public rows: where an outer join keeps them, they are keys without a private row.
    """
    private = [is_private(join.left), is_private(join.right)]
    found: list[Expression] = []
    for pair in join.equalities:
        for expression, side, here in zip(pair, (join.left, join.right), private, strict=True):
            if here or not any(private):
                meaning = {column.id: definition(column.id, side)[0] for column in columns_of(expression)}
                found.append(call("is_not_null", (substitute(expression, meaning),)))
    return found


def leaf_ranges(relation: Relation, ranges_of: Callable[[Relation], dict[str, Range]]) -> dict[str, Range]:
    """Returns the ranges of every column given anywhere below, by id."""
    found = ranges_of(relation)
    for source in sources(relation):
        found = leaf_ranges(source, ranges_of) | found
    return found


def _declared(
    leaf: str, scans: Leaves, ranges: dict[str, Range], catalog: Catalog, public: PublicValues
) -> Domain | None:
    """Returns what the catalog declares of a stored column: keys, a public table's values, or a bounded range.

    Of a literal column its values. NULL is left out: the range says whether it is possible.
    """
    scan = scans.get(leaf)
    if scan is None:
        return None
    if isinstance(scan, Values):
        place = next(i for i, column in enumerate(scan.columns) if column.id == leaf)
        return _sorted(normal(row[place]) for row in scan.rows)
    name = next(column.name for column in scan.columns if column.id == leaf)
    declared = catalog.tables[scan.table].columns[name]
    if declared.keys is not None:
        return _ordered(declared.keys)
    if declared.keys_from is not None:
        return _ordered(public(*declared.keys_from))
    if declared.type == BOOLEAN:
        return (False, True)
    if declared.type in (INT64, DATE):
        bounded = _integers(ranges[leaf], MAX_STEPS)
        if bounded is not None:
            return tuple(_as_date(day) for day in bounded) if declared.type == DATE else tuple(bounded)
    return _sorted(public(scan.table, name)) if scan.public else None


@lru_cache(maxsize=256)
def _enumerate(
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
    unique = _sorted(possible)
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
    known = range_of(expression, ranges)
    integers, missing = _integers(known, MAX_KEYS), [None] if known.nullable else []
    if integers is not None and expression.type == INT64:
        return [*integers, *missing]
    if integers is not None and expression.type == FLOAT64 and _is_integral(expression):
        return [*(float(value) for value in integers), *missing]
    stepped = _stepped(expression, ranges, work)
    if stepped is not None:
        return stepped
    return _image(expression, domains, ranges, work)


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
    """Returns the values of a timestamp cut to days or longer: those of one moment on each day of its range."""
    if isinstance(expression, Cast) and expression.type == DATE:
        inner = expression.argument
    elif isinstance(expression, Call) and expression.function == "date_trunc":
        inner = next((part for part in expression.arguments if part.type == TIMESTAMP), expression)
        unit = next((part.value for part in expression.arguments if isinstance(part, Literal)), None)
        if unit not in ("day", "week", "month", "quarter", "year"):
            return None
    else:
        return None
    known = range_of(inner, ranges)
    if inner.type != TIMESTAMP or known.lower is None or known.upper is None:
        return None
    days = _integers(
        Range(lower=known.lower / 86_400_000_000, upper=known.upper / 86_400_000_000), MAX_STEPS, whole=False
    )
    if days is None or not work.allows(expression, len(days)):
        return None
    column = Column(id="moment", type=TIMESTAMP)
    over = rebuild(expression, tuple(column if part is inner else part for part in children(expression)))
    values = [evaluate(over, {"moment": EPOCH + day * _DAY}) for day in days]
    return [*values, None] if known.nullable else values


def _integers(known: Range, most: int, *, whole: bool = True) -> range | None:
    """Returns the integers of a range (or, not `whole`, those around it), or None if they are more than `most`."""
    if known.lower is None or known.upper is None:
        return None
    first = -(-known.lower // 1) if whole else known.lower // 1
    last = known.upper // 1
    return range(int(first), int(last) + 1) if last - first < most else None


def _is_integral(expression: Expression) -> bool:
    if isinstance(expression, Cast) and expression.type == FLOAT64:
        return expression.argument.type == INT64
    return isinstance(expression, Call) and expression.function in _INTEGRAL and len(expression.arguments) == 1


def _as_date(day: int) -> datetime.date:
    return EPOCH.date() + day * _DAY


@remembered
def _ordered(values: tuple[Value, ...]) -> Domain:
    return _sorted(values)


def _sorted(values: Iterable[Value]) -> Domain:
    return tuple(sorted(dict.fromkeys(value for value in values if value is not None), key=sort_key))
