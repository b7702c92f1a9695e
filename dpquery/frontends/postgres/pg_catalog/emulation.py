"""The engine that holds the emulated catalogs, and nothing else: no private row, no file, no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpquery.backends.duckdb.system_tables import (
    StatementLimits,
    StatementMemory,
    StatementTimeout,
    StatementTooLarge,
    SystemTables,
)
from dpquery.catalog import Catalog
from dpquery.errors import BackendError
from dpquery.frontends.postgres.pg_catalog import contents, macros
from dpquery.frontends.postgres.pg_catalog.allowed import refused_function
from dpquery.frontends.postgres.pg_catalog.relations import INFORMATION_SCHEMA, Relation, Row, oid_of_code, relations
from dpquery.frontends.postgres.pg_catalog.rewrite import Asking, rewrite
from dpquery.frontends.postgres.pg_catalog.series import bound_series
from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.frontends.postgres.wire.states import CANCELLED, NO_COLUMN, NO_FUNCTION, NO_MEMORY, TOO_MUCH, UNSUPPORTED
from dpquery.sql.parse.lists import with_lists_as_in

LIMITS = StatementLimits()
"""Of a statement over the catalogs."""

Virtual = Callable[[str], pa.Table]
"""Returns the rows of a virtual table."""


class Emulation:
    """PostgreSQL's catalogs with the declared tables in them."""

    def __init__(self, catalog: Catalog) -> None:
        system = relations()
        self._known = {
            schema: frozenset(r.name for r in system if r.schema == schema)
            for schema in ("pg_catalog", "information_schema")
        }
        self._oids = _agreed(system)
        self._tables = _filled(catalog, system)

    @property
    def known(self) -> Mapping[str, frozenset[str]]:
        """The names of the relations, by schema."""
        return self._known

    def oid_of_column(self, name: str) -> int | None:
        """Returns the OID of the type of a column of this name, where all relations agree on it."""
        return self._oids.get(name.lower())

    def run(self, tree: exp.Expr, asking: Asking, virtual: Virtual, *, rows: int | None = None) -> pa.Table:
        """Returns what a statement gives, at most `rows` of it.

        Args:
            tree: The statement; it is changed.
            asking: Who asks.
            virtual: The virtual tables.
        Raises:
            Refusal: It is not supported, takes too long or gives too much.
        """
        call = refused_function(tree)
        if call is not None:
            name = call.this if isinstance(call, exp.Anonymous) else call.key
            raise Refusal(NO_FUNCTION, f"function {str(name).lower()[:100]} is not available here")
        try:
            made = rewrite(with_lists_as_in(tree), self._known, asking)
            bound_series(made)
            text = made.sql(dialect="duckdb")
        except SqlglotError:
            raise _unsupported() from None
        tables = {registered: virtual(name) for name, registered in asking.virtual.items()}
        try:
            return self._tables.run(text, tables, limits=LIMITS, first=rows)
        except StatementTimeout:
            raise Refusal(CANCELLED, "the statement over the catalogs took too long") from None
        except StatementTooLarge as error:
            raise Refusal(TOO_MUCH, f"the statement over the catalogs {error}") from None
        except StatementMemory:
            most = f"it may take {LIMITS.most_memory >> 20} MB"
            raise Refusal(NO_MEMORY, "the statement over the catalogs needs too much memory", most) from None
        except BackendError:
            raise _unknown_column(made) or _unsupported() from None


def _unknown_column(made: exp.Expr) -> Refusal | None:
    """Returns the refusal of a SELECT that names a column and reads no table."""
    if not isinstance(made, exp.Select) or made.args.get("from_"):
        return None
    names = [c.name for c in made.find_all(exp.Column) if not c.table and c.find_ancestor(exp.Select) is made]
    return Refusal(NO_COLUMN, f'column "{names[0][:100]}" does not exist') if names else None


