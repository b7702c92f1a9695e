"""How long planning takes: the milliseconds of `explain` for a query of a hundred lines and ten CTEs."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import pandas as pd

import dpquery as dp
from dpquery.frontends.cli.demo_files import NAFLD

AIM = 50.0
"""Milliseconds; on two shared cores."""

QUERY = """\
WITH adults AS (
    SELECT
        id,
        age,
        sex,
        COALESCE(bmi, 25) AS bmi,
        futime,
        died
    FROM patients
    WHERE age >= 18
        AND futime > 30
),
pressures AS (
    SELECT id, days, value
    FROM labs
    WHERE test = 'sbp'
        AND value BETWEEN 50 AND 300
),
fats AS (
    SELECT id, days, value
    FROM labs
    WHERE test = 'hdl'
),
firsts AS (
    SELECT id, value AS first_pressure
    FROM pressures
    QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY days, value) = 1
),
levels AS (
    SELECT
        id,
        COUNT(*) AS tests,
        AVG(value) AS fat
    FROM fats
    GROUP BY id
    HAVING COUNT(*) > 1
),
steps AS (
    SELECT
        id,
        value - LAG(value) OVER (PARTITION BY id ORDER BY days, value) AS step
    FROM pressures
),
changes AS (
    SELECT id, CLAMP(SUM(step), -100, 100) AS change
    FROM steps
    WHERE step IS NOT NULL
    GROUP BY id
),
sick AS (
    SELECT DISTINCT id
    FROM events
    WHERE event IN ('diabetes', 'htn')
        AND days > 0
),
people AS (
    SELECT
        a.id,
        a.age,
        a.sex,
        a.bmi,
        a.died,
        f.first_pressure,
        COALESCE(l.tests, 0) AS tests,
        l.fat,
        c.change,
        CASE
            WHEN a.age < 40 THEN 'young'
            WHEN a.age < 65 THEN 'middle'
            ELSE 'old'
        END AS stage
    FROM adults AS a
    LEFT JOIN firsts AS f ON f.id = a.id
    LEFT JOIN levels AS l ON l.id = a.id
    LEFT JOIN changes AS c ON c.id = a.id
    WHERE a.id NOT IN (SELECT id FROM sick)
),
groups AS (
    SELECT
        stage,
        sex,
        COUNT(*) AS n,
        AVG(bmi) AS bmi,
        AVG(first_pressure) AS pressure,
        AVG(CLAMP(fat, 0, 200)) AS fat,
        SUM(CASE WHEN died THEN 1 ELSE 0 END) AS deaths
    FROM people
    GROUP BY ROLLUP (stage, sex)
)
SELECT
    stage,
    sex,
    n,
    bmi,
    pressure,
    fat,
    deaths * 1.0 / NULLIF(n, 0) AS share,
    RANK() OVER (ORDER BY n DESC) AS place,
    n - (SELECT COUNT(*) FROM sick) AS more_than_sick
FROM groups
WHERE n > 20
ORDER BY stage, sex
"""


def milliseconds(runs: int = 41) -> float:
    """Returns the median time of `explain`, the first run left out."""
    catalog = dp.Catalog.from_yaml(NAFLD)
    types = {"text": pd.Series([], dtype="str"), "boolean": pd.Series([], dtype="bool")}
    empty = {
        name: pd.DataFrame({c: types.get(str(d.type), pd.Series([], dtype="int64")) for c, d in table.columns.items()})
        for name, table in catalog.tables.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "planning.ledger"
        ledger = dp.Ledger.create(path, catalog.declarations, catalog.budget, catalog.analysts)
        session = dp.connect(catalog, empty, ledger=ledger, analyst="reader")
        times = []
        for run in range(runs + 1):
            asked = f"{QUERY} -- {run}"  # another text each time: plans are kept
            start = time.perf_counter()
            session.explain(asked, epsilon="0.5")
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times[1:])
