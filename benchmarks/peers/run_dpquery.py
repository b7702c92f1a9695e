"""dpquery, in this environment: `run_dpquery.py FOLDER`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from questions import EPSILON, LOWER, MOST_ROWS, QUESTIONS, REGIONS, UPPER, in_order, write

import dpquery as dp

COLUMNS = {
    "user_id": {"type": "int64"},
    "region": {"type": "text", "keys": REGIONS},
    "amount": {"type": "float64", "lower": LOWER, "upper": UPPER},
}


def session(data: pd.DataFrame, folder: str, unit: str) -> dp.Session:
    """Returns a session whose guarantee is of a row or of a user."""
    table = {"columns": COLUMNS} if unit == "row" else {"columns": COLUMNS, "unit": "user_id", "max_rows": MOST_ROWS}
    declared = dp.Catalog(dataset=unit, privacy_unit=unit, budget={"epsilon": 10_000}, tables={"visits": table})
    return dp.connect(declared, {"visits": data}, ledger=Path(folder) / unit, create=True, reuse=False)


def answer(of: dp.Session, name: str) -> Sequence[float]:
    """Returns the answers of one question."""
    found = of.sql(QUESTIONS[name], epsilon=EPSILON).to_pandas()
    return in_order(dict(zip(found["region"], found["answer"], strict=True))) if "region" in found else found["answer"]


if __name__ == "__main__":
    read = pd.read_csv(f"{sys.argv[1]}/visits.csv")
    with (
        tempfile.TemporaryDirectory() as place,
        session(read, place, "row") as row,
        session(read, place, "user") as user,
    ):
        write("dpquery", {name: partial(answer, row if name[0] == "r" else user, name) for name in QUESTIONS}, 0)
