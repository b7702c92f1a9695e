"""SmartNoise SQL, by its private reader over pandas: `run_smartnoise_sql.py FOLDER`."""

from __future__ import annotations

import sys
import warnings
from functools import partial

import pandas as pd
import snsql
from questions import DELTA, EPSILON, LOWER, MOST_ROWS, QUESTIONS, UPPER, in_order, write

warnings.simplefilter("ignore")
DATA = pd.read_csv(f"{sys.argv[1]}/visits.csv")
COLUMNS = {
    "user_id": {"type": "int"},
    "region": {"type": "string"},
    "amount": {"type": "float", "lower": LOWER, "upper": UPPER},
}


def reader(by_row):
    """Returns a reader whose guarantee is of a row or of a user."""
    if by_row:
        said = {"row_privacy": True, "censor_dims": False, **COLUMNS}
    else:
        said = {"max_ids": MOST_ROWS, "censor_dims": False, **COLUMNS, "user_id": {"type": "int", "private_id": True}}
    metadata = {"": {"public": {"visits": {"rows": len(DATA), **said}}}}
    return snsql.from_df(DATA, privacy=snsql.Privacy(epsilon=EPSILON, delta=DELTA), metadata=metadata)


READERS = {by_row: reader(by_row) for by_row in (True, False)}


def answer(name):
    """Returns the answers of one question."""
    query = QUESTIONS[name].replace("visits", "public.visits")
    _, *rows = READERS[name.startswith("rows")].execute(query)
    return in_order(dict(rows)) if "region" in name else [rows[0][0]]


write("smartnoise-sql", {name: partial(answer, name) for name in QUESTIONS}, DELTA)
