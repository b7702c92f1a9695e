"""Quantiles that are chosen together: kept and read as a family, and counted by the levels of their tree."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpquery as dp
from dpquery.kernel.accountant import guarantee_of
from dpquery.kernel.mechanisms import calibrated
from dpquery.kernel.plan import (
    WHOLE_ROW,
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Lattice,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
    Weighing,
)
from dpquery.plan.logical import Scan
from dpquery.reuse.frames import MeasurementFrame, RowWeighing
from dpquery.reuse.releases import Facts, ReleasedMeasure, StoredRelease, from_text, to_text
from dpquery.reuse.stored_choices import drawn_with, read_at_once
from dpquery.units.declarations import Neighbours
from tests.scripted import zero_noise
from tests.unit.reuse.shop import Shop

FREE = dp.PrivacyLoss()
WHOLE = RowWeighing(weighing=Weighing.WHOLE, max_rows=1, column=None, max_groups=None)
QUARTERS = (
    "QUANTILE_CONT(price, 0.25) AS low",
    "MEDIAN(price) AS mid",
    "QUANTILE_CONT(price, 0.75) AS high",
)
TILE = f"SELECT {', '.join(QUARTERS)} FROM sales"
BY_REGION = f"SELECT region, {', '.join(QUARTERS)} FROM sales GROUP BY region"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.parametrize(
    "variant",
    [
        BY_REGION,
        BY_REGION + " ORDER BY mid DESC LIMIT 1",
        BY_REGION + " HAVING MEDIAN(price) > 1",
        f"SELECT region, {', '.join(reversed(QUARTERS))} FROM sales GROUP BY region",
        f"SELECT r, {', '.join(QUARTERS)} FROM (SELECT region AS r, price FROM sales) AS t GROUP BY r",
        f"SELECT {', '.join(QUARTERS)} FROM sales WHERE region = 'east'",
    ],
)
def test_a_family_is_free_when_asked_again(shop: Shop, variant: str) -> None:
    with shop.session() as session:
        session.sql(BY_REGION, epsilon="0.9")
    with shop.session("bob") as other:
        for offer in ("0.9", "0.2"):
            planned, answer = other.explain(variant, epsilon=offer), other.sql(variant, epsilon=offer)
            assert answer.charge == planned.charge == FREE
            assert answer.guarantee == planned.guarantee == dp.PrivacyLoss(epsilon=Fraction(9, 10))
            assert "free, from release 1 of the ledger" in str(planned) and answer.source == "free, from release 1"
            assert {(m.stored, m.together) for m in answer.measurements} == {((1,), 3)}
    assert shop.entries() == 1


def test_the_same_numbers_and_what_was_said_of_them(shop: Shop) -> None:
    with shop.session() as session:
        first, again = session.sql(BY_REGION, epsilon="0.9"), session.sql(BY_REGION, epsilon="0.9")
    assert again.to_arrow() == first.to_arrow()
    assert tuple(replace(m, stored=()) for m in again.measurements) == first.measurements


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (BY_REGION, {"epsilon": "0.91"}),
        (BY_REGION, {"fresh": True}),
        (TILE, {}),
        (BY_REGION.replace("0.75", "0.8"), {}),
        (BY_REGION.replace("sales", "sales WHERE score > 1"), {}),
        (BY_REGION.replace("price", "score"), {}),
        (BY_REGION.replace("price", "CLAMP(price, 0, 50)"), {}),
        (BY_REGION.replace(" AS low", " FILTER (WHERE kind = 'a') AS low"), {}),
    ],
)
def test_another_family_is_charged(shop: Shop, query: str, options: dict[str, object]) -> None:
    with shop.session() as session:
        session.sql(BY_REGION, epsilon="0.9")
        answer = session.sql(query, **{"epsilon": "0.3"} | options)  # type: ignore[arg-type]
    assert answer.charge != FREE
    assert {m.together for m in answer.measurements if not m.stored} <= {0, 3}


def test_a_finer_family_is_bought_whole_and_read_from_then_on(shop: Shop) -> None:
    with shop.session() as session:
        coarse = session.sql(TILE, epsilon="0.5")
        fine = session.sql(TILE, epsilon="2")
        assert fine.charge == fine.guarantee == dp.PrivacyLoss(epsilon=Fraction(2))
        again = session.sql(TILE, epsilon="0.5")
        assert again.to_arrow() == fine.to_arrow() != coarse.to_arrow()
        assert again.source == "free, from release 2" and again.guarantee == fine.guarantee


def test_only_what_stands_beside_is_measured(shop: Shop) -> None:
    with shop.session() as session:
        first = session.sql(TILE, epsilon="2")
        more = TILE.replace(" FROM", ", COUNT(*) AS n FROM")
        planned, answer = session.explain(more, epsilon="1"), session.sql(more, epsilon="1")
        assert answer.charge == planned.charge == dp.PrivacyLoss(epsilon=Fraction(1, 4))
        assert answer.guarantee == planned.guarantee == dp.PrivacyLoss(epsilon=Fraction(9, 4))
        for name in ("low", "mid", "high"):
            assert answer.to_arrow()[name] == first.to_arrow()[name]
        assert session.sql(more, epsilon="1").charge == FREE


def test_a_count_that_is_there_leaves_the_family_whole(shop: Shop) -> None:
    with shop.session() as session:
        session.sql("SELECT COUNT(*) AS n, MEDIAN(price) AS m FROM sales", epsilon="50")
        answer = session.sql(TILE.replace(" FROM", ", COUNT(*) AS n FROM"), epsilon="1")
        assert answer.charge == dp.PrivacyLoss(epsilon=Fraction(3, 4))  # all three, though a finer median is stored
        assert [m.stored for m in answer.measurements] == [(), (), (), (1,)]
        assert [m.together for m in answer.measurements] == [3, 3, 3, 0]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT MEDIAN(price) AS mid FROM sales",
        "SELECT QUANTILE_CONT(price, 0.75) AS high FROM sales",
        "SELECT MEDIAN(price) AS mid, QUANTILE_CONT(price, 0.25) AS low FROM sales",
    ],
)
def test_some_of_a_family_are_free_where_they_err_no_more(shop: Shop, query: str) -> None:
    with shop.session() as session:
        tile = session.sql(TILE, epsilon="2")
        offers = [f"0.{n}" for n in range(1, 10)] + ["1.5", "2"]
        plans = [session.explain(query, epsilon=offer) for offer in offers]
        paid = [session.explain(query, epsilon=offer, fresh=True) for offer in offers]
        known = {m.label: m.error95 for m in tile.measurements}
        for free, bought in zip(plans, paid, strict=True):
            for there, made in zip(free.measurements, bought.measurements, strict=True):
                assert bool(there.stored) is (known[there.label] <= made.error95)
                assert there.error95 == (known[there.label] if there.stored else made.error95)
                assert there.together == (3 if there.stored else 0)
            if all(m.stored for m in free.measurements):
                assert free.charge == FREE and free.guarantee == tile.guarantee  # never less than the family lost
        assert plans[0].charge == FREE != plans[-1].charge
        answer = session.sql(query, epsilon="0.1").to_arrow()
        assert all(answer[name] == tile.to_arrow()[name] for name in answer.column_names)


def test_a_family_is_read_from_a_larger_one(shop: Shop) -> None:
    tenths = ", ".join(f"QUANTILE_CONT(price, 0.{n}) AS q{n}" for n in range(1, 10))
    some = "SELECT QUANTILE_CONT(price, 0.1) AS q1, MEDIAN(price) AS q5, QUANTILE_CONT(price, 0.9) AS q9 FROM sales"
    with shop.session() as session:
        all_nine = session.sql(f"SELECT {tenths} FROM sales", epsilon="4")
        answer = session.sql(some, epsilon="0.2")
        assert answer.charge == FREE and answer.guarantee == all_nine.guarantee
        assert [m.together for m in answer.measurements] == [9, 9, 9]
        assert session.explain(some, epsilon="4").charge == dp.PrivacyLoss(epsilon=Fraction(4))


def test_single_choices_never_make_a_family(shop: Shop) -> None:
    with shop.session() as session:
        for number in QUARTERS:
            session.sql(f"SELECT {number} FROM sales", epsilon="50")
        answer = session.sql(TILE, epsilon="0.3")
        assert answer.charge == dp.PrivacyLoss(epsilon=Fraction(3, 10))


def test_the_same_family_twice_is_counted_once(shop: Shop) -> None:
    with shop.session() as session:
        session.sql(TILE, epsilon="2")
        twice = f"SELECT (SELECT MEDIAN(price) FROM sales) AS m, t.* FROM ({TILE}) AS t"
        answer = session.sql(twice, epsilon="0.1")
        assert answer.charge == FREE and answer.guarantee == dp.PrivacyLoss(epsilon=Fraction(2))
        batch = session.batch(
            [TILE, "SELECT MEDIAN(price) FROM sales", TILE + " HAVING MEDIAN(price) > 0"], epsilon="1"
        )
        assert batch.charge == FREE and batch.guarantee == dp.PrivacyLoss(epsilon=Fraction(2))


def test_weights_of_rows_are_part_of_the_family(tmp_path: Path) -> None:
    shop = Shop(tmp_path, unit="customer")
    with shop.session() as session:
        session.sql(BY_REGION, epsilon="9")
        assert session.explain(BY_REGION, epsilon="9").charge == FREE
        assert session.explain(BY_REGION, epsilon="0.1", max_groups=1).charge == FREE  # of units, and none are counted
        assert session.explain(BY_REGION, epsilon="0.1", max_rows=2).charge != FREE
        assert session.explain(TILE, epsilon="0.1").charge != FREE
        east = TILE.replace("sales", "sales WHERE region = 'east'")
        assert session.explain(east, epsilon="0.1").charge == FREE  # rows weigh the same under any filter
        assert session.explain(east, epsilon="0.1", max_rows=2).charge != FREE


def test_selected_groups_of_a_family(tmp_path: Path) -> None:
    shop = Shop(tmp_path, budget="{epsilon: 1000, delta: 1e-3}")
    query = BY_REGION.replace("region", "town")
    with shop.session() as session:
        first = session.sql(query, epsilon="4", delta="1e-7")
        again = session.sql(query + " ORDER BY mid LIMIT 2", epsilon="4", delta="1e-7")
        assert again.charge == FREE and again.guarantee == first.guarantee and first.guarantee.delta > 0
        assert session.sql(query, epsilon="4", delta="1e-7").to_arrow() == first.to_arrow()
        median = "SELECT town, MEDIAN(price) AS mid FROM sales GROUP BY town"
        one = session.sql(median, epsilon="0.2", delta="1e-8")
        assert one.charge == FREE and one.guarantee == first.guarantee
        assert one.to_arrow()["mid"] == first.to_arrow()["mid"]
        assert session.explain(median, epsilon="4", delta="1e-7").charge != FREE
        assert session.explain(query, epsilon="4", delta="1e-6").charge != FREE


@pytest.mark.parametrize("budget", ["{rho: 100}", "{epsilon: 1000, delta: 1e-3}"])
def test_other_budgets(tmp_path: Path, budget: str) -> None:
    shop = Shop(tmp_path, budget=budget)
    offer = {"rho": "0.2"}
    with shop.session() as session:
        first = session.sql(TILE, **offer)  # type: ignore[arg-type]
        again = session.sql(TILE, **offer)  # type: ignore[arg-type]
        assert again.charge == FREE and again.guarantee == first.guarantee and again.to_arrow() == first.to_arrow()
        more = session.sql(TILE, rho="0.3")
        assert more.charge != FREE and more.guarantee.rho == more.charge.rho == Fraction(3, 10)


def _release(paid: str = "1", targets: tuple[str, ...] = ("1/4", "1/2", "3/4")) -> StoredRelease:
    """Returns what the store keeps of one family, each of whose members paid so much epsilon."""
    share = dp.PrivacyLoss(epsilon=Fraction(paid))
    budgeted = BudgetedAggregate(
        aggregate=_aggregate(targets), noise=(Noise(mechanism=Mechanism.EXPONENTIAL, loss=share),) * len(targets)
    )
    noises = calibrated(budgeted, Neighbours.ADD_REMOVE)
    numbers = np.array([5], dtype=np.int64)
    return StoredRelease(
        entry=1,
        analyst="ann",
        time="now",
        frame=MeasurementFrame(base="b", conditions=(), keys=(), weights=WHOLE),
        facts=Facts(catalog="", covering=(), one_group=True),
        names=((), ()),
        groups=None,
        tau=None,
        delta=Fraction(0),
        parts=tuple(
            ReleasedMeasure(measure=t, noise=n, loss=share, numbers=numbers)
            for t, n in zip(targets, noises, strict=True)
        ),
        families=(tuple((i, Fraction(t)) for i, t in enumerate(targets)),),
    )


def _aggregate(targets: tuple[str, ...]) -> PrivateAggregate:
    on = Lattice(grid=Fraction(1), lower=0, upper=20)
    return PrivateAggregate(
        source=Scan(table="t", columns=(), public=False),
        unit=None,
        keys=(),
        weights=WHOLE_ROW,
        measures=tuple(
            Measure(id=f"q{t}", label="", count=Count.QUANTILE, value="x", lattice=on, target=Fraction(t))
            for t in targets
        ),
    )


def test_a_family_paid_in_epsilon_is_counted_by_levels_in_rho() -> None:
    """Shares of the members would weigh less: three times 1/8, and not twice (3/2)^2 / 8."""
    release, alone = _release(), _aggregate(("1/2",))
    together = drawn_with(alone.measures[0], release, release.parts[1])
    drawn = BudgetedAggregate(
        aggregate=replace(alone, measures=tuple(measure for measure, _ in together)),
        noise=tuple(Noise(mechanism=part.noise.mechanism, loss=part.loss) for _, part in together),
    )
    noise = Noise(mechanism=Mechanism.GAUSSIAN, loss=dp.PrivacyLoss(rho=Fraction(1)))
    count = Measure(id="n", label="", count=Count.ROWS)
    beside = BudgetedAggregate(aggregate=replace(alone, measures=(count,)), noise=(noise,))
    near = Neighbours.ADD_REMOVE
    assert guarantee_of(BudgetedPlan(aggregates=(drawn,)), near) == dp.PrivacyLoss(epsilon=Fraction(3))
    assert guarantee_of(BudgetedPlan(aggregates=(drawn, beside)), near).rho == 1 + 2 * Fraction(9, 4) / 8


def test_families_of_disjoint_filters_stay_in_parallel(shop: Shop) -> None:
    """What was released in parallel guarantees as much when it is read again, whole or in part."""
    filtered = [q.replace(" AS ", f" FILTER (WHERE kind = '{k}') AS {k}_") for k in "ab" for q in QUARTERS]
    with shop.session() as session:
        both = f"SELECT {', '.join(filtered)} FROM sales"
        first = session.sql(both, epsilon="2")
        again = session.sql(both, epsilon="2")
        assert again.charge == FREE and again.guarantee == first.guarantee == dp.PrivacyLoss(epsilon=Fraction(2))
        one = session.sql(f"SELECT {filtered[1]} FROM sales", epsilon="0.2")
        assert one.charge == FREE and one.guarantee == first.guarantee
        rest = session.sql(f"SELECT {', '.join([*filtered[:3], 'COUNT(*) AS n'])} FROM sales", epsilon="0.4")
        assert rest.charge == dp.PrivacyLoss(epsilon=Fraction(1, 10))
        assert rest.guarantee == dp.PrivacyLoss(epsilon=Fraction(21, 10))


def test_a_family_is_written_and_read() -> None:
    release = _release()
    read = from_text(to_text(release), entry=1, analyst="ann", time="now")
    assert to_text(read) == to_text(release) and read.families == release.families
    assert [part.noise for part in read.parts] == [part.noise for part in release.parts]
    assert [part.noise.divider is not None for part in read.parts] == [False, True, False]
    alone = replace(release, parts=release.parts[:1], families=())
    assert "families" not in json.loads(to_text(alone))
    assert {len(noise) for _, noise, *_ in json.loads(to_text(alone))["parts"]} == {3}


@pytest.mark.parametrize(
    "change",
    [
        {"families": []},
        {"families": [[[0, "1/4"], [1, "1/2"]]]},
        {"families": [[[0, "1/4"], [1, "1/2"], [3, "3/4"]]]},
        {"families": [[[0, "1/4"], [1, "1/2"], [-1, "3/4"]]]},
        {"families": [[[0, "1/4"], [1, "1/2"], [1, "3/4"]]]},
        {"families": [[[0, "1/4"], [1, "1/2"], [True, "3/4"]]]},
        {"families": [[[0, "1/2"], [1, "1/2"], [2, "3/4"]]]},
        {"families": [[[1, "1/2"], [0, "1/4"], [2, "3/4"]]]},
        {"families": [[[1, "1/4"], [0, "1/2"], [2, "3/4"]]]},
        {"families": [[[0, "0"], [1, "1/2"], [2, "3/4"]]]},
        {"families": [[[0, "1/4"], [1, "1/2"], [2, "7777/10007"]]]},
        {"families": [[[0, "1/4"], [1, "1/2"], [2, "1/0"]]]},
        {"families": 3},
    ],
)
def test_a_damaged_family_is_refused(change: dict[str, object]) -> None:
    content = json.loads(to_text(_release())) | change
    with pytest.raises((ValueError, LookupError, TypeError, ArithmeticError)):
        from_text(json.dumps(content), entry=1, analyst="ann", time="now")


@pytest.mark.parametrize(
    ("places", "value"),
    [
        ((1, 0), "laplace"),
        ((2,), ["0", "0", "1"]),
        *(((1, 1), value) for value in ("0", "-1", "x")),
        *(((1, 2), value) for value in (0, 2, "1", True)),
        *(((1, 3), value) for value in ("0", "-1", "x")),
    ],
)
def test_a_damaged_member_is_refused(places: tuple[int, ...], value: object) -> None:
    content = json.loads(to_text(_release()))
    *above, last = places
    part = content["parts"][1]
    for place in above:
        part = part[place]
    part[last] = value
    with pytest.raises((ValueError, LookupError, TypeError, ArithmeticError)):
        from_text(json.dumps(content), entry=1, analyst="ann", time="now")
    content = json.loads(to_text(_release()))
    del content["parts"][1][1][3:]
    with pytest.raises(ValueError):
        from_text(json.dumps(content), entry=1, analyst="ann", time="now")


def test_own_answers_and_none(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with shop.session("ann", reuse="own") as ann, shop.session("bob", reuse="own") as bob:
        ann.sql(TILE, epsilon="1")
        assert bob.sql(TILE, epsilon="1").charge != FREE
        assert ann.sql(TILE, epsilon="1").charge == FREE
    with shop.session(reuse=False) as session:
        assert session.sql(TILE, epsilon="1").charge != FREE


def test_a_family_beside_an_error_that_is_asked(shop: Shop) -> None:
    query = TILE.replace(" FROM", ", COUNT(*) AS n FROM")
    with shop.session() as session:
        first = session.sql(query, error={"n": 20})
        again = session.sql(query, error={"n": 20})
        assert again.charge == FREE and again.to_arrow() == first.to_arrow() and again.guarantee == first.guarantee
        assert first.charge != FREE


def test_too_fine_targets_are_read_from_one_release_or_measured(shop: Shop) -> None:
    """Without the one that is stored, the others would be chosen together, which is not what was planned."""
    odd = "QUANTILE_CONT(price, 0.00048828125)"
    five = TILE.replace(" FROM", f", QUANTILE_CONT(price, 0.1111) AS s, {odd} AS t FROM")
    with shop.session() as session:
        session.sql(f"SELECT {odd} AS t FROM sales", epsilon="50")
        answer = session.sql(five, epsilon="1")
        assert {m.together for m in answer.measurements} == {0}
        assert answer.charge == dp.PrivacyLoss(epsilon=Fraction(1)) == answer.guarantee
        again = session.sql(five, epsilon="1")
        assert again.charge == FREE and again.to_arrow() == answer.to_arrow() and again.guarantee == answer.guarantee
        four = session.sql(five.replace(f", {odd} AS t", ""), epsilon="0.1")  # each of which was chosen alone
        assert four.charge == FREE and four.guarantee == dp.PrivacyLoss(epsilon=Fraction(4, 5))


def test_which_choices_are_read_at_once() -> None:
    quarters = _aggregate(("3/4", "0", "1/4", "1/2")).measures
    assert read_at_once(quarters) == [(1,), (0, 2, 3)]
    assert read_at_once(quarters[:3]) == [(1,), (0,), (2,)]


def test_without_noise_one_of_a_family_is_what_is_chosen_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So what was asked before never changes what a quantile means."""
    zero_noise(monkeypatch)
    for unit in ("row", "customer"):
        with Shop(tmp_path, f"{unit}.ledger", unit=unit).session() as session:
            tile = session.sql(BY_REGION + " ORDER BY 1", epsilon="9").to_arrow()
            for number, name in zip(QUARTERS, ("low", "mid", "high"), strict=True):
                one = f"SELECT region, {number} FROM sales GROUP BY region ORDER BY 1"
                read, chosen = session.sql(one, epsilon="0.5"), session.sql(one, epsilon="0.5", fresh=True)
                assert read.charge == FREE != chosen.charge
                assert read.to_arrow()[name] == chosen.to_arrow()[name] == tile[name]
