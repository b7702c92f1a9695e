"""What a command line names, found and opened: the query's text, the tables' files, the ledger, who asks."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dpquery.cancelling.interrupting import interruptible_work
from dpquery.data.addresses import has_password, is_database, scheme_of
from dpquery.data.addresses import shown as address_shown
from dpquery.errors import CatalogError, InvalidLossError, LedgerError

if TYPE_CHECKING:
    from dpquery.catalog import Catalog
    from dpquery.ledger.ledger import Ledger
    from dpquery.session.session import Session

_WORDS = {"null": None, "true": True, "false": False}
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_POINT = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,18}")
_EXPONENT = re.compile(r"-?[0-9]{1,17}(\.[0-9]{1,17})?[eE][+-]?[0-9]{1,2}")

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".feather")


def read_query(sql: str | None, file: Path | None) -> str:
    """Returns the query from the argument, from standard input for "-", or from a file."""
    if (sql is None) is (file is None):
        raise typer.BadParameter("give the query once: as an argument, as - for standard input, or with --file")
    try:
        if file is not None:
            text = file.read_text(encoding="utf-8-sig")
        else:
            text = sys.stdin.read() if sql == "-" else sql or ""
    except UnicodeDecodeError as error:
        raise typer.BadParameter("the query is not UTF-8 text") from error
    if not text.strip():
        raise typer.BadParameter("the query is empty")
    return text.rstrip("\n")


def read_params(given: Sequence[str] | None) -> list[object] | dict[str, object] | None:
    """Returns the values of `NAME=VALUE`: by position if the names are 1, 2, ..., else by name."""
    if not given:
        return None
    values: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or name in values:
            raise typer.BadParameter(f"--param takes NAME=VALUE, each name once, not {text!r}")
        values[name] = _value(value)
    numbers = [str(number) for number in range(1, len(values) + 1)]
    return [values[number] for number in numbers] if set(numbers) == values.keys() else values


def _value(text: str) -> object:
    """Returns a number, true, false or null where the text is plainly one, else the text; quotes make any value a text.

    Dates stay texts: beside a date, SQL reads them as dates.
    """
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _POINT.fullmatch(text):
        return Decimal(text)
    return float(text) if _EXPONENT.fullmatch(text) else text


@contextlib.contextmanager
def session_over(
    catalog: Path,
    sources: Sequence[str],
    ledger: str | None,
    analyst: str | None,
    *,
    key: Path | None = None,
    memory_limit: str | None = None,
    spill: bool | str = True,
    interruptible: bool = True,
) -> Iterator[Session]:
    """Gives a session over the files that are named, or that lie beside the catalog; closes the ledger at the end.

    Args:
        interruptible: Whether Ctrl-C ends the session as a whole.
    Raises:
        CatalogError: Mistakes in the catalog, or tables without data.
        LedgerError: The ledger is missing, or it belongs to another dataset.
    """
    from dpquery.catalog import Catalog
    from dpquery.session.connecting import connect

    declared = Catalog.load(catalog)
    found, problems = find_data(declared, catalog.parent, sources)
    if problems:
        raise CatalogError(problems)
    place = ledger or ledger_beside(declared, catalog)
    if not is_url(place) and not Path(place).exists():
        raise LedgerError(f"there is no ledger {place}; the owner creates it once: dpquery ledger create {catalog}")
    asks = analyst or only_analyst(declared)
    with (
        interruptible_work() if interruptible else contextlib.nullcontext(),
        contextlib.closing(open_ledger(place)) as opened,
        connect(
            declared, found, ledger=opened, analyst=asks, key=key, memory_limit=memory_limit, spill=spill
        ) as session,
    ):
        yield session


def open_ledger(place: str | Path, *, mark: Path | None = None, since: str | None = None) -> Ledger:
    """Returns the ledger at a place, as `Ledger.open`; what that needs is loaded here.

    Raises:
        LedgerError: It is none, or not as its mark says; of a catalog the message names its ledger.
    """
    from dpquery.ledger.ledger import Ledger

    if Path(place).suffix in (".yaml", ".yml") and not is_url(str(place)) and Path(place).is_file():
        from dpquery.catalog import Catalog

        beside = ledger_beside(Catalog.load(place), Path(place))
        raise LedgerError(f"{place} is a catalog, and not a ledger; its ledger is {beside}")
    return Ledger.open(place, mark=mark, since=since)


def find_data(catalog: Catalog, folder: Path, given: Sequence[str]) -> tuple[dict[str, str] | str, list[str]]:
    """Returns the folder of prepared data, where nothing else is given, or what `find_sources` does."""
    if len(given) == 1 and "=" not in given[0] and not scheme_of(given[0]):
        if not Path(given[0]).is_dir():
            raise typer.BadParameter(
                f"--source is written TABLE=PATH, or names a folder of prepared data; there is no folder {given[0]!r}"
            )
        return given[0], []
    return find_sources(catalog, folder, given)


def find_sources(catalog: Catalog, folder: Path, given: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Returns each table's path, as TABLE=PATH says, or else the database that is given without a table, or else
    TABLE.parquet and the like in a folder; and mistakes."""
    databases = [text for text in given if is_database(text)]
    found, problems = _split([text for text in given if text not in databases]), []
    if any(scheme_of(text) and has_password(text) for text in (*databases, *found.values())):
        raise typer.BadParameter(
            "an address with a password can be read by all users of the machine while the command runs: set "
            "PGPASSWORD or AWS_SECRET_ACCESS_KEY, or write it into ~/.pgpass or ~/.aws/credentials"
        )
    if len(databases) > 1:
        raise typer.BadParameter("--source names several databases without a table; write TABLE=ADDRESS")
    problems += [f"--source {name}: no such table is declared" for name in found if name not in catalog.tables]
    others = [name for name in catalog.tables if name not in found]
    beside, missing = (dict.fromkeys(others, databases[0]), []) if databases else sources_beside(folder, others)
    return found | beside, problems + missing


