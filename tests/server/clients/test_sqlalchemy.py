"""SQLAlchemy over the study, with psycopg, psycopg2 and pg8000: reflection, Core, streams; pandas over it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.clients.study import DATABASE, STUDY_COLUMNS, USER, Study, fresh
from tests.server.serving import PASSWORD

# What drivers and pandas warn of changes with their versions, and is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", params=["psycopg", "psycopg2", "pg8000"])
def engine(request: pytest.FixtureRequest, study: Study) -> Iterator[Any]:
    sa: Any = importlib.import_module("sqlalchemy")
    url = sa.URL.create(f"postgresql+{request.param}", USER, PASSWORD, "127.0.0.1", study.port, DATABASE)
    made = sa.create_engine(url)
    yield made
    made.dispose()


def test_everything_is_reflected_free(study: Study, engine: Any) -> None:
    sa: Any = importlib.import_module("sqlalchemy")
    with study.charges(0):
        inspector = sa.inspect(engine)
        assert {"public", "information_schema"} <= set(inspector.get_schema_names())
        assert sorted(inspector.get_table_names()) == sorted(STUDY_COLUMNS)
        assert inspector.get_view_names() == []
        for table, columns in STUDY_COLUMNS.items():
            assert [column["name"] for column in inspector.get_columns(table)] == columns
            assert inspector.get_pk_constraint(table)["constrained_columns"] == []
            assert inspector.get_foreign_keys(table) == []
            assert inspector.get_indexes(table) == []
            assert inspector.get_unique_constraints(table) == []
            assert inspector.get_check_constraints(table) == []
            assert "Private: protects each patient." in inspector.get_table_comment(table)["text"]
        types = {column["name"]: str(column["type"]) for column in inspector.get_columns("patients")}
        assert types["bmi"] == "DOUBLE PRECISION" and types["sex"] == "TEXT" and types["died"] == "BOOLEAN"
        assert inspector.get_enums() == [] and inspector.get_domains() == []
        assert inspector.get_sequence_names() == []
        assert inspector.has_table("labs") and not inspector.has_table("nope")
        metadata = sa.MetaData()
        metadata.reflect(engine)
        assert set(metadata.tables) == set(STUDY_COLUMNS)


def test_core_asks_and_is_charged_once(study: Study, engine: Any) -> None:
    sa: Any = importlib.import_module("sqlalchemy")
    patients = sa.Table("patients", sa.MetaData(), autoload_with=engine)
    weight = float(fresh().split("> ")[1].split()[0])
    query = (
        sa.select(patients.c.sex, sa.func.count().label("n"))
        .where(patients.c.weight > weight)
        .group_by(patients.c.sex)
        .order_by(patients.c.sex)
    )
    with study.charges(1):
        for options in ({}, {"stream_results": True}):
            with engine.connect().execution_options(**options) as connection:
                assert [row.sex for row in connection.execute(query)] == ["F", "M"]


def test_a_refusal_leaves_the_connection(study: Study, engine: Any) -> None:
    sa: Any = importlib.import_module("sqlalchemy")
    with study.charges(0), engine.connect() as connection:
        with pytest.raises(sa.exc.DBAPIError):
            connection.execute(sa.text("SELECT * FROM patients"))
        connection.rollback()
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1


def test_pandas_reads_an_answer(study: Study, engine: Any) -> None:
    pd: Any = importlib.import_module("pandas")
    with study.charges(1):
        frame = pd.read_sql(fresh(), engine)
    assert frame["sex"].tolist() == ["F", "M"]
