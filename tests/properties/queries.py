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
    keeps_public: bool = False
    """Whether unmatched rows of a public table are kept, so that only columns of the private side can be counted."""


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
    "EXTRACT(QUARTER FROM v.day)",
    "UPPER(v.kind)",
    "FLOOR(v.score / 10)",
    "v.score > 10",
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


PAIRS = ("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_R2", "REGR_COUNT", "REGR_AVGX", "REGR_SYY")


def _renamed(texts: tuple[str, ...], old: str, new: str) -> tuple[str, ...]:
    return tuple(text.replace(f"{old}.", f"{new}.") for text in texts)


VISITS = Source(text="visits v", unit="v.person", numbers=VISIT_NUMBERS, keys=VISIT_KEYS, conditions=VISIT_CONDITIONS)
PEOPLE = Source(text="people p", unit="p.id", numbers=PERSON_NUMBERS, keys=PERSON_KEYS, conditions=PERSON_CONDITIONS)


def _with_places(kind: str) -> Source:
    return Source(
        text=f"visits v {kind} places c ON v.place = c.code",
        unit=VISITS.unit,
        numbers=("v.score", "v.score * c.factor", "COALESCE(c.factor, 1)", "v.cost"),
        keys=("c.region", "v.kind", "COALESCE(c.region, 'nowhere')", "c.code", "v.place"),
        conditions=("c.factor > 0", "c.region = 'east'", "v.score > 0"),
    )


