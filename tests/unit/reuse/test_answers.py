# mypy: disable-error-code="arg-type, func-returns-value, list-item, operator"
"""Stored answers: what is free, what is charged, and that what is free is the same number."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpquery as dp
from dpquery.accuracy.noise_shapes import variance_of
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism
from dpquery.result.inverse_variance import CombinedNoise, Component, combined, weights_of
from dpquery.reuse import store
from dpquery.reuse.answers import _apart
from dpquery.reuse.cells import Axes
from dpquery.reuse.query_split import Reuse
from dpquery.reuse.releases import StoredRelease, to_text
from dpquery.reuse.store import ReleaseStore
from dpquery.reuse.vector_estimates import Vectors
from dpquery.session import pipeline
from tests.forking import fork
from tests.unit.reuse.shop import CATALOG, ROWS, Shop, sales

BY_REGION = "SELECT region, COUNT(*) AS n, AVG(price) AS mean FROM sales GROUP BY region"
TILES = [
    *(f"SELECT {key}, COUNT(*) AS n FROM sales GROUP BY {key}" for key in ("region", "kind", "site")),
    *(f"SELECT COUNT(*) AS n, SUM(price) AS s FROM sales WHERE score > {low}" for low in range(-5, 5)),
    *(f"SELECT kind, AVG(score) AS mean FROM sales WHERE day >= '2024-0{m}-01' GROUP BY kind" for m in (1, 2, 3, 4)),
    "SELECT region, kind, COUNT(*) AS n FROM sales GROUP BY ROLLUP (region, kind)",
    "SELECT QUANTILE_CONT(price, 0.25) AS a, MEDIAN(price) AS b, QUANTILE_CONT(price, 0.75) AS c FROM sales",
    "SELECT region, STDDEV_SAMP(price) AS s FROM sales GROUP BY region ORDER BY s DESC LIMIT 2",
]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def _refresh(session: dp.Session) -> list[object]:
    return [session.sql(tile, epsilon="0.1").to_arrow() for tile in TILES]


def test_what_is_stored_of_other_rows_is_not_looked_at(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query's work on cells does not grow with how many others were asked before."""
    placed: list[object] = []
    table = Axes.table
    monkeypatch.setattr(Axes, "table", lambda axes, *given: placed.append(given) or table(axes, *given))
    counts = []
    with shop.session() as session:
        for most in range(10, 26):
            placed.clear()
            session.sql(f"SELECT region, COUNT(*) AS n FROM sales WHERE price < {most} GROUP BY region")
            counts.append(len(placed))
    assert 0 < counts[-1] == counts[3]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("region NOT IN ('east', 'west')", "region NOT IN ('west', 'east', 'west')"),
        ("town IN ('a', 'b')", "town IN ('b', 'a')"),
        ("score > 5 AND price < 9", "9 > price AND 5 < score"),
        ("(score > 5 OR price < 9) OR kind = 'a'", "'a' = kind OR (9 > price OR 5 < score)"),
    ],
)
def test_order_and_direction_say_nothing(tmp_path: Path, one: str, other: str) -> None:
    """Clients write lists and conditions from sets, in another order each day."""
    queries = (
        "SELECT SUM(CASE WHEN {} THEN 1 ELSE 0 END) AS n FROM sales",
        "SELECT SUM(price) FILTER (WHERE {}) AS n FROM sales WHERE price > 5",
        "SELECT COUNT(*) AS n FROM (SELECT price FROM sales WHERE {} UNION ALL SELECT price FROM sales) AS t",
    )
    with Shop(tmp_path, unit="customer").session() as session:
        for query in queries:
            first, again = session.sql(query.format(one)), session.sql(query.format(other))
            assert first.charge != again.charge == dp.PrivacyLoss() and again.to_arrow() == first.to_arrow(), query


def test_rows_outside_of_all_public_keys_are_counted_once(shop: Shop) -> None:
    """By the declarations there are none; what was measured of them stays the answer beside groups that tell so."""
    outside = "SELECT SUM(CASE WHEN region NOT IN ('east', 'north', 'west') THEN 1 ELSE 0 END) AS n FROM sales"
    with shop.session() as session:
        session.sql(BY_REGION)
        first, again = session.sql(outside), session.sql(outside)
        assert again.charge == dp.PrivacyLoss() and again.to_arrow() == first.to_arrow()
        assert abs(first.to_arrow()["n"][0].as_py()) < 100


