"""Arguments and options that several commands take, in groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpquery.frontends.opening import session_over

if TYPE_CHECKING:
    from dpquery.session.options import Options
    from dpquery.session.session import Session

Command = Callable[..., None]
Group = dict[str, tuple[Any, object]]
"""By name: the type of an option with its words, and its default."""


def opt(names: str, metavar: str | None, help: str, **more: Any) -> Any:
    """Returns what typer knows of an option; its names have spaces between."""
    return typer.Option(*names.split(), metavar=metavar, help=help, **more)


CatalogFile = Annotated[Path, typer.Argument(metavar="CATALOG", help="The catalog, a YAML file.")]
Sources = Annotated[
    list[str] | None,
    opt(
        "--source -s",
        "TABLE=PATH|PLACE",
        "A table's data, what prepare wrote, or a database; by default TABLE.parquet, ...",
    ),
]
LedgerFile = Annotated[str | None, opt("--ledger -l", "FILE|URL", "By default DATASET.ledger beside the catalog.")]
Analyst = Annotated[str | None, opt("--analyst -a", "NAME", "The analyst; not needed if only one is declared.")]
KeyFile = Annotated[
    Path | None, opt("--key-file", "FILE", "Holds the key of encrypted prepared data; by default in DPQUERY_KEY.")
]
MemoryLimit = Annotated[
    str | None, opt("--memory-limit", "AMOUNT", "Memory of the engine, such as 4GB; by default half of the machine's.")
]
SpillTo = Annotated[str | None, opt("--spill", "FOLDER|off", "Folder for encrypted temporary files.")]
Prices = Annotated[bool, opt("--prices", None, "Print what losses and errors would cost and mean; charges nothing.")]
Fresh = Annotated[bool, opt("--fresh", None, "Measure all of it again and ignore stored answers.")]

SESSION: Group = {
    "source": (Sources, None),
    "ledger": (LedgerFile, None),
    "analyst": (Analyst, None),
    "key_file": (KeyFile, None),
}
RESOURCES: Group = {"memory_limit": (MemoryLimit, None), "spill": (SpillTo, None)}
LOSS: Group = {
    "epsilon": (Annotated[str | None, opt("--epsilon -e", "AMOUNT", "What the query may lose.")], None),
    "delta": (Annotated[str | None, opt("--delta", "AMOUNT", "With epsilon, or for selected groups.")], None),
    "rho": (Annotated[str | None, opt("--rho", "AMOUNT", "Instead of epsilon.")], None),
}
_ERROR = "Instead of a loss, how far columns may be off, of a quantile in ranks; ROWS for averages and ratios."
_MAX_GROUPS = "Groups in which a unit counts, where units are counted."
_MAX_ROWS = "Rows of a unit that weigh in full, in place of its table's."
_AT_ONCE = "Errors and intervals hold all at once with the confidence."
QUERY: Group = {
    **LOSS,
    "error": (Annotated[list[str] | None, opt("--error", "[NAME=]AMOUNT[@ROWS]", _ERROR)], None),
    "max_groups": (Annotated[int | None, opt("--max-groups", "N", _MAX_GROUPS)], None),
    "max_rows": (Annotated[int | None, opt("--max-rows", "N", _MAX_ROWS)], None),
    "dialect": (Annotated[str, opt("--dialect", "NAME", "The query's SQL dialect.")], "postgres"),
    "confidence": (Annotated[str, opt("--confidence", "PART", "Of the intervals.")], "0.95"),
    "simultaneous": (Annotated[bool, opt("--simultaneous", None, _AT_ONCE)], False),
}
"""What `options_of` makes options of."""


def takes(*groups: Group) -> Callable[[Command], Command]:
    """Returns a decorator for a command of `**asked`, which then takes the options of these groups."""

    def added(command: Any) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        others = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for group in groups
            for name, (annotation, default) in group.items()
        ]
        command.__signature__ = signature.replace(parameters=[*own, *others])
        made: Command = command
        return made

    return added


def session_of(catalog: Path, asked: dict[str, Any], *, interruptible: bool = True) -> AbstractContextManager[Session]:
    """Returns the session that the options of SESSION and RESOURCES name, which it takes out of `asked`."""
    source, ledger, analyst, key = (asked.pop(name) for name in SESSION)
    limit, spill = (asked.pop(name, None) for name in RESOURCES)
    place = (catalog, source or (), ledger, analyst)
    engine = {"key": key, "memory_limit": limit, "spill": spill_of(spill)}
    return session_over(*place, **engine, interruptible=interruptible)


def options_of(asked: dict[str, Any], **more: Any) -> Options:
    """Returns the options of a query out of those of QUERY, which it takes out of `asked`."""
    from dpquery.session.options import Options

    named = {name: asked.pop(name) for name in QUERY}
    return Options(**{**named, "error": error_of(named["error"]), **more})


def error_of(given: list[str] | None) -> object:
    """Returns what --error says, as `Session.sql` takes it.

    Example:
        >>> error_of(["20"]), error_of(["n=20", "mean=0.5@1000"]), error_of(None)
        ('20', {'n': '20', 'mean': ('0.5', '1000')}, None)
    """
    if not given:
        return None
    pairs = [text.rpartition("=") for text in given]
    if len(given) == 1 and not pairs[0][1] and "@" not in given[0]:
        return given[0]
    if any(not name for name, _, _ in pairs):
        raise typer.BadParameter("--error: several errors name their columns, as does one with rows: --error n=20")
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise typer.BadParameter("--error: a column has two errors")
    return {name: tuple(amount.split("@", 1)) if "@" in amount else amount for name, _, amount in pairs}


def spill_of(given: str | None) -> bool | str:
    """Returns what --spill says, as `dpquery.connect` takes it."""
    return True if given is None else False if given == "off" else given