ROW_KEYS = Source(
    text="visits v RIGHT JOIN places c ON v.place = c.code",
    unit="",
    numbers=VISIT_NUMBERS[:5],
    keys=("c.region", "c.code"),
    conditions=("c.factor > 0",),
    keeps_public=True,
)
ROW_SOURCES: tuple[Source, ...] = (VISITS, VISITS, _with_places("JOIN"), _with_places("LEFT JOIN"), ROW_KEYS)
PERSON_SOURCES: tuple[Source, ...] = (
    VISITS,
    VISITS,
    PEOPLE,
    _with_places("JOIN"),
    _with_places("LEFT JOIN"),
    Source(
        text="visits v CROSS JOIN UNNEST(string_to_array(v.note, 'n')) AS cut (part)",
        unit="v.person",
        numbers=VISIT_NUMBERS[:6],
        keys=("cut.part", "v.kind", "LENGTH(cut.part)"),
        conditions=("part <> ''", "part IN ('1', '2')", *VISIT_CONDITIONS),
    ),
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
        before="WITH v AS (SELECT visit AS at, person, kind, score FROM visits WHERE score < 30) ",
        text="items i JOIN v ON i.visit = v.at JOIN items j ON j.visit = v.at AND j.weight > i.weight",
        unit="v.person",
        numbers=("i.weight", "v.score", "CLAMP(j.weight - i.weight, 0, 2)"),
        keys=("i.label", "j.label", "v.kind"),
        conditions=("v.kind <> 'a'", "i.label = j.label"),
    ),
    Source(
        text="visits v LEFT JOIN items i ON i.visit = v.visit AND i.weight > 0 JOIN people p ON p.id = v.person",
        unit="p.id",
        numbers=("i.weight", "v.score", "p.age"),
        keys=("i.label", "p.sex", "i.label IS NULL"),
        conditions=("v.kind <> 'a'", "NOT EXISTS (SELECT 1 FROM items j WHERE j.visit = v.visit AND j.label = 'x')"),
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
        text="(SELECT person, FIRST(score ORDER BY day) AS early, ARG_MAX(cost, score) AS top, BOOL_AND(ok) AS good,"
        " ANY_VALUE(kind) AS some, SUM(DISTINCT score) AS sums, BIT_OR(score) AS bits FROM visits GROUP BY person) u",
        unit="u.person",
        numbers=("u.early", "u.top", "u.sums", "u.bits", "u.good"),
        keys=("u.some", "u.good"),
        conditions=("u.good", "u.early > 0", "u.some <> 'a'"),
    ),
    Source(
        text="(SELECT person, kind, CORR(score, cost) AS r, COVAR_SAMP(cost, rate) AS c, REGR_COUNT(score, cost) AS n,"
        " REGR_SLOPE(cost, score) AS slope, STRING_AGG(note, ',' ORDER BY note) AS notes FROM visits"
        " GROUP BY person, kind) u",
        unit="u.person",
        numbers=("u.r", "u.c", "u.n", "CLAMP(u.slope, -9, 9)"),
        keys=("u.kind", "u.notes", "u.r > 0"),
        conditions=("u.n > 1", "u.r > 0", "u.notes LIKE 'n%'"),
    ),
    Source(
        text="(SELECT DISTINCT person, kind, note FROM visits WHERE score > 0) u",
        unit="u.person",
        numbers=("2",),
        keys=("u.kind", "u.note"),
        conditions=("u.kind <> 'a'",),
    ),
    Source(
        text="(SELECT person, kind, score, ok FROM visits UNION ALL SELECT id, sex, age, age > 50 FROM people) u",
        unit="u.person",
        numbers=("u.score", "u.score * 2", "ABS(u.score)", "3"),
        keys=("u.kind", "u.ok", "FLOOR(u.score / 10)"),
        conditions=("u.score > 0", "u.kind IN ('a', 'F')", "u.ok"),
    ),
    Source(
        text="(SELECT kind AS what, score FROM visits UNION ALL SELECT kind, -score FROM visits WHERE ok"
        " UNION ALL SELECT label, 1 FROM items) u",
        unit="u.what",
        numbers=("u.score", "CLAMP(u.score, 0, 5)"),
        keys=("u.what", "u.score > 0"),
        conditions=("u.score > 0", "u.what <> 'a'"),
    ),
    Source(
        text="(SELECT person, kind FROM visits UNION SELECT id, town FROM people) u",
        unit="u.person",
        numbers=("2", "CLAMP(LENGTH(u.kind), 0, 2)"),
        keys=("u.kind", "u.kind = 'a'"),
        conditions=("u.kind <> 'a'",),
    ),
    Source(
        text="(SELECT person, kind, cost FROM visits EXCEPT ALL SELECT person, kind, cost FROM visits WHERE ok) u",
        unit="u.person",
        numbers=("u.cost", "1"),
        keys=("u.kind", "u.cost > 9"),
        conditions=("u.cost > 0",),
    ),
    Source(
        text="(SELECT id FROM people INTERSECT SELECT person FROM visits WHERE score > 0) u"
        " JOIN people p ON u.id = p.id",
        unit="u.id",
        numbers=PERSON_NUMBERS,
        keys=PERSON_KEYS,
        conditions=PERSON_CONDITIONS,
    ),
    Source(
        text="(SELECT person, kind, score, LAG(score) OVER (PARTITION BY visit ORDER BY day) AS before FROM visits) v",
        unit="v.person",
        numbers=("v.score", "v.score - v.before"),
        keys=("v.kind",),
        conditions=("v.score > v.before",),
    ),
    Source(
        text="(SELECT visit, COUNT(*) AS n, MAX(label) AS label FROM items GROUP BY visit) v",
        unit="v.visit",
        numbers=("CLAMP(v.n, 0, 5)",),
        keys=("v.label",),
        conditions=("v.n > 1",),
    ),
    Source(
        text="(SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person ORDER BY day DESC) <= 2) v",
        unit="v.person",
        numbers=VISIT_NUMBERS,
        keys=VISIT_KEYS,
        conditions=VISIT_CONDITIONS,
    ),
    Source(
        text="(SELECT DISTINCT ON (person, kind) person, kind, score, cost, note FROM visits"
        " ORDER BY person, kind, score) u",
        unit="u.person",
        numbers=("u.score", "u.cost", "3"),
        keys=("u.kind", "u.note", "u.score > 10"),
        conditions=("u.kind <> 'b'", "u.cost > 10"),
    ),
    Source(
        text="(SELECT person, kind, note, score - LAG(score) OVER w AS step, LEAD(kind, 1, 'z') OVER w AS next,"
        " ROW_NUMBER() OVER w AS number, DENSE_RANK() OVER w AS place, NTILE(3) OVER (p ORDER BY score) AS third"
        " FROM visits WINDOW p AS (PARTITION BY person), w AS (p ORDER BY day)) u",
        unit="u.person",
        numbers=("u.step", "u.number", "CLAMP(u.place, 0, 4)", "u.third"),
        keys=("u.kind", "u.next", "u.third", "LEAST(u.number, 3)", "u.note"),
        conditions=("u.number > 1", "u.next <> u.kind", "u.step > 0"),
    ),
    Source(
        text="(SELECT person, kind, SUM(cost) OVER (PARTITION BY person ORDER BY day) AS running,"
        " AVG(rate) OVER (PARTITION BY person ORDER BY score ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth,"
        " SUM(score) FILTER (WHERE ok) OVER (PARTITION BY kind, person) AS total,"
        " COUNT(note) OVER (PARTITION BY person ORDER BY kind GROUPS 1 PRECEDING) AS n,"
        " LAST_VALUE(note) OVER (PARTITION BY person ORDER BY kind) AS last FROM visits) u",
        unit="u.person",
        numbers=("CLAMP(u.running, 0, 900)", "u.running", "u.smooth", "u.total", "u.n"),
        keys=("u.kind", "u.last", "u.n > 2", "u.smooth > 0"),
        conditions=("u.n > 1", "u.running > 100"),
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
    Source(
        text="people p LEFT JOIN visits v ON p.id = v.person",
        unit="p.id",
        numbers=PERSON_NUMBERS + VISIT_NUMBERS[:6],
        keys=(*PERSON_KEYS, "v.kind", "v.ok", "COALESCE(v.kind, 'none')"),
        conditions=(*PERSON_CONDITIONS, "v.score > 0", "v.visit IS NULL"),
    ),
    Source(
        text="visits v RIGHT JOIN people p ON p.id = v.person AND v.score > p.age - 40",
        unit="p.id",
        numbers=("v.score + p.age", "v.cost", "p.income"),
        keys=("p.sex", "v.kind", "v.note"),
        conditions=("v.score IS NULL", "p.age > 30"),
    ),
    Source(
        text="visits v FULL JOIN people p ON p.id = v.person AND v.score > p.age - 40",
        unit="COALESCE(p.id, v.person)",
        numbers=("v.score + p.age", "v.cost", "p.income", "COALESCE(v.score, p.age)"),
        keys=("p.sex", "v.kind", "v.note", "COALESCE(v.kind, p.sex)"),
        conditions=("v.score IS NULL", "p.age IS NULL", "p.age > 30"),
    ),
    Source(
        text="(SELECT person, visit, kind, label, weight FROM visits FULL JOIN"
        " (SELECT person, visit, label, weight FROM visits v JOIN items i USING (visit) WHERE score > 0) i"
        " USING (person, visit)) u",
        unit="u.person",
        numbers=("u.weight", "2"),
        keys=("u.kind", "u.label"),
        conditions=("u.label IS NULL", "u.kind = 'a'"),
    ),
    Source(
        text="people p LEFT JOIN visits v ON p.id = v.person LEFT JOIN items i USING (visit)",
        unit="p.id",
        numbers=("i.weight", "v.score", "p.age"),
        keys=("i.label", "v.kind", "p.sex"),
        conditions=("i.weight > 0", "v.ok"),
    ),
    Source(
        text="people p LEFT JOIN visits v ON p.id = v.person JOIN visits w ON v.person = w.person",
        unit="w.person",
        numbers=("v.score - w.score", "p.age"),
        keys=("w.kind", "p.sex"),
        conditions=("v.ok",),
    ),
    Source(
        text="visits v JOIN (VALUES ('a', 1, 'x'), ('a', 2.5, 'y'), ('b', NULL, 'x'), (NULL, 3, 'z'))"
        " AS t(kind, w, name) ON v.kind = t.kind",
        unit="v.person",
        numbers=("t.w", "t.w * v.score", "v.cost"),
        keys=("t.name", "t.kind", "t.w"),
        conditions=("t.w > 1", "t.name = 'x'"),
    ),
    Source(
        text="places c LEFT JOIN visits v ON v.place = c.code AND v.score > c.factor",
        unit="v.person",
        numbers=VISIT_NUMBERS[:7],
        keys=("c.region", "c.code", "c.code % 2"),
        conditions=("c.factor > 0", "c.region = 'east'"),
        keeps_public=True,
    ),
    Source(
        text="visits v JOIN people p ON v.person = p.id"
        " RIGHT JOIN (VALUES ('a', 'F'), ('a', 'M'), ('x', 'F')) AS t(k, s) ON t.k = v.kind AND t.s = p.sex",
        unit="v.person",
        numbers=("v.score", "p.age"),
        keys=("t.k", "t.s"),
        conditions=("t.s = 'F'",),
        keeps_public=True,
    ),
)


