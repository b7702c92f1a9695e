"""Values: what comes is read strictly, what goes is what PostgreSQL would write."""

from __future__ import annotations

import datetime
import struct
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import Field, Refusal
from dpquery.frontends.postgres.wire.codecs import decode, encode_binary, encode_text, numeric_binary
from dpquery.frontends.postgres.wire.columns import binary_cells, stored, text_cells
from dpquery.frontends.postgres.wire.rows import FEW_CELLS, CopyForm, copy_rows, data_rows

DECIMALS = st.decimals(min_value=-(10**15), max_value=10**15, places=6)
SAMPLES: dict[int, st.SearchStrategy[object]] = {
    oids.BOOL: st.booleans(),
    oids.INT2: st.integers(-(2**15), 2**15 - 1),
    oids.INT4: st.integers(-(2**31), 2**31 - 1),
    oids.INT8: st.integers(-(2**63), 2**63 - 1),
    oids.OID: st.integers(0, 2**32 - 1),
    oids.FLOAT8: st.floats(allow_nan=False),
    oids.NUMERIC: DECIMALS,
    oids.TEXT: st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    oids.DATE: st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
    oids.TIME: st.times(),
    oids.TIMESTAMP: st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)),
    oids.UUID: st.uuids(),
    oids.BYTEA: st.binary(),
}


@pytest.mark.parametrize("oid", SAMPLES)
@settings(deadline=None)
@given(st.data())
def test_what_is_written_is_read_again(oid: int, data: st.DataObject) -> None:
    value = data.draw(SAMPLES[oid])
    assert decode(encode_text(value, oid), oid, False) == value
    assert decode(encode_binary(value, oid), oid, True) == value
    values = [value, None, value]
    array = next(array for array, element in oids.ELEMENTS.items() if element == oid)
    assert decode(encode_text(values, array), array, False) == values
    assert decode(encode_binary(values, array), array, True) == values


@settings(deadline=None)
@given(st.sampled_from([*SAMPLES, *oids.ELEMENTS, oids.TIMESTAMPTZ, 0, 99]), st.binary(max_size=40), st.booleans())
def test_any_bytes_are_a_value_or_refused(oid: int, data: bytes, is_binary: bool) -> None:
    try:
        decode(data, oid, is_binary)
    except Refusal as refusal:
        assert refusal.sqlstate in ("22P02", "22P03", "22003")
        assert refusal.message.isascii()


@pytest.mark.parametrize(
    ("text", "oid", "value"),
    [
        ("t", oids.BOOL, True),
        (" OFF ", oids.BOOL, False),
        ("2020-02-29 10:00:00+02", oids.TIMESTAMPTZ, datetime.datetime(2020, 2, 29, 8, tzinfo=datetime.UTC)),
        ("2020-02-29 10:00:00+02", oids.TIMESTAMP, datetime.datetime(2020, 2, 29, 10)),
        ("2020-02-29T10:00:00Z", oids.TIMESTAMPTZ, datetime.datetime(2020, 2, 29, 10, tzinfo=datetime.UTC)),
        ("2020-02-29 10:00:00", oids.DATE, datetime.date(2020, 2, 29)),
        ("2020-02-29 +00", oids.DATE, datetime.date(2020, 2, 29)),
        ("2020-02-29 -05:30", oids.DATE, datetime.date(2020, 2, 29)),
        ("2020-02-29", oids.DATE, datetime.date(2020, 2, 29)),
        ('{a,"b,\\"c",NULL,"NULL"}', 1009, ["a", 'b,"c', None, "NULL"]),
        ("-Infinity", oids.FLOAT8, float("-inf")),
        ("1e3", oids.NUMERIC, Decimal("1e3")),
    ],
)
def test_texts_as_drivers_send_them(text: str, oid: int, value: object) -> None:
    assert decode(text.encode(), oid, False) == value


@pytest.mark.parametrize(
    ("text", "oid"),
    [
        *(("1_000", oids.INT4), ("١", oids.INT4), ("1.5", oids.INT4), ("nan()", oids.FLOAT8), ("0x10", oids.INT8)),
        *(("1e99999", oids.NUMERIC), ("9" * 2000, oids.NUMERIC), ("2020-13-01", oids.DATE), ("{a", 1009)),
        *(("{{1},{2}}", 1007), ("maybe", oids.BOOL), ("a\0b", oids.TEXT), ("zz", oids.UUID), ("abc", oids.BYTEA)),
    ],
)
def test_other_texts_are_refused(text: str, oid: int) -> None:
    with pytest.raises(Refusal) as caught:
        decode(text.encode(), oid, False)
    assert caught.value.sqlstate == "22P02"


