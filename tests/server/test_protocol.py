"""The protocol byte by byte: which messages come, in which order, with which status."""

from __future__ import annotations

import json
import struct

import pytest

from tests.server.raw import (
    SYNC,
    Client,
    bind,
    cells,
    describe,
    errors,
    execute,
    kinds,
    message,
    parse,
    query,
    rows,
)
from tests.server.running import Running

ORDERS = "SELECT region, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1"


def charges(client: Client) -> int:
    return int(client.rows("SELECT charges")[0][0] or "0")


def test_a_query_gives_a_description_rows_a_tag_and_the_status(client: Client) -> None:
    client.send(query("SELECT 1 AS one, NULL AS nothing, 'a' AS letter"))
    found = client.ready()
    assert kinds(found) == "TDCZ"
    assert cells(found[1][1]) == [b"1", None, b"a"]
    assert found[2][1] == b"SELECT 1\0"
    assert found[3][1] == b"I"
    assert found[0][1].startswith(b"\0\3one\0" + struct.pack(">IhIhih", 0, 0, 23, 4, -1, 0))


def test_an_empty_query_has_an_answer_of_its_own(client: Client) -> None:
    for text in ("", " ; ;", "-- nothing\n", "/* ; */"):
        client.send(query(text))
        assert kinds(client.ready()) == "IZ"
    client.send(parse("") + bind() + describe("P") + execute() + SYNC)
    assert kinds(client.ready()) == "12nIZ"


def test_several_statements_are_answered_and_charged_each_by_itself(client: Client) -> None:
    before = charges(client)
    client.send(query(f"{ORDERS}; SELECT ';' AS sign; {ORDERS}"))
    found = client.ready()
    assert kinds(found).replace("D", "") == "NTCTCNTCZ"
    assert charges(client) == before + 2


def test_after_a_refused_statement_the_rest_is_not_run(client: Client) -> None:
    before = charges(client)
    client.send(query(f"SELECT 1; DROP TABLE orders; {ORDERS}"))
    found = client.ready()
    assert kinds(found) == "TDCEZ"
    refused = errors(found[3][1])
    assert refused["C"] == "42501"
    assert refused["P"] == "11"  # in the whole query, counted from 1
    assert charges(client) == before


def test_describing_charges_nothing_and_a_portal_is_charged_once(client: Client) -> None:
    before = charges(client)
    client.send(parse(ORDERS, "s") + describe("S", "s") + SYNC)
    assert kinds(client.ready()) == "1tTZ"
    client.send(query("BEGIN"))
    client.ready()
    client.send(bind("p", "s") + describe("P", "p") + SYNC)
    assert kinds(client.ready()) == "2TZ"
    assert charges(client) == before
    got = []
    for expected in ("DDs", "DDs", "C"):
        client.send(execute("p", 2) + SYNC)
        found = [one for one in client.ready() if one[0] != "N"]
        assert kinds(found) == expected + "Z"
        got += rows(found)
    assert [row[0] for row in got] == ["east", "north", "south", "west"]
    client.send(execute("p", 0) + SYNC)
    again = client.ready()
    assert kinds(again) == "CZ"
    assert again[0][1] == b"SELECT 0\0"
    assert charges(client) == before + 1
    client.send(query("COMMIT"))
    client.ready()


def test_a_portal_that_failed_is_not_run_again(client: Client) -> None:
    client.send(query("BEGIN") + parse("leak") + bind("p") + execute("p") + SYNC + execute("p") + SYNC)
    client.ready()
    assert kinds(client.ready()) == "12EZ"
    refused = client.ready()
    assert errors(refused[0][1])["C"] == "25P02"
    client.send(query("ROLLBACK"))
    client.ready()


def test_after_an_error_messages_are_skipped_until_sync(client: Client) -> None:
    client.send(parse("SELECT 1; SELECT 2") + bind() + execute() + SYNC + query("SELECT 3"))
    found = client.ready()
    assert kinds(found) == "EZ"
    assert errors(found[0][1])["C"] == "42601"
    assert rows(client.ready()) == [["3"]]


def test_a_failed_transaction_takes_nothing_but_its_end(client: Client) -> None:
    client.send(query("BEGIN"))
    assert client.ready()[-1][1] == b"T"
    assert client.error(query("DROP TABLE orders"))["C"] == "42501"
    refused = client.error(query("SELECT 1"))
    assert refused["C"] == "25P02"
    assert client.error(parse("SELECT 1") + SYNC)["C"] == "25P02"
    client.send(query("COMMIT"))
    assert client.ready() == [("C", b"ROLLBACK\0"), ("Z", b"I")]