PUBLIC_SUBQUERIES = (
    "v.place IN (SELECT code FROM tags WHERE tag <> 'p')",
    "v.place NOT IN (SELECT code FROM tags)",
    "(v.place, v.kind) NOT IN (SELECT code, tag FROM tags)",
    "EXISTS (SELECT 1 FROM tags t WHERE t.code = v.place AND t.tag > v.kind)",
    "NOT EXISTS (SELECT 1 FROM places c WHERE c.code = v.place AND c.factor > v.score)",
    "v.score > ANY (SELECT factor FROM places)",
    "v.cost <= ALL (SELECT factor * 100 FROM places)",
    "v.score > (SELECT MAX(factor) FROM places)",
    "v.score * (SELECT factor FROM places WHERE code = 2) > 3",
    "v.score > (SELECT c.factor FROM places c WHERE c.code = v.place)",
    "v.score > (SELECT COUNT(*) FROM tags t WHERE t.code = v.place)",
    "v.ok OR v.place IN (SELECT code FROM tags WHERE tag <> 'p')",
    "(v.place NOT IN (SELECT factor FROM places)) = v.ok",
)
PRIVATE_SUBQUERIES = (
    "v.person IN (SELECT id FROM people WHERE age > 30)",
    "v.person NOT IN (SELECT id FROM people WHERE income IS NULL)",
    "(v.person, v.kind) IN (SELECT person, kind FROM visits WHERE ok)",
    "v.kind NOT IN (SELECT w.kind FROM visits w WHERE w.person = v.person AND w.score > v.score)",
    "v.score NOT IN (SELECT p.age FROM people p WHERE p.id = v.person)",
    "EXISTS (SELECT 1 FROM visits w WHERE w.person = v.person AND w.score > v.score LIMIT 1)",
    "NOT EXISTS (SELECT 1 FROM visits w WHERE w.person = v.person AND w.note = v.note AND w.ok)",
    "EXISTS (SELECT 1 FROM visits w WHERE w.person = v.person GROUP BY w.kind HAVING COUNT(*) > 1)",
    "v.visit IN (SELECT i.visit FROM items i WHERE i.weight > 0)",
    "NOT EXISTS (SELECT 1 FROM items i WHERE i.visit = v.visit)",
    "v.score >= ALL (SELECT w.score FROM visits w WHERE w.person = v.person)",
    "v.score > (SELECT AVG(w.score) FROM visits w WHERE w.person = v.person)",
    "v.score < (SELECT SUM(w.score) FROM visits w WHERE w.person = v.person AND w.kind = v.kind)",
    "(SELECT COUNT(*) FROM items i JOIN visits w ON i.visit = w.visit WHERE w.person = v.person) = 0",
    "EXISTS (SELECT 1 FROM people p WHERE p.id = v.person AND p.age IN (SELECT w.score FROM visits w"
    " WHERE w.person = p.id))",
    "v.ok OR v.person IN (SELECT id FROM people WHERE age > 30)",
    "v.ok = EXISTS (SELECT 1 FROM visits w WHERE w.person = v.person AND w.score > v.score AND w.day <= v.day)",
    "NOT v.ok OR v.score NOT IN (SELECT p.age FROM people p WHERE p.id = v.person)",
    "v.ok OR v.score >= ALL (SELECT w.score FROM visits w WHERE w.person = v.person AND w.kind = v.kind)",
)


