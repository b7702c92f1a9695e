"""Plans as texts, by which stored releases are found again."""

from __future__ import annotations

from dpquery.plan.aggregates import AGGREGATES
from dpquery.reuse.text import text_of


def test_an_aggregate_function_is_its_name() -> None:
    """So that a stored answer is found after its documentation was written better."""
    texts = {text_of(function) for function in AGGREGATES.values()}
    assert len(texts) == len(AGGREGATES)
    assert not any(function.doc in text_of(function) for function in AGGREGATES.values())
