"""What a query asks twice is measured once, and nothing else is."""

from __future__ import annotations

import pytest

import dpquery as dp
from tests.cases.catalogs import session_of
from tests.scripted import zero_noise

COUNT = "SELECT COUNT(*) FROM labs"


@pytest.mark.parametrize(
    ("query", "measured"),
    [
        (f"SELECT ({COUNT}), ({COUNT})", ["COUNT(*)"]),
        (f"SELECT ({COUNT}), ({COUNT} AS l)", ["COUNT(*)"]),
        (f"SELECT ({COUNT} WHERE test = 'c1'), ({COUNT} WHERE test = 'c1')", ["COUNT(*)"]),
        (f"SELECT ({COUNT} WHERE test = 'c1'), ({COUNT} WHERE test = 'c2')", ["COUNT(*)"] * 2),
        (f"SELECT ({COUNT} WHERE value > 1), ({COUNT} WHERE value > 2)", ["COUNT(*)"] * 2),
        (f"SELECT ({COUNT} WHERE lab_id > 1), ({COUNT} WHERE id > 1)", ["COUNT(*)"] * 2),
        (f"SELECT ({COUNT}), (SELECT COUNT(*) FROM patients)", ["COUNT(*)"] * 2),
        (f"SELECT ({COUNT}), (SELECT COUNT(DISTINCT test) FROM labs)", ["COUNT(*)", "COUNT(DISTINCT test)"]),
        (
            f"SELECT ({COUNT}), (SELECT COUNT(*) FILTER (WHERE urgent) FROM labs)",
            ["COUNT(*) FILTER (WHERE NOT (urgent))", "COUNT(*) FILTER (WHERE urgent)"],
        ),
        (
            "SELECT (SELECT SUM(age) FROM patients), (SELECT SUM(age + 1) FROM patients)",
            ["SUM(98 - age)", "SUM(age - 18)"],
        ),
        ("SELECT (SELECT SUM(severity) FROM lab_flags), (SELECT SUM(severity) FROM lab_flags)", ["SUM(severity)"]),
        (
            "SELECT (SELECT COUNT(*) FROM labs JOIN patients USING (id)), (SELECT COUNT(*) FROM labs AS l"
            " JOIN patients AS p ON l.id = p.id)",
            ["COUNT(*)"],
        ),
        (
            "WITH c AS (SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex), d AS (SELECT ward, COUNT(*) AS n"
            " FROM patients GROUP BY ward) SELECT c.n, d.n FROM c, d, c AS e",
            ["COUNT(*)"] * 2,
        ),
    ],
)
def test_equal_boundaries_are_one(query: str, measured: list[str]) -> None:
    session = session_of("hospital")
    assert sorted(made.label for made in session.explain(query).measurements) == sorted(measured)


def test_a_table_that_is_read_twice_keeps_its_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    session = session_of("hospital")
    query = (
        "WITH c AS (SELECT ward, COUNT(*) AS n FROM patients GROUP BY ward)"
        " SELECT a.ward, a.n + b.n AS twice, d.n AS other FROM c AS a JOIN c AS b ON a.ward = b.ward"
        " JOIN c AS d ON a.ward < d.ward WHERE d.ward = 2"
    )
    answer = session.sql(query)
    assert answer.to_arrow().to_pylist() == [{"ward": 1, "twice": 16, "other": 5}]
    once = session.sql("SELECT COUNT(*) AS n FROM patients").accuracy
    width = once["n", "upper"][0] - once["n", "lower"][0]
    found = answer.accuracy
    assert found["other", "upper"][0] - found["other", "lower"][0] == width
    assert found["twice", "upper"][0] - found["twice", "lower"][0] >= 2 * width
    assert found["twice", "upper"][0] + found["twice", "lower"][0] == 32


def test_deep_and_wide_queries_are_refused_quickly() -> None:
    session = session_of("hospital")
    wide = " AND ".join(f"id IN (SELECT id FROM patients WHERE age > {i})" for i in range(500))
    deep = "SELECT id FROM patients"
    for _ in range(45):
        deep = f"SELECT id FROM patients WHERE id IN ({deep})"
    doubled = "WITH c0 AS (SELECT 1 AS x)"
    for i in range(1, 12):
        doubled += f", c{i} AS (SELECT (SELECT x FROM c{i - 1}) + (SELECT x + 1 FROM c{i - 1}) AS x)"
    for query in (f"SELECT COUNT(*) FROM patients WHERE {wide}", deep, f"{doubled} SELECT x FROM c11"):
        with pytest.raises(dp.QueryError):
            session.explain(query)
