"""A private aggregate as one SELECT of DuckDB's SQL: the three steps of `kernel/plan.py`.

The text is a chain of named subqueries: `source_rows` (the relation), `parts` (per unit and group), `heavy` (units with more
groups than they may keep), `dropped` (the groups they lose), and the sums over units. Ranking, the costly part, is done
for the units in `heavy` alone; what they lose is then taken off.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpquery.backends.relations import RelationWriter, name
from dpquery.errors import InternalError
from dpquery.kernel.plan import Count, Lattice, Measure, PrivateAggregate
from dpquery.plan.logical import output
from dpquery.plan.types import Kind, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateWriter:
    """Writes one private aggregate.

    The SELECT gives, for each key, `key0`, `key1`, ...: the code of a public key, the value of another; then, for each
    measure, `number0`, `number1`, ...

    Attributes:
        relations: Writes the source.
        aggregate: What is written.
        domains: For each public key the name of a table with columns `value` and `code`.
        key: 128 bits that decide which groups and values a unit keeps.
    """

    relations: RelationWriter
    aggregate: PrivateAggregate
    domains: tuple[str | None, ...]
    key: int

    def select(self) -> str:
        """Returns the whole statement."""
        rows = f"source_rows AS ({self.relations.select(self.aggregate.source)})"
        if self.aggregate.unit is None:
            return f"WITH {rows} {self._of_rows()}"
        return self._of_units(rows)

    # Where the unit is the row: one aggregation, then the few groups find their codes.

    def _of_rows(self) -> str:
        keys = [name(key.column) for key in self.aggregate.keys]
        numbers = [f"{self._row_number(m)} AS number{i}" for i, m in enumerate(self.aggregate.measures)]
        grouped = f"SELECT {', '.join([*keys, *numbers])} FROM source_rows{_group_by(keys)}"
        given = [f"number{i}" for i in range(len(numbers))]
        return f"SELECT {', '.join([*self._codes(), *given])} FROM ({grouped}) AS grouped {self._joined()}"

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

    # Where units have rows: aggregate per unit and group, bound, aggregate per group.

    def _of_units(self, rows: str) -> str:
        ctes = [rows, f"parts AS MATERIALIZED ({self._parts()})"]
        keys = [f"key{i}" for i in range(len(self.aggregate.keys))]
        summed = [i for i, m in enumerate(self.aggregate.measures) if m.count is not Count.DISTINCT]
        numbers = [f"number{i}" for i in summed]
        kept = f"SELECT {', '.join([*keys, *numbers])} FROM parts" if keys or numbers else "SELECT 1 FROM parts"
        if self._ranks():
            ctes += [
                f"heavy AS MATERIALIZED (SELECT unit FROM parts GROUP BY unit HAVING COUNT(*) > {self._max_groups()})",
                f"dropped AS MATERIALIZED ({self._dropped()})",
            ]
            lost = [f"-{number}" for number in numbers]
            kept += f" UNION ALL SELECT {', '.join([*keys, *lost])} FROM dropped"
        sums = [f"CAST(COALESCE(SUM({n}), 0) AS HUGEINT) AS {n}" for n in numbers]
        ctes.append(
            f"sums AS (SELECT {', '.join([*keys, *sums] or ['COUNT(*) AS present'])} FROM ({kept}){_group_by(keys)})"
        )
        return f"WITH {', '.join(ctes)} {self._with_distinct(keys)}"

    def _parts(self) -> str:
        """Returns the bounded contributions of each unit to each of its groups, for public keys in their domain."""
        keys = [name(key.column) for key in self.aggregate.keys]
        unit = name(self.aggregate.unit or "")
        needed = [
            f"{call} AS part{i}_{part}" for i, m in enumerate(self.aggregate.measures) for part, call in self._needs(m)
        ]
        grouped = f"SELECT {', '.join([f'{unit} AS unit', *keys, *needed])} FROM source_rows WHERE {unit} IS NOT NULL"
        grouped += _group_by(["unit", *keys])
        numbers = [
            f"{bounded} AS number{i}" for i, m in enumerate(self.aggregate.measures) if (bounded := self._bounded(i, m))
        ]
        return f"SELECT {', '.join(['unit', *self._codes(), *numbers])} FROM ({grouped}) AS grouped {self._joined()}"

    def _needs(self, measure: Measure) -> list[tuple[str, str]]:
        kept = _filter(measure)
        match measure.count:
            case Count.UNITS | Count.ROWS:
                return [("n", f"COUNT(*){kept}")]
            case Count.VALUES:
                return [("n", f"COUNT({_value(measure)}){kept}")]
            case Count.DISTINCT:
                return []
            case Count.SUM:
                value = self._lattice_value(measure)
                return [("n", f"COUNT({_value(measure)}){kept}"), ("s", f"COALESCE(SUM({value}){kept}, 0)")]

    def _bounded(self, i: int, measure: Measure) -> str:
        rows = self.aggregate.bound.max_rows
        match measure.count:
            case Count.UNITS:
                return f"CAST(part{i}_n > 0 AS BIGINT)"
            case Count.ROWS | Count.VALUES:
                return f"LEAST(part{i}_n, {rows})"
            case Count.DISTINCT:
                return ""
            case Count.SUM:
                scaled = f"(part{i}_s * {rows}) // part{i}_n"
                return f"CAST(CASE WHEN part{i}_n <= {rows} THEN part{i}_s ELSE {scaled} END AS BIGINT)"

    def _dropped(self) -> str:
        keys = [f"key{i}" for i in range(len(self.aggregate.keys))]
        order = ", ".join([self._hash("unit", *keys), *keys])
        ranked = f"SELECT *, row_number() OVER (PARTITION BY unit ORDER BY {order}) AS place FROM parts SEMI JOIN heavy USING (unit)"
        return f"SELECT * EXCLUDE (place) FROM ({ranked}) WHERE place > {self._max_groups()}"

    def _with_distinct(self, keys: list[str]) -> str:
        """Returns the final SELECT: the sums, with each distinct count joined to them."""
        columns, joins = [f"sums.{key}" for key in keys], []
        for i, measure in enumerate(self.aggregate.measures):
            if measure.count is not Count.DISTINCT:
                columns.append(f"sums.number{i}")
                continue
            on = " AND ".join(f"sums.{key} IS NOT DISTINCT FROM counted{i}.{key}" for key in keys) or "TRUE"
            joins.append(f"LEFT JOIN ({self._distinct(i, measure, keys)}) AS counted{i} ON {on}")
            columns.append(f"COALESCE(counted{i}.counted, 0) AS number{i}")
        return f"SELECT {', '.join(columns)} FROM sums {' '.join(joins)}{self._present()}"

    def _present(self) -> str:
        """Returns the condition that a group was kept by some unit: among selected groups, no other may exist."""
        if self.aggregate.selection is None:
            return ""
        ids = [measure.id for measure in self.aggregate.measures]
        return f" WHERE sums.number{ids.index(self.aggregate.selection)} > 0"

    def _distinct(self, i: int, measure: Measure, keys: list[str]) -> str:
        """Returns the distinct count of each group, over at most `max_rows` values of each unit in each group."""
        unit, value = name(self.aggregate.unit or ""), _value(measure)
        stored = [name(key.column) for key in self.aggregate.keys]
        passing = "" if measure.filter is None else f" AND {name(measure.filter)}"
        pairs = f"SELECT DISTINCT {', '.join([f'{unit} AS unit', *stored, f'{value} AS value'])} FROM source_rows"
        pairs += f" WHERE {unit} IS NOT NULL AND {value} IS NOT NULL{passing}"
        coded = f"SELECT {', '.join(['unit', *self._codes(), 'value'])} FROM ({pairs}) AS grouped {self._joined()}"
        if self._ranks():
            on = " AND ".join(
                ["coded.unit = dropped.unit", *(f"coded.{k} IS NOT DISTINCT FROM dropped.{k}" for k in keys)]
            )
            coded = f"SELECT * FROM ({coded}) AS coded ANTI JOIN dropped ON {on}"
        order = f"{self._hash('unit', *keys, 'value')}, value"
        ranked = f"SELECT *, row_number() OVER (PARTITION BY {', '.join(['unit', *keys])} ORDER BY {order}) AS place FROM ({coded})"
        chosen = f"SELECT * FROM ({ranked}) WHERE place <= {self.aggregate.bound.max_rows}"
        return f"SELECT {', '.join([*keys, 'COUNT(DISTINCT value) AS counted'])} FROM ({chosen}){_group_by(keys)}"

    def _max_groups(self) -> int:
        return self.aggregate.bound.max_groups

    def _ranks(self) -> bool:
        """Whether a unit could have more groups than it may keep."""
        possible = self.aggregate.public_groups
        return bool(self.aggregate.keys) and (possible is None or possible > self._max_groups())

    def _hash(self, *columns: str) -> str:
        high, low = divmod(self.key, 2**64)
        return f"hash({', '.join(columns)}, {high % 2**64}::UBIGINT, {low}::UBIGINT)"

    def _codes(self) -> list[str]:
        """Returns each key of `grouped`: the code of its domain, or itself."""
        return [
            f"grouped.{name(key.column)} AS key{i}" if domain is None else f"domain{i}.code AS key{i}"
            for i, (key, domain) in enumerate(zip(self.aggregate.keys, self.domains, strict=True))
        ]

    def _joined(self) -> str:
        """Returns the joins of `grouped` with the domains, which drop what is not public."""
        return " ".join(
            f"JOIN {domain} AS domain{i} ON domain{i}.value = grouped.{name(key.column)}"
            for i, (key, domain) in enumerate(zip(self.aggregate.keys, self.domains, strict=True))
            if domain is not None
        )

    def _lattice_value(self, measure: Measure) -> str:
        types = {column.id: column.type for column in output(self.aggregate.source)}
        if measure.lattice is None or measure.value is None:
            raise InternalError("a sum has a value and a lattice")
        return lattice_value(name(measure.value), types[measure.value], measure.lattice)


def lattice_value(value: str, type: Type, lattice: Lattice) -> str:
    """Returns SQL that puts a column on its lattice: a BIGINT within the lattice's bounds; NULL for NULL."""
    step = _on_grid(value, type, lattice)
    if lattice.offset:
        step = f"({step} - {lattice.offset})"
    if not lattice.squared:
        return step
    return f"({step} * {step} - {lattice.offset_of_square})"


