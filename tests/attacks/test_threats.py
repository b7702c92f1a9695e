"""The catalogue of threats agrees with the tests."""

from __future__ import annotations

from collections import Counter

from tests.attacks.threats import ID, PAGE, files_by_id, threats, written

TEXT = PAGE.read_text(encoding="utf-8")
ROWS = threats(TEXT)


def test_every_id_that_a_test_names_is_in_the_catalogue() -> None:
    assert set(files_by_id()) <= {row.id for row in ROWS}


def test_every_line_of_the_catalogue_is_read_once() -> None:
    assert Counter(row.id for row in ROWS) == Counter(line[2:8] for line in TEXT.splitlines() if ID.match(line[2:8]))
    assert len({row.id for row in ROWS}) == len(ROWS) > 170


def test_the_catalogue_names_the_tests_of_now() -> None:
    assert written(TEXT) == TEXT, "run `python -m tests.attacks.threats`, and read what changed"


def test_a_row_names_a_test_or_says_why_there_is_none() -> None:
    for row in ROWS:
        if row.id in files_by_id():
            assert row.tests.startswith("`"), row
        else:
            assert row.tests.startswith("none: ") and len(row.tests.split()) > 5, row
