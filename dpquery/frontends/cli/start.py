"""Catalogs to edit: `dpquery init`, `dpquery import-smartnoise`, `dpquery suggest-bounds`; and what bounds leave out:
`dpquery profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpquery.frontends.cli.answer import left_if_interrupted, say
from dpquery.frontends.cli.options import Analyst, CatalogFile, Delta, Epsilon, LedgerFile, Rho, Sources
from dpquery.frontends.opening import session_over

Dataset = Annotated[str, typer.Option("--dataset", metavar="NAME", help="The dataset's name.")]


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


def suggest_bounds(
    catalog: CatalogFile,
    columns: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN...", help="TABLE.COLUMN; by default all without bounds.")
    ] = None,
    source: Sources = None,
    ledger: LedgerFile = None,
    analyst: Analyst = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    coverage: Annotated[str, typer.Option("--coverage", metavar="PART", help="Of units, to be within.")] = "0.99",
) -> None:
    """Print the catalog with bounds found with noise, and charge the ledger for it."""
    with session_over(catalog, source or (), ledger, analyst) as session:
        with left_if_interrupted(session):
            found = session.suggest_bounds(columns or None, epsilon=epsilon, delta=delta, rho=rho, coverage=coverage)
        typer.echo(str(found), nl=False)
        say(f"[charged {found.charge}; left for {session.analyst}: {session.remaining}]")


def profile(
    catalog: CatalogFile,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="One private table; by default all of them.")
    ] = None,
    source: Sources = None,
    ledger: LedgerFile = None,
    analyst: Analyst = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    groups: Annotated[int, typer.Option("--groups", metavar="K", help="Groups of the usual queries.")] = 24,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure all of it again and ignore stored answers.")] = False,
) -> None:
    """Print how rows and values of units lie against the declared bounds, with noise, and charge the ledger once."""
    from dpquery.session.profile_ladder import check_groups

    check_groups(groups)
    with session_over(catalog, source or (), ledger, analyst) as session:
        with left_if_interrupted(session):
            found = session.profile(table, epsilon=epsilon, delta=delta, rho=rho, fresh=fresh)
        typer.echo(found.to_text(groups=groups))
        charged = f"charged {found.charge}" if found.charge.epsilon or found.charge.rho else "nothing was charged"
        say(f"[95 % intervals of the noise; {charged}; left for {session.analyst}: {session.remaining}]")
