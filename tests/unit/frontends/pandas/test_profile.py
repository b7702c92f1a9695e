"""Profiles of frames: bought as a frame is protected, or later; the number of rows they suggest, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from tests.scripted import zero_noise


@pytest.fixture
def frame(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Of 1000 people half have 2 rows, a quarter 4, and so on to 16."""
    zero_noise(monkeypatch)
    owners = [p for p in range(1000) for _ in range(2 if p % 2 else 4 if p % 4 else 8 if p % 8 else 16)]
    return pd.DataFrame({"who": owners, "spend": [60 if p < 100 else 10 for p in owners]})


def _protected(frame: pd.DataFrame, **said: Any) -> Any:
    given = {"privacy_unit": "who", "budget": {"epsilon": 20}, "bounds": {"spend": (0, 50)}, **said}
    return frame.dp.protect(**given)


def _dp(frame: pd.DataFrame) -> Any:
    """Returns the accessor, which pandas' types do not know."""
    return frame.dp


@pytest.mark.parametrize("said", [{}, {"max_rows": "auto"}])
def test_it_is_bought_at_once_and_used(frame: pd.DataFrame, said: dict[str, Any]) -> None:
    people = _protected(frame, profile="5", **said)
    assert people.remaining.epsilon == 15
    assert _dp(frame).count(epsilon=1) > 3000 and "max_rows=" in str(_dp(frame).explain.count(epsilon=1))
    (rows,) = people.last.notes
    assert "(auto): " in rows and "units have all rows at full weight" in rows
    _dp(frame).mean("spend", epsilon=1)
    assert [note.partition(":")[0] for note in people.last.notes[1:]] == ["this.spend"]
    assert people.remaining.epsilon == 13


@pytest.mark.parametrize(
    ("said", "bound"), [({"max_rows": 4}, 4), ({"defaults": {"max_rows": 4}}, 4), ({"defaults": {"epsilon": 1}}, 16)]
)
def test_a_number_that_is_said_stays(frame: pd.DataFrame, said: dict[str, Any], bound: int) -> None:
    people = _protected(frame, profile="5", **said)
    (made,) = people.explain.count(epsilon=1).measurements
    assert made.l1 <= bound and (made.l1 == bound or bound == 16)


def test_in_rho_and_of_rows_by_themselves(frame: pd.DataFrame) -> None:
    people = _protected(frame, profile="0.5", budget={"rho": 2, "delta": "1e-6"})
    assert people.remaining.rho == pytest.approx(1.5) and people.count(rho="0.1") > 3000
    alone = pd.DataFrame({"spend": [60.5, 10.5] * 500})
    rows = _protected(alone, privacy_unit="row", dataset="alone", profile=1)
    assert rows.sum("spend", epsilon=1) > 0 and "units have values above" in rows.last.notes[0]


def test_what_cannot_be_bought_protects_nothing(frame: pd.DataFrame) -> None:
    with pytest.raises(dp.InsufficientBudgetError):
        _protected(frame, profile=30)
    with pytest.raises(dp.InvalidLossError):
        _protected(frame, profile=0, dataset="other")
    with pytest.raises(dp.DPQueryError, match="protect"):
        _dp(frame).count(epsilon=1)


def test_it_is_bought_later(frame: pd.DataFrame) -> None:
    people = _protected(frame, max_rows="auto")
    with pytest.raises(dp.MissingBoundsError):
        people.count(epsilon=1)
    assert people.profile(epsilon=5).charge.epsilon == 5 and people.count(epsilon=1) > 3000
    for part in (people.query("spend > 5"), people.explain):
        with pytest.raises(dp.UnsupportedQueryError, match="whole frame"):
            part.profile(epsilon=1)


def test_connect_buys_one_unless_it_is_stored(frame: pd.DataFrame, tmp_path: Path) -> None:
    tables = {"t": {"unit": "who", "max_rows": "auto", "columns": {"who": {"type": "int64"}}}}
    catalog = dp.Catalog(dataset="d", privacy_unit="person", budget={"epsilon": 9}, tables=tables)
    place = tmp_path / "ledger"
    dp.create_ledger(catalog, place)
    texts = []
    for amount in ("2", "1"):
        with dp.connect(catalog, {"t": frame[["who"]]}, ledger=place, profile=amount) as session:
            assert session.remaining.epsilon == 7, "once for a data version"
            texts.append(str(session.explain("SELECT COUNT(*) AS n FROM t", epsilon=1)))
    assert texts[0] == texts[1]
    with pytest.raises(dp.InsufficientBudgetError):
        dp.connect(catalog, {"t": frame[["who"]]}, ledger=place, profile=8)
