"""A small study in the shape of the demo's, and a grammar of queries over it whose plain answers DuckDB knows.

A query is *mild* when no group of it can be empty: its keys and conditions hold for plenty of rows, so that whatever
stands above its aggregates must agree exactly. Otherwise only a plain list of keys and aggregates is written, where
groups without rows can be told from others. New parts of SQL are new entries of the lists of forms.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from dpquery.frontends.cli.demo_files import NAFLD

PATIENTS = 60
TESTS, EVENTS = ("hdl", "sbp"), ("ang", "cancer", "diabetes", "stroke")
CATALOG = re.sub(r"(?m)^budget:.*$", "budget: {epsilon: 1000000, delta: 0.5}", NAFLD)
CATALOG = re.sub(r"(?m)^analysts:.*$", "", CATALOG)
CATALOG = CATALOG.replace("defaults: {", "defaults: {least_charge: 1e-12, ")


def frames(seed: int = 1, patients: int = PATIENTS) -> dict[str, pd.DataFrame]:
    """Returns rows within the declared bounds; every patient has rows in every table."""
    draw = random.Random(seed)
    ids = range(1, patients + 1)
    people = [
        {
            "id": id,
            "age": draw.randint(18, 100),
            "sex": "FM"[id % 2],
            "weight": draw.choice([None, draw.randint(60, 500) / 2]),
            "height": float(draw.randint(120, 220)),
            "bmi": draw.choice([None, draw.randint(48, 280) / 4, draw.randint(48, 280) / 4]),
            "futime": draw.randint(0, 7300),
            "died": draw.random() < 0.5,
        }
        for id in ids
    ]
    labs = [
        {"id": id, "days": draw.randint(-3000, 3000), "test": test, "value": draw.randint(0, 1600) / 4}
        for id in ids
        for test in TESTS * draw.randint(1, 4)
    ]
    events = [
        {"id": id, "days": draw.randint(-3000, 3000), "event": draw.choice(EVENTS)}
        for id in ids
        for _ in range(draw.randint(1, 3))
    ]
    return {"patients": pd.DataFrame(people), "labs": pd.DataFrame(labs), "events": pd.DataFrame(events)}


@dataclass(frozen=True, kw_only=True)
class Source:
    """What stands after FROM, with what it offers: mild conditions hold for many rows in each group of mild keys."""

    text: str
    numbers: tuple[str, ...]
    conditions: tuple[str, ...]
    keys: tuple[str, ...]
    mild_conditions: tuple[str, ...]
    mild_keys: tuple[str, ...]
    before: str = ""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query of DuckDB's dialect.

    Attributes:
        mild: No group is empty.
        ordered: All columns are in its order.
        broken: It may be no SQL.
    """

    text: str
    mild: bool
    ordered: bool = False
    broken: bool = False


_DATE = "(DATE '2000-06-15' + {}days)"


def _rows(alias: str) -> dict[str, tuple[str, ...]]:
    date = _DATE.format(alias)
    return {
        "numbers": (
            f"{alias}days",
            f"ABS({alias}days)",
            f"{alias}days % 30",
            f"({date} - DATE '2000-01-01')",
            f"EXTRACT(YEAR FROM {date})",
            f"DATE_DIFF('month', {date}, DATE '2000-01-01')",
        ),
        "conditions": (
            f"{alias}days > 0",
            f"{alias}days BETWEEN -500 AND 500",
            f"{date} < DATE '1999-03-04'",
            f"{alias}days IN (1, 2, 3)",
        ),
        "mild_conditions": (f"{alias}days > -2500", f"{alias}days IS NOT NULL", f"{date} < DATE '2007-03-04'"),
        "keys": (
            f"EXTRACT(YEAR FROM {date})",
            f"DATE_TRUNC('year', {date})",
            f"{alias}days // 1000",
            f"{alias}days > 2000",
            f"EXTRACT(MONTH FROM {date})",
        ),
    }


