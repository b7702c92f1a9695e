"""Attacks on weights (BND): all rows of one person together weigh as much as declared, by that person's rows alone."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpquery.errors import CatalogError
from dpquery.kernel.accountant import charge_of
from dpquery.kernel.plan import WEIGHT
from tests.attacks.clinic import Clinic

TABLE = """
version: 2
dataset: clinic
privacy_unit: person
budget: BUDGET
defaults: {max_groups: 2, max_rows: 3}
tables:
  rows:
    unit: id
    max_rows: 3
    columns:
      id: {type: IDTYPE}
      k: {type: text, keys: [a, b, c, d]}
      j: {type: text, keys: [p, q]}
      v: {type: int64, lower: -10, upper: 40}
      n: {type: int64}
"""


def rows(ids: object, k: object = "a", j: object = "p", v: object = 40, n: object = 0) -> pa.Table:
    """Returns a table of these columns, constants repeated."""
    return pa.Table.from_pandas(pd.DataFrame({"id": ids, "k": k, "j": j, "v": v, "n": n}), preserve_index=False)


def clinic_of(folder: Path, table: object, idtype: str = "int64", **more: object) -> Clinic:
    return Clinic(folder, catalog=TABLE.replace("IDTYPE", idtype), tables={"rows": table})


def test_a_person_with_a_million_rows_weighs_as_declared(tmp_path: Path, no_noise: None) -> None:
    """BND-01: max_rows is enforced in the query that runs, never believed."""
    many = clinic_of(tmp_path, rows(np.zeros(1_000_000, np.int64), n=np.arange(1_000_000)))
    query = "SELECT COUNT(*), SUM(v), COUNT(v), COUNT(DISTINCT n), SUM(-v) FROM rows"
    # weights are rounded down to steps: a millionth of three rows is 50 of them
    assert many.rows(query) == [(3, 119, 3, 3, -119)]
    assert many.rows("SELECT k, COUNT(*) FROM rows GROUP BY k") == [("a", 3), ("b", 0), ("c", 0), ("d", 0)]
    assert many.one("SELECT COUNT(*) FROM rows", max_rows=1) == 1
    assert many.one("SELECT AVG(v) FROM rows") == 40


def test_a_person_in_every_group_weighs_in_as_many_as_declared(tmp_path: Path, no_noise: None) -> None:
    """BND-01, BND-03: rows are counted over all groups together, whatever the keys."""
    everywhere = [(k, j) for k in "abcd" for j in "pq"] * 5
    table = rows(7, k=[k for k, _ in everywhere], j=[j for _, j in everywhere])
    one = clinic_of(tmp_path, table)
    query = "SELECT k, j, COUNT(*) FROM rows GROUP BY k, j"
    assert [n for _, _, n in one.rows(query, max_rows=16)] == [2] * 8
    assert one.rows("SELECT COUNT(*) FROM rows") == [(3,)]
    one.rows(query)
    assert sum(int(n) for n in one.backend.exact[-1].numbers[0]) <= 3 * WEIGHT
    (made,) = one.session.explain(query, epsilon=1).measurements
    assert [made.linf, made.l1, made.l2] == [3, 3, 3]
    selected = one.rows("SELECT n, k, COUNT(*) FROM rows GROUP BY n, k")
    assert selected == []


def test_merged_groups_are_bounded_after_merging(tmp_path: Path, no_noise: None) -> None:
    """BND-02: groups merged by CASE, by a projection or by a second grouping stay within max_rows."""
    table = rows([7] * 40, k=list("abcd") * 10)
    one = clinic_of(tmp_path, table)
    merged = "CASE WHEN k IN ('a', 'b', 'c', 'd') THEN 'all' ELSE 'none' END"
    assert dict(one.rows(f"SELECT {merged} AS m, COUNT(*) FROM rows GROUP BY 1")) == {"all": 3}
    assert dict(one.rows(f"SELECT m, SUM(v) FROM (SELECT id, v, {merged} AS m FROM rows) r GROUP BY m"))["all"] == 120
    inner = "SELECT id, k, COUNT(*) AS n FROM rows GROUP BY id, k"
    assert one.one(f"SELECT COUNT(*) FROM ({inner}) r") == 3
    assert one.one(f"SELECT SUM(CLAMP(n, 0, 5)) FROM ({inner}) r") == 15
    filtered = "SELECT k, COUNT(*) FROM rows WHERE v > 0 GROUP BY k"
    assert [n for _, n in one.rows(filtered, max_rows=20)] == [5] * 4
    one.rows(filtered)
    assert 3 * WEIGHT - 40 <= sum(int(n) for n in one.backend.exact[-1].numbers[0]) <= 3 * WEIGHT


def test_what_others_do_changes_nothing_for_a_person(tmp_path: Path, no_noise: None) -> None:
    """BND-04: values are de-duplicated after each person's own truncation, so that nobody's rows displace another's."""
    values = np.arange(3)
    mine = rows([1] * 3, n=values)
    totals = {}
    for name, others in {"alone": 0, "crowd": 50}.items():
        folder = tmp_path / name
        folder.mkdir()
        theirs = [rows([10 + i] * 3, n=values) for i in range(others)]
        crowd = clinic_of(folder, pa.concat_tables([mine, *theirs]))
        without = crowd.one("SELECT COUNT(DISTINCT n) FROM rows WHERE id <> 1")
        totals[name] = crowd.one("SELECT COUNT(DISTINCT n) FROM rows") - without
    assert totals == {"alone": 3, "crowd": 0}
    (tmp_path / "many").mkdir()
    many = clinic_of(tmp_path / "many", rows(np.repeat(np.arange(20), 50), n=np.tile(np.arange(50), 20)))
    everything = many.one("SELECT COUNT(DISTINCT n) FROM rows")
    for person in range(20):
        assert abs(everything - many.one(f"SELECT COUNT(DISTINCT n) FROM rows WHERE id <> {person}")) <= 3


