"""Rows weigh what their stratum and the whole table leave them: the floor of both bounds, as `Strata` defines it."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from dpquery.kernel.plan import WEIGHT
from dpquery.plan.calendar import By, number_of
from tests.backends.engines import KEY, Engine, run
from tests.backends.test_scan_weights import DAYS, PEOPLE, counted, items, made, visits, weighed
from tests.backends.test_strata import in_strata


@pytest.mark.parametrize("by", [By.WEEK, By.MONTH, None])
@pytest.mark.parametrize(("most", "one"), [(5, 5), (12, 3), (30, 4)])
def test_rows_are_weighed_in_strata(engine: Engine, most: int, one: int, by: By | None) -> None:
    """Rows without a date are a stratum, too."""
    catalog = made()
    source = in_strata(weighed(catalog, "visits", most), most, "day", by, one)
    backend = engine(catalog, {"visits": visits(), "items": items()})
    found = run(backend, counted(source, "visits_person", "visits_weight", "visits_number"), KEY)
    strata = [day if day is None or by is None else number_of(day, by) for day in DAYS]
    counts = Counter(zip(PEOPLE, strata, strict=True))
    held: Counter[int | None] = Counter()
    for (person, _), count in counts.items():
        held[person] += min(one, count)
    for i, person in enumerate(PEOPLE):
        if person is not None:
            own = min(Fraction(1), Fraction(one, counts[person, strata[i]]))
            assert found[(i,)][1] == int(WEIGHT * own * min(Fraction(1), Fraction(most, held[person])))
