"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CatalogFile = Annotated[Path, typer.Argument(metavar="CATALOG", help="The catalog, a YAML file.")]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source", "-s", metavar="TABLE=PATH", help="A table's data; by default TABLE.parquet, ... beside the catalog."
    ),
]
LedgerFile = Annotated[
    str | None,
    typer.Option("--ledger", "-l", metavar="FILE|URL", help="By default DATASET.ledger beside the catalog."),
]
Analyst = Annotated[
    str | None, typer.Option("--analyst", "-a", metavar="NAME", help="The analyst; not needed if only one is declared.")
]
Epsilon = Annotated[str | None, typer.Option("--epsilon", "-e", metavar="AMOUNT", help="What the query may lose.")]
Delta = Annotated[str | None, typer.Option("--delta", metavar="AMOUNT", help="With epsilon, or for selected groups.")]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit", metavar="AMOUNT", help="Memory of the engine, such as 4GB; by default half of the machine's."
    ),
]
SpillTo = Annotated[
    str | None,
    typer.Option("--spill", metavar="FOLDER|off", help="Folder for encrypted temporary files."),
]
Rho = Annotated[str | None, typer.Option("--rho", metavar="AMOUNT", help="Instead of epsilon.")]


def spill_of(given: str | None) -> bool | str:
    """Returns what --spill says, as `dpquery.connect` takes it."""
    return True if given is None else False if given == "off" else given
