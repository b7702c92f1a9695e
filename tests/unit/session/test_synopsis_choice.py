"""What a synopsis asks, at the engine: of neighbouring tables the same, as long as the gate released the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.reserved import Reserved
from dpquery.session.synopsis_buying import Buying
from dpquery.synopsis.axes import SynopsisAxis
from dpquery.synopsis.model import Marginal
from dpquery.synopsis.rounds import MarginalQuestion
from dpquery.synopsis.synopsis import Synopsis
from tests.unit.session.test_synopses import CODES, catalog, visits

COLUMNS = ["ward", "age", "dose", "urgent"]
ROWS = visits()
SHUFFLED = ROWS.assign(dose=np.random.default_rng(1).permutation(ROWS["dose"].to_numpy()))
Asked = list[tuple[str, PrivacyLoss]]
Bought = tuple[Synopsis, Asked, list[Marginal]]


def bought(ledger: Path, rows: pd.DataFrame, told: Sequence[Marginal] | None = None) -> Bought:
    """Returns a synopsis of rows, each query that was asked with its loss, and what was released.

    Args:
        told: What the rounds are told in place of what the gate releases of these rows, in the same order.
    """
    asked, released, measured = Asked(), list[Marginal](), Buying._measured

    def telling(
        self: Buying,
        question: MarginalQuestion,
        table: str,
        axes: Sequence[SynopsisAxis],
        reserved: Reserved,
        loss: PrivacyLoss,
    ) -> Marginal:
        found = measured(self, question, table, axes, reserved, loss)
        asked.append((question.sql(table, axes), loss))
        released.append(found if told is None else told[len(released)])
        return released[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Buying, "_measured", telling)
        with dp.connect(catalog(), {"visits": rows, "codes": CODES}, ledger=ledger, create=True) as session:
            made = session.synopsis("visits", COLUMNS, rho="20", rows=50)
    return made, asked, released


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Bought:
    return bought(tmp_path_factory.mktemp("first") / "ledger", ROWS)


@pytest.mark.parametrize("rows", [ROWS[ROWS["id"] != 17], SHUFFLED], ids=["a neighbour", "other people"])
def test_the_same_is_asked_where_the_same_was_released(first: Bought, rows: pd.DataFrame, tmp_path: Path) -> None:
    """Queries, losses, charge and synthetic rows follow from the transcript: without one person's rows, or with rows of
    other people altogether, nothing changes but what would have been released."""
    made, asked, released = first
    assert len(asked) > len(COLUMNS) + 6  # beside columns and pairs, what was chosen
    again, also_asked, _ = bought(tmp_path / "ledger", rows, released)
    assert also_asked == asked and again.charge == made.charge
    assert again.rows.equals(made.rows) and again.quality == made.quality


def test_other_releases_choose_otherwise(first: Bought, tmp_path: Path) -> None:
    """So the choice is adaptive, and the test above could fail."""
    _, others, _ = bought(tmp_path / "ledger", SHUFFLED)
    assert [query for query, _ in first[1]] != [query for query, _ in others]
