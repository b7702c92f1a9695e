"""What queries may hold: examples, each put to the engine, so that the reference says what the code does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dpquery.catalog import Catalog
from dpquery.errors import QueryError
from dpquery.plan.aggregates import AGGREGATES as FUNCTIONS
from dpquery.plan.aggregates.aggregate import Form
from dpquery.result.measurements import Measurement
from dpquery.session.session import Session
from tests.docs.worlds import session_over

CATALOG = """\
version: 2
dataset: hospital
privacy_unit: patient
budget: {epsilon: 4, delta: 1e-6}
defaults: {epsilon: 0.1}
tables:
  patients:
    unit: id
    unique: [[id]]
    columns:
      id: {type: int64}
      age: {type: int64, lower: 18, upper: 100}
      sex: {type: text, keys: [F, M]}
      bmi: {type: float64, lower: 10, upper: 80, nullable: true}
      smoker: {type: boolean}
      town: {type: text}
      notes: {type: text, max_length: 40}
  labs:
    unit: id
    max_rows: 20
    columns:
      id: {type: int64}
      lab: {type: int64}
      test: {type: text, keys_from: tests.code}
      value: {type: float64, lower: 0, upper: 500}
      cost: {type: int64, lower: 0, upper: 200}
      urgent: {type: boolean}
      taken: {type: date, lower: 2010-01-01, upper: 2019-12-31}
  flags:
    unit: {via: labs, on: {lab: lab}}
    max_rows: 8
    columns: {lab: {type: int64}, flag: {type: text, keys: [high, low]}}
  tests:
    public: true
    unique: [[code]]
    columns: {code: {type: text}, panel: {type: text}}
"""
ROWS = """\
version: 2
dataset: sales
privacy_unit: row
budget: {epsilon: 4, delta: 1e-6}
defaults: {epsilon: 0.1}
tables:
  sales:
    columns: {item: {type: int64}, price: {type: float64, lower: 0, upper: 500}, shop: {type: text, keys: [east, west]}}
  items:
    public: true
    unique: [[item]]
    columns: {item: {type: int64}, kind: {type: text}}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine says to a query: its columns' measures, or the error."""

    sql: str
    measures: tuple[str, ...] = ()
    selected: bool = False
    error: QueryError | None = None


