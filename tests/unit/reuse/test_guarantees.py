"""What an answer says that it satisfies counts each release whose numbers it shows, whatever else happens meanwhile."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.reuse.query_split import Reuse
from dpquery.reuse.vector_estimates import Vectors
from tests.unit.reuse.shop import Shop, allow_work, catalog

BY_REGION = "SELECT region, COUNT(*) AS n FROM sales GROUP BY region"
BY_KIND = "SELECT kind, COUNT(*) AS n FROM sales GROUP BY kind"
FREE, ONE = dp.PrivacyLoss(), dp.PrivacyLoss(epsilon=Fraction(1))


def test_numbers_of_another_catalog_count(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with shop.session(apart=True) as session:
        first = session.sql(BY_REGION, epsilon=1)
    shop.catalog = catalog(high=101)
    with shop.session(apart=True) as session:
        again = session.sql(BY_REGION, epsilon=1)
        assert session.explain(BY_REGION, epsilon=1).guarantee == again.guarantee == first.guarantee == ONE
        assert again.charge == FREE and again.to_arrow() == first.to_arrow() and again.releases == (1,)


def test_numbers_count_that_are_shown_as_before_because_too_much_is_known_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    with shop.session() as session:
        first = session.sql(BY_REGION, epsilon=4)
    allow_work(monkeypatch, 1)
    with shop.session() as session:
        batch = session.batch([BY_REGION, BY_KIND], epsilon=1)
        assert batch[0].to_arrow() == first.to_arrow() and batch.charge.epsilon == Fraction(1, 2)
        assert batch.guarantee.epsilon == 4 + Fraction(1, 2)


def test_a_release_that_several_answers_of_a_batch_read_counts_once(tmp_path: Path) -> None:
    with Shop(tmp_path).session() as session:
        session.sql(BY_REGION, epsilon=4)
        batch = session.batch([BY_REGION, BY_KIND], epsilon=1)
        assert batch.charge.epsilon == Fraction(1, 2) and batch.guarantee.epsilon == 4 + Fraction(1, 2)
        assert session.batch([BY_REGION, BY_KIND], epsilon=1).guarantee == batch.guarantee


def test_a_release_of_another_process_between_two_looks_at_the_store_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = "SELECT region, COUNT(*) AS n, MEDIAN(price) AS m FROM sales GROUP BY region"
    shop, looks, plain = Shop(tmp_path), [2], Reuse.vectors
    with shop.session("bob") as other, shop.session() as session:

        def later(reuse: Reuse, base: str) -> Vectors:
            if reuse.analyst == "ann" and looks[0]:
                looks[0] -= 1
                other.sql(BY_REGION, epsilon=5, fresh=True)
            return plain(reuse, base)

        other.sql("SELECT COUNT(*) AS n FROM sales WHERE score > 3", epsilon="0.01")
        monkeypatch.setattr(Reuse, "vectors", later)
        answer = session.sql(both, epsilon=1)
        assert answer.releases == (2, 3, 4) and answer.charge.epsilon < 1
        assert answer.guarantee.epsilon == 10 + answer.charge.epsilon
        again = session.sql(both, epsilon=1)
        assert again.guarantee == answer.guarantee and again.to_arrow() == answer.to_arrow()
