"""A generated table of page views with the columns that ClickBench's questions read, and its declarations."""

from __future__ import annotations

from pathlib import Path

import duckdb

import dpquery as dp

COLUMNS = """
    hash(i) & 9223372036854775807 AS WatchID,
    CAST(users * power(random(), 3) AS BIGINT) * 1000003 AS UserID,
    TIMESTAMP '2013-07-01' + to_seconds(CAST(31 * 86400 * random() AS BIGINT)) AS EventTime,
    CAST(1 + 3000 * power(random(), 6) AS BIGINT) + 59 AS CounterID,
    CAST(5000 * power(random(), 8) AS BIGINT) AS RegionID,
    CASE WHEN random() < 0.95 THEN 0 ELSE CAST(60 * power(random(), 2) AS BIGINT) END AS AdvEngineID,
    list_extract([1366, 1920, 1280, 1024, 1440, 1600, 0], CAST(1 + 6 * random() AS INTEGER))::BIGINT AS ResolutionWidth,
    CASE WHEN random() < 0.9 THEN '' ELSE 'phrase ' || CAST(50000 * power(random(), 6) AS BIGINT) END AS SearchPhrase,
    CASE WHEN random() < 0.9 THEN 0 ELSE CAST(1 + 20 * power(random(), 4) AS BIGINT) END AS SearchEngineID,
    CASE WHEN random() < 0.95 THEN 0 ELSE CAST(1 + 80 * random() AS BIGINT) END AS MobilePhone,
    CASE WHEN random() < 0.95 THEN '' ELSE 'model ' || CAST(150 * power(random(), 4) AS BIGINT) END AS MobilePhoneModel,
    'http://site' || CAST(400 * power(random(), 4) AS BIGINT) || '.example/page/'
        || CAST(100000 * power(random(), 8) AS BIGINT) AS URL,
    CASE WHEN random() < 0.1 THEN '' ELSE 'Title ' || CAST(20000 * power(random(), 8) AS BIGINT) END AS Title,
    CASE WHEN random() < 0.3 THEN '' ELSE 'https://www.from' || CAST(3000 * power(random(), 6) AS BIGINT)
        || '.example/a' END AS Referer,
    CAST(4000000000 * random() AS BIGINT) AS ClientIP,
    CAST(random() < 0.1 AS BIGINT) AS IsRefresh,
    CAST(random() < 0.05 AS BIGINT) AS DontCountHits,
    CAST(random() < 0.1 AS BIGINT) AS IsLink,
    CAST(random() < 0.02 AS BIGINT) AS IsDownload,
    CAST(10 * power(random(), 2) AS BIGINT) - 1 AS TraficSourceID,
    CAST(400 + 1600 * random() AS BIGINT) AS WindowClientWidth,
    CAST(300 + 900 * random() AS BIGINT) AS WindowClientHeight,
    CAST(50000 * power(random(), 8) AS BIGINT) AS URLHash,
    CAST(5000 * power(random(), 8) AS BIGINT) AS RefererHash
"""
WHOLE = ("CounterID", 0, 5000), ("RegionID", 0, 5000), ("AdvEngineID", 0, 100), ("ResolutionWidth", 0, 4000)
FLAGS = "IsRefresh", "DontCountHits", "IsLink", "IsDownload"
NUMBERS = (
    *WHOLE,
    *((flag, 0, 1) for flag in FLAGS),
    *(("SearchEngineID", 0, 100), ("MobilePhone", 0, 100), ("TraficSourceID", -1, 10)),
    *(("WindowClientWidth", 0, 4000), ("WindowClientHeight", 0, 4000)),
)
TEXTS = "SearchPhrase", "MobilePhoneModel", "URL", "Title", "Referer"
HASHES = "WatchID", "ClientIP", "URLHash", "RefererHash"


def generate(file: Path, rows: int) -> None:
    """Writes `rows` page views of about rows / 6 users of one month, as Parquet."""
    engine = duckdb.connect()
    engine.execute("SET threads = 1")  # so that random() starts from the seed everywhere
    engine.execute("SELECT setseed(0.42)")
    given = f"(SELECT i, {max(rows // 6, 1)}::DOUBLE AS users FROM range({rows}) AS numbers(i))"
    made = f"SELECT *, CAST(EventTime AS DATE) AS EventDate FROM (SELECT {COLUMNS} FROM {given})"
    engine.execute(f"COPY ({made}) TO '{file}' (FORMAT parquet)")


def catalog(*, unit_is_row: bool) -> dp.Catalog:
    """Returns its declarations, under a budget that no run exhausts."""
    columns: dict[str, object] = {"UserID": {"type": "int64"}}
    columns |= {name: {"type": "int64", "lower": low, "upper": high} for name, low, high in NUMBERS}
    columns |= {name: {"type": "int64"} for name in HASHES} | {name: {"type": "text"} for name in TEXTS}
    columns["EventDate"] = {"type": "date", "lower": "2013-07-01", "upper": "2013-07-31"}
    columns["EventTime"] = {"type": "timestamp", "lower": "2013-07-01 00:00:00", "upper": "2013-07-31 23:59:59"}
    table: dict[str, object] = {"columns": columns}
    return dp.Catalog(
        dataset="clickbench",
        privacy_unit="row" if unit_is_row else "user",
        budget={"epsilon": 100_000, "delta": "1e-3"},
        defaults={"epsilon": 1, "delta": "1e-9", "least_charge": "1e-12"},
        tables={"hits": table if unit_is_row else table | {"unit": "UserID", "max_rows": 30}},
    )