CLAUSES = {
    "filter": "SELECT COUNT(*) AS n FROM patients WHERE age >= 65 AND bmi IS NOT NULL",
    "GROUP BY columns": "SELECT sex, AVG(age) AS age FROM patients GROUP BY sex",
    "GROUP BY expressions, ordinals, output names": "SELECT age / 10 AS decade, COUNT(*) AS n FROM patients GROUP BY 1",
    "HAVING": "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex HAVING COUNT(*) > 100",
    "HAVING by output names": "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex HAVING n > 100",
    "MIN, MAX, ANY_VALUE of a key": "SELECT sex, MIN(sex) AS least, COUNT(*) AS n FROM patients GROUP BY sex",
    "columns of a public table that follow from a key": (
        "SELECT code, panel, COUNT(*) AS n FROM labs JOIN tests ON test = code GROUP BY code"
    ),
    "ORDER BY": "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex ORDER BY n DESC NULLS LAST",
    "LIMIT, OFFSET, FETCH": "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex ORDER BY n DESC LIMIT 1",
    "DISTINCT": "SELECT DISTINCT town FROM patients",
    "arithmetic on aggregates": "SELECT SUM(value) / COUNT(*) + 1 AS x FROM labs",
    "FILTER": "SELECT COUNT(*) FILTER (WHERE age < 40) AS young FROM patients",
    "join with a public table": (
        "SELECT t.panel, COUNT(*) AS n FROM labs AS l JOIN tests AS t ON l.test = t.code GROUP BY t.panel"
    ),
    "left join, the private table preserved": (
        "SELECT COUNT(t.panel) AS n FROM labs AS l LEFT JOIN tests AS t ON l.test = t.code"
    ),
    "join of private tables on their unit": (
        "SELECT p.sex, AVG(l.value) AS mean FROM patients AS p JOIN labs AS l ON p.id = l.id GROUP BY p.sex"
    ),
    "the parts of a text": (
        "SELECT word, COUNT(*) AS n FROM patients, UNNEST(string_to_array(notes, ',')) AS word GROUP BY word"
    ),
    "USING": "SELECT p.sex, COUNT(*) AS n FROM patients AS p JOIN labs AS l USING (id) GROUP BY p.sex",
    "join in WHERE": "SELECT COUNT(*) AS n FROM patients AS p, labs AS l WHERE p.id = l.id",
    "join along ownership": (
        "SELECT f.flag, COUNT(*) AS n FROM flags AS f JOIN labs AS l ON f.lab = l.lab GROUP BY f.flag"
    ),
    "totals of each unit": "SELECT AVG(n) AS mean FROM (SELECT id, COUNT(*) AS n FROM labs GROUP BY id) AS t",
    "distinct pairs of each unit": "SELECT COUNT(*) AS n FROM (SELECT DISTINCT id, test FROM labs) AS t",
    "WITH": (
        "WITH old AS (SELECT id FROM patients WHERE age > 65)"
        " SELECT COUNT(*) AS n FROM labs JOIN old ON labs.id = old.id"
    ),
    "aggregates of noisy groups": (
        "SELECT MAX(n) AS most FROM (SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex) AS t"
    ),
    "public tables alone, free of charge": "SELECT panel, COUNT(*) AS tests FROM tests GROUP BY panel",
    "rows of single people": "SELECT * FROM patients",
    "a row for each person": "SELECT id, COUNT(*) AS n FROM labs GROUP BY id",
    "join of private tables on anything else": (
        "SELECT COUNT(*) AS n FROM patients AS p JOIN labs AS l ON p.age = l.value"
    ),
    "left and right joins of private tables on their unit": (
        "SELECT COUNT(*) AS n FROM patients AS p LEFT JOIN labs AS l ON p.id = l.id"
    ),
    "full join of private tables on their unit": (
        "SELECT sex, COUNT(*) AS n FROM patients FULL JOIN labs USING (id) GROUP BY sex"
    ),
    "public table preserved, its columns as keys": (
        "SELECT t.code, COUNT(l.id) AS n FROM tests AS t LEFT JOIN labs AS l ON l.test = t.code GROUP BY t.code"
    ),
    "public table preserved, its rows counted": (
        "SELECT t.code, COUNT(*) AS n FROM tests AS t LEFT JOIN labs AS l ON l.test = t.code GROUP BY t.code"
    ),
    "joins in brackets": (
        "SELECT COUNT(*) AS n FROM patients AS p"
        " LEFT JOIN (labs AS l JOIN tests AS t ON l.test = t.code) ON p.id = l.id"
    ),
    "top groups: a noisy result joined on keys of GROUP BY": (
        "SELECT sex, smoker, AVG(bmi) AS mean FROM patients JOIN (SELECT sex AS s FROM patients GROUP BY sex "
        "ORDER BY COUNT(*) DESC LIMIT 1) AS top ON sex = s GROUP BY sex, smoker"
    ),
    "lists of constants": "SELECT COUNT(*) AS n FROM patients WHERE sex = ANY (ARRAY['F']) AND age <> ALL (ARRAY[40])",
    "join of two noisy results": (
        "SELECT a.n FROM (SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex) AS a"
        " JOIN (SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex) AS b ON a.sex = b.sex"
    ),
    "full join with a public table": "SELECT COUNT(*) AS n FROM labs AS l FULL JOIN tests AS t ON l.test = t.code",
    "NATURAL JOIN": "SELECT COUNT(*) AS n FROM patients NATURAL JOIN labs",
    "UNION, INTERSECT, EXCEPT of noisy and public tables": (
        "SELECT COUNT(*) AS n FROM patients UNION ALL SELECT COUNT(*) AS n FROM labs"
    ),
    "UNION ALL of private tables": (
        "SELECT COUNT(*) AS n FROM (SELECT age AS x FROM patients UNION ALL SELECT value FROM labs) AS t"
    ),
    "INTERSECT, EXCEPT of private tables, on their unit": (
        "SELECT COUNT(*) AS n FROM (SELECT id FROM patients EXCEPT SELECT id FROM labs) AS t"
    ),
    "INTERSECT, EXCEPT of private tables, on anything else": (
        "SELECT COUNT(*) AS n FROM (SELECT town FROM patients EXCEPT SELECT test FROM labs) AS t"
    ),
    "UNION of private and public tables": (
        "SELECT COUNT(*) AS n FROM (SELECT test FROM labs UNION ALL SELECT code FROM tests) AS t"
    ),
    "IN with a subquery on the unit": (
        "SELECT COUNT(*) AS n FROM patients WHERE id IN (SELECT id FROM labs WHERE value > 100)"
    ),
    "NOT IN with a public table": (
        "SELECT COUNT(*) AS n FROM labs WHERE test NOT IN (SELECT code FROM tests WHERE panel = 'lipids')"
    ),
    "rows of values in IN": (
        "SELECT COUNT(*) AS n FROM labs WHERE (id, test) IN (SELECT id, test FROM labs WHERE value > 100)"
    ),
    "EXISTS, correlated by the unit": (
        "SELECT COUNT(*) AS n FROM patients AS p"
        " WHERE NOT EXISTS (SELECT 1 FROM labs AS l WHERE l.id = p.id AND l.value > p.age)"
    ),
    "ANY and ALL": "SELECT COUNT(*) AS n FROM labs WHERE id = ANY (SELECT id FROM patients WHERE age > 60)",
    "noisy numbers as values": "SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM patients) AS labs_each FROM labs",
    "a person's own aggregate as a value": (
        "SELECT COUNT(*) AS n FROM labs AS l WHERE value > (SELECT AVG(m.value) FROM labs AS m WHERE m.id = l.id)"
    ),
    "a public number as a value": "SELECT COUNT(*) AS n FROM labs WHERE value > (SELECT COUNT(*) FROM tests)",
    "subqueries on anything but the unit": ("SELECT COUNT(*) AS n FROM patients WHERE age IN (SELECT value FROM labs)"),
    "public rows that private ones match": "SELECT COUNT(*) AS n FROM tests WHERE code IN (SELECT test FROM labs)",
    "noisy numbers that choose private rows, in two steps": (
        "SELECT COUNT(*) AS n FROM labs WHERE value > (SELECT AVG(value) FROM labs)"
    ),
    "IN and EXISTS as values and under OR": (
        "SELECT COUNT(*) FILTER (WHERE smoker OR id IN (SELECT id FROM labs)) AS n FROM patients"
    ),
    "a subquery that may give several rows": ("SELECT COUNT(*) AS n FROM labs WHERE test = (SELECT code FROM tests)"),
    "window functions over noisy groups": (
        "SELECT sex, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM patients GROUP BY sex"
    ),
    "window functions over the rows of each unit": (
        "SELECT AVG(step) AS mean FROM (SELECT value - LAG(value) OVER (PARTITION BY id ORDER BY taken) AS step"
        " FROM labs) AS t"
    ),
    "named windows": (
        "SELECT test, RANK() OVER w AS place, COUNT(*) - LAG(COUNT(*)) OVER w AS gap FROM labs GROUP BY test"
        " WINDOW w AS (ORDER BY COUNT(*) DESC)"
    ),
    "QUALIFY": (
        "SELECT AVG(value) AS first FROM (SELECT * FROM labs"
        " QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY taken) = 1) AS t"
    ),
    "DISTINCT ON": (
        "SELECT AVG(value) AS last FROM (SELECT DISTINCT ON (id) id, value FROM labs ORDER BY id, taken DESC) AS t"
    ),
    "NTILE, PERCENT_RANK, CUME_DIST among all people, in two steps": (
        "SELECT tile, AVG(bmi) AS mean FROM (SELECT bmi, NTILE(4) OVER (ORDER BY age) AS tile FROM patients) AS t"
        " GROUP BY tile"
    ),
    "averages and totals of groups beside private rows, in two steps": (
        "SELECT COUNT(*) AS n FROM (SELECT value, AVG(value) OVER (PARTITION BY test) AS mean FROM labs) AS t"
        " WHERE value > mean"
    ),
    "window functions over rows of different units": (
        "SELECT COUNT(*) AS n FROM (SELECT RANK() OVER (ORDER BY value) AS place FROM labs) AS t WHERE place < 10"
    ),
    "DISTINCT ON without the unit": (
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT ON (test) test, value FROM labs ORDER BY test, taken) AS t"
    ),
    "window functions in WHERE": (
        "SELECT COUNT(*) AS n FROM labs WHERE ROW_NUMBER() OVER (PARTITION BY id ORDER BY taken) = 1"
    ),
    "frames of RANGE with an offset": (
        "SELECT SUM(COUNT(*)) OVER (ORDER BY age RANGE 5 PRECEDING) AS n FROM patients GROUP BY age"
    ),
    "EXCLUDE in a frame": (
        "SELECT SUM(COUNT(*)) OVER (ORDER BY age ROWS 5 PRECEDING EXCLUDE TIES) AS n FROM patients GROUP BY age"
    ),
    "DISTINCT in a window function": "SELECT sex, COUNT(DISTINCT COUNT(*)) OVER () AS n FROM patients GROUP BY sex",
    "IGNORE NULLS": "SELECT sex, LAG(COUNT(*)) IGNORE NULLS OVER (ORDER BY sex) AS n FROM patients GROUP BY sex",
    "ROLLUP, CUBE, GROUPING SETS": "SELECT sex, smoker, COUNT(*) AS n FROM patients GROUP BY ROLLUP (sex, smoker)",
    "GROUPING": "SELECT sex, GROUPING(sex) AS total, COUNT(*) AS n FROM patients GROUP BY CUBE (sex)",
    "GROUP BY ALL": "SELECT sex, smoker, COUNT(*) AS n FROM patients GROUP BY ALL",
    "grouping sets with and without the unit": "SELECT id, sex, COUNT(*) AS n FROM patients GROUP BY ROLLUP (id, sex)",
    "ORDER BY or LIMIT over single people": (
        "SELECT COUNT(*) AS n FROM (SELECT id FROM patients ORDER BY age LIMIT 10) AS t"
    ),
    "TABLESAMPLE": "SELECT COUNT(*) AS n FROM patients TABLESAMPLE SYSTEM (10)",
    "LATERAL": "SELECT COUNT(*) AS n FROM patients AS p, LATERAL (SELECT 1 AS x) AS t",
    "VALUES": (
        "SELECT v.name, COUNT(*) AS n FROM labs JOIN (VALUES ('a1', 'sugar'), ('b2', 'salt')) AS v (code, name)"
        " ON test = code GROUP BY v.name"
    ),
    "SELECT without FROM": "SELECT 1 AS one",
    "several statements": "SELECT COUNT(*) FROM patients; SELECT COUNT(*) FROM labs",
    "other statements": "DELETE FROM patients",
    "locking": "SELECT COUNT(*) AS n FROM patients FOR UPDATE",
    "functions whose value changes": "SELECT COUNT(*) AS n FROM patients WHERE RANDOM() < 0.5",
    "functions that are not listed": "SELECT COUNT(MD5(town)) AS n FROM patients",
    "tables that are not declared": "SELECT COUNT(*) AS n FROM pg_tables",
    "a sum without bounds": "SELECT SUM(lab) AS s FROM labs",
    "parameters without values": "SELECT COUNT(*) AS n FROM patients WHERE age > $1",
}
"""By what they show. Which of them are answered is for the engine to say."""

