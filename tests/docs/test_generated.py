"""The reference of SQL is what the code does now."""

from __future__ import annotations

from tests.docs.generate import PAGE, page


def test_the_reference_of_sql_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`, and read what changed"


def test_it_can_be_written_twice_with_the_same_words() -> None:
    assert page() == page()
