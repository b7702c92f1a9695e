"""`dpquery synopsis create|list|drop`: synthetic rows of a table, bought once and read free by SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpquery.frontends.cli.answer import left_if_interrupted, say
from dpquery.frontends.cli.options import LOSS, SESSION, CatalogFile, opt, session_of, takes

synopsis_commands = typer.Typer(help="Buy, list and drop tables of synthetic rows.", no_args_is_help=True)
Named = Annotated[str, typer.Argument(metavar="NAME", help="Its name in the schema synopsis.")]


@synopsis_commands.command()
@takes(SESSION, LOSS)
def create(
    catalog: CatalogFile,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A private table.")],
    column: Annotated[list[str] | None, opt("--column -c", "COLUMN", "A column; by default all that can be.")] = None,
    measure: Annotated[list[str] | None, opt("--measure", "COLUMN", "A number that queries add up or average.")] = None,
    name: Annotated[str | None, opt("--name", "NAME", "Its name; by default that of the table.")] = None,
    rows: Annotated[int | None, opt("--rows", "N", "Synthetic rows; by default as many as the table has.")] = None,
    if_rows: Annotated[int | None, opt("--if-rows", "N", "Buy nothing: print what it would measure of N rows.")] = None,
    plot: Annotated[Path | None, opt("--plot", "FILE", "Write a picture of the quality report.")] = None,
    **asked: Any,
) -> None:
    """Buy synthetic rows of a table, charged once; `dpquery query` reads them as synopsis.NAME, free."""
    with session_of(catalog, asked) as session:
        if if_rows is not None:
            planned = session.synopses.plan(table, column, measures=measure or (), if_rows=if_rows, **asked)
            typer.echo(str(planned))
            if plot is not None:
                planned.quality.plot().savefig(plot)
            return
        with left_if_interrupted(session):
            made = session.synopsis(table, column, measures=measure or (), name=name, rows=rows, **asked)
        typer.echo(str(made))
        if plot is not None:
            made.quality.plot().savefig(plot)
        say(f"[left for {session.analyst}: {session.remaining}]")


@synopsis_commands.command("list")
@takes(SESSION)
def show(catalog: CatalogFile, **asked: Any) -> None:
    """Print the synopses of the data as they are."""
    with session_of(catalog, asked) as session:
        typer.echo(repr(session.synopses))


@synopsis_commands.command()
@takes(SESSION)
def drop(catalog: CatalogFile, name: Named, **asked: Any) -> None:
    """Remove a synopsis; what it cost stays charged."""
    with session_of(catalog, asked) as session:
        session.synopses.drop(name)
        typer.echo(f"Removed synopsis {name}")
