"""A deterministic hospital: patients, visits and labs with heavy tails, and its declarations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dpquery as dp

WARDS = ["cardiology", "emergency", "geriatrics", "neurology", "oncology", "orthopedics", "pediatrics", "surgery"]
CODES = ["alt", "crea", "crp", "glu", "hb", "hba1c", "hdl", "k", "ldl", "na", "plt", "tsh"]
PANELS = ["liver", "kidney", "blood", "sugar", "blood", "sugar", "lipids", "salts", "lipids", "salts", "blood", "other"]
REGIONS = ["center", "coast", "east", "hills", "north", "west"]
FIRST_DAY, DAYS = np.datetime64("2023-01-01"), 731
VISITS = 400_000
"""By default; there are six labs for each visit, and a patient for every four."""

CATALOG = """
version: 2
dataset: wards
privacy_unit: patient
budget: {epsilon: 1000000}
defaults: {epsilon: 1, least_charge: 1e-12}
tables:
  patients:
    unit: id
    unique: [[id]]
    columns:
      id: {type: int64}
      sex: {type: text, keys: [F, M]}
      region: {type: text, keys: [REGIONS]}
      age: {type: int64, lower: 0, upper: 100}
      smoker: {type: boolean}
  visits:
    unit: patient_id
    unique: [[visit_id]]
    max_rows: MAX_VISITS
    columns:
      visit_id: {type: int64}
      patient_id: {type: int64}
      ward: {type: text, keys: [WARDS]}
      day: {type: date, lower: 2023-01-01, upper: 2024-12-31}
      nights: {type: int64, lower: 0, upper: 30}
      cost: {type: int64, lower: 0, upper: 5000}
      urgent: {type: boolean}
  labs:
    unit: patient_id
    max_rows: MAX_LABS
    columns:
      patient_id: {type: int64}
      code: {type: text, keys_from: tests.code}
      taken: {type: date, lower: 2023-01-01, upper: 2024-12-31}
      value: {type: float64, lower: 0, upper: 256}
      abnormal: {type: boolean}
  tests:
    public: true
    unique: [[code]]
    columns: {code: {type: text}, panel: {type: text}}
"""


def tables(visits: int = VISITS) -> dict[str, pa.Table]:
    """Returns the tables with about so many visits."""
    random, patients = np.random.default_rng(20260101), visits // 4
    illness = random.lognormal(0, 0.9, patients)
    sick, measured = (
        _owners(random, illness, visits),
        _owners(random, illness * random.lognormal(0, 0.4, patients), 6 * visits),
    )
    age = np.clip(random.normal(45 + 8 * np.log(illness), 20), 0, 100).astype(np.int64)
    nights = np.minimum(random.geometric(0.45, len(sick)) - 1, 30)
    abnormal = random.random(len(measured)) < np.minimum(0.6, 0.08 * illness[measured] ** 0.5)
    return {
        "patients": pa.table(
            {
                "id": np.arange(patients),
                "sex": _one_of(random, ["F", "M"], patients),
                "region": _one_of(random, REGIONS, patients),
                "age": age,
                "smoker": random.random(patients) < 0.22,
            }
        ),
        "visits": pa.table(
            {
                "visit_id": np.arange(len(sick)),
                "patient_id": sick,
                "ward": _one_of(random, WARDS, len(sick)),
                "day": _days(random, len(sick)),
                "nights": nights,
                "cost": np.minimum(60 + 180 * nights + random.gamma(2, 90, len(sick)), 5000).astype(np.int64),
                "urgent": random.random(len(sick)) < 0.25 + 0.002 * age[sick],
            }
        ),
        "labs": pa.table(
            {
                "patient_id": measured,
                "code": _one_of(random, CODES, len(measured)),
                "taken": _days(random, len(measured)),
                "value": np.minimum(random.gamma(4, 18, len(measured)) * (1 + 0.4 * abnormal), 256),
                "abnormal": abnormal,
            }
        ),
        "tests": pa.table({"code": CODES, "panel": PANELS}),
    }


def _owners(random: np.random.Generator, shares: NDArray[np.float64], rows: int) -> NDArray[np.int64]:
    """Returns the owner of each row: numbers of rows in proportion to the shares, as a Poisson law has them."""
    return np.repeat(np.arange(len(shares)), random.poisson(shares * rows / shares.sum()))


def _one_of(random: np.random.Generator, names: list[str], size: int) -> NDArray[np.str_]:
    """Returns names of which the first are up to three times as frequent as the last."""
    return np.array(names)[(len(names) * random.random(size) ** 1.3).astype(np.int64)]


def _days(random: np.random.Generator, size: int) -> pa.Array:
    days = FIRST_DAY + random.integers(0, DAYS, size)
    return pa.array(days.astype("datetime64[D]"), pa.date32())


def catalog(max_visits: int, max_labs: int) -> dp.Catalog:
    """Returns the declarations with bounds on a patient's rows."""
    words = {"REGIONS": REGIONS, "WARDS": WARDS}
    text = CATALOG.replace("MAX_VISITS", str(max_visits)).replace("MAX_LABS", str(max_labs))
    for word, names in words.items():
        text = text.replace(word, ", ".join(names))
    return dp.Catalog.from_yaml(text)


def session(data: Mapping[str, pa.Table], folder: Path, max_visits: int, max_labs: int) -> dp.Session:
    """Returns a session over the tables, with a new ledger in the folder, that stores no answers."""
    declared = catalog(max_visits, max_labs)
    return dp.connect(declared, data, ledger=dp.create_ledger(declared, folder / "wards.ledger"), reuse=False)
