"""The command line. Each command is a few calls; engines load inside commands, so that help is quick.

Exit code 0: done. 1: the budget does not suffice. 2: refused, for any other reason. 130: interrupted. Answers go to the
standard output; charges, warnings and errors go to the standard error, so that pipes carry answers alone.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpquery.cancelling.interrupting import interruptible_work
from dpquery.errors import INTERRUPTED, CatalogError, DPQueryError, InsufficientBudgetError, LedgerError, QueryError
from dpquery.frontends.cli.answer import (
    Format,
    check_output,
    left_if_interrupted,
    prices_text,
    say,
    show_charge,
    show_prospect,
    write_answer,
)
from dpquery.frontends.cli.audit import ContradictionFound, audit, meaning
from dpquery.frontends.cli.dashboard import plan_dashboard
from dpquery.frontends.cli.docs import docs
from dpquery.frontends.cli.help import show_help
from dpquery.frontends.cli.ledger import budget, ledger_commands
from dpquery.frontends.cli.options import (
    QUERY,
    RESOURCES,
    SESSION,
    CatalogFile,
    Fresh,
    KeyFile,
    LedgerFile,
    Prices,
    Sources,
    opt,
    options_of,
    session_of,
    takes,
)
from dpquery.frontends.cli.owner import data_commands
from dpquery.frontends.cli.prepare import prepare
from dpquery.frontends.cli.server import serve, user_commands
from dpquery.frontends.cli.start import import_smartnoise, init, profile, suggest_bounds
from dpquery.frontends.cli.synopsis import synopsis_commands
from dpquery.frontends.opening import find_data, is_url, ledger_beside, open_ledger, read_params, read_query
from dpquery.frontends.page.command import page
from dpquery.frontends.shell.command import shell
from dpquery.frontends.text import as_options

if TYPE_CHECKING:
    from dpquery.catalog import Catalog

app = typer.Typer(
    name="dpquery",
    help="SQL aggregate queries over people's data, answered under differential privacy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Query = Annotated[str | None, typer.Argument(metavar="SQL", help="One SELECT statement; - reads standard input.")]
QueryFile = Annotated[Path | None, opt("--file -f", "FILE", "A file that holds the query.")]
Parameters = Annotated[
    list[str] | None, opt("--param -p", "NAME=VALUE", "A value for :NAME, or for $1 as 1=VALUE; see the docs.")
]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, opt("--version", None, "Print the version and stop.")] = False) -> None:
    """SQL aggregate queries over people's data, answered under differential privacy."""
    if version:
        from dpquery import __version__

        typer.echo(f"dpquery {__version__}")
        raise typer.Exit


def check(catalog: CatalogFile, source: Sources = None, ledger: LedgerFile = None, key_file: KeyFile = None) -> None:
    """Print what a catalog declares, with advice; with data, check that it can be read as declared; with a ledger, what
    its profile says of max_rows."""
    from dpquery.catalog import Catalog

    declared = Catalog.load(catalog)
    typer.echo(declared.to_text(), nl=False)
    for warning in declared.warnings:
        say(f"Warning: {warning}")
    show_profiles(declared, ledger, catalog)
    given, problems = find_data(declared, catalog.parent, source or ())
    if problems and not source:
        say("Data: not checked, as not every table has a file beside the catalog; name them with --source.")
        return
    if problems:
        raise CatalogError(problems)
    from dpquery.backends.duckdb.backend import DuckDBBackend
    from dpquery.backends.opening import open_backend
    from dpquery.catalog.identifiers import on_repeated

    if isinstance(given, str):
        from dpquery.session.preparing import sources_of

        with contextlib.closing(open_ledger(ledger or ledger_beside(declared, catalog))) as known:
            found = sources_of(declared, given, known, key_file)
    else:
        found = given
    identifying = list[tuple[str, str]]()
    with interruptible_work():
        opened = open_backend(declared, found)
        if declared.privacy_unit == "row" and isinstance(opened, DuckDBBackend):
            identifying += opened.identifying()
        elif declared.privacy_unit == "row":
            say(f"Data: the backend {declared.backend} does not look for identifiers that come again.")
    for table, column in identifying:
        say(f"Warning: {on_repeated(table, column)}")
    typer.echo("\nData, readable as declared")
    for name, path in found.items():
        typer.echo(f"  {name}: {given if isinstance(given, str) else path}")


@takes(SESSION, QUERY)
def explain(
    catalog: CatalogFile,
    sql: Query = None,
    file: QueryFile = None,
    param: Parameters = None,
    prices: Prices = False,
    passes: Annotated[bool, opt("--passes", None, "Show what each pass of planning makes.")] = False,
    **asked: Any,
) -> None:
    """Print what a query would measure and cost. Reads no private row and charges nothing."""
    text, options = read_query(sql, file), options_of(asked)
    with session_of(catalog, asked) as session:
        plan = session.explain(text, params=read_params(param), options=options, passes=passes)
        typer.echo(str(plan))
        if prices:
            typer.echo(f"Prices\n{prices_text(plan, session)}", nl=False)
        show_prospect(plan, session)


