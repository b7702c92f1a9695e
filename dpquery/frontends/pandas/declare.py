"""From a frame and what its owner says of it to a catalog, a ledger and a session."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dpquery.catalog import Catalog, Table
from dpquery.catalog.identifiers import may_identify, repeats
from dpquery.catalog.names import suggestion
from dpquery.catalog.rows import AUTO
from dpquery.errors import CatalogError
from dpquery.frontends.pandas import datasets
from dpquery.frontends.pandas.busy_indicator import working
from dpquery.frontends.pandas.columns import Columns, FrameColumn, columns_of_arrow, columns_of_pandas
from dpquery.frontends.pandas.datasets import Place, handle_of, remember
from dpquery.frontends.pandas.protected_frame import Protected, ProtectedState
from dpquery.frontends.pandas.unit_hashes import NOBODY, people_of
from dpquery.frontends.pandas.values import plain
from dpquery.frontends.pandas.views import root
from dpquery.session.connecting import connect
from dpquery.session.profile_buying import loss_of_profile

_said: dict[str, dict[str, Any]] = {}
"""What was said last of each dataset of this process, without budget and ledger, which its ledger knows."""
CATEGORIES = "categories"
"""In place of a list of keys: those of a categorical column, which the owner thereby makes public."""


def protect(
    data: object,
    *,
    privacy_unit: str | Sequence[str],
    bounds: Mapping[str, tuple[object, object]] | None = None,
    keys: Mapping[str, Sequence[object] | str] | None = None,
    max_groups: int | None = None,
    max_rows: int | str | Mapping[str, object] | None = None,
    unique: Sequence[Sequence[str]] | None = None,
    budget: Mapping[str, object] | None = None,
    ledger: Place | None = None,
    new_ledger: bool = False,
    dataset: str | None = None,
    types: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    public: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
    analyst: str = "analyst",
    profile: object = None,
) -> Protected:
    """Returns a frame's private statistics, after its owner said whose rows these are and what may be spent.

    The data are taken as they are now: changing the frame later changes no answer.

    Args:
        data: A pandas or polars frame (a lazy one is collected), or an Arrow table.
        privacy_unit: The column that tells whose row it is, or "row" where each row is a unit of its own; or several
            columns that tell it together: ["country", "id"].
        bounds: The lower and upper bound of columns; values beyond are clamped.
        keys: Public group keys of columns: a list, or "categories" of a categorical column.
        max_groups: In how many groups one unit counts.
        max_rows: How many rows one unit has in all: a number, "auto" where it is to be measured, or in strata too:
            {"all": 200, "per": {"month(taken)": 20}}. It has no default;
            only rows that are units, and a unit that is `unique`, need none.
        unique: Lists of columns in which no two rows agree.
        budget: The hard limit for all answers about these people: {"epsilon": 2}, {"epsilon": 2, "delta": 1e-6} or
            {"rho": 0.1, "delta": 1e-6}. Said once for a dataset.
        ledger: The path of the ledger that counts what was spent. Without it one counts that ends with the process.
        new_ledger: Whether to create the ledger at that path, which is done once.
        dataset: A name for the people. By default the name of the privacy unit, so that all frames with the same unit
            share one budget. Two names say that they are about different people.
        types: Types of columns where those that follow from dtypes are not meant: {"price": "decimal(10,2)"}.
        columns: The columns that can be queried; by default all.
        public: Frames that everybody may know, for `join`, by name.
        defaults: What a call loses if it does not say: {"epsilon": "0.1"}.
        analyst: Who asks.
        profile: What a profile of rows and values may lose, such as "0.05"; it is bought at once, and charged to the
            dataset. `max_rows` is then "auto" unless said, and answers say what it leaves out.
    Raises:
        CatalogError: What is said does not fit the frame.
        LedgerError: The dataset has another budget, promise or ledger.
    Example:
        >>> import pandas as pd
        >>> import dpquery as dp
        >>> frame = pd.DataFrame({"person": range(100), "age": [20, 60] * 50})
        >>> said = {"bounds": {"age": (0, 99)}, "max_rows": 1, "budget": {"epsilon": 2}}
        >>> people = dp.protect(frame, privacy_unit="person", dataset="example", **said)
        >>> 0 <= people.mean("age", epsilon=1) <= 99
        True
    """
    handle, is_row = handle_of(data), privacy_unit == "row"
    names = _names(privacy_unit)
    if profile is not None and max_rows is None and not is_row and not _says_rows(names, unique, defaults):
        max_rows = AUTO.value
    kept, found = _read(data, types or {})
    if not len(kept):
        raise CatalogError("the frame has no rows, so there is nothing to protect or to ask")
    with datasets.GUARD:
        if is_row and dataset is None and handle is None:
            datasets.refuse_identifiers(kept, found.known)
        is_known = bool(names) and all(name in found.known for name in names)
        people = people_of(kept, names) if is_known and not is_row else NOBODY
        if dataset is not None:
            name = dataset
        else:
            name = handle.dataset if handle is not None else datasets.of_people(people) or "_".join(names)
        datasets.admit(name, handle, ledger)
        known = datasets.find(name)
        given = known.public if known is not None and not public else public or {}
        tables = {n: _read_public(n, frame) for n, frame in given.items()}
        declared = _declared(found, names, bounds or {}, keys or {}, types or {}, columns)
        entries = {c.name: _entry(c, bounds or {}, keys or {}) for c in declared.values()}
        table: dict[str, object] = {"columns": entries}
        table |= {} if is_row else {"unit": names[0] if isinstance(privacy_unit, str) else [*names]}
        table |= {key: n for key, n in (("max_groups", max_groups), ("max_rows", max_rows)) if n is not None}
        table |= {"unique": unique} if unique is not None else {}
        if not is_row and max_rows is None and not _says_rows(names, unique, defaults):
            raise CatalogError(_three_ways(names))
        types_of_unit = "" if is_row else ", ".join(declared[part].type for part in names)
        unit, called = datasets.declared_for(name, names, types_of_unit, people)
        catalog = Catalog(
            dataset=name,
            privacy_unit=unit,
            budget=budget if budget is not None else _known_budget(name, ledger),
            tables={called: table, **{n: declaration for n, (_, declaration, _) in tables.items()}},
            defaults=defaults,
        )
        opened = datasets.open_dataset(catalog, ledger, is_new=new_ledger, public=given, people=people)
    sources = {called: kept, **{n: frame for n, (frame, _, _) in tables.items()}}
    # Answers are not stored: several frames of one dataset hold different rows, and the store tells none from another.
    session = connect(catalog, sources, ledger=opened.ledger, analyst=analyst, reuse=False)
    if profile is not None:
        with working():
            session.profile(**loss_of_profile(profile, catalog.budget))
    if is_row:
        _warn_of_identifiers(kept, catalog.tables[called])
    held = ProtectedState(
        session=session,
        data=kept,
        handle=opened.handle,
        unit=names,
        why_not=found.unknown,
        public={n: (given[n], seen) for n, (_, _, seen) in tables.items()},
    )
    said: dict[str, object] = {
        "bounds": bounds,
        "keys": keys,
        "types": types,
        "max_groups": max_groups,
        "max_rows": max_rows,
    }
    said |= {"unique": unique, "defaults": defaults, "analyst": analyst, "privacy_unit": privacy_unit, "dataset": name}
    _said[name] = {key: value for key, value in said.items() if value is not None}
    made = Protected(held, root({name: _bounded(column, entries[name]) for name, column in declared.items()}, called))
    remember(data, made)
    return made


def said_before(data: object) -> dict[str, Any]:
    """Returns what the owner said last of the dataset that a frame was made from, for the columns that it still has.

    Raises:
        CatalogError: The frame was made from no protected one, or what was said is not known in this process.
    """
    handle = handle_of(data)
    said = {} if handle is None else dict(_said.get(handle.dataset, {}))
    if not said:
        raise CatalogError("name the privacy unit: df.dp.protect(privacy_unit='user', budget={'epsilon': 1})")
    columns = set(getattr(data, "columns", ()))
    for key in ("bounds", "keys", "types"):
        if key in said:
            said[key] = {name: value for name, value in said[key].items() if name in columns}
    return said


def _names(unit: object) -> tuple[str, ...]:
    """Returns the columns that tell the unit, or ("row",)."""
    names = [unit] if isinstance(unit, str) else [*unit] if isinstance(unit, list | tuple) else []
    if not names or not all(isinstance(name, str) for name in names) or (len(names) > 1 and "row" in names):
        raise CatalogError("privacy_unit must be the name of a column, a list of names, or 'row'")
    return tuple(names)


def _says_rows(
    unit: Sequence[str], unique: Sequence[Sequence[str]] | None, defaults: Mapping[str, object] | None
) -> bool:
    """Whether it is declared, beside `max_rows`, how many rows a unit has: none two in its columns, or a default."""
    has_one = isinstance(unique, list | tuple) and any(isinstance(s, list | tuple) and {*s} == {*unit} for s in unique)
    return has_one or "max_rows" in (defaults or {})


def _three_ways(unit: Sequence[str]) -> str:
    columns = ", ".join(map(repr, unit))
    return (
        f"say how many rows one {columns} has in all, for which there is no default: max_rows=N, where you know one "
        f"(of a unit with more each row weighs less); or unique=[[{columns}]], where none has two; or "
        "profile='0.05', which measures it, charged to the dataset; or max_rows='auto', where that is done later"
    )


def _warn_of_identifiers(kept: Any, table: Table) -> None:
    """Warns the owner where rows are units, and a column seems to tell which of them are one person's."""
    for column in filter(may_identify, table.columns.values()):
        values = kept[column.name]
        is_arrow = isinstance(kept, pa.Table)
        rows = len(values) - values.null_count if is_arrow else int(values.count())
        if repeats(rows, pc.count_distinct(values).as_py() if is_arrow else int(values.nunique())):
            warnings.warn(
                f"privacy_unit='row' protects each row by itself, and values of {column.name!r} come again in other "
                f"rows. If they tell whose the rows are, say privacy_unit={column.name!r}: whoever has several is not "
                "protected as a whole",
                stacklevel=4,
            )


