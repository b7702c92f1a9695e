"""A grammar in which capabilities meet: every relation is made of others, and so is every noisy table.

All relations below the boundary have the columns id, x (a float), y (an integer) and t (a text), all noisy tables the
columns k and n, so that any of them may stand where one may. A query of `Mixed` is legal, or of one of the forms that
mix the rows of different patients.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.attacks.study import Query

BASES = (
    "SELECT id, value AS x, days AS y, test AS t FROM labs",
    "SELECT id, bmi AS x, age AS y, sex AS t FROM patients",
    "SELECT id, height AS x, futime AS y, CASE WHEN died THEN 'dead' ELSE NULL END AS t FROM patients",
    "SELECT id, weight AS x, CASE WHEN age > 60 THEN age END AS y, UPPER(sex) AS t FROM patients WHERE futime > 500",
    "SELECT id, days / 4 AS x, days AS y, event AS t FROM events",
    "SELECT id, CAST(NULL AS DOUBLE) AS x, LENGTH(event) AS y, event AS t FROM events WHERE days > 0",
    "SELECT id, value AS x, EXTRACT(YEAR FROM DATE '2000-01-01' + days) AS y, test AS t FROM labs",
)
VALUES = "(VALUES ('hdl', 1), ('sbp', 2), ('ang', 3), ('F', 4), ('none', 5), (NULL, 6)) v (code, rank)"
CONDITIONS: tuple[str, ...] = (
    "{}x > 30",
    "{}y > 0",
    "{}t <> 'hdl'",
    "{}t IS NULL",
    "{}x IS NOT NULL",
    "{}y BETWEEN -900 AND 900",
)
CONDITIONS += ("{}t LIKE '%a%'", "{}x > {}y", "{}t IN ('sbp', 'F', 'ang')", "{}y % 3 = 1", "NOT ({}x < 50)")
KEYS: tuple[str, ...] = (
    "{}t",
    "{}t",
    "{}y > 0",
    "CASE WHEN {}x > 50 THEN 'high' WHEN {}x <= 50 THEN 'low' END",
    "COALESCE({}t, 'no')",
)
KEYS += ("{}x IS NULL", "UPPER({}t)", "CLAMP({}y // 100, -3, 3)", "{}t = 'sbp'", "LENGTH({}t)")
NUMBERS: tuple[str, ...] = (
    "CLAMP({}x, -500, 500)",
    "CLAMP({}y, -1000, 1000)",
    "CLAMP({}x * 2 - {}y, -2000, 2000)",
    "LEAST(LENGTH({}t), 20)",
)
NUMBERS += ("CASE WHEN {}t = 'hdl' THEN 1 ELSE 0 END", "CLAMP(COALESCE({}x, {}y), 0, 90)", "LEAST(GREATEST({}y, 0), 9)")
INTEGERS = ("CLAMP({}y, -1000, 1000)", "CLAMP(LENGTH({}t), 0, 20)", "CASE WHEN {}x > 40 THEN 2 ELSE 3 END", "{}y")
DATE = "DATE '2000-06-15' + CAST(CLAMP({}y, -3000, 3000) AS INTEGER)"
KEYS += (f"EXTRACT(YEAR FROM {DATE})", f"DATE_TRUNC('year', {DATE})", f"EXTRACT(DOW FROM {DATE})")
CONDITIONS += (f"{DATE} < DATE '2001-03-04'", f"DATE_DIFF('month', DATE '2000-01-01', {DATE}) > 3")
RAW = ("{}x", "{}y", "{}x / 2", "{}y + 1")
TIES = "x NULLS LAST, y NULLS LAST, t NULLS LAST"


@dataclass(frozen=True, kw_only=True)
class Mixture(Query):
    """A query of combined capabilities.

    Attributes:
        illegal: Written so that it must be refused.
    """

    illegal: bool = False


@dataclass
class Mixed:
    """Random queries."""

    seed: int
    draw: random.Random = field(init=False)
    names: int = 0
    ctes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def pick(self, choices: Sequence[str]) -> str:
        return self.draw.choice(choices)

    def chance(self, part: float) -> bool:
        return self.draw.random() < part

    def of(self, choices: Sequence[str], alias: str = "") -> str:
        return self.pick(choices).replace("{}", alias)

    def query(self) -> Mixture:
        """Returns a query."""
        self.ctes = []
        forms: list[Callable[[], Mixture]] = [self.plain, self.plain, self.sets, self.choice, self.over, self.over]
        made = self.draw.choice([*forms, self.illegal, self.illegal, self.nonsense])()
        if not self.ctes:
            return made
        return Mixture(
            text=f"WITH {', '.join(self.ctes)} {made.text}",
            mild=made.mild,
            ordered=made.ordered,
            broken=made.broken,
            illegal=made.illegal,
        )

    # Below the boundary.

    def rows(self, depth: int = 2) -> str:
        """Returns SELECT id, x, y, t: unit-local."""
        if depth <= 0 or self.chance(0.15):
            return self.pick(BASES)
        forms = [self.filtered, self.joined, self.joined, self.united, self.windowed, self.first, self.totals]
        forms += [self.semi, self.semi, self.valued, self.twice, self.correlated, self.outer, self.distinct, self.minus]
        return self.draw.choice(forms)(depth - 1)

    def source(self, depth: int = 2) -> str:
        """Returns a relation for FROM, perhaps the name of a CTE."""
        made = self.rows(depth)
        if self.chance(0.25):
            self.names += 1
            self.ctes.append(f"c{self.names} AS ({made})")
            return f"c{self.names}"
        return f"({made})"

    def filtered(self, depth: int) -> str:
        first, second = self.of(CONDITIONS), self.of(CONDITIONS)
        condition = self.pick([first, f"{first} OR {second}", f"NOT ({first} AND {second})"])
        return f"SELECT id, x, y, t FROM {self.source(depth)} f WHERE {condition}"

    def joined(self, depth: int) -> str:
        kind = self.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN", "INNER JOIN"])
        kept = "b" if (kind == "RIGHT JOIN") is not self.chance(0.15) else "a"  # else the id may be NULL
        how = self.pick(["a.id = b.id", "a.id = b.id AND a.t = b.t", "b.id = a.id AND a.y > b.y", "USING"])
        id, how = ("id", "USING (id)") if how == "USING" else (f"{kept}.id", f"ON {how}")
        shown = self.pick(
            ["a.x, b.y, a.t", "b.x, a.y, b.t", "COALESCE(a.x, b.x) AS x, b.y, COALESCE(b.t, 'none') AS t"]
        )
        where = f" WHERE {self.of(CONDITIONS, self.pick(['a.', 'b.']))}" if self.chance(0.2) else ""
        return f"SELECT {id}, {shown} FROM {self.source(depth)} a {kind} {self.source(depth)} b {how}{where}"

    def outer(self, depth: int) -> str:
        shown = self.pick(["a.x, b.y, a.t", "b.x, a.y, b.t", "COALESCE(a.x, b.x) AS x, b.y, a.t"])
        return f"SELECT id, {shown} FROM {self.source(depth)} a FULL JOIN {self.source(depth)} b USING (id)"

    def united(self, depth: int) -> str:
        word = self.pick(["UNION ALL", "UNION ALL", "UNION"])
        return f"{self.simple(depth)} {word} {self.simple(depth)}"

    def minus(self, depth: int) -> str:
        word = self.pick(["EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
        pair = f"SELECT id, t FROM {self.source(depth)} l {word} SELECT id, t FROM {self.source(depth)} r"
        return f"SELECT id, 1.5 AS x, LENGTH(t) AS y, t FROM ({pair}) m"

    def simple(self, depth: int) -> str:
        return f"SELECT id, x, y, t FROM {self.source(depth)} s"

    def windowed(self, depth: int) -> str:
        part = self.pick(["id", "id", "id, t"])
        functions = [
            f"ROW_NUMBER() OVER (PARTITION BY {part} ORDER BY {TIES})",
            f"RANK() OVER (PARTITION BY {part} ORDER BY y NULLS LAST)",
            f"COUNT(*) OVER (PARTITION BY {part})",
            f"LAG(y) OVER (PARTITION BY {part} ORDER BY {TIES})",
            f"SUM(y) OVER (PARTITION BY {part} ORDER BY {TIES} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            f"MAX(y) OVER (PARTITION BY {part})",
            f"DENSE_RANK() OVER (PARTITION BY {part} ORDER BY t NULLS FIRST)",
            f"COUNT(x) FILTER (WHERE y > 0) OVER (PARTITION BY {part})",
            f"FIRST_VALUE(y) OVER (PARTITION BY {part} ORDER BY {TIES})",
        ]
        return f"SELECT id, x, {self.pick(functions)} AS y, t FROM {self.source(depth)} w"

    def first(self, depth: int) -> str:
        part = self.pick(["id", "id, t"])
        forms = [
            "SELECT id, x, y, t FROM {0} q QUALIFY ROW_NUMBER() OVER (PARTITION BY {1} ORDER BY {2}) = 1",
            "SELECT id, x, y, t FROM {0} q QUALIFY ROW_NUMBER() OVER (PARTITION BY {1} ORDER BY {2}) <= 3",
            "SELECT DISTINCT ON ({1}) id, x, y, t FROM {0} q ORDER BY {1}, {2}",
            "SELECT id, x, y, t FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {1} ORDER BY {2}) AS place FROM {0} q)"
            " r WHERE place = 2",
        ]
        return self.pick(forms).format(self.source(depth), part, TIES)

    def totals(self, depth: int) -> str:
        x = self.pick(["MAX(x)", "MIN(x)", "AVG(y)", "SUM(CLAMP(x, 0, 300))", "MEDIAN(y)", "VAR_POP(y)", "COUNT(x)"])
        y = self.pick(["COUNT(*)", "COUNT(DISTINCT t)", "MIN(y)", "MAX(y) - MIN(y)", "SUM(y)", "COUNT(x)"])
        y += " FILTER (WHERE y > 0)" if "-" not in y and self.chance(0.2) else ""
        having = (
            f" HAVING {self.pick(['COUNT(*) > 1', 'MAX(y) > 0', 'COUNT(DISTINCT t) < 3'])}" if self.chance(0.3) else ""
        )
        if self.chance(0.5):
            return f"SELECT id, {x} AS x, {y} AS y, t FROM {self.source(depth)} g GROUP BY id, t{having}"
        return f"SELECT id, {x} AS x, {y} AS y, MAX(t) AS t FROM {self.source(depth)} g GROUP BY id{having}"

    def distinct(self, depth: int) -> str:
        return f"SELECT DISTINCT id, {self.pick(['x', '2.5 AS x'])}, y, t FROM {self.source(depth)} d"

    def semi(self, depth: int) -> str:
        forms = [
            "o.id IN (SELECT id FROM {0} i)",
            "o.id NOT IN (SELECT id FROM {0} i)",
            "(o.id, o.t) IN (SELECT id, t FROM {0} i)",
            "EXISTS (SELECT 1 FROM {0} i WHERE i.id = o.id AND i.y > o.y)",
            "NOT EXISTS (SELECT 1 FROM {0} i WHERE i.id = o.id AND i.t = o.t)",
            "o.id = ANY (SELECT id FROM {0} i)",
            "o.y > 0 OR o.id NOT IN (SELECT id FROM {0} i)",
            "o.x > 0 OR o.y < ALL (SELECT i.y FROM {0} i WHERE i.id = o.id AND i.t <> o.t)",
            "o.t IN (SELECT code FROM " + VALUES + ")",
            "o.y > (SELECT COUNT(*) FROM " + VALUES + ")",
        ]
        return f"SELECT id, x, y, t FROM {self.source(depth)} o WHERE " + self.pick(forms).format(self.source(depth))

    def correlated(self, depth: int) -> str:
        one = self.pick(["MAX(i.y)", "COUNT(*)", "AVG(i.y)", "SUM(i.y)", "MIN(i.x)"])
        value = f"(SELECT {one} FROM {self.source(depth)} i WHERE i.id = o.id)"
        if self.chance(0.5):
            return f"SELECT o.id, o.x, o.y, o.t FROM {self.source(depth)} o WHERE o.y >= {value}"
        return f"SELECT o.id, {value} AS x, o.y, o.t FROM {self.source(depth)} o"

    def valued(self, depth: int) -> str:
        kind = self.pick(["JOIN", "LEFT JOIN"])
        return f"SELECT a.id, a.x, v.rank AS y, v.code AS t FROM {self.source(depth)} a {kind} {VALUES} ON a.t = v.code"

    def twice(self, depth: int) -> str:
        self.names += 1
        name = f"c{self.names}"
        made = self.rows(depth)
        self.ctes.append(f"{name} AS ({made})")
        return self.pick(
            [
                f"SELECT a.id, a.x, b.y, a.t FROM {name} a JOIN {name} b ON a.id = b.id AND a.y < b.y",
                f"SELECT id, x, y, t FROM {name} a WHERE id IN (SELECT b.id FROM {name} b WHERE b.x > 100)",
                f"SELECT id, x, y, t FROM {name} a UNION ALL SELECT id, y, y, t FROM {name} b",
            ]
        )

    # At the boundary.

    def aggregate(self, alias: str = "") -> str:
        number, other, integer = (self.of(c, alias) for c in (NUMBERS, NUMBERS, INTEGERS))
        forms = ["COUNT(*)", "COUNT(*)", f"COUNT({number})", f"SUM({number})", f"SUM({number})", f"AVG({number})"]
        forms += [f"COUNT(DISTINCT {integer})", f"COUNT(DISTINCT {alias}id)", f"STDDEV_POP({number})"]
        forms += [f"COVAR_POP({number}, {other})", f"VAR_POP({number})", f"REGR_COUNT({number}, {other})"]
        forms += [f"CORR({number}, {other})", f"REGR_SLOPE({number}, {other})"] if self.chance(0.1) else []
        forms += [f"SUM({self.of(RAW, alias)})", f"COUNT_IF({self.of(CONDITIONS, alias)})"]
        kept = f" FILTER (WHERE {self.of(CONDITIONS, alias)})" if self.chance(0.2) else ""
        return self.pick(forms) + kept

    def keys(self, counts: Sequence[int]) -> list[str]:
        return list(dict.fromkeys(self.of(KEYS) for _ in range(self.draw.choice(counts))))

    def where(self) -> str:
        return f" WHERE {self.of(CONDITIONS)}" if self.chance(0.3) else ""

    def plain(self) -> Mixture:
        """Keys and aggregates of a made relation."""
        keys = self.keys([0, 1, 1, 2])
        items = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        items += [f"{self.aggregate()} AS a{i}" for i in range(self.draw.randint(1, 3))]
        text = f"SELECT {', '.join(items)} FROM {self.source(3)} u{self.where()}"
        text += (" GROUP BY " + ", ".join(str(i + 1) for i in range(len(keys)))) if keys else ""
        return Mixture(text=text, mild=False)

    def sets(self) -> Mixture:
        """Grouping sets."""
        keys = [key for key in self.keys([2, 2, 3]) if not re.search("[=>]| IS ", key)] or ["t"]
        items = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        items += [f"{self.aggregate()} AS a{i}" for i in range(self.draw.randint(1, 2))]
        if self.chance(0.3):
            items.append(f"GROUPING({keys[0]}) AS g")
        shown = ", ".join(keys)
        sets = self.pick([f"ROLLUP ({shown})", f"CUBE ({shown})", f"GROUPING SETS (({shown}), ())"])
        return Mixture(
            text=f"SELECT {', '.join(items)} FROM {self.source(2)} u{self.where()} GROUP BY {sets}", mild=False
        )

    def choice(self) -> Mixture:
        """Quantiles and modes."""
        keys = self.keys([0, 0, 1])
        items = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        counted = []
        for i in range(self.draw.randint(1, 2)):
            integer = self.of(INTEGERS[:3])
            counted.append(f"COUNT({integer}) > 0.5")
            forms = [f"MIN({integer})", f"MAX({integer})", f"QUANTILE_DISC({integer}, 0.3713)"]
            forms += [
                f"MODE({integer})",
                f"QUANTILE_DISC({integer}, 0.9017)",
                f"PERCENTILE_DISC(0.1171) WITHIN GROUP (ORDER BY {integer})",
            ]
            items.append(f"{self.pick(forms)} AS q{i}")
        items.append("COUNT(*) AS a")
        text = f"SELECT {', '.join(items)} FROM {self.source(2)} u{self.where()}"
        having = f" HAVING {' AND '.join(counted)}"
        return Mixture(text=text + (" GROUP BY 1" if keys else "") + having, mild=False)

    # Above the boundary.

    def noisy(self) -> str:
        """Returns SELECT k, n: groups that have rows, and whole numbers."""
        key = self.of(KEYS)
        value = self.pick(["COUNT(*)", "COUNT(*)", f"COUNT(DISTINCT {self.of(INTEGERS)})", "COUNT(DISTINCT id)"])
        value = self.pick([value, value, f"{value} * 2", f"CASE WHEN {value} > 30 THEN {value} ELSE 0 END"])
        null = "" if self.chance(0.5) and key in ("t", "UPPER(t)") else f" AND {key} IS NOT NULL"
        having = f" HAVING COUNT(*) > {self.pick(['0.5', '0.5', '20.5', f'({self.total()}) / 9 + 0.51'])}{null}"
        source = f"{self.source(2)} u{self.where()}"
        return f"SELECT CAST({key} AS TEXT) AS k, {value} AS n FROM {source} GROUP BY {key}{having}"

    def total(self) -> str:
        return f"SELECT COUNT(*) FROM {self.source(1)} z"

    def table(self) -> str:
        if self.chance(0.3):
            made = self.noisy()
            self.names += 1
            self.ctes.append(f"n{self.names} AS ({made})")
            return f"n{self.names}"
        return f"({self.noisy()})"

    def over(self) -> Mixture:
        """What may stand above."""
        a, b = self.table(), self.table()
        if a.startswith("n") and self.chance(0.4):
            b = a
        kind = self.pick(["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
        word = self.pick(["UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL"])
        forms = [
            f"SELECT k, a.n AS n, b.n AS m FROM {a} a {kind} {b} b USING (k)",
            f"SELECT a.k, a.n - COALESCE(b.n, 0) AS n FROM {a} a LEFT JOIN {b} b ON a.k = b.k AND b.n > 5",
            f"SELECT a.k, b.n FROM {a} a JOIN {b} b ON a.k IS NOT DISTINCT FROM b.k",
            f"SELECT k, n FROM {a} a {word} SELECT k, n FROM {b} b",
            f"SELECT k, n, RANK() OVER (ORDER BY n DESC) AS r, SUM(n) OVER (ORDER BY n, k NULLS LAST) AS s FROM {a} a",
            f"SELECT k, n FROM {a} a QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC, k NULLS LAST) <= 2",
            f"SELECT k, n FROM {a} a WHERE n > (SELECT AVG(n) - 0.01 FROM {b} b)",
            f"SELECT k, n FROM {a} a WHERE k IN (SELECT k FROM {b} b)",
            f"SELECT k, n FROM {a} a WHERE k NOT IN (SELECT k FROM {b} b WHERE k IS NOT NULL)",
            f"SELECT k, n FROM {a} a WHERE NOT EXISTS (SELECT 1 FROM {b} b WHERE b.k = a.k AND b.n > a.n)",
            f"SELECT DISTINCT ON (n % 3) n % 3 AS r, k, n FROM {a} a ORDER BY n % 3, n, k NULLS LAST",
            f"SELECT k, SUM(n) AS s, COUNT(*) AS c FROM {a} a GROUP BY ROLLUP (k)",
            f"SELECT MAX(n) AS m, MIN(n) AS l, ({self.total()}) AS z FROM {a} a",
            f"SELECT v.code, v.rank, a.n FROM {VALUES} LEFT JOIN {a} a ON v.code = a.k",
            f"SELECT n > 20 AS big, COUNT(*) AS c, SUM(n) AS s FROM {a} a GROUP BY 1",
            f"SELECT a.k, (SELECT MAX(b.n) FROM {b} b WHERE b.k = a.k) AS m FROM {a} a",
            f"SELECT k, n FROM (SELECT k, n FROM {a} a UNION ALL SELECT code, rank FROM {VALUES}) u",
            f"SELECT ({self.total()}) - ({self.total()}) AS d",
            f"SELECT x.k, x.n, y.n AS m FROM {a} x CROSS JOIN (SELECT SUM(n) AS n FROM {b} b) y",
            f"SELECT k, LAG(n) OVER w AS p, NTILE(2) OVER w AS q FROM {a} a WINDOW w AS (ORDER BY k NULLS LAST, n)",
        ]
        text = self.pick(forms)
        return Mixture(text=text, mild=True)

    # What may not be answered.

    def illegal(self) -> Mixture:
        """The rows of different patients decide on each other, or are shown."""
        a, b = self.source(2), self.source(2)
        forms = [
            f"SELECT COUNT(*) FROM {a} a JOIN {b} b ON a.t = b.t",
            f"SELECT COUNT(*) FROM {a} a JOIN {b} b USING (t)",
            f"SELECT COUNT(*) FROM {a} a JOIN {b} b ON a.id = b.y",
            f"SELECT COUNT(*) FROM {a} a JOIN {b} b ON a.id <= b.id",
            f"SELECT COUNT(*) FROM {a} a JOIN {b} b ON a.id = b.id OR a.t = b.t",
            f"SELECT COUNT(*) FROM {a} a CROSS JOIN {b} b",
            f"SELECT COUNT(*) FROM {a} a LEFT JOIN {b} b ON a.id = b.id + 1",
            f"SELECT COUNT(*) FROM {a} a FULL JOIN {b} b ON a.id = b.id AND a.id IS NULL OR a.t = b.t",
            f"SELECT COUNT(*) FROM {VALUES} LEFT JOIN {a} a ON v.code = a.t",
            f"SELECT COUNT(*) FROM {a} a FULL JOIN {VALUES} ON v.code = a.t",
            f"SELECT AVG(CLAMP(w, 0, 9)) FROM (SELECT id, RANK() OVER (PARTITION BY t ORDER BY y) AS w FROM {a} a) c",
            f"SELECT SUM(CLAMP(w, 0, 9)) FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY y) AS w FROM {a} a) c",
            f"SELECT SUM(CLAMP(w, 0, 9)) FROM (SELECT id, LAG(y) OVER (ORDER BY id) AS w FROM {a} a) c",
            f"SELECT COUNT(*) FROM (SELECT DISTINCT ON (t) id, t, y FROM {a} a ORDER BY t, y) c",
            f"SELECT COUNT(*) FROM (SELECT DISTINCT t FROM {a} a) c JOIN {b} b ON c.t = b.t",
            f"SELECT COUNT(*) FROM (SELECT t FROM {a} a INTERSECT SELECT t FROM {b} b) c JOIN {a} d ON c.t = d.t",
            f"SELECT COUNT(*) FROM (SELECT y AS id, t FROM {a} a EXCEPT SELECT id, t FROM {b} b) c",
            f"SELECT COUNT(*) FROM (SELECT id FROM {a} a LIMIT 5) c",
            f"SELECT COUNT(*) FROM {a} a WHERE x > (SELECT AVG(x) FROM {b} b)",
            f"SELECT COUNT(*) FROM {a} a WHERE x > (SELECT AVG(CLAMP(x, 0, 9)) FROM {b} b)",
            f"SELECT COUNT(*) FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b)",
            f"SELECT COUNT(*) FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b WHERE a.t = b.t)",
            f"SELECT COUNT(*) FROM {a} a WHERE t IN (SELECT t FROM {b} b)",
            f"SELECT COUNT(*) FROM {a} a WHERE id + 1 IN (SELECT id FROM {b} b)",
            f"SELECT COUNT(*) FROM {a} a WHERE (SELECT MAX(y) FROM {b} b WHERE b.id < a.id) > 0",
            f"SELECT COUNT(*) FROM {VALUES} WHERE code IN (SELECT t FROM {a} a)",
            f"SELECT id, COUNT(*) FROM {a} a GROUP BY id",
            f"SELECT id, t, COUNT(*) FROM {a} a GROUP BY ROLLUP (id, t)",
            f"SELECT x, y FROM {a} a",
            f"SELECT DISTINCT id FROM {a} a",
            f"SELECT id FROM {a} a UNION SELECT 1",
            f"SELECT MAX(id) FROM {a} a",
            f"SELECT ANY_VALUE(x) FROM {a} a",
            f"SELECT LIST(x) FROM {a} a",
            f"SELECT STRING_AGG(t, ',') FROM {a} a",
            f"SELECT MODE(id) FROM {a} a",
            f"SELECT t, COUNT(*), ROW_NUMBER() OVER (ORDER BY id) FROM {a} a GROUP BY t",
            f"SELECT t, x FROM {a} a GROUP BY t",
            f"SELECT COUNT(*) FROM (SELECT t, COUNT(*) AS n FROM {a} a GROUP BY t) c JOIN {b} b ON c.t = b.t",
            f"SELECT a.id FROM {a} a JOIN (SELECT COUNT(*) AS n FROM {b} b) c ON a.id = c.n",
            f"SELECT COUNT(*) FROM {a} a, LATERAL (SELECT MAX(y) AS m FROM {b} b WHERE b.t = a.t) l",
            f"SELECT CASE WHEN (SELECT COUNT(*) FROM {a} a WHERE id = 3) > 0 THEN id ELSE 0 END FROM {b} b",
            f"SELECT t FROM {a} a GROUP BY t HAVING COUNT(*) > (SELECT MAX(id) FROM {b} b)",
            f"SELECT t, COUNT(*) FROM {a} a GROUP BY t ORDER BY MAX(id)",
            f"SELECT COUNT(*) FROM (SELECT MAX(id) AS id, t FROM {a} a GROUP BY t) c",
            f"SELECT COUNT(*) FROM (SELECT id, t FROM {a} a GROUP BY GROUPING SETS ((id), (t))) c",
            f"SELECT COUNT(*) FROM (SELECT id, COUNT(*) AS n FROM {a} a GROUP BY ROLLUP (id)) c",
            f"SELECT COUNT(*) FROM (SELECT COALESCE(id, 3) AS id, t FROM {a} a) c JOIN {b} b USING (id)",
            f"SELECT COUNT(*) FROM {a} a NATURAL JOIN {b} b",
        ]
        return Mixture(text=self.pick(forms), mild=True, illegal=True)

    def nonsense(self) -> Mixture:
        """A legal query in which a word is lost, doubled or another; where it is still SQL, the answer is right."""
        made = self.draw.choice([self.plain, self.sets, self.over])()
        words = made.text.split(" ")
        place = self.draw.randrange(len(words))
        others = [
            "id",
            "t",
            "y",
            "NOT",
            "(",
            ")",
            "NULL",
            "1",
            "DISTINCT",
            "OR",
            "LEFT",
            "u.id",
            ",",
            "a.t",
            "b.id",
            "x",
        ]
        words[place : place + 1] = self.draw.choice([[], [words[place]] * 2, [self.pick(others)], [self.pick(others)]])
        return Mixture(text=" ".join(words), mild=False, broken=True)
