"""OpenDP, by its Context API over Polars, as its documentation begins: `run_opendp.py FOLDER`."""

from __future__ import annotations

import sys
from functools import partial

import opendp.prelude as dp
import polars as pl
from questions import EPSILON, LOWER, MOST_ROWS, QUESTIONS, REGIONS, UPPER, in_order, write

dp.enable_features("contrib")
DATA = pl.read_csv(f"{sys.argv[1]}/visits.csv").lazy()
KEYS = pl.LazyFrame({"region": REGIONS})
MARGINS = [dp.polars.Margin(max_length=100_000), dp.polars.Margin(by=["region"], max_groups=50, max_length=100_000)]
AMOUNT = pl.col("amount").cast(float).fill_nan(0.0).fill_null(0.0)


def answer(name):
    """Returns the answers of one question, from a context whose whole budget is for it."""
    unit = {"contributions": 1} if name.startswith("rows") else {"contributions": 1, "identifier": "user_id"}
    context = dp.Context.compositor(
        data=DATA,
        privacy_unit=dp.unit_of(**unit),
        privacy_loss=dp.loss_of(epsilon=EPSILON),
        split_evenly_over=1,
        margins=MARGINS,
    )
    query = context.query()
    if name.startswith("people"):
        query = query.truncate_per_group(1 if "DISTINCT" in name else MOST_ROWS)
    made = dp.len()
    if "COUNT" not in name:
        made = AMOUNT.dp.mean((LOWER, UPPER)) if "AVG" in name else AMOUNT.dp.sum((LOWER, UPPER))
    if "region" not in name:
        return [query.select(made.alias("a")).release().collect()["a"][0]]
    table = query.group_by("region").agg(made.alias("a")).with_keys(KEYS).release().collect()
    return in_order(dict(zip(table["region"], table["a"], strict=True)))


write("opendp", {name: partial(answer, name) for name in QUESTIONS}, 0)
