"""The language of plans: its nodes never change, can be compared and hashed, and are looked through by one function."""

from __future__ import annotations

import dataclasses
import datetime
import re
from typing import Any, get_args

import pytest

from dpquery.kernel import measures
from dpquery.kernel import plan as private
from dpquery.plan import expr, keys, logical, scaled_weights, scan, strata, window_functions
from dpquery.plan.logical import Filter, OutputColumn, Relation, Values, sources, with_sources
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, Type
from dpquery.units.locality import locality
from dpquery.units.unit_local import NotUnitLocal

MODULES = (expr, keys, logical, scaled_weights, scan, strata, window_functions, measures, private)
NODES = sorted(
    {
        found
        for module in MODULES
        for found in vars(module).values()
        if isinstance(found, type) and dataclasses.is_dataclass(found) and found.__module__.startswith("dpquery.")
    },
    key=lambda node: node.__name__,
)
MUTABLE = re.compile(r"\b(?:list|dict|set|bytearray|deque|Sequence|Mapping|Iterable|Callable|NDArray)\b")


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.__name__)
def test_nodes_are_frozen_and_hold_tuples(node: Any) -> None:
    assert node.__dataclass_params__.frozen and node.__hash__ is not None
    assert [field.name for field in dataclasses.fields(node) if MUTABLE.search(str(field.type))] == []


def test_every_relation_is_looked_through_by_its_fields() -> None:
    leaf = Values(columns=(OutputColumn(id="a", name="a", type=INT64),), rows=())
    other = Values(columns=(OutputColumn(id="b", name="b", type=INT64),), rows=())
    for kind in get_args(Relation):
        named = [field.name for field in dataclasses.fields(kind) if field.type == "Relation"]
        made = object.__new__(kind)
        for name in named:
            object.__setattr__(made, name, leaf)
        assert sources(made) == (leaf,) * len(named)
    both = logical.Join(left=leaf, right=leaf, kind="cross", equalities=())
    assert sources(with_sources(both, (other, leaf))) == (other, leaf)
    assert with_sources(leaf, ()) is leaf


def test_a_node_that_hides_relations_is_refused() -> None:
    hiding = dataclasses.make_dataclass("Hiding", [("inputs", "tuple[Relation, ...]")], frozen=True)
    with pytest.raises(TypeError, match="a field of Hiding holds relations"):
        logical._inputs(hiding)
    assert logical._inputs(dataclasses.make_dataclass("Both", [("under", "Relation"), ("also", "Relation")])) == (
        "under",
        "also",
    )
    with pytest.raises(ValueError):
        with_sources(
            Filter(source=logical.Released(index=0, columns=()), condition=expr.Literal(value=True, type=BOOLEAN)),
            (),
        )


def test_every_expression_is_looked_through_by_its_fields() -> None:
    a, b, c = (expr.Column(id=name, type=INT64) for name in "abc")
    yes = expr.Column(id="yes", type=BOOLEAN)
    made: dict[expr.Expression, tuple[expr.Expression, ...]] = {
        a: (),
        expr.Literal(value=1, type=INT64): (),
        expr.Call(function="add", arguments=(a, b), type=INT64): (a, b),
        expr.Cast(argument=a, type=INT64): (a,),
        expr.Case(branches=((yes, a), (yes, b)), otherwise=c, type=INT64): (yes, a, yes, b, c),
    }
    assert {type(one) for one in made} == {*get_args(expr.Expression)}
    for one, parts in made.items():
        assert expr.children(one) == parts and expr.rebuild(one, parts) == one
    moved = expr.rebuild(expr.Case(branches=((yes, a),), otherwise=b, type=INT64), (yes, b, c))
    assert expr.children(moved) == (yes, b, c)
    with pytest.raises(TypeError, match="a field of Hiding holds expressions"):
        expr._part_fields(dataclasses.make_dataclass("Hiding", [("parts", "list[Expression]")]))


