"""The commands about what may be spent and was spent: `dpquery budget` and `dpquery ledger create|show|verify`.

What the owner decides is in `owner.py`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpquery.frontends.admin.audit import SHOWN, Account, accounts_of, analysts_of
from dpquery.frontends.cli.options import CatalogFile, LedgerFile, opt
from dpquery.frontends.opening import is_url, ledger_beside, open_ledger, shown
from dpquery.frontends.text import BAR, bar, grid, percent

if TYPE_CHECKING:
    from dpquery.kernel.loss import PrivacyLoss
    from dpquery.ledger.ledger import Entry, Ledger


NARROW = 8
"""Characters of a bar in the shell, whose lines fit 80 columns."""

ledger_commands = typer.Typer(help="Create, show and verify ledgers: what has been spent.", no_args_is_help=True)

LedgerPlace = Annotated[str, typer.Argument(metavar="LEDGER", help="The ledger's file, or postgresql://...")]
MarkPath = Annotated[Path | None, opt("--mark", "FILE", "The ledger's mark, where it was moved since.")]
Json = Annotated[bool, opt("--json", None, "Print JSON.")]


def budget(
    place: Annotated[str, typer.Argument(metavar="CATALOG|LEDGER", help="The catalog, or the ledger itself.")],
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Print limits, what is spent and what is left: for the dataset, and for each analyst."""
    opened, analysts = _open(place, ledger)
    accounts = list(accounts_of(opened, analysts))
    by_block = {name: opened.remaining_by_block(name) for name in analysts}
    opened.close()
    if as_json:
        blocks = {name: {b: _amounts(rest) for b, rest in rests.items()} for name, rests in by_block.items() if rests}
        told = _budget_json(opened, accounts) | ({"remaining_by_block": blocks} if blocks else {})
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    typer.echo("\n".join(_budget_text(opened, accounts, by_block)))


def own_budget(place: str, ledger: str | None, analyst: str) -> str:
    """Returns what `dpquery budget` prints, of all together and of one analyst."""
    opened, _ = _open(place, ledger)
    with contextlib.closing(opened):
        by_block = {analyst: opened.remaining_by_block(analyst)}
        return "\n".join(_budget_text(opened, list(accounts_of(opened, [analyst])), by_block, NARROW)) + "\n"


def own_history(place: str, ledger: str | None, analyst: str) -> Iterator[list[str]]:
    """Yields number, time, charge and query of each charge of an analyst, the oldest first."""
    opened, _ = _open(place, ledger)
    with contextlib.closing(opened):
        entries = [entry for entry in opened.entries() if entry.analyst == analyst]
    yield from ([cell for i, cell in enumerate(_line(entry)) if i not in (2, 4)] for entry in entries)


def _budget_text(
    opened: Ledger, accounts: list[Account], by_block: Mapping[str, Mapping[str, PrivacyLoss]], width: int = BAR
) -> Iterator[str]:
    from dpquery.kernel.accountant import promise

    axis = opened.declarations.blocks
    each = "" if axis is None else f" for each {axis.by.value}; the line shows where least is left"
    yield f"Dataset {opened.declarations.dataset}: {promise(opened.budget)}{each}\n"
    rows = [row for account in accounts for row in _rows(*account, width)]
    names = ["who", "counted in", "limit", "spent", "left", "used"]
    yield from grid(names, rows, [False, False, True, True, True, False])
    yield from left_by_block(by_block)


@ledger_commands.command()
def create(
    catalog: CatalogFile,
    ledger: Annotated[
        str | None, typer.Argument(metavar="LEDGER", help="A file or postgresql://...; else DATASET.ledger beside it.")
    ] = None,
    mark: Annotated[Path | None, opt("--mark", "FILE", "Its high-water mark, best on another disk.")] = None,
) -> None:
    """Create a catalog's ledger, once: it starts the budget, and is never to be deleted."""
    from dpquery.catalog import Catalog
    from dpquery.kernel.accountant import promise
    from dpquery.ledger.ledger import Ledger

    declared = Catalog.load(catalog)
    path = ledger or ledger_beside(declared, catalog)
    made = Ledger.create(path, declared.declarations, declared.budget, declared.analysts, mark=mark)
    made.close()
    for warning in declared.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    typer.echo(f"Created {shown(path)}\n  mark {made.mark_path}")
    typer.echo(f"  dataset {declared.dataset}: {promise(declared.budget)}, all analysts together")
    for name, own in declared.analysts.items():
        typer.echo(f"  analyst {name}: {promise(own)}")