def _with_subqueries(*conditions: str, numbers: tuple[str, ...] = ()) -> Source:
    return Source(
        text="visits v", unit="v.person", numbers=(*VISIT_NUMBERS[:4], *numbers), keys=VISIT_KEYS, conditions=conditions
    )


PUBLIC_NUMBERS = (
    "v.score - (SELECT MIN(factor) FROM places)",
    "(SELECT factor FROM places c WHERE c.code = v.place)",
    "v.cost * (SELECT COUNT(*) FROM tags t WHERE t.code = 100)",
)
PRIVATE_NUMBERS = (
    "v.score - (SELECT MIN(w.score) FROM visits w WHERE w.person = v.person)",
    "CLAMP((SELECT COUNT(*) FROM items i WHERE i.visit = v.visit), 0, 9)",
    "CLAMP((SELECT COUNT(*) FROM visits w WHERE w.person = v.person), 0, 9)",
    "CASE WHEN NOT EXISTS (SELECT 1 FROM items i WHERE i.visit = v.visit) THEN v.score END",
)
ROW_SOURCES += (_with_subqueries(*PUBLIC_SUBQUERIES, numbers=PUBLIC_NUMBERS),) * 2
PERSON_SOURCES += (
    _with_subqueries(*PUBLIC_SUBQUERIES, numbers=PUBLIC_NUMBERS),
    _with_subqueries(*PRIVATE_SUBQUERIES, numbers=PRIVATE_NUMBERS),
    _with_subqueries(*PRIVATE_SUBQUERIES, numbers=PRIVATE_NUMBERS),
)


