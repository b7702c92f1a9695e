"""Shapes of questions by which one person's row could cause much work, and the ward that they ask about.

Those of `REFUSED` are refused before anything is charged; those of `ANSWERED` are answered, and what they cost is near
what one stored row may cause. In each of them the bit of person 7 decides whether the work is done.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

ROW_LIMIT = 10_000
"""Visits of one person that are read, and of person 7 at most."""
CATALOG = f"""
version: 2
dataset: ward
privacy_unit: person
budget: {{epsilon: 1000, delta: 1e-3}}
tables:
  p:
    unit: id
    unique: [[id]]
    columns:
      id: {{type: int64}}
      hiv: {{type: boolean}}
      age: {{type: int64, lower: 0, upper: 100}}
      note: {{type: text, nullable: true}}
  visits:
    unit: id
    max_rows: 8
    row_limit: {ROW_LIMIT}
    columns:
      id: {{type: int64}}
      visit: {{type: int64}}
      v: {{type: int64, lower: 0, upper: 9}}
      hiv: {{type: boolean}}
      day: {{type: date, lower: 2024-01-01, upper: 2024-12-31}}
      note: {{type: text, nullable: true}}
  days:
    public: true
    columns: {{day: {{type: date}}, week: {{type: int64, lower: 0, upper: 60}}}}
  codes:
    public: true
    columns: {{code: {{type: int64, lower: 0, upper: 9}}, meaning: {{type: text}}}}