@ledger_commands.command()
def show(
    ledger: LedgerPlace,
    analyst: Annotated[str | None, opt("--analyst -a", "NAME", "Only this analyst's.")] = None,
    totals: Annotated[bool, opt("--totals", None, "Sums by analyst and query, the most expensive first.")] = False,
    as_json: Json = False,
) -> None:
    """Print all charges and acts of the owner, oldest first.

    A pending charge has no answer yet, or none for ever; it counts all the same.
    """
    from dpquery.catalog.names import plain
    from dpquery.frontends.admin.audit import record, totals_of

    entries = [entry for entry in open_ledger(ledger).entries() if analyst in (None, entry.analyst)]
    if totals:
        summed = totals_of(entries)
        if as_json:
            typer.echo(json.dumps(summed, indent=2, ensure_ascii=False))
            return
        rows = [[plain(str(s["analyst"])), str(s["times"]), str(s["shown"]), plain(str(s["query"]))] for s in summed]
        typer.echo("\n".join(_fit(grid(["analyst", "times", "charged", "query"], rows, [False, True, False, False]))))
        return
    if as_json:
        typer.echo(json.dumps([record(entry) for entry in entries], indent=2, ensure_ascii=False))
        return
    names = ["number", "time (UTC)", "analyst", "charge", "state", "query"]
    typer.echo(
        "\n".join(_fit(grid(names, [_line(entry) for entry in entries], [True, False, False, False, False, False])))
    )


def _line(entry: Entry) -> list[str]:
    from dpquery.catalog.names import plain
    from dpquery.frontends.admin.audit import told

    time = entry.time[:19].replace("T", " ")
    who = plain(entry.analyst) or "all together"
    charge = f"{entry.loss} to {entry.blocks.replace('*', 'all blocks')}" if entry.blocks else str(entry.loss)
    return [str(entry.seq), time, who, charge, entry.state.value, plain(told(entry))]


@ledger_commands.command()
def verify(
    ledger: LedgerPlace,
    since: Annotated[str | None, opt("--since", "MARK", "A mark printed before; an older ledger is refused.")] = None,
    mark: MarkPath = None,
) -> None:
    """Check every entry of a ledger, and print a mark that tells a later check whether this state was ever undone."""
    opened = open_ledger(ledger, since=since, mark=mark)
    count = opened.verify()
    typer.echo(f"{shown(ledger)}: {count:,} {'entry' if count == 1 else 'entries'}, unbroken\nmark {opened.mark}")


def _open(place: str, ledger: str | None) -> tuple[Ledger, list[str]]:
    """Returns the ledger at, or named by, a place, and the analysts that are known."""
    from dpquery.catalog import Catalog

    if _is_ledger(place):
        opened, named = open_ledger(place), list[str]()
    else:
        declared = Catalog.load(place)
        opened, named = open_ledger(ledger or ledger_beside(declared, Path(place))), list(declared.analysts)
    return opened, analysts_of(opened, named)


def _is_ledger(place: str) -> bool:
    from dpquery.ledger.file import looks_like_a_ledger

    path = Path(place)
    if is_url(place) or not path.is_file():
        return path.suffix not in (".yaml", ".yml")
    with path.open("rb") as file:
        return looks_like_a_ledger(file.read(100))


def _rows(
    name: str | None, limit: PrivacyLoss, spent: PrivacyLoss, left: PrivacyLoss, width: int
) -> Iterator[list[str]]:
    from dpquery.catalog.names import plain
    from dpquery.kernel.loss import show_amount

    shown = "all together" if name is None else plain(name)
    for part in SHOWN:
        most, used, rest = (getattr(loss, part) for loss in (limit, spent, left))
        if most:
            share = Fraction(used, most)
            amounts = [show_amount(amount) for amount in (most, used, rest)]
            yield [shown, part, *amounts, f"{bar(share, width)} {percent(share)}"]
            shown = ""


def left_by_block(by_block: Mapping[str, Mapping[str, PrivacyLoss]]) -> Iterator[str]:
    """Yields what each analyst has left, a line for each run of blocks with the same amount."""
    from dpquery.catalog.names import plain

    for name, rests in by_block.items():
        yield from ["", f"Left for {plain(name)}:"] if rests else []
        dated = [block for block in rests if block != "undated"]
        for rest, run in groupby(dated, key=rests.__getitem__):
            blocks = list(run)
            yield f"  {blocks[0]}{f' to {blocks[-1]}' if len(blocks) > 1 else ''}: {rest}"
        yield from [f"  undated: {rests['undated']}"] if rests else []


def _budget_json(ledger: Ledger, accounts: list[Account]) -> dict[str, object]:
    budget = ledger.budget
    declared = {part: float(getattr(budget, part)) for part in SHOWN if getattr(budget, part)}
    return {
        "dataset": ledger.declarations.dataset,
        "budget": declared,
        "accounts": [
            {"analyst": name, "limit": _amounts(limit), "spent": _amounts(spent), "remaining": _amounts(left)}
            for name, limit, spent, left in accounts
        ],
    }


def _amounts(loss: PrivacyLoss) -> dict[str, float]:
    return {part: float(getattr(loss, part)) for part in SHOWN}


def _fit(lines: list[str]) -> list[str]:
    """Returns lines cut to the terminal's width; whole where the output is not a terminal."""
    if not sys.stdout.isatty():
        return lines
    width = shutil.get_terminal_size().columns
    return [line if len(line) <= width else line[: width - 3] + "..." for line in lines]