LABS, DAYS = _rows("l."), _rows("e.")
PATIENT_NUMBERS = (
    *(
        "p.age",
        "p.futime",
        "p.bmi",
        "p.height",
        "p.weight",
        "p.age * 2 - 5",
        "p.futime // 365",
        "p.futime / 7",
        "p.bmi / 2",
    ),
    *("CASE WHEN p.died THEN p.age ELSE 0 END", "COALESCE(p.bmi, 25)", "CLAMP(p.weight / p.height, 0, 3)"),
    *("LEAST(p.age, 65)", "GREATEST(p.bmi, 20, p.age)", "ROUND(p.bmi + 0.1)", "NULLIF(p.age, 40)", "p.age % 10"),
    *("SQRT(p.height)", "LENGTH(p.sex)", "CAST(p.bmi + 0.1 AS BIGINT)", "FLOOR(p.weight / 10)"),
)
LAB_NUMBERS = ("l.value", "l.value / 10", "l.value * 2 + 1", "SQRT(l.value)", *LABS["numbers"])
PATIENT = Source(
    text="patients p",
    numbers=PATIENT_NUMBERS,
    conditions=(
        *("p.age > 95", "p.sex = 'F'", "p.bmi IS NULL", "NOT p.died", "p.age BETWEEN 40 AND 50", "p.weight > p.height"),
        *("p.sex LIKE 'M%'", "p.died OR p.age < 30", "p.bmi > 30 AND p.died", "p.sex IN ('M', 'X')"),
    ),
    keys=("p.age // 10", "p.bmi > 30", "p.age", "FLOOR(p.bmi / 10)", "p.futime // 1000", "UPPER(p.sex) || 'x'"),
    mild_conditions=("p.age > 20", "p.age < 99", "p.futime >= 0", "p.height > 121", "p.age <> 50"),
    mild_keys=(
        *("p.sex", "p.died", "LOWER(p.sex)", "p.age > 60", "CASE WHEN p.age < 60 THEN 'young' ELSE 'old' END"),
        "CASE WHEN p.died THEN 1 ELSE 2 END",
    ),
)
LAB = Source(
    text="labs l",
    numbers=LAB_NUMBERS,
    conditions=("l.value > 390", "l.test = 'sbp'", "l.value BETWEEN 10 AND 20", "l.test <> 'hdl'", *LABS["conditions"]),
    keys=("FLOOR(l.value / 50)", *LABS["keys"]),
    mild_conditions=("l.value > 5", "l.value < 399", *LABS["mild_conditions"]),
    mild_keys=("l.test", "l.days > 0", "l.value > 200", "CASE WHEN l.test = 'sbp' THEN 'pressure' ELSE 'fat' END"),
)
EVENT = Source(
    text="events e",
    numbers=DAYS["numbers"],
    conditions=("e.event = 'stroke'", "e.event LIKE '%a%'", *DAYS["conditions"]),
    keys=("e.event", "LENGTH(e.event)", *DAYS["keys"]),
    mild_conditions=DAYS["mild_conditions"],
    mild_keys=("e.days > 0", "e.event = 'stroke'", "e.event"),
)


def _joined(text: str, *sources: Source) -> Source:
    return Source(
        text=text,
        numbers=tuple(x for s in sources for x in s.numbers),
        conditions=tuple(x for s in sources for x in s.conditions),
        keys=tuple(x for s in sources for x in s.keys),
        mild_conditions=tuple(x for s in sources for x in s.mild_conditions),
        mild_keys=tuple(x for s in sources for x in s.mild_keys if "event" not in x),
    )


def _made(
    text: str, numbers: Sequence[str], conditions: Sequence[str], keys: Sequence[str], before: str = ""
) -> Source:
    """Returns a source of which nothing mild is known but that it has rows."""
    return Source(
        text=text,
        numbers=tuple(numbers),
        conditions=tuple(conditions),
        keys=tuple(keys),
        mild_conditions=("1 = 1",),
        mild_keys=(),
        before=before,
    )