def test_rows_without_an_owner_are_nobodys(tmp_path: Path, no_noise: None) -> None:
    """BND-05: NULL units are dropped, not pooled into one person."""
    lost = clinic_of(tmp_path, rows(pd.array([None] * 50 + [1], dtype="Int64")))
    assert lost.rows("SELECT COUNT(*), COUNT(DISTINCT id), SUM(v) FROM rows") == [(1, 1, 40)]
    assert lost.one("SELECT COUNT(*) FROM rows WHERE id IS NULL") == 0


@pytest.mark.parametrize(
    "ids",
    [
        ["ann", "Ann", "ANN", "ann ", " ann", "ann\t"],
        ["e\u0301", "\u00e9", "e"],
        ["a\0b", "a\0c", "a"],
        ["", " ", "  "],
        ["1", "01", "1.0", "+1"],
        ["\u00df", "ss", "SS", "\u1e9e"],
        ["\u0130", "i\u0307", "I", "i", "\u0131"],
    ],
)
def test_units_that_look_alike_stay_apart(tmp_path: Path, no_noise: None, ids: list[str]) -> None:
    """BND-05: text units are compared byte by byte."""
    alike = clinic_of(tmp_path, rows(np.repeat(np.array(ids, dtype=object), 10)), "text")
    assert alike.one("SELECT COUNT(DISTINCT id) FROM rows") == len(ids)
    assert alike.one("SELECT COUNT(*) FROM rows") == 3 * len(ids)


def test_large_integer_units_stay_apart(tmp_path: Path, no_noise: None) -> None:
    """BND-05, BAK-12: 2^53 and 2^53 + 1 are two people, with and without a NULL beside them."""
    ids = [2**53, 2**53 + 1, 2**62, 2**62 + 1, -(2**63), 2**63 - 1]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert clinic_of(tmp_path / "a", rows(np.repeat(ids, 5))).one("SELECT COUNT(DISTINCT id) FROM rows") == 6
    with_null = rows(pd.array([*ids, None], dtype="Int64"))
    assert clinic_of(tmp_path / "b", with_null).one("SELECT COUNT(DISTINCT id) FROM rows") == 6


def test_units_that_floats_have_merged_are_nobodys(tmp_path: Path, no_noise: None) -> None:
    """BND-05, BAK-12: beyond 2^53 a float no longer says whose a row is."""
    merged = clinic_of(tmp_path, rows([1.0, 2.0, 2.5, np.nan, np.inf, 2.0**53, float(2**53 + 1), 2.0**60]))
    assert merged.one("SELECT COUNT(DISTINCT id) FROM rows") == 2