def query(random: Random, *, row_unit: bool) -> Query:
    """Returns a random query; it may be one that is refused."""
    source = random.choice(ROW_SOURCES if row_unit else PERSON_SOURCES)
    keys = list(dict.fromkeys(random.choice(source.keys) for _ in range(random.choice([0, 1, 1, 1, 2, 3]))))
    aggregates = [_aggregate(random, source, row_unit) for _ in range(random.choice([1, 1, 2, 3]))]
    if random.random() < 0.1:
        number = random.choice(source.numbers)
        targets = random.sample(["0.1", "0.25", "0.5", "0.75", "0.9", "0.999"], random.choice([3, 4, 6]))
        aggregates += [f"QUANTILE_DISC({number}, {target})" for target in targets]
    items = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{a} AS a{i}" for i, a in enumerate(aggregates)]
    text = f"{source.before}SELECT {', '.join(items)} FROM {source.text}"
    if keys and not source.keeps_public and random.random() < 0.08:  # the top groups, as tools ask them
        top = f"SELECT {keys[0]} AS top_key FROM {source.text} GROUP BY 1 ORDER BY COUNT(*) DESC LIMIT 2"
        text += f" JOIN ({top}) AS released ON {keys[0]} = released.top_key"
    subqueries = source.conditions[:1] in (PUBLIC_SUBQUERIES[:1], PRIVATE_SUBQUERIES[:1])
    if random.random() < (0.8 if subqueries else 0.4):
        text += f" WHERE {random.choice(source.conditions)}"
    if keys:
        text += f" GROUP BY {_grouping(random, len(keys))}"
    return Query(
        text=text,
        max_groups=random.choice([None, None, 1, 2, 3, 5, 100]),
        max_rows=random.choice([None, None, 1, 2, 3, 7, 2000]),
    )


SPLITS: tuple[tuple[str, ...], ...] = (
    ("v.kind = 'a'", "v.kind = 'b'", "v.kind IN ('c', 'd')"),
    ("v.score < 0", "v.score >= 0 AND v.score < 10", "10 <= v.score", "v.score IS NULL"),
    ("v.ok", "NOT v.ok"),
    ("v.cost > 100", "v.cost <= 100 AND v.ok", "v.cost <= 100 AND NOT v.ok"),
    ("v.place = 1 OR v.place = 2", "v.place = 3", "v.place NOT IN (1, 2, 3)"),
    ("v.day < DATE '2000-06-01'", "v.day >= DATE '2000-06-01'"),
    ("UPPER(v.note) = 'A'", "UPPER(v.note) = 'B'"),
    ("v.rate < 0", "v.rate BETWEEN 0 AND 2", "v.rate > 2"),
)
PEOPLE_SPLITS: tuple[tuple[str, ...], ...] = (
    ("v.sex = 'F'", "v.sex = 'M'"),
    ("v.age < 18", "v.age BETWEEN 18 AND 64", "v.age > 64"),
    ("v.income >= 0", "v.income < 0", "v.income IS NULL"),
)


def split_query(random: Random, *, row_unit: bool) -> Query:
    """Returns a random query with aggregates of one table whose filters, in several sets, no row passes together."""
    people = not row_unit and random.random() < 0.4
    table, splits = ("people", PEOPLE_SPLITS) if people else ("visits", SPLITS)
    number, key = ("v.age", "v.sex") if people else (random.choice(["v.score", "v.cost", "v.rate"]), "v.kind")
    if random.random() < (0.4 if row_unit else 0.1):
        return _split_subqueries(random, table, number, [*random.choice(splits), random.choice(random.choice(splits))])
    items = [f"{key} AS k"] if random.random() < 0.5 else []
    for filters in random.sample(splits, random.choice([1, 1, 2])):
        for condition in random.sample(filters, random.randint(2, len(filters))):
            for _ in range(random.choice([1, 1, 2])):
                items.append(f"{_split_part(random, number, condition, row_unit, people)} AS a{len(items)}")
    if random.random() < 0.3:
        items.append("COUNT(*) AS n")
    text = f"SELECT {', '.join(items)} FROM {table} v"
    if random.random() < 0.3:
        text += f" WHERE {random.choice(random.choice(splits))}"
    return Query(
        text=f"{text} GROUP BY 1" if items[0].endswith("AS k") else text,
        max_groups=random.choice([None, None, 1, 2, 5]),
        max_rows=random.choice([None, None, None, 1, 3, 4, 7]),
    )