def _read(data: object, types: Mapping[str, str]) -> tuple[Any, Columns]:
    """Returns the data as they are now, without copying columns of numbers, and their columns."""
    if isinstance(data, pd.DataFrame):
        return data.copy(deep=not _copies_on_write()), columns_of_pandas(data, types)
    if type(data).__module__.split(".")[0] == "polars":
        frame: Any = data
        frame = frame.collect() if hasattr(frame, "collect") else frame
        if not hasattr(frame, "to_arrow") or not hasattr(frame, "columns"):
            raise CatalogError("only frames can be protected; convert a series with to_frame()")
        data = frame.to_arrow()
    if isinstance(data, pa.Table):
        return data, columns_of_arrow(data, types)
    kinds = "a pandas or polars frame, or an Arrow table"
    raise CatalogError(f"a {type(data).__name__} cannot be protected; give {kinds}, or connect() to files")


def _copies_on_write() -> bool:
    """Whether pandas copies what is shared before it is written, so that a shallow copy is a snapshot."""
    return int(pd.__version__.partition(".")[0]) >= 3 or pd.options.mode.copy_on_write is True


def _read_public(name: str, data: object) -> tuple[Any, dict[str, object], dict[str, FrameColumn]]:
    """Returns a public frame as a source, its declaration, and its columns."""
    if isinstance(data, Protected):
        raise CatalogError(f"{name} is protected; a public table must be one that everybody may know")
    if isinstance(data, pd.DataFrame):
        if datasets.MARK in data.attrs:
            raise CatalogError(
                f"{name} was made from protected rows; a public table must be one that everybody may know"
            )
        data = data.reset_index() if data.index.name is not None else data
    kept, found = _read(data, {})
    table = kept if isinstance(kept, pa.Table) else None
    unique = []
    for column in found.known:
        values = table[column].to_pandas() if table is not None else kept[column]
        if found.known[column].type not in ("float64",) and values.notna().all() and values.is_unique:
            unique.append([column])
    fields: dict[str, object] = {c.name: _entry(c, {}, {}) for c in found.known.values()}
    return kept, {"public": True, "unique": unique, "columns": fields}, found.known


