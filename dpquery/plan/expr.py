"""Row-local expressions. Total: on every row each has one value, and none can raise.

What an operation means is written once, in Python, in `plan/functions`; backends translate it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice
from typing import Any, get_args

from dpquery.errors import Span
from dpquery.plan.types import BOOLEAN, PYTHON, Type, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The value of one column; ids are unique in a whole plan, so a name never decides what is meant.

    Whether what is below gives the column is no matter of one node: the binder resolves names, and the gate checks all
    references of what is measured (`check_expressions` in `units/unit_local.py`).
    """

    id: str
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A constant of the query; NULL has the type that its place asks for."""

    value: Value
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.value is not None and self.value.__class__ is not PYTHON[self.type.kind]:
            raise ValueError(f"a literal of the type {self.type} has no value of this class")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operation of the table in `plan/functions` on its arguments.

    `functions.call` makes it, and knows its type; a name that is not in the table is refused there, and at the gate by
    `units/costs.py`.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)
    read: tuple[Column, ...] | None = field(default=None, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The argument read as another type; NULL where it does not fit."""

    argument: Expression
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)
    read: tuple[Column, ...] | None = field(default=None, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The result of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)
    read: tuple[Column, ...] | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.branches or {condition.type for condition, _ in self.branches} != {BOOLEAN}:
            raise ValueError("CASE needs boolean conditions")


Expression = Column | Literal | Call | Cast | Case
"""`read` of those with parts is what `columns_of` found, which follows from the node alone and is looked for once."""


ONE, SEVERAL, PAIRS = "Expression", "tuple[Expression, ...]", "tuple[tuple[Expression, Expression], ...]"
"""The types that a field with parts of an expression may have."""


def _part_fields(kind: type) -> tuple[tuple[str, str], ...]:
    """Returns the fields of a class of expressions that hold expressions, each with its type.

    Raises:
        TypeError: A field holds expressions in another form, where whoever looks through a plan would not find them.
    """
    found = tuple((each.name, str(each.type)) for each in fields(kind) if "Expression" in str(each.type))
    if not {form for _, form in found} <= {ONE, SEVERAL, PAIRS}:
        raise TypeError(f"a field of {kind.__name__} holds expressions in a form that is not known")
    return found


_PARTS: Mapping[type, tuple[tuple[str, str], ...]] = {kind: _part_fields(kind) for kind in get_args(Expression)}


def children(expression: Expression) -> tuple[Expression, ...]:
    """Returns the direct parts of an expression, in the order of its fields; its class alone says which they are."""
    found: list[Expression] = []
    for name, form in _PARTS[type(expression)]:
        held = getattr(expression, name)
        found += (held,) if form == ONE else held if form == SEVERAL else chain.from_iterable(held)
    return tuple(found)


def rebuild(expression: Expression, parts: tuple[Expression, ...]) -> Expression:
    """Returns the expression with its direct parts replaced, in the order of `children`."""
    given, left = dict[str, Any](), iter(parts)
    for name, form in _PARTS[type(expression)]:
        held = getattr(expression, name)
        if form == PAIRS:
            given[name] = tuple([(next(left), next(left)) for _ in held])
        else:
            given[name] = next(left) if form == ONE else tuple(islice(left, len(held)))
    return replace(expression, **given) if given else expression


def size_of(expression: Expression) -> int:
    """Returns how many parts the expression has, itself included."""
    return len(parts_of(expression))


def parts_of(expression: Expression) -> list[Expression]:
    """Returns the expression and all parts of it, an argument before the next one."""
    found, left = [], [expression]
    while left:
        part = left.pop()
        found.append(part)
        if isinstance(part, Call):
            left += reversed(part.arguments)
        elif _PARTS[type(part)]:
            left += reversed(children(part))
    return found


def inner_first(expression: Expression) -> list[Expression]:
    """Returns the parts of an expression, each after its own parts: following them needs no deep recursion."""
    return parts_of(expression)[::-1]


def columns_of(expression: Expression) -> tuple[Column, ...]:
    """Returns every column that the expression reads, in order and with repetitions."""
    if isinstance(expression, Column):
        return (expression,)
    if isinstance(expression, Literal):
        return ()
    if expression.read is None:
        object.__setattr__(expression, "read", tuple([c for c in parts_of(expression) if isinstance(c, Column)]))
        assert expression.read is not None
    return expression.read


def conjuncts(condition: Expression) -> list[Expression]:
    """Returns the parts of an AND, in order; any other expression is its own only part."""
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in conjuncts(argument)]
    return [condition]


def substitute(expression: Expression, values: dict[str, Expression]) -> Expression:
    """Returns the expression with the columns named in `values` replaced by those expressions."""
    if isinstance(expression, Column):
        return values.get(expression.id, expression)
    if isinstance(expression, Literal) or not values:
        return expression
    made: list[Expression] = []
    for part in children(expression):
        if isinstance(part, Column):
            made.append(values.get(part.id, part))
        else:
            made.append(part if isinstance(part, Literal) else substitute(part, values))
    return rebuild(expression, tuple(made))
