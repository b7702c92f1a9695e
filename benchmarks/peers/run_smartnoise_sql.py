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


def reader(most_rows):
    """Returns a reader that lets so many rows of a user count; 0 where a row is what is protected."""
    if not most_rows:
        said = {"row_privacy": True, "censor_dims": False, **COLUMNS}
    else:
        said = {"max_ids": most_rows, "censor_dims": False, **COLUMNS, "user_id": {"type": "int", "private_id": True}}
    metadata = {"": {"public": {"visits": {"rows": len(DATA), **said}}}}
    return snsql.from_df(DATA, privacy=snsql.Privacy(epsilon=EPSILON, delta=DELTA), metadata=metadata)


READERS = {most_rows: reader(most_rows) for most_rows in (0, 1, MOST_ROWS)}


def answer(name):
    """Returns the answers of one question."""
    most_rows = 0 if name.startswith("rows") else 1 if "DISTINCT" in name else MOST_ROWS
    query = QUESTIONS[name].replace("visits", "public.visits")
    _, *rows = READERS[most_rows].execute(query)
    return in_order(dict(rows)) if "region" in name else [rows[0][0]]


write("smartnoise-sql", {name: partial(answer, name) for name in QUESTIONS}, DELTA)
