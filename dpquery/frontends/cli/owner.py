"""What the owner decides about a ledger: limits, blocks, tables, restored copies, audits, new data.

Each decision is an entry of the ledger, with who made it and why.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dpquery.errors import CatalogError, LedgerError
from dpquery.frontends.cli.answer import say
from dpquery.frontends.cli.ledger import LedgerPlace, MarkPath, ledger_commands
from dpquery.frontends.cli.options import Analyst, CatalogFile, LedgerFile, Sources, opt
from dpquery.frontends.opening import ledger_beside, open_ledger, session_over, shown

data_commands = typer.Typer(help="Tell the ledger that the data changed.", no_args_is_help=True)

Why = Annotated[str, opt("--why", "TEXT", "The reason; the ledger keeps it.")]
By = Annotated[str | None, opt("--by", "NAME", "Who decides; by default the user of the system.")]
Amount = Annotated[str | None, typer.Option(metavar="AMOUNT")]


@ledger_commands.command()
def limit(
    ledger: LedgerPlace,
    why: Why,
    epsilon: Amount = None,
    delta: Amount = None,
    rho: Amount = None,
    analyst: Annotated[str | None, opt("--analyst -a", "NAME", "Whose limit; by default that of all together.")] = None,
    by: By = None,
    mark: MarkPath = None,
) -> None:
    """Give the dataset or an analyst another limit, or add an analyst; then write the same in the catalog."""
    from dpquery.kernel.accountant import Budget, promise

    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho)
    number = open_ledger(ledger, mark=mark).set_limit(analyst, budget, by=by or user(), why=why)
    who = "all analysts together" if analyst is None else f"analyst {analyst}"
    typer.echo(f"Entry {number}: {who} may now spend {promise(budget)}\nWrite the same in the catalog.")


@ledger_commands.command()
def extend(
    ledger: LedgerPlace,
    why: Why,
    first: Annotated[str | None, opt("--first", "BLOCK", "The first block, as 2024-01.")] = None,
    last: Annotated[str | None, opt("--last", "BLOCK", "The last block, as 2025-12.")] = None,
    by: By = None,
    mark: MarkPath = None,
) -> None:
    """Give more blocks of rows a budget, for new data; then write the bounds in the catalog."""
    opened = open_ledger(ledger, mark=mark)
    number = opened.extend_blocks(first=first, last=last, by=by or user(), why=why)
    axis = opened.declarations.blocks
    assert axis is not None
    typer.echo(f"Entry {number}: there are blocks from {axis.blocks[0]} to {axis.blocks[-2]}")
    typer.echo("Write the bounds in the catalog.")


@ledger_commands.command()
def amend(
    catalog: CatalogFile,
    why: Why,
    ledger: LedgerFile = None,
    by: By = None,
    mark: MarkPath = None,
) -> None:
    """Have the ledger know a catalog's new tables, under the same budget; what would change the promise is refused."""
    from dpquery.catalog import Catalog
    from dpquery.catalog.names import plain

    declared = Catalog.load(catalog)
    opened = open_ledger(ledger or ledger_beside(declared, catalog), mark=mark)
    number = opened.amend(declared.declarations, by=by or user(), why=why)
    if number is None:
        typer.echo("The ledger knows these tables. Columns, keys, bounds and max_rows need no entry.")
    else:
        typer.echo(f"Entry {number}: the ledger knows {', '.join(map(plain, opened.declarations.tables))}")


@ledger_commands.command()
def reconcile(
    ledger: LedgerPlace,
    why: Why,
    by: By = None,
    mark: MarkPath = None,
    mark_is_lost: Annotated[bool, opt("--mark-is-lost", None, "The mark is lost: spend all that was left.")] = False,
) -> None:
    """Accept a ledger that was restored from a backup: every account pays for what may have been lost."""
    from dpquery.ledger.ledger import Ledger

    entry = Ledger.reconcile(ledger, by=by or user(), why=why, mark=mark, is_mark_lost=mark_is_lost)
    typer.echo(
        f"Entry {entry.seq}: {shown(ledger)} is accepted; each account is charged {entry.loss}\n"
        "Limits, analysts and data are as in the restored copy: repeat what was decided since then."
    )


@ledger_commands.command()
def export(
    ledger: LedgerPlace,
    output: Annotated[Path, typer.Argument(metavar="FILE", help="A new file: .jsonl or .parquet.")],
    mark: MarkPath = None,
) -> None:
    """Write every entry to a file for an audit: charges with whole queries, and the owner's acts."""
    from dpquery.frontends.admin.audit import export_ledger

    count = export_ledger(open_ledger(ledger, mark=mark), output)
    typer.echo(f"{output}: {count:,} {'entry' if count == 1 else 'entries'}")


@data_commands.command("new-version")
def new_version(
    ledger: LedgerPlace,
    why: Why,
    by: By = None,
    mark: MarkPath = None,
    catalog: Annotated[Path | None, opt("--catalog", "CATALOG", "Buy the profile, at this catalog's price.")] = None,
    source: Sources = None,
    analyst: Analyst = None,
) -> None:
    """Record that the data changed: answers that are stored for the data before are not given again."""
    price = None if catalog is None else _price(catalog, mark)
    version = open_ledger(ledger, mark=mark).new_data_version(by=by or user(), why=why)
    typer.echo(f"The data are now version {version}")
    if catalog is not None and price is not None:
        with session_over(catalog, source or (), ledger, analyst) as session:
            bought = session.profile(**price)
            typer.echo(f"\n{bought}")
            say(f"[charged {bought.charge}; left for {session.analyst}: {session.remaining}]")


def _price(catalog: Path, mark: Path | None) -> dict[str, Any]:
    """Returns what a catalog says that a profile may lose, before anything is recorded."""
    from dpquery.catalog import Catalog
    from dpquery.session.profile_buying import loss_of_profile

    declared = Catalog.load(catalog)
    if declared.profile is None:
        raise CatalogError('the catalog has no price for a profile: write profile: "0.05", or leave --catalog out')
    if mark is not None:
        raise typer.BadParameter("--mark and --catalog: buy the profile by itself, with dpquery profile")
    return loss_of_profile(declared.profile, declared.budget)


def user() -> str:
    """Returns the name of the system's user, as the system knows it and not as the environment says."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        raise LedgerError("the system does not say who you are; use --by NAME") from None
