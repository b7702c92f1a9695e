"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CatalogFile = Annotated[Path, typer.Argument(metavar="CATALOG", help="The catalog, a YAML file.")]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        "-s",
        metavar="TABLE=PATH|FOLDER",
        help="A table's data, or all that dpquery prepare wrote; by default TABLE.parquet, ... beside the catalog.",
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
Error = Annotated[
    list[str] | None,
    typer.Option(
        "--error",
        metavar="[NAME=]AMOUNT[@ROWS]",
        help="Instead of a loss, how far columns may be off, of a quantile in ranks; ROWS for averages and ratios.",
    ),
]
Simultaneous = Annotated[
    bool, typer.Option("--simultaneous", help="Errors and intervals hold all at once with the confidence.")
]
Confidence = Annotated[str, typer.Option("--confidence", metavar="PART", help="Of the intervals.")]
Prices = Annotated[
    bool, typer.Option("--prices", help="Print what losses and errors would cost and mean; charges nothing.")
]
Rho = Annotated[str | None, typer.Option("--rho", metavar="AMOUNT", help="Instead of epsilon.")]


def error_of(given: list[str] | None) -> object:
    """Returns what --error says, as `Session.sql` takes it.

    Example:
        >>> error_of(["20"]), error_of(["n=20", "mean=0.5@1000"]), error_of(None)
        ('20', {'n': '20', 'mean': ('0.5', '1000')}, None)
    """
    if not given:
        return None
    pairs = [text.rpartition("=") for text in given]
    if len(given) == 1 and not pairs[0][1] and "@" not in given[0]:
        return given[0]
    if any(not name for name, _, _ in pairs):
        raise typer.BadParameter("--error: several errors name their columns, as does one with rows: --error n=20")
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise typer.BadParameter("--error: a column has two errors")
    return {name: tuple(amount.split("@", 1)) if "@" in amount else amount for name, _, amount in pairs}


def spill_of(given: str | None) -> bool | str:
    """Returns what --spill says, as `dpquery.connect` takes it."""
    return True if given is None else False if given == "off" else given