def test_a_dashboard_costs_one_refresh(shop: Shop) -> None:
    """What is bought for later tiles makes earlier ones more accurate; from then on all stay as they are."""
    assert len(TILES) == 20
    with shop.session() as session:
        _refresh(session)
        first = _refresh(session)
        spent, entries = session.remaining, shop.entries()
        for _ in range(3):
            assert _refresh(session) == first
    for analyst in ("ann", "bob"):
        with shop.session(analyst) as other:
            assert _refresh(other) == first
    assert shop.entries() == entries
    assert dp.Ledger.open(shop.path).remaining("ann") == spent


@pytest.mark.slow
def test_a_dashboard_refreshed_a_thousand_times_costs_one_refresh(shop: Shop) -> None:
    with shop.session() as session:
        _refresh(session)
        first, entries = _refresh(session), shop.entries()
        for turn in range(998):
            if turn % 100:
                assert _refresh(session) == first
            else:
                with shop.session("bob") as other:
                    assert _refresh(other) == first
    assert shop.entries() == entries <= 20


@pytest.mark.parametrize(
    "variant",
    [
        BY_REGION.lower(),
        BY_REGION + " ORDER BY n DESC LIMIT 1",
        BY_REGION + " HAVING COUNT(*) > 10",
        "SELECT region AS where_, COUNT(*) FROM sales AS s GROUP BY 1",
        "SELECT region, 2 * AVG(price) - 1 FROM sales GROUP BY region",
        "WITH t AS (SELECT price AS p, region AS r FROM sales) SELECT r, AVG(p) FROM t GROUP BY r",
        "SELECT COUNT(*) FROM sales WHERE region = 'east'",
        "SELECT COUNT(*) FROM sales WHERE region LIKE '%st'",
        "SELECT region, COUNT(*) FROM sales WHERE region IN ('west', 'east') GROUP BY region",
    ],
)
def test_what_is_known_is_free(shop: Shop, variant: str) -> None:
    with shop.session() as session:
        session.sql(BY_REGION, epsilon="0.9")
        planned, answer = session.explain(variant, epsilon="0.1"), session.sql(variant, epsilon="0.1")
    assert answer.charge == planned.charge == dp.PrivacyLoss()
    assert "free, from release 1 of the ledger" in str(planned)
    assert "free" in str(answer)
    assert {m.stored for m in answer.measurements} == {(1,)}
    assert answer.measurements == planned.measurements
    assert shop.entries() == 1


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("SELECT region, COUNT(*) FROM sales WHERE score > 1 GROUP BY region", {}),
        ("SELECT region, COUNT(site) FROM sales GROUP BY region", {}),
        ("SELECT region, AVG(score) FROM sales GROUP BY region", {}),
        ("SELECT region, COUNT(*) FILTER (WHERE kind = 'a') FROM sales GROUP BY region", {}),
        ("SELECT kind, COUNT(*) FROM sales GROUP BY kind", {}),
        ("SELECT COUNT(*) FROM sales WHERE region = 'east' OR score > 1", {}),
        ("SELECT COUNT(*) FROM sales WHERE region = 'south'", {}),
        ("SELECT COUNT(DISTINCT region) FROM sales", {}),
        (BY_REGION, {"fresh": True}),
        (BY_REGION, {"epsilon": "0.91"}),
    ],
)
def test_what_is_not_known_is_charged(shop: Shop, query: str, options: dict[str, object]) -> None:
    with shop.session() as session:
        session.sql(BY_REGION, epsilon="0.9")
        answer = session.sql(query, **{"epsilon": "0.1"} | options)
    assert answer.charge != dp.PrivacyLoss()
    assert shop.entries() == 2


def test_only_what_is_missing_is_charged(shop: Shop) -> None:
    with shop.session() as session:
        first = session.sql("SELECT region, COUNT(*) AS n FROM sales GROUP BY region", epsilon="0.3")
        both = "SELECT region, COUNT(*) AS n, SUM(score) FILTER (WHERE kind = 'a') AS s FROM sales GROUP BY region"
        planned, answer = session.explain(both, epsilon="0.4"), session.sql(both, epsilon="0.4")
        assert answer.charge == planned.charge == dp.PrivacyLoss(epsilon=Fraction(1, 5))
        assert answer.to_arrow()["n"] == first.to_arrow()["n"]
        assert [m.stored for m in planned.measurements] == [(1,), ()]
        assert answer.guarantee == planned.guarantee == dp.PrivacyLoss(epsilon=Fraction(1, 2))
        two = f"SELECT (SELECT COUNT(*) FROM sales) AS n, t.s FROM ({both}) AS t"
        assert session.sql(two, epsilon="0.3").charge == dp.PrivacyLoss()


