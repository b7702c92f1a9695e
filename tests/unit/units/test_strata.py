"""In how many strata rows can be, and what they weigh there: each rule where it holds, and where it must not."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import replace
from random import Random

import pytest

from dpquery.plan.calendar import By, number_of
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.keys import Key
from dpquery.plan.logical import Relation, Scan
from dpquery.plan.periods import agreeing, most_periods
from dpquery.plan.strata import Strata
from dpquery.plan.types import DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Value
from dpquery.units.weights import rows_in_group, weighed
from tests.weighing import Facts, both, day, declarations, join, kept, number, numbered, of, scan, where

DAY = of("v_day", DATE)
BY_MONTH, BY_PLACE = Strata(column="day", by=By.MONTH, max_rows=3), Strata(column="place", by=None, max_rows=3)


def in_strata(strata: Strata, alias: str = "v", most: int = 50) -> Scan:
    return replace(scan("visits", alias, max_rows=most, limit=10**6), strata=strata)


V, W, P = in_strata(BY_MONTH), in_strata(BY_MONTH, "w"), in_strata(BY_PLACE)


def text(value: str) -> Literal:
    return Literal(value=value, type=TEXT)


def cut(unit: str, value: Expression = DAY) -> Expression:
    return call("date_trunc", (text(unit), value))


def in_group(relation: Relation, *columns: str, weight: str | None = "v_w", dated: bool = False) -> int | None:
    types = {"v_place": INT64, "v_cost": FLOAT64}
    keys = [Key.of(id, types.get(id, DATE), None) for id in columns]
    return rows_in_group(relation, keys, declarations(dated=dated), Facts(known={}), weight)


def in_all(relation: Relation, weight: str = "v_w", *, dated: bool = False) -> int | None:
    return weighed(relation, declarations(dated=dated), Facts(known={})).stored.get(weight)


# Periods.

X = Column(id="x", type=TIMESTAMP)
UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
FORMS = ("%Y-%m", "%m/%Y", "%Y%m%d", "%Y%j", "%j %Y", "%Y", "%m-%d", "%d/%m", "%H", "%Y-%d")
CUTS = [X, Cast(argument=X, type=DATE), *(cut(unit, X) for unit in UNITS)]
TELLING = [
    *CUTS,
    *(cut(unit, inner) for unit in UNITS for inner in CUTS),
    *(Cast(argument=cut(unit, X), type=DATE) for unit in UNITS),
    *(call("format_date", (inner, text(form))) for form in FORMS for inner in (X, cut("month", X), cut("week", X))),
    *(call(f"extract_{part}", (inner,)) for part in ("year", "month", "quarter", "week", "day") for inner in CUTS),
]


def moments(random: Random) -> list[datetime.datetime]:
    """Returns moments near the ends of periods, and some at random."""
    first = datetime.datetime(random.randint(1995, 2030), random.choice([1, 2, 3, 4, 7, 10, 12]), 1)
    near = [first + datetime.timedelta(days=random.randint(-8, 40), hours=random.choice([0, 23])) for _ in range(40)]
    return [*near, first.replace(year=first.year + 1), first + datetime.timedelta(days=random.randint(-400, 400))]


@pytest.mark.parametrize("seed", range(3))
def test_values_that_agree_are_in_so_many_periods(seed: int) -> None:
    """By brute force: of two expressions together, too."""
    random = Random(f"periods {seed}")
    values = moments(random)
    rows = {value: [evaluate(one, {"x": value}) for one in TELLING] for value in values}
    pairs: list[tuple[int, ...]] = [(i,) for i in range(len(TELLING))]
    pairs += random.sample(list(itertools.combinations(range(len(TELLING)), 2)), 400)
    for chosen in pairs:
        told = {told for i in chosen for id, told in agreeing(TELLING[i], None)}
        groups: dict[tuple[Value, ...], set[datetime.datetime]] = {}
        for value, row in rows.items():
            groups.setdefault(tuple(row[i] for i in chosen), set()).add(value)
        for by in By:
            most = most_periods(by, told)
            seen = max(len({number_of(value, by) for value in group}) for group in groups.values())
            assert most is None or seen <= most, ([TELLING[i] for i in chosen], by, seen, most)


@pytest.mark.parametrize(("longer", "by"), [*itertools.product(By, By)])
def test_a_period_touches_so_many_others_and_no_fewer(longer: By, by: By) -> None:
    """Over 28 years, in which the calendar repeats; one that lies within others touches one."""
    days = [datetime.date(1999, 12, 20) + datetime.timedelta(days=i) for i in range(28 * 366)]
    touched: dict[int, set[int]] = {}
    for date in days:
        touched.setdefault(number_of(date, longer), set()).add(number_of(date, by))
    assert max(map(len, touched.values())) == most_periods(by, {longer})


def test_a_part_of_some_year_tells_no_period() -> None:
    assert most_periods(By.MONTH, {"month"}) is most_periods(By.QUARTER, {"quarter", "month"}) is None
    assert most_periods(By.MONTH, {By.YEAR, "quarter"}) == 3
    assert most_periods(By.MONTH, {By.YEAR, "month"}) == most_periods(By.QUARTER, {By.YEAR, "month"}) == 1


# Groups.

GROUPED = {
    "the date": (DAY, 3),
    "its month": (cut("month"), 3),
    "its day": (cut("day"), 3),
    "its quarter": (cut("quarter"), 9),
    "its year": (cut("year"), 36),
    "its week": (cut("week"), 6),
    "month of a week": (cut("month", cut("week")), None),
    "month of a day": (cut("month", cut("day")), 3),
    "year of a month": (cut("year", cut("month")), 36),
    "month as text": (call("format_date", (DAY, text("%Y-%m"))), 3),
    "month of some year": (call("extract_month", (DAY,)), None),
    "the next day": (call("add_days", (DAY, number(1))), None),
}


@pytest.mark.parametrize("grouped", GROUPED)
def test_weights_in_a_group_that_is_told_by_a_date(grouped: str) -> None:
    expression, most = GROUPED[grouped]
    relation = kept(V, "v_person", "v_w", key=expression)
    present = where(relation, "is_not_null", of("key", expression.type))
    for each in (relation, present, numbered(relation, "key", "v_person")):
        keys = [Key.of("key", expression.type, None)]
        found = rows_in_group(each, keys, declarations(), Facts(known={}), "v_w")
        assert found == (50 if most is None else most)


def test_weights_in_a_group_of_a_value() -> None:
    assert in_group(P, "v_place") == 3
    assert in_group(P, "v_day") == in_group(
        kept(P, "v_person", "v_w", v_place=call("add", (of("v_place"), number(0)))), "v_place"
    )
    assert in_group(P, "v_day") == 50
    assert in_group(V, "v_place") == 50, "the strata are others"
    assert in_group(V, "v_place", "v_day") == 3
    assert in_group(V, weight="v_w") == 50, "a grand total is no group of one stratum"


def test_values_in_one_period_are_not_themselves_equal() -> None:
    days = replace(V, strata=Strata(column="day", by=None, max_rows=3))
    assert in_group(days, "v_day") == 3
    month = Key.of("key", TIMESTAMP, None)
    by_month = kept(days, "v_person", "v_w", key=cut("month"))
    assert rows_in_group(by_month, [month], declarations(), Facts(known={}), "v_w") == 50


def test_weights_of_another_column_are_not_bounded() -> None:
    """Also where no column holds the weights: rows that weigh 1 are in as many in a group as they are."""
    assert in_group(V, "v_day", weight="v_person") == in_group(V, "v_day", weight=None) == 10**6


def test_year_and_month_together_tell_a_stratum() -> None:
    parts = {part: call(f"extract_{part}", (DAY,)) for part in ("year", "month", "quarter")}
    relation = kept(V, "v_person", "v_w", **parts)
    keys = {part: Key.of(part, INT64, (1, 2)) for part in parts}
    for chosen, most in ((("year", "month"), 3), (("year",), 36), (("year", "quarter"), 9), (("quarter", "month"), 50)):
        found = rows_in_group(relation, [keys[c] for c in chosen], declarations(), Facts(known={}), "v_w")
        assert found == most


# Operators.


def test_joins_bound_weights_of_the_side_whose_columns_agree() -> None:
    places = join(V, scan("places", "c"), ("v_place", "c_code"))
    assert in_group(places, "v_day") == 6, "two rows of places agree"
    assert in_group(places, "c_low") == 100
    same = join(V, W, ("v_person", "w_person"), ("v_visit", "w_visit"))
    unique = Facts(known={"visits": (frozenset({"visit"}),)})
    keys = [Key.of("w_day", DATE, None)]
    assert rows_in_group(same, keys, declarations(), unique, "w_w") == 3
    assert rows_in_group(same, keys, declarations(), unique, "v_w") == 50


def test_what_a_join_fills_up_is_in_no_stratum() -> None:
    """Rows of a left side that met none have NULL for the right one's date, and may be of any stratum."""
    facts = Facts(known={"visits": (frozenset({"visit"}),)})
    left = join(V, W, ("v_person", "w_person"), ("v_visit", "w_visit"), kind="left")
    either = kept(left, "v_person", "v_day", "w_day", either=call("coalesce", (of("w_w"), of("v_w"))))
    found = [
        rows_in_group(either, [Key.of(id, DATE, None)], declarations(), facts, "either") for id in ("w_day", "v_day")
    ]
    assert found == [3 + 50, 50 + 3]