@pytest.mark.parametrize("idtype", ["float64", "boolean", "timestamp"])
def test_units_of_other_types_are_refused_or_warned_about(tmp_path: Path, idtype: str) -> None:
    """BND-05."""
    try:
        made = Clinic(tmp_path, catalog=TABLE.replace("IDTYPE", idtype), tables={"rows": rows([1])})
    except CatalogError:
        return
    assert idtype != "float64", "floats as units merge people"
    assert made


def test_sums_and_counts_weigh_the_same_rows(tmp_path: Path, no_noise: None) -> None:
    """BND-06, BND-08: no row order decides; a sum is scaled, so that sum and count always fit together."""
    values = [40, -10, 40, -10, 40, -10]
    forward = rows([7] * 6, v=values)
    answers = set()
    for turn, table in enumerate([forward, forward.take(list(range(5, -1, -1)))]):
        folder = tmp_path / str(turn)
        folder.mkdir()
        answers.add(clinic_of(folder, table).rows("SELECT SUM(v), COUNT(v), COUNT(*) FROM rows")[0])
    assert answers == {(45, 3, 3)}


def test_filters_and_groups_change_no_weight(tmp_path: Path, no_noise: None) -> None:
    """BND-06: what a row weighs is fixed on the table: parts add up to the whole, and none weighs more by itself."""
    one = clinic_of(tmp_path, rows([7] * 40, k=list("abcd") * 10, n=range(40)))

    def weighed(query: str) -> int:
        one.rows(query)
        return sum(int(n) for n in one.backend.exact[-1].numbers[0])

    row = 3 * WEIGHT // 40
    assert weighed("SELECT COUNT(*) FROM rows") == 40 * row
    assert weighed("SELECT k, COUNT(*) FROM rows GROUP BY k") == 40 * row
    for k in "abcd":
        assert weighed(f"SELECT COUNT(*) FROM rows WHERE k = '{k}'") == 10 * row
        assert weighed(f"SELECT COUNT(*) FILTER (WHERE k = '{k}') FROM rows") == 10 * row
    for n in (0, 39):
        assert weighed(f"SELECT COUNT(*) FROM rows WHERE n = {n}") == row
    assert one.one("SELECT COUNT(*) FROM rows WHERE n = 0") == 0


def test_the_selected_groups_of_a_person_change_with_each_release(tmp_path: Path) -> None:
    """BND-06: they follow from a fresh key, not from the order of rows or the size of keys."""
    one = clinic_of(tmp_path, rows([7] * 4, n=range(4)))
    kept = set()
    for _ in range(40):
        one.sql("SELECT n, COUNT(DISTINCT id) FROM rows GROUP BY n")
        exact = one.backend.exact[-1]
        values = [int(value) for value, n in zip(exact.keys[0], exact.numbers[0], strict=True) if n]
        assert len(values) == 2
        kept.add(tuple(sorted(values)))
    assert len(kept) > 2


