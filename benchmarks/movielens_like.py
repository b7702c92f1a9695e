"""COUNT and SUM of ratings at the suggested bound beside the best fixed clip in hindsight.

The ratings are made, with the sizes of MovieLens 100k: 943 users, about 100,000 ratings, the busiest user 737, half of
the users fewer than 66; the r-th busiest user has 737 * 46 / (r + 45). No column has bounds, so the profile is of rows
alone; the sum clamps. The best clip knows the data, and pays nothing for that: of all bounds the one with the least
root mean square error, weights and noise together, at the whole epsilon.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dpquery as dp
from benchmarks.suggested import profile

USERS, MOST, SHIFT, HIGHEST = 943, 737, 45, 5
EPSILON, PART = Fraction(1), Fraction(1, 5)
"""Of a question, and how much of it the profile takes: with a twentieth, the busiest tenth of 943 users is not seen."""
PROFILES, RUNS, AIM = 40, 10, 2.0
CATALOG = """
version: 2
dataset: ratings
privacy_unit: user
budget: {epsilon: 1000000}
defaults: {epsilon: 1, least_charge: 1e-12}
tables:
  ratings:
    unit: user_id
    max_rows: MAX_ROWS
    columns:
      user_id: {type: int64}
      rating: {type: int64}
"""
MEASURES = {"COUNT": "COUNT(*)", "SUM": "SUM(CLAMP(rating, 0, 5))"}


def ratings() -> pa.Table:
    """Returns the ratings; each user has a taste."""
    random = np.random.default_rng(20260101)
    counts = (MOST * (SHIFT + 1) / (SHIFT + np.arange(1, USERS + 1))).astype(np.int64)
    who = np.repeat(np.arange(USERS), counts)
    taste = random.normal(3.5, 0.4, USERS)[who]
    rating = np.clip(random.normal(taste, 1.0).round(), 1, HIGHEST).astype(np.int64)
    return pa.table({"user_id": who, "rating": rating})


def movielens_like() -> dict[str, dict[str, float]]:
    """Returns for each measure its root mean square error in parts of that of the best clip."""
    table, found = ratings(), {}
    with tempfile.TemporaryDirectory() as folder:
        errors = {name: _errors(table, Path(folder) / name, asked) for name, asked in MEASURES.items()}
    for name, made in errors.items():
        ratio = float(np.sqrt(np.mean(made**2))) / _best(table, name)
        found[f"{name} of 100,000 ratings: error against the best clip"] = {"ratio": ratio, "aim": AIM}
    return found


def _errors(table: pa.Table, folder: Path, asked: str) -> NDArray[np.float64]:
    """Returns the errors of a measure over profiles and runs."""
    sql, made = f"SELECT {asked} AS n FROM ratings", []
    exact = table.num_rows if asked == MEASURES["COUNT"] else int(np.sum(table["rating"].to_numpy()))
    for number in range(PROFILES):
        bought = profile(_catalog(MOST), {"ratings": table}, folder / str(number), EPSILON * PART)
        declared = _catalog(bought["ratings"].suggest_max_rows(groups=1, epsilon=EPSILON * (1 - PART)))
        ledger = dp.create_ledger(declared, folder / str(number) / "ratings.ledger")
        with dp.connect(declared, {"ratings": table}, ledger=ledger, reuse=False) as opened:
            for _ in range(RUNS):
                answer = opened.sql(sql, epsilon=EPSILON * (1 - PART)).to_arrow()
                made.append(float(answer["n"].to_pylist()[0]) - exact)
    return np.array(made)


def _catalog(max_rows: int) -> dp.Catalog:
    return dp.Catalog.from_yaml(CATALOG.replace("MAX_ROWS", str(max_rows)))


def _best(table: pa.Table, name: str) -> float:
    """Returns the least root mean square error of a clip: what weights leave out, and Laplace noise."""
    counts = np.bincount(table["user_id"].to_numpy())
    sums = np.bincount(table["user_id"].to_numpy(), table["rating"].to_numpy())
    values, largest = (counts.astype(float), 1) if name == "COUNT" else (sums, HIGHEST)
    errors = []
    for bound in range(1, MOST + 1):
        left_out = float(np.sum(values * (1 - np.minimum(1, bound / counts))))
        errors.append(np.hypot(left_out, np.sqrt(2) * bound * largest / float(EPSILON)))
    return float(min(errors))


if __name__ == "__main__":
    for title, row in movielens_like().items():
        print(f"{title}: {row['ratio']:.2f} (aim {row['aim']})")