def _filled(catalog: Catalog, system: tuple[Relation, ...]) -> SystemTables:
    names = ", ".join(f"{name} VARCHAR" for name in ("plain", "shown", "full_name", "quoted"))
    by_place = {relation.place: relation for relation in system}
    statements = [
        *(f"CREATE SCHEMA {schema}" for schema in ("pgc", "inf", "aid")),
        *(relation.ddl() for relation in system),
        "CREATE TABLE aid.type_names (oid UINTEGER, name VARCHAR, shown VARCHAR)",
        f"CREATE TABLE aid.class_names (oid UINTEGER, {names})",
        "CREATE TABLE aid.constraints (oid UINTEGER, shown VARCHAR)",
        "CREATE TABLE aid.indexes (oid UINTEGER, place INTEGER, shown VARCHAR)",
    ]
    rows = {place: _arrow(by_place[place], given) for place, given in contents.rows(catalog, system) if given}
    return SystemTables(statements, rows, afterwards=(_TYPE_NAMES, _CLASS_NAMES, *macros.macros()))


def _agreed(system: tuple[Relation, ...]) -> dict[str, int]:
    """Returns the OIDs of columns' types by name, for names that have one type everywhere."""
    found: dict[str, set[int]] = {}
    for relation in system:
        for name, code in relation.columns:
            found.setdefault(name, set()).add(oid_of_code(code))
    return {name: oids.pop() for name, oids in found.items() if len(oids) == 1}


_PUBLIC_NAMES = {
    "int8": "bigint",
    "int4": "integer",
    "int2": "smallint",
    "bool": "boolean",
    "float8": "double precision",
    "float4": "real",
    "varchar": "character varying",
    "bpchar": "character",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
    "timetz": "time with time zone",
    "varbit": "bit varying",
    "char": '"char"',
}
_SHOWN = " ".join(f"WHEN '{name}' THEN '{shown}'" for name, shown in _PUBLIC_NAMES.items())
_TYPE_NAMES = f"""INSERT INTO aid.type_names
    SELECT t.oid, t.typname, CASE WHEN e.oid IS NOT NULL AND t.typcategory = 'A'
        THEN (CASE e.typname {_SHOWN} ELSE e.typname END) || '[]'
        WHEN t.typnamespace = {INFORMATION_SCHEMA} THEN 'information_schema.' || t.typname
        ELSE CASE t.typname {_SHOWN} ELSE t.typname END END
    FROM pgc.pg_type AS t LEFT JOIN pgc.pg_type AS e ON e.oid = t.typelem"""
_CLASS_NAMES = """INSERT INTO aid.class_names
    SELECT c.oid, CASE WHEN s.nspname IN ('pg_catalog', 'public') THEN c.relname END,
        CASE WHEN s.nspname IN ('pg_catalog', 'public') THEN q.name ELSE s.nspname || '.' || q.name END,
        s.nspname || '.' || c.relname, '"' || s.nspname || '"."' || c.relname || '"'
    FROM pgc.pg_class AS c JOIN pgc.pg_namespace AS s ON s.oid = c.relnamespace,
        LATERAL (SELECT CASE WHEN regexp_matches(c.relname, '^[a-z_][a-z0-9_]*$') THEN c.relname
            ELSE '"' || replace(c.relname, '"', '""') || '"' END AS name) AS q"""

_DEFAULTS: dict[str, object] = {"b": False, "o": 0, "4": 0, "2": 0, "8": 0, "f": 0.0, "p": 0}


def _arrow(relation: Relation, rows: list[Row]) -> pa.Table:
    """Returns rows as a table of texts and lists that the engine casts; what a row leaves out is 0, false or NULL."""
    columns = {}
    for name, code in relation.columns:
        default = _DEFAULTS.get(code) if relation.schema == "pg_catalog" else None
        values = [row.get(name, default) for row in rows]
        if any(isinstance(value, list) for value in values):
            columns[name] = pa.array(values)
        else:
            columns[name] = pa.array(
                [None if v is None else str(v).lower() if type(v) is bool else str(v) for v in values]
            )
    return pa.table({name: array for name, array in columns.items() if array.null_count < len(array)})


def _unsupported() -> Refusal:
    return Refusal(
        UNSUPPORTED,
        "this statement over the system catalogs is not supported",
        None,
        "Names and functions that exist here are those of PostgreSQL 15 that clients ask for.",
    )
