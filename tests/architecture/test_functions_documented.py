"""Every operation has a name in SQL, a sentence that says when it is NULL, and a row in the reference."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from dpquery.plan.functions import FUNCTIONS
from tests.architecture.package import ROOT

REFERENCE = (ROOT / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")

TOTAL = {"atan2", "date_trunc", "radians", "degrees"}
"""Their sentences leave NULL to the rule that NULL in gives NULL out; the list may only shrink."""


def _takes(meaning: Callable[..., object], count: int) -> bool:
    try:
        inspect.signature(meaning).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_sentence_says_what_it_gives_and_when_it_is_null(name: str) -> None:
    doc = FUNCTIONS[name].doc
    assert doc[0].isupper() or doc.startswith("-1")
    assert doc.endswith(".")
    assert "NULL" in doc or name in TOTAL or doc == "The opposite; NULL if it is."


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_can_be_written_and_the_reference_says_how(name: str) -> None:
    written = FUNCTIONS[name].sql
    assert f"`{written.replace('|', chr(92) + '|')}`" in REFERENCE
    assert FUNCTIONS[name].doc in REFERENCE


def test_operations_are_pure_on_null() -> None:
    """No operation raises when every argument is NULL, whatever it then gives."""
    called = set()
    for name, function in FUNCTIONS.items():
        for count in range(1, 5):
            if _takes(function.meaning, count):
                function.meaning(*[None] * count)
                called.add(name)
    assert len(called) > 80
