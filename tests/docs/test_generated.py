"""The reference of SQL is what the code does now."""

from __future__ import annotations

from tests.docs.generate import PAGE, page


def test_the_reference_of_sql_is_up_to_date_and_has_the_same_words_when_it_is_written_again() -> None:
    written = page()
    assert PAGE.read_text(encoding="utf-8") == written, "run `make docs`, and read what changed"
    assert page() == written