def test_drilling_up_from_a_released_cube_is_free(shop: Shop) -> None:
    with shop.session() as session:
        cube = session.sql("SELECT region, kind, COUNT(*) AS n, SUM(score) AS s FROM sales GROUP BY region, kind")
        for keys in (["region"], ["kind"], []):
            by = f"GROUP BY {', '.join(keys)}" if keys else ""
            query = f"SELECT {''.join(key + ', ' for key in keys)}COUNT(*) AS n, SUM(score) AS s FROM sales {by}"
            answer = session.sql(query, epsilon="0.1")
            assert answer.charge == dp.PrivacyLoss()
            finer, coarser = cube.to_pandas(), answer.to_pandas()
            expected = finer.groupby(keys)[["n", "s"]].sum() if keys else finer[["n", "s"]].sum().to_frame().T
            assert (abs(coarser[["n", "s"]].to_numpy() - expected.to_numpy()) <= 12).all()  # rounded once each
            wide = (answer.accuracy[("n", "upper")] - answer.accuracy[("n", "lower")]).iloc[0]
            assert wide > (cube.accuracy[("n", "upper")] - cube.accuracy[("n", "lower")]).iloc[0]
        assert session.sql("SELECT COUNT(*) FROM sales WHERE kind = 'a'", epsilon="0.1").charge == dp.PrivacyLoss()
    assert shop.entries() == 1


def test_sums_that_would_be_too_inexact_are_measured(shop: Shop) -> None:
    with shop.session() as session:
        session.sql("SELECT region, kind, COUNT(*) FROM sales GROUP BY region, kind", epsilon="0.1")
        assert session.sql("SELECT COUNT(*) FROM sales", epsilon="0.1").charge != dp.PrivacyLoss()


def test_keys_of_some_rows_do_not_add_up_to_all(shop: Shop) -> None:
    """Months of one part of the year are public here; the groups say nothing of the other rows."""
    with shop.session() as session:
        groups = "SELECT day, COUNT(*) FROM sales WHERE day IN (DATE '2024-02-01', DATE '2024-03-01') GROUP BY day"
        session.sql(groups, epsilon="5")
        assert session.explain("SELECT COUNT(*) FROM sales", epsilon="0.01").charge != dp.PrivacyLoss()
        one = "SELECT COUNT(*) FROM sales WHERE day = DATE '2024-02-01'"
        assert session.explain(one, epsilon="0.01").charge == dp.PrivacyLoss()
        other = "SELECT COUNT(*) FROM sales WHERE day = DATE '2024-04-01'"
        assert session.explain(other, epsilon="0.01").charge != dp.PrivacyLoss()
        both = "SELECT COUNT(*) FROM sales WHERE day IN (DATE '2024-02-01', DATE '2024-03-01')"
        assert session.explain(both, epsilon="0.01").charge == dp.PrivacyLoss()
        narrower = both + " AND day <> DATE '2024-03-01'"
        assert session.explain(narrower, epsilon="0.01").charge == dp.PrivacyLoss()


def test_rows_of_people_add_up_and_people_do_not(tmp_path: Path) -> None:
    shop = Shop(tmp_path, unit="customer")
    with shop.session() as session:
        query = "SELECT region, COUNT(*) AS n, SUM(score) AS s, COUNT(DISTINCT id) AS u FROM sales GROUP BY region"
        first = session.sql(query, epsilon="50").to_pandas()
        both = session.sql("SELECT COUNT(*) AS n, SUM(score) AS s FROM sales", epsilon="0.1")
        assert both.charge == dp.PrivacyLoss()
        assert (abs(both.to_pandas().iloc[0] - first[["n", "s"]].sum()) <= 12).all()  # rounded once each
        east = session.sql("SELECT COUNT(*) AS n FROM sales WHERE region = 'east'", epsilon="0.1")
        assert east.charge == dp.PrivacyLoss()
        assert east.to_pandas()["n"][0] == first.set_index("region")["n"]["east"]
        nested = "SELECT r, COUNT(*) FROM (SELECT price, id AS who, region AS r FROM sales) AS t GROUP BY r"
        assert session.explain(nested, epsilon="0.1").charge == dp.PrivacyLoss()
        for people in (
            "SELECT COUNT(DISTINCT id) FROM sales",
            "SELECT COUNT(DISTINCT id) FROM sales WHERE region = 'east'",
        ):
            assert session.explain(people, epsilon="0.1").charge != dp.PrivacyLoss()
        assert session.explain(query, epsilon="0.1").charge == dp.PrivacyLoss()
        assert session.explain(query, epsilon="0.1", max_groups=1).charge != dp.PrivacyLoss()
        session.sql("SELECT kind, COUNT(DISTINCT id) AS u FROM sales GROUP BY kind", epsilon="50")
        one = "SELECT COUNT(DISTINCT id) FROM sales WHERE kind = 'a'"  # nobody is in more kinds than count
        assert session.explain(one, epsilon="0.1").charge == dp.PrivacyLoss()
        assert session.explain("SELECT COUNT(DISTINCT id) FROM sales", epsilon="0.1").charge != dp.PrivacyLoss()


