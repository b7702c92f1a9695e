"""The operations of plans as SQL: how each is written, and which types it takes. Found by asking the binder."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product

import sqlglot
from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.errors import QueryError
from dpquery.plan.expr import Column
from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.logical import Scan, ScanColumn
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, INTERVAL, TEXT, TIMESTAMP, Kind, Type, decimal
from dpquery.sql.bind.expressions import Binder
from dpquery.sql.bind.scope import Context, Scope, Visible

TYPES = (INT64, DECIMAL := decimal(9, 2), FLOAT64, TEXT, BOOLEAN, DATE, TIMESTAMP)
NUMBERS = ("int64", "decimal", "float64")
CLASSES = {
    "number": NUMBERS,
    "text": ("text",),
    "boolean": ("boolean",),
    "date": ("date",),
    "timestamp": ("timestamp",),
}

FURTHER = {
    "clamp": ("CLAMP(a, DATE '2020-01-01', DATE '2020-12-31')", "CLAMP(a, 0.5, 1.5)"),
    "format_date": ("TO_CHAR(a, 'YYYY-MM-DD')",),
    "in": ("a IN ('x', 'y')", "a IN (TRUE)", "a IN (DATE '2020-01-01')"),
    "int_divide": ("a / b",),
    "round": ("ROUND(a)",),
}
"""Other ways to write an operation, where the first shows only some of the types."""

WRITTEN = {"int_divide": ("a / b",)}
"""What the row says in words."""

CATALOG = Catalog(
    dataset="none",
    privacy_unit="row",
    budget={"epsilon": 1},
    tables={"t": {"public": True, "columns": {"a": {"type": "int64"}}}},
)
NOTHING = Scan(table="t", columns=(ScanColumn(id="a", name="a", type=INT64),), public=True)


@cache
def accepted(name: str) -> dict[tuple[str, ...], str]:
    """Returns for each combination of types of a and b that an operation accepts the type of what it gives."""
    found: dict[tuple[str, ...], str] = {}
    for text in (*WRITTEN.get(name, (FUNCTIONS[name].sql,)), *FURTHER.get(name, ())):
        tree = sqlglot.parse_one(f"SELECT {text} FROM t", read="postgres").expressions[0]
        names = sorted({node.name for node in tree.find_all(exp.Column)})
        for types in product(TYPES, repeat=len(names)):
            result = _bound(tree, dict(zip(names, types, strict=True)), name)
            if result is not None:
                found.setdefault(tuple(_name(type) for type in types), result)
    return found


def _bound(tree: exp.Expression, types: dict[str, Type], operation: str) -> str | None:
    columns = tuple(Visible(name=name, table=None, id=name, type=type) for name, type in types.items())
    context = Context(text="", catalog=CATALOG)
    try:
        made = Binder(context, Scope(relation=NOTHING, columns=columns)).bind(tree.copy())
    except QueryError:
        return None
    if isinstance(made, Column) or (operation in ("divide", "int_divide") and made.function != operation):  # type: ignore[union-attr]
        return None
    return _name(made.type)


def _name(type: Type) -> str:
    return "decimal" if type.kind is Kind.DECIMAL else type.kind.value


def arguments_of(name: str) -> str:
    """Returns in words which types an operation takes: `number, number` or `date, int64`."""
    combinations = accepted(name)
    if combinations.keys() == {()}:
        return "none"
    if name == "divide":
        return "number, number; two of int64 are divided as integers"
    patterns = {tuple(_class(part) for part in types) for types in combinations}
    shown = []
    for pattern in product(CLASSES, repeat=len(next(iter(patterns)))):
        if pattern not in patterns:
            continue
        every = set(product(*(CLASSES[part] for part in pattern)))
        given = every & combinations.keys()
        shown += [", ".join(pattern)] if given == every else [_positions(given)]
    singles = {", ".join([kind] * len(pattern)) for kind in CLASSES for pattern in patterns}
    if singles <= set(shown):
        return "any" if len(next(iter(patterns))) == 1 else "any two that compare"
    whole = _positions(combinations)
    return whole if len(shown) > 6 and ";" not in whole else "; ".join(shown)


def _positions(given: Iterable[tuple[str, ...]]) -> str:
    """Returns `int64 or decimal, int64` where every combination of these is accepted, else each combination."""
    combinations = sorted(given, key=lambda types: [_place(t) for t in types])
    sets = [sorted(set(position), key=_place) for position in zip(*combinations, strict=True)]
    if set(product(*sets)) == set(combinations):
        return ", ".join(_either(position) for position in sets)
    return "; ".join(", ".join(types) for types in combinations)


def _either(types: list[str]) -> str:
    left_out = [_name(type) for type in TYPES if _name(type) not in types]
    return f"any but {left_out[0]}" if len(left_out) == 1 else " or ".join(types)


def _place(type: str) -> int:
    return [_name(t) for t in (*TYPES, INTERVAL)].index(type)


def _class(type: str) -> str:
    return next(name for name, members in CLASSES.items() if type in members)


def result_of(name: str) -> str:
    """Returns in words which types an operation gives."""
    found = sorted(set(accepted(name).values()), key=_place)
    same = all(result == types[0] for types, result in accepted(name).items() if types)
    if len(found) > 2 and same:
        return "the same type"
    if len(found) == len(TYPES):
        return "their common type"
    return " or ".join(found) if len(found) < 3 else f"{', '.join(found[:-1])} or {found[-1]}"
