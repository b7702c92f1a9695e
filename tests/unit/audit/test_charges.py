"""The ledger replayed: charges of every kind are computed anew, and one that is too small is found in each."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery import mechanisms
from dpquery.auditing import accounts
from dpquery.auditing.charged_queries import Logged, NotRead, logged
from dpquery.auditing.report import ReportLine
from dpquery.auditing.synopsis_losses import synopses
from dpquery.ledger.entries import Entry
from dpquery.reuse.store import ReleaseStore
from dpquery.session.session import Session

Ask = Callable[[Session], object]
COUNT = "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind"
STEPS = "SELECT COUNT(*) AS n FROM visits WHERE score > (SELECT AVG(score) FROM visits)"


@dataclass
class World:
    """A ledger, and what opens sessions on it."""

    catalog: dp.Catalog
    ledger: dp.Ledger

    def session(self) -> Session:
        days = [datetime.date(2024, 1, day) for day in (1, 2, 3, 4)]
        visits = pd.DataFrame({"id": [1, 1, 2, 3], "kind": ["a", "b", "a", "c"], "score": [0, 3, 5, 9], "day": days})
        return dp.connect(self.catalog, {"visits": visits}, ledger=self.ledger, analyst="ann")

    def replayed(self) -> tuple[dict[str, ReportLine], tuple[str, ...]]:
        """Returns the lines of charges by their numbers, and what was not computed."""
        with self.session() as session:
            section = accounts.accounts(self.catalog, self.ledger, session._backend)
        assert not section.violations
        return {line.name.partition(":")[0]: line for line in section.lines}, section.not_done

    def problem(self, entry: Entry) -> str:
        """Returns the problem of an entry."""
        with self.session() as session:
            stored = accounts._stored(self.ledger)[entry.seq]
            replay = accounts.ChargeReplay(catalog=self.catalog, ledger=self.ledger, public=session._backend)
            return accounts._recomputed(entry, stored, replay).problem


@pytest.fixture(params=["pure", "approximate"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    columns: dict[str, Any] = {
        "id": {"type": "int64"},
        "kind": {"type": "text", "keys": ["a", "b", "c"]},
        "score": {"type": "int64", "lower": 0, "upper": 9},
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
    }
    budget = {"epsilon": 40} if request.param == "pure" else {"epsilon": 40, "delta": "1e-5"}
    tables = {"visits": {"unit": "id", "max_rows": 2, "columns": columns}}
    catalog = dp.Catalog(dataset="d", privacy_unit="person", budget=budget, tables=tables)
    ledger = dp.create_ledger(catalog, tmp_path / "ledger")
    yield World(catalog, ledger)
    ledger.close()


KINDS: dict[str, Ask] = {
    "one query": lambda s: s.sql(COUNT, epsilon=1),
    "a batch": lambda s: s.batch(
        [COUNT, "SELECT COUNT(*) AS n, SUM(score) AS s FROM visits -- a; b;\n WHERE kind = 'a;\nb' OR score > 2;"],
        epsilon=1,
    ),
    "a batch whose numbers follow from each other": lambda s: s.batch(
        [f"SELECT COUNT(*) AS n FROM visits WHERE score {condition}" for condition in ("< 3", ">= 3", "< 6", "> 7")],
        epsilon=1,
    ),
    "parameters by place": lambda s: s.sql(
        "SELECT COUNT(*) AS n FROM visits WHERE score > $1 AND kind <> $2 AND day >= $3;",
        params=[3, "x';\n-- step 1", datetime.date(2024, 1, 2)],
        epsilon=1,
    ),
    "parameters by name": lambda s: s.sql(
        "SELECT SUM(score) AS s FROM visits WHERE score > :least", params={"least": Decimal("-1.5")}, epsilon=1
    ),
    "another dialect": lambda s: s.sql(
        "SELECT `kind`, COUNTIF(score > 2) AS n FROM `visits` GROUP BY ALL", dialect="bigquery", epsilon=1
    ),
    "bounds of its own": lambda s: s.sql(COUNT, max_rows=1, epsilon=1),
    "other weights": lambda s: s.sql(
        "SELECT COUNT(*) AS n, SUM(score) AS s FROM visits", weights={"n": 5, "s": 1}, epsilon=1
    ),
    "an average in each group": lambda s: s.sql("SELECT kind, AVG(score) AS a FROM visits GROUP BY kind", epsilon=1),
    "an error": lambda s: s.sql("SELECT COUNT(*) AS n, SUM(score) AS s FROM visits", error={"n": 20, "s": 90}),
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", KINDS)
def test_charges_of_each_kind_are_computed_anew(world: World, kind: str) -> None:
    with world.session() as session:
        KINDS[kind](session)
    world.ledger.new_data_version(by="owner", why="new rows")
    with world.session() as session:
        KINDS[kind](session)
    lines, not_done = world.replayed()
    assert not not_done
    first, _, second = world.ledger.entries()
    for entry in (first, second):
        figures = lines[str(entry.seq)].figures
        assert 0.99 * figures["charged"] < figures["computed"] <= figures["charged"]
        cheap = replace(entry, loss=_part(entry.loss, Fraction(98, 100)))
        assert "its noise loses" in world.problem(cheap)


IN_STEPS = (
    STEPS,
    "SELECT kind, SUM(score) AS s FROM visits WHERE kind IN (SELECT kind FROM visits GROUP BY kind "
    "ORDER BY COUNT(*) DESC LIMIT 2) GROUP BY kind",
    "SELECT COUNT(*) AS n FROM visits WHERE score > (SELECT AVG(score) FROM visits WHERE kind = "
    "(SELECT kind FROM visits GROUP BY kind ORDER BY COUNT(*) DESC LIMIT 1))",
)


@pytest.mark.parametrize("text", IN_STEPS)
def test_each_step_is_computed_anew_with_what_was_stored_before_it(world: World, text: str) -> None:
    with world.session() as session:
        session.sql(text, epsilon=1)
        session.sql("SELECT AVG(score) AS a FROM visits", epsilon=3)
        session.sql(COUNT, epsilon=3)  # better numbers than those that the steps read
    lines, not_done = world.replayed()
    assert not not_done
    *steps, _, _ = world.ledger.entries()
    assert len(steps) > 1
    for entry in steps:
        figures = lines[str(entry.seq)].figures
        assert 0.99 * figures["charged"] < figures["computed"] <= figures["charged"]
        cheap = replace(entry, loss=_part(entry.loss, Fraction(98, 100)))
        assert "its noise loses" in world.problem(cheap)


@pytest.mark.thinned(2)
def test_a_step_whose_first_step_is_not_stored_any_more_is_counted(world: World) -> None:
    with world.session() as session:
        session.sql(STEPS, epsilon=1)
    ReleaseStore(world.ledger)._shelf.remove([1])
    assert world.replayed()[1] == (
        f"{accounts.IN_STEPS}: 1 charge (2)",
        "queries whose answers are not stored: 1 charge (1)",
    )


def _part(loss: dp.PrivacyLoss, share: Fraction) -> dp.PrivacyLoss:
    return dp.PrivacyLoss(epsilon=loss.epsilon * share, delta=loss.delta * share, rho=loss.rho * share)


def test_a_synopsis_is_computed_anew_from_all_its_rounds(world: World) -> None:
    with world.session() as session:
        session.synopsis("visits", ["kind"], epsilon=1)
    world.ledger.new_data_version(by="owner", why="new rows")
    with world.session() as session:
        session.synopsis("visits", ["kind", "score", "day"], measures=["score"], epsilon=2)
    lines, not_done = world.replayed()
    assert not not_done
    charges = [entry for entry in world.ledger.entries() if entry.query.startswith("synopsis")]
    with world.session() as session:
        for entry, least in zip(charges, (0.99, 0.5), strict=True):  # pairs in too few groups are not asked
            figures = lines[str(entry.seq)].figures
            share = figures["computed"] / figures["charged"]
            assert least < share <= 1 + 1e-9
            cheap = replace(entry, loss=_part(entry.loss, Fraction(0.98 * share)))
            versions = accounts._versions(world.ledger).values()
            found = synopses(world.catalog, world.ledger, versions, [cheap], session._backend)
            assert "its noise loses" in found[entry.seq].problem


def test_what_cannot_be_computed_is_counted_by_kind(world: World) -> None:
    with world.session() as session:
        session.synopsis("visits", ["kind"], epsilon=1)
        session.synopses.drop("visits")
        session.sql(f"{COUNT} -- {'x' * 10_000}", epsilon=1)
    mechanisms.geometric(3, epsilon=1, to=world.ledger)
    _, not_done = world.replayed()
    assert not_done == (
        "texts that were cut in the ledger: 1 charge (2)",
        f"{accounts.GONE}: 1 charge (1)",
        "mechanisms on values, whose sensitivity the caller vouches for: 1 charge (3)",
    )


def test_a_charge_whose_catalog_or_answers_changed_is_named(world: World) -> None:
    with world.session() as session:
        session.sql(COUNT, epsilon=1)
        session.sql("SELECT COUNT(*) AS n FROM visits WHERE score > 3", epsilon=1)
    entries = world.ledger.entries()
    other = replace(entries[0], query="SELECT COUNT(*) AS n FROM visits")
    none = replace(entries[0], query="SELECT COUNT(*) AS n FROM elsewhere")
    with world.session() as session:
        replay = accounts.ChargeReplay(catalog=world.catalog, ledger=world.ledger, public=session._backend)
        stored = accounts._stored(world.ledger)[1]
        assert accounts._recomputed(other, stored, replay).note == accounts.OTHERWISE
        assert accounts._recomputed(none, stored, replay).note == accounts.UNPLANNED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", [Logged(text="SELECT 1")]),
        ("SELECT 1;\nSELECT ';\n'\n-- step 2", [Logged(text="SELECT 1"), Logged(text="SELECT ';\n'", step=1)]),
        ("SELECT $1;\n-- params: (-1, None)", [Logged(text="SELECT $1", params=(-1, None))]),
        (
            "SELECT $1\n-- params: (datetime.datetime(2024, 1, 2, 3, 4, tzinfo=datetime.timezone.utc),)",
            [Logged(text="SELECT $1", params=(datetime.datetime(2024, 1, 2, 3, 4, tzinfo=datetime.UTC),))],
        ),
        ("SELECT :a\n-- params: {'a': Decimal('1.50')}", [Logged(text="SELECT :a", params={"a": Decimal("1.50")})]),
    ],
)
def test_texts_of_charges_are_read_as_they_were_written(text: str, expected: list[Logged]) -> None:
    assert list(logged(text)) == expected


@pytest.mark.parametrize(
    "params", ["(open('x'),)", "3", "({},", "(nan,)", "Decimal('x')", "(Decimal('1', tzinfo=2),)", "(" * 10_000]
)
def test_parameters_that_are_not_values_are_not_run(params: str) -> None:
    with pytest.raises(NotRead):
        logged(f"SELECT $1\n-- params: {params}")
