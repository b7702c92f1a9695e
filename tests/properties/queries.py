"""Random queries over the worlds' tables: what a relation offers, and aggregates, keys and filters drawn from it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, kw_only=True)
class Source:
    """What stands after FROM, and what can be said of its columns."""

    text: str
    unit: str
    numbers: tuple[str, ...]
    keys: tuple[str, ...]
    conditions: tuple[str, ...]
    before: str = ""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query and its options."""

    text: str
    max_groups: int | None = None
    max_rows: int | None = None


VISIT_NUMBERS = (
    "v.score",
    "v.cost",
    "v.rate",
    "v.score * v.score",
    "v.cost - 3 * v.score",
    "ABS(v.score)",
    "CASE WHEN v.ok THEN v.score ELSE -v.score END",
    "COALESCE(v.cost, 7)",
    "v.score / 7",
    "CLAMP(1 / v.score, -2, 2)",
    "CLAMP(v.cost / (v.score - 3), 0, 10)",
    "GREATEST(v.score, v.rate)",
    "LEAST(v.score, 10)",
    "SQRT(ABS(v.cost))",
    "ROUND(v.cost)",
    "v.score % 7",
    "5",
    "-3",
)
VISIT_KEYS = (
    "v.kind",
    "v.kind",
    "v.cell",
    "v.ok",
    "v.note",
    "v.place",
    "CASE WHEN v.score > 10 THEN 'high' WHEN v.score < 0 THEN 'low' ELSE 'middle' END",
    "EXTRACT(MONTH FROM v.day)",
    "FLOOR(v.score / 10)",
    "COALESCE(v.note, 'none')",
    "CASE WHEN v.kind IN ('a', 'b') THEN 'ab' ELSE 'rest' END",
)
VISIT_CONDITIONS = (
    "v.score > 0",
    "v.kind <> 'a'",
    "v.kind IN ('a', 'b')",
    "v.ok",
    "NOT v.ok",
    "v.cost IS NULL",
    "v.note LIKE 'n%'",
    "v.cost < 50 OR v.score = 3",
    "v.score BETWEEN 0 AND 10",
    "v.score > 1000",
)
PERSON_NUMBERS = ("p.age", "p.income", "p.age * p.income", "p.income - 75", "CASE WHEN p.age > 50 THEN p.income END")
PERSON_KEYS = (
    "p.sex",
    "p.town",
    "FLOOR(p.age / 10)",
    "p.age > 50",
    "CASE WHEN p.income > 0 THEN 'plus' ELSE 'minus' END",
)
PERSON_CONDITIONS = ("p.age > 30", "p.sex = 'F'", "p.income IS NOT NULL", "p.town <> 't1'")


def _renamed(texts: tuple[str, ...], old: str, new: str) -> tuple[str, ...]:
    return tuple(text.replace(f"{old}.", f"{new}.") for text in texts)


VISITS = Source(text="visits v", unit="v.person", numbers=VISIT_NUMBERS, keys=VISIT_KEYS, conditions=VISIT_CONDITIONS)
PEOPLE = Source(text="people p", unit="p.id", numbers=PERSON_NUMBERS, keys=PERSON_KEYS, conditions=PERSON_CONDITIONS)


def _with_places(kind: str) -> Source:
    return Source(
        text=f"visits v {kind} places c ON v.place = c.code",
        unit=VISITS.unit,
        numbers=("v.score", "v.score * c.factor", "COALESCE(c.factor, 1)", "v.cost"),
        keys=("c.region", "v.kind", "COALESCE(c.region, 'nowhere')", "c.code"),
        conditions=("c.factor > 0", "c.region = 'east'", "v.score > 0"),
    )


