"""What rows weigh in strata of a table: the floor of both bounds, in each engine and however tables are stored."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dpquery.backends.duckdb.table_reading import StoredWeighing
from dpquery.errors import BackendError
from dpquery.kernel.plan import WEIGHT
from dpquery.plan.calendar import By, number_of
from dpquery.plan.logical import Scan
from dpquery.plan.strata import Strata
from tests.backends.engines import KEY, catalog_of, groups_of
from tests.backends.test_scan_weights import (
    DAYS,
    PEOPLE,
    VISITS,
    Opener,
    asked,
    backend_of,
    counted,
    items,
    made,
    owners_of_items,
    visits,
    weighed,
)
from tests.backends.test_scan_weights import stored as stored
from tests.reference.backend import ReferenceBackend

BOUNDS = [(1, 1), (5, 5), (12, 3), (30, 4), (10**6, 7), (10**12, 10**12)]


def expected(owners: Sequence[Any], strata: Sequence[Any], most: int, one: int) -> dict[int, int]:
    """Returns the weight of each row by its place, from the definition; owners may be pairs with a block."""
    counts = Counter(zip(owners, strata, strict=True))
    held: Counter[Any] = Counter()
    for (owner, _), count in counts.items():
        held[owner] += min(one, count)
    return {
        i: int(
            WEIGHT
            * min(Fraction(1), Fraction(one, counts[owner, stratum]))
            * min(Fraction(1), Fraction(most, held[owner]))
        )
        for i, (owner, stratum) in enumerate(zip(owners, strata, strict=True))
        if owner is not None
    }


def periods(by: By) -> list[int | None]:
    return [None if day is None else number_of(day, by) for day in DAYS]


def in_strata(table: Scan, most: int, column: str, by: By | None, one: int) -> Scan:
    return replace(table, max_rows=most, strata=Strata(column=column, by=by, max_rows=one))


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("most", "one", "by"), [(*bounds, By.MONTH) for bounds in BOUNDS] + [(12, 3, by) for by in By if by is not By.MONTH]
)
def test_rows_weigh_what_their_stratum_and_the_whole_leave_them(most: int, one: int, by: By, stored: Opener) -> None:
    """Rows without a date are a stratum, too."""
    source = in_strata(weighed(made(), "visits", most), most, "day", by, one)
    found = asked(stored(made()), counted(source, "visits_person", "visits_weight", "visits_number"))
    assert found == expected(PEOPLE, periods(by), most, one)


@pytest.mark.parametrize(("most", "one"), [(9, 3), (1000, 2)])
def test_strata_of_a_values_own(most: int, one: int, stored: Opener) -> None:
    """Of texts, and of rows that are owned by foreign key; a text is told by what is read of it."""
    for column, given in (("label", items()["label"]), ("visit", items()["visit"])):
        source = in_strata(weighed(made(), "items", most), most, column, None, one)
        found = asked(stored(made()), counted(source, "items_unit", "items_weight", "items_label"))
        assert found == {f"i{i}": w for i, w in expected(owners_of_items(), list(given), most, one).items()}


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("most", "one"), [(1, 1), (6, 2), (9, 4)])
def test_strata_are_counted_in_each_block(most: int, one: int, stored: Opener) -> None:
    blocks = {"blocks": {"column": "day", "by": "month"}}
    catalog = catalog_of({"visits": VISITS | blocks}, neighbours="replace_one")
    months = periods(By.MONTH)
    owners = [None if person is None else (person, month) for person, month in zip(PEOPLE, months, strict=True)]
    for by in (By.WEEK, By.DAY, By.YEAR):
        source = in_strata(weighed(catalog, "visits", most), most, "day", by, one)
        found = asked(stored(catalog), counted(source, "visits_person", "visits_weight", "visits_number"))
        assert found == expected(owners, periods(by), most, one)


@pytest.mark.parametrize("limit", [3, 8, 60])
def test_engines_agree_where_not_all_rows_are_read(limit: int, stored: Opener) -> None:
    """Rows that are not read are in T and in A, so that those that are weigh no more than they may."""
    catalog = made(row_limit=limit)
    source = in_strata(weighed(catalog, "visits", 12), 12, "day", By.MONTH, 5)
    found = asked(stored(catalog), counted(source, "visits_person", "visits_weight", "visits_number"))
    whole = expected(PEOPLE, periods(By.MONTH), 12, 5)
    assert all(weight == whole[i] for i, weight in found.items())
    assert Counter(PEOPLE[i] for i in found) == {1: min(40, limit), 2: min(5, limit), 3: 1, 4: min(6, limit)}


@pytest.mark.parametrize("column", ["day", "number"])
def test_the_reference_weighs_alike(column: str) -> None:
    catalog = made()
    by = By.MONTH if column == "day" else None
    source = in_strata(weighed(catalog, "visits", 12), 12, column, by, 3)
    aggregate = counted(source, "visits_person", "visits_weight", "visits_number")
    reference = ReferenceBackend(catalog, {"visits": visits(), "items": items()})
    exact = {group[0]: numbers[1] for group, numbers in groups_of(aggregate, reference.run(aggregate, KEY)).items()}
    assert exact == asked(backend_of(catalog), aggregate)


def test_strata_of_one_table_are_kept_apart() -> None:
    """One of them is not taken for the other's weights, nor for those without strata."""
    backend, plain = backend_of(made()), weighed(made(), "visits", 12)
    given = [plain, in_strata(plain, 12, "day", By.MONTH, 3), in_strata(plain, 12, "day", By.WEEK, 3)]
    given += [in_strata(plain, 12, "day", By.MONTH, 4)]
    found = [asked(backend, counted(source, "visits_person", "visits_weight", "visits_number")) for source in given * 2]
    assert found[:4] == found[4:] and len({tuple(sorted(one.items())) for one in found}) == 4


@pytest.mark.parametrize(
    "broken",
    [
        lambda text: f"{text} UNION ALL {text}",
        lambda text: text.replace("CAST(CAST(", f"CAST({WEIGHT} + CAST(", 1),
        lambda text: text.replace("SELECT unit, stratum", "SELECT nullif(unit, 1) AS unit, stratum", 1),
        lambda text: text.replace("LEAST(counted, 3)", "LEAST(counted, 1)"),
        lambda text: text.replace("WHERE counted > 3 OR held > 5", "WHERE held > 5 AND stratum IS NOT NULL"),
    ],
    ids=["twice", "heavy", "nobody", "less is held", "strata are missing"],
)
def test_strata_that_were_not_written_as_they_were_meant_are_refused(
    broken: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_of(made())
    kind = type(backend._tables)
    right = kind.crowded

    def crowded(self: Any, each: StoredWeighing) -> str:
        text = right(self, each)
        assert broken(text) != text
        return broken(text)

    monkeypatch.setattr(kind, "crowded", crowded)
    source = in_strata(weighed(made(), "visits", 5), 5, "day", By.WEEK, 3)
    with pytest.raises(BackendError, match="failed their check"):
        asked(backend, counted(source, "visits_person", "visits_weight", "visits_number"))


def test_a_day_of_a_moment_is_that_of_its_clock() -> None:
    late = datetime.datetime(2024, 3, 31, 23, 59, 59)
    assert number_of(late, By.MONTH) == number_of(datetime.date(2024, 3, 1), By.MONTH)
