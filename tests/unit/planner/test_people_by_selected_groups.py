"""Numbers of people by selected groups: counted beside rounds, or by the number that decides."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp

PEOPLE, PLACES = 400, 30
QUERY = "SELECT place, COUNT(DISTINCT person) AS n FROM visits GROUP BY place"


def session(folder: Path, max_rows: int) -> dp.Session:
    """Returns a session over people who were twice in each of so many places: 1 to 20, the first ones."""
    tables = {
        "visits": {
            "unit": "person",
            "max_rows": max_rows,
            "columns": {"person": {"type": "int64"}, "place": {"type": "text"}},
        }
    }
    budget = {"epsilon": 10**6, "delta": "0.5"}
    catalog = dp.Catalog(dataset="visits", privacy_unit="person", budget=budget, tables=tables)
    rows = [(person, f"place {place:02}") for person in range(PEOPLE) for place in range(1 + person % 20)]
    frame = pd.DataFrame(rows * 2, columns=["person", "place"])
    return dp.connect(catalog, {"visits": frame}, ledger=dp.create_ledger(catalog, folder / "v.ledger"), reuse=False)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("max_rows", "asked", "groups", "in_rounds"),
    [
        (63, None, 4, False),
        (64, None, 16, True),
        (8, 8, 8, True),
        (8, 7, 7, False),
        (64, 2, 2, False),
        (500, 20, 20, True),
    ],
)
def test_where_a_person_counts_in_many_groups_these_are_selected_in_rounds(
    max_rows: int, asked: int | None, groups: int, in_rounds: bool, tmp_path: Path
) -> None:
    opened = session(tmp_path, max_rows)
    plan = opened.explain(QUERY, epsilon=1, delta="1e-6", max_groups=asked)
    kinds = [made.aggregate for made in plan.measurements]
    assert sorted(kinds) == (["count_distinct", "selection"] if in_rounds else ["count_distinct"])
    people = plan.measurements[kinds.index("count_distinct")]
    assert people.l1 == groups and people.linf == 1
    assert sum(made.tau is not None for made in plan.measurements) >= 1


@pytest.mark.parametrize("query", [QUERY, QUERY.replace("AS n", "FILTER (WHERE person < 200) AS n")])
def test_people_are_counted_as_they_are_where_noise_is_small(query: str, tmp_path: Path) -> None:
    """Of people in at most `max_groups` groups none is left out, in rounds either; those in more count in some."""
    answer = session(tmp_path, 64).sql(query, epsilon=1000, delta="0.1", max_groups=20).to_pandas()
    people = 200 if "FILTER" in query else PEOPLE
    expected = {f"place {place:02}": people * (20 - place) // 20 for place in range(20)}
    assert dict(zip(answer["place"], answer["n"], strict=True)) == expected


def test_numbers_that_count_few_groups_of_a_person_are_too_low(tmp_path: Path) -> None:
    """A place in which one person only is left to count may be missing, which happens in one run of twenty."""
    opened = session(tmp_path, 64)
    usual, few = (
        opened.sql(QUERY, epsilon=1000, delta="0.1", max_groups=groups).to_pandas()["n"].sum() for groups in (None, 4)
    )
    assert usual == sum(min(16, 1 + person % 20) for person in range(PEOPLE))
    assert 0 <= sum(min(4, 1 + person % 20) for person in range(PEOPLE)) - few <= 2
