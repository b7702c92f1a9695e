"""The command `dpquery shell`."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpquery.cancelling.interrupting import interruptible_work
from dpquery.frontends.cli.options import QUERY, RESOURCES, SESSION, CatalogFile, opt, options_of, session_of, takes
from dpquery.frontends.shell.typed_input import read_pipe

if TYPE_CHECKING:
    from dpquery.frontends.shell.shell import Shell


@takes(SESSION, QUERY, RESOURCES)
def shell(
    catalog: CatalogFile,
    yes: Annotated[bool, opt("--yes -y", None, "Pay without asking.")] = False,
    **asked: Any,
) -> None:
    """Ask one query after the other; each price is shown before it is paid. Reads statements from a pipe, too."""
    from dpquery.frontends.shell import prompt
    from dpquery.frontends.shell.background import Opening

    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    shells = functools.partial(_opened, catalog, asked, is_terminal=is_terminal, asks=is_terminal and not yes)
    if not is_terminal:
        _read_pipe(shells)
        return
    typer.echo(f"{catalog.name}: \\tables lists what may be asked, \\help the commands")
    with Opening(shells) as opening:
        for text in prompt.read_terminal(opening):
            made = opening.wait()
            made.handle(text)
            if made.has_ended:
                break


@contextlib.contextmanager
def _opened(catalog: Path, asked: dict[str, Any], *, is_terminal: bool, asks: bool) -> Iterator[Shell]:
    """Gives a shell over a session; loads the engine."""
    from dpquery.frontends.cli.ledger import own_budget, own_history
    from dpquery.frontends.shell import prompt
    from dpquery.frontends.shell.shell import Shell

    options, ledger = options_of(asked), asked["ledger"]
    with session_of(catalog, asked, interruptible=False) as session:
        if not is_terminal:
            yield Shell(session, options)
            return
        own = (str(catalog), ledger, session.analyst)
        yield Shell(
            session,
            options,
            width=prompt.width,
            agrees=prompt.agrees if asks else None,
            page=prompt.page,
            account=lambda: own_budget(*own),
            charges=lambda: list(own_history(*own)),
        )


def _read_pipe(shells: Callable[[], AbstractContextManager[Shell]]) -> None:
    with contextlib.ExitStack() as stack:
        with interruptible_work():
            made = stack.enter_context(shells())
        for text in read_pipe(iter(sys.stdin)):
            made.handle(text)
            if made.has_ended:
                break
    if made.has_failed:
        raise typer.Exit(2)