def test_weights_counted_over_a_relation_are_those_of_no_other(tmp_path: Path) -> None:
    shop = Shop(tmp_path, unit="customer")
    query = "SELECT region, COUNT(*) AS n FROM sales GROUP BY region"
    with shop.session() as session:
        first = session.sql(query, epsilon="50", max_rows=2).to_pandas()
        whole = session.sql("SELECT COUNT(*) AS n FROM sales", epsilon="0.1", max_rows=2)
        assert whole.charge == dp.PrivacyLoss() and whole.to_pandas()["n"][0] == first["n"].sum()
        for options in ({}, {"max_rows": 3}):
            assert session.explain(query, epsilon="0.1", **options).charge != dp.PrivacyLoss()
        east = "SELECT COUNT(*) AS n FROM sales WHERE region = 'east'"
        assert session.explain(east, epsilon="0.1", max_rows=2).charge != dp.PrivacyLoss()


def test_answers_of_another_contract_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path)

    def without_contract(release: StoredRelease) -> str:
        content = json.loads(to_text(release))
        del content["contract"]
        return json.dumps({**content, "bound": [1, 1]})

    with shop.session() as session, monkeypatch.context() as patched:
        patched.setattr(store, "to_text", without_contract)
        session.sql(BY_REGION)
    with shop.session() as session:
        assert len(session.releases) == 0
        assert session.sql(BY_REGION).charge != dp.PrivacyLoss()
        assert len(session.releases) == 1
        assert session.sql(BY_REGION).charge == dp.PrivacyLoss()


def test_more_accuracy_is_added_to_what_was_bought(shop: Shop) -> None:
    query = "SELECT COUNT(*) AS n FROM sales"
    with shop.session() as session:
        coarse = session.sql(query, epsilon="0.04").to_arrow()["n"][0].as_py()
        alone = session.explain(query, epsilon="0.05", fresh=True).measurements[0]
        better = session.sql(query, epsilon="0.05")
        assert better.charge == dp.PrivacyLoss(epsilon=Fraction(1, 20))
        assert better.guarantee == dp.PrivacyLoss(epsilon=Fraction(9, 100))
        assert better.measurements[0].error95 < alone.error95
        assert better.measurements[0].scale < alone.scale
        again = session.sql(query, epsilon="0.05")
        assert again.charge == dp.PrivacyLoss() and again.to_arrow() == better.to_arrow()
        assert again.guarantee == better.guarantee and again.measurements[0].stored == (1, 2)
        assert session.sql(query, epsilon="0.04").to_arrow() == better.to_arrow()
        # two equal ones together are as exact as one of nearly the square root of two times the loss
        assert session.explain(query, epsilon="0.06").charge == dp.PrivacyLoss()
        new = shop.session(reuse=False).sql(query, epsilon="1000").to_arrow()["n"][0].as_py()
    assert abs(coarse - new) < 2000


def test_weights_are_those_of_least_variance() -> None:
    noises = [NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(b)) for b in (30, 60)]
    weights = weights_of([variance_of(noise) for noise in noises])
    assert sum(weights) == 1 and float(weights[0]) == pytest.approx(0.8, abs=1e-3)
    numbers = [np.array([10, 7, -3]), np.array([20, 7, -4])]
    assert combined(numbers, weights).tolist() == [12, 7, -3]
    assert combined([np.array([2**62])] * 2, weights).tolist() == [2**62]
    assert combined([np.array([10**30], dtype=object)] * 2, weights).tolist() == [10**30]


