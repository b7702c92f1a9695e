"""Options are the same by name and as one object, and signatures name them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import dpquery as dp
from dpquery.catalog.tables import Defaults
from dpquery.session.options import NAMES, Asked


def test_the_keyword_arguments_are_the_fields() -> None:
    assert tuple(Asked.__annotations__) == NAMES
    assert {one.name: one.type for one in dataclasses.fields(dp.Options)}.keys() == Asked.__annotations__.keys()


@pytest.mark.parametrize("method", [dp.Session.sql, dp.Session.batch, dp.Session.explain], ids=lambda m: m.__name__)
def test_signatures_name_each_option(method: Callable[..., Any]) -> None:
    named = inspect.signature(method).parameters
    assert {name: named[name].default for name in NAMES} == dataclasses.asdict(dp.Options())
    assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in named.values())


def test_what_is_said_by_name_is_in_place_of_what_was_said_before() -> None:
    usual = dp.Options(epsilon="0.1", delta="1e-9", dialect="duckdb")
    assert usual.but(dialect="postgres", epsilon=None) == dp.Options(epsilon="0.1", delta="1e-9")
    assert usual.but(rho=1) == dp.Options(rho=1, delta="1e-9", dialect="duckdb"), "a loss replaces the loss"
    assert usual.but(error=5).epsilon is None and usual.but(fresh=True).epsilon == "0.1"
    assert repr(usual) == "Options(epsilon='0.1', delta='1e-9', dialect='duckdb')"


def test_other_names_are_refused() -> None:
    with pytest.raises(TypeError, match="'eps' is not an option"):
        dp.Options().but(eps=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("asked", [{"weights": {2: 1}}, {"weights": 3}, {"error": {2: 1}}, {"error": {2: (1, 100)}}])
def test_advice_on_amounts_by_column_is_written_with_the_option(asked: dict[str, Any]) -> None:
    (name,) = asked
    with pytest.raises(dp.QueryError) as refused:
        dp.Options(**asked).request("SELECT 1", None, Defaults())
    assert refused.value.advice == f"Write {name}={{'n': 2}}."
