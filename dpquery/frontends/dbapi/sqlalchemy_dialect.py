"""The SQLAlchemy dialect: `dpquery:///hospital.yaml?analyst=alice`, over the DB-API module.

Tables and columns are reflected from the catalog, which costs nothing. Text and Core queries are compiled as
PostgreSQL, their values stay parameters. The budget of a query is an execution option, `dpquery_epsilon` and the like.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from sqlalchemy import exc, types
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGIdentifierPreparer, PGTypeCompiler
from sqlalchemy.engine import URL
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.pool import Pool, StaticPool

from dpquery.catalog import Catalog, Table
from dpquery.catalog.describe import describe_column, describe_table
from dpquery.frontends.dbapi.cursor import AskedOfCursor
from dpquery.plan.types import Kind, Type

PREFIX = "dpquery_"
"""Begins the names of execution options that are for the cursor."""
SOURCE = "source."
"""Begins the names of a URL's parameters that name the path of a table."""
PLACES = ("analyst", "ledger", "mark")
COUNTS = ("max_groups", "max_rows")
UNSAID = ("weights", "fresh", "simultaneous")
"""Options that a URL cannot say: for one query alone, or no text."""


class DPQueryCompiler(PGCompiler):
    """PostgreSQL, but for true division, whose exact decimals have no width here."""

    def visit_truediv_binary(self, binary: Any, operator: Any, **given: Any) -> str:
        """Returns the quotient of two numbers, as floats."""
        left, right = self.process(binary.left, **given), self.process(binary.right, **given)
        return f"{left} / CAST({right} AS DOUBLE PRECISION)"


class DPQueryPreparer(PGIdentifierPreparer):
    """Names of PostgreSQL, without schemas: a catalog has one."""

    def __init__(self, dialect: Any, **given: Any) -> None:
        super().__init__(dialect, **{**given, "omit_schema": True})


