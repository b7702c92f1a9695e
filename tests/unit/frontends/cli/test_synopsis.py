"""`dpquery synopsis`: bought, listed, read and dropped from the command line."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dpquery.frontends.cli.main import run

CATALOG = """
version: 2
dataset: shop
privacy_unit: row
budget: {rho: 1000, delta: 1e-6}
tables:
  orders:
    columns:
      region: {type: text, keys: [east, west]}
      paid: {type: boolean}
"""


def test_a_synopsis_is_bought_listed_read_and_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, picture, expected = tmp_path / "shop.yaml", tmp_path / "report.png", tmp_path / "expected.png"
    place.write_text(CATALOG)
    orders = pd.DataFrame({"region": ["east", "west"] * 50, "paid": [True, False] * 50})
    orders.to_parquet(tmp_path / "orders.parquet")
    catalog = str(place)
    assert run(["ledger", "create", catalog]) == 0
    capsys.readouterr()
    bought = ["synopsis", "create", catalog, "orders", "--rho", "100"]
    for words, said in (
        ([*bought, "--if-rows", "100", "--plot", str(expected)], "Would be charged rho 100"),
        (["synopsis", "list", catalog], "no synopsis"),
        ([*bought, "--rows", "60", "--plot", str(picture)], "60 synthetic rows"),
        (["synopsis", "list", catalog], "charged rho 100 once"),
        (["query", catalog, "SELECT COUNT(*) AS n FROM synopsis.orders"], "60"),
        (["synopsis", "drop", catalog, "orders"], "Removed"),
        (["synopsis", "list", catalog], "no synopsis"),
    ):
        assert run(words) == 0
        assert said in capsys.readouterr().out
    assert picture.stat().st_size > 1000 and expected.stat().st_size > 1000
    assert run([*bought, "--rows", "0"]) != 0
