"""What the shell does with a statement: shows its price, asks, runs it, prints the answer. Knows no terminal.

Everything that is typed passes through `Shell.handle`; `prompt` reads it from a terminal, `statements` from a pipe.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpquery.cancelling.interrupting import interruptible_work
from dpquery.catalog.describe import describe_column, describe_table
from dpquery.errors import CatalogError, DPQueryError
from dpquery.frontends.cli.answer import Format, check_output, prices_text, show_charge, show_prospect, write_answer
from dpquery.frontends.cli.options import error_of
from dpquery.frontends.text import as_options, grid
from dpquery.session.options import NO_OPTIONS

if TYPE_CHECKING:
    from dpquery.result.table import Result
    from dpquery.session.options import Options
    from dpquery.session.planned import Plan
    from dpquery.session.session import Session

SETTINGS = ("epsilon", "delta", "rho", "error", "confidence", "max_rows", "max_groups", "dialect")
GIVE_WAY = {"epsilon": ("rho", "error"), "rho": ("epsilon", "error"), "error": ("epsilon", "rho")}
"""A query is asked for a loss or for an error: what is set gives way to what is set later."""
MOST_ERRORS = 8
"""So many expected errors are shown before a query is paid."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that begins with a backslash: what it takes, what it does, for people and for completion."""

    takes: str
    says: str
    run: Callable[[Shell, str], None]


