"""What a catalog's profile says of its bounds, where one is stored with the ledger: a part of `dpquery check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dpquery.errors import LedgerError
from dpquery.frontends.cli.answer import say
from dpquery.frontends.opening import is_url, ledger_beside

if TYPE_CHECKING:
    from dpquery.catalog import Catalog


def show_profiles(catalog: Catalog, ledger: str | None, path: Path) -> None:
    """Prints for each table with a stored profile what its max_rows leaves out, which one suits usual queries, and
    which values lie beyond bounds or cannot be read.

    Args:
        ledger: Its place; by default the one beside the catalog, if there is one.
        path: The catalog's.
    Raises:
        LedgerError: The ledger that is named cannot be read.
    """
    from dpquery.ledger.ledger import Ledger
    from dpquery.session.known_profile import stored_profiles

    if ledger is None and Path(catalog.dataset).name != catalog.dataset:
        return  # its ledger can have no place beside the catalog
    place = ledger or ledger_beside(catalog, path)
    if ledger is None and not is_url(place) and not Path(place).exists():
        return
    try:
        opened = Ledger.open(place)
        try:
            profiles = stored_profiles(catalog, opened)
        finally:
            opened.close()
    except LedgerError as error:
        if ledger is not None:
            raise
        say(f"Profile: not looked for, as the ledger beside the catalog cannot be read: {error}")
        return
    if profiles:
        typer.echo("\nProfile of the data, with noise")
    for found in profiles:
        for number, line in enumerate(found.said):
            typer.echo(f"  {line}")
            if found.rule and not number:
                typer.echo(f"    {found.rule}")
