"""What the shell does with a statement: shows its price, asks, runs it, prints the answer. Knows no terminal.

Everything that is typed passes through `Shell.handle`; `prompt` reads it from a terminal, `read_pipe` from a pipe.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpquery.cancelling.interrupting import interruptible_work
from dpquery.catalog.describe import describe_column, describe_table
from dpquery.catalog.names import shown, suggestion
from dpquery.errors import CatalogError, DPQueryError
from dpquery.frontends.cli.answer import (
    Format,
    check_output,
    prices_text,
    show_charge,
    show_prospect,
    such,
    times_of,
    write_answer,
)
from dpquery.frontends.cli.options import error_of
from dpquery.frontends.shell.fitting import fitted, prose, table
from dpquery.frontends.shell.typed_input import WORDS
from dpquery.frontends.text import as_asked, as_options, expected_lines
from dpquery.kernel.loss import show_amount
from dpquery.session.options import NO_OPTIONS

if TYPE_CHECKING:
    from dpquery.result.table import Result
    from dpquery.session.options import Options
    from dpquery.session.query_plan import Plan
    from dpquery.session.session import Session

SETTINGS = ("epsilon", "delta", "rho", "error", "confidence", "max_rows", "max_groups", "dialect")
GIVE_WAY = {"epsilon": ("rho", "error"), "rho": ("epsilon", "error"), "error": ("epsilon", "rho")}
"""A query is asked for a loss or for an error: what is set gives way to what is set later."""
MOST_CHARGES = 20
"""So many charges are listed, the last ones."""
HABITS = (
    (re.compile(r"explain\s+(.+)", re.IGNORECASE | re.DOTALL), "explain"),
    (re.compile(r"(?:describe|desc)\s+([\w.]+)", re.IGNORECASE), "tables"),
    (re.compile(r"show\s+tables()", re.IGNORECASE), "tables"),
)
"""What people type, without a backslash, for some of the commands."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
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
        account: Returns what is spent and left as `dpquery budget` shows it; None: one line says what is left.
        charges: Returns what the analyst was charged: number, time, charge and query of each.
    """

    def __init__(
        self,
        session: Session,
        options: Options,
        *,
        width: Callable[[], int] | None = None,
        agrees: Callable[[], bool] | None = None,
        page: Callable[[str], None] = lambda text: typer.echo(text, nl=False),
        account: Callable[[], str] | None = None,
        charges: Callable[[], list[list[str]]] = list,
    ) -> None:
        self.session, self.options = session, options
        self._agrees, self._page, self._account, self._charges = agrees, page, account, charges
        self._width: Callable[[], int | None] = width or (lambda: None)
        self._last: Result | None = None
        self._text = ""
        self.has_ended = self.has_failed = False

    def handle(self, text: str) -> None:
        """Does what one statement or command says; a refusal is printed, and the session goes on."""
        statement = text.strip().removesuffix(";").strip()
        if not statement:
            return
        try:
            if statement.startswith("\\") or statement in WORDS:
                self._command(statement)
            elif (habit := _habit(statement)) is not None:
                habit[0].run(self, habit[1])
            else:
                self._text = statement
                self._query(statement)
        except DPQueryError as error:
            self.has_failed = True
            self._say(f"{type(error).__name__}: {_in_its_words(str(error))}")
        except typer.BadParameter as error:
            self.has_failed = True
            self._say(f"Error: {error.message}")
        except KeyboardInterrupt:
            self._say(f"[interrupted; what was charged is kept; left: {self.session.remaining}]")

    def _say(self, text: str) -> None:
        """Prints to the standard error, within the terminal's width."""
        typer.echo(prose(text, self._width()), err=True)

    def _asked(self, text: str) -> str:
        """Returns the statement that a command is about: its own, or the last one."""
        if not text and not self._text:
            raise typer.BadParameter("write a SELECT behind the command; without one it is about the last, if any")
        self._text = text or self._text
        return self._text

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
                    self._say(price_text(plan, self.session, self.options))
                    if times_of(plan, self.session) != 0 and not self._agrees():
                        return
            answer = self.session.sql(text, options=self.options)
        self._last = answer
        try:
            self._page(fitted(answer, self._width()))
        finally:
            show_charge(answer, self.session, self.options, say=self._say)

    def explain(self, text: str) -> None:
        """Prints what a query would measure and cost."""
        plan = self.session.explain(self._asked(text), options=self.options)
        self._page(prose(f"{plan}\n", self._width()))
        show_prospect(plan, self.session, say=self._say)

    def prices(self, text: str) -> None:
        """Prints what losses and errors would cost."""
        plan = self.session.explain(self._asked(text), options=self.options)
        typer.echo(prices_text(plan, self.session), nl=False)
        show_prospect(plan, self.session, say=self._say)

    def budget(self, _: str) -> None:
        """Prints what is spent and left, of the whole and where rows are in blocks of each."""
        if self._account is not None:
            typer.echo(self._account(), nl=False)
            return
        typer.echo(f"left for {self.session.analyst}: {self.session.remaining}")
        for block, left in self.session.remaining_by_block.items():
            typer.echo(f"  {block}: {left}")

    def tables(self, name: str) -> None:
        """Prints the declared tables and the synopses, or the columns of one."""
        catalog = self.session.synopses.declared
        if not name:
            rows = [[table, describe_table(declared, catalog)] for table, declared in catalog.tables.items()]
            typer.echo(table(["table", "what is declared"], rows, self._width()), nl=False)
            return
        declared = catalog.tables.get(name)
        if declared is None:
            near = suggestion(name, catalog.tables)
            raise CatalogError([f"the catalog declares no table {shown(name)}; {near}; \\tables lists them"])
        rows = [[column, str(what.type), describe_column(what)] for column, what in declared.columns.items()]
        self._page(table(["column", "type", "what is declared"], rows, self._width()))

    def history(self, _: str) -> None:
        """Prints what the analyst was charged for so far, the newest last."""
        rows = self._charges()
        more = f"... {len(rows) - MOST_CHARGES} earlier ones\n" if len(rows) > MOST_CHARGES else ""
        names = ["number", "time (UTC)", "charge", "query"]
        shown_rows = [[*row[:-1], " ".join(row[-1].split())] for row in rows[-MOST_CHARGES:]]
        self._page(more + table(names, shown_rows, self._width()))

    def set(self, text: str) -> None:
        """Sets an option for all queries that follow, or shows what is set."""
        name, value = re.fullmatch(r"(\w*)\s*=?\s*(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        if not name:
            typer.echo("\n".join(self._settings()))
        elif name not in SETTINGS:
            raise typer.BadParameter(f"\\set takes one of: {', '.join(SETTINGS)}")
        else:
            given: dict[str, Any] = {**dict.fromkeys(GIVE_WAY.get(name, ())), name: _value(name, value)}
            options = dataclasses.replace(self.options, **given)
            options.request("", None, self.session.catalog.defaults)
            self.options = options
            typer.echo(f"for the queries that follow: {', '.join(self._settings())}")

    def _settings(self) -> list[str]:
        """Returns what holds for the next query, with what the catalog says where nothing is set."""
        defaults, asks = self.session.catalog.defaults, any(getattr(self.options, one) for one in GIVE_WAY)
        usual = {} if asks else {"epsilon": defaults.epsilon, "rho": defaults.rho}
        usual |= {"delta": defaults.delta}
        said = {name: getattr(self.options, name) for name in SETTINGS}
        found = {name: show_amount(value) for name, value in usual.items() if value is not None}
        found |= {name: _error_text(value) for name, value in said.items() if value is not None}
        return [f"{name} {found[name]}" for name in SETTINGS if name in found]

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
        typer.echo(table(["command", "does"], rows, self._width()), nl=False)
        typer.echo("Anything else is SQL, which ends with a semicolon.")

    def quit(self, _: str) -> None:
        """Ends the shell."""
        self.has_ended = True


COMMANDS = {
    "budget": ShellCommand("", "what is spent and what is left", Shell.budget),
    "history": ShellCommand(
        "", "what you were charged for; the arrow up and Ctrl-R find what you typed", Shell.history
    ),
    "explain": ShellCommand("[SQL]", "what a query, or the last one, would measure and cost; free", Shell.explain),
    "prices": ShellCommand("[SQL]", "what losses and errors would cost for it; free", Shell.prices),
    "tables": ShellCommand("[TABLE]", "declared tables and synopses, or the columns of one", Shell.tables),
    "set": ShellCommand("[NAME VALUE]", f"for all queries that follow: {', '.join(SETTINGS)}", Shell.set),
    "export": ShellCommand(
        "FILE", "the last answer with its intervals, as .csv, .json, .parquet or .txt", Shell.export
    ),
    "help": ShellCommand("", "this list", Shell.help),
    "quit": ShellCommand("", "leave (also Ctrl-D)", Shell.quit),
}


def price_text(plan: Plan, session: Session, options: Options) -> str:
    """Returns what a query would cost, how far its columns would be off, and what is known of bias, a line each."""
    cost = as_asked(plan.charge, session.catalog.defaults, options.epsilon, options.rho or options.error)
    often = times_of(plan, session)
    enough = "" if often is None else f": enough for {such(often)}"
    told = [f"[{note}]" for note in plan.notes] + [f"[Warning: {warning}]" for warning in plan.warnings]
    costs = f"[costs {cost}; left {session.remaining_for(plan)}{enough}]"
    return "\n".join([costs, *(f"[{line}]" for line in expected_lines(plan)), *told])


def _habit(statement: str) -> tuple[ShellCommand, str] | None:
    """Returns the command that is meant by a statement in the words of other programs, and what it is about."""
    found = ((form.fullmatch(statement), name) for form, name in HABITS)
    return next(((COMMANDS[name], matched[1]) for matched, name in found if matched), None)


def _error_text(value: object) -> str:
    """Returns what is set as `\\set` takes it: errors of columns beside each other."""
    if not isinstance(value, dict):
        return str(value)
    return " ".join(f"{name}={'@'.join(e) if isinstance(e, tuple) else e}" for name, e in value.items())


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