def _declared(
    found: Columns,
    unit: Sequence[str],
    bounds: Mapping[str, object],
    keys: Mapping[str, object],
    types: Mapping[str, str],
    columns: Sequence[str] | None,
) -> dict[str, FrameColumn]:
    """Returns the columns that are declared; raises CatalogError with everything that is said of others."""
    is_row = [*unit] == ["row"]
    if is_row and "row" in found.known:
        raise CatalogError("privacy_unit='row' means that each row is a unit; rename the column 'row'")
    said = {"privacy_unit": [] if is_row else unit, "bounds": bounds, "keys": keys, "types": types}
    said["columns"] = [] if columns is None else columns
    problems = []
    for where, names in said.items():
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            problems.append(f"{where}: column names must be strings")
            continue
        for name in names:
            if name in found.unknown:
                problems.append(f"{where}: column {name!r} cannot be used: {found.unknown[name]}")
            elif name not in found.known:
                problems.append(f"{where}: the frame has no column {name!r}; {suggestion(name, found.known)}")
    if problems:
        raise CatalogError(problems)
    kept = found.known if columns is None else {n: c for n, c in found.known.items() if n in {*columns, *unit}}
    for name in found.known.keys() - kept.keys():
        found.unknown[name] = "its owner left it out of columns="
    for name in () if is_row else unit:
        if kept[name].type == "float64":  # what pandas makes of integers beside missing values
            kept = {**kept, name: replace(kept[name], type="int64")}
    return dict(kept)


