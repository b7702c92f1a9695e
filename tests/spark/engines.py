"""A session of Spark on this machine, and backends over frames that it made of those of other tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dpquery.backends.duckdb.public_tables import needed
from dpquery.backends.spark.backend import SparkBackend
from dpquery.catalog import Catalog
from dpquery.data.arrow import arrow_type
from dpquery.data.owners import leading_to_owners
from dpquery.data.sources import open_source
from dpquery.data.values import declared_values
from tests.docs.pages import ROOT

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",  # timestamps of frames without a zone are what a clock shows
    "spark.log.level": "OFF",  # tests kill tasks
}


@cache
def session() -> SparkSession:
    """Returns a session with two cores; a task may fail three times."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.builder.master(os.environ.get("DPQUERY_SPARK", "local[2,4]"))
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def backend(catalog: Catalog, sources: Mapping[str, Any]) -> SparkBackend:
    """Returns a backend over frames of Spark with the rows of other frames."""
    frames = {
        name: source if catalog.tables[name].public else _frame(catalog, name, source)
        for name, source in sources.items()
        if name in catalog.tables
    }
    return SparkBackend(catalog, frames)


def _frame(catalog: Catalog, name: str, source: Any) -> Any:
    types = needed(catalog, name)
    data = open_source(name, source, types).data
    plain = {field.name: _plain(data[field.name]) for field in data.schema}
    for table, column in leading_to_owners(catalog):
        if table == name and column in plain:  # pandas makes floats of integers beside NULL
            values = declared_values(catalog, name, column, source, types[column])
            plain[column] = pa.array(values, arrow_type(types[column]))
    if any(pa.types.is_uint64(column.type) or pa.types.is_null(column.type) for column in plain.values()):
        pytest.xfail("never: Spark has no such column")
    return session().createDataFrame(pa.table(plain))


def _plain(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
