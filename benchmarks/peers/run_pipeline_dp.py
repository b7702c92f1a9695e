"""PipelineDP, by its DPEngine on the local backend: `run_pipeline_dp.py FOLDER`."""

from __future__ import annotations

import csv
import sys
from functools import partial

import pipeline_dp as pdp
from questions import DELTA, EPSILON, LOWER, MOST_ROWS, QUESTIONS, REGIONS, UPPER, in_order, write

with open(f"{sys.argv[1]}/visits.csv", newline="") as file:
    ROWS = [(int(u), r, float(a), i) for i, (u, r, a) in enumerate(list(csv.reader(file))[1:])]


def answer(name):
    """Returns the answers of one question."""
    by_row, by_region = name.startswith("rows"), "region" in name
    accountant = pdp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    engine = pdp.DPEngine(accountant, pdp.LocalBackend())
    keys = REGIONS if by_region else ["all"]
    metric = pdp.Metrics.SUM if "SUM" in name else pdp.Metrics.MEAN if "AVG" in name else pdp.Metrics.COUNT
    bounds = {"max_contributions": MOST_ROWS}
    if "DISTINCT" in name:
        metric = pdp.Metrics.PRIVACY_ID_COUNT
    if by_row or "DISTINCT" in name:
        bounds = {"max_partitions_contributed": 1, "max_contributions_per_partition": 1}
    has_values = metric in (pdp.Metrics.SUM, pdp.Metrics.MEAN)
    valued = {"min_value": LOWER, "max_value": UPPER} if has_values else {}
    params = pdp.AggregateParams(noise_kind=pdp.NoiseKind.LAPLACE, metrics=[metric], **bounds, **valued)
    extractors = pdp.DataExtractors(
        privacy_id_extractor=(lambda row: row[3]) if by_row else (lambda row: row[0]),
        partition_extractor=(lambda row: row[1]) if by_region else (lambda row: "all"),
        value_extractor=lambda row: row[2],
    )
    made = engine.aggregate(ROWS, params, extractors, public_partitions=keys)
    accountant.compute_budgets()
    found = {key: value[0] for key, value in made}
    return in_order(found) if by_region else [found["all"]]


write("pipeline-dp", {name: partial(answer, name) for name in QUESTIONS}, 0)