def test_savepoints_bring_a_failed_transaction_back(client: Client) -> None:
    client.send(query("BEGIN; SAVEPOINT a; SELECT 1; RELEASE a; SAVEPOINT b"))
    assert client.ready()[-1][1] == b"T"
    client.error(query("nonsense"))
    client.send(query("ROLLBACK TO SAVEPOINT b"))
    assert client.ready()[-1][1] == b"T"
    assert client.error(query("RELEASE nope"))["C"] == "3B001"
    client.send(query("ROLLBACK"))
    assert client.ready()[-1][1] == b"I"


def test_parameters_are_decoded_by_their_types_in_both_formats(client: Client) -> None:
    client.send(parse("SELECT $1::int + 1 AS a, $2::text AS b") + bind("", "", (b"41", b"x")) + execute() + SYNC)
    assert rows(client.ready()) == [["42", "x"]]
    values = (struct.pack(">i", -5), None)
    client.send(parse("SELECT $1::int AS a, $2::text AS b") + bind("", "", values, (1, 0), (1, 1)) + execute() + SYNC)
    assert cells(client.ready()[2][1]) == [struct.pack(">i", -5), None]


@pytest.mark.parametrize(
    ("values", "formats", "sqlstate"),
    [((b"x",), (), "22P02"), ((b"\0\0\1",), (1,), "22P03"), ((b"99999999999",), (), "22003"), ((), (), "08P01")],
)
def test_parameters_that_are_none_are_refused(
    client: Client, values: tuple[bytes, ...], formats: tuple[int, ...], sqlstate: str
) -> None:
    refused = client.error(parse("SELECT $1::int") + bind("", "", values, formats) + execute() + SYNC)
    assert refused["C"] == sqlstate
    assert "999" not in refused["M"]


def test_names_of_statements_and_portals(client: Client) -> None:
    assert client.error(bind("", "nope") + SYNC)["C"] == "26000"
    assert client.error(execute("nope") + SYNC)["C"] == "34000"
    assert client.error(describe("S", "nope") + SYNC)["C"] == "26000"
    assert client.error(parse("SELECT 1", "one") + parse("SELECT 2", "one") + SYNC)["C"] == "42P05"
    client.send(message(b"C", b"Sone\0") + message(b"C", b"Pnever\0") + SYNC)
    assert kinds(client.ready()) == "33Z"


def test_cursors_and_portals_share_their_names(client: Client) -> None:
    before = charges(client)
    client.send(query(f"BEGIN; DECLARE c SCROLL CURSOR FOR {ORDERS}"))
    client.ready()
    client.send(describe("P", "c") + execute("c", 1) + SYNC)
    found = client.ready()
    assert kinds(found) == "TDsZ"
    assert client.rows("FETCH 2 FROM c") == [["north", "5000"], ["south", "5000"]]
    assert client.rows("FETCH BACKWARD ALL FROM c") == [["north", "5000"], ["east", "5000"]]
    assert client.rows("FETCH ABSOLUTE -1 FROM c") == [["west", "5000"]]
    client.send(query("MOVE ABSOLUTE 0 FROM c; FETCH c"))
    moved = client.ready()
    assert moved[0] == ("C", b"MOVE 0\0")
    assert rows(moved) == [["east", "5000"]]
    assert charges(client) == before + 1
    client.send(query("COMMIT"))
    client.ready()
    assert client.error(query("FETCH c"))["C"] == "34000"


def test_a_cursor_with_hold_outlives_its_transaction_and_one_that_was_rolled_back_does_not(client: Client) -> None:
    client.send(query("BEGIN; DECLARE kept CURSOR WITH HOLD FOR SELECT 7 AS n; COMMIT; FETCH kept; CLOSE kept"))
    assert rows(client.ready()) == [["7"]]
    client.send(query("BEGIN; DECLARE lost CURSOR WITH HOLD FOR SELECT 7 AS n; ROLLBACK"))
    client.ready()
    assert client.error(query("FETCH lost"))["C"] == "34000"
    assert client.error(query("DECLARE c CURSOR FOR SELECT 1"))["C"] == "25P01"


def test_what_psqlodbc_sends_at_once(client: Client) -> None:
    client.send(query('BEGIN;declare "SQL_CUR0x1" cursor with hold for SELECT 1 AS a;fetch 2048 in "SQL_CUR0x1"'))
    found = client.ready()
    assert kinds(found) == "CCTDCZ"
    assert [body for kind, body in found if kind == "C"] == [b"BEGIN\0", b"DECLARE CURSOR\0", b"FETCH 1\0"]
    client.send(query('close "SQL_CUR0x1";COMMIT'))
    assert client.ready()[-1][1] == b"I"