class Shell:
    """One session, what is set for its queries, and the last answer.

    Args:
        session: Who asks, and what.
        options: What is asked with each query until `\\set` says otherwise.
        width: Columns of the terminal, or None where there is none: an answer that is wider is shown by rows.
        agrees: Asks whether to pay, after the price was shown; None: nothing is asked.
        page: Shows a long text.
    """

    def __init__(
        self,
        session: Session,
        options: Options,
        *,
        width: Callable[[], int] | None = None,
        agrees: Callable[[], bool] | None = None,
        page: Callable[[str], None] = lambda text: typer.echo(text, nl=False),
    ) -> None:
        self.session, self.options = session, options
        self._width, self._agrees, self._page = width, agrees, page
        self._last: Result | None = None
        self.has_ended = self.has_failed = False

    def handle(self, text: str) -> None:
        """Does what one statement or command says; a refusal is printed, and the session goes on."""
        statement = text.strip().removesuffix(";").strip()
        if not statement:
            return
        try:
            if statement.startswith("\\") or statement in WORDS:
                self._command(statement)
            else:
                self._query(statement)
        except DPQueryError as error:
            self.has_failed = True
            typer.echo(f"{type(error).__name__}: {_in_its_words(str(error))}", err=True)
        except typer.BadParameter as error:
            self.has_failed = True
            typer.echo(f"Error: {error.message}", err=True)
        except KeyboardInterrupt:
            typer.echo(f"[interrupted; what was charged is kept; left: {self.session.remaining}]", err=True)

    def _command(self, statement: str) -> None:
        name, _, rest = statement.removeprefix("\\").partition(" ")
        found = COMMANDS.get(WORDS.get(name, name))
        if found is None:
            raise typer.BadParameter(f"there is no command \\{name}; \\help lists them")
        found.run(self, rest.strip())

    def _query(self, text: str) -> None:
        with interruptible_work():
            if self._agrees is not None:
                plan = self.session.explain(text, options=self.options)
                if plan.charge.epsilon or plan.charge.rho:
                    typer.echo(price_text(plan, self.session), err=True)
                    if not self._agrees():
                        return
            answer = self.session.sql(text, options=self.options)
        self._last = answer
        try:
            self._page(fitted(answer, None if self._width is None else self._width()))
        finally:
            show_charge(answer, self.session)

    def explain(self, text: str) -> None:
        """Prints what a query would measure and cost."""
        plan = self.session.explain(text, options=self.options)
        self._page(f"{plan}\n")
        show_prospect(plan, self.session)

    def prices(self, text: str) -> None:
        """Prints what losses and errors would cost."""
        plan = self.session.explain(text, options=self.options)
        typer.echo(prices_text(plan), nl=False)
        show_prospect(plan, self.session)

    def budget(self, _: str) -> None:
        """Prints what is left, of the whole and where rows are in blocks of each."""
        typer.echo(f"left for {self.session.analyst}: {self.session.remaining}")
        for block, left in self.session.remaining_by_block.items():
            typer.echo(f"  {block}: {left}")

    def tables(self, name: str) -> None:
        """Prints the declared tables, or the columns of one."""
        catalog = self.session.catalog
        if not name:
            rows = [[table, describe_table(declared, catalog)] for table, declared in catalog.tables.items()]
            typer.echo("\n".join(grid(["table", "what is declared"], rows, [False, False])))
            return
        declared = catalog.tables.get(name)
        if declared is None:
            raise CatalogError([f"the catalog declares no table {name!r}; \\tables lists them"])
        rows = [[column, str(what.type), describe_column(what)] for column, what in declared.columns.items()]
        self._page("\n".join(grid(["column", "type", "what is declared"], rows, [False] * 3)) + "\n")

    def set(self, text: str) -> None:
        """Sets an option for all queries that follow, or shows what is set."""
        name, value = re.fullmatch(r"(\w*)\s*=?\s*(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        if not name:
            shown = [f"{one} {found}" for one in SETTINGS if (found := getattr(self.options, one)) is not None]
            typer.echo("\n".join(shown) or "nothing is set: the catalog's defaults hold")
        elif name not in SETTINGS:
            raise typer.BadParameter(f"\\set takes one of: {', '.join(SETTINGS)}")
        else:
            given: dict[str, Any] = {**dict.fromkeys(GIVE_WAY.get(name, ())), name: _value(name, value)}
            self.options = dataclasses.replace(self.options, **given)

    def export(self, text: str) -> None:
        """Writes the last answer to a file, in the form that its ending says."""
        if self._last is None:
            raise typer.BadParameter("there is no answer yet")
        try:
            (name,) = shlex.split(text)
            format = Format("table" if (ending := Path(name).suffix[1:]) == "txt" else ending)
        except ValueError:
            raise typer.BadParameter("\\export takes a file that ends in .csv, .json, .parquet or .txt") from None
        check_output(format, Path(name))
        write_answer(self._last, format, Path(name), intervals=True)

    def help(self, _: str) -> None:
        """Prints the commands."""
        rows = [[f"\\{name} {command.takes}".strip(), command.says] for name, command in COMMANDS.items()]
        typer.echo("\n".join(grid(["command", ""], rows, [False, False])))
        typer.echo("Anything else is SQL, which ends with a semicolon.")

    def quit(self, _: str) -> None:
        """Ends the shell."""
        self.has_ended = True


COMMANDS = {
    "budget": Command("", "what is left", Shell.budget),
    "explain": Command("SQL", "what a query would measure and cost; free", Shell.explain),
    "prices": Command("SQL", "what losses and errors would cost; free", Shell.prices),
    "tables": Command("[TABLE]", "declared tables, or the columns of one", Shell.tables),
    "set": Command("[NAME VALUE]", f"for all queries that follow: {', '.join(SETTINGS)}", Shell.set),
    "export": Command("FILE", "the last answer with its intervals, as .csv, .json, .parquet or .txt", Shell.export),
    "help": Command("", "this list", Shell.help),
    "quit": Command("", "leave (also Ctrl-D)", Shell.quit),
}
WORDS = {"quit": "quit", "exit": "quit", "help": "help", "q": "quit", "d": "tables", "dt": "tables", "?": "help"}
"""What people type for some of the commands, out of habit."""


def statements(lines: Iterator[str]) -> Iterator[str]:
    """Yields what a pipe holds: commands by line, statements up to a line that ends with a semicolon, or the end."""
    waiting: list[str] = []
    for line in lines:
        if not waiting and line.lstrip().startswith("\\"):
            yield line
            continue
        waiting.append(line)
        if is_whole("".join(waiting)):
            yield "".join(waiting)
            waiting = []
    if "".join(waiting).strip():
        yield "".join(waiting)


def is_whole(text: str) -> bool:
    """Whether what was typed is to be run: a command, a word of a command, or SQL up to a semicolon."""
    typed = text.strip()
    return not typed or typed.startswith("\\") or typed in WORDS or typed.endswith(";")


def price_text(plan: Plan, session: Session) -> str:
    """Returns on a line what a query would cost, and on others by how much its numbers would be off."""
    seen = {one.label: one for one in plan.measurements if not one.stored and not one.follows}
    errors = [f"  {label} ± {one.error95:,.6g}{f' {one.unit}' if one.unit else ''}" for label, one in seen.items()]
    more = [f"  and {len(errors) - MOST_ERRORS} more"] if len(errors) > MOST_ERRORS else []
    left = session.remaining_for(plan)
    warned = [f"  Warning: {warning}" for warning in plan.warnings]
    price = f"[costs {plan.charge}; left {left}; measured with 95 % errors of"
    return "\n".join([price, *errors[:MOST_ERRORS], *more, *warned]) + "]"


def fitted(answer: Result, width: int | None) -> str:
    """Returns an answer as a table, or where that is wider than the terminal, row by row."""
    text = answer.to_text()
    if width is None or not len(answer) or max(map(len, text.splitlines())) <= width:
        return text + "\n"
    widest = max(map(len, answer.columns))
    lines = []
    for number, row in enumerate(answer.cells(), 1):
        lines.append(f"-- row {number}")
        lines += [f"{name:{widest}}  {cell.strip()}" for name, cell in zip(answer.columns, row, strict=True)]
    return "\n".join(lines) + "\n"


def _value(name: str, value: str) -> object:
    """Returns what is set; nothing means the default."""
    if not value:
        return getattr(NO_OPTIONS, name)
    if name == "error":
        return error_of(value.split())
    if name not in ("max_rows", "max_groups"):
        return value
    if not value.isdigit():
        raise typer.BadParameter(f"\\set {name} takes a whole number")
    return int(value)


def _in_its_words(message: str) -> str:
    """Returns a message with advice on options as the shell sets them."""
    names = "|".join(SETTINGS).replace("_", "-")
    return re.sub(rf"--({names})\b", lambda found: "\\set " + found[1].replace("-", "_"), as_options(message))
