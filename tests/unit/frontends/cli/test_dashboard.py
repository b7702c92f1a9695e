"""`dpquery plan-dashboard`: queries of a file or of the log, priced, bought, and free afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from dpquery.frontends.cli.main import run

CATALOG = """
version: 2
dataset: shop
privacy_unit: row
budget: {rho: 10, delta: 1e-6}
tables:
  orders:
    columns:
      region: {type: text, keys: [east, north, west]}
      paid: {type: boolean}
"""
TILES = (
    "SELECT region, paid, COUNT(*) AS n FROM orders GROUP BY region, paid",
    "SELECT region, COUNT(*) AS n FROM orders GROUP BY region",
    "SELECT COUNT(*) AS n FROM orders",
)
DRILL = "SELECT COUNT(*) AS n FROM orders WHERE region = 'east' AND paid"
Run = Callable[..., tuple[int, str, str]]


def shop(folder: Path) -> Path:
    """Returns a catalog beside its data and a new ledger."""
    place = folder / "shop.yaml"
    place.write_text(CATALOG)
    orders = pd.DataFrame({"region": ["east", "west"] * 50, "paid": [True, True, False, False] * 25})
    orders.to_parquet(folder / "orders.parquet")
    assert run(["ledger", "create", str(place)]) == 0
    return place


def remaining(said: str) -> float:
    """Returns the rho that is left, by the line of a query."""
    found = re.search(r"left[^\]\n]*rho ([0-9.]+)", said)
    assert found is not None, said
    return float(found.group(1))


def test_the_queries_of_a_file_are_priced_then_bought_then_free(tmp_path: Path, dpquery: Run) -> None:
    catalog, tiles = shop(tmp_path), tmp_path / "tiles.sql"
    tiles.write_text("".join(f"{tile};\n\n" for tile in TILES))
    code, planned, said = dpquery("plan-dashboard", catalog, tiles, "--rho", "0.5")
    assert (code, said) == (0, "") and "rho 0.5" in planned
    code, bought, said = dpquery("plan-dashboard", catalog, tiles, "--rho", "0.5", "--buy")
    assert code == 0 and bought == planned and "bought 3 queries for rho 0.5" in said
    left = remaining(said)
    assert left == 9.5  # the plan was free
    for tile in (*TILES, DRILL):
        code, answer, said = dpquery("query", catalog, tile, "--rho", "0.001")
        assert code == 0 and remaining(answer + said) == left


def test_the_queries_of_the_log_are_priced_as_those_of_a_file(tmp_path: Path, dpquery: Run) -> None:
    catalog, tiles = shop(tmp_path), tmp_path / "tiles.sql"
    assert dpquery("plan-dashboard", catalog, "--from-log", "--rho", "0.5")[0] != 0  # nothing was asked
    for tile in (*reversed(TILES), TILES[2]):  # the finest last: each of them is paid for
        assert dpquery("query", catalog, tile, "--rho", "0.01")[0] == 0
    tiles.write_text("".join(f"{tile};\n" for tile in reversed(TILES)))
    from_log = dpquery("plan-dashboard", catalog, "--from-log", "--rho", "0.5")
    assert from_log[0] == 0 and from_log == dpquery("plan-dashboard", catalog, tiles, "--rho", "0.5")
    tiles_shown = [line.split()[0] for line in from_log[1].splitlines()[1:4]]
    assert tiles_shown == ["1", "2", "3"]  # what was asked twice is there once
    assert dpquery("plan-dashboard", catalog, tiles, "--from-log")[0] != 0  # one or the other
    assert dpquery("plan-dashboard", catalog)[0] != 0
