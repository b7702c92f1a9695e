"""Stored columns read as declared: what does not fit is NULL, on every backend, and changes no other row."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpquery.errors import CatalogError
from tests.backends.engines import Engine, catalog_of, rows_of
from tests.backends.plans import scan
from tests.reference.backend import ReferenceBackend

INF = math.inf
DAY, MOMENT = datetime.date, datetime.datetime
UTC = datetime.UTC
LARGEST, LEAST = 2**63 - 1, -(2**63)
WIDE = "1234567890123456789012345678.0123456789"
IDENTIFIER = "12345678-1234-5678-1234-567812345678"
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "a ",
    " a",
    "ä",
    "a\u0308",
    "\u200b",
    "😀",
    "'; DROP TABLE t; --",
    '"',
    "\\",
    "%",
    "\n",
    "NULL",
]

Expected = list[Any]
STORED: dict[str, tuple[str, Any, Expected]] = {
    # integers
    "int64": ("int64", [1, LARGEST, LEAST, 0], [1, LARGEST, LEAST, 0]),
    "int64 with NULL": ("int64", pd.array([2**53 + 1, None, LARGEST], dtype="Int64"), [2**53 + 1, None, LARGEST]),
    "int8": ("int64", np.array([-128, 127], dtype=np.int8), [-128, 127]),
    "uint64": ("int64", np.array([2**63, 2**64 - 1, 5, LARGEST], dtype=np.uint64), [None, None, 5, LARGEST]),
    "floats as integers": (
        "int64",
        [1.0, 1.5, math.nan, INF, -INF, -0.0, 2.0**53 - 1, -(2.0**53), 2.0**62, 2.0**63, -(2.0**63), 1e300],
        [1, None, None, None, None, 0, 2**53 - 1, None, None, None, None, None],
    ),
    "decimals as integers": ("int64", [Decimal("3.00"), Decimal("3.01"), None], [3, None, None]),
    "texts as integers": (
        "int64",
        ["7", "+7", "-7", "007", " 7", "7 ", "7.0", "1e3", "0x10", "", "seven", "9223372036854775808", "٧", "1_000"],
        [7, 7, -7, 7, None, None, None, None, None, None, None, None, None, None],
    ),
    # floats
    "float64": (
        "float64",
        [1.5, math.nan, INF, -INF, -0.0, 5e-324, 1.7e308],
        [1.5, None, INF, -INF, 0.0, 5e-324, 1.7e308],
    ),
    "float32": (
        "float64",
        np.array([0.1, math.nan, INF, -0.0], dtype=np.float32),
        [0.10000000149011612, None, INF, 0.0],
    ),
    "integers as floats": ("float64", [1, 2**53, LARGEST], [1.0, 2.0**53, 2.0**63]),
    "decimals as floats": ("float64", [Decimal("0.10"), Decimal("-2.50")], [0.1, -2.5]),
    "texts as floats": (
        "float64",
        ["1", "-1.5e2", "1e-3", "nan", "inf", "1,5", "1.", ".5", "-0", "0x1p3"],
        [1.0, -150.0, 0.001, None, None, None, None, None, 0.0, None],
    ),
    # decimals
    "decimal": (
        "decimal(6,2)",
        [Decimal("1.25"), Decimal("-9999.99"), None],
        [Decimal("1.25"), Decimal("-9999.99"), None],
    ),
    "decimals of more places": (
        "decimal(6,2)",
        [Decimal("1.255"), Decimal("-1.255"), Decimal("9999.995"), Decimal("10000.000")],
        [Decimal("1.26"), Decimal("-1.26"), None, None],
    ),
    "wide decimals": ("decimal(38,10)", [Decimal(WIDE), -Decimal(WIDE), None], [Decimal(WIDE), -Decimal(WIDE), None]),
    "integers as decimals": (
        "decimal(6,2)",
        [12, 9999, 10000, -9999],
        [Decimal("12.00"), Decimal("9999.00"), None, Decimal("-9999.00")],
    ),
    "floats as decimals": (
        "decimal(6,2)",
        [1.25, 0.1, math.nan, INF, -INF, 1e300, -0.0, 9999.99],
        [Decimal("1.25"), Decimal("0.10"), None, None, None, None, Decimal("0.00"), Decimal("9999.99")],
    ),
    "texts as decimals": (
        "decimal(6,2)",
        ["1.25", "1.255", "x", "99999", ""],
        [Decimal("1.25"), Decimal("1.26"), None, None, None],
    ),
    # booleans
    "boolean": ("boolean", [True, False], [True, False]),
    "boolean with NULL": ("boolean", pd.array([True, None, False], dtype="boolean"), [True, None, False]),
    "boolean objects": ("boolean", pd.Series([True, None, False], dtype=object), [True, None, False]),
    "integers as booleans": ("boolean", [0, 1, 2, -1], [False, True, None, None]),
    "texts as booleans": (
        "boolean",
        ["true", "TRUE", "f", "F", "False", "yes", "1", "", "tr"],
        [True, True, False, False, False, None, None, None, None],
    ),
    # texts
    "text": ("text", TEXTS, TEXTS),
    "text with NULL": ("text", ["a", None, "b"], ["a", None, "b"]),
    "text objects": ("text", pd.Series(["a", None, math.nan, "b"], dtype=object), ["a", None, None, "b"]),
    "categories": ("text", pd.Categorical(["b", None, "a"], categories=["z", "b", "a"]), ["b", None, "a"]),
    "categories of integers": ("int64", pd.Categorical([3, 1], categories=[1, 2, 3]), [3, 1]),
    "integers as texts": ("text", [1, -2, LEAST], ["1", "-2", str(LEAST)]),
    "booleans as texts": ("text", [True, False], ["true", "false"]),
    "dates as texts": ("text", [DAY(2020, 2, 29), DAY(1, 1, 1)], ["2020-02-29", "0001-01-01"]),
    "identifiers as texts": ("text", [str(uuid.UUID(IDENTIFIER))], [IDENTIFIER]),
    # dates and timestamps
    "date": ("date", [DAY(1, 1, 1), DAY(9999, 12, 31), None], [DAY(1, 1, 1), DAY(9999, 12, 31), None]),
    "timestamps as dates": (
        "date",
        pd.to_datetime(["1969-12-31 23:59:59.999999", "2020-02-29 00:00:00.000000", None]),  # type: ignore[arg-type]
        [DAY(1969, 12, 31), DAY(2020, 2, 29), None],
    ),
    "texts as dates": (
        "date",
        ["2020-02-29", "2021-02-29", "2020-2-9", "20200229", "2020-02-29 ", "0000-01-01", "10000-01-01", "infinity"],
        [DAY(2020, 2, 29), None, None, None, None, None, None, None],
    ),
    "timestamp": (
        "timestamp",
        pd.Series([MOMENT(2020, 2, 29, 1, 2, 3, 4), None], dtype="datetime64[us]"),
        [MOMENT(2020, 2, 29, 1, 2, 3, 4), None],
    ),
    "nanoseconds": (
        "timestamp",
        np.array(["2020-01-01T00:00:00.123456789", "1969-12-31T23:59:59.999999001"], dtype="datetime64[ns]"),
        [MOMENT(2020, 1, 1, 0, 0, 0, 123456), MOMENT(1969, 12, 31, 23, 59, 59, 999999)],
    ),
    "zoned nanoseconds": (
        "timestamp in UTC",
        pd.Series(np.array(["2020-01-01T00:30:00.123456789"], dtype="datetime64[ns]")).dt.tz_localize("Europe/Madrid"),
        [MOMENT(2019, 12, 31, 23, 30, 0, 123456)],
    ),
    "nanoseconds as dates": (
        "date",
        np.array(["1969-12-31T23:59:59.999999999", "1677-09-21T00:12:43.145225001"], dtype="datetime64[ns]"),
        [DAY(1969, 12, 31), DAY(1677, 9, 21)],
    ),
    "seconds": (
        "timestamp",
        np.array(["2020-01-01T00:00:01", "NaT", "0001-01-01T00:00:00"], dtype="datetime64[s]"),
        [MOMENT(2020, 1, 1, 0, 0, 1), None, MOMENT(1, 1, 1)],
    ),
    "years beyond the calendar": (
        "timestamp",
        np.array(["10000-01-01T00:00:00", "0000-12-31T00:00:00", "9999-12-31T23:59:59"], dtype="datetime64[s]"),
        [None, None, MOMENT(9999, 12, 31, 23, 59, 59)],
    ),
    "zoned timestamps": (
        "timestamp in UTC",
        pd.to_datetime(["2020-01-01 00:30:00+02:00", "2020-07-01 00:30:00+02:00", None], utc=False),  # type: ignore[arg-type]
        [MOMENT(2019, 12, 31, 22, 30), MOMENT(2020, 6, 30, 22, 30), None],
    ),
    "zoned timestamps as dates": (
        "date in UTC",
        pd.to_datetime(["2020-01-01 00:30:00", "2020-07-01 00:30:00"]).tz_localize("Europe/Madrid"),
        [DAY(2019, 12, 31), DAY(2020, 6, 30)],
    ),
    "dates as timestamps": ("timestamp", [DAY(2020, 2, 29), None], [MOMENT(2020, 2, 29), None]),
    "texts as timestamps": (
        "timestamp",
        ["2020-02-29", "2020-02-29 01:02", "2020-02-29T01:02:03.5", "2020-02-29 24:00:00", "2020-02-29T01:02Z", "x"],
        [MOMENT(2020, 2, 29), MOMENT(2020, 2, 29, 1, 2), MOMENT(2020, 2, 29, 1, 2, 3, 500000), None, None, None],
    ),
    # columns without a value
    "nothing but None": ("text", [None, None], [None, None]),
    "nothing but None as integers": ("int64", [None, None], [None, None]),
    "nothing but NaN": ("float64", [math.nan, math.nan], [None, None]),
    "no rows": ("int64", pd.Series([], dtype="int64"), []),
    "no rows of objects": ("timestamp", pd.Series([], dtype=object), []),
}


def column_of(engine: Engine, type: str, stored: Any) -> list[Any]:
    """Returns what a backend reads from one stored column."""
    name, _, zone = type.partition(" in ")
    declared = {"type": name} | ({"zone": zone} if zone else {})
    catalog = catalog_of({"t": {"public": True, "columns": {"x": declared}}})
    backend = engine(catalog, {"t": pd.DataFrame({"x": stored})})
    return [row[0] for row in rows_of(backend, scan(catalog, "t"))]


@pytest.mark.parametrize("case", STORED)
def test_stored_values_are_read_as_declared(engine: Engine, case: str) -> None:
    type, stored, expected = STORED[case]
    found = column_of(engine, type, stored)
    assert [(value.__class__, value) for value in found] == [(value.__class__, value) for value in expected]


def test_negative_zero_is_zero(engine: Engine) -> None:
    (found,) = column_of(engine, "float64", [-0.0])
    assert math.copysign(1, found) == 1


MIXED: dict[str, tuple[str, list[Any], Any]] = {
    "a text among integers": ("int64", [1, 2, None], "x"),
    "a fraction among integers": ("int64", [1, 2**53 + 1, LARGEST], 0.5),
    "a huge integer among integers": ("int64", [1, 2, 3], 2**80),
    "a boolean among integers": ("int64", [1, 2, 3], True),
    "a text among floats": ("float64", [1.5, 1e-7, 1e300, INF, None], "x"),
    "a text among booleans": ("boolean", [True, False, None], "x"),
    "an integer among booleans": ("boolean", [True, False, None], 7),
    "a text among 0 and 1": ("boolean", [0, 1], "x"),
    "an integer among texts": ("text", ["a", "1", None], 5),
    "a float among integers as texts": ("text", [1, 2], 2.5),
    "a float among texts": ("text", ["a", "b"], 2.5),
    "a list among texts": ("text", ["a", "b"], [1]),
    "bytes among texts": ("text", ["a", "b"], b"\xff"),
    "half a character among texts": ("text", ["a", "b"], "\ud800"),
    "a text among dates": ("date", [DAY(2020, 1, 1), None], "x"),
    "a timestamp among dates": ("date", [DAY(2020, 1, 1), None], MOMENT(2020, 1, 1, 5)),
    "a text among timestamps": ("timestamp", [MOMENT(2020, 1, 1, 5), None], "x"),
    "a zone among timestamps": ("timestamp", [MOMENT(2020, 1, 1, 5), None], MOMENT(2020, 1, 1, 5, tzinfo=UTC)),
    "a text among decimals": ("decimal(6,2)", [Decimal("1E+2"), Decimal("1.25")], "x"),
    "a wide decimal among decimals": ("decimal(6,2)", [Decimal("1.255"), Decimal("1.25")], Decimal("1E+60")),
}


@pytest.mark.parametrize("case", MIXED)
def test_a_misfit_changes_how_no_other_row_is_read(engine: Engine, case: str) -> None:
    """Otherwise one person's row would decide about all: the sensitivity would have no bound."""
    type, others, misfit = MIXED[case]
    alone = column_of(engine, type, pd.Series(others, dtype=object))
    mixed = pd.Series([*others, misfit], dtype=object)
    beside = column_of(engine, type, mixed)
    assert beside[:-1] == alone
    assert beside == column_of(ReferenceBackend, type, mixed), "columns of mixed types are read value by value"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (None, "t"),
        (pd.DataFrame({"y": [1]}), "t"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "t"),
    ],
    ids=["no source", "no column", "two columns of one name"],
)
def test_missing_data_is_the_owners_mistake(engine: Engine, frame: pd.DataFrame | None, message: str) -> None:
    catalog = catalog_of({"t": {"public": True, "columns": {"x": {"type": "int64"}}}})
    with pytest.raises(CatalogError, match=message):
        engine(catalog, {} if frame is None else {"t": frame})


