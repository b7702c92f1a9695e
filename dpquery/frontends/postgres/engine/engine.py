"""The engine behind the wire: one statement of one analyst to its answer, description or refusal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa

from dpquery.backends.base import Backend
from dpquery.backends.opening import open_backend
from dpquery.backends.resources import Resources
from dpquery.catalog import Catalog
from dpquery.catalog.names import SYNOPSES
from dpquery.data.arrow import arrow_type
from dpquery.errors import InvalidLossError, QueryError
from dpquery.frontends.postgres.engine.parameters import infer, values_of
from dpquery.frontends.postgres.engine.routing import Route, RoutedStatement, route
from dpquery.frontends.postgres.engine.settings import Caps, options_of
from dpquery.frontends.postgres.pg_catalog.contents import virtual_table
from dpquery.frontends.postgres.pg_catalog.emulation import Emulation
from dpquery.frontends.postgres.pg_catalog.rewrite import Asking
from dpquery.frontends.postgres.wire.answers import (
    NO_ANALYST,
    Described,
    Field,
    Refusal,
    StatementAnswer,
    StatementRequest,
    refusal_of,
    row_level,
)
from dpquery.frontends.postgres.wire.oids import FLOAT8, TEXT, example_of, field_of, field_of_arrow, oid_of
from dpquery.frontends.text import as_asked, expected_lines
from dpquery.kernel.loss import parse_amount
from dpquery.ledger.ledger import Ledger
from dpquery.plan.types import FLOAT64, Type
from dpquery.result.interval_columns import names_beside, with_intervals
from dpquery.result.table import Result
from dpquery.session.options import Asked as AskedOptions
from dpquery.session.preparing import sources_of
from dpquery.session.session import Session
from dpquery.sql.bind.shape import ResultShape, shape
from dpquery.sql.parse.parameters import fill
from dpquery.sql.statements.declared_answers import DeclaredAnswer, known_answer
from dpquery.sql.statements.statement_trees import Tree, over_synopses, position_of

Made = TypeVar("Made")
NOTHING_CHARGED = "no charge"
REMEMBERED = 256
"""Statements whose trees and shapes are kept."""
LONGEST_REMEMBERED = 4096
"""Characters of such a statement."""
INTERVALS = "dpquery.intervals"
"""The setting that asks for columns with the ends of intervals. Which these are follows from the query alone, so that a
description without an answer names them too."""
ROW_LEVELS = ("error", "empty", "synopsis")
MOST_NOTES, LONGEST_NOTE = 3, 400
"""Lines on what bounds leave out that come with an answer, and the characters of one."""


class StatementEngine:
    """Answers statements over one dataset; see `Answerer`.

    Args:
        catalog: The declarations.
        backend: The engine that holds the data.
        ledger: The ledger.
        caps: The most that one query may ask for.
        row_level: "error" refuses queries for rows of single units, "empty" answers them with no row, "synopsis" with
            synthetic rows, where their tables have a synopsis.
        data_version: The ledger's version of the data before the backend was opened; by default the one that holds.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        backend: Backend,
        ledger: Ledger,
        caps: Caps | None = None,
        row_level: str = "error",
        data_version: str | None = None,
    ) -> None:
        if row_level not in ROW_LEVELS:
            raise InvalidLossError(f"row_level is {', '.join(ROW_LEVELS[:-1])} or {ROW_LEVELS[-1]}")
        self._catalog, self._backend, self._ledger = catalog, backend, ledger
        self._caps, self._row_level = caps or Caps(), row_level
        self._version = data_version or ledger.data_version
        self._emulation = Emulation(catalog)
        self._listing = catalog, self._emulation
        self._sessions: dict[str, Session] = {}
        self._route = _remembered(lambda text: route(text, catalog, self._emulation.known))
        self._shape = _remembered(lambda text: shape(text, catalog))
        self._guard = threading.Lock()

    def describe(
        self, text: str, parameter_oids: tuple[int, ...], analyst: str, settings: Mapping[str, str]
    ) -> Described:
        """Returns what a statement takes and gives; reads no data and charges nothing."""
        with _refusals():
            statement = self._route(text)
            oids = self._oids(statement, parameter_oids)
            examples = [example_of(oid) for oid in oids]
            if statement.route is Route.CATALOG:
                asked = StatementRequest(text=text, parameters=tuple(examples), analyst=analyst, settings=settings)
                table, _ = self._over_catalogs(statement, asked, rows=0)
                return Described(parameters=oids, fields=_fields_of_arrow(table))
            made = self._shaped(text, examples, analyst)
            self._free(statement, made, examples, analyst)
            return Described(parameters=oids, fields=_fields_of(made, statement, settings))

    def answer(self, asked: StatementRequest) -> StatementAnswer:
        """Returns the answer to a statement; charges at most once."""
        with _refusals():
            statement = self._route(asked.text)
            if statement.route is Route.CATALOG:
                table, is_lasting = self._over_catalogs(statement, asked)
                return StatementAnswer(fields=_fields_of_arrow(table), table=table, is_lasting=is_lasting)
            params = values_of(asked.parameters)
            options = options_of(asked.settings, self._caps)
            made = self._shaped(asked.text, params, asked.analyst)
            fields = _fields_of(made, statement, asked.settings)
            known = self._free(statement, made, params, asked.analyst)
            if known is not None:
                return StatementAnswer(
                    fields=fields, table=_without_intervals(known.table, made, fields), notices=(known.notice,)
                )
            return self._charged(asked, params, options, fields, made)

    def explain(self, asked: StatementRequest) -> StatementAnswer:
        """Returns what a statement would measure and cost, as lines of text."""
        with _refusals():
            statement = self._route(asked.text)
            params = values_of(asked.parameters)
            if statement.route is Route.CATALOG:
                return _lines(["Catalog: answered from the declarations", "Charge: nothing"])
            made = self._shaped(asked.text, params, asked.analyst)
            known = self._free(statement, made, params, asked.analyst)
            if known is not None:
                return _lines([known.notice, "Charge: nothing"])
            options = options_of(asked.settings, self._caps)
            plan = self._session(asked.analyst).explain(asked.text, params=params or None, **options)
            return _lines([*str(plan).split("\n"), *(line[0].upper() + line[1:] for line in expected_lines(plan))])

    def _charged(
        self,
        asked: StatementRequest,
        params: list[object],
        options: AskedOptions,
        fields: tuple[Field, ...],
        made: ResultShape,
    ) -> StatementAnswer:
        """Returns the answer of the private engine, with notices: what it cost and what is left, then what is known of
        what bounds leave out."""
        session = self._session(asked.analyst)
        result = session.sql(asked.text, params=params or None, **options)
        charge = as_asked(result.charge, self._catalog.defaults, options.get("epsilon"), options.get("rho"))
        was_known = "no charge: it follows from what was answered before" if result.measurements else NOTHING_CHARGED
        paid = was_known if charge == "nothing" else f"charged {charge}"
        notice = f"{paid}; remaining: {session.remaining}"
        table = _answer_table(result, made, fields)
        left_out = tuple(note for note in result.notes if note not in result.warnings)
        return StatementAnswer(fields=fields, table=table, notices=(notice, *bounded(left_out), *result.warnings))

    def _shaped(self, text: str, params: list[object], analyst: str) -> ResultShape:
        if SYNOPSES in text.casefold():  # there may be others than when the text was read last
            return shape(text, self._session(analyst).synopses.declared, params or None)
        return shape(text, self._catalog, params) if params else self._shape(text)

    def _free(
        self, statement: RoutedStatement, made: ResultShape, params: list[object], analyst: str
    ) -> DeclaredAnswer | None:
        """Returns the answer to a statement that asks no data, or None if it asks some.

        Raises:
            Refusal: It asks for rows of single units.
        """
        if made.is_empty:
            return None
        known = known_answer(self._filled(statement, params), self._catalog, made)
        if known is not None or not made.is_row_level:
            return known
        if self._row_level == "synopsis":
            session = self._session(analyst)
            named = {one.table: name for name, one in session.synopses.items()}
            text = over_synopses(self._filled(statement, params), self._catalog, named)
            if text is not None:
                result = session.sql(text)
                return DeclaredAnswer(table=_answer_table(result, made, ()), notice=f"no charge: {result.notes[0]}")
        if self._row_level == "empty":
            notice = "no charge: rows of single units are not shown, so this answer is empty"
            return DeclaredAnswer(table=_empty(made), notice=notice)
        raise row_level(self._catalog.privacy_unit, position_of(statement.tree, statement.text))

    def _oids(self, statement: RoutedStatement, given: tuple[int, ...]) -> tuple[int, ...]:
        is_private = statement.route is Route.PRIVATE
        column_oid = self._oid_of_declared if is_private else self._oid_of_system
        return infer(statement.tree, statement.placeholders, given, column_oid)

    def _oid_of_declared(self, column: str, is_quoted: bool) -> int | None:
        """Returns the OID of the columns of this name, where all declared tables agree on it."""
        found = (table.find_column(column, is_quoted) for table in self._catalog.tables.values())
        oids = {oid_of(one.type) for one in found if one is not None}
        return oids.pop() if len(oids) == 1 else None

    def _oid_of_system(self, column: str, _: bool) -> int | None:
        return self._emulation.oid_of_column(column)

    def _filled(self, statement: RoutedStatement, params: list[object]) -> Tree:
        return fill(statement.tree.copy(), list(statement.placeholders), params or None)

    def _over_catalogs(
        self, statement: RoutedStatement, asked: StatementRequest, rows: int | None = None
    ) -> tuple[pa.Table, bool]:
        """Returns what a statement gives over the emulated catalogs, and whether it always will."""
        tree = self._filled(statement, values_of(asked.parameters))
        asking = Asking(analyst=asked.analyst, database=self._catalog.dataset, settings=asked.settings)

        declared, emulation = self._listed(asked.analyst)

        def virtual(name: str) -> pa.Table:
            analyst = None if rows == 0 else self._session(asked.analyst).analyst
            return virtual_table(name, declared, self._ledger, analyst)

        return emulation.run(tree, asking, virtual, rows=rows), asking.is_lasting

    def _listed(self, analyst: str) -> tuple[Catalog, Emulation]:
        """Returns the declarations with the synopses that an analyst may read, and the catalogs that list them all."""
        try:
            declared = self._session(analyst).synopses.declared
        except Refusal:  # without a budget there are none to read
            declared = self._catalog
        with self._guard:
            known, emulation = self._listing
            if dict(known.tables) != dict(declared.tables):
                is_plain = len(declared.tables) == len(self._catalog.tables)
                emulation = self._emulation if is_plain else Emulation(declared)
                self._listing = declared, emulation
            return declared, emulation

    def _session(self, analyst: str) -> Session:
        """Returns the analyst's session; there is one for each, over one backend and one ledger."""
        with self._guard:
            found = self._sessions.get(analyst)
            if found is None:
                try:
                    found = Session(
                        self._catalog,
                        backend=self._backend,
                        ledger=self._ledger,
                        analyst=analyst,
                        data_version=self._version,
                    )
                except QueryError:
                    raise Refusal(NO_ANALYST, "this role has no budget here") from None
                self._sessions[analyst] = found
            return found


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turns every error into a Refusal; none of an engine's own words go out."""
    try:
        yield
    except Refusal:
        raise
    except Exception as error:
        raise refusal_of(error) from None


