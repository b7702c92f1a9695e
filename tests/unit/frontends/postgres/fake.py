"""An answerer for tests of the wire: DuckDB over toy tables without any privacy, which counts what it would charge."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dpquery.cancelling import interruptible
from dpquery.errors import CatalogError, DataChangedError
from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import (
    Described,
    Field,
    Refusal,
    StatementAnswer,
    StatementRequest,
    refusal_of,
)

OIDS = {
    "bool": oids.BOOL,
    "int16": oids.INT2,
    "int32": oids.INT4,
    "int64": oids.INT8,
    "uint32": oids.OID,
    "float": oids.FLOAT4,
    "double": oids.FLOAT8,
    "string": oids.TEXT,
    "date32[day]": oids.DATE,
    "timestamp[us]": oids.TIMESTAMP,
    "time64[us]": oids.TIME,
    "binary": oids.BYTEA,
}
SETUP = """
CREATE TABLE orders AS
SELECT i AS order_id, ['north', 'south', 'east', 'west'][i % 4 + 1] AS region, i / 8.0 AS amount,
       CAST(i % 7 AS INTEGER) AS qty, DATE '2023-01-01' + CAST(i % 365 AS INTEGER) AS ordered_on,
       CAST(i % 100 / 4.0 AS DECIMAL(18, 2)) AS price, i % 2 = 0 AS is_new
FROM range(20000) AS r(i)
"""
_PARAMETER = re.compile(r"\$([0-9]+)(?:::(\w+))?")
_TYPES = {"int": oids.INT4, "bigint": oids.INT8, "date": oids.DATE, "numeric": oids.NUMERIC, "float8": oids.FLOAT8}
_TYPES |= {"bool": oids.BOOL, "text": oids.TEXT, "timestamp": oids.TIMESTAMP, "uuid": oids.UUID, "bytea": oids.BYTEA}


class Fake:
    """Answers what DuckDB answers; `SELECT charges` says how often it did so for tables.

    Args:
        version: A file with the version of the data, of which it holds the one that stands there now.
    """

    def __init__(self, version: str | None = None) -> None:
        self._place, self._version = version, _read(version)
        if self._version == "broken":
            raise CatalogError("these data cannot be opened")
        self._root = duckdb.connect(":memory:")
        self._root.execute(SETUP)
        self._charges = itertools.count()
        self._charged = 0

    def describe(
        self, text: str, parameter_oids: tuple[int, ...], analyst: str, settings: Mapping[str, str]
    ) -> Described:
        found = {int(n): type for n, type in _PARAMETER.findall(text)}
        parameters = []
        for i in range(max([*found, len(parameter_oids)], default=0)):
            given = parameter_oids[i] if i < len(parameter_oids) else 0
            parameters.append(given or _TYPES.get(found.get(i + 1, ""), oids.TEXT))
        if text.startswith("fail"):
            raise Refusal("42P01", "relation does not exist", position=6)
        made = self._rows(text, (None,) * len(parameters), "LIMIT 0")
        return Described(parameters=tuple(parameters), fields=_fields(made))

    def answer(self, asked: StatementRequest) -> StatementAnswer:
        word = asked.text.strip().split()[0].lower()
        if asked.text.strip() == "SELECT charges":
            table = pa.table({"charges": pa.array([self._charged])})
            return StatementAnswer(fields=_fields(table), table=table)
        if word == "crash":
            os._exit(3)
        if word == "leak":
            raise ValueError("canary-7731 of a row")
        if word == "hang":
            time.sleep(60)
        if word == "wait":
            while not os.path.exists(asked.text.split()[1]):
                time.sleep(0.01)
        if word == "version" and self._version != _read(self._place):
            raise refusal_of(DataChangedError("the data have changed"))
        if word in ("wait", "version", "process"):
            table = pa.table({"process": pa.array([os.getpid()]), "version": pa.array([self._version])})
            return StatementAnswer(fields=_fields(table), table=table)
        if "dp.budget" in asked.text:
            table = pa.table({"currency": ["epsilon"], "remaining": [0.75]})
            return StatementAnswer(fields=_fields(table), table=table)
        if word == "whoami":
            table = pa.table({"analyst": pa.array([asked.analyst]), "e": [asked.settings.get("dpquery.epsilon", "")]})
            return StatementAnswer(fields=_fields(table), table=table)
        if word not in ("select", "with", "values"):
            raise Refusal("42501", "only queries are answered", hint="Write a SELECT.", position=1)
        notices: tuple[str, ...] = ()
        if "orders" in asked.text:
            self._charged += 1
            notices = ("charged epsilon 0.1",)
        table = self._rows(asked.text, asked.parameters, "")
        return StatementAnswer(fields=_fields(table), table=table, notices=notices)

    def explain(self, asked: StatementRequest) -> StatementAnswer:
        table = pa.table({"QUERY PLAN": pa.array(["price: epsilon 0.1", "error95: 12"])})
        return StatementAnswer(fields=_fields(table), table=table)

    def _rows(self, text: str, parameters: tuple[object, ...], limit: str) -> pa.Table:
        with self._root.cursor() as cursor, interruptible(cursor.interrupt):
            try:
                wrapped = f"SELECT * FROM ({text}) {limit}" if limit else text
                return cursor.sql(wrapped, params=list(parameters) or None).to_arrow_table()
            except duckdb.InterruptException:
                raise Refusal("58030", "the engine has failed") from None
            except duckdb.Error:
                raise Refusal("42601", "the statement is not understood") from None


def _read(place: str | None) -> str:
    return "" if place is None else Path(place).read_text(encoding="utf-8")


def _fields(table: pa.Table) -> tuple[Field, ...]:
    return tuple(Field(name=column.name, oid=_oid(column.type)) for column in table.schema)


def _oid(type: pa.DataType) -> int:
    if pa.types.is_decimal(type):
        return oids.NUMERIC
    if pa.types.is_list(type):
        return oids.ARRAYS[_oid(type.value_type)]
    if pa.types.is_timestamp(type):
        return oids.TIMESTAMPTZ if type.tz else oids.TIMESTAMP
    return OIDS.get(str(type), oids.TEXT)


@contextlib.contextmanager
def build(arguments: dict[str, Any]) -> Iterator[tuple[Fake, dict[str, Any]]]:
    """Opens the fake; see `worker.Factory`."""
    yield Fake(arguments.get("version")), {"dataset": arguments.get("dataset", "")}