def test_public_rows_are_read_as_declared_each_once(engine: Engine) -> None:
    catalog = catalog_of({"t": {"public": True, "columns": {"x": {"type": "float64"}, "s": {"type": "text"}}}})
    frame = pd.DataFrame({"x": [0.0, -0.0, math.nan, 1.5, 1.5, INF, None], "s": ["a", "A", "a ", None, "a", "", ""]})
    backend = engine(catalog, {"t": frame})
    assert set(backend.public_rows("t", ("x",))) == {(0.0,), (1.5,), (INF,), (None,)}
    assert set(backend.public_rows("t", ("s",))) == {("",), ("A",), ("a",), ("a ",), (None,)}
    rows = [(0.0, "A"), (0.0, "a"), (1.5, None), (1.5, "a"), (INF, ""), (None, ""), (None, "a ")]
    assert sorted(backend.public_rows("t", ("x", "s")), key=str) == sorted(rows, key=str)


def test_no_value_of_a_private_table_is_public(engine: Engine) -> None:
    catalog = catalog_of({"t": {"unit": "x", "max_rows": 8, "columns": {"x": {"type": "int64"}}}})
    backend = engine(catalog, {"t": pd.DataFrame({"x": [1]})})
    with pytest.raises(Exception):  # noqa: B017
        backend.public_rows("t", ("x",))
    with pytest.raises(Exception):  # noqa: B017
        backend.evaluate(scan(catalog, "t"), ())