def _column(oid: int, values: list[object], type: pa.DataType) -> pa.Array:
    table = stored(pa.table({"c": pa.array(values, type)}), (Field(name="c", oid=oid),))
    return table.column(0).combine_chunks()


ARROW = {
    oids.BOOL: pa.bool_(),
    oids.INT2: pa.int16(),
    oids.INT4: pa.int32(),
    oids.INT8: pa.int64(),
    oids.OID: pa.uint32(),
    oids.FLOAT8: pa.float64(),
    oids.TEXT: pa.string(),
    oids.DATE: pa.date32(),
    oids.TIME: pa.time64("us"),
    oids.TIMESTAMP: pa.timestamp("us"),
    oids.BYTEA: pa.binary(),
}


@pytest.mark.parametrize("oid", ARROW)
@settings(deadline=None)
@given(st.data())
def test_whole_columns_are_written_as_single_values_are(oid: int, data: st.DataObject) -> None:
    values = [None, *(data.draw(SAMPLES[oid]) for _ in range(3)), None]
    column = _column(oid, values, ARROW[oid])
    for start in (0, 2):
        cut, expected = column.slice(start), values[start:]
        binary = binary_cells(cut, oid).to_pylist()
        assert binary == [None if v is None else encode_binary(v, oid) for v in expected]
        texts = [None if t is None else decode(t, oid, False) for t in text_cells(cut, oid).to_pylist()]
        assert texts == expected


@pytest.mark.parametrize("oid", ARROW)
@pytest.mark.parametrize("code", [0, 1])
@settings(deadline=None, max_examples=25)
@given(st.data())
def test_few_rows_are_written_as_many_are(oid: int, code: int, data: st.DataObject) -> None:
    values = [None, *(data.draw(SAMPLES[oid]) for _ in range(3)), None]
    fields = (Field(name="a", oid=oid), Field(name="b", oid=oids.TEXT))
    short = stored(pa.table({"a": pa.array(values, ARROW[oid]), "b": ["é", None, "", "c", "d"]}), fields)
    many = pa.concat_tables([short] * FEW_CELLS).combine_chunks()
    written = b"".join(data_rows(short, fields, (code, 0)))
    assert written * FEW_CELLS == b"".join(data_rows(many, fields, (code, 0)))
    assert written == b"".join(data_rows(pa.concat_tables([short.slice(0, 2), short.slice(2)]), fields, (code, 0)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -0.0, 1e300, 5e-324, 123456789.0])
def test_floats_are_written_alike_however_many_there_are(value: float) -> None:
    fields = (Field(name="a", oid=oids.FLOAT8),)
    short = pa.table({"0": [value, None, 1.5]})
    many = pa.concat_tables([short] * FEW_CELLS).combine_chunks()
    assert b"".join(data_rows(short, fields, (0,))) * FEW_CELLS == b"".join(data_rows(many, fields, (0,)))


@settings(deadline=None)
@given(st.integers(0, 12), st.lists(st.none() | st.integers(-(10**20), 10**20), min_size=1, max_size=6))
def test_columns_of_decimals_are_written_as_single_ones_are(scale: int, units: list[int | None]) -> None:
    values = [None if unit is None else Decimal(unit).scaleb(-scale) for unit in units]
    column = pa.array(values, pa.decimal128(38, scale))
    expected = [None if v is None else numeric_binary(v.quantize(Decimal(1).scaleb(-scale))) for v in values]
    assert binary_cells(column, oids.NUMERIC).to_pylist() == expected
    texts = [None if t is None else Decimal(t.decode()) for t in text_cells(column, oids.NUMERIC).to_pylist()]
    assert texts == values
    assert all(t is None or b"E" not in t for t in text_cells(column, oids.NUMERIC).to_pylist())


def test_floats_that_are_no_numbers_are_spelled_as_postgresql_does() -> None:
    column = pa.array([float("nan"), float("inf"), float("-inf"), -0.0, 1.0, 0.1])
    assert text_cells(column, oids.FLOAT8).to_pylist() == [b"NaN", b"Infinity", b"-Infinity", b"-0", b"1", b"0.1"]