def _bounded(column: FrameColumn, entry: Mapping[str, object]) -> FrameColumn:
    bounds = (entry["lower"], entry["upper"]) if "lower" in entry else None
    return replace(column, bounds=bounds, nullable="nullable" in entry)


def _entry(column: FrameColumn, bounds: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, object]:
    """Returns a column's declaration as a catalog has it."""
    entry: dict[str, object] = {"type": column.type}
    entry |= {"zone": column.zone} if column.zone else {}
    given = keys.get(column.name)
    values = [] if given is None else _keys(column, given)
    if column.nullable or None in values:
        entry["nullable"] = True
    if column.name in bounds:
        pair = bounds[column.name]
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise CatalogError(f"bounds: write {column.name!r}: (lower, upper)")
        entry["lower"], entry["upper"] = (plain(value, column) for value in pair)
    if given is not None:
        entry["keys"] = values
    return entry


def _keys(column: FrameColumn, given: Any) -> list[object]:
    if isinstance(given, str):
        if given != CATEGORIES or not isinstance(column.dtype, pd.CategoricalDtype):
            raise CatalogError(f"keys: {column.name!r} takes a list, or {CATEGORIES!r} where it is categorical")
        given = column.dtype.categories.tolist()
    return [plain(value, column) for value in given]


def _known_budget(name: str, ledger: Place | None) -> Mapping[str, object]:
    """Returns the budget of a dataset whose ledger is known; its owner said it before."""
    known = datasets.find(name)
    if known is None and ledger is None:
        raise CatalogError("give the total budget for these people, such as budget={'epsilon': 2}")
    if known is None:
        raise CatalogError("give the budget that the ledger was created with, such as budget={'epsilon': 2}")
    budget = known.ledger.budget
    return {part: getattr(budget, part) for part in ("epsilon", "delta", "rho") if getattr(budget, part)}
