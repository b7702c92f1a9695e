"""ADBC over the study: Arrow tables by binary COPY, parameters, metadata."""

from __future__ import annotations

import datetime
import importlib
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from tests.server.clients.study import DATABASE, LONG, STUDY_COLUMNS, USER, Study, fresh
from tests.server.serving import PASSWORD

# What drivers and pandas warn of changes with their versions, and is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def connection(study: Study) -> Iterator[Any]:
    dbapi: Any = importlib.import_module("adbc_driver_postgresql.dbapi")
    url = f"postgresql://{USER}:{quote(PASSWORD)}@127.0.0.1:{study.port}/{DATABASE}"
    with dbapi.connect(url, autocommit=True) as found:
        yield found


def arrow(connection: Any, query: str, *parameters: Any, **options: Any) -> pa.Table:
    with connection.cursor(**options) as cursor:
        cursor.execute(query, *parameters)
        return cursor.fetch_arrow_table()


@pytest.mark.parametrize("copy", ["true", "false"])
def test_answers_are_arrow_tables_and_charged_once(study: Study, connection: Any, copy: str) -> None:
    query = fresh("sex, COUNT(*) AS n, AVG(age) AS a")
    with study.charges(1):
        table = arrow(connection, query, adbc_stmt_kwargs={"adbc.postgresql.use_copy": copy})
        assert table.schema.types == [pa.string(), pa.int64(), pa.float64()]
        assert table.column("sex").to_pylist() == ["F", "M"]
        assert arrow(connection, query).equals(table)


@pytest.mark.parametrize(
    ("condition", "values"), [("age > $1", (66,)), ("sex = $1 AND bmi > $2", ("F", 25.375)), ("died = $1", (True,))]
)
def test_parameters(study: Study, connection: Any, condition: str, values: tuple[object, ...]) -> None:
    with study.charges(1):
        table = arrow(connection, fresh("COUNT(*) AS n", f"AND {condition}"), values)
    assert table.num_rows == 1 and table.schema.types == [pa.int64()]


def test_metadata_is_free(study: Study, connection: Any) -> None:
    with study.charges(0):
        (found,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        schemas = {one["db_schema_name"]: one["db_schema_tables"] for one in found["catalog_db_schemas"]}
        tables = {t["table_name"]: {c["column_name"] for c in t["table_columns"]} for t in schemas["public"]}
        assert tables == {name: set(columns) for name, columns in STUDY_COLUMNS.items()}
        assert found["catalog_name"] == DATABASE
        for options in ({}, {"db_schema_filter": "public"}):
            schema = connection.adbc_get_table_schema("patients", **options)
            assert schema.names == STUDY_COLUMNS["patients"]
            assert schema.field("bmi").type == pa.float64() and schema.field("died").type == pa.bool_()
        assert "table" in connection.adbc_get_table_types()
        assert connection.adbc_get_info()["vendor_name"] == "PostgreSQL"


def test_describing_and_preparing_is_free(study: Study, connection: Any) -> None:
    with study.charges(0), connection.cursor() as cursor:
        assert cursor.adbc_execute_schema(fresh()).types == [pa.string(), pa.int64()]
        assert cursor.adbc_prepare("SELECT COUNT(*) AS n FROM patients WHERE age > $1").types == [pa.int64()]


def test_values_and_many_rows(connection: Any) -> None:
    query = "SELECT true AS a, 1::smallint AS b, 1.5::float8 AS c, DATE '2020-01-02' AS d, 'x' AS e, NULL::int8 AS f"
    (row,) = arrow(connection, query).to_pylist()
    assert list(row.values()) == [True, 1, 1.5, datetime.date(2020, 1, 2), "x", None]
    assert arrow(connection, "SELECT i FROM generate_series(1, 100000) g(i)").num_rows == 100_000


def test_refused_and_cancelled(study: Study, connection: Any) -> None:
    manager: Any = importlib.import_module("adbc_driver_manager")
    with study.charges(0):
        with pytest.raises(manager.Error, match="rows of a single patient are not shown") as refused:
            arrow(connection, "SELECT * FROM patients")
        assert refused.value.sqlstate == "42501"
        with connection.cursor() as cursor:
            timer = threading.Timer(0.5, cursor.adbc_cancel)
            timer.start()
            with pytest.raises(manager.Error) as cancelled:
                cursor.execute(LONG)
            timer.join()
            assert cancelled.value.sqlstate == "57014"
        assert arrow(connection, "SELECT 1 AS one").to_pylist() == [{"one": 1}]