@pytest.mark.parametrize("failure", [Fraction(1, 20), Fraction(1, 1000), Fraction(1, 10**10)])
@pytest.mark.parametrize("laws", [("laplace", "laplace"), ("gaussian", "gaussian"), ("laplace", "gaussian")])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("steps", [1, 4])
def test_half_widths_of_combinations_hold(laws: tuple[str, str], failure: Fraction, count: int, steps: int) -> None:
    """By an exact convolution of small laws, which is another way than the one under test; noise in quarters of a step
    is rounded to whole steps, where the exact numbers stand at any quarter."""
    noises = [
        NoiseLaw(mechanism=Mechanism(law), parameter=Fraction(n), steps=steps)
        for law, n in zip(laws, (3, 8), strict=True)
    ]
    weights = (Fraction(3, 4), Fraction(1, 4))
    law = CombinedNoise(
        components=tuple(Component(noise=n, count=count, weight=w) for n, w in zip(noises, weights, strict=True)),
        rounded=1,
    )
    width = law.half_width(failure)
    for place in range(steps):
        parts = np.ones(1)
        for noise, step in zip(noises, (3, 1), strict=True):
            for _ in range(count):
                parts = np.convolve(parts, _probabilities(noise, step, place))
        middle = len(parts) // 2
        quarters = np.arange(len(parts)) - middle  # of a step, of the weighted sum before it is rounded
        error = np.floor(quarters / 4 + 0.5) - count * place / steps
        assert parts[np.abs(error) > width].sum() <= float(failure)
        if failure == Fraction(1, 20):
            assert parts[np.abs(error) > width * 0.6 - 2 - (count if steps > 1 else 0)].sum() > float(failure)


def _probabilities(noise: NoiseLaw, step: int, place: int) -> np.ndarray:
    """Returns the law of a released number times `step`, around the middle: its exact number is `place` of those parts
    of a lattice step in which its noise is drawn."""
    points = np.arange(-400 * noise.steps, 400 * noise.steps + 1)
    parameter, size = float(noise.parameter), points / noise.steps
    laplace = noise.mechanism is Mechanism.LAPLACE
    density = np.exp(-np.abs(size) / parameter) if laplace else np.exp(-(size**2) / (2 * parameter))
    whole = (points + place + noise.steps // 2) // noise.steps
    spread = np.zeros(2 * 401 * step + 1)
    np.add.at(spread, (whole + 401) * step, density / density.sum())
    return spread


@pytest.mark.parametrize("mechanism", [Mechanism.LAPLACE, Mechanism.GAUSSIAN])
def test_variances_are_those_of_noise_and_rounding(mechanism: Mechanism) -> None:
    noise = NoiseLaw(mechanism=mechanism, parameter=Fraction(9, 2), steps=2**24)
    drawn = (noise.sample(100_000) + 2**23) // 2**24
    assert variance_of(noise) == pytest.approx(float(drawn.var()), rel=0.05)
    whole = NoiseLaw(mechanism=mechanism, parameter=Fraction(9, 2))
    assert variance_of(noise) == pytest.approx(variance_of(whole), rel=0.03)


def test_selected_groups_are_read_from_one_release(tmp_path: Path) -> None:
    shop = Shop(tmp_path, budget="{epsilon: 1000, delta: 1e-3}")
    query = "SELECT town, COUNT(*) AS n FROM sales GROUP BY town"
    with shop.session() as session:
        first = session.sql(query, epsilon="2", delta="1e-7")
        assert session.sql(query + " ORDER BY n LIMIT 2", epsilon="2", delta="1e-7").charge == dp.PrivacyLoss()
        same = session.sql(query, epsilon="1", delta="1e-8")
        assert same.charge == dp.PrivacyLoss() and same.to_arrow() == first.to_arrow()
        assert same.measurements[0].tau == first.measurements[0].tau
        assert same.guarantee.delta == first.guarantee.delta > 0
        assert session.sql(query, epsilon="2", delta="1e-6").charge != dp.PrivacyLoss()
        assert session.sql("SELECT COUNT(*) FROM sales WHERE town = 'town 1'", epsilon="0.1").charge != dp.PrivacyLoss()


def test_selected_groups_are_those_of_the_same_declarations(tmp_path: Path) -> None:
    shop = Shop(tmp_path, budget="{epsilon: 1000, delta: 1e-3}")
    query = "SELECT town, COUNT(*) AS n FROM sales GROUP BY town"
    with shop.session() as session:
        session.sql(query, epsilon="2", delta="1e-7")
    text = CATALOG.replace("town: {type: text}", "town: {type: text, nullable: true}").replace("HIGH", "100")
    for word, meant in {"{BUDGET}": "{epsilon: 1000, delta: 1e-3}", "{UNIT}": "row", "{OWNER}": "unique: []"}.items():
        text = text.replace(word, meant)
    other = dp.Catalog.from_yaml(text.replace("{DATASET}", "shop"))
    for catalog, is_free in ((other, False), (shop.catalog, True)):
        with dp.connect(catalog, {"sales": sales()}, ledger=shop.path, analyst="ann") as session:
            charge = session.explain(query, epsilon="2", delta="1e-7").charge
            assert (charge == dp.PrivacyLoss()) is is_free


def test_it_can_be_turned_off(shop: Shop) -> None:
    with shop.session(reuse=False) as session:
        for _ in range(2):
            assert session.sql(BY_REGION).charge != dp.PrivacyLoss()
    assert not shop.store.exists()
    with shop.session("ann", reuse="own") as ann, shop.session("bob", reuse="own") as bob:
        ann.sql(BY_REGION)
        assert bob.sql(BY_REGION).charge != dp.PrivacyLoss()
        assert ann.sql(BY_REGION).charge == dp.PrivacyLoss()
    with pytest.raises(dp.CatalogError):
        shop.session(reuse="sometimes")


def test_a_spent_budget_still_reads_what_was_paid(tmp_path: Path) -> None:
    shop = Shop(tmp_path, budget="{epsilon: 1}")
    with shop.session() as session:
        first = session.sql(BY_REGION, epsilon="1")
        assert session.remaining == dp.PrivacyLoss()
        assert session.sql(BY_REGION, epsilon="1").to_arrow() == first.to_arrow()
        with pytest.raises(dp.InsufficientBudgetError):
            session.sql(BY_REGION, epsilon="1", fresh=True)
    assert dp.Ledger.open(shop.path).remaining("ann") == dp.PrivacyLoss()


def test_new_data_are_new_answers(shop: Shop) -> None:
    with shop.session() as monday:
        monday.sql(BY_REGION)
        assert monday.sql(BY_REGION).charge == dp.PrivacyLoss()
    dp.Ledger.open(shop.path).new_data_version(by="owner", why="the sales of monday")
    with shop.session(rows=300) as tuesday:
        assert len(tuesday.releases) == 0
        answer = tuesday.sql(BY_REGION)
        assert answer.charge != dp.PrivacyLoss()
        again = tuesday.sql(BY_REGION)
        assert again.charge == dp.PrivacyLoss() and again.to_arrow() == answer.to_arrow()


def test_a_session_answers_for_the_version_that_it_was_opened_with(shop: Shop) -> None:
    """OUT-20: neither what is measured, nor what is stored, nor a plan, mixes rows of two versions."""
    with shop.session() as old:
        old.sql(BY_REGION)
        other = old.for_analyst("bob")
        dp.Ledger.open(shop.path).new_data_version(by="owner", why="other rows")
        spent = dp.Ledger.open(shop.path).spent(None)
        for ask in (
            lambda: old.sql(BY_REGION),
            lambda: old.sql(BY_REGION, fresh=True),
            lambda: other.sql("SELECT COUNT(*) FROM sales"),
            lambda: old.for_analyst("eve").sql("SELECT COUNT(*) FROM sales"),
            lambda: old.batch([BY_REGION]),
            lambda: old.explain(BY_REGION),
            lambda: old.releases,
        ):
            with pytest.raises(dp.DataChangedError, match="Open a new session"):
                ask()
        assert dp.Ledger.open(shop.path).spent(None) == spent
    with shop.session() as new:
        assert new.sql(BY_REGION).charge != dp.PrivacyLoss()


@pytest.mark.parametrize("reuse", [True, False])
def test_a_version_that_changes_just_before_the_charge_is_noticed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, reuse: bool
) -> None:
    """OUT-20: the version is compared where the charge is recorded, so that nothing comes between."""
    with shop.session(reuse=reuse) as old:
        checked = DuckDBBackend.check

        def change(backend: DuckDBBackend) -> None:
            dp.Ledger.open(shop.path).new_data_version(by="owner", why="other rows")
            checked(backend)

        monkeypatch.setattr(DuckDBBackend, "check", change)
        with pytest.raises(dp.DataChangedError, match="nothing was charged"):
            old.sql(BY_REGION)
    assert dp.Ledger.open(shop.path).spent(None) == dp.PrivacyLoss()
    assert not shop.store.exists()