SOURCES = (
    *(PATIENT, PATIENT, LAB, LAB, EVENT),
    _joined("patients p JOIN labs l ON p.id = l.id", PATIENT, LAB),
    _joined("patients AS p, labs AS l WHERE p.id = l.id", PATIENT, LAB),
    _joined("labs l JOIN patients p USING (id)", PATIENT, LAB),
    _joined("patients p JOIN events e ON e.id = p.id", PATIENT, EVENT),
    replace(LAB, text="(SELECT * FROM labs WHERE value >= 0) l"),
    replace(PATIENT, before="WITH p AS (SELECT * FROM patients WHERE age < 101) ", text="p"),
    _made(
        "(SELECT id, COUNT(*) AS n, SUM(value) AS s, MAX(days) AS d, AVG(value) AS m FROM labs GROUP BY id) u",
        ("u.n", "CLAMP(u.s, 0, 5000)", "u.d", "u.m", "CLAMP(u.s / u.n, 0, 400)"),
        ("u.n > 4", "u.s > 1000", "u.d > 0"),
        ("u.n > 4", "LEAST(u.n, 5)"),
    ),
    _made(
        "(SELECT l.id, p.sex, COUNT(*) AS n, MIN(l.value) AS v FROM labs l JOIN patients p ON l.id = p.id"
        " GROUP BY l.id, p.sex HAVING COUNT(*) > 2) u",
        ("u.n", "u.v"),
        ("u.n > 4", "u.v > 100"),
        ("u.sex", "u.n > 4"),
    ),
    _made(
        "(SELECT DISTINCT id, event FROM events) u",
        ("LENGTH(u.event)", "1"),
        ("u.event <> 'stroke'",),
        ("u.event", "u.event = 'ang'"),
    ),
    _made(
        "(SELECT id, test AS what, value AS x FROM labs UNION ALL SELECT id, 'age', age FROM patients) u",
        ("u.x", "u.x * 2"),
        ("u.x > 50", "u.what = 'age'"),
        ("u.what", "u.x > 100"),
    ),
    _made(
        "(SELECT days FROM labs UNION ALL SELECT days FROM events UNION ALL SELECT futime FROM patients WHERE died) u",
        ("u.days", "ABS(u.days)"),
        ("u.days > 0",),
        ("u.days > 0", "u.days // 2000"),
    ),
    _made(
        "(SELECT id, sex FROM patients UNION SELECT id, test FROM labs UNION SELECT id, event FROM events) u",
        ("1", "LENGTH(u.sex)"),
        ("u.sex <> 'F'",),
        ("u.sex IN ('F', 'M')", "LENGTH(u.sex) > 3"),
    ),
    _made(
        "(SELECT id FROM patients WHERE age > 40 INTERSECT SELECT id FROM labs WHERE value > 300) u"
        " JOIN patients p ON u.id = p.id",
        PATIENT_NUMBERS,
        PATIENT.conditions,
        ("p.sex", "p.died", *PATIENT.keys),
    ),
    _made(
        "(SELECT id, test FROM labs EXCEPT ALL SELECT id, test FROM labs WHERE value > 200) u",
        ("1", "LENGTH(u.test)"),
        ("u.test = 'hdl'",),
        ("u.test",),
    ),
    _made(
        "two JOIN labs l ON two.id = l.id",
        (*LAB_NUMBERS, "two.n"),
        (*LAB.conditions, "two.n = 3"),
        ("two.n", "l.test"),
        before="WITH one AS (SELECT id, event FROM events), two AS (SELECT id, COUNT(*) AS n FROM one GROUP BY id) ",
    ),
)
ILLEGAL = (
    "SELECT * FROM patients p",
    "SELECT id, COUNT(*) FROM labs l GROUP BY id",
    "SELECT COUNT(*) FROM patients p JOIN labs l ON p.age = l.value",
    "SELECT COUNT(*) FROM (SELECT age FROM patients INTERSECT SELECT days FROM labs) t",
    "SELECT COUNT(*) FROM (SELECT id FROM patients ORDER BY age LIMIT 5) t",
    "SELECT SUM(case_id) FROM patients",
    "SELECT COUNT(*) FROM patients WHERE RANDOM() < 0.5",
    "SELECT id FROM patients UNION ALL SELECT id FROM labs",
    "SELECT COUNT(*) FROM patients p FULL JOIN labs l ON p.id < l.id",
    "SELECT sex, age FROM patients GROUP BY sex",
    "SELECT SUM(MAX(age)) FROM patients",
    "SELECT AVG(id) FROM labs",
)