"""
EIGHT = "REPLACE(" * 8 + "note" + f", 'a', '{'a' * 200}')" * 8
EACH = "CASE WHEN id = 7 AND hiv THEN {} ELSE '' END"
FOUR = "WITH v(x) AS (VALUES " + ", ".join(f"({i})" for i in range(250)) + ") "
TOWER = "note" + " || note" * 40

REFUSED = {
    "cross joins of literals (WRK-01)": FOUR
    + "SELECT COUNT(*) FROM p, v a, v b, v c, v d WHERE id = 7 AND hiv AND a.x + b.x * c.x > d.x",
    "two joins of literals": FOUR + "SELECT COUNT(*) FROM p, v a, v b WHERE hiv",
    "a cross join with a public table, twice": "SELECT COUNT(*) FROM p, codes a, codes b, codes c WHERE hiv",
    "an inequality with a public table": "SELECT COUNT(*) FROM p, codes a JOIN codes b ON a.code < b.code AND "
    "b.code < 9",
    "many public rows for a key": "SELECT COUNT(*) FROM visits JOIN codes a ON v = a.code JOIN codes b ON v = b.code",
    "a public many-to-many join inside": "SELECT COUNT(*) FROM visits JOIN (SELECT a.code, b.meaning FROM codes a "
    "JOIN codes b ON a.code = b.code JOIN codes c ON c.code = a.code) x ON v = x.code",
    "replacements of joined rows (WRK-02)": f"SELECT COUNT(*) FROM p JOIN codes ON age = code WHERE "
    f"LENGTH({EIGHT}) > 9",
    "replacements in the condition of a join": f"SELECT COUNT(*) FROM visits a JOIN p ON a.id = p.id AND "
    f"LENGTH({EIGHT.replace('note', 'p.note')}) + LENGTH({EIGHT.replace('note', 'a.note')}) > 9",
    "replacements compared with a subquery": f"SELECT COUNT(*) FROM p WHERE {EIGHT} IN (SELECT {EIGHT} FROM p)",
    "replacements in the keys of a join": f"SELECT COUNT(*) FROM visits a JOIN p ON a.id = p.id AND "
    f"{EIGHT.replace('note', 'p.note')} = {EIGHT.replace('note', 'a.note')}",
    "replacements in CASE": f"SELECT SUM(CLAMP(LENGTH({EACH.format(EIGHT)}), 0, 9)) FROM p, days",
    "padding in CASE": f"SELECT COUNT(*) FROM p, days WHERE LENGTH({EACH.format('LPAD(note, 10000)')}) > 3",
    "padding to the right": "SELECT COUNT(*) FROM p, days WHERE RPAD(note, 10000, 'ab') LIKE '%ba'",
    "joining in CASE": f"SELECT COUNT(*) FROM p, days WHERE LENGTH({EACH.format(TOWER)}) > 3",
    "joining without NULL": f"SELECT COUNT(*) FROM p, days WHERE CONCAT({'note, ' * 40}'x') = 'x'",
    "joining of joined texts": "SELECT COUNT(*) FROM p WHERE "
    + "CONCAT(" * 30
    + "note"
    + ", note, note)" * 30
    + " = 'x'",
    "a counted regular expression": "SELECT COUNT(*) FROM p WHERE note ~ '((a|b){30}c){30}'",
    "regular expressions on joined rows": "SELECT COUNT(*) FROM p, days WHERE note ~ '[ab]*a[ab]{20}c'",
    "a regular expression on a made text": "SELECT COUNT(*) FROM p WHERE RPAD(note, 10000, 'ab') ~ '[ab]*a[ab]{20}c'",
    "patterns on joined rows": f"SELECT COUNT(*) FROM p, days WHERE note LIKE '%{'a' * 150}_b%'",
    "a text sought in a text": "SELECT COUNT(*) FROM p WHERE POSITION(LPAD(note, 10000) IN RPAD(note, 10000)) > 0",
    "reversing": "SELECT COUNT(*) FROM p, codes WHERE REVERSE(note) = 'x'",
    "a self-join": "SELECT COUNT(*) FROM visits a JOIN visits b ON a.id = b.id WHERE a.v = 7",
    "a self-join, three times": "SELECT COUNT(*) FROM visits a JOIN visits b USING (id) JOIN visits c USING (id)",
    "a left self-join": "SELECT COUNT(*) FROM visits a LEFT JOIN visits b ON a.id = b.id AND a.v < b.v",
    "a full self-join": "SELECT COUNT(*) FROM (SELECT id FROM visits) a FULL JOIN (SELECT id FROM visits) b USING (id)",
    "a repeated common table": "WITH w AS (SELECT id, v FROM visits) SELECT COUNT(*) FROM w a JOIN w b ON a.id = b.id",
    "EXISTS with a sum of both sides": "SELECT COUNT(*) FROM visits a WHERE EXISTS (SELECT 1 FROM visits b "
    "WHERE a.id = b.id AND a.v + b.v = 9)",
    "generate_series": "SELECT COUNT(*) FROM p, generate_series(1, 1000000)",
    "UNION ALL of joined rows": "SELECT COUNT(*) FROM (SELECT id FROM p, days, codes UNION ALL SELECT id FROM "
    "visits) x",
    "DISTINCT of joined rows": "SELECT COUNT(*) FROM (SELECT DISTINCT id, a.day, b.day AS other FROM p, days "
    "a, days b) x",
    "STRING_AGG of joined rows": "SELECT COUNT(*) FROM (SELECT id, STRING_AGG(note, '' ORDER BY note) AS s "
    "FROM p, days "
    "GROUP BY id) x WHERE LENGTH(s) > 9",
    "STRING_AGG of towers": f"SELECT COUNT(*) FROM (SELECT id, STRING_AGG({TOWER}, ',' ORDER BY {TOWER}) AS s "
    f"FROM p GROUP BY id) x, codes",
    "STRING_AGG in a window": "SELECT COUNT(*) FROM (SELECT STRING_AGG(note, '') OVER (PARTITION BY id) AS s "
    "FROM visits) x",
    "MEDIAN in a window": "SELECT COUNT(*) FROM (SELECT MEDIAN(v) OVER (PARTITION BY id ORDER BY day) AS s "
    "FROM visits) x",
    "DISTINCT in a window": "SELECT COUNT(*) FROM (SELECT COUNT(DISTINCT v) OVER (PARTITION BY id) AS s FROM visits) x",
    "windows over joined rows": "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY id ORDER BY d.day) AS n "
    "FROM p, days d) x",
    "grouping sets of joined rows": "SELECT week, code, COUNT(*) FROM p, days, codes GROUP BY CUBE (week, code)",
    "ROLLUP over what a unit has": "SELECT week, COUNT(*) FROM (SELECT id, week, STRING_AGG(note, '' ORDER BY "
    "note) AS s FROM visits "
    "JOIN days ON visits.day >= days.day GROUP BY id, week) x WHERE LENGTH(s) > 3 GROUP BY ROLLUP (week)",
    "IN of joined public rows": "SELECT COUNT(*) FROM p WHERE id = 7 AND hiv AND id IN (SELECT a.code + b.code FROM "
    "codes a, codes b)",
    "NOT IN of joined public rows": "SELECT COUNT(*) FROM p WHERE id = 7 AND hiv AND id NOT IN (SELECT a.code FROM "
    "codes a, codes b WHERE a.code <> b.code)",
    "EXISTS of joined public rows": "SELECT COUNT(*) FROM p WHERE hiv AND EXISTS (SELECT 1 FROM codes a, codes b "
    "WHERE a.code = p.id)",
    "a public join inside, made distinct": "SELECT COUNT(*) FROM p JOIN (SELECT DISTINCT a.code FROM codes a, codes b "
    "WHERE a.code < b.code) x ON x.code = p.id WHERE hiv",
    "a value of joined public rows": "SELECT COUNT(*) FROM p WHERE hiv AND age < (SELECT SUM(b.code) FROM codes a, "
    "codes b WHERE a.code = p.id)",
    "joined literals in IN": FOUR + "SELECT COUNT(*) FROM p WHERE hiv AND id IN (SELECT a.x FROM v a, v b)",
    "joined public rows that are numbered": "SELECT COUNT(*) FROM p JOIN (SELECT a.code, ROW_NUMBER() OVER (PARTITION "
    "BY a.code ORDER BY b.code) AS n FROM codes a, codes b) x ON x.code = p.id AND x.n = 1 WHERE hiv",
    "a public set of joined rows": "SELECT COUNT(*) FROM p WHERE hiv AND id IN (SELECT a.code FROM codes a, codes b "
    "INTERSECT SELECT code FROM codes)",
    "public many-to-many rows": "SELECT COUNT(*) FROM p WHERE hiv AND id IN (SELECT a.code FROM codes a JOIN codes b "
    "USING (code) JOIN codes c USING (code))",
    "public texts": f"SELECT COUNT(*) FROM p WHERE hiv AND id IN (SELECT code FROM codes WHERE "
    f"LENGTH({EIGHT.replace('note', 'meaning')}) > 9)",
}
PADDED = "RPAD(LPAD(note, 9000, 'ab'), 10000, 'ab')"

ANSWERED = {
    "a filter": "SELECT COUNT(*) FROM p WHERE id = 7 AND hiv AND age <> $run",
    "replacements of one row": f"SELECT COUNT(*) FROM p WHERE age <> $run AND LENGTH({EACH.format(EIGHT)}) > 9",
    "padding of one row": "SELECT COUNT(*) FROM p WHERE age <> $run AND "
    f"LENGTH({EACH.format('LPAD(note, 10000)')}) > 3",
    "padding twice of one row": f"SELECT COUNT(*) FROM p WHERE age <> $run AND {EACH.format(PADDED)} LIKE 'b%'",
    "joining of one row": "SELECT COUNT(*) FROM p WHERE age <> $run AND "
    f"LENGTH({EACH.format('note' + ' || note' * 4)}) > 9",
    "joining of joined texts of one row": f"SELECT COUNT(*) FROM p WHERE age <> $run AND "
    f"LENGTH({EACH.format('CONCAT(' * 2 + 'note' + ', note, note)' * 2)}) > 9",
    "a regular expression": "SELECT COUNT(*) FROM p WHERE age <> $run AND hiv AND note ~ '(a+)+b'",
    "a regular expression of many states": "SELECT COUNT(*) FROM p WHERE age <> $run AND "
    f"{EACH.format('note')} ~ '[ab]*a[ab]{{9}}c'",
    "a regular expression of alternatives": "SELECT COUNT(*) FROM p WHERE age <> $run AND "
    f"{EACH.format('note')} ~ '^(a|ab|aab)+c$'",
    "a pattern": f"SELECT COUNT(*) FROM p WHERE age <> $run AND {EACH.format('note')} LIKE '%{'a' * 150}_b%'",
    "a text sought in one row": "SELECT COUNT(*) FROM p WHERE age <> $run AND "
    f"POSITION('{'a' * 100}b' IN {EACH.format('note')}) > 0",
    "splitting": f"SELECT COUNT(*) FROM p WHERE age <> $run AND SPLIT_PART({EACH.format('note')}, 'b', 2) = ''",
    "reversing of one row": f"SELECT COUNT(*) FROM p WHERE age <> $run AND REVERSE({EACH.format('note')}) = 'x'",
    "upper and lower case": f"SELECT COUNT(*) FROM p WHERE age <> $run AND UPPER(LOWER({EACH.format('note')})) = 'X'",
    "a cross join with a public table": "SELECT COUNT(*) FROM p, days WHERE age <> $run AND id = 7 AND hiv",
    "a cross join of literals": "SELECT COUNT(*) FROM p, (VALUES (1), (2), (3), (4)) AS t(x), (VALUES (1), (2), (3)) "
    "AS u(y) WHERE age <> $run AND hiv AND id + x > y",
    "public rows for a key": "SELECT COUNT(*) FROM p JOIN codes ON age = code WHERE age <> $run AND id = 7 AND hiv",
    "padding of joined rows": "SELECT COUNT(*) FROM p, (VALUES (1), (2), (3), (4)) AS t(x) WHERE age <> $run AND "
    f"LENGTH({EACH.format('LPAD(note, 9000)')}) > x",
    "grouping sets": "SELECT week, COUNT(*) FROM p, days WHERE age <> $run AND hiv GROUP BY ROLLUP (week)",
    "one row for each person, met once": "SELECT COUNT(*) FROM visits JOIN p ON visits.id = p.id WHERE p.hiv "
    "AND v <> $run",
    "a running window": "SELECT COUNT(*) FROM (SELECT id, SUM(v) OVER (PARTITION BY id ORDER BY visit "
    "ROWS BETWEEN 5000 PRECEDING AND CURRENT ROW) AS s FROM visits WHERE hiv AND v <> $run) x WHERE s > 3",
    "a window of ranks": "SELECT COUNT(*) FROM (SELECT id, RANK() OVER (PARTITION BY id ORDER BY note) AS s, "
    "LAG(v, 100) OVER (PARTITION BY id ORDER BY visit) AS l FROM visits WHERE hiv AND v <> $run) x WHERE s > l",
    "EXISTS with a comparison": "SELECT COUNT(*) FROM visits a WHERE hiv AND v <> $run AND EXISTS (SELECT 1 FROM "
    "visits b WHERE a.id = b.id AND a.v < b.v)",
    "the last row of each person": "SELECT COUNT(*) FROM visits a JOIN (SELECT * FROM (SELECT id, v, ROW_NUMBER() OVER "
    "(PARTITION BY id ORDER BY day DESC) AS n FROM visits WHERE hiv) x WHERE n = 1) b ON a.id = b.id AND a.v <> $run",
    "a self-join with DISTINCT persons": "SELECT COUNT(*) FROM visits a JOIN (SELECT DISTINCT id FROM visits "
    "WHERE v = 7 AND hiv) b USING (id) WHERE v <> $run",
    "a self-join with a group for each person": "SELECT COUNT(*) FROM visits a JOIN (SELECT id, MAX(v) AS v FROM "
    "visits WHERE hiv GROUP BY id) b USING (id) WHERE a.v <> $run",
    "STRING_AGG": "SELECT COUNT(*) FROM (SELECT id, STRING_AGG(note, ',' ORDER BY note) AS s FROM visits WHERE hiv "
    "AND v <> $run GROUP BY id) x WHERE LENGTH(s) > 3",
    "a median of each person": "SELECT COUNT(*) FROM (SELECT id, MEDIAN(v) AS s FROM visits WHERE hiv AND v <> $run "
    "GROUP BY id) x WHERE s > 3",
    "distinct values of each person": "SELECT COUNT(*) FROM (SELECT id, COUNT(DISTINCT note) AS s FROM visits "
    "WHERE hiv AND v <> $run GROUP BY id) x WHERE s > 3",
    "DISTINCT rows": "SELECT COUNT(*) FROM (SELECT DISTINCT id, note, visit FROM visits WHERE hiv AND v <> $run) x",
    "UNION ALL": "SELECT COUNT(*) FROM (SELECT id, note FROM visits WHERE hiv AND v <> $run UNION ALL SELECT id, note "
    "FROM visits WHERE hiv) x",
    "INTERSECT": "SELECT COUNT(*) FROM (SELECT id, note FROM visits WHERE hiv AND v <> $run INTERSECT SELECT id, note "
    "FROM visits WHERE hiv) x",
    "selected groups": "SELECT note, COUNT(*) FROM visits WHERE hiv AND v <> $run GROUP BY note",
    "selected groups of two columns": "SELECT visit, note, COUNT(*) FROM visits WHERE hiv AND v <> $run "
    "GROUP BY visit, note",
    "grouping sets of rows": "SELECT v, COUNT(*), SUM(v) FROM visits WHERE hiv AND v <> $run GROUP BY ROLLUP (v)",
    "COUNT(DISTINCT)": "SELECT COUNT(DISTINCT note) FROM visits WHERE hiv AND v <> $run",
    "a noisy median": "SELECT MEDIAN(v) FROM visits WHERE hiv AND v <> $run",
    "regular expressions on each row": "SELECT COUNT(*) FROM visits WHERE CASE WHEN hiv THEN note ELSE '' END "
    "~ '(a+)+b' AND v <> $run",
    "a few public rows": "SELECT COUNT(*) FROM visits, (VALUES (1), (2), (3)) AS t(x) WHERE v < x AND hiv "
    "AND v <> $run",
    "a regular expression of very many states": "SELECT COUNT(*) FROM p WHERE age <> $run AND "
    f"{EACH.format('note')} ~ '[ab]*a[ab]{{60}}c'",
    "a regular expression on a made text of one row": "SELECT COUNT(*) FROM p WHERE age <> $run AND "
    f"{EACH.format('LPAD(note, 10000)')} ~ '[ab]*a[ab]{{9}}c'",
    "a pattern on a made text": "SELECT COUNT(*) FROM p WHERE age <> $run AND "
    f"{EACH.format('LPAD(note, 10000)')} LIKE '%{'a' * 60}_b%'",
    "regular expressions of many states on each row": "SELECT COUNT(*) FROM visits WHERE CASE WHEN hiv THEN note ELSE "
    "'' END ~ '[ab]*a[ab]{9}c' AND v <> $run",
    "IN of public rows": "SELECT COUNT(*) FROM p WHERE hiv AND age <> $run AND id IN (SELECT code FROM codes WHERE "
    "meaning LIKE 'm%')",
    "public tables joined by a key": "SELECT COUNT(*) FROM p WHERE hiv AND age <> $run AND id IN (SELECT week FROM "
    "days JOIN (SELECT DISTINCT code FROM codes) c ON c.code = days.week)",
    "what public rows add up to": "SELECT COUNT(*) FROM p WHERE hiv AND age <> $run AND age < "
    "(SELECT AVG(code) FROM codes)",
    "IN of private rows": "SELECT COUNT(*) FROM visits WHERE v <> $run AND id IN (SELECT id FROM p WHERE hiv)",
    "EXISTS of private rows": "SELECT COUNT(*) FROM p WHERE hiv AND age <> $run AND EXISTS (SELECT 1 FROM visits "
    "WHERE visits.id = p.id AND v = 3)",
    "NOT EXISTS of private rows": "SELECT COUNT(*) FROM p WHERE hiv AND age <> $run AND NOT EXISTS (SELECT 1 FROM "
    "visits WHERE visits.id = p.id AND v = 11)",
    "a left join of few persons": "SELECT COUNT(x.s) FROM p LEFT JOIN (SELECT id, MAX(v) AS s FROM visits GROUP BY id) "
    "x ON p.id = x.id WHERE p.hiv AND p.age <> $run",
    "a left join of which few rows are read": "SELECT COUNT(*) FROM p LEFT JOIN (SELECT id, MAX(v) AS s FROM visits "
    "WHERE hiv GROUP BY id) x ON p.id = x.id WHERE x.s >= 0 AND p.age <> $run",
    "a full join": "SELECT COUNT(*) FROM (SELECT COALESCE(a.id, b.id) AS id, s FROM (SELECT id FROM p WHERE hiv) a "
    "FULL JOIN (SELECT id, MAX(v) AS s FROM visits WHERE v <> $run GROUP BY id) b ON a.id = b.id) x WHERE s > 3",
    "a join of three sides": "SELECT COUNT(*) FROM visits JOIN p ON visits.id = p.id JOIN (SELECT id, COUNT(*) AS n "
    "FROM visits GROUP BY id) x ON x.id = p.id WHERE p.hiv AND visits.v <> $run AND x.n > 2",
    "a filter on grouped rows of a join": "SELECT COUNT(*) FROM (SELECT p.id, p.hiv, MAX(v) AS s FROM visits JOIN p ON "
    "visits.id = p.id GROUP BY p.id, p.hiv) x WHERE hiv AND s <> $run",
    "a join with a public table and persons": "SELECT COUNT(*) FROM visits JOIN days ON visits.day = days.day JOIN p "
    "ON visits.id = p.id WHERE p.hiv AND v <> $run",
    "groups of which one person has many": "SELECT visit, COUNT(*) FROM visits WHERE (hiv OR visit % 7 = 3) AND "
    "v <> $run GROUP BY visit",
    "values of which one person has many": "SELECT COUNT(DISTINCT visit) FROM visits WHERE (hiv OR visit % 7 = 3) AND "
    "v <> $run",
    "values by group of which one person has many": "SELECT note, COUNT(DISTINCT visit) FROM visits WHERE (hiv OR "
    "visit % 7 = 3) AND v <> $run GROUP BY note",
    "EXCEPT": "SELECT COUNT(*) FROM (SELECT id, v FROM visits WHERE hiv AND v <> $run EXCEPT SELECT id, v FROM visits "
    "WHERE v = 3) x",
}


def asked(shape: str, run: int = 0) -> str:
    """Returns the text of a question; each run asks another one, so that no stored answer is read.

    Args:
        run: From 0.
    """
    return (REFUSED | ANSWERED)[shape].replace("$run", str(1000 + run))


def frames(bit: bool, rows: int = 20, size: int = 40, notes: int = 20_000) -> dict[str, pd.DataFrame]:
    """Returns a ward in which person 7 has the bit or not, and as many visits as are asked; the others have twenty.

    Args:
        size: How many persons there are.
        notes: Characters of the note of a person.
    """
    people = np.arange(size)
    persons = np.repeat(people, np.where(people == 7, rows, 20))
    draw = np.random.default_rng(7)
    return {
        "p": pd.DataFrame(
            {"id": people, "hiv": [bit and i == 7 for i in people], "age": people % 10, "note": "a" * notes}
        ),
        "visits": pd.DataFrame(
            {
                "id": persons,
                "visit": range(len(persons)),
                "v": draw.integers(0, 10, len(persons)),
                "hiv": bit & (persons == 7),
                "day": pd.Timestamp("2024-05-05"),
                "note": [f"{i:06d}" + "a" * 94 for i in range(len(persons))],
            }
        ),
        "days": pd.DataFrame({"day": pd.date_range("2024-01-01", periods=366), "week": 1}),
        "codes": pd.DataFrame({"code": np.arange(3000) % 10, "meaning": "m"}),
    }