ROW_CLAUSES = {
    "filter and group": "SELECT shop, AVG(price) AS mean FROM sales GROUP BY shop",
    "join with a public table on a unique key": (
        "SELECT i.kind, COUNT(*) AS n FROM sales AS s JOIN items AS i ON s.item = i.item GROUP BY i.kind"
    ),
    "join with a public table on another key": (
        "SELECT COUNT(*) AS n FROM sales AS s JOIN items AS i ON s.shop = i.kind"
    ),
    "join of private tables": "SELECT COUNT(*) AS n FROM sales AS a JOIN sales AS b ON a.item = b.item",
    "UNION ALL of one private table with itself": (
        "SELECT COUNT(*) AS n FROM (SELECT item FROM sales UNION ALL SELECT item FROM sales) AS t"
    ),
    "window functions over private rows": (
        "SELECT COUNT(*) AS n FROM (SELECT RANK() OVER (PARTITION BY item ORDER BY price) AS place FROM sales) AS t"
    ),
    "distinct values, which are groups and cost delta": (
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT item FROM sales) AS t"
    ),
}

KEYS = {
    "a column with `keys`": "sex",
    "a column with `keys_from`": "test",
    "a boolean column": "smoker",
    "a bounded integer": "age",
    "a bounded date": "taken",
    "whole tens of a bounded integer": "age / 10",
    "`FLOOR` of a bounded number": "FLOOR(bmi / 5)",
    "a part of a bounded date": "EXTRACT(YEAR FROM taken)",
    "a bounded date, cut": "DATE_TRUNC('month', taken)",
    "`WIDTH_BUCKET`": "WIDTH_BUCKET(bmi, 10, 80, 14)",
    "`CASE` with constants": "CASE WHEN age < 40 THEN 'young' ELSE 'old' END",
    "a function of public keys": "LOWER(sex)",
    "a condition": "age > 40",
    "a condition on a nullable column": "bmi > 30",
    "a text without keys": "town",
    "a bounded float": "bmi",
    "an integer without bounds": "lab",
}