class Grammar:
    """Random queries over the study; about half are answered."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def pick(self, choices: Sequence[str]) -> str:
        return self.draw.choice(choices)

    def chance(self, part: float) -> bool:
        return self.draw.random() < part

    def query(self) -> Query:
        """Returns a query."""
        forms: list[Callable[[], Query]] = [self.plain, self.plain, self.mild, self.above, self.united, self.illegal]
        return self.draw.choice([*forms, self.broken, self.broken, self.illegal])()

    def plain(self) -> Query:
        """Keys and aggregates, with whatever keys and conditions: some groups may be empty."""
        source = self.draw.choice(SOURCES)
        keys = self.some([*source.keys, *source.mild_keys], [0, 1, 1, 2])
        items = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        items += [f"{self.aggregate(source, mild=False)} AS a{i}" for i in range(self.draw.randint(1, 3))]
        text = f"{source.before}SELECT {', '.join(items)} FROM {source.text}"
        text += self.where(source.text, self.condition(source.conditions) if self.chance(0.5) else "")
        if keys:
            text += " GROUP BY " + ", ".join(self.pick([str(i + 1), key]) for i, key in enumerate(keys))
        return Query(text=text, mild=False)

    def mild(self) -> Query:
        """What stands above aggregates: arithmetic, HAVING, ORDER BY, LIMIT."""
        source = self.mild_source()
        keys = self.some(source.mild_keys, [0, 1, 1])
        values = [self.value(source) for _ in range(self.draw.randint(1, 3))]
        items = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{v} AS a{i}" for i, v in enumerate(values)]
        text = f"{source.before}SELECT {', '.join(items)} FROM {source.text}"
        text += self.where(source.text, self.pick(source.mild_conditions) if self.chance(0.5) else "")
        if keys:
            text += " GROUP BY " + ", ".join(self.pick([str(i + 1), key]) for i, key in enumerate(keys))
        if self.chance(0.3):
            text += f" HAVING {self.value(source)} {self.pick(['<', '>'])} {self.draw.randint(-5, 300)}.31"
        if not self.chance(0.4):
            return Query(text=text, mild=True)
        order = self.draw.sample(range(1, len(items) + 1), len(items))
        text += " ORDER BY " + ", ".join(f"{i}{self.pick(['', ' DESC', ' DESC NULLS LAST'])}" for i in order)
        if self.chance(0.5):
            text += f" LIMIT {self.draw.randint(0, 4)}" + self.pick(["", " OFFSET 1"])
        return Query(text=text, mild=True, ordered=True)

    def above(self) -> Query:
        """Aggregates of noisy groups, and noisy groups joined."""
        source = self.mild_source()
        key = self.pick(source.mild_keys)
        where = self.where(source.text, self.pick(source.mild_conditions) if self.chance(0.3) else "")
        inner = f"{source.before}SELECT {key} AS k, {self.value(source)} AS n FROM {source.text}{where} GROUP BY 1"
        outer = self.pick(
            [
                "SELECT COUNT(*) AS c, SUM(n) AS s, MAX(n) AS m FROM ({}) t",
                "SELECT AVG(n) AS a FROM ({}) t",
                "SELECT k, n FROM ({}) t WHERE n > 3.31",
                "SELECT a.k, a.n - b.n AS d FROM ({0}) a JOIN ({0}) b ON a.k = b.k",
                "SELECT n FROM ({}) t ORDER BY n LIMIT 1",
                "SELECT DISTINCT k FROM ({}) t",
            ]
        )
        return Query(text=outer.format(inner), mild=True)

    def united(self) -> Query:
        """Noisy tables put together."""
        sides = []
        for _ in range(self.draw.choice([2, 2, 3])):
            source = self.draw.choice([PATIENT, LAB, EVENT])
            key = self.pick(
                [key for key in source.mild_keys if "CASE" not in key and ">" not in key and "=" not in key]
            )
            shown = f"'{self.pick('xy')}'" if self.chance(0.4) or key == "p.died" else key
            grouped = "" if shown.startswith("'") else f" GROUP BY {key}"
            sides.append(f"SELECT {shown} AS k, {self.aggregate(source, mild=True)} AS n FROM {source.text}{grouped}")
        words = [self.pick(["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL"]) for _ in sides]
        text = "".join(f"{side} {word} " for side, word in zip(sides[:-1], words, strict=False)) + sides[-1]
        if self.chance(0.4):
            text += " ORDER BY n DESC, k"
        return Query(text=text, mild=True, ordered="ORDER BY" in text)

    def illegal(self) -> Query:
        """One that may not be answered."""
        return Query(text=self.pick(ILLEGAL), mild=True)

    def broken(self) -> Query:
        """A legal query with a word left out, doubled or replaced; where it is still one, it must be right."""
        made = self.draw.choice([self.plain, self.mild, self.above])()
        words = made.text.split(" ")
        place = self.draw.randrange(len(words))
        others = ["id", "labs", "NOT", "(", ")", "NULL", "1", "DISTINCT", "OR", "JOIN", "SUM(", ",", "age", "GROUP BY"]
        words[place : place + 1] = self.draw.choice([[], [words[place]] * 2, [self.pick(others)]])
        return Query(text=" ".join(words), mild=False, broken=True)

    def mild_source(self) -> Source:
        return self.draw.choice([source for source in SOURCES if source.mild_keys])

    def some(self, choices: Sequence[str], counts: Sequence[int]) -> list[str]:
        count = min(self.draw.choice(counts), len(choices))
        return list(dict.fromkeys(self.draw.sample(choices, count)))

    def condition(self, choices: Sequence[str]) -> str:
        first, second = self.pick(choices), self.pick(choices)
        return self.pick([first, first, f"({first} AND {second})", f"({first} OR {second})", f"NOT ({first})"])

    def where(self, source: str, condition: str) -> str:
        word = " AND " if " WHERE p.id" in source else " WHERE "
        return f"{word}{condition}" if condition else ""

    def value(self, source: Source) -> str:
        """Returns an aggregate or arithmetic on aggregates."""
        one, other = self.aggregate(source, mild=True), self.aggregate(source, mild=True)
        forms = [
            one,
            one,
            one,
            f"{one} + 1",
            f"{one} * 2 - {other}",
            f"ROUND({one} / 7.0 + 0.0137)",  # no half, which the last digit of an average would decide
            f"{one} / NULLIF({other}, 0)",
        ]
        return self.pick([*forms, f"CASE WHEN {one} > 30.3 THEN {other} ELSE 0 END", f"COALESCE({one}, 0)"])

    def aggregate(self, source: Source, *, mild: bool) -> str:
        number = self.pick(source.numbers)
        forms = ["COUNT(*)", "COUNT(*)", f"COUNT({number})", f"SUM({number})", f"SUM({number})", f"AVG({number})"]
        forms += [f"COUNT(DISTINCT {number})", f"STDDEV_SAMP({number})", f"VAR_POP({number})"]
        kept = ""
        if self.chance(0.2):
            kept = f" FILTER (WHERE {self.pick(source.mild_conditions if mild else source.conditions)})"
        return self.pick(forms) + kept