def sources_beside(
    folder: Path, tables: Sequence[str], option: str = "--source {}=PATH"
) -> tuple[dict[str, str], list[str]]:
    """Returns each table's one path in a folder, TABLE.parquet and the like; and for which tables there is not one.

    Args:
        option: How the caller would name a table's path.
    """
    found, problems = {}, []
    for name in tables:
        paths = _beside(folder, name)
        if len(paths) == 1:
            found[name] = str(paths[0])
        elif paths:
            several = ", ".join(path.name for path in paths)
            problems.append(f"table {name} has several files: {several}; choose by {option.format(name)}")
        else:
            problems.append(
                f"table {name} has no data: name its file, {option.format(name)}, or call it {name}.parquet"
            )
    return found, problems


def _split(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in given:
        name, equals, path = pair.partition("=")
        if not (name and equals and path) or scheme_of(pair):
            given = address_shown(pair) if scheme_of(pair) else pair
            raise typer.BadParameter(f"--source is written TABLE=PATH, not {given!r}")
        if name in found:
            raise typer.BadParameter(f"--source names table {name} twice")
        found[name] = path
    return found


def _beside(folder: Path, name: str) -> list[Path]:
    """Returns the table's files in a folder, and a folder of Parquet files under its name."""
    if Path(name).name != name:
        return []
    files = [path for suffix in SUFFIXES if (path := folder / f"{name}{suffix}").exists()]
    nested = folder / name
    return files + ([nested] if nested.is_dir() and any(nested.rglob("*.parquet")) else [])


def ledger_beside(catalog: Catalog, path: Path) -> Path:
    """Returns the path of the ledger that belongs to a catalog's file, unless another is named."""
    name = f"{catalog.dataset}.ledger"
    if Path(name).name != name:
        raise CatalogError(f"the dataset's name {catalog.dataset!r} is not a file name; name the ledger")
    return path.parent / name


def is_url(place: object) -> bool:
    """Whether a ledger's place is a database's, not a file's."""
    return isinstance(place, str) and place.startswith(("postgresql://", "postgres://"))


def shown(place: str | Path) -> str:
    """Returns a ledger's place for people: of a URL neither password nor options."""
    return re.sub(r"(//[^/?@]*?):[^/?]*@", r"\1@", str(place).split("?")[0]) if is_url(place) else str(place)


def only_analyst(catalog: Catalog, option: str = "--analyst NAME") -> str:
    """Returns the default analyst: the one declared, or "analyst" where none is."""
    if len(catalog.analysts) > 1:
        raise InvalidLossError("several analysts have a budget", advice=f"Say who asks with {option}.")
    return next(iter(catalog.analysts), "analyst")