_CALLS = (
    *("COUNT(*)", "COUNT(value)", "COUNT_IF(value > 100)", "COUNT(DISTINCT id)", "COUNT(DISTINCT test)", "SUM(value)"),
    *("AVG(value)", "VAR_POP(value)", "VAR_SAMP(value)", "STDDEV_POP(value)", "STDDEV_SAMP(value)", "MIN(value)"),
    *(
        "MAX(value)",
        "MEDIAN(value)",
        "MIN(taken)",
        "MAX(test)",
        "QUANTILE_CONT(value, 0.9)",
        "QUANTILE_DISC(taken, 0.25)",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY value)",
        "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY taken)",
        "APPROX_QUANTILE(value, 0.5)",
        "MODE(test)",
        "MODE() WITHIN GROUP (ORDER BY test)",
        "SUM(DISTINCT value)",
    ),
    *("COUNT(DISTINCT (test, lab))", "COUNT(DISTINCT test, lab)", "APPROX_COUNT_DISTINCT(test)", "AVG(DISTINCT value)"),
    *("SUM(urgent)", "AVG(value > 100)", "COVAR_POP(value, cost)", "COVAR_SAMP(value, cost)", "CORR(value, cost)"),
    *("REGR_SLOPE(value, cost)", "REGR_INTERCEPT(value, cost)", "REGR_R2(value, cost)", "REGR_COUNT(value, cost)"),
    *("REGR_AVGX(value, cost)", "REGR_AVGY(value, cost)", "REGR_SXX(value, cost)", "REGR_SYY(value, cost)"),
    *("REGR_SXY(value, cost)", "BOOL_AND(urgent)", "EVERY(urgent)", "BOOL_OR(urgent)", "BIT_AND(lab)", "BIT_OR(lab)"),
    *("BIT_XOR(lab)", "ANY_VALUE(test)", "ARG_MIN(test, value)", "ARG_MAX(test, value)", "FIRST(value ORDER BY cost)"),
    *("LAST(value ORDER BY cost NULLS FIRST)", "STRING_AGG(test, ',' ORDER BY test)", "STRING_AGG(test, ',')"),
    *(
        "ARRAY_AGG(test)",
        "PRODUCT(cost)",
        "GEOMEAN(GREATEST(cost, 1))",
        "SKEWNESS(value)",
        "KURTOSIS(value)",
        "ENTROPY(test)",
    ),
    *("HISTOGRAM(test)",),
)
_ARGUMENTS = {
    Form.VALUE: "value",
    Form.PAIR: "value, cost",
    Form.CONDITION: "urgent",
    Form.ORDERED: "value ORDER BY cost",
    Form.JOINED: "test, ',' ORDER BY test",
    Form.RANKED: "value, 0.9",
    Form.CHOSEN: "test",
}
_MORE = [
    f"{found.shown}({_ARGUMENTS[found.form]})"
    for found in FUNCTIONS.values()
    if found.shown.endswith(found.name.upper())
]
AGGREGATES = (*_CALLS, *(call for call in _MORE if not any(one.startswith(call.partition("(")[0]) for one in _CALLS)))
"""Aggregates over one table; which of them are answered, and where, is for the engine to say."""