def test_times_are_written_without_idle_digits() -> None:
    moments = pa.array([datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 0, 0, 10, 120_000)])
    assert text_cells(moments.cast(pa.timestamp("us")), oids.TIMESTAMPTZ).to_pylist() == [
        b"2020-01-01 00:00:00+00",
        b"2020-01-01 00:00:10.12+00",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime.timedelta(days=-1, hours=2), "-1 days 02:00:00"),
        ((14, 3, 4_500_000_000), "1 year 2 mons 3 days 00:00:04.5"),
        ((0, 0, -1_000), "-00:00:00.000001"),
        ((0, 0, 0), "00:00:00"),
    ],
)
def test_intervals(value: object, text: str) -> None:
    assert encode_text(value, oids.INTERVAL).decode() == text
    assert decode(encode_binary(value, oids.INTERVAL), oids.INTERVAL, True) == text


def test_what_does_not_match_its_announced_type_is_refused_without_its_value() -> None:
    for column, oid in (
        (pa.array(["canary"]), oids.INT4),
        (pa.array([2**40]), oids.INT4),
        (pa.array([1.5]), oids.INT8),
    ):
        with pytest.raises(Refusal) as caught:
            stored(pa.table({"c": column}), (Field(name="c", oid=oid),))
        assert "canary" not in str(caught.value) and str(2**40) not in str(caught.value)
    with pytest.raises(Refusal):
        stored(pa.table({"c": [1]}), ())


def test_rows_are_messages_one_after_the_other() -> None:
    fields = (Field(name="a", oid=oids.INT4), Field(name="b", oid=oids.TEXT))
    table = stored(pa.table({"a": pa.array([1, None], pa.int32()), "b": ["x", "yz"]}), fields)
    assert b"".join(data_rows(table, fields, (1, 0))) == (
        b"D\0\0\0\x13\0\2\0\0\0\4\0\0\0\1\0\0\0\1x" + b"D\0\0\0\x10\0\2\xff\xff\xff\xff\0\0\0\2yz"
    )


@settings(deadline=None)
@given(st.integers(1, 20_000))
def test_no_row_is_lost_between_parts(rows: int) -> None:
    fields = (Field(name="a", oid=oids.INT8),)
    table = pa.table({"0": np.arange(rows)})
    sent = b"".join(data_rows(table, fields, (1,)))
    assert len(sent) == rows * 19
    assert sent[-8:] == struct.pack(">q", rows - 1)


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        (CopyForm(), b"a\\\\b\t1\n\\N\t2\n\\n\t3\n"),
        (CopyForm(kind="csv", delimiter=",", null=""), b'a\\b,1\n,2\n"\n",3\n'),
        (
            CopyForm(kind="csv", delimiter="b", null="", header=True),
            b'tb"number"b\n'[:0] + b'tbn\n"a\\b"b1\nb2\n"\n"b3\n',
        ),
        (CopyForm(kind="csv", delimiter=",", null="", force_quote=True), b'"a\\b","1"\n,"2"\n"\n","3"\n'),
    ],
)
def test_lines_of_copy(form: CopyForm, lines: bytes) -> None:
    fields = (Field(name="t", oid=oids.TEXT), Field(name="n", oid=oids.INT8))
    table = pa.table({"0": pa.array(["a\\b", None, "\n"]), "1": [1, 2, 3]})
    sent = b"".join(copy_rows(table, fields, form))
    found, place = b"", 0
    while place < len(sent):
        (length,) = struct.unpack(">I", sent[place + 1 : place + 5])
        found += sent[place + 5 : place + 1 + length]
        place += 1 + length
    assert found == lines


def test_an_empty_csv_field_is_not_null() -> None:
    table = pa.table({"0": pa.array(["", None])})
    sent = b"".join(copy_rows(table, (Field(name="t", oid=oids.TEXT),), CopyForm(kind="csv", delimiter=",", null="")))
    assert sent == b'd\0\0\0\x07""\n' + b"d\0\0\0\5\n"


def test_uuids_come_as_text_or_as_bytes() -> None:
    value = uuid.uuid4()
    assert encode_binary(str(value), oids.UUID) == value.bytes
