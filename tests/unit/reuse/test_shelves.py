"""Stored answers beside a ledger in PostgreSQL: shared by machines, refused when they are changed, never in the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import dpquery as dp
from tests.postgres import Cluster, cluster
from tests.unit.reuse.shop import catalog, sales

QUERY = "SELECT region, COUNT(*) AS n FROM sales GROUP BY region"
FREE = dp.PrivacyLoss()


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def url(server: Cluster, tmp_path: Path) -> str:
    found = server.fresh()
    dp.create_ledger(catalog(), found, mark=tmp_path / "shop.mark").close()
    return found


def _session(url: str, analyst: str = "ann") -> dp.Session:
    """Returns a session as of another machine."""
    return dp.connect(catalog(), {"sales": sales()}, ledger=url, analyst=analyst)


def _run(url: str, statement: str, *values: object) -> None:
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(statement.encode(), values)


def _refused(url: str, match: str) -> None:
    before = len(dp.Ledger.open(url).entries())
    with pytest.raises(dp.LedgerError, match=match), _session(url) as session:
        session.sql(QUERY)
    assert len(dp.Ledger.open(url).entries()) == before


def test_machines_share_what_was_bought(url: str) -> None:
    with _session(url) as ann, _session(url, "bob") as bob:
        assert len(ann.releases) == 0
        first = ann.sql(QUERY)
        assert first.charge != FREE
        for again in (bob.sql(QUERY), bob.sql(QUERY), ann.sql(QUERY.lower())):
            assert (
                again.charge == FREE and again.to_arrow() == first.to_arrow() and again.source == "free, from release 1"
            )
        assert bob.sql("SELECT COUNT(*) FROM sales", epsilon="0.1").charge == FREE
        assert bob.sql("SELECT kind, COUNT(*) FROM sales GROUP BY kind").charge != FREE
        assert ann.releases["analyst"].tolist() == ["ann", "bob"]
        dp.Ledger.open(url).new_data_version(by="owner", why="new rows")
        with pytest.raises(dp.DataChangedError):
            ann.sql(QUERY)
    with _session(url) as ann:
        assert ann.sql(QUERY).charge != FREE
    assert len(dp.Ledger.open(url).entries()) == 4


def test_a_changed_row_is_refused(url: str) -> None:
    with _session(url) as session:
        session.sql(QUERY)
    _run(url, "UPDATE dpquery_releases.release SET content = replace(content, '0', '1')")
    _refused(url, "was changed")
    _run(url, "UPDATE dpquery_releases.release SET entry = 9")
    _refused(url, "entry 9, which the ledger does not have")
    _run(url, "DROP SCHEMA dpquery_releases CASCADE")
    with _session(url) as session:
        assert session.sql(QUERY).charge != FREE


def test_the_store_of_another_ledger_is_refused(url: str, tmp_path: Path) -> None:
    with _session(url) as session:
        session.sql(QUERY)
    _run(url, "DROP SCHEMA dpquery_ledger CASCADE")
    dp.create_ledger(catalog(), url, mark=tmp_path / "again.mark").close()
    with pytest.raises(dp.LedgerError, match="belongs to another ledger"):
        _session(url)


def test_a_store_that_cannot_be_written_is_told_and_the_answer_given(url: str) -> None:
    with _session(url) as session:
        session.sql(QUERY)
        _run(url, "ALTER TABLE dpquery_releases.release ADD CONSTRAINT none CHECK (version = '') NOT VALID")
        with pytest.warns(UserWarning, match="could not be stored"):
            assert session.sql("SELECT COUNT(*) FROM sales WHERE score > 3").charge != FREE
        assert session.sql(QUERY).charge == FREE


def test_a_password_is_not_told(url: str) -> None:
    from dpquery.ledger.ledger import Ledger
    from dpquery.reuse.store import ReleaseStore

    secret = url.replace("owner@", "owner:s3cret@")
    assert "s3cret" not in ReleaseStore(Ledger.open(secret)).place
