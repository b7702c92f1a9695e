"""`dpquery prepare`: the data in the form that sessions read fastest, written once for each version of the data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dpquery.errors import CatalogError
from dpquery.frontends.cli.answer import say
from dpquery.frontends.cli.options import CatalogFile, KeyFile, LedgerFile, MemoryLimit, Sources, SpillTo, spill_of
from dpquery.frontends.cli.owner import user
from dpquery.frontends.opening import find_sources, ledger_beside


def prepare(
    catalog: CatalogFile,
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="A new or empty folder, or one to renew.")],
    shards: Annotated[
        int | None,
        typer.Option("--shards", min=1, metavar="N", help="Parts of the units; by default one per 20 million rows."),
    ] = None,
    erase: Annotated[
        str | None,
        typer.Option("--erase", metavar="UNIT", help="Remove this unit's rows from FOLDER; - reads it from a line."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove what FOLDER holds, and write nothing.")] = False,
    source: Sources = None,
    ledger: LedgerFile = None,
    key_file: KeyFile = None,
    memory_limit: MemoryLimit = None,
    spill: SpillTo = None,
) -> None:
    """Write the data once in the form that queries read fastest; then name the folder as --source."""
    from dpquery.catalog import Catalog
    from dpquery.data.encrypted_files import key_of
    from dpquery.session import preparing

    if remove:
        preparing.remove(into)
        typer.echo(f"{into}: removed")
        return
    declared = Catalog.load(catalog)
    engine: dict[str, Any] = {"memory_limit": memory_limit, "spill": spill_of(spill), "key": key_of(key_file)}
    if erase is not None:
        if source or shards:
            raise CatalogError("--erase changes what FOLDER holds: leave --source and --shards out")
        unit = sys.stdin.readline().rstrip("\n") if erase == "-" else erase
        found_ledger = ledger or ledger_beside(declared, catalog)
        preparing.erase(declared, into, unit, ledger=found_ledger, by=user(), **engine)
        typer.echo(f"{into}: erased, as a new version of the data. Remove the unit from the sources too")
        return
    found, problems = find_sources(declared, catalog.parent, source or ())
    if problems:
        raise CatalogError(problems)
    place = ledger or ledger_beside(declared, catalog)
    preparing.prepare(declared, found, into, ledger=place, shards=shards, say=say, **engine)
    kept = "prepared" if engine["key"] is None else "prepared and encrypted"
    typer.echo(f"{into}: {kept}. Read it with --source {into}; it holds people's data, so keep it to yourself")
