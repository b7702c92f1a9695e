"""A charge that is used in parts: recorded once, before the first of them, and never used beyond what was recorded."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.errors import InsufficientBudgetError, InternalError
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.reserved import Reserved
from dpquery.ledger.versions import AtVersion
from tests.unit.ledger.ledgers import MEMORY, QUERY, Site, epsilon, file_site


@pytest.fixture
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield file_site(Path(name))


def reserve(ledger: Ledger, loss: PrivacyLoss) -> Reserved:
    return Reserved(AtVersion(ledger, ledger.data_version), analyst="alice", loss=loss, query=QUERY)


LOSSES = st.builds(
    PrivacyLoss,
    epsilon=st.fractions(0, 1, max_denominator=50),
    delta=st.fractions(0, Fraction(1, 1000), max_denominator=10**5),
    rho=st.fractions(0, 1, max_denominator=50),
)


@settings(max_examples=25, deadline=None)
@given(whole=LOSSES.filter(lambda loss: loss.epsilon > 0), parts=st.lists(LOSSES, max_size=12))
def test_parts_add_up_to_the_recorded_charge_at_most_in_each_currency(
    whole: PrivacyLoss, parts: list[PrivacyLoss]
) -> None:
    ledger = Recording()
    reserved, used = Reserved(ledger, analyst="alice", loss=whole, query=QUERY), ZERO  # type: ignore[arg-type]
    assert ledger.recorded == [whole]  # before there is any part
    for part in parts:
        left = reserved.left
        try:
            assert reserved.charge(analyst="alice", loss=part, query="") == 7
        except InsufficientBudgetError as error:
            assert error.remaining == reserved.left == left
            assert part.epsilon > left.epsilon or part.delta > left.delta or part.rho > left.rho
        else:
            used = used + part
        assert used + reserved.left == whole
    assert ledger.recorded == [whole]


class Recording:
    """A ledger that remembers what was charged."""

    def __init__(self) -> None:
        self.recorded: list[PrivacyLoss] = []

    def charge(self, *, analyst: str, loss: PrivacyLoss, query: str, blocks: object = None) -> int:
        assert blocks is None  # all blocks
        self.recorded.append(loss)
        return 7


def test_it_is_one_entry_of_the_ledger_that_stays_whole(site: Site) -> None:
    ledger = site.create("1")
    reserved = reserve(ledger, epsilon("0.6"))
    assert ledger.remaining("alice") == epsilon("0.4")
    entry = reserved.charge(analyst="alice", loss=epsilon("0.1"), query="")
    reserved.complete(entry)
    ledger.close()
    again = site.open()
    assert [(one.seq, one.loss) for one in again.entries()] == [(reserved.entry, epsilon("0.6"))]
    assert again.remaining("alice") == epsilon("0.4")


def test_what_does_not_fit_reserves_nothing(site: Site) -> None:
    ledger = site.create("1")
    with pytest.raises(InsufficientBudgetError):
        reserve(ledger, epsilon("1.1"))
    assert ledger.entries() == []


def test_it_is_used_by_its_analyst_alone(site: Site) -> None:
    reserved = reserve(site.create("1"), epsilon("1"))
    with pytest.raises(InternalError):
        reserved.charge(analyst="bob", loss=epsilon("0.1"), query="")
    assert reserved.left == epsilon("1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_uses_nothing_of_it(site: Site) -> None:
    reserved = reserve(site.create("1"), epsilon("1"))
    child = os.fork()
    if child == 0:
        try:
            reserved.charge(analyst="alice", loss=epsilon("0.1"), query="")
        except InternalError:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_threads_use_no_more_than_there_is(site: Site) -> None:
    reserved, taken = reserve(site.create("1"), epsilon("1")), []

    def use() -> None:
        for _ in range(50):
            try:
                reserved.charge(analyst="alice", loss=epsilon("0.01"), query="")
                taken.append(1)
            except InsufficientBudgetError:
                pass

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 100 and reserved.left == ZERO