def test_a_version_that_changes_while_the_data_are_opened_is_noticed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = DuckDBBackend.__init__

    def change(backend: DuckDBBackend, *given: Any, **more: Any) -> None:
        made(backend, *given, **more)
        dp.Ledger.open(shop.path).new_data_version(by="owner", why="other rows")

    monkeypatch.setattr(DuckDBBackend, "__init__", change)
    with shop.session(apart=True) as opened, pytest.raises(dp.DataChangedError):
        opened.sql(BY_REGION)


def test_answers_say_where_they_come_from(shop: Shop) -> None:
    with shop.session("ann") as ann, shop.session("bob") as bob:
        bought = ann.sql(BY_REGION, epsilon="0.5")
        assert bought.source == "charged as release 1" and bought.releases == (1,)
        read = bob.sql("SELECT COUNT(*) AS n FROM sales", epsilon="0.1")
        assert read.source == "free, from release 1" and read.releases == (1,) and "free, from release 1" in str(read)
        both = bob.sql(BY_REGION.replace("AVG", "MIN(score), AVG"), epsilon="0.1")
        assert both.source == "charged as release 2, and from release 1" and both.releases == (1, 2)
        finer = bob.sql(BY_REGION, epsilon="0.9")
        assert finer.source == "charged as release 3" and finer.charge == dp.PrivacyLoss(epsilon=Fraction(9, 10))
        assert ann.sql(BY_REGION, epsilon="0.9").source == "free, from releases 1, 3"
        assert bob.sql("SELECT 1 AS one").source == "free"