def _split_subqueries(random: Random, table: str, number: str, conditions: list[str]) -> Query:
    """Returns a query of one subquery for each condition, or of a UNION ALL of them."""
    aggregates = ["COUNT(*)", f"SUM({number})", f"AVG({number})", f"COUNT(*) FILTER (WHERE {conditions[0]})"]
    if random.random() < 0.5:
        parts = [f"SELECT COUNT(*), SUM({number}) FROM {table} v WHERE {condition}" for condition in conditions]
        return Query(text=" UNION ALL ".join(parts))
    items = [f"(SELECT {random.choice(aggregates)} FROM {table} v WHERE {condition})" for condition in conditions]
    return Query(text=f"SELECT {', '.join(f'{item} AS a{i}' for i, item in enumerate(items))}")


def _split_part(random: Random, number: str, condition: str, row_unit: bool, people: bool) -> str:
    forms = [
        f"COUNT(*) FILTER (WHERE {condition})",
        f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)",
        f"SUM(CASE WHEN {condition} THEN {number} ELSE 0 END)",
        f"COUNT(CASE WHEN {condition} THEN {number} END)",
        f"SUM({number}) FILTER (WHERE {condition})",
        f"AVG({number}) FILTER (WHERE {condition})",
        f"VAR_POP({number}) FILTER (WHERE {condition})",
    ]
    choices = [f"COUNT(DISTINCT {number}) FILTER (WHERE {condition})", f"MEDIAN({number}) FILTER (WHERE {condition})"]
    if not row_unit:
        unit = "v.id" if people else "v.person"
        forms.append(f"COUNT(DISTINCT {unit}) FILTER (WHERE {condition})")
        forms.append(f"COUNT(DISTINCT CASE WHEN {condition} THEN {unit} END)")
    return random.choice(forms if random.random() < 0.85 else choices)


def _grouping(random: Random, count: int) -> str:
    """Returns the keys of GROUP BY by place, in a fifth of the queries in several sets."""
    plain = ", ".join(str(i + 1) for i in range(count))
    if random.random() < 0.8:
        return plain
    forms = [
        f"ROLLUP ({plain})",
        f"CUBE ({plain})",
        f"GROUPING SETS (({plain}), (1))",
        f"1, GROUPING SETS (({plain}), ())",
    ]
    return random.choice(forms)


def _aggregate(random: Random, source: Source, row_unit: bool) -> str:
    number, key = random.choice(source.numbers), random.choice(source.keys)
    of_keys = ["COUNT(*)", f"COUNT({key})", f"COUNT(DISTINCT {key})"]
    choices = [
        *([] if source.keeps_public else of_keys),
        f"COUNT({number})",
        f"COUNT(DISTINCT {number})",
        f"SUM({number})",
        f"SUM({number})",
        f"AVG({number})",
        f"VAR_POP({number})",
        f"STDDEV_SAMP({number})",
        f"{random.choice(PAIRS)}({number}, {random.choice(source.numbers)})",
        f"AVG({random.choice(source.conditions)})",
        f"COUNT(DISTINCT ({key}, {random.choice(source.keys)}))",
        f"MEDIAN({number})",
        f"{random.choice(['MIN', 'MAX'])}({number})",
        f"QUANTILE_DISC({number}, {random.choice(['0.1', '0.9', '0.25', '0.999'])})",
        f"MODE({key})",
    ]
    if not row_unit:
        choices.append(f"COUNT(DISTINCT {source.unit})")
    chosen = random.choice(choices)
    conditions = [c for c in source.conditions if "SELECT" not in c]
    filtered = bool(conditions) and random.random() < 0.25
    return f"{chosen} FILTER (WHERE {random.choice(conditions)})" if filtered else chosen