def test_statements_prepared_by_sql(client: Client) -> None:
    client.send(query("PREPARE q(int, text) AS SELECT $1::int + 1 AS a, $2::text AS b; EXECUTE q(1, 'it''s')"))
    assert rows(client.ready()) == [["2", "it's"]]
    assert client.error(query("EXECUTE q(1)"))["C"] == "42601"
    assert client.error(query("EXECUTE q(1 + 1, 'a')"))["C"] == "42601"
    client.send(query("DEALLOCATE q"))
    client.ready()
    assert client.error(query("EXECUTE q(1, 'a')"))["C"] == "26000"


def test_copy_in_its_three_forms(client: Client) -> None:
    rows_of = "SELECT 1 AS a, 'x' || chr(9) || 'y' AS b UNION ALL SELECT 2, NULL ORDER BY 1"
    client.send(query(f"COPY ({rows_of}) TO STDOUT"))
    found = client.ready()
    assert kinds(found) == "HddcCZ"
    assert [body for kind, body in found if kind == "d"] == [b"1\tx\\ty\n", b"2\t\\N\n"]
    assert found[-2][1] == b"COPY 2\0"
    client.send(query(f"COPY ({rows_of}) TO STDOUT WITH (FORMAT csv, HEADER)"))
    assert [body for kind, body in client.ready() if kind == "d"] == [b"a,b\n1,x\ty\n", b"2,\n"]
    client.send(query(f"COPY ({rows_of}) TO STDOUT (FORMAT binary)"))
    parts = [body for kind, body in client.ready() if kind == "d"]
    assert parts[0].startswith(b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\2\0\0\0\4\0\0\0\1")
    assert parts[-1] == b"\xff\xff"


def test_settings_are_set_shown_reported_and_rolled_back(client: Client) -> None:
    client.send(query("SET TIME ZONE 'Europe/Berlin'"))
    assert ("S", b"TimeZone\0Europe/Berlin\0") in client.ready()
    client.send(query("BEGIN; SET timezone = 'UTC'; ROLLBACK"))
    assert ("S", b"TimeZone\0Europe/Berlin\0") in client.ready()
    client.send(query("BEGIN; SET LOCAL search_path = dp; COMMIT"))
    client.ready()
    assert client.rows("SHOW search_path") == [['"$user", public']]
    assert client.rows("SHOW transaction isolation level") == [["read committed"]]
    assert client.rows("SHOW dpquery.remaining") == [["epsilon 0.75"]]
    client.send(query("SET dpquery.epsilon = '0.5'; whoami"))
    assert rows(client.ready()) == [["alice", "0.5"]]
    client.send(query("DISCARD ALL"))
    client.ready()
    assert client.rows("SHOW timezone") == [["UTC"]]
    assert client.rows("whoami") == [["alice", ""]]


def test_explain_is_free(client: Client) -> None:
    before = charges(client)
    assert client.rows(f"EXPLAIN {ORDERS}")[0] == ["price: epsilon 0.1"]
    assert client.error(query(f"EXPLAIN ANALYZE {ORDERS}"))["C"] == "42501"
    ((told,),) = client.rows(f"EXPLAIN (FORMAT JSON, COSTS false, ANALYZE false) {ORDERS}")
    below = [{"Node Type": "error95: 12"}]
    assert told is not None and json.loads(told) == [{"Plan": {"Node Type": "price: epsilon 0.1", "Plans": below}}]
    assert client.error(query(f"EXPLAIN (FORMAT XML) {ORDERS}"))["C"] == "0A000"
    assert charges(client) == before


@pytest.mark.parametrize(("minor", "length"), [(0, 4), (2, 32)])
def test_the_key_to_cancel_is_as_long_as_the_protocol_allows(server: Running, minor: int, length: int) -> None:
    with Client(server.host, server.port) as client:
        client.log_in(minor=minor)
        assert len(client.key) == length


def test_a_newer_protocol_is_negotiated(server: Running) -> None:
    with Client(server.host, server.port) as client:
        client.send(b"")
        client.log_in(minor=99, **{"_pq_.future": "1"})
        assert client.rows("SELECT 1") == [["1"]]


def test_drivers_are_told_what_they_look_for(client: Client) -> None:
    told = client.settings
    assert told["server_version"] == "15.0"
    assert told["client_encoding"] == told["server_encoding"] == "UTF8"
    assert told["DateStyle"] == "ISO, MDY"
    assert told["integer_datetimes"] == told["standard_conforming_strings"] == "on"
    assert told["session_authorization"] == "alice"
