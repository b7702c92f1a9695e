"""Conditions on a date beside groups of its periods: one period is one number."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Column, Expression, Literal
from dpquery.plan.types import BOOLEAN, DATE
from dpquery.reuse.lines import before_next
from tests.unit.reuse.shop import CATALOG, sales

DAY = Column(id="day", type=DATE)
DAYS = [None, *(datetime.date(2023, 12, 1) + datetime.timedelta(days=n) for n in range(500))]


def compared(function: str, day: datetime.date, *, mirrored: bool = False) -> Expression:
    parts = (DAY, Literal(value=day, type=DATE))
    return Call(function=function, arguments=parts[::-1] if mirrored else parts, type=BOOLEAN)


def test_a_comparison_with_a_day_has_one_spelling() -> None:
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 2, 29), datetime.date(2024, 3, 4), datetime.date(2024, 4, 1)]
    for function, day, mirrored in itertools.product(("lt", "le", "gt", "ge"), days, (False, True)):
        condition = compared(function, day, mirrored=mirrored)
        same = before_next(condition)
        assert all(evaluate(same, {"day": d}) == evaluate(condition, {"day": d}) for d in DAYS)
    after = datetime.date(2024, 3, 1)
    assert before_next(compared("le", datetime.date(2024, 2, 29))) == compared("lt", after)


@pytest.mark.parametrize("blocks", ["", "\n    blocks: {column: day, by: month}"])
def test_a_month_is_one_number_however_it_is_asked(blocks: str, tmp_path: Path) -> None:
    """As a group, under its two days, and as the value of its key; with blocks the plan adds conditions of its own."""
    words = {"{OWNER}": f"unique: []{blocks}", "{UNIT}": "row\nneighbours: replace_one", "{DATASET}": "shop"}
    text = CATALOG.replace("{BUDGET}", "{epsilon: 1000}").replace("HIGH", "100")
    for word, meant in words.items():
        text = text.replace(word, meant)
    catalog = dp.Catalog.from_yaml(text)
    dp.create_ledger(catalog, tmp_path / "ledger").close()
    month = "date_trunc('month', day)"
    spelled = [
        "day >= '2024-03-01' AND day < '2024-04-01'",
        "day BETWEEN '2024-03-01' AND '2024-03-31'",
        "day > '2024-02-29' AND NOT day >= '2024-04-01'",
        f"{month} = '2024-03-01'",
    ]
    with dp.connect(catalog, {"sales": sales(200)}, ledger=tmp_path / "ledger") as session:
        for where in spelled:  # before and after there are groups of months
            session.sql(f"SELECT COUNT(*) AS n FROM sales WHERE {where}", epsilon="0.5")
        groups = f"SELECT {month} AS m, COUNT(*) AS n FROM sales GROUP BY {month}"
        session.sql(groups, epsilon=2)
        frame = session.sql(groups, epsilon="0.01").to_pandas()
        shown = frame.loc[frame["m"] == "2024-03-01", "n"].tolist()
        for where in spelled:
            answer = session.sql(f"SELECT COUNT(*) AS n FROM sales WHERE {where}", epsilon="0.01")
            assert answer.charge == dp.PrivacyLoss() and answer.to_pandas()["n"].tolist() == shown
        part = session.explain("SELECT COUNT(*) AS n FROM sales WHERE day < '2024-03-15'", epsilon="0.01")
        assert part.charge != dp.PrivacyLoss()  # it divides a month
