"""Catalogs to edit: `dpquery init`, `dpquery import-smartnoise`, `dpquery suggest-bounds`; and what bounds leave out:
`dpquery profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpquery.frontends.cli.answer import left_if_interrupted, say
from dpquery.frontends.cli.options import LOSS, SESSION, CatalogFile, Fresh, opt, session_of, takes

Dataset = Annotated[str, opt("--dataset", "NAME", "The dataset's name.")]


def init(
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="Parquet, CSV, Feather or DuckDB files.")],
    dataset: Dataset = "dataset",
) -> None:
    """Print a commented catalog for files, to edit. Reads names and types of columns, and no value."""
    from dpquery.frontends.cli.skeleton import init as skeleton

    typer.echo(skeleton(tables, dataset), nl=False)


def import_smartnoise(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="SmartNoise's metadata, a YAML file.")],
    dataset: Dataset = "dataset",
) -> None:
    """Print a catalog for SmartNoise's metadata, with comments on what could not be carried over."""
    from dpquery.frontends.cli.skeleton import import_smartnoise as imported

    typer.echo(imported(str(file), dataset), nl=False)


@takes(SESSION, LOSS)
def suggest_bounds(
    catalog: CatalogFile,
    columns: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN...", help="TABLE.COLUMN; by default all without bounds.")
    ] = None,
    coverage: Annotated[str, opt("--coverage", "PART", "Of units, to be within.")] = "0.99",
    **asked: Any,
) -> None:
    """Print the catalog with bounds found with noise, and charge the ledger for it."""
    with session_of(catalog, asked) as session:
        with left_if_interrupted(session):
            found = session.suggest_bounds(columns or None, coverage=coverage, **asked)
        typer.echo(str(found), nl=False)
        say(f"[charged {found.charge}; left for {session.analyst}: {session.remaining}]")


@takes(SESSION, LOSS)
def profile(
    catalog: CatalogFile,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="One private table; by default all of them.")
    ] = None,
    groups: Annotated[int, opt("--groups", "K", "Groups of the usual queries.")] = 24,
    fresh: Fresh = False,
    **asked: Any,
) -> None:
    """Print how rows and values of units lie against the declared bounds, with noise, and charge the ledger once."""
    from dpquery.session.profile_ladder import check_groups

    check_groups(groups)
    with session_of(catalog, asked) as session:
        with left_if_interrupted(session):
            found = session.profile(table, fresh=fresh, **asked)
        typer.echo(found.to_text(groups=groups))
        charged = f"charged {found.charge}" if found.charge.epsilon or found.charge.rho else "nothing was charged"
        say(f"[95 % intervals of the noise; {charged}; left for {session.analyst}: {session.remaining}]")
