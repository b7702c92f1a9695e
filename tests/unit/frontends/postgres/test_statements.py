"""SQL taken apart: where statements end, and which belong to the connection."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.frontends.postgres.commands import nodes
from dpquery.frontends.postgres.commands.commands import read
from dpquery.frontends.postgres.commands.gucs import MOST_SETTINGS, Settings, startup_settings
from dpquery.frontends.postgres.commands.portals import motion
from dpquery.frontends.postgres.commands.statements import split
from dpquery.frontends.postgres.wire.answers import Refusal

SPLIT = {
    "SELECT 1; SELECT 2": ["SELECT 1", "SELECT 2"],
    "SELECT ';'": ["SELECT ';'"],
    "SELECT 'it''s;'; x": ["SELECT 'it''s;'", "x"],
    "SELECT E'\\';'; x": ["SELECT E'\\';'", "x"],
    'SELECT ";" ;;': ['SELECT ";"'],
    "SELECT $$;$$, $a$;$$;$a$; x": ["SELECT $$;$$, $a$;$$;$a$", "x"],
    "-- ;\nSELECT 1 -- ;": ["SELECT 1"],
    "/* ; /* ; */ ; */ SELECT 1 /* ; */ ; x": ["SELECT 1", "x"],
    "": [],
    " ;\n; ": [],
}


@pytest.mark.parametrize("text", SPLIT)
def test_statements_end_at_semicolons_that_are_signs(text: str) -> None:
    assert [statement.text for statement in split(text)] == SPLIT[text]


@pytest.mark.parametrize("text", ["SELECT 'a", 'SELECT "a', "SELECT $$a", "SELECT $x$ $$", "/* /* */", "SELECT E'a\\'"])
def test_what_has_no_end_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        split(text)
    assert caught.value.sqlstate == "42601"


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_statements_or_refused(text: str) -> None:
    try:
        for statement in split(text):
            assert text[statement.start :].startswith(statement.text)
            read(statement)
    except Refusal as refusal:
        assert len(refusal.sqlstate) == 5


@pytest.mark.parametrize("piece", ["'", "''", "$$", "$a$", "/*", "*/", "E'\\", "((((", "--", ";a", "1e", '"', "\\"])
def test_no_text_takes_long(piece: str) -> None:
    begun = time.thread_time()
    with contextlib.suppress(Refusal):
        split(piece * 100_000)
    assert time.thread_time() - begun < 30


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("begin isolation level serializable, read only", nodes.Transaction, "BEGIN"),
        ("START TRANSACTION READ WRITE", nodes.Transaction, "BEGIN"),
        ("END", nodes.Transaction, "COMMIT"),
        ("ABORT WORK", nodes.Transaction, "ROLLBACK"),
        ("ROLLBACK TO a", nodes.Transaction, "ROLLBACK TO SAVEPOINT"),
        ("SET x TO 'a', 'b'", nodes.SetSetting, "x"),
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
            nodes.SetSetting,
            "default_transaction_isolation",
        ),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", nodes.Act, "SET"),
        ("LISTEN a", nodes.Act, "LISTEN"),
        ("UNLISTEN *", nodes.Act, "UNLISTEN"),
        ("NOTIFY a, 'b'", nodes.Act, "NOTIFY"),
        ("CLOSE ALL", nodes.Act, "CLOSE CURSOR ALL"),
        ("DEALLOCATE ALL", nodes.Act, "DEALLOCATE ALL"),
        ("DISCARD TEMPORARY", nodes.Act, "DISCARD TEMP"),
        ("SHOW ALL", nodes.Show, None),
        ("SHOW TIME ZONE", nodes.Show, "timezone"),
        ("EXPLAIN (FORMAT text) SELECT 1", nodes.Explain, ""),
        ("COPY t TO STDOUT", nodes.Copy, ""),
        ("SELECT 1", nodes.Ask, ""),
        ("INSERT INTO t VALUES (1)", nodes.Ask, ""),
        ("$1", nodes.Ask, ""),
    ],
)
def test_statements_are_told_apart(text: str, kind: type, said: str | None) -> None:
    command = read(split(text)[0])
    assert isinstance(command, kind)
    words = [getattr(command, name) for name in ("act", "tag", "name") if hasattr(command, name)]
    assert said == "" or words[:1] == [said]


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("BEGIN; -- fine", None),
        ("BEGIN nonsense", "42601"),
        ("START WORK", "42601"),
        ("COMMIT PREPARED 'x'", "42601"),
        ("PREPARE TRANSACTION 'x'", "0A000"),
        ("COPY t FROM STDIN", "42501"),
        ("COPY (SELECT 1) TO '/etc/passwd'", "42501"),
        ("COPY (SELECT 1) TO PROGRAM 'sh'", "42501"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT xml)", "22023"),
        ("COPY (SELECT 1) TO STDOUT (DELIMITER 'ab')", "22023"),
        ("EXPLAIN (ANALYZE) SELECT 1", "42501"),
        ("EXPLAIN", "42601"),
        ("FETCH 99999999999999999999 FROM c", "42601"),
        ("SAVEPOINT", "42601"),
        ("SET", "42601"),
        ("DECLARE c CURSOR FOR", "42601"),
    ],
)
def test_what_goes_on_in_another_way_is_refused(text: str, sqlstate: str | None) -> None:
    statement = split(text)[0]
    if sqlstate is None:
        read(statement)
        return
    with pytest.raises(Refusal) as caught:
        read(statement)
    assert caught.value.sqlstate == sqlstate


def test_statements_within_keep_their_places() -> None:
    text = "SELECT 1; COPY ( SELECT nope ) TO STDOUT"
    command = read(split(text)[1])
    assert isinstance(command, nodes.Copy)
    assert text[command.statement.start :].startswith("SELECT nope )")
    assert command.statement.text == "SELECT nope"


@pytest.mark.parametrize(
    ("place", "direction", "count", "first", "passed", "after"),
    [
        (0, "forward", 1, 1, 1, 1),
        (0, "forward", 9, 1, 5, 6),
        (5, "forward", 1, 6, 0, 6),
        (6, "backward", 2, 5, 2, 4),
        (3, "backward", None, 2, 2, 0),
        (3, "forward", 0, 3, 1, 3),
        (0, "forward", 0, 0, 0, 0),
        (2, "absolute", -1, 5, 1, 5),
        (2, "absolute", 9, 6, 0, 6),
        (2, "relative", -1, 1, 1, 1),
        (2, "relative", -5, 0, 0, 0),
        (3, "forward", -1, 2, 1, 2),
        (0, "backward", 1, -1, 0, 0),
        (6, "forward", None, 7, 0, 6),
    ],
)
def test_cursors_move_as_postgresqls_do(
    place: int, direction: str, count: int | None, first: int, passed: int, after: int
) -> None:
    moved = motion(place, 5, direction, count)
    assert (moved.count, moved.place) == (passed, after)
    assert not passed or moved.first == first


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["forward", "backward", "absolute", "relative"]), st.integers(-8, 8) | st.none())
    )
)
def test_cursors_stay_within_their_rows(moves: list[tuple[str, int | None]]) -> None:
    place = 0
    for direction, count in moves:
        if count is None and direction in ("absolute", "relative"):
            continue
        moved = motion(place, 3, direction, count)
        place = moved.place
        assert 0 <= place <= 4
        last = moved.first + moved.step * (moved.count - 1)
        assert not moved.count or (1 <= moved.first <= 3 and 1 <= last <= 3)


def test_startup_parameters_are_those_of_a_list() -> None:
    given_options = {"user": "a", "options": "-c search_path=dp --timezone=UTC -cdpquery.epsilon=1\\ ", "_pq_.x": "1"}
    assert startup_settings(given_options) == {"search_path": "dp", "timezone": "UTC", "dpquery.epsilon": "1 "}
    for options in ("-c role=bob", "-c is_superuser=on", "-c a", "-x", "-c dpquery.noise=off"):
        with pytest.raises(Refusal):
            startup_settings({"user": "a", "options": options})
    with pytest.raises(Refusal):
        startup_settings({"user": "a", "replication": "true"})


@pytest.mark.parametrize(
    ("name", "value", "sqlstate"),
    [
        ("client_encoding", "LATIN1", "22023"),
        ("client_encoding", "SQL_ASCII", "22023"),
        ("standard_conforming_strings", "off", "22023"),
        ("datestyle", "German", "22023"),
        ("server_version", "9", "55P02"),
        ("session_authorization", "bob", "55P02"),
        ("is_superuser", "on", "55P02"),
        ("dpquery.epsilon", "0", "22023"),
        ("dpquery.epsilon", "nan", "22023"),
        ("dpquery.epsilon", "3", "42501"),
        ("dpquery.epsilon", "2.0000001", "42501"),
        ("dpquery.max_groups", "0", "22023"),
        ("dpquery.noise", "off", "42704"),
        ("statement_timeout", "soon", "22023"),
        ("x" * 64, "1", "42704"),
        ("x", "y" * 1001, "22023"),
    ],
)
def test_settings_that_are_refused(name: str, value: str, sqlstate: str) -> None:
    made = Settings({"dpquery.epsilon": "2"})
    before = dict(made.values)
    with pytest.raises(Refusal) as caught:
        made.set(name, value)
    assert caught.value.sqlstate == sqlstate
    assert made.values == before


def test_settings_are_not_without_number() -> None:
    made = Settings({})
    for i in range(MOST_SETTINGS - len(made.values)):
        made.set(f"x{i}", "1")
    with pytest.raises(Refusal, match="54000"):
        made.set("one_more", "1")
