"""A refusal speaks the currency that was asked in, and says what would still fit."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp

FRAME = pd.DataFrame({"id": range(200), "kind": ["a", "b"] * 100, "x": 1})
COLUMNS = {
    "id": {"type": "int64"},
    "kind": {"type": "text", "keys": ["a", "b"]},
    "x": {"type": "int64", "lower": 0, "upper": 5},
}
QUERY = "SELECT kind, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY kind"
APPROXIMATE = {"epsilon": 1, "delta": "1e-6"}


def opened(folder: Path, budget: dict[str, Any]) -> dp.Session:
    tables = {"t": {"unit": "id", "max_rows": 1, "columns": COLUMNS}}
    catalog = dp.Catalog(dataset="d", privacy_unit="person", budget=budget, tables=tables)
    return dp.connect(catalog, {"t": FRAME}, ledger=folder / "l", create=True, reuse=False)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("budget", "asked", "word"),
    [
        ({"epsilon": 1}, {"epsilon": "0.7"}, "epsilon"),
        ({"rho": "0.1", "delta": "1e-6"}, {"rho": "0.07"}, "rho"),
        (APPROXIMATE, {"epsilon": "0.9"}, "epsilon"),
        (APPROXIMATE, {"rho": "0.01"}, "rho"),
        ({"epsilon": 1}, {"error": 5}, "error"),
        (APPROXIMATE, {"error": {"n": 10, "s": 60}}, "error"),
    ],
)
def test_what_still_fits_is_said_as_it_was_asked(
    budget: dict[str, Any], asked: dict[str, Any], word: str, tmp_path: Path
) -> None:
    with opened(tmp_path, budget) as session:
        for _ in range(200):
            try:
                session.sql(QUERY, **asked)
            except dp.InsufficientBudgetError as error:
                refused = error
                break
        left = session.remaining
        assert refused.remaining == left and refused.fits.keys() == {word}
        assert f"{word}=" in refused.advice and "would still fit" in str(refused)
        assert f"{word} " in refused.reason and refused.requested != dp.PrivacyLoss()
        assert session.remaining == left
        session.sql(QUERY, **refused.fits)
        spent = max(left.epsilon, left.rho)
        rest = max(session.remaining.epsilon, session.remaining.rho)
        assert rest <= spent / 2, "what is proposed is most of what was left"


def test_nothing_fits_where_nothing_is_left(tmp_path: Path) -> None:
    with opened(tmp_path, {"epsilon": 1}) as session:
        session.sql(QUERY, epsilon=1)
        with pytest.raises(dp.InsufficientBudgetError, match="No smaller amount was found") as refused:
            session.sql(QUERY, epsilon="0.1")
        assert refused.value.fits == {}


def test_a_batch_is_told_too(tmp_path: Path) -> None:
    with opened(tmp_path, {"epsilon": 1}) as session:
        with pytest.raises(dp.InsufficientBudgetError) as refused:
            session.batch([QUERY, "SELECT COUNT(*) AS n FROM t"], epsilon=3)
        assert refused.value.fits == {"epsilon": Fraction(1)}


def test_a_refusal_reads_no_row(tmp_path: Path) -> None:
    """OUT-03: what would fit depends on the query and the ledger, never on a row."""
    told = []
    for number, rows in enumerate((FRAME, FRAME.head(11))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with opened(folder, APPROXIMATE) as session:
            pass
        with dp.connect(session.catalog, {"t": rows}, ledger=folder / "l", reuse=False) as session:
            session.sql(QUERY, epsilon="0.1")
            with pytest.raises(dp.InsufficientBudgetError) as refused:
                session.sql(QUERY, epsilon="0.99")
            told.append((str(refused.value), refused.value.fits))
    assert told[0] == told[1]
