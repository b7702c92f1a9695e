"""A grammar of SQL for fuzzing: about half of what it gives is legal, the rest nearly so."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

NUMBERS = ["age", "cost", "loss", "big", "price", "free", "visit", "v.cost", "fixed", "0", "1", "-3.5", "1e3", "NULL"]
TEXTS = ["note", "ward", "town", "'x'", "''", "'it''s'", "NULL", "v.note"]
DATES = ["day", "DATE '2020-02-29'", "moment", "CURRENT_DATE"]
FLAGS = ["urgent", "TRUE", "FALSE", "NULL"]
KEYS = ["ward", "sex", "urgent", "age", "town", "note", "day", "EXTRACT(month FROM day)", "CASE WHEN urgent THEN 1 END"]
_WORDS = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET DISTINCT ALL AS ON USING JOIN LEFT RIGHT FULL INNER CROSS
NATURAL UNION INTERSECT EXCEPT WITH RECURSIVE CASE WHEN THEN ELSE END AND OR NOT IN EXISTS BETWEEN LIKE IS NULL TRUE
FALSE CAST OVER PARTITION ROWS FILTER WITHIN ROLLUP CUBE SETS INTERVAL DATE COPY ATTACH SET PRAGMA ( ) , . * + - / %
= < > <> <= >= || :: ; ' \" -- /* */ $1 ? @ # ~ [ ] { } 1 0 1e999 'x' visits people wards cost id COUNT(*) SUM(cost)
read_csv('/etc/passwd') query('x') \\ \t é ß \u0130 ＝ \u200b
"""
WORDS = _WORDS.split()
FUNCTIONS = ["ABS", "SQRT", "LN", "EXP", "FLOOR", "ROUND", "SIGN", "-"]
CHANGES = ["UPPER", "LOWER", "TRIM", "REVERSE", "MD5"]
CHARACTERS = [0, 9, 27, 34, 39, 92, 127, 160, 0x202E, 0xFFFF]