def test_a_node_of_no_known_kind_is_refused() -> None:
    leaf = Values(columns=(OutputColumn(id="a", name="a", type=INT64),), rows=())
    wrong: Any = "sideways"
    with pytest.raises(ValueError, match="sideways is no kind of join"):
        logical.Join(left=leaf, right=leaf, kind=wrong, equalities=())
    with pytest.raises(ValueError, match="sideways is no set operation"):
        logical.SetOperation(left=leaf, right=leaf, kind=wrong, columns=())
    with pytest.raises(ValueError, match="sideways is no window function"):
        logical.WindowColumn(
            id="w",
            name="w",
            function=wrong,
            arguments=(),
            filter=None,
            partition_by=(),
            order_by=(),
            frame=None,
            type=INT64,
        )
    with pytest.raises(ValueError, match="sideways is no kind of type"):
        Type(wrong)
    with pytest.raises(ValueError, match="no other mode is known"):
        logical.Frame(mode=wrong, start=0, end=0)
    with pytest.raises(ValueError, match="numbered from 0"):
        logical.Released(index=-1, columns=())


@pytest.mark.parametrize(
    ("value", "type"),
    [("1", INT64), (True, INT64), (1, FLOAT64), (1, BOOLEAN), (1.0, TEXT), (datetime.datetime(2020, 1, 1), DATE)],
)
def test_constants_have_values_of_their_types(value: Any, type: Type) -> None:
    with pytest.raises(ValueError, match=f"a literal of the type {type}"):
        expr.Literal(value=value, type=type)
    column = OutputColumn(id="a", name="a", type=type)
    with pytest.raises(ValueError, match="have the types of its columns"):
        Values(columns=(column,), rows=((None,), (value,)))
    assert Values(columns=(column,), rows=((None,),)) and expr.Literal(value=None, type=type)


@pytest.mark.parametrize("rows", [[(1,)], ([1],), ((1, 2),), ((),)])
def test_a_literal_table_is_made_of_tuples_of_its_columns(rows: Any) -> None:
    with pytest.raises(ValueError, match="a tuple with a value for each column"):
        Values(columns=(OutputColumn(id="a", name="a", type=INT64),), rows=rows)


def test_relations_hold_tuples() -> None:
    """What is in a list could change after a plan was checked."""
    wrong: Any = []
    leaf = Values(columns=(OutputColumn(id="a", name="a", type=INT64),), rows=())
    window = window_functions.WindowColumn(
        id="w",
        name="w",
        function="row_number",
        arguments=(),
        filter=None,
        partition_by=(),
        order_by=(),
        frame=None,
        type=INT64,
    )
    for make in (
        lambda: logical.Project(source=leaf, columns=wrong),
        lambda: logical.Join(left=leaf, right=leaf, kind="cross", equalities=wrong),
        lambda: logical.Aggregate(source=leaf, group_by=wrong, aggregates=()),
        lambda: logical.Aggregate(source=leaf, group_by=(), aggregates=wrong),
        lambda: logical.Sort(source=leaf, keys=wrong),
        lambda: logical.Window(source=leaf, columns=wrong),
        lambda: logical.SetOperation(kind="except", left=leaf, right=leaf, columns=wrong),
        lambda: dataclasses.replace(window, arguments=wrong),
        lambda: dataclasses.replace(window, partition_by=wrong),
        lambda: dataclasses.replace(window, order_by=wrong),
    ):
        with pytest.raises(ValueError, match="tuple"):
            make()


def test_columns_that_nothing_gives_are_refused_by_the_gate() -> None:
    """No constructor can look that far without a longer walk; `names_resolve` looks after each pass in the tests."""
    read = Values(columns=(OutputColumn(id="a", name="a", type=INT64),), rows=())
    declared: Any = None  # is not asked about literal tables
    nobody = expr.Column(id="nobody", type=BOOLEAN)
    project = logical.Project(source=read, columns=(logical.Computed(id="x", name="x", expression=nobody),))
    for relation in (Filter(source=read, condition=nobody), project):
        with pytest.raises(NotUnitLocal, match="column nobody of type boolean is not given"):
            locality(relation, declared)