def _on_grid(value: str, type: Type, lattice: Lattice) -> str:
    """Returns round(clamp(value / grid)): exact for integers on a grid of 1, else in floats below 2^53 steps.

    DuckDB's cast of a float to an integer rounds half to even.
    """
    if type.kind is Kind.INT64 and lattice.grid == 1:
        return f"CASE WHEN {value} > {lattice.upper} THEN {lattice.upper} WHEN {value} < {lattice.lower} THEN {lattice.lower} ELSE {value} END"
    steps = value if type.kind is Kind.FLOAT64 else f"CAST({value} AS DOUBLE)"
    if lattice.grid.numerator == 1:
        steps = f"({steps} * {lattice.grid.denominator}::DOUBLE)"
    else:
        steps = f"({steps} / {float(lattice.grid)!r}::DOUBLE)"
    upper, lower = f"{lattice.upper}::DOUBLE", f"{lattice.lower}::DOUBLE"
    return (
        f"CAST(CASE WHEN {steps} > {upper} THEN {upper} WHEN {steps} < {lower} THEN {lower} ELSE {steps} END AS BIGINT)"
    )


def _value(measure: Measure) -> str:
    return name(measure.value or "")


def _filter(measure: Measure) -> str:
    return "" if measure.filter is None else f" FILTER (WHERE {name(measure.filter)})"


def _group_by(columns: list[str]) -> str:
    return f" GROUP BY {', '.join(columns)}" if columns else ""
