"""Public keys are handed to the engine as tables of their own, which come and go as questions differ."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from dpquery.backends.duckdb.engine import MOST_DOMAINS, STORED_FROM, Domain, DuckDBEngine
from dpquery.plan.types import DATE

FIRST = date(2020, 1, 1)


@pytest.mark.parametrize("rows", [1, STORED_FROM])
def test_more_domains_than_a_thread_keeps_and_the_first_again(rows: int) -> None:
    engine = DuckDBEngine({}, keep_order=False)
    domains = [
        Domain(f"domain{i}", (DATE,), tuple((FIRST + timedelta(i + day),) for day in range(rows)))
        for i in range(MOST_DOMAINS + 8)
    ]
    for domain in (*domains, *domains):
        engine.provide([domain])
        assert engine.cursor().execute(f"SELECT value0 FROM {domain.name}").fetchall() == list(domain.rows)
    engine.close()