def test_the_releases_are_a_table(shop: Shop) -> None:
    with shop.session("ann") as ann, shop.session("bob", reuse="own") as bob, shop.session(reuse=False) as none:
        ann.sql(BY_REGION, epsilon="0.5")
        bob.sql("SELECT COUNT(*) FROM sales")
        listed = ann.releases
        assert list(listed.columns) == ["release", "time", "analyst", "groups", "columns", "query", "charge"]
        assert listed["release"].tolist() == [1, 2] and listed["analyst"].tolist() == ["ann", "bob"]
        assert listed["groups"].tolist() == ["region", ""] and listed["charge"].tolist() == ["epsilon 0.5", "epsilon 1"]
        assert listed["query"].tolist() == [BY_REGION, "SELECT COUNT(*) FROM sales"]
        assert "SUM(100 - price)" in listed["columns"][0]
        assert bob.releases["release"].tolist() == [2] and len(none.releases) == 0


def test_the_time_is_part_of_the_question(shop: Shop) -> None:
    query = "SELECT COUNT(*) FROM sales WHERE day < CURRENT_TIMESTAMP"
    with shop.session() as session:
        for _ in range(3):
            assert session.sql(query, epsilon="0.1").charge != dp.PrivacyLoss()


def test_two_who_ask_at_once_pay_once(shop: Shop) -> None:
    session, found = shop.session(), []
    threads = [threading.Thread(target=lambda: found.append(session.sql(BY_REGION).to_arrow())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.close()
    assert len(found) == 6 and all(one == found[0] for one in found) and shop.entries() == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the locks are Linux'")
def test_two_processes_that_ask_at_once_pay_once(shop: Shop) -> None:
    one, other = (ReleaseStore(dp.Ledger.open(shop.path)) for _ in range(2))  # each as that of a process
    came = threading.Event()

    def ask() -> None:
        with other.turn(("1", BY_REGION)):
            came.set()

    waiting = threading.Thread(target=ask)
    with one.turn(("1", BY_REGION)):
        with other.turn(("2", BY_REGION)):
            waiting.start()
        assert not came.wait(0.2)
    waiting.join()
    assert came.is_set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_reads_what_its_parent_bought(shop: Shop) -> None:
    with shop.session() as session:
        first = session.sql(BY_REGION).to_arrow()
        child = fork()
        if child == 0:
            same = session._store is not None and len(session._store.find("1", "", ())) == 0
            repeated = session.sql(BY_REGION + " ORDER BY region")
            os._exit(0 if same and repeated.charge == dp.PrivacyLoss() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert session.sql(BY_REGION).to_arrow() == first


def test_a_lost_store_costs_money_and_nothing_else(shop: Shop) -> None:
    with shop.session() as session:
        session.sql(BY_REGION)
    shop.store.unlink()
    with shop.session() as session:
        assert session.sql(BY_REGION).charge != dp.PrivacyLoss()
        assert session.sql(BY_REGION).charge == dp.PrivacyLoss()


def test_an_answer_that_cannot_be_stored_is_given(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise dp.LedgerError("the disk is full")

    monkeypatch.setattr(ReleaseStore, "add", fail)
    with shop.session() as session, pytest.warns(UserWarning, match="could not be stored"):
        assert math.isfinite(session.sql(BY_REGION).to_arrow()["n"][0].as_py())


def test_keys_that_follow_from_each_other_add_up(shop: Shop) -> None:
    """Quarter and month: 12 groups; by quarter alone, and one month, nothing is charged; what is not there is."""
    cube = "SELECT EXTRACT(QUARTER FROM day) AS q, EXTRACT(MONTH FROM day) AS m, region, COUNT(*) AS n FROM sales"
    with shop.session() as session:
        whole = session.sql(f"{cube} GROUP BY 1, 2, 3", epsilon=1).to_pandas()
        assert len(whole) == 36
        for keys, groups in (("EXTRACT(QUARTER FROM day)", "q"), ("EXTRACT(MONTH FROM day)", "m")):
            part = session.sql(f"SELECT {keys} AS k, COUNT(*) AS n FROM sales GROUP BY 1", epsilon="0.1")
            assert part.charge == dp.PrivacyLoss()
            assert part.to_pandas()["n"].tolist() == whole.groupby(groups)["n"].sum().tolist()
        turned = session.sql(
            "SELECT region, EXTRACT(MONTH FROM day) AS m, EXTRACT(QUARTER FROM day) AS q, COUNT(*) AS n FROM sales"
            " WHERE EXTRACT(QUARTER FROM day) + EXTRACT(MONTH FROM day) < 6 GROUP BY 1, 2, 3",
            epsilon="0.9",
        )
        assert turned.charge == dp.PrivacyLoss()
        merged = turned.to_pandas().merge(whole, on=["region", "m", "q"])
        assert len(merged) == 9 and (merged["n_x"] == merged["n_y"]).all()
        assert (
            session.sql("SELECT EXTRACT(DAY FROM day) AS d, COUNT(*) FROM sales GROUP BY 1").charge != dp.PrivacyLoss()
        )


def test_shared_noise_is_not_followed_as_if_it_were_two(shop: Shop) -> None:
    """Measures whose estimates read one released number have no law of their own; others keep theirs."""
    query = "SELECT AVG(score) AS m FROM sales"
    with shop.session() as session:
        session.sql(query, epsilon=4)
        request = session._request(query, None, dp.Options(epsilon="0.1"))
        reuse = session._stages.reuse(False)
        parts = pipeline.divide(session._stages.prepared((request,), reuse), ledger=session._ledger, reuse=reuse)
        first, second = parts.found[0].estimates
        assert [isinstance(law, NoiseLaw) for law in _apart([first, second])] == [True, True]
        assert all(isinstance(law, CombinedNoise) for law in _apart([first, first]))


def test_no_groups_at_all_are_asked_for_once(shop: Shop) -> None:
    query = "SELECT region, COUNT(*) AS n FROM sales WHERE region = 'east' AND region <> 'east' GROUP BY region"
    with shop.session() as session:
        session.sql(BY_REGION)
        for _ in range(2):
            assert session.sql(query).to_arrow().num_rows == 0
        assert session.sql(query).charge == dp.PrivacyLoss()
        assert session.sql("SELECT COUNT(*) FROM sales", epsilon="0.1").charge == dp.PrivacyLoss()


@pytest.mark.parametrize(
    ("key", "kept", "values"),
    [
        ("EXTRACT(MONTH FROM day)", "day >= DATE '2024-01-01' AND day < DATE '2024-04-01'", [1, 2, 3]),
        ("UPPER(region)", "region IN ('east', 'west')", ["'EAST'", "'WEST'"]),
    ],
)
def test_groups_that_cover_rows_of_a_condition_do_not_cover_all_rows(
    shop: Shop, key: str, kept: str, values: list[object]
) -> None:
    """The condition is on another column than the key, and leaves out rows that are in none of its groups."""
    with shop.session() as session:
        session.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM sales WHERE {kept} GROUP BY {key}", epsilon=50)
        for value in values:
            session.sql(f"SELECT COUNT(*) AS n FROM sales WHERE {key} = {value}", epsilon=50)
        total = session.sql("SELECT COUNT(*) AS n FROM sales", epsilon=10)
        assert total.charge.epsilon == 10 and total.to_arrow()["n"].to_pylist() == pytest.approx([ROWS], abs=10)
        assert session.sql(f"SELECT COUNT(*) AS n FROM sales WHERE {kept}", epsilon=1).charge.epsilon == 0


def test_what_is_made_of_releases_is_kept_until_the_next_one_over_the_same_rows(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases over other rows, of whichever process, leave it as it is."""
    made, plain = list[object](), Reuse.vectors

    def noted(reuse: Reuse, base: str) -> Vectors:
        found = plain(reuse, base)
        made.append(found)
        return found

    def refreshed() -> object:
        made.clear()
        session.sql(BY_REGION, epsilon="0.1")
        return made[0]

    joined = "SELECT COUNT(*) AS n FROM (SELECT 1 AS one FROM sales) AS t JOIN (VALUES (1), (2)) AS v(x) ON x = one"
    with shop.session() as session, shop.session("bob") as other:
        session.sql(BY_REGION, epsilon=1)
        monkeypatch.setattr(Reuse, "vectors", noted)
        first = refreshed()
        other.sql(joined, epsilon=1)
        session.sql(joined, epsilon=2)
        assert refreshed() is first
        other.sql("SELECT COUNT(*) AS n FROM sales WHERE score > 3", epsilon=1)
        assert refreshed() is not first
