"""Attacks on groups and their selection (GRP): which rows an answer has tells no more than its noise allows."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from dpquery.catalog import Catalog
from dpquery.errors import CatalogError, MissingDeltaError
from dpquery.kernel.mechanisms import NoiseLaw, least_tau
from dpquery.kernel.plan import Mechanism
from tests.attacks.clinic import CATALOG, Clinic, frames

REFUSED = [
    ("GRP-08", "SELECT ward FROM visits ORDER BY cost"),
    ("GRP-08", "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY note"),
    ("GRP-08", "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING MAX(note) > 'a'"),
    ("GRP-08", "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING cost > 3"),
    ("GRP-08", "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING free > 3"),
    ("GRP-08", "SELECT ward, COUNT(*) FROM visits GROUP BY ward LIMIT COUNT(*)"),
    ("GRP-09", "SELECT ward, note, COUNT(*) FROM visits GROUP BY ward, note WITH TIES"),
    ("GRP-10", "SELECT COUNT(*) FROM visits GROUP BY 9"),
]


@pytest.mark.parametrize(("row", "query"), REFUSED, ids=[f"{row} {query[:60]}" for row, query in REFUSED])
def test_refused_before_a_row_is_read(clinic: Clinic, row: str, query: str) -> None:
    assert clinic.refuses(query), row


def lonely(folder: Path, **more: object) -> Clinic:
    """Returns a clinic in which one town has one person."""
    people = frames()["people"]
    people["town"] = "east"
    people.loc[7, "town"] = "Little Whinging"
    return Clinic(folder, tables={"people": people}, **more)  # type: ignore[arg-type]


def test_a_group_of_one_person_does_not_show(tmp_path: Path) -> None:
    """GRP-01: 60 answers, each with a delta of 5e-6: the lonely town shows twice with a probability of 1e-7."""
    alone = lonely(tmp_path)
    shown = Counter(
        town for _ in range(60) for town, _ in alone.rows("SELECT town, COUNT(*) FROM people GROUP BY town", epsilon=8)
    )
    assert shown["east"] == 60
    assert shown["Little Whinging"] < 2


def test_groups_without_delta_are_refused(tmp_path: Path) -> None:
    """GRP-01: no delta, no selection: refused, never shown without a threshold."""
    pure = lonely(tmp_path, budget="{epsilon: 10}")
    pure.refuses("SELECT town, COUNT(*) FROM people GROUP BY town", MissingDeltaError)
    pure.refuses("SELECT DISTINCT town FROM people", MissingDeltaError)
    pure.refuses("SELECT town FROM people GROUP BY town", MissingDeltaError)
    pure.refuses("SELECT sex, town, COUNT(*) FROM people GROUP BY sex, town", MissingDeltaError)


@pytest.mark.parametrize("groups", [1, 2, 7])
@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 1000), Fraction(1, 10**6)])
def test_tau_is_that_of_its_own_noise(groups: int, delta: Fraction) -> None:
    """GRP-02: worked out from the laws themselves, for the number of groups that one person may be in."""
    scale, variance = 3, 16
    laplace = least_tau(NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(scale)), groups, delta)
    q = math.exp(-1 / scale)
    tail = q ** (laplace - 1) / (1 + q)
    assert tail <= delta / groups < tail / q
    gaussian = least_tau(NoiseLaw(mechanism=Mechanism.GAUSSIAN, parameter=Fraction(variance)), groups, delta)
    weights = {k: math.exp(-(k**2) / (2 * variance)) for k in range(-100, 101)}
    total = sum(weights.values())
    beyond = sum(w for k, w in weights.items() if k >= gaussian - 1) / total
    before = sum(w for k, w in weights.items() if k >= gaussian - 2) / total
    assert beyond <= delta / groups < before


def test_selection_counts_people_not_rows(tmp_path: Path, no_noise: None) -> None:
    """GRP-02: one person with many rows in a group is one unit for the threshold, whatever is released."""
    visits = frames()["visits"]
    visits["note"] = "common"
    visits.loc[visits.id == 0, "note"] = "secret"
    one = Clinic(tmp_path, tables={"visits": visits})
    for query in [
        "SELECT note, COUNT(*) FROM visits GROUP BY note",
        "SELECT note, SUM(cost) FROM visits GROUP BY note",
        "SELECT note, COUNT(*) FILTER (WHERE urgent) FROM visits GROUP BY note",
        "SELECT note, SUM(1000) FROM visits GROUP BY note",
        "SELECT DISTINCT note FROM visits",
    ]:
        shown = [row[0] for row in one.rows(query, epsilon=50, max_rows=1000)]
        assert shown == ["common"]
        (tau,) = {m.tau for m in one.session.explain(query, epsilon=50, max_rows=1000).measurements if m.tau}
        assert tau > 1


def test_the_delta_of_selection_and_of_conversion_are_both_counted(clinic: Clinic) -> None:
    """GRP-03: with an epsilon and a delta, all of the delta selects where Laplace noise needs none, else a part of it;
    the ledger counts it."""
    query = "SELECT town, COUNT(*) FROM people GROUP BY town"
    by_rho = clinic.session.explain(query, rho="0.01", delta="1e-6")
    assert by_rho.charge.delta == Fraction(1, 10**6)
    pure = clinic.session.explain(query, epsilon="0.1", delta="1e-6")
    assert {m.mechanism for m in pure.measurements} == {"laplace"} and pure.charge.delta == Fraction(1, 10**6)
    mixed = clinic.session.explain("SELECT note, COUNT(*) FROM visits GROUP BY note", epsilon="0.1", delta="1e-6")
    assert "gaussian" in {m.mechanism for m in mixed.measurements}
    assert 0 < mixed.charge.delta < Fraction(1, 10**6) and mixed.guarantee.delta <= Fraction(1, 10**6)
    assert pure.guarantee.delta <= Fraction(1, 10**6)
    towns = "(SELECT town, COUNT(*) FROM people GROUP BY town)"
    both = f"SELECT a.town FROM {towns} a JOIN {towns} b USING (town)"
    assert clinic.session.explain(both, rho="0.01", delta="1e-6").charge.delta == Fraction(1, 10**6)
    assert clinic.session.explain("SELECT sex, COUNT(*) FROM people GROUP BY sex", rho="0.01").charge.delta == 0


def test_missing_public_groups_appear_each_with_its_own_noise(tmp_path: Path) -> None:
    """GRP-04: keys without rows are there, and no two of them share a draw."""
    empty = Clinic(tmp_path, tables={"visits": frames()["visits"].iloc[:0]})
    query = "SELECT EXTRACT(doy FROM day) AS d, COUNT(*) AS n FROM visits GROUP BY 1"
    counts = [n for _, n in empty.rows(query, epsilon="0.01")]
    assert len(counts) == 366
    assert len(set(counts)) > 200
    assert counts != [n for _, n in empty.rows(query, epsilon="0.01")]
    wards = [ward for ward, _ in empty.rows("SELECT ward, COUNT(*) FROM visits GROUP BY ward")]
    assert wards == ["empty", "x", "y", "z"]


def test_values_outside_the_public_keys_vanish(tmp_path: Path, no_noise: None) -> None:
    """GRP-05: unknown values and NULL are dropped without a word."""
    visits = frames()["visits"]
    visits["ward"] = visits["ward"].astype(object)
    visits.loc[visits.index[:50], "ward"] = "Q"
    visits.loc[visits.index[50:60], "ward"] = None
    visits.loc[visits.index[60:70], "ward"] = "X"
    people = frames()["people"]
    people["age"] = people["age"].astype("Int64")
    people.loc[0, "age"], people.loc[1, "age"], people.loc[2, "age"] = 500, -1, pd.NA
    odd = Clinic(tmp_path, tables={"visits": visits, "people": people})
    assert [ward for ward, _ in odd.rows("SELECT ward, COUNT(*) FROM visits GROUP BY ward")] == ["empty", "x", "y", "z"]
    ages = odd.rows("SELECT age, COUNT(*) FROM people GROUP BY age")
    assert [age for age, _ in ages] == list(range(101))
    assert sum(n for _, n in ages) == len(people) - 3


def test_groups_of_a_person_add_up(clinic: Clinic) -> None:
    """GRP-06: a person's rows weigh as much over all wards as in one; as a person one counts in as many as said."""
    (by_ward,) = clinic.session.explain("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=1).measurements
    assert [by_ward.linf, by_ward.l1, by_ward.l2] == [5, 5, 5]
    (people,) = clinic.session.explain(
        "SELECT ward, COUNT(DISTINCT id) FROM visits GROUP BY ward", epsilon=1
    ).measurements
    assert [people.linf, people.l1] == [1, 2]
    (by_sex,) = clinic.session.explain("SELECT sex, COUNT(*) FROM people GROUP BY sex", epsilon=1).measurements
    assert [by_sex.linf, by_sex.l1] == [1, 1]
    (joined,) = clinic.session.explain(
        "SELECT sex, COUNT(*) FROM people JOIN visits USING (id) GROUP BY sex", epsilon=1
    ).measurements
    assert [joined.linf, joined.l1] == [5, 5]


def test_two_sexes_of_one_person_weigh_once(tmp_path: Path, no_noise: None) -> None:
    """GRP-06: data that break the declared uniqueness are not opened; without it both rows weigh a half."""
    people = pd.concat([frames()["people"].assign(sex="F"), frames()["people"].assign(sex="M")])
    with pytest.raises(CatalogError, match="table people is not unique by id"):
        Clinic(tmp_path, tables={"people": people})
    several = CATALOG.replace("    unique: [[id]]\n", "    max_rows: 1\n", 1)
    double = Clinic(tmp_path, catalog=several, tables={"people": people})
    query = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    (made,) = double.session.explain(query, epsilon=1).measurements
    assert [made.linf, made.l1] == [1, 1]
    assert sum(n for _, n in double.rows(query)) == len(people) // 2


def test_queries_over_disjoint_parts_are_charged_each(clinic: Clinic) -> None:
    """GRP-07: four queries over disjoint parts cost four times one; within one query, where proved, the dearest."""
    before = clinic.session.remaining.rho
    for low in range(0, 100, 25):
        clinic.sql(f"SELECT COUNT(*) FROM people WHERE age >= {low} AND age < {low + 25}", rho="0.01")
    assert before - clinic.session.remaining.rho == Fraction(4, 100)
    query = "SELECT COUNT(*) FILTER (WHERE age < 50), COUNT(*) FILTER (WHERE age >= 50) FROM people"
    plan = clinic.session.explain(query, rho="0.01")
    assert [(m.loss.rho, m.parallel) for m in plan.measurements] == [(Fraction(1, 100), 2)] * 2
    assert plan.charge.rho >= Fraction(1, 100)
    overlapping = clinic.session.explain(query.replace(">= 50", ">= 49"), rho="0.01")
    assert sum(m.loss.rho for m in overlapping.measurements) == Fraction(1, 100)


def test_having_order_and_limit_look_at_noisy_numbers(tmp_path: Path) -> None:
    """GRP-08: with so little epsilon that noise drowns the counts, order and HAVING follow the noise."""
    big = Clinic(tmp_path)
    query = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    orders, kept = set(), set()
    for _ in range(30):
        ordered = big.rows(f"{query} ORDER BY n DESC", epsilon="0.001")
        assert [n for _, n in ordered] == sorted((n for _, n in ordered), reverse=True)
        orders.add(tuple(ward for ward, _ in ordered))
        having = big.rows(f"{query} HAVING COUNT(*) > 10", epsilon="0.001")
        assert all(n > 10 for _, n in having)
        kept.add(len(having))
    assert len(orders) > 5
    assert len(kept) > 2


def test_an_aggregate_in_order_or_having_is_charged(clinic: Clinic) -> None:
    """GRP-08: what only sorts or filters is measured and paid for."""
    plain = clinic.session.explain("SELECT ward, COUNT(*) FROM visits GROUP BY ward", rho="0.01")
    for tail in ["ORDER BY SUM(price)", "HAVING SUM(price) > 10"]:
        more = clinic.session.explain(f"SELECT ward, COUNT(*) FROM visits GROUP BY ward {tail}", rho="0.01")
        assert len(more.measurements) == len(plain.measurements) + 1
        assert more.charge.rho == Fraction(1, 100)
        terms = [m.loss.rho for m in more.measurements]  # of one vector each loses all, once
        assert sum(terms) <= Fraction(1, 100) or set(terms) == {Fraction(1, 100)}


@pytest.mark.parametrize("sets", ["ROLLUP (ward)", "CUBE (ward, urgent)", "GROUPING SETS ((ward), ())"])
def test_grouping_sets_are_each_charged_or_sums_of_others(clinic: Clinic, sets: str) -> None:
    """GRP-09: a total is a release of its own, or nothing but the sum of the noisy groups that are shown."""
    plan = clinic.session.explain(f"SELECT ward, COUNT(DISTINCT day) FROM visits GROUP BY {sets}", rho="0.01")
    assert len(plan.measurements) == (4 if "CUBE" in sets else 2)
    assert plan.charge.rho >= sum(m.loss.rho for m in plan.measurements)
    query = f"SELECT ward, COUNT(*) AS n FROM visits GROUP BY {sets}"
    plan = clinic.session.explain(query, rho="0.01", max_groups=1)
    assert plan.charge.rho >= sum(m.loss.rho for m in plan.measurements)
    added = str(plan).count("free: sums of release")
    assert len(plan.measurements) == (4 if "CUBE" in sets else 2) - added
    if added and "CUBE" not in sets:
        answer = clinic.session.sql(query, rho="0.01", max_groups=1).to_pandas()
        assert answer["n"].iloc[-1] == answer["n"].iloc[:-1].sum()


KEYS = [
    ("id % 10", 19),
    ("EXTRACT(month FROM day)", 12),
    ("DATE_TRUNC('month', day)", 12),
    ("DATE_TRUNC('month', moment)", 12),
    ("CASE WHEN age < 18 THEN 'child' ELSE 'adult' END", 2),
    ("WIDTH_BUCKET(age, 0, 100, 10)", 11),
    ("FLOOR(age / 10)", 11),
    ("age / 10", 11),
    ("urgent", 2),
    ("UPPER(sex)", 2),
    ("sex || ward", 8),
    ("age * 1000000 + big", None),
    ("free > 0", 2),
    ("CAST(day AS TEXT)", 366),
    ("note", None),
]


@pytest.mark.parametrize(("key", "groups"), KEYS, ids=[key for key, _ in KEYS])
def test_keys_come_from_the_declarations_alone(clinic: Clinic, tmp_path: Path, key: str, groups: int | None) -> None:
    """GRP-10: the plan of a query is the same over an empty table, and without public keys there is a threshold."""
    query = f"SELECT {key} AS k, COUNT(*) FROM visits JOIN people USING (id) GROUP BY 1"
    empty = Clinic(tmp_path, tables={name: frame.iloc[:0] for name, frame in frames().items() if name[0] in "vpf"})
    full, none = (c.session.explain(query, epsilon=1) for c in (clinic, empty))
    assert str(full) == str(none)
    assert (full.charge, full.measurements) == (none.charge, none.measurements)
    if groups is None:
        assert full.measurements[0].tau is not None or full.charge.delta > 0
        return
    assert full.charge.delta == 0
    answer = empty.rows(query)
    assert abs(len(answer) - groups) <= 2
    assert [row[0] for row in answer] == [row[0] for row in clinic.rows(query)]


def test_too_many_public_keys_are_selected(clinic: Clinic, tmp_path: Path) -> None:
    """GRP-10: 366 days, 101 ages and 4 wards: a column of them has a threshold, and is refused without a delta."""
    query = "SELECT day, age, ward, COUNT(*) FROM visits JOIN people USING (id) GROUP BY 1, 2, 3"
    plan = clinic.session.explain(query, epsilon=1)
    assert plan.charge.delta > 0
    assert max(made.tau or 0 for made in plan.measurements) > 1
    assert "day selected, age public(101), ward public(4)" in str(plan)
    assert clinic.rows(query) == []
    pure = Clinic(tmp_path, budget="{epsilon: 10}")
    assert "delta" in str(pure.refuses(query))


MISTAKES = {
    "NO as a boolean": ("keys: [F, M]", "keys: [YES, NO, F]", ("YES", "NO", "F")),
    "leading zeros": ("keys: [F, M]", "keys: [010, 8]", ("010", "8")),
    "a sexagesimal": ("keys: [F, M]", "keys: [1:30, 90]", ("1:30", "90")),
    "an octal": ("keys: [F, M]", "keys: [0o17, 15]", ("0o17", "15")),
    "null as text": ("keys: [F, M]", "keys: ['null', '~']", ("null", "~")),
    "trailing blanks": ("keys: [F, M]", "keys: ['F', 'F ']", ("F", "F ")),
    "case": ("keys: [F, M]", "keys: [f, F]", ("f", "F")),
    "duplicates": ("keys: [F, M]", "keys: [F, F]", None),
    "quoted duplicates": ("keys: [F, M]", "keys: [F, 'F']", None),
    "nothing": ("keys: [F, M]", "keys: []", None),
    "a mapping": ("keys: [F, M]", "keys: {F: M}", None),
    "numbers twice": ("age: {type: int64, lower: 0, upper: 100}", "age: {type: int64, keys: [1, 01]}", None),
    "float keys twice": (
        "age: {type: int64, lower: 0, upper: 100}",
        "age: {type: float64, lower: 0, upper: 9, keys: [1, 1.0]}",
        None,
    ),
    "minus zero": ("age: {type: int64, lower: 0, upper: 100}", "age: {type: float64, keys: [0.0, -0.0]}", None),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_public_keys_are_what_was_written(name: str) -> None:
    """GRP-11: a key that YAML would turn into something else stays text; a doubled key is refused."""
    old, new, keys = MISTAKES[name]
    text = CATALOG.replace("BUDGET", "{epsilon: 1}").replace(old, new, 1)
    if keys is None:
        with pytest.raises(CatalogError):
            Catalog.from_yaml(text)
        return
    assert Catalog.from_yaml(text).tables["people"].columns["sex"].keys == keys


def test_public_tables_with_doubled_keys_double_nothing(tmp_path: Path, no_noise: None) -> None:
    """GRP-11: keys_from takes each value once; a unique column that is not is refused."""
    text = CATALOG.replace("    unique: [[code]]\n", "")
    wards = pd.DataFrame({"code": ["x", "x", "y", None], "floor": [1, 2, 3, 4]})
    doubled = Clinic(tmp_path, catalog=text, tables={"wards": wards})
    assert [ward for ward, _ in doubled.rows("SELECT ward, COUNT(*) FROM visits GROUP BY ward")] == ["x", "y"]
    (tmp_path / "strict").mkdir()
    with pytest.raises(CatalogError, match="not unique"):
        Clinic(tmp_path / "strict", tables={"wards": wards})


def test_a_family_shares_a_key(tmp_path: Path, no_noise: None) -> None:
    """GRP-12: the threshold hides one person, not a value that many share; how many must share it is shown as tau."""
    people = frames()["people"]
    people["town"] = [f"t{i % 3}" if i < 45 else f"lonely {i}" for i in range(len(people))]
    shared = Clinic(tmp_path, tables={"people": people})
    query = "SELECT town, COUNT(*) FROM people GROUP BY town"
    plan = shared.session.explain(query, epsilon=20)
    tau = plan.measurements[0].tau
    assert tau is not None
    assert f"tau={tau}" in str(plan)
    shown = [town for town, _ in shared.rows(query, epsilon=20)]
    assert shown == (["t0", "t1", "t2"] if tau <= 15 else [])
