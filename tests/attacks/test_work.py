"""Attacks on work (WRK): one person's row is multiplied, or makes long texts, until failure or time tell of it.

Each shape is refused before anything is charged, or takes a bounded number of steps for each stored row.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from benchmarks.shapes import ANSWERED, CATALOG, REFUSED, asked, frames
from dpquery.catalog import Catalog
from dpquery.kernel.work import TEXTS, parts_of, steps_of
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.session import planning
from dpquery.session.options import Request
from dpquery.session.pipeline import plan


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> dp.Session:
    return opened(tmp_path_factory.mktemp("ward"), bit=True)


def opened(folder: Path, *, bit: bool) -> dp.Session:
    catalog = Catalog.from_yaml(CATALOG)
    dp.create_ledger(catalog, folder / "ward.ledger").close()
    return dp.connect(catalog, frames(bit), ledger=folder / "ward.ledger", reuse=False)


@pytest.mark.parametrize("shape", REFUSED)
def test_a_row_that_causes_much_work_is_refused_before_the_charge(ward: dp.Session, shape: str) -> None:
    before = ward.remaining
    for ask in (ward.explain, ward.sql):
        with pytest.raises(dp.QueryError) as refused:
            ask(REFUSED[shape], epsilon="0.1")
        assert refused.value.advice or refused.value.span
    assert ward.remaining == before


@pytest.mark.parametrize("shape", ANSWERED)
def test_a_row_that_causes_little_work_is_answered(ward: dp.Session, shape: str) -> None:
    request = Request(text=asked(shape), offer=QueryBudget.of("0.1", None, None), bounds=ContributionBounds())
    (made,) = plan((request,), catalog=ward.catalog, ledger=ward._ledger, public=ward._backend)
    parts = parts_of(made.budgeted, ward.catalog.declarations, ward._backend)
    assert 0 < steps_of(parts) <= ward.catalog.work
    assert 4 * sum(part.held for part in parts) <= TEXTS


def test_tables_are_joined_in_the_order_of_their_equalities(ward: dp.Session) -> None:
    """However they are listed: rows of two public tables of which nothing equates any are not paired."""
    for listed in ("codes, days, visits", "days, codes, visits", "visits, codes, days"):
        sql = f"SELECT COUNT(*) AS n, SUM(week) AS w FROM {listed} WHERE visits.day = days.day AND v = code"
        ward.explain(sql, epsilon="0.1")
    with pytest.raises(dp.UnsupportedQueryError, match="computed of public tables alone"):
        ward.explain("SELECT COUNT(*) FROM codes, days, visits WHERE v < code AND visits.day = days.day", epsilon="0.1")


def test_the_refusal_says_what_where_and_what_to_write(ward: dp.Session) -> None:
    with pytest.raises(dp.UnsupportedQueryError) as refused:
        ward.explain(REFUSED["cross joins of literals (WRK-01)"], epsilon="1e-9")
    assert "a join makes 3,906,250,000 rows of it" in refused.value.reason
    assert "10,000 are allowed" in refused.value.reason
    assert refused.value.line == 1
    with pytest.raises(dp.UnsupportedQueryError) as refused:
        ward.explain(REFUSED["a self-join"], epsilon="1")
    assert "a join makes 10,000 rows of it" in refused.value.reason
    assert refused.value.advice


def test_the_owner_sets_the_limit(tmp_path: Path) -> None:
    catalog = Catalog.from_yaml(f"work: 100\n{CATALOG}")
    dp.create_ledger(catalog, tmp_path / "l").close()
    with dp.connect(catalog, frames(bit=True), ledger=tmp_path / "l") as session:
        session.explain("SELECT COUNT(*) FROM p WHERE hiv", epsilon="1")
        with pytest.raises(dp.UnsupportedQueryError, match="100 are allowed"):
            session.explain(asked("a regular expression"), epsilon="1")


def test_a_private_table_that_is_not_unique_as_declared_is_refused(tmp_path: Path) -> None:
    """What the bound takes from a declaration is checked, before anybody asks."""
    catalog = Catalog.from_yaml(CATALOG)
    dp.create_ledger(catalog, tmp_path / "l").close()
    twice = frames(bit=True) | {"p": pd.concat([frames(bit=True)["p"]] * 2)}
    with pytest.raises(dp.CatalogError, match="not unique by id"):
        dp.connect(catalog, twice, ledger=tmp_path / "l")


@pytest.mark.parametrize("shape", ["cross joins of literals (WRK-01)", "a self-join", "a counted regular expression"])
def test_the_gate_counts_for_itself(ward: dp.Session, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """WRK-01: what the planner lets pass the gate refuses, before it charges."""
    monkeypatch.setattr(planning, "_require_little_work", lambda plan, catalog, sizes: None)
    before = ward.remaining
    with pytest.raises(dp.InternalError):
        ward.sql(REFUSED[shape] + " AND 1 = 1", epsilon="0.1")
    assert ward.remaining == before