def _remembered(read: Callable[[str], Made]) -> Callable[[str], Made]:
    """Returns a function of texts that remembers what it made of the last short ones, and reads one long one at a time.

    Reading keeps Python's lock: many long texts at once would take it from all who ask something short.
    """
    kept, reading = lru_cache(maxsize=REMEMBERED)(read), threading.Lock()

    def remembered(text: str) -> Made:
        if len(text) <= LONGEST_REMEMBERED:
            return kept(text)
        with reading:
            return read(text)

    return remembered


def bounded(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the first notes, which dashboards keep with every tile, each of a bounded length."""
    return tuple(note if len(note) <= LONGEST_NOTE else f"{note[:LONGEST_NOTE]}..." for note in notes[:MOST_NOTES])


def _fields_of_arrow(table: pa.Table) -> tuple[Field, ...]:
    return tuple(map(field_of_arrow, table.schema))


def _empty(made: ResultShape) -> pa.Table:
    columns = [pa.array([], arrow_type(type)) for _, type in made.columns]
    return pa.table(columns, names=[name for name, _ in made.columns])


def _lines(lines: list[str]) -> StatementAnswer:
    table = pa.table({"QUERY PLAN": pa.array(lines, pa.string())})
    return StatementAnswer(fields=(Field(name="QUERY PLAN", oid=TEXT),), table=table)


def _fields_of(made: ResultShape, statement: RoutedStatement, settings: Mapping[str, str]) -> tuple[Field, ...]:
    """Returns the columns of a query's answer, with those of its intervals where a connection asks for them."""
    is_exact = not statement.placeholders
    added = names_beside([name for name, _ in made.columns], _numbers(made)) if settings.get(INTERVALS) == "on" else {}
    fields: list[Field] = []
    for place, (name, type) in enumerate(made.columns):
        fields.append(field_of(name, type, is_exact=is_exact))
        fields += [Field(name=end, oid=FLOAT8) for end in added.get(place, ())]
    return tuple(fields)


def _answer_table(result: Result, made: ResultShape, fields: tuple[Field, ...]) -> pa.Table:
    """Returns an answer's table with the columns that were described, of the types of the plan."""
    has_intervals = len(fields) > len(made.columns)
    table = with_intervals(result, made.noisy) if has_intervals else result.to_arrow()
    types: list[Type] = []
    for place, (_, type) in enumerate(made.columns):
        types += [type, FLOAT64, FLOAT64] if has_intervals and place in _numbers(made) else [type]
    columns = [
        column if column.type == arrow_type(type) else column.cast(arrow_type(type))
        for column, type in zip(table.columns, types, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def _without_intervals(table: pa.Table, made: ResultShape, fields: tuple[Field, ...]) -> pa.Table:
    """Returns an answer that no data were asked for, with NULL in the columns of intervals that were described."""
    if len(fields) == len(made.columns):
        return table
    columns = []
    for place, column in enumerate(table.columns):
        columns += [column, *[pa.nulls(len(table), pa.float64())] * (2 if place in _numbers(made) else 0)]
    return pa.table(columns, names=[field.name for field in fields])


def _numbers(made: ResultShape) -> frozenset[int]:
    return frozenset(place for place in made.noisy if made.columns[place][1].is_numeric)


FACTORY = f"{__name__}:open_engine"


@contextlib.contextmanager
def open_engine(arguments: dict[str, Any]) -> Iterator[tuple[StatementEngine, dict[str, Any]]]:
    """Gives the engine over a catalog, its data and its ledger; see `worker.Factory`.

    Args:
        arguments: The paths `catalog`, `sources` by table or of a prepared folder, `ledger`, `key` of a file or None;
            `row_level`;
            `most_epsilon`, or None; `memory_limit` and `spill` as for `dpquery.connect`; `workers`, the number of
            engines that share them.

    Raises:
        DPQueryError: Mistakes in the catalog, tables without data, a ledger that is missing or another's.
    """
    catalog = Catalog.load(arguments["catalog"])
    ledger = Ledger.open(arguments["ledger"])
    resources = Resources(arguments["memory_limit"], arguments["spill"], arguments["workers"])
    with contextlib.ExitStack() as ending:
        ending.callback(ledger.close)
        version = ledger.data_version  # before the data are opened: what is opened later is not older
        sources = sources_of(catalog, arguments["sources"], ledger, arguments["key"])
        backend = open_backend(catalog, sources, resources=resources)
        ending.callback(backend.close)
        someone = next(iter(catalog.analysts), "analyst")
        Session(catalog, backend=backend, ledger=ledger, analyst=someone)  # whether they belong together
        most = arguments["most_epsilon"]
        caps = Caps(epsilon=None if most is None else parse_amount(most, name="--most-epsilon"))
        engine = StatementEngine(
            catalog,
            backend=backend,
            ledger=ledger,
            caps=caps,
            row_level=arguments["row_level"],
            data_version=version,
        )
        yield engine, {"dataset": catalog.dataset}
