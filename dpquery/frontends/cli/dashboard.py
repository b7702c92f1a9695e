"""`dpquery plan-dashboard`: what the queries of a dashboard cost together, and buying them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dpquery.frontends.cli.answer import say
from dpquery.frontends.cli.options import QUERY, RESOURCES, SESSION, CatalogFile, opt, options_of, session_of, takes
from dpquery.frontends.opening import ledger_beside, open_ledger
from dpquery.frontends.shell.typed_input import read_pipe

Queries = Annotated[Path | None, typer.Argument(metavar="FILE", help="Queries, each up to a line that ends with ;")]


@takes(SESSION, QUERY, RESOURCES)
def plan_dashboard(
    catalog: CatalogFile,
    file: Queries = None,
    from_log: Annotated[
        bool, opt("--from-log", None, "Take the different queries that this analyst was charged for.")
    ] = False,
    buy: Annotated[bool, opt("--buy", None, "Charge for all of them together, and store the answers.")] = False,
    **asked: Any,
) -> None:
    """Print how exact a dashboard's queries are alone and bought together, and the price; --buy buys them.

    Reads no private row and charges nothing without --buy. Afterwards tiles, filters on public keys and coarser groups
    are free.
    """
    if (file is None) is not from_log:
        raise typer.BadParameter("name a file of queries, or say --from-log")
    from dpquery.session.dashboard import charged_queries

    options, place = options_of(asked), asked["ledger"]
    with session_of(catalog, asked) as session:
        beside = open_ledger(place or ledger_beside(session.catalog, catalog))
        texts = list(
            read_statements(file.read_text(encoding="utf-8"))
            if file is not None
            else charged_queries(beside, session.analyst)
        )
        if not texts:
            raise typer.BadParameter("there are no queries")
        planned = session.plan_dashboard(texts, options=options)
        typer.echo(str(planned))
        if buy:
            answers = planned.buy()
            say(f"bought {len(answers)} queries for {answers.charge}; left {session.remaining}")


def read_statements(text: str) -> Iterator[str]:
    """Yields the statements of a file, without their semicolons."""
    for statement in read_pipe(iter(text.splitlines(keepends=True))):
        query = statement.strip().removesuffix(";").strip()
        if query:
            yield query
