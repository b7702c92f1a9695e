"""A private aggregate as one SELECT of DuckDB's SQL: the three steps of `kernel/plan.py`.

The text is a chain of named subqueries:

- `source_rows`: the relation.
- `coded`: its rows with an owner and, for public keys, with their codes; what is not public is gone.
- `masks`, `candidates`: where there are many more groups than a unit may keep, only rows that may be in a kept group.
- `parts`: per unit and group, the bounded contributions.
- `heavy`, `dropped`: units that still have more groups than they may keep, and the groups that they lose.
- `sums`: everything, less what was dropped, per group.
- `kept0`, `kept1`, ...: the histograms of choices, joined to the groups.

`masks` holds, for each unit, which of 63 buckets of the hash its groups fall into, and from that the buckets up to the
one that holds the g-th smallest: the g smallest hashes lie in these, so rows of other buckets are left out before the
costly aggregation, and only few groups remain to be ranked exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpquery.backends import histogram_sql
from dpquery.backends.lattice_sql import lattice_value
from dpquery.backends.relations import RelationWriter
from dpquery.backends.sql_names import name, normal
from dpquery.errors import InternalError
from dpquery.kernel.parallel import weighs_together
from dpquery.kernel.plan import CHOICES, Count, Key, Measure, PrivateAggregate
from dpquery.plan.logical import output

_OWN = re.compile(
    r"unit|place|value\d*|code|found|keep|present|counted|weight|kept\d*|(key|number|level)\d+|part\d+_[ns]"
)
"""Names that the SQL gives to columns of its own."""
BUCKETS = 63
MOST_MASKED_GROUPS = 16
"""Masks are used up to this `max_groups`: each group costs a level of nesting."""
CODED_FROM = 1_000
"""Groups from which rows get their codes before they are aggregated: then the engine groups by numbers, not texts."""
MASK_FROM = 64
"""Masks are used where there are at least this many groups for each that a unit may keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateWriter:
    """Writes one private aggregate.

    The SELECT gives, for each key, `key0`, `key1`, ...: the code of a public key, the value of another; then, for each
    measure that is no choice, `number0`, `number1`, ..., and for each histogram (see `histogram_sql`) `kept0`, ...

    Attributes:
        relations: Writes the source.
        aggregate: What is written.
        domains: For each public key the name of a table with columns `value0`, `value1`, ... and `code`.
        choices: For each measure the same of its domain, or None.
    """

    relations: RelationWriter
    aggregate: PrivateAggregate
    domains: tuple[str | None, ...]
    choices: tuple[str | None, ...]

    def __post_init__(self) -> None:
        if any(_OWN.fullmatch(column.id) for column in output(self.aggregate.source)):
            raise InternalError("an id of a plan is a name that the SQL of private aggregates uses itself")

    def select(self) -> str:
        """Returns the whole statement."""
        rows = f"source_rows AS ({self.relations.select(self.aggregate.source)})"
        if self.aggregate.unit is None:
            return f"WITH {rows} {self._of_rows()}"
        return self._of_units(rows)

    # Where the unit is the row: one aggregation. Few groups find their codes after it, many before.

    def _of_rows(self) -> str:
        if (self.aggregate.public_groups or 0) >= CODED_FROM and not self._kept:
            numbers = [f"{self._row_number(m)} AS number{i}" for i, m in self._added(Count.DISTINCT)]
            coded = f"SELECT {', '.join([*self._codes(), *self._read])} FROM source_rows AS given {self._joined()}"
            return f"SELECT {', '.join([*self._keys, *numbers])} FROM ({coded}){_group_by(self._keys)}"
        keys = [name(id) for key in self.aggregate.keys for id in key.columns]
        numbers = [f"{self._row_number(m)} AS number{i}" for i, m in self._added(Count.DISTINCT)]
        given = [f"number{i}" for i, _ in self._added(Count.DISTINCT)] + self._kept
        if self._alone:
            grouped = self._histograms("source_rows", keys)[0]
        else:
            columns = ", ".join([*keys, *numbers]) or "COUNT(*) AS present"
            grouped = f"SELECT {columns} FROM source_rows{_group_by(keys)}"
        selected = f"SELECT {', '.join([*self._codes(), *given])} FROM ({grouped}) AS given {self._joined()}"
        if self._alone:
            return selected
        return f"{selected} {' '.join(self._with_histograms('source_rows', 'given', keys))}"

    def _row_number(self, measure: Measure) -> str:
        kept = _filter(measure)
        match measure.count:
            case Count.UNITS | Count.ROWS:
                return f"COUNT(*){kept}"
            case Count.VALUES:
                return f"COUNT({_value(measure)}){kept}"
            case Count.DISTINCT:
                return f"COUNT(DISTINCT {_value(measure)}){kept}"
            case Count.SUM:
                return f"COALESCE(SUM({self._lattice_value(measure)}){kept}, 0)"
            case Count.QUANTILE | Count.MODE:
                raise InternalError("a choice is no number")

    # Where units have rows: aggregate per unit and group, bound, aggregate per group.

    def _of_units(self, rows: str) -> str:
        masked = self._masks()
        ctes = [rows, f"coded AS {'MATERIALIZED ' if masked else ''}({self._coded()})"]
        if masked:
            ctes += [f"masks AS MATERIALIZED ({self._mask()})", f"candidates AS ({self._candidates()})"]
        if self._alone:
            ctes.append(f"kept0 AS ({self._histograms(self._candidate_rows, self._keys)[0]})")
            return f"WITH {', '.join(ctes)} SELECT {', '.join([*self._keys, *self._kept])} FROM kept0"
        ctes.append(f"parts AS MATERIALIZED ({self._parts()})")
        numbers = [f"number{i}" for i, _ in self._added()]
        kept = f"SELECT {', '.join([*self._keys, *numbers]) or '1'} FROM parts"
        if self._ranks:
            heavy = f"SELECT unit FROM parts GROUP BY unit HAVING COUNT(*) > {self._max_groups}"
            ctes += [f"heavy AS MATERIALIZED ({heavy})", f"dropped AS MATERIALIZED ({self._dropped()})"]
            lost = ", ".join([*self._keys, *(f"-{number}" for number in numbers)])
            kept += f" UNION ALL SELECT {lost} FROM dropped"
        sums = [f"CAST(COALESCE(SUM({number}), 0) AS HUGEINT) AS {number}" for number in numbers]
        summed = ", ".join([*self._keys, *sums]) or "COUNT(*) AS present"
        ctes.append(f"sums AS (SELECT {summed} FROM ({kept}){_group_by(self._keys)})")
        return f"WITH {', '.join(ctes)} {self._final()}"

    def _coded(self) -> str:
        unit = f"given.{name(self.aggregate.unit or '')}"
        selected = ", ".join([f"{unit} AS unit", *self._codes(), *self._read])
        return f"SELECT {selected} FROM source_rows AS given {self._joined()} WHERE {unit} IS NOT NULL"

    @property
    def _read(self) -> list[str]:
        """Returns the columns of `given` that measures read."""
        read = [m.value for m in self.aggregate.measures] + [m.filter for m in self.aggregate.measures]
        return [f"given.{name(id)}" for id in dict.fromkeys(id for id in read if id is not None)]

    def _mask(self) -> str:
        levels = f"SELECT unit, bit_or({self._bucket}) AS found, found AS level0 FROM coded GROUP BY unit"
        for level in range(1, self._max_groups):
            levels = f"SELECT unit, found, level{level - 1} & (level{level - 1} - 1) AS level{level} FROM ({levels})"
        last = f"level{self._max_groups - 1}"
        keeping = f"SELECT unit, found, xor({last}, {last} - 1) AS keep FROM ({levels})"
        return f"SELECT unit, keep FROM ({keeping}) WHERE (found & (~keep)) <> 0"

    def _candidates(self) -> str:
        inside = f"masks.unit IS NULL OR ({self._bucket} & masks.keep) <> 0"
        return f"SELECT coded.* FROM coded LEFT JOIN masks ON masks.unit = coded.unit WHERE {inside}"

    def _parts(self) -> str:
        """Returns the bounded contributions of each unit to each of its groups."""
        measures = self._added()
        needed = [f"{call} AS part{i}_{part}" for i, m in measures for part, call in self._needs(m)]
        if any(weighs_together(self.aggregate, m) for _, m in measures):
            needed.append("COUNT(*) AS rows_n")
        unit = ["unit", *self._keys]
        grouped = f"SELECT {', '.join([*unit, *needed])} FROM {self._candidate_rows}{_group_by(unit)}"
        numbers = [f"{self._bounded(i, m)} AS number{i}" for i, m in measures]
        return f"SELECT {', '.join([*unit, *numbers])} FROM ({grouped})"

    def _needs(self, measure: Measure) -> list[tuple[str, str]]:
        kept = _filter(measure)
        match measure.count:
            case Count.UNITS | Count.ROWS:
                return [("n", f"COUNT(*){kept}")]
            case Count.VALUES:
                return [("n", f"COUNT({_value(measure)}){kept}")]
            case Count.DISTINCT | Count.QUANTILE | Count.MODE:
                return []
            case Count.SUM:
                total = f"COALESCE(SUM({self._lattice_value(measure)}){kept}, 0)"
                return [("n", f"COUNT({_value(measure)}){kept}"), ("s", total)]

    def _bounded(self, i: int, measure: Measure) -> str:
        rows = self.aggregate.bound.max_rows
        together = weighs_together(self.aggregate, measure)
        match measure.count:
            case Count.UNITS | Count.ROWS | Count.VALUES if together:
                scaled = f"CAST((CAST(part{i}_n AS HUGEINT) * {rows}) // rows_n AS BIGINT)"
                return f"CASE WHEN rows_n <= {rows} THEN part{i}_n ELSE {scaled} END"
            case Count.UNITS:
                return f"CAST(part{i}_n > 0 AS BIGINT)"
            case Count.ROWS | Count.VALUES:
                return f"LEAST(part{i}_n, {rows})"
            case Count.SUM:
                return self._scaled(measure, f"part{i}_s", "rows_n" if together else f"part{i}_n")
            case Count.DISTINCT | Count.QUANTILE | Count.MODE:
                raise InternalError("a distinct count or a choice has no contributions to add up")

    def _scaled(self, measure: Measure, total: str, count: str) -> str:
        """Returns trunc(total * min(1, max_rows / count)): in 64 bits up to the count from which it might not fit."""
        if measure.lattice is None:
            raise InternalError("a sum has a lattice")
        rows = self.aggregate.bound.max_rows
        most = (2**63 - 1) // (rows * max(1, *map(abs, measure.lattice.values)))
        narrow = f"TRY_CAST({total} AS BIGINT)"  # total, wherever it is computed: it raises on no row
        # // of DuckDB cuts towards 0
        return (
            f"CASE WHEN {count} <= {rows} THEN {narrow} WHEN {count} <= {most} THEN ({narrow} * {rows}) // {count} "
            f"ELSE CAST(({total} * {rows}) // {count} AS BIGINT) END"
        )

    def _dropped(self) -> str:
        order = ", ".join([self._hash("unit", *self._keys), *self._keys])
        place = f"row_number() OVER (PARTITION BY unit ORDER BY {order}) AS place"
        ranked = f"SELECT *, {place} FROM parts SEMI JOIN heavy USING (unit)"
        return f"SELECT * EXCLUDE (place) FROM ({ranked}) WHERE place > {self._max_groups}"

    def _final(self) -> str:
        """Returns the last SELECT: the sums, with each distinct count joined to them."""
        columns, joins = [f"sums.{key}" for key in self._keys], []
        for i, measure in enumerate(self.aggregate.measures):
            if measure.count in CHOICES:
                continue
            if measure.count is not Count.DISTINCT:
                columns.append(f"sums.number{i}")
                continue
            on = " AND ".join(f"sums.{key} IS NOT DISTINCT FROM counted{i}.{key}" for key in self._keys) or "TRUE"
            joins.append(f"LEFT JOIN ({self._distinct(measure)}) AS counted{i} ON {on}")
            columns.append(f"COALESCE(counted{i}.counted, 0) AS number{i}")
        columns += self._kept
        joins += self._with_histograms(self._candidate_rows, "sums", self._keys)
        return f"SELECT {', '.join(columns)} FROM sums {' '.join(joins)}{self._present()}"

    def _present(self) -> str:
        """Returns the condition that a group was kept by some unit: among selected groups, no other may exist."""
        if self.aggregate.selection is None:
            return ""
        ids = [measure.id for measure in self.aggregate.measures]
        return f" WHERE sums.number{ids.index(self.aggregate.selection)} > 0"

    def _distinct(self, measure: Measure) -> str:
        """Returns the distinct count of each group, over at most `max_rows` values of each unit in each group."""
        value, unit = _value(measure), ["unit", *self._keys]
        passing = "" if measure.filter is None else f" AND {name(measure.filter)}"
        pairs = f"SELECT DISTINCT {', '.join([*unit, f'{value} AS value'])} FROM {self._candidate_rows}"
        pairs += f" WHERE {value} IS NOT NULL{passing}"
        if self._ranks:
            on = " AND ".join(f"pairs.{column} IS NOT DISTINCT FROM dropped.{column}" for column in unit)
            pairs = f"SELECT * FROM ({pairs}) AS pairs ANTI JOIN dropped ON {on}"
        place = f"PARTITION BY {', '.join(unit)} ORDER BY {self._hash(*unit, 'value')}, value"
        ranked = f"SELECT *, row_number() OVER ({place}) AS place FROM ({pairs})"
        chosen = f"SELECT * FROM ({ranked}) WHERE place <= {self.aggregate.bound.max_rows}"
        counted = ", ".join([*self._keys, "COUNT(DISTINCT value) AS counted"])
        return f"SELECT {counted} FROM ({chosen}){_group_by(self._keys)}"

    # Histograms of choices.

    def _histograms(self, rows: str, keys: list[str]) -> list[str]:
        """Returns the SELECT of each histogram, over rows with these key columns."""
        bound, made = self.aggregate.bound, {}
        for measure, domain in zip(self.aggregate.measures, self.choices, strict=True):
            if measure.count in CHOICES:
                value = _value(measure) if domain is not None else self._lattice_value(measure)
                read = (rows, keys, value, "TRUE" if measure.filter is None else name(measure.filter), domain)
                made[histogram_sql.signature(measure)] = (
                    histogram_sql.of_rows(*read)
                    if self.aggregate.unit is None
                    else histogram_sql.of_units(*read, most=bound.max_rows, dropped=self._ranks)
                )
        return list(made.values())

    def _with_histograms(self, rows: str, groups: str, keys: list[str]) -> list[str]:
        """Returns the joins of the groups with their histograms."""
        joins = []
        for i, histogram in enumerate(self._histograms(rows, keys)):
            on = " AND ".join(f"{groups}.{key} IS NOT DISTINCT FROM kept{i}.{key}" for key in keys) or "TRUE"
            joins.append(f"LEFT JOIN ({histogram}) AS kept{i} ON {on}")
        return joins

    @property
    def _kept(self) -> list[str]:
        count = len(histogram_sql.signatures(self.aggregate.measures))
        return ["kept AS kept0"] if self._alone else [f"kept{i}.kept AS kept{i}" for i in range(count)]

    @property
    def _alone(self) -> bool:
        """Whether one histogram is all that is asked for: then it alone reads the rows."""
        one = len(histogram_sql.signatures(self.aggregate.measures)) == 1
        return one and not self._ranks and all(m.count in CHOICES for m in self.aggregate.measures)

    def _added(self, *also: Count) -> list[tuple[int, Measure]]:
        """Returns the measures that are sums of contributions, with their places, and those of the kinds `also`."""
        others = (*CHOICES, Count.DISTINCT)
        return [(i, m) for i, m in enumerate(self.aggregate.measures) if m.count not in others or m.count in also]

    @property
    def _keys(self) -> list[str]:
        return [f"key{i}" for i in range(len(self.aggregate.keys))]

    @property
    def _max_groups(self) -> int:
        return self.aggregate.bound.max_groups

    @property
    def _ranks(self) -> bool:
        """Whether a unit could have more groups than it may keep."""
        possible = self.aggregate.public_groups
        return bool(self.aggregate.keys) and (possible is None or possible > self._max_groups)

    def _masks(self) -> bool:
        """Whether rows are masked before they are aggregated: decided by the plan alone."""
        possible = self.aggregate.public_groups
        many = possible is not None and possible >= MASK_FROM * self._max_groups
        return self._ranks and many and self._max_groups <= MOST_MASKED_GROUPS

    @property
    def _candidate_rows(self) -> str:
        return "candidates" if self._masks() else "coded"

    @property
    def _bucket(self) -> str:
        """Returns one bit for the bucket of a row's group; buckets grow with the hash."""
        hashed = self._hash("coded.unit", *(f"coded.{key}" for key in self._keys))
        return f"(1::BIGINT << ((({hashed} >> 40) * {BUCKETS}) >> 24)::BIGINT)"

    def _hash(self, *columns: str) -> str:
        """Returns the hash of columns under the key of a run: its two halves are the numbers that a run gives."""
        return f"hash({', '.join(columns)}, {self.relations.number(1)}, {self.relations.number(2)})"

    def _codes(self) -> list[str]:
        """Returns each key of `given`: the code of its domain, or itself."""
        return [
            f"{_own(key) if domain is None else f'domain{i}.code'} AS key{i}"
            for i, (key, domain) in enumerate(zip(self.aggregate.keys, self.domains, strict=True))
        ]

    def _joined(self) -> str:
        """Returns the joins of `given` with the domains, which drop what is not public; NULL meets NULL alone."""
        return " ".join(
            f"JOIN {domain} AS domain{i} ON {_meets(key, f'domain{i}')}"
            for i, (key, domain) in enumerate(zip(self.aggregate.keys, self.domains, strict=True))
            if domain is not None
        )

    def _lattice_value(self, measure: Measure) -> str:
        types = {column.id: column.type for column in output(self.aggregate.source)}
        if measure.lattice is None or measure.value is None:
            raise InternalError("a sum or a quantile has a value and a lattice")
        return lattice_value(name(measure.value), types[measure.value], measure.lattice)


def _own(key: Key) -> str:
    return normal(f"given.{name(key.columns[0])}", key.types[0])


def _meets(key: Key, domain: str) -> str:
    """Returns where rows of `given` have the values of a domain. Plain equality is the quicker one; NULL needs the
    other."""
    holds_null = [any(values[i] is None for values in key.domain or ()) for i in range(len(key.columns))]
    return " AND ".join(
        f"{domain}.value{i} {'IS NOT DISTINCT FROM' if null else '='} given.{name(id)}"
        for i, (id, null) in enumerate(zip(key.columns, holds_null, strict=True))
    )


def _value(measure: Measure) -> str:
    return name(measure.value or "")


def _filter(measure: Measure) -> str:
    return "" if measure.filter is None else f" FILTER (WHERE {name(measure.filter)})"


def _group_by(columns: list[str]) -> str:
    return f" GROUP BY {', '.join(columns)}" if columns else ""
