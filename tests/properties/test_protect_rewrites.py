"""Rewrites of private relations keep the rows of random relations over random tables that are as declared.

Those of `equivalent_relations.py`, `existence.py`, `carrying.py` and `weighing.py`; `test_key_joins.py` does the same
for `joined_owners.py`, `test_engine_rewrites.py` for those of the engine's SQL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from dpquery.plan.expr import Column, Literal
from dpquery.plan.functions import call
from dpquery.plan.keys import Key
from dpquery.plan.logical import Aggregate, Computed, Filter, Project, Relation, Window
from dpquery.plan.types import INT64
from dpquery.planner.protect import equivalent_relations as rules
from dpquery.planner.protect.carrying import carry
from dpquery.planner.protect.equivalent_relations import simpler
from dpquery.planner.protect.existence import asking_existence
from dpquery.planner.protect.weighing import _within_keys
from tests.properties.drawn_relations import CATALOG, Drawn, counted, ids_of

RULES = ("_tested", "_numbered", "_anti", "_compared", "one_table")
"""Functions of `equivalent_relations.py`: another relation where their rule applies, else their argument or None."""
RELATIONS, LEAST = 500, 5
"""How many relations are drawn, and how often each rule applies at least."""


def test_simpler_relations_have_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    applied, chance = Counter[str](), Random(61)

    def counting(name: str, rule: Callable[..., Relation | None]) -> Callable[..., Relation | None]:
        def run(relation: Relation, *rest: Any) -> Relation | None:
            made = rule(relation, *rest)
            applied[name] += made is not None and made is not relation
            return made

        return run

    for name in RULES:
        monkeypatch.setattr(rules, name, counting(name, getattr(rules, name)))
    for _ in range(RELATIONS):
        drawn = Drawn(chance)
        relation = drawn.relation(3)
        made = simpler(relation, CATALOG)
        if made != relation:
            assert ids_of(made) == ids_of(relation)
            assert drawn.answers(made, ids_of(made)) == drawn.answers(relation, ids_of(made))
    assert all(applied[name] >= LEAST for name in RULES), applied


def test_joins_that_ask_for_existence_have_the_same_distinct_rows() -> None:
    applied, chance = 0, Random(32)
    for _ in range(RELATIONS // 3):
        drawn = Drawn(chance)
        relation = drawn.relation(2)
        read = chance.sample(ids_of(relation), chance.choice([1, 1, 2]))
        made = asking_existence(relation, read)
        if made is not relation:
            applied += 1
            assert ids_of(made) == ids_of(relation)
            before, after = drawn.answers(relation, read), drawn.answers(made, read)
            assert [*map(set, after)] == [*map(set, before)]
    assert applied >= LEAST


def test_inner_groups_within_public_keys_have_the_same_rows() -> None:
    applied, chance = Counter[str](), Random(34)
    for _ in range(RELATIONS // 3):
        drawn = Drawn(chance)
        source = drawn.relation(2)
        key, listed = drawn.column(source).id, tuple((value,) for value in chance.sample(range(3), 2))
        inner: Relation = Aggregate(source=source, group_by=(key,), aggregates=(counted(next(drawn.names)),))
        if chance.random() < 0.3:
            partitions = (key, *(drawn.column(source).id for _ in range(chance.choice([0, 1]))))
            inner = Window(source=source, columns=tuple(drawn.ranked(source, each) for each in partitions))
        read = Column(id=key, type=INT64)
        if chance.random() < 0.5:
            renamed = Computed(id=f"k_{next(drawn.names)}", name="", expression=read)
            others = (Column(id=id, type=INT64) for id in ids_of(inner) if id != key)
            shown = (Computed(id=each.id, name="", expression=each) for each in others)
            inner, read = Project(source=inner, columns=(renamed, *shown)), Column(id=renamed.id, type=INT64)
        made = _within_keys(inner, (Key(columns=(read.id,), types=(INT64,), domain=listed),))
        applied[type(inner).__name__] += made is not inner
        kept = [call("in", (read, *(Literal(value=value, type=INT64) for (value,) in listed)))] * 2
        before, after = (Filter(source=each, condition=test) for each, test in zip((inner, made), kept, strict=True))
        assert drawn.answers(after, ids_of(inner)) == drawn.answers(before, ids_of(inner))
    assert all(applied[name] >= LEAST for name in ("Aggregate", "Window", "Project")), applied


def test_carried_weights_change_no_row() -> None:
    applied, chance = Counter[str](), Random(33)
    for _ in range(RELATIONS // 3):
        drawn = Drawn(chance)
        relation = drawn.relation(2)
        carried = carry(relation, CATALOG)
        if carried.ids:
            assert carried.ids <= {*ids_of(carried.relation)}
            assert drawn.answers(carried.relation, ids_of(relation)) == drawn.answers(relation, ids_of(relation))
            forms = {form for form in ("_or_", "_and_") for id in carried.ids if form in id} or {"as it is"}
            applied.update(forms)
    assert all(applied[form] >= LEAST for form in ("_or_", "_and_", "as it is")), applied
