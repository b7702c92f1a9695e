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
from dpquery.frontends.postgres.pg_catalog import contents
from dpquery.frontends.postgres.pg_catalog.allowed import MACROS, bound_series, refused_function
from dpquery.frontends.postgres.pg_catalog.relations import Relation, oid_of_code, relations, text_of
from dpquery.frontends.postgres.pg_catalog.rewrite import Asking, rewrite
from dpquery.frontends.postgres.wire.answers import (
    CANCELLED,
    NO_COLUMN,
    NO_FUNCTION,
    NO_MEMORY,
    TOO_MUCH,
    UNSUPPORTED,
    Refusal,
)
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
            inner = call.this if isinstance(call, exp.Table) else call
            name = str(inner.this if isinstance(inner, exp.Anonymous) else inner.key)
            raise Refusal(NO_FUNCTION, f"function {name.lower()[:100]} is not available here")
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
    statements = [
        *(f"CREATE SCHEMA {schema}" for schema in ("pgc", "inf", "aid")),
        *(relation.ddl() for relation in system),
        *(f"CREATE TABLE aid.{name} ({columns})" for name, columns in _AID.items()),
    ]
    rows = {f"aid.{name}": table for name, table in contents.rows(catalog, system).items()}
    for name in ("types", "procs"):
        columns = (f"{column} VARCHAR" for column in rows[f"aid.{name}"].column_names)
        statements.append(f"CREATE TABLE aid.{name} ({', '.join(columns)})")
    return SystemTables(statements, rows, afterwards=(MACROS, text_of("catalog.sql")))


_AID = {
    "relations": "oid UINTEGER, schema VARCHAR, name VARCHAR, kind VARCHAR, comment VARCHAR",
    "columns": "relation UINTEGER, number INTEGER, name VARCHAR, type UINTEGER, typmod INTEGER, is_nullable BOOLEAN, "
    "comment VARCHAR",
    "about": "dataset VARCHAR, comment VARCHAR, analyst VARCHAR, role UINTEGER",
    "settings": "name VARCHAR, setting VARCHAR",
    "type_names": "oid UINTEGER, name VARCHAR, shown VARCHAR",
    "class_names": "oid UINTEGER, plain VARCHAR, shown VARCHAR, full_name VARCHAR, quoted VARCHAR",
    "constraints": "oid UINTEGER, shown VARCHAR",
    "indexes": "oid UINTEGER, place INTEGER, shown VARCHAR",
}
"""Tables of the emulation's own; there are neither constraints nor indexes."""


def _agreed(system: tuple[Relation, ...]) -> dict[str, int]:
    """Returns the OIDs of columns' types by name, for names that have one type everywhere."""
    found: dict[str, set[int]] = {}
    for relation in system:
        for name, code in relation.columns:
            found.setdefault(name, set()).add(oid_of_code(code))
    return {name: oids.pop() for name, oids in found.items() if len(oids) == 1}


def _unsupported() -> Refusal:
    return Refusal(
        UNSUPPORTED,
        "this statement over the system catalogs is not supported",
        None,
        "Names and functions that exist here are those of PostgreSQL 15 that clients ask for.",
    )
