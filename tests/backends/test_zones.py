"""Instants are read as the wall clock of the declared zone, as pandas shows them, on days when clocks are set too."""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.backends.duckdb.sql.zones import local_microseconds
from dpquery.plan.zones import offsets, wall_clock
from tests.backends.conformance.test_reading import instants
from tests.scripted import zero_noise

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _around_changes(zone: str) -> list[datetime.datetime]:
    """Returns instants around all changes of a zone, of the far future too, and the ends of the calendar."""
    changes = [
        EPOCH + datetime.timedelta(microseconds=at + step) for at, _ in offsets(zone).changes for step in (-1, 0)
    ]
    tz, hour = zoneinfo.ZoneInfo(zone), datetime.timedelta(hours=1)
    far = [datetime.datetime(year, m, d, h, tzinfo=tz) for year in (2200, 2404, 9998) for m in (3, 4, 9, 10, 11)
           for d in range(1, 32 if m in (3, 10) else 31) for h in (0, 4)]  # fmt: skip
    first = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC)
    return [*changes, *far, *(first + i * hour for i in range(24)), *(last - i * hour for i in range(24))]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Vancouver", "Africa/Casablanca", "Asia/Tokyo"])
def test_the_engine_and_python_read_alike_at_every_change(zone: str) -> None:
    instants = _around_changes(zone)
    table = pa.table({"x": pa.array(instants, pa.timestamp("us", "UTC"))})
    connection = duckdb.connect().register("instants", table)
    read = f"make_timestamp({local_microseconds('epoch_us(x)', zone)})"
    found = [row[0] for row in connection.execute(f"SELECT {read} FROM instants").fetchall()]
    assert found == [wall_clock(instant, zone) for instant in instants]


def _catalog(**column: Any) -> dp.Catalog:
    return dp.Catalog(
        dataset="zones",
        privacy_unit="row",
        budget={"epsilon": 10_000},
        defaults={"epsilon": 1},
        tables={"t": {"columns": {"at": {"type": "timestamp", **column}, "day": {"type": "date"}}}},
    )


def _session(path: Path, **column: Any) -> dp.Session:
    frame = pd.DataFrame({"at": instants(), "day": datetime.date(2024, 1, 1)})
    return dp.connect(_catalog(**column), {"t": frame}, ledger=path / "ledger", create=True)


CONDITIONS = {
    "at >= '2024-03-31 12:00:00'": lambda local, at: local >= "2024-03-31 12:00:00",
    "date_trunc('day', at) = '2024-10-27'": lambda local, at: local.normalize() == "2024-10-27",
    "EXTRACT(hour FROM at) = 2": lambda local, at: local.hour == 2,
    "CAST(at AS date) = '2024-03-31'": lambda local, at: local.normalize() == "2024-03-31",
    "EXTRACT(hour FROM at AT TIME ZONE 'Europe/Berlin') < 5": lambda local, at: local.hour < 5,
    "at < '2024-03-31 10:30:00+00'": lambda local, at: at < "2024-03-31 10:30:00Z",
    "at < TIMESTAMPTZ '2024-10-27 12:00:00+05:30'": lambda local, at: at < "2024-10-27 06:30:00Z",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_mean_what_pandas_means(condition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    session = _session(tmp_path, zone="Europe/Berlin")
    at = pd.Series(instants())
    expected = CONDITIONS[condition](pd.DatetimeIndex(at).tz_convert("Europe/Berlin").tz_localize(None), at)
    assert session.sql(f"SELECT COUNT(*) AS n FROM t WHERE {condition}").to_pandas()["n"].item() == int(
        np.sum(expected)
    )


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("at AT TIME ZONE 'UTC' > '2024-01-01'", "AT TIME ZONE 'Europe/Berlin'"),
        ("at > '2024-10-27 00:30:00Z'", "is not a valid timestamp"),  # the clock shows 02:30 twice
        ("EXTRACT(epoch FROM at) > 5", "set back"),
    ],
)
def test_what_would_be_wrong_is_refused(condition: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(dp.QueryError, match=says):
        _session(tmp_path, zone="Europe/Berlin").explain(f"SELECT COUNT(*) FROM t WHERE {condition}")


def test_constants_with_a_zone_are_refused_where_columns_differ_in_theirs(tmp_path: Path) -> None:
    columns = {"a": {"type": "timestamp", "zone": "UTC"}, "b": {"type": "timestamp", "zone": "Asia/Tokyo"}}
    catalog = dp.Catalog(dataset="d", privacy_unit="row", budget={"epsilon": 1}, tables={"t": {"columns": columns}})
    frame = pd.DataFrame({"a": instants(), "b": instants()})
    session = dp.connect(catalog, {"t": frame}, ledger=tmp_path / "ledger", create=True)
    for condition in ("a > '2024-01-01 00:00:00Z'", "b > now()", "a AT TIME ZONE 'UTC' > '2024-01-01'"):
        with pytest.raises(dp.QueryError):
            session.explain(f"SELECT COUNT(*) FROM t WHERE {condition}", epsilon=1)


def test_instants_without_a_declared_zone_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"at": instants(), "day": datetime.date(2024, 1, 1)})
    frame.to_parquet(path)
    for source in (frame, pa.Table.from_pandas(frame), path):
        with pytest.raises(dp.CatalogError, match="zone: UTC}, or the local zone"):
            dp.connect(_catalog(), {"t": source}, ledger=tmp_path / "ledger", create=True)