def test_a_public_table_keeps_the_uniqueness_that_is_declared(engine: Engine) -> None:
    columns = {"a": {"type": "text"}, "b": {"type": "int64"}}
    catalog = catalog_of({"t": {"public": True, "unique": [["a", "b"]], "columns": columns}})
    engine(catalog, {"t": pd.DataFrame({"a": ["x", "x", "X", None, None], "b": [1, 2, 1, 1, 1]})})
    with pytest.raises(CatalogError, match="t"):
        engine(catalog, {"t": pd.DataFrame({"a": ["x", "y", "x"], "b": ["1", "1", "01"]})})


ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "+05:30", "-03:00"]
SET_FORWARD, SET_BACK = "2024-03-31", "2024-10-27"


def instants(unit: str = "us") -> pd.DatetimeIndex:
    """Returns every quarter of an hour around the days on which clocks of Berlin and Casablanca are set."""
    days = [pd.date_range(f"{day} 00:00", periods=120, freq="15min", tz="UTC") for day in (SET_FORWARD, SET_BACK)]
    more = [pd.date_range("2024-03-10 00:00", periods=200, freq="15min", tz="UTC")]
    return days[0].append([days[1], *more]).as_unit(unit)  # type: ignore[attr-defined, no-any-return]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("unit", ["us", "ns", "s"])
@pytest.mark.parametrize("zone", ZONES)
def test_instants_are_what_pandas_shows(engine: Engine, zone: str, unit: str) -> None:
    moments = instants(unit)
    tz = zone if zone[0] not in "+-" else datetime.datetime.fromisoformat(f"2000-01-01T00:00{zone}").tzinfo
    expected = moments.tz_convert(tz).tz_localize(None)
    assert column_of(engine, f"timestamp in {zone}", moments) == [*expected.to_pydatetime()]
    assert column_of(engine, f"date in {zone}", moments) == [*expected.date]


def test_moments_without_a_zone_are_on_the_declared_clock(engine: Engine) -> None:
    stored = pd.Series(pd.to_datetime(["2024-03-31 02:30:00", "2024-10-27 02:30:00"]))
    assert column_of(engine, "timestamp in Europe/Berlin", stored) == [moment.to_pydatetime() for moment in stored]