def test_both_parts_of_a_union_are_in_a_stratum() -> None:
    columns = {"v_person": ("v_person", "w_person"), "v_w": ("v_w", "w_w"), "v_day": ("v_day", "w_day")}
    assert in_group(both("union_all", V, W, **columns), "v_day") == 6
    other = both("union_all", V, replace(W, strata=None), **columns)
    assert in_group(other, "v_day") == 53


def test_filters_leave_some_strata_and_that_without_a_date() -> None:
    march = where(where(V, "ge", DAY, day("2024-03-01")), "lt", DAY, day("2024-04-01"))
    assert in_all(march) == in_group(march, "v_place") == 3
    assert in_all(where(V, "le", day("2024-03-02"), DAY)) == 50
    both_months = where(V, "in", DAY, day("2024-03-01"), day("2024-07-01"))
    assert in_all(both_months) == 6 and in_group(both_months, "v_day") == 3
    or_none = where(V, "or", call("is_null", (DAY,)), call("eq", (DAY, day("2024-03-01"))))
    assert in_all(or_none) == 6 and in_all(where(V, "is_null", DAY)) == 3, "rows without a date are a stratum"
    assert in_all(where(march, "is_null", DAY)) == 1
    over = where(kept(V, "v_person", "v_w", "v_day"), "eq", DAY, day("2024-03-01"))
    assert in_all(over) == 50, "only what stands on the scan tells"
    by_place = where(P, "eq", DAY, day("2024-03-01"))
    assert in_all(by_place) == 50, "the strata are others"


# Blocks.


def test_strata_are_those_of_one_block_where_each_row_stems_from_one() -> None:
    assert in_group(V, "v_day", dated=True) == 3
    assert in_all(where(V, "eq", DAY, day("2024-03-01")), dated=True) == 3
    ranked = numbered(V, "v_day", "v_person")
    assert in_group(ranked, "v_day", dated=True) in (None, 10**6), "rows of other blocks decide about its rows"
    assert in_all(ranked, dated=True) is None
