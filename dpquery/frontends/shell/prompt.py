"""The terminal of the shell: a prompt with completion, history, and a line that shows what is left."""

from __future__ import annotations

import contextlib
import pydoc
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpquery.errors import extra
from dpquery.frontends.shell.typed_input import is_whole

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from dpquery.frontends.shell.background import Opening
    from dpquery.frontends.shell.shell import Shell
    from dpquery.session.session import Session

KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "ON", "AS", "AND"),
    *("OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "CASE", "WHEN", "THEN", "ELSE", "END", "WITH", "UNION ALL"),
    *("FILTER", "DISTINCT", "DESC", "ASC", "INTERVAL", "OVER", "PARTITION BY", "ROLLUP", "CUBE"),
)
HISTORY = ".local/state/dpquery/shell-history"


def read_terminal(opening: Opening[Shell]) -> Iterator[str]:
    """Yields what is typed until Ctrl-D, from before the shell is opened. Ctrl-C gives up a line.

    Raises:
        DPQueryError: prompt_toolkit is not there; it comes with `pip install 'dpquery[shell]'`.
        BaseException: What the shell cannot be opened for, as soon as that is known.
    """
    toolkit = extra("prompt_toolkit", of="shell", purpose="the shell's prompt", instead="Statements can be piped in.")
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.patch_stdout import patch_stdout

    prompt: Any = toolkit.PromptSession(
        history=FileHistory(str(history_file())),
        completer=_completer(opening),
        key_bindings=_enter_runs_what_is_whole(),
        multiline=True,
        complete_while_typing=False,
        complete_in_thread=True,
        prompt_continuation=lambda width, *_: " " * (width - 2) + "> ",
        bottom_toolbar=lambda: _toolbar(opening.opened),
    )

    def ended() -> None:
        if opening.error is None:
            prompt.app.invalidate()
        elif prompt.app.is_running and not prompt.app.is_done:
            prompt.app.exit(exception=opening.error)

    def begin() -> None:
        loop = prompt.app.loop

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # something was typed before, and the loop is closed
                loop.call_soon_threadsafe(ended)

        opening.start(tell)

    while True:
        try:
            with patch_stdout():  # warnings of what is opened stand above the prompt
                typed = prompt.prompt("dpquery> ", pre_run=begin)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        yield typed


def _toolbar(shell: Shell | None) -> str:
    """Returns the line below the prompt: who asks, and what is left."""
    said = "opening the data ..." if shell is None else f"{shell.session.analyst}: {shell.session.remaining} left"
    return f" {said}    \\help    Tab completes    Ctrl-D ends"


def agrees() -> bool:
    """Asks whether to pay. Enter means yes; Ctrl-C, Ctrl-D and any other word mean no, and nothing is charged."""
    try:
        return input("Pay and run? [Y/n] ").strip().lower() in ("", "y", "yes")
    except (KeyboardInterrupt, EOFError):
        typer.echo("")
        return False


def page(text: str) -> None:
    """Prints a text, through the pager where it is longer than the terminal."""
    if text.count("\n") > shutil.get_terminal_size().lines - 4:
        pydoc.pager(text)
    else:
        typer.echo(text, nl=False)


def width() -> int:
    """Returns the columns of the terminal."""
    return shutil.get_terminal_size().columns


def history_file() -> Path:
    """Returns where what was typed is kept, readable by this user alone; it may name people, as queries may."""
    path = Path.home() / HISTORY
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600, exist_ok=True)
    return path


def words_of(session: Session) -> dict[str, str]:
    """Returns what Tab completes, each with what it is: tables, columns, keywords, functions."""
    from dpquery.plan.aggregates import AGGREGATES
    from dpquery.plan.functions import FUNCTIONS

    catalog = session.catalog
    called = {found[1] for row in FUNCTIONS.values() if (found := re.match(r"([A-Z_]+)\(", row.sql))}
    words = dict.fromkeys(KEYWORDS, "") | dict.fromkeys(sorted(called), "function")
    words |= {name: "aggregate" for one in AGGREGATES.values() for name in (one.shown, *one.spellings)}
    words |= {column: f"{name}.{column}" for name, table in catalog.tables.items() for column in table.columns}
    return words | dict.fromkeys(catalog.tables, "table")


def completions(before: str, words: dict[str, str]) -> Iterable[tuple[str, str, int]]:
    """Yields what may follow a text: a word, what it is, and how many characters of the text it stands for."""
    from dpquery.frontends.shell.shell import COMMANDS, SETTINGS

    start = before[max(before.rfind(c) for c in " \n\t(,.\\=") + 1 :]
    if before.lstrip().startswith("\\") and " " not in before.lstrip():
        yield from (
            (f"{name}", command.says, len(start)) for name, command in COMMANDS.items() if name.startswith(start)
        )
    elif before.lstrip().startswith("\\set ") and before.lstrip().count(" ") == 1:
        yield from ((name, "", len(start)) for name in SETTINGS if name.startswith(start))
    elif start:
        low = start.lower()
        yield from ((word, what, len(start)) for word, what in words.items() if word.lower().startswith(low))


def _completer(opening: Opening[Shell]) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    words: dict[str, str] = {}

    class Words(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            opening.join()
            if not words and opening.opened is not None:
                words.update(words_of(opening.opened.session))
            for word, what, length in completions(document.text_before_cursor, words):
                yield Completion(word, start_position=-length, display_meta=what)

    return Words()


def _enter_runs_what_is_whole() -> Any:
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: Any) -> None:
        buffer = event.current_buffer
        buffer.validate_and_handle() if is_whole(buffer.text) else buffer.insert_text("\n")

    return bindings
