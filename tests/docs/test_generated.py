"""The reference of SQL is what the code does now."""

from __future__ import annotations

import pytest

from tests.docs.generate import PAGE, page


def test_the_reference_of_sql_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`, and read what changed"


@pytest.mark.slow
def test_the_reference_of_sql_has_the_same_words_when_it_is_written_again() -> None:
    assert page() == page()
