"""Every operation has a name in SQL, a sentence that says when it is NULL, and a row in the reference."""

from __future__ import annotations

import inspect
from collections.abc import Callable

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


def test_sentences_say_what_comes_back_and_when_it_is_null() -> None:
    docs = {name: function.doc for name, function in FUNCTIONS.items()}
    assert [n for n, doc in docs.items() if not (doc[0].isupper() or doc.startswith("-1")) or doc[-1] != "."] == []
    assert [n for n, doc in docs.items() if "NULL" not in doc and n not in TOTAL] == []


def test_operations_can_be_written_and_the_reference_says_how() -> None:
    written = {name: f"`{function.sql.replace('|', chr(92) + '|')}`" for name, function in FUNCTIONS.items()}
    assert [name for name, text in written.items() if text not in REFERENCE] == []
    assert [name for name, function in FUNCTIONS.items() if function.doc not in REFERENCE] == []


def test_operations_are_pure_on_null() -> None:
    """No operation raises when every argument is NULL, whatever it then gives."""
    called = set()
    for name, function in FUNCTIONS.items():
        for count in range(1, 5):
            if _takes(function.meaning, count):
                function.meaning(*[None] * count)
                called.add(name)
    assert len(called) > 80