def test_all_aggregates_of_a_query_share_their_weights(tmp_path: Path, no_noise: None) -> None:
    """BND-07, BND-08: counts, sums and means weigh the same rows; units and values have limits over all groups."""
    one = clinic_of(tmp_path, rows([7] * 40, k=list("abcd") * 10, n=range(40)))
    table = one.rows("SELECT k, COUNT(*), SUM(v), AVG(v) FROM rows GROUP BY k", max_rows=20)
    assert [row[1:] for row in table] == [(5, 200, 40.0)] * 4
    for most in (3, 20):
        distinct = one.rows("SELECT k, COUNT(DISTINCT n) FROM rows GROUP BY k", max_rows=most)
        assert sum(n for _, n in distinct) == most
    one.rows("SELECT k, COUNT(DISTINCT id) FROM rows GROUP BY k")
    assert [int(n) for n in one.backend.exact[-1].numbers[0]] == [WEIGHT // 2] * 4


def test_total_bounds_hold_over_all_groups(clinic: Clinic) -> None:
    """BND-09: rows weigh m over all groups together; people count in g groups, and L2 is sqrt(g)."""
    for query, g, m in [
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", 1, 5),
        ("SELECT COUNT(*) FROM visits", 1, 5),
        ("SELECT ward, urgent, COUNT(*) FROM visits GROUP BY ward, urgent", 1, 5),
        ("SELECT ward, COUNT(DISTINCT id) FROM visits GROUP BY ward", 2, 1),
    ]:
        (made,) = clinic.session.explain(query, rho="0.1").measurements
        assert made.linf == m
        assert made.l1 == g * m
        assert abs(float(made.l2) ** 2 - g * m * m) < 1e-9 * g * m * m
        assert made.scale**2 >= g * m * m / 0.2 * (1 - 1e-12)


def test_planted_rows_displace_nobody(tmp_path: Path, no_noise: None) -> None:
    """BND-10: no global cap: a hundred thousand rows of one attacker leave the others' counts as they are."""
    victims = rows(np.arange(100, 200), k="a")
    flood = rows(np.zeros(100_000, np.int64), k="a")
    flooded = clinic_of(tmp_path, pa.concat_tables([flood, victims]))
    assert flooded.one("SELECT COUNT(*) FROM rows WHERE k = 'a'", max_rows=1) == 101


def test_the_query_may_choose_other_bounds_and_is_charged_the_same(clinic: Clinic) -> None:
    """BND-01: a larger max_rows means more noise, never a smaller charge."""
    small = clinic.session.explain("SELECT SUM(cost) FROM visits", rho="0.1", max_rows=1)
    large = clinic.session.explain("SELECT SUM(cost) FROM visits", rho="0.1", max_rows=1000)
    assert small.charge == large.charge
    assert large.measurements[0].scale >= 999 * small.measurements[0].scale


@pytest.mark.parametrize("bound", [0, -1, True, 1.0, "3", 10**9, None])
def test_bad_bounds_are_refused(clinic: Clinic, bound: object) -> None:
    """BND-01, ACC-12."""
    if bound is None:
        clinic.session.explain("SELECT COUNT(*) FROM visits", epsilon=1, max_rows=bound)
        return
    clinic.refuses("SELECT COUNT(*) FROM visits", max_rows=bound)
    clinic.refuses("SELECT COUNT(*) FROM visits", max_groups=bound)


def test_unowned_rows_of_foreign_keys_are_nobodys(tmp_path: Path, no_noise: None) -> None:
    """BND-05: a flag that leads to no visit, or to a visit without owner, counts nowhere."""
    flags = pd.DataFrame({"visit": pd.array([0, 0, 0, 0, 0, 0, 10**9, None], dtype="Int64"), "flag": ["high"] * 8})
    owned = Clinic(tmp_path, tables={"flags": flags})
    assert owned.one("SELECT COUNT(*) FROM flags", max_rows=4) == 4
    assert owned.one("SELECT COUNT(*) FROM flags", max_rows=100) == 6


def test_each_row_is_a_unit_where_the_owner_says_so(tmp_path: Path, no_noise: None) -> None:
    """BND-01: with the row as unit, a join that multiplies rows is refused."""
    text = """
version: 2
dataset: clinic
privacy_unit: row
budget: BUDGET
tables:
  rows:
    columns: {k: {type: text, keys: [a, b]}, v: {type: int64, lower: 0, upper: 9}}
  tags:
    public: true
    columns: {code: {type: text}, tag: {type: text}}
  wards:
    public: true
    unique: [[code]]
    columns: {code: {type: text}, floor: {type: int64, lower: 0, upper: 9}}
"""
    single = Clinic(tmp_path, catalog=text, tables={"rows": rows([1, 1, 1])})
    assert single.one("SELECT COUNT(*) FROM rows") == 3
    single.refuses("SELECT COUNT(*) FROM rows JOIN tags ON k = code")
    single.refuses("SELECT COUNT(*) FROM rows CROSS JOIN wards")
    single.refuses("SELECT COUNT(*) FROM rows a JOIN rows b ON a.k = b.k")
    single.refuses("SELECT COUNT(*) FROM rows JOIN (SELECT code FROM wards w JOIN tags t USING (code)) u ON k = code")
    (made,) = single.session.explain("SELECT k, SUM(v) FROM rows GROUP BY k", epsilon=1).measurements
    assert [made.linf, made.l1] == [9, 9]


def test_the_charge_follows_from_the_plan_alone(clinic: Clinic) -> None:
    """BND-08: what the session says is what the kernel computes again."""
    from tests.attacks.test_planner import planned

    query = "SELECT ward, COUNT(*), AVG(cost), STDDEV(price) FROM visits GROUP BY ward"
    prepared = planned(clinic, query)
    assert (
        charge_of(prepared.budgeted, clinic.ledger.budget.kind, clinic.ledger.declarations.neighbours)
        == clinic.session.explain(query, epsilon=1).charge
    )
    assert Fraction(0) < clinic.session.explain(query, epsilon=1).charge.rho