class Grammar:
    """Random queries over the clinic's tables; while `tame`, without what is always refused."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.tame = False

    def pick(self, choices: Sequence[str]) -> str:
        return self.draw.choice(choices)

    def number(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(NUMBERS)
        forms: list[Callable[[], str]] = [
            lambda: self.pick(NUMBERS),
            lambda: f"({self.number(depth - 1)} {self.pick(list('+-*/%'))} {self.number(depth - 1)})",
            lambda: f"{self.pick(FUNCTIONS)}({self.number(depth - 1)})",
            lambda: f"CLAMP({self.number(depth - 1)}, {self.pick(['-1', '0'])}, {self.pick(['1', '100.5'])})",
            lambda: f"CASE WHEN {self.flag(depth - 1)} THEN {self.number(depth - 1)} ELSE {self.number(depth - 1)} END",
            lambda: f"COALESCE({self.number(depth - 1)}, {self.number(depth - 1)})",
            lambda: f"NULLIF({self.number(depth - 1)}, {self.number(depth - 1)})",
            lambda: f"GREATEST({self.number(depth - 1)}, {self.number(depth - 1)})",
            lambda: f"CAST({self.text(depth - 1)} AS {self.pick(['BIGINT', 'DOUBLE PRECISION', 'DECIMAL(10,2)'])})",
            lambda: f"LENGTH({self.text(depth - 1)})",
            lambda: f"EXTRACT({self.pick(['year', 'doy', 'week', 'epoch'])} FROM {self.pick(DATES)})",
            lambda: f"{self.pick(['RANDOM', 'MY_UDF', 'pg_sleep'])}({self.number(depth - 1)})",
        ]
        if self.tame:
            forms.pop()
        return self.draw.choice(forms)()

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(TEXTS)
        forms: list[Callable[[], str]] = [
            lambda: self.pick(TEXTS),
            lambda: f"{self.pick(CHANGES[: 4 if self.tame else 5])}({self.text(depth - 1)})",
            lambda: f"({self.text(depth - 1)} || {self.text(depth - 1)})",
            lambda: f"SUBSTRING({self.text(depth - 1)}, {self.number(depth - 1)})",
            lambda: f"REPLACE({self.text(depth - 1)}, 'a', 'b')",
            lambda: f"CAST({self.number(depth - 1)} AS TEXT)",
        ]
        return self.draw.choice(forms)()

    def flag(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(FLAGS)
        forms: list[Callable[[], str]] = [
            lambda: self.pick(FLAGS),
            lambda: f"{self.number(depth - 1)} {self.pick(['=', '<', '>=', '<>'])} {self.number(depth - 1)}",
            lambda: f"{self.text(depth - 1)} = {self.text(depth - 1)}",
            lambda: f"({self.flag(depth - 1)} {self.pick(['AND', 'OR'])} {self.flag(depth - 1)})",
            lambda: f"NOT ({self.flag(depth - 1)})",
            lambda: f"{self.text(depth - 1)} {self.pick(['LIKE', 'ILIKE', '~'])} 'a_%'",
            lambda: f"{self.number(depth - 1)} IS {self.pick(['', 'NOT '])}NULL",
            lambda: f"{self.number(depth - 1)} IN ({self.number(0)}, {self.number(0)})",
            lambda: f"{self.number(depth - 1)} BETWEEN {self.number(0)} AND {self.number(0)}",
            lambda: f"{self.pick(DATES)} < {self.pick(DATES)} + INTERVAL '{self.draw.randrange(-3, 9999)} month'",
            lambda: "id IN (SELECT id FROM referrals WHERE referrer = 3)",
        ]
        if self.tame:
            forms.pop()
        return self.draw.choice(forms)()

    def aggregate(self) -> str:
        names = ["COUNT", "COUNT", "SUM", "SUM", "AVG", "STDDEV", "VAR_POP", "MIN", "MEDIAN"]
        name = self.pick(names[:7] if self.tame else names)
        if self.tame and name != "COUNT":
            return f"{name}(CLAMP({self.number(2)}, {self.pick(['-7.25', '0'])}, {self.pick(['1', '100'])}))"
        argument = self.pick(["*", self.number(2), f"DISTINCT {self.text(1)}"]) if name == "COUNT" else self.number(2)
        kept = f" FILTER (WHERE {self.flag(1)})" if self.draw.random() < 0.2 else ""
        return f"{name}({argument}){kept}"

    def source(self, depth: int) -> str:
        forms: list[Callable[[], str]] = [
            lambda: "visits v JOIN people p USING (id)",
            lambda: "visits v JOIN people p ON v.id = p.id",
            lambda: "visits v, people p, wards w WHERE v.id = p.id AND v.ward = w.code",
            lambda: "visits v LEFT JOIN wards w ON v.ward = w.code JOIN people p ON v.id = p.id",
            lambda: f"{self.pick(['visits', 'people', 'flags', 'wards', 'nowhere'])} v",
            lambda: "visits v CROSS JOIN people p",
            lambda: f"visits v JOIN people p ON {self.flag(2)}",
        ]
        if self.tame:
            return self.draw.choice(forms[:4])()
        if depth > 0:
            forms += [
                lambda: f"(SELECT * FROM {self.source(depth - 1)}) v",
                lambda: f"(SELECT id, {self.aggregate()} AS cost FROM visits GROUP BY id) v",
                lambda: f"(SELECT DISTINCT id, {self.text(1)} AS note FROM {self.source(0)}) v",
                lambda: "(SELECT * FROM visits ORDER BY cost LIMIT 5) v",
                lambda: f"({self.query(depth - 1)}) v",
            ]
        return self.draw.choice(forms)()

    def query(self, depth: int = 2) -> str:
        """Returns a query; every other one at the top is tame."""
        if depth == 2:
            self.tame = self.draw.random() < 0.75
        keys = [self.pick(KEYS) for _ in range(self.draw.choice([0, 0, 1, 1, 2]))]
        items = [*keys, *(self.aggregate() for _ in range(self.draw.randint(1, 3)))]
        items = [f"{item} AS a{i}" if self.draw.random() < 0.5 else item for i, item in enumerate(items)]
        text = f"SELECT {', '.join(items)} FROM {self.source(depth)}"
        if "WHERE" not in text and self.draw.random() < 0.4:
            text += f" WHERE {self.flag(2)}"
        if keys:
            wrapped = {0: "ROLLUP ({})", 1: "CUBE ({})"}.get(self.draw.randrange(20), "{}")
            wrapped = "{}" if self.tame else wrapped
            text += f" GROUP BY {wrapped.format(', '.join(keys))}"
        if self.draw.random() < 0.15:
            text += f" HAVING {self.aggregate()} > {self.number(0)}"
        if self.draw.random() < 0.15:
            text += f" ORDER BY {self.pick(['1', 'a0', self.aggregate()])}"
        if self.draw.random() < 0.1:
            text += f" LIMIT {self.pick(['1', '0', '-1', '1 + 1', 'NULL'])}"
        return text

    def mutated(self, text: str) -> str:
        """Returns a text with a few of its characters or words cut, doubled, swapped or replaced."""
        for _ in range(self.draw.randint(1, 4)):
            place = self.draw.randrange(len(text) + 1)
            width = self.draw.choice([1, 1, 2, 5, 20])
            part, word = text[place : place + width], self.pick(WORDS)
            text = self.draw.choice(
                [
                    text[:place] + text[place + width :],
                    text[:place] + part + part + text[place + width :],
                    text[:place] + part[::-1] + text[place + width :],
                    text[:place] + " " + word + " " + text[place:],
                    text[:place] + chr(self.draw.choice(CHARACTERS)) + text[place:],
                ]
            )
        return text