PRICED = (
    *("COUNT(*)", "COUNT(value)", "COUNT_IF(urgent)", "COUNT(DISTINCT id)", "COUNT(DISTINCT test)"),
    *("COUNT(DISTINCT (test, lab))", "SUM(value)", "SUM(urgent)", "AVG(value)", "VAR_POP(value)", "STDDEV_SAMP(value)"),
    *("COVAR_POP(value, cost)", "COVAR_SAMP(value, cost)", "CORR(value, cost)", "REGR_SLOPE(value, cost)"),
    *("REGR_INTERCEPT(value, cost)", "REGR_R2(value, cost)", "REGR_COUNT(value, cost)", "REGR_AVGX(value, cost)"),
    *("REGR_AVGY(value, cost)", "REGR_SXX(value, cost)", "REGR_SYY(value, cost)", "REGR_SXY(value, cost)"),
)
"""Aggregates over different privacy units, to be shown with their sensitivity and their error: one line each."""


class Engine:
    """Puts queries to sessions without rows."""

    def __init__(self) -> None:
        self._folders = [TemporaryDirectory(), TemporaryDirectory(), TemporaryDirectory()]
        pure = CATALOG.replace("{epsilon: 4, delta: 1e-6}", "{epsilon: 4}")
        catalogs = (Catalog.from_yaml(CATALOG), Catalog.from_yaml(ROWS), Catalog.from_yaml(pure))
        self.units, self.rows, self.pure = (
            session_over(catalog, Path(folder.name)) for catalog, folder in zip(catalogs, self._folders, strict=True)
        )

    def ask(self, sql: str, session: Session | None = None) -> Answer:
        """Returns what a query would measure, or why it is refused."""
        try:
            plan = (session or self.units).explain(sql)
        except QueryError as error:
            return Answer(sql, error=error)
        return Answer(
            sql,
            measures=tuple(dict.fromkeys(made.label for made in plan.measurements)),
            selected=any(made.tau is not None for made in plan.measurements),
        )

    def price(self, call: str) -> tuple[Measurement, ...]:
        """Returns what an aggregate over the lab values of all patients measures for an epsilon of 1 in all."""
        return self.pure.explain(f"SELECT {call} AS x FROM labs", epsilon="1").measurements

    def close(self) -> None:
        """Removes the ledgers."""
        for folder in self._folders:
            folder.cleanup()