class DPQueryDialect(DefaultDialect):
    """One catalog, one analyst, one session for all threads of an engine."""

    name = "dpquery"
    driver = "dbapi"
    default_paramstyle = "named"
    statement_compiler = DPQueryCompiler
    type_compiler_cls = PGTypeCompiler
    preparer = DPQueryPreparer  # type: ignore[assignment]
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_alter = False
    supports_comments = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    div_is_floordiv = True
    max_identifier_length = 63
    _backslash_escapes = False
    _supports_jsonb_subscripting = False

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Returns the DB-API module."""
        return importlib.import_module("dpquery.dbapi")  # the public module, which stands above this layer

    @classmethod
    def get_pool_class(cls, url: URL) -> type[Pool]:
        """Returns the pool of one connection: threads may share it, and the data are opened once."""
        return StaticPool

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        """Returns the arguments of `dbapi.connect` that a URL stands for.

        Raises:
            ArgumentError: The URL has parts or parameters without a meaning here.
        """
        if url.host or url.port or url.password:
            raise exc.ArgumentError("dpquery:///catalog.yaml has three slashes, and neither host, port nor password")
        given: dict[str, Any] = {"analyst": url.username} if url.username else {}
        sources: dict[str, str] = {}
        for name, value in url.query.items():
            if not isinstance(value, str):
                raise exc.ArgumentError(f"the URL says {name} more than once")
            if name.startswith(SOURCE):
                sources[name.removeprefix(SOURCE)] = value
            elif name in UNSAID or name not in (*PLACES, *AskedOfCursor.__annotations__):
                raise exc.ArgumentError(f"the URL's parameter {name} is unknown; known: {_known()}")
            elif given.get(name, value) != value:
                raise exc.ArgumentError(f"the URL names two analysts, {given[name]} and {value}")
            else:
                given[name] = _count(name, value) if name in COUNTS else value
        if sources:
            given["sources"] = sources
        return ([url.database] if url.database else []), given

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """Returns a connection of the DB-API.

        Raises:
            InterfaceError: The URL names no catalog.
        """
        if not cargs:
            assert self.dbapi is not None
            raise self.dbapi.InterfaceError("the URL has no catalog; write dpquery:///catalog.yaml")
        return super().connect(*cargs, **cparams)

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Answers a query, with the budget of its execution options."""
        options = context.execution_options if context is not None else {}
        asked = {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}
        cursor.execute(statement, parameters, **asked)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        """Answers a query without parameters."""
        self.do_execute(cursor, statement, None, context)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Returns whether the connection is open; asks nothing."""
        return not dbapi_connection.closed

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[str]:  # type: ignore[override]
        """Returns the one level: an answer is final."""
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: Any) -> str:  # type: ignore[override]
        """Returns the one level."""
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """Does nothing: there is one level."""

    def _get_server_version_info(self, connection: Any) -> None:
        return None

    def _get_default_schema_name(self, connection: Any) -> str:
        return _catalog(connection).dataset

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """Returns the dataset's name."""
        return [_catalog(connection).dataset]

    def has_schema(self, connection: Any, schema_name: str, **_: Any) -> bool:
        """Whether this is the dataset's name."""
        return schema_name == _catalog(connection).dataset

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        """Whether a table is declared."""
        catalog = _catalog(connection)
        return schema in (None, catalog.dataset) and table_name in catalog.tables

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """Returns the names of the declared tables."""
        catalog = _catalog(connection)
        return list(catalog.tables) if schema in (None, catalog.dataset) else []

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """Returns nothing: there are no views."""
        return []

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """Returns the declared columns; their comments say bounds and keys."""
        return [
            {
                "name": column.name,
                "type": type_of(column.type),
                "nullable": column.nullable,
                "default": None,
                "autoincrement": False,
                "comment": describe_column(column),
            }
            for column in _table(connection, table_name, schema).columns.values()
        ]

    def get_table_comment(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        """Returns whose rows these are, and how much of one unit counts."""
        return {"text": describe_table(_table(connection, table_name, schema), _catalog(connection))}

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        """Returns the first set of columns that is declared unique."""
        table = _table(connection, table_name, schema)
        return {"constrained_columns": _in_order(table.unique[0], table) if table.unique else [], "name": None}

    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        """Returns the further sets of columns that are declared unique."""
        table = _table(connection, table_name, schema)
        return [{"name": None, "column_names": _in_order(columns, table)} for columns in table.unique[1:]]

    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """Returns the way to the table that says whose a row is."""
        table = _table(connection, table_name, schema)
        steps = table.ownership.path[:1] if table.ownership is not None else ()
        return [
            {
                "name": None,
                "constrained_columns": [child for child, _, _ in step.on],
                "referred_schema": None,
                "referred_table": step.parent,
                "referred_columns": [parent for _, parent, _ in step.on],
                "options": {},
            }
            for step in steps
        ]

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """Returns nothing: there are no indexes."""
        _table(connection, table_name, schema)
        return []

    def get_check_constraints(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """Returns nothing: bounds are enforced, so no row breaks them; comments say them."""
        _table(connection, table_name, schema)
        return []


def type_of(declared: Type) -> types.TypeEngine[Any]:
    """Returns SQLAlchemy's type for a declared one."""
    if declared.kind is Kind.DECIMAL:
        return types.Numeric(declared.precision, declared.scale)
    plain: dict[Kind, types.TypeEngine[Any]] = {
        Kind.BOOLEAN: types.Boolean(),
        Kind.INT64: types.BigInteger(),
        Kind.FLOAT64: types.Double(),
        Kind.TEXT: types.Text(),
        Kind.DATE: types.Date(),
        Kind.TIMESTAMP: types.DateTime(),
    }
    return plain[declared.kind]


def _catalog(connection: Any) -> Catalog:
    catalog: Catalog = connection.connection.dbapi_connection.session.catalog
    return catalog


def _table(connection: Any, name: str, schema: str | None) -> Table:
    catalog = _catalog(connection)
    if schema not in (None, catalog.dataset) or name not in catalog.tables:
        raise exc.NoSuchTableError(name)
    return catalog.tables[name]


def _in_order(columns: Iterable[str], table: Table) -> list[str]:
    return sorted(columns, key=list(table.columns).index)


def _count(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise exc.ArgumentError(f"the URL's {name} is a whole number, not {value!r}")
    return int(value)


def _known() -> str:
    options = [name for name in AskedOfCursor.__annotations__ if name not in UNSAID]
    return ", ".join([*PLACES, f"{SOURCE}TABLE", *options])
