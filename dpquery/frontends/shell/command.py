"""The command `dpquery shell`."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any

import typer

from dpquery.cancelling.interrupting import interruptible_work
from dpquery.frontends.cli.options import QUERY, RESOURCES, SESSION, CatalogFile, opt, options_of, session_of, takes


@takes(SESSION, QUERY, RESOURCES)
def shell(
    catalog: CatalogFile,
    yes: Annotated[bool, opt("--yes -y", None, "Pay without asking.")] = False,
    **asked: Any,
) -> None:
    """Ask one query after the other; each price is shown before it is paid. Reads statements from a pipe, too."""
    from dpquery.frontends.cli.ledger import own_budget, own_history
    from dpquery.frontends.shell import prompt
    from dpquery.frontends.shell.shell import Shell, statements

    options, ledger = options_of(asked), asked["ledger"]
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with contextlib.ExitStack() as stack:
        with interruptible_work():
            session = stack.enter_context(session_of(catalog, asked, interruptible=False))
        if not is_terminal:
            asked_for, made = statements(iter(sys.stdin)), Shell(session, options)
        else:
            asks = None if yes else prompt.agrees
            own = (str(catalog), ledger, session.analyst)
            made = Shell(
                session,
                options,
                width=prompt.width,
                agrees=asks,
                page=prompt.page,
                account=lambda: own_budget(*own),
                charges=lambda: list(own_history(*own)),
            )
            asked_for = prompt.read_terminal(session)
            typer.echo(f"dataset {session.catalog.dataset}: \\tables lists what may be asked, \\help the commands")
        for text in asked_for:
            made.handle(text)
            if made.has_ended:
                break
    if made.has_failed and not is_terminal:
        raise typer.Exit(2)
