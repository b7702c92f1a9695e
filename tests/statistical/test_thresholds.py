"""Selected groups: what exists through one person alone is shown with at most the charged delta, and not far below it.

Frequencies for deltas of 1e-2 and 1e-3, whole queries with fresh randomness; smaller deltas by the laws themselves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest

import dpquery as dp
from tests.properties.neighbours import folder
from tests.scripted import zero_noise
from tests.statistical.laws import gaussian_probability, plausible
from tests.statistical.tails_of_sums import FALSE_ALARM

CONCENTRATED = {"rho": 1_000_000, "delta": "9/10"}
APPROXIMATE = {"epsilon": 1_000_000, "delta": "9/10"}
SHY = 20
"""A lone person is shown at least with delta / SHY. Whole numbers cost a factor of up to exp(1/b), which is 7 for the
narrowest noise here, and the union bound over several groups next to nothing."""


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    with folder() as name:
        yield name


_numbers = itertools.count()


def session(
    shelf: str,
    rows: list[tuple[int, str]],
    *,
    budget: Mapping[str, object] = CONCENTRATED,
    neighbours: str = "add_remove",
) -> dp.Session:
    """Returns a session over visits, as (person, note)."""
    columns = {"person": {"type": "int64"}, "note": {"type": "text"}}
    tables = {"visits": {"unit": "person", "max_rows": 8, "columns": columns}}
    catalog = dp.Catalog(dataset="d", privacy_unit="person", neighbours=neighbours, budget=budget, tables=tables)
    ledger = dp.Ledger.create(f"{shelf}/{next(_numbers)}", catalog.declarations, catalog.budget, catalog.analysts)
    data = {"person": pa.array([p for p, _ in rows], pa.int64()), "note": pa.array([n for _, n in rows], pa.string())}
    return dp.connect(catalog, {"visits": pa.table(data)}, ledger=ledger, reuse=False)


@cache
def of_nobody(shelf: str, *, neighbours: str = "add_remove", is_approximate: bool = False) -> dp.Session:
    """Returns a session over no rows, of which only plans are asked."""
    return session(shelf, [], budget=APPROXIMATE if is_approximate else CONCENTRATED, neighbours=neighbours)


def lone(people: int, groups: int) -> list[tuple[int, str]]:
    """Returns people who are each alone in so many groups."""
    return [(person, f"{person} {i}") for person in range(people) for i in range(groups)]


TEXT = "SELECT note, COUNT(*) AS n FROM visits GROUP BY note"
"""Selects in rounds where a person may count in several groups."""
AT_ONCE = "SELECT note, COUNT(DISTINCT person) AS n FROM visits GROUP BY note"
"""Shows the number that decides, or where a person may count in eight groups one beside the rounds."""


LONE = {
    "one": ("gaussian", "add_remove", 1, {"rho": "1/20"}),
    "three": ("gaussian", "add_remove", 3, {"rho": "1/20"}),
    "three, replaced": ("gaussian", "replace_one", 3, {"rho": "1/10"}),
    "rounds": ("rounds", "add_remove", 3, {"rho": "1/20"}),
    "rounds, replaced": ("rounds", "replace_one", 4, {"rho": "1/10"}),
    "beside rounds": ("beside", "add_remove", 8, {"rho": "1/5"}),
    "laplace, one": ("laplace", "add_remove", 1, {"epsilon": "1"}),
    "laplace, one, replaced": ("laplace", "replace_one", 1, {"epsilon": "4"}),
    "laplace, three": ("laplace", "add_remove", 3, {"epsilon": "6"}),
}
OFTEN = ("three, replaced", "rounds", "laplace, three")
"""Of each way to select the one that is also tried at the smaller delta, which takes many trials, in each run."""


@pytest.mark.parametrize(
    ("name", "delta", "trials"),
    [
        *((name, Fraction(1, 100), 20_000) for name in LONE),
        *(
            pytest.param(name, Fraction(1, 1000), 100_000, marks=() if name in OFTEN else pytest.mark.slow)
            for name in LONE
        ),
    ],
)
def test_a_lone_person_is_shown_with_at_most_delta(name: str, delta: Fraction, trials: int, shelf: str) -> None:
    """The event is that any of the person's groups is shown. Each person of the data is one trial."""
    (law, neighbours, groups, loss), people = LONE[name], 10_000
    budget, text = APPROXIMATE if law == "laplace" else CONCENTRATED, TEXT if law == "rounds" else AT_ONCE
    opened = session(shelf, lone(people, groups), budget=budget, neighbours=neighbours)
    seen = 0
    for _ in range(trials // people):
        answer = opened.sql(text, **loss, delta=delta, max_groups=groups, max_rows=1)  # type: ignore[arg-type]
        assert {made.mechanism for made in answer.measurements} == {"laplace" if law == "laplace" else "gaussian"}
        assert ("selection" in {made.aggregate for made in answer.measurements}) is (law in ("rounds", "beside"))
        seen += len({note.split()[0] for note in answer.to_arrow()["note"].to_pylist()})
    assert opened._ledger.spent(None).delta == delta * (trials // people)
    assert seen <= trials * delta or plausible(seen, trials, float(delta), FALSE_ALARM), f"{seen} of {trials}"
    least = float(delta) / SHY
    assert seen >= trials * least or plausible(seen, trials, least, FALSE_ALARM), f"{seen} of {trials}: too shy"
    assert not plausible(round(2 * trials * delta), trials, float(delta), FALSE_ALARM), "the test is blind to 2 delta"


@pytest.mark.thinned(2)
@pytest.mark.parametrize("delta", ["1/1000", "1e-6", "1e-9"])
@pytest.mark.parametrize("epsilon", ["1/4", "1/2", "1", "2"])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_tau_of_an_epsilon(groups: int, epsilon: str, delta: str, shelf: str) -> None:
    """tau is the least for which P(1 + noise >= tau) <= delta / groups, by the laws of the integers.

    All of the query's delta is for the selection, or half where Gaussian noise needs the rest. The planner takes the
    law that errs least.
    """
    opened = of_nobody(shelf, is_approximate=True)
    text = "SELECT note, COUNT(DISTINCT person) AS n FROM visits GROUP BY note"
    (made,) = opened.explain(text, epsilon=epsilon, delta=2 * Fraction(delta), max_groups=groups).measurements
    assert made.tau is not None
    if made.mechanism == "laplace":
        assert made.loss.epsilon == Fraction(epsilon)
        shown = [laplace_tail(made.tau - 1 - i, groups / float(Fraction(epsilon))) for i in (0, 1)]
    else:
        shown = [gaussian_tail(made.tau - 1 - i, groups / (2 * float(made.loss.rho))) for i in (0, 1)]
    allowed = float(Fraction(delta)) / groups * (2 if made.mechanism == "laplace" else 1)
    assert shown[0] <= allowed * (1 + 1e-9)
    assert shown[1] > allowed * (1 - 1e-9)


def laplace_tail(k: int, scale: float) -> float:
    """Returns P(noise >= k) for k >= 1, in closed form."""
    return math.exp(-k / scale) / (1 + math.exp(-1 / scale))


def gaussian_tail(k: int, variance: float) -> float:
    """Returns P(noise >= k), summing its terms."""
    return float(gaussian_probability(k + np.arange(0, math.ceil(20 * math.sqrt(variance)) + 5), variance).sum())


@pytest.mark.parametrize(("epsilon", "groups", "published"), [("1", 1, 14.12), ("1/2", 2, 56.26)])
def test_tau_agrees_with_published_figures(epsilon: str, groups: int, published: float, shelf: str) -> None:
    """1 + (g / epsilon) ln(1 / (2 p)) for continuous noise at delta 1e-6; whole numbers need up to one more."""
    opened = of_nobody(shelf, is_approximate=True)
    text = "SELECT note, COUNT(DISTINCT person) AS n FROM visits GROUP BY note"
    (made,) = opened.explain(text, epsilon=epsilon, delta="1e-6", max_groups=groups).measurements
    assert made.mechanism == "laplace"
    assert made.tau is not None
    assert 0 <= made.tau - published <= 1


@pytest.mark.thinned(2)
@pytest.mark.parametrize("delta", ["1/100", "1e-6", "1e-10"])
@pytest.mark.parametrize("rho", ["1/200", "1/8", "2"])
@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_tau_of_gaussian_noise(neighbours: str, groups: int, rho: str, delta: str, shelf: str) -> None:
    """Units move the number of units by 1 in each of g groups, or by 1 in 2 g groups if one replaces another."""
    opened = of_nobody(shelf, neighbours=neighbours)
    text = "SELECT note, COUNT(DISTINCT person) AS n FROM visits GROUP BY note"
    (made,) = opened.explain(text, rho=rho, delta=delta, max_groups=groups).measurements
    variance = groups * (1 if neighbours == "add_remove" else 2) / (2 * float(Fraction(rho)))
    allowed = float(Fraction(delta)) / groups
    assert made.tau is not None
    assert gaussian_tail(made.tau - 1, variance) <= allowed * (1 + 1e-9)
    assert gaussian_tail(made.tau - 2, variance) > allowed * (1 - 1e-9)
    continuous = 1 + math.sqrt(variance) * NormalDist().inv_cdf(1 - allowed)
    assert abs(made.tau - continuous) < 1.5


def test_groups_that_a_person_gave_up_are_never_shown(shelf: str) -> None:
    """Of five lone groups one is kept: never are two of them shown, however large delta is."""
    opened = session(shelf, lone(2000, 5))
    shown = 0
    for _ in range(4):
        answer = opened.sql(TEXT, rho="1/2", delta="1/5", max_groups=1, max_rows=1)
        people = [note.split()[0] for note in answer.to_arrow()["note"].to_pylist()]
        assert len(set(people)) == len(people)
        shown += len(people)
    assert shown > 100


def test_nothing_tells_how_many_groups_were_suppressed(shelf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under scripted noise, answers over no lone group and over five hundred are equal in all that is shown."""
    zero_noise(monkeypatch)
    crowd = [(100_000 + i, note) for i in range(300) for note in ("common", "usual")]
    seen = []
    for people in (0, 1, 500):
        opened = session(shelf, crowd + lone(people, 2))
        answer = opened.sql(TEXT, rho="1", delta="1e-6", max_groups=2)
        table = answer.to_arrow()
        entries = [(entry.seq, entry.loss, entry.query, entry.state) for entry in opened._ledger.entries()]
        seen.append(
            (str(answer), answer._repr_html_(), str(table.schema), table.to_pylist(), str(answer.accuracy), entries)
        )
    assert seen[0] == seen[1] == seen[2]
    assert [row["note"] for row in seen[0][3]] == ["common", "usual"]


@pytest.mark.parametrize("counted", ["COUNT(*) AS n", "COUNT(*) AS n, COUNT(DISTINCT person) AS people"])
def test_the_threshold_is_on_people_not_on_rows(counted: str, shelf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand rows of one person stay hidden; as many people with one row each are shown."""
    zero_noise(monkeypatch)
    rows = [(1, "one person")] * 1000 + [(2 + i, "many people") for i in range(1000)]
    answer = session(shelf, rows).sql(
        f"SELECT note, {counted} FROM visits GROUP BY note", rho="1", delta="1e-6", max_groups=2, max_rows=1000
    )
    assert answer.to_arrow()["note"].to_pylist() == ["many people"]


def test_groups_are_shown_from_tau_on(shelf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    tau = of_nobody(shelf).explain(TEXT, rho="1", delta="1e-6", max_groups=1).measurements[0].tau
    assert tau is not None
    rows = [(1000 * size + i, f"group of {size}") for size in (tau - 1, tau, tau + 1) for i in range(size)]
    answer = session(shelf, rows).sql(TEXT, rho="1", delta="1e-6", max_groups=1)
    assert set(answer.to_arrow()["note"].to_pylist()) == {f"group of {tau}", f"group of {tau + 1}"}


def test_the_threshold_is_on_noisy_numbers(shelf: str) -> None:
    """Just below tau some groups are shown, and at tau some are not. All or none has a chance below 1e-100 each."""
    tau = of_nobody(shelf).explain(TEXT, rho="1", delta="1e-6", max_groups=1, max_rows=1).measurements[0].tau
    assert tau is not None
    sizes = {"below": tau - 1, "at": tau}
    names = [(f"{name} {i}", size) for name, size in sizes.items() for i in range(1000)]
    rows = [(100 * number + i, name) for number, (name, size) in enumerate(names) for i in range(size)]
    answer = session(shelf, rows).sql(TEXT, rho="1", delta="1e-6", max_groups=1, max_rows=1)
    shown = [note.split()[0] for note in answer.to_arrow()["note"].to_pylist()]
    assert 0 < shown.count("below") < shown.count("at") < 1000


def test_selection_is_refused_without_a_delta(shelf: str) -> None:
    opened = session(shelf, [(1, "a")], budget={"epsilon": 1})
    with pytest.raises(dp.MissingDeltaError):
        opened.sql(TEXT, epsilon="1")
    assert opened._ledger.spent(None) == dp.PrivacyLoss()