@takes(SESSION, QUERY, RESOURCES)
def query(
    catalog: CatalogFile,
    sql: Query = None,
    file: QueryFile = None,
    param: Parameters = None,
    format: Annotated[Format, opt("--format", None, "The form of the answer.")] = Format.TABLE,
    output: Annotated[Path | None, opt("--output -o", "FILE", "Where to write it; parquet needs a file.")] = None,
    intervals: Annotated[bool, opt("--intervals", None, "Add NAME_low and NAME_high for each noisy number.")] = False,
    prices: Prices = False,
    fresh: Fresh = False,
    **asked: Any,
) -> None:
    """Answer a query with noise, and charge the ledger for what is not stored already."""
    check_output(format, output)
    text, options = read_query(sql, file), options_of(asked, fresh=fresh)
    with session_of(catalog, asked) as session:
        if prices:
            plan = session.explain(text, params=read_params(param), options=options)
            typer.echo(prices_text(plan, session), nl=False)
            show_prospect(plan, session)
            return
        with left_if_interrupted(session):
            answer = session.sql(text, params=read_params(param), options=options)
        try:
            write_answer(answer, format, output, intervals)
        finally:
            show_charge(answer, session, options)


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where its files go; new, or of an earlier run.")
    ] = Path("demo"),
    attack: Annotated[
        bool, opt("--attack", None, "Instead, take secrets out of answers, and fail on dpquery's.")
    ] = False,
) -> None:
    """Six queries over a public medical study, each beside its exact answer; or attacks on answers."""
    with interruptible_work():
        if attack:
            from dpquery.frontends.cli.demo_attack import run_attacks

            run_attacks(folder)
        else:
            from dpquery.frontends.cli.demo import run_demo

            run_demo(folder)


PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Begin": {"demo": demo, "init": init, "import-smartnoise": import_smartnoise, "check": check},
    "Ask": {
        "shell": shell,
        "explain": explain,
        "query": query,
        "profile": profile,
        "plan-dashboard": plan_dashboard,
        "suggest-bounds": suggest_bounds,
        "budget": budget,
    },
    "Serve": {"prepare": prepare, "serve": serve, "page": page},
    "Keep account": {"audit": audit, "meaning": meaning},
    "Look up": {"docs": docs, "help": show_help},
}
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)
app.add_typer(synopsis_commands, name="synopsis", rich_help_panel="Ask")
app.add_typer(user_commands, name="user", rich_help_panel="Serve")
app.add_typer(ledger_commands, name="ledger", rich_help_panel="Keep account")
app.add_typer(data_commands, name="data", rich_help_panel="Keep account")


@functools.cache
def command_line() -> Callable[..., Any]:
    """Returns the command with all its commands; making it takes longer than many of them."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Returns the exit code of a command line; errors are printed, never raised."""
    try:
        command_line()(list(arguments), prog_name="dpquery")
    except ContradictionFound:
        return 1
    except SystemExit as stop:
        # typer's own 1 says that the user interrupted it, or that the reader of its output stopped
        return INTERRUPTED if stop.code == 1 else stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except QueryError as error:
        error.advice = as_options(error.advice)
        _say_refused(error, str(error))
        return 1 if isinstance(error, InsufficientBudgetError) else 2
    except CatalogError as error:
        _say_refused(error, _listed(error.problems))
    except DPQueryError as error:
        _say_refused(error, str(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"{type(error).__name__}: {place}{error.strerror or 'a file cannot be used'}")
    except Exception as error:
        from dpquery.kernel.failures import cause_of

        say(f"A defect of dpquery ({cause_of(error)}); please report it.")
    return 2


def main() -> None:
    """The entry point `dpquery`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an answer that is paid for is shown in any encoding
    sys.exit(run(sys.argv[1:]))


def _say_refused(error: DPQueryError, text: str) -> None:
    name = type(error).__name__
    say(f"{name}: {text}\n  More: dpquery help {name}")


def _listed(problems: Sequence[str]) -> str:
    return problems[0] if len(problems) == 1 else "\n  ".join([f"{len(problems)} mistakes", *problems])


def show_profiles(catalog: Catalog, ledger: str | None, path: Path) -> None:
    """Prints for each table with a stored profile what its max_rows leaves out, which one suits usual queries, and
    which values lie beyond bounds or cannot be read.

    Args:
        ledger: Its place; by default the one beside the catalog, if there is one.
        path: The catalog's.
    Raises:
        LedgerError: The ledger that is named cannot be read.
    """
    from dpquery.session.known_profile import stored_profiles

    if ledger is None and Path(catalog.dataset).name != catalog.dataset:
        return  # its ledger can have no place beside the catalog
    place = ledger or ledger_beside(catalog, path)
    if ledger is None and not is_url(place) and not Path(place).exists():
        return
    try:
        opened = open_ledger(place)
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