ROW_SOURCES = (VISITS, VISITS, _with_places("JOIN"), _with_places("LEFT JOIN"))
PERSON_SOURCES = (
    VISITS,
    VISITS,
    PEOPLE,
    _with_places("JOIN"),
    _with_places("LEFT JOIN"),
    Source(
        text="visits v JOIN tags t ON v.place = t.code",
        unit="v.person",
        numbers=VISIT_NUMBERS,
        keys=("t.tag", "v.kind", "t.code"),
        conditions=("t.tag <> 'p'", *VISIT_CONDITIONS),
    ),
    Source(
        text="people p JOIN visits v ON p.id = v.person",
        unit="p.id",
        numbers=PERSON_NUMBERS + VISIT_NUMBERS[:6],
        keys=PERSON_KEYS + VISIT_KEYS[:5],
        conditions=PERSON_CONDITIONS + VISIT_CONDITIONS,
    ),
    Source(
        text="visits v JOIN visits w ON v.person = w.person AND v.kind = w.kind",
        unit="w.person",
        numbers=("v.score", "w.score - v.score", "v.cost"),
        keys=("v.kind", "w.ok", "w.note"),
        conditions=("v.score < w.score", "v.ok"),
    ),
    Source(
        text="items i",
        unit="i.label",
        numbers=("i.weight", "i.weight * 10"),
        keys=("i.label", "i.weight > 0"),
        conditions=("i.weight > 0", "i.label <> 'x'"),
    ),
    Source(
        text="visits v JOIN items i ON v.visit = i.visit",
        unit="v.person",
        numbers=("i.weight", "v.score * i.weight", "v.score"),
        keys=("i.label", "v.kind", "v.note"),
        conditions=("i.weight > 0", "v.ok"),
    ),
    Source(
        text="(SELECT person, SUM(score) AS total, COUNT(*) AS n, MAX(cost) AS most, AVG(rate) AS mean FROM visits"
        " GROUP BY person) u",
        unit="u.person",
        numbers=("u.total", "u.n", "u.most", "u.mean", "CLAMP(u.total / u.n, -5, 9)"),
        keys=("LEAST(u.n, 4)", "u.total > 0"),
        conditions=("u.n > 1", "u.most > 100"),
    ),
    Source(
        text="(SELECT person, kind, COUNT(*) AS n, MIN(score) AS least FROM visits GROUP BY person, kind) u",
        unit="u.person",
        numbers=("CLAMP(u.n, 0, 5)", "u.least"),
        keys=("u.kind", "u.n", "CASE WHEN u.n > 1 THEN 'several' ELSE 'one' END"),
        conditions=("u.n > 1", "u.kind <> 'b'"),
    ),
    Source(
        text="(SELECT DISTINCT person, kind, note FROM visits WHERE score > 0) u",
        unit="u.person",
        numbers=("2",),
        keys=("u.kind", "u.note"),
        conditions=("u.kind <> 'a'",),
    ),
    Source(
        before="WITH people AS (SELECT person AS id, score AS age, cost AS income, kind AS sex, note AS town"
        " FROM visits) ",
        text="people p",
        unit="p.id",
        numbers=PERSON_NUMBERS,
        keys=PERSON_KEYS,
        conditions=PERSON_CONDITIONS,
    ),
    Source(
        before="WITH busy AS (SELECT person, COUNT(*) AS n FROM visits GROUP BY person HAVING COUNT(*) > 1) ",
        text="people p JOIN busy b ON p.id = b.person",
        unit="b.person",
        numbers=(*PERSON_NUMBERS, "CLAMP(b.n, 0, 20)"),
        keys=("p.sex", "p.town", "LEAST(b.n, 3)"),
        conditions=PERSON_CONDITIONS,
    ),
)


def query(random: Random, *, row_unit: bool) -> Query:
    """Returns a random query; it may be one that is refused."""
    source = random.choice(ROW_SOURCES if row_unit else PERSON_SOURCES)
    keys = list(dict.fromkeys(random.choice(source.keys) for _ in range(random.choice([0, 1, 1, 1, 2]))))
    aggregates = [_aggregate(random, source, row_unit) for _ in range(random.choice([1, 1, 2, 3]))]
    items = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{a} AS a{i}" for i, a in enumerate(aggregates)]
    text = f"{source.before}SELECT {', '.join(items)} FROM {source.text}"
    if random.random() < 0.4:
        text += f" WHERE {random.choice(source.conditions)}"
    if keys:
        text += f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}"
    return Query(
        text=text,
        max_groups=random.choice([None, None, 1, 2, 3, 5, 100]),
        max_rows=random.choice([None, None, 1, 2, 3, 7, 2000]),
    )


def _aggregate(random: Random, source: Source, row_unit: bool) -> str:
    number, key = random.choice(source.numbers), random.choice(source.keys)
    choices = [
        "COUNT(*)",
        f"COUNT({number})",
        f"COUNT({key})",
        f"COUNT(DISTINCT {key})",
        f"COUNT(DISTINCT {number})",
        f"SUM({number})",
        f"SUM({number})",
        f"AVG({number})",
        f"VAR_POP({number})",
        f"STDDEV_SAMP({number})",
        f"MEDIAN({number})",
        f"{random.choice(['MIN', 'MAX'])}({number})",
        f"QUANTILE_DISC({number}, {random.choice(['0.1', '0.9', '0.25', '0.999'])})",
        f"MODE({key})",
    ]
    if not row_unit:
        choices.append(f"COUNT(DISTINCT {source.unit})")
    chosen = random.choice(choices)
    return f"{chosen} FILTER (WHERE {random.choice(source.conditions)})" if random.random() < 0.25 else chosen
