"""A private aggregate as one SELECT of DuckDB's SQL: the three steps of `kernel/plan.py`.

The text is a chain of named subqueries:

- `source_rows`: the relation.
- `crowded`: where weights are counted here, the units with more rows than may weigh 1, and what each of these weighs.
- `owned`: the rows with an owner, `unit`, and what they weigh, `weight`.
- `coded`: `owned` with the codes of public keys; what is not public is gone.
- `held`: where units decide in rounds, what each has in which group. With which of them decide, its sums are `sums`.
- `sums`: what is added up by group, with the histograms of choices joined to it: one aggregation of rows, to which
  their lattice values are given as `step0`, `step1`, ..., each written once.
- `counted0`, `counted1`, ...: joined to `sums`, the counts that take more: of units that count in some of their groups
  alone, and of different values, which `matching` completes.

Few groups find their codes after rows were aggregated, many before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dpquery.backends.duckdb.sql import histogram_sql, values_sql
from dpquery.backends.duckdb.sql.distinct_sql import (
    deciding_units,
    divided_units,
    held_by_units,
    is_held,
    pairs_in_turn,
    same,
    units_in_some,
)
from dpquery.backends.duckdb.sql.keys_sql import codes, inside_runs, joined, packed, unpacked
from dpquery.backends.duckdb.sql.relations import RelationWriter, is_quick
from dpquery.backends.duckdb.sql.sentinels import FENCE
from dpquery.backends.duckdb.sql.values_sql import bernstein_sum, filtered, group_by, lattice_value, name, value_of
from dpquery.errors import InternalError
from dpquery.kernel.plan import CHOICES, WEIGHT, Count, Measure, PrivateAggregate, Weighing
from dpquery.plan.logical import output

_OWN = re.compile(
    r"unit|weight|place|share|value\d*|code|packed|present|deciding|counted\d*|kept\d*|(key|number|step)\d+|mark"
    r"|(left|right)_(mark|key\d+)"
)
"""Names that the SQL gives to columns of its own."""
CODED_FROM = 1_000
"""Groups from which rows get their codes before they are aggregated: then the engine groups by numbers, not texts."""
PACKED = range(2**13, 2**16 + 1)
"""Groups whose codes are packed into one number of 16 bits: the engine keeps a place for each, and hashes nothing. It
has 2^17 places then, which is too many for fewer groups."""
MOST_PACKED = 8
"""Measures with which they are: each takes some 4 MB."""
NARROW = 2**38
"""Lattice values of a smaller magnitude times a weight are multiplied in 64 bits: they are below 2^62."""


@dataclass(frozen=True, kw_only=True)
class PrivateWriter:
    """Writes one private aggregate.

    The SELECT gives `key0`, `key1`, ... for the keys: the code of a public key, the value of another. Then there are
    `number0`, ... of the measures that are not choices, `kept0`, ... of the histograms (see `histogram_sql`), the list
    of its name of each measure of `contested`, and `deciding` where units decide in rounds (see `distinct_sql`).

    Attributes:
        relations: Writes the source.
        aggregate: What is written.
        domains: For each public key the name of a table with columns `value0`, `value1`, ... and `code`.
        choices: For each measure the same of its domain, or None.
        in_blocks: Whether the plan's limits may be of a unit's rows in one block, so that it may have more in all.
        is_part: Whether the rows are a part of all rows, so that groups in which no unit counts may count elsewhere.
        steps: Columns that hold lattice integers, within the bounds of their measure's lattice.
        is_owned: Whether the source has no row without an owner, so that nothing reads whose it is to leave it out.
    """

    relations: RelationWriter
    aggregate: PrivateAggregate
    domains: tuple[str | None, ...]
    choices: tuple[str | None, ...]
    in_blocks: bool = False
    is_part: bool = False
    steps: frozenset[str] = frozenset()
    is_owned: bool = False

    def __post_init__(self) -> None:
        if any(_OWN.fullmatch(column.id) for column in output(self.aggregate.source)):
            raise InternalError("an id of the plan is reserved by the SQL of private aggregates")

    def select(self) -> str:
        """Returns the whole statement."""
        source, once = self.aggregate.source, "NOT MATERIALIZED "
        ctes = [f"source_rows AS {once if is_quick(source) else ''}({self.relations.select(source)})"]
        if self.aggregate.unit is not None:
            if self.aggregate.weights.weighing is Weighing.COUNTED:
                ctes.append(f"crowded AS MATERIALIZED ({self._crowded()})")
            ctes.append(f"owned AS {once}({self._owned()})")
        counts, deciding = dict(self._counts()), self.deciding
        if counts or deciding is not None or self._is_early:
            ctes.append(f"coded AS {once if is_quick(source) else ''}({self._coded()})")
        sums = self._early() if self._is_early else self._late()
        if deciding is not None:
            added, numbers = (self._summed, self._numbers()) if self._adds_held else ([], [])
            held = held_by_units(self._with_steps("coded"), self._keys, numbers, self._hash("unit", *self._keys))
            ctes.append(f"held AS MATERIALIZED ({held})")
            decided = deciding_units("held", self._keys, self.aggregate.weights.max_groups or 0, added)
            if self._adds_held:
                columns = ", ".join([*self._keys, *added, f"counted AS number{deciding}", "deciding"])
                sums = f"SELECT {columns} FROM ({decided}){'' if counts or self.is_part else ' WHERE counted > 0'}"
            else:
                counts[deciding] = decided
        if not counts:
            return f"WITH {', '.join(ctes)} {sums}"
        return f"WITH {', '.join(ctes)}, sums AS ({sums}) {self._with_counts(counts)}"

    # Rows and their weights.

    def _crowded(self) -> str:
        unit, most = name(self.aggregate.unit or ""), self.aggregate.weights.max_rows
        weight = f"CAST({most * WEIGHT} // COUNT(*) AS BIGINT) AS weight"
        return (
            f"SELECT {unit} AS unit, {weight} FROM source_rows WHERE {unit} IS NOT NULL GROUP BY {unit} "
            f"HAVING COUNT(*) > {most}"
        )

    def _owned(self) -> str:
        """Returns the rows that have owners, with what they weigh; where all weigh 1 there is no column for it."""
        unit, weights, joins = f"given.{name(self.aggregate.unit or '')}", self.aggregate.weights, ""
        selected = [f"{unit} AS unit", *(f"given.{id}" for id in dict.fromkeys([*self._raw_keys, *self._read]))]
        match weights.weighing:
            case Weighing.WHOLE:
                pass
            case Weighing.STORED:
                selected.append(f"given.{name(weights.column or '')} AS weight")
            case Weighing.COUNTED:
                selected.append(f"COALESCE(crowded.weight, {WEIGHT}) AS weight")
                joins = f" LEFT JOIN crowded ON crowded.unit = {unit}"
        owned = "" if self.is_owned else f" WHERE {unit} IS NOT NULL"
        return f"SELECT {', '.join(selected)} FROM source_rows AS given{joins}{owned}"

    def _coded(self) -> str:
        given = ["given.unit"] if self.aggregate.unit is not None else []
        given += ["given.weight"] if self._is_weighed else []
        keys, domains = self.aggregate.keys, self.domains
        columns = [*given, *codes(keys, domains, by_row=True), *(f"given.{id}" for id in self._read)]
        joins = joined(keys, domains, by_row=True) + inside_runs(keys)
        return f"SELECT {', '.join(columns) or '1 AS present'} FROM {self._rows} AS given {joins}"

    # One aggregation.

    @cached_property
    def _is_early(self) -> bool:
        """Whether rows get their codes before they are aggregated: decided by the plan alone."""
        return bool(self.aggregate.keys) and (self.aggregate.public_groups or 0) >= CODED_FROM

    def _early(self) -> str:
        keys, numbers = self._keys, self._numbers()
        if self._alone:
            return f"SELECT {', '.join([*keys, *self._kept])} FROM ({self._histograms('coded', keys)[0]})"
        rows = self._with_steps("coded")
        grouped = f"SELECT {', '.join([*keys, *numbers])} FROM {rows}{group_by(keys)}"
        if (self.aggregate.public_groups or 0) in PACKED and len(numbers) <= MOST_PACKED:
            grouped = f"SELECT {', '.join([packed(self.aggregate.keys), *numbers])} FROM {rows} GROUP BY packed"
            grouped = f"SELECT {', '.join([*unpacked(self.aggregate.keys), *self._summed])} FROM ({grouped})"
        if not self._kept:
            return grouped
        columns = [f"grouped.{column}" for column in [*keys, *self._summed]] + self._kept
        joins = self._with_histograms("coded", "grouped", keys)
        return f"SELECT {', '.join(columns)} FROM ({grouped}) AS grouped {' '.join(joins)}"

    def _late(self) -> str:
        keys, numbers = self._raw_keys, self._numbers()
        domains = joined(self.aggregate.keys, self.domains)
        columns = [*codes(self.aggregate.keys, self.domains), *(f"given.{number}" for number in self._summed)]
        if self._alone:
            grouped = self._histograms(self._rows, keys)[0]
            return f"SELECT {', '.join([*columns, *self._kept])} FROM ({grouped}) AS given {domains}"
        shown = ", ".join([*keys, *numbers]) or "COUNT(*) AS present"
        grouped = f"SELECT {shown} FROM {self._with_steps(self._rows)}{group_by(keys)}"
        joins = [domains, *self._with_histograms(self._rows, "given", keys)]
        shown = ", ".join([*columns, *self._kept]) or "given.present"
        return f"SELECT {shown} FROM ({grouped}) AS given {' '.join(joins)}"

    def _with_steps(self, rows: str) -> str:
        """Returns rows with the lattice values that sums of them read, each written once, as binding takes long."""
        steps = "".join(f", {value} AS {step}" for value, step in self._steps.items())
        return f"(SELECT *{steps} FROM {rows})" if steps else rows

    @cached_property
    def _steps(self) -> dict[str, str]:
        """The names of the lattice values that sums read, by their SQL."""
        summed = [m for _, m in self._added if m.count is Count.SUM]
        values = [self._lattice_value(m, place) for m in summed for place in range(len(m.lattices))]
        return {value: f"step{i}" for i, value in enumerate(dict.fromkeys(values))}

    @cached_property
    def _adds_held(self) -> bool:
        """Whether the sums of groups are sums of what units hold there, which is put together by group anyway."""
        is_added = not self._kept and all(measure.count is not Count.DISTINCT for _, measure in self._added)
        return self.deciding is not None and is_added and is_held(len(self._added), self._most_rows)

    def _numbers(self) -> list[str]:
        return [f"{self._number(measure)} AS number{i}" for i, measure in self._added]

    def _number(self, measure: Measure) -> str:
        """Returns an aggregate of rows: what they weigh is added up, each time its lattice value in a sum."""
        match measure.count:
            case Count.UNITS if not self._is_one_row:
                return f"COUNT(DISTINCT unit){filtered(measure)}"
            case Count.DISTINCT:
                return f"COUNT(DISTINCT {value_of(measure)}){filtered(measure)}"
            case Count.SUM:
                return self._sum(measure)
            case Count.VALUES if self._is_weighed:
                return values_sql.weight_of_present("weight", measure, value_of(measure))
            case Count.ROWS if self._is_weighed:
                return values_sql.weight_of_present("weight", measure)
            case Count.VALUES:
                return f"COUNT({value_of(measure)}){filtered(measure)}"
            case Count.ROWS | Count.UNITS:
                return f"COUNT(*){filtered(measure)}"
            case Count.QUANTILE | Count.MODE | Count.DECIDING:
                raise InternalError("a choice is not a number, nor is what units decide with")

    def _sum(self, measure: Measure) -> str:
        """Returns a sum of weighed lattice values. The terms of a Bernstein vector are made of the same few sums of
        powers, each of which the engine computes once."""
        lattices = measure.lattices
        if lattices[0].bernstein is None:
            return self._added_up(measure, self._steps[self._lattice_value(measure, 0)])
        if measure.second is None:
            return bernstein_sum(lattices[0], lambda i: self._powers(measure, (i,)))
        return bernstein_sum(lattices[0], lambda i: bernstein_sum(lattices[1], lambda k: self._powers(measure, (i, k))))

    def _powers(self, measure: Measure, powers: tuple[int, ...]) -> str:
        """Returns the sum of weighed products of powers of lattice values, over rows in which none is NULL."""
        values = [(self._steps[self._lattice_value(measure, place)], power) for place, power in enumerate(powers)]
        factors = " * ".join(value for value, power in values for _ in range(power))
        return self._added_up(measure, factors, *(value for value, power in values if not power))

    def _added_up(self, measure: Measure, value: str, *others: str) -> str:
        """Returns the sum of a value times what rows weigh, or of the weights, where no other value is NULL."""
        weight = "weight" if measure.total is None else name(measure.total.column)
        is_weighed = self._is_weighed or measure.total is not None
        if is_weighed and not value:
            return values_sql.weight_of_present(weight, measure, *others)
        filter = filtered(measure, *(f"{other} IS NOT NULL" for other in others))
        if not is_weighed:
            return f"COALESCE(SUM({value}){filter}, 0)" if value else f"COUNT(*){filter}"
        largest = math.prod(max(map(abs, one.values)) for one in measure.lattices)
        wide = value if largest < NARROW else f"CAST({value} AS HUGEINT)"
        return f"COALESCE(SUM({wide} * CAST({weight} AS BIGINT)){filter}, 0)"

    # What is counted by unit.

    def _counts(self) -> Iterator[tuple[int, str]]:
        """Yields the counts that one aggregation of rows cannot give: their measures' places and their SELECTs."""
        most = self.aggregate.weights.max_groups or 0
        for i, measure in enumerate(self.aggregate.measures):
            passing = "" if measure.filter is None else name(measure.filter)
            if measure.count is Count.UNITS and self._is_ranked:
                yield i, units_in_some("coded", self._keys, passing, most, self._hash("unit", *self._keys))
            elif measure.count is Count.UNITS and self.aggregate.divides_units:
                yield i, divided_units("coded", self._keys, passing, "owned", self._raw_keys, most)
            elif i in self.contested:
                rows = self.aggregate.weights.max_rows
                yield i, pairs_in_turn("coded", self._keys, passing, value_of(measure), rows, self._hash)

    def _with_counts(self, counts: dict[int, str]) -> str:
        """Returns the sums with the counts joined to them. Among selected groups there are those alone in which some
        unit counts."""
        given = {i: f"COALESCE(counted{i}.counted, 0)" for i in counts}
        plain = [i for i, measure in enumerate(self.aggregate.measures) if measure.count not in CHOICES]
        columns = [f"sums.{key}" for key in self._keys]
        columns += [f"{given.get(i, f'sums.number{i}')} AS number{i}" for i in plain]
        columns += [f"sums.kept{i}" for i in range(len(histogram_sql.signatures(self.aggregate.measures)))]
        columns += [f"counted{i}.contested AS contested{i}" for i in self.contested]
        if self.deciding is not None:
            columns.append(f"{f'counted{self.deciding}' if self.deciding in counts else 'sums'}.deciding AS deciding")
        tables = [(f"({text}) AS counted{i}", same("sums", f"counted{i}", self._keys)) for i, text in counts.items()]
        joins = [f"LEFT JOIN {table} ON {condition}" for table, condition in tables]
        decides = [i for i in plain if i in counts or i == self.deciding]
        selection = [f"number{i} > 0" for i in decides if self.aggregate.measures[i].id == self.aggregate.selection]
        shown = f" WHERE {selection[0]}" if selection and not self.is_part else ""
        return f"FROM (SELECT {', '.join(columns)} FROM sums {' '.join(joins)}{FENCE}){shown}"

    @cached_property
    def contested(self) -> list[int]:
        """The places of the counts of different values in which a unit could have more pairs than it may stand for."""
        if not (self._is_weighed or self._has_blocks):
            return []
        return [i for i, measure in enumerate(self.aggregate.measures) if measure.count is Count.DISTINCT]

    @property
    def deciding(self) -> int | None:
        """The place of the measure of units that decide in rounds."""
        return next((i for i, m in enumerate(self.aggregate.measures) if m.count is Count.DECIDING), None)

    # Histograms of choices.

    def _histograms(self, rows: str, keys: list[str]) -> list[str]:
        """Returns the SELECT of each histogram, over rows with these key columns."""
        made = {}
        for measure, domain in zip(self.aggregate.measures, self.choices, strict=True):
            if measure.count in CHOICES:
                value = value_of(measure) if domain is not None else self._lattice_value(measure, 0)
                passing = "TRUE" if measure.filter is None else name(measure.filter)
                made[histogram_sql.signature(measure)] = histogram_sql.histogram(
                    rows, keys, value, passing, domain, is_weighed=self._is_weighed
                )
        return list(made.values())

    def _with_histograms(self, rows: str, groups: str, keys: list[str]) -> list[str]:
        """Returns the joins of the groups with their histograms."""
        made = enumerate(self._histograms(rows, keys))
        return [f"LEFT JOIN ({text}) AS kept{i} ON {same(groups, f'kept{i}', keys)}" for i, text in made]

    @cached_property
    def _kept(self) -> list[str]:
        count = len(histogram_sql.signatures(self.aggregate.measures))
        return ["kept AS kept0"] if self._alone else [f"kept{i}.kept AS kept{i}" for i in range(count)]

    @cached_property
    def _alone(self) -> bool:
        """Whether one histogram is all that is asked for: then it alone reads the rows."""
        one = len(histogram_sql.signatures(self.aggregate.measures)) == 1
        return one and all(measure.count in CHOICES for measure in self.aggregate.measures)

    # What the plan says.

    @cached_property
    def _rows(self) -> str:
        return "source_rows" if self.aggregate.unit is None else "owned"

    @cached_property
    def _is_weighed(self) -> bool:
        return self.aggregate.unit is not None and self.aggregate.weights.weighing is not Weighing.WHOLE

    @cached_property
    def _has_blocks(self) -> bool:
        """Whether a unit may have more rows than the plan says of it: that many in each block."""
        return self.in_blocks and self.aggregate.unit is not None

    @cached_property
    def _is_one_row(self) -> bool:
        """Whether no unit has more than one row, so that counting rows is counting units."""
        weights = self.aggregate.weights
        return self.aggregate.unit is None or not (self._is_weighed or self._has_blocks or weights.max_rows > 1)

    @cached_property
    def _is_ranked(self) -> bool:
        """Whether a unit could have rows in more selected groups than it may count in."""
        most, rows = self.aggregate.weights.max_groups, self._most_rows
        if not self.aggregate.is_selected or most is None or self._is_one_row:
            return False
        return rows is None or rows > most or self._has_blocks

    @property
    def _most_rows(self) -> int | None:
        return self.aggregate.weights.most_rows if self._is_weighed else self.aggregate.weights.max_rows

    @cached_property
    def _added(self) -> list[tuple[int, Measure]]:
        """Returns the measures that one aggregation gives, with their places."""
        elsewhere = {self.deciding, *(i for i, _ in self._counts())}
        return [(i, m) for i, m in enumerate(self.aggregate.measures) if m.count not in CHOICES and i not in elsewhere]

    @cached_property
    def _summed(self) -> list[str]:
        return [f"number{i}" for i, _ in self._added]

    @cached_property
    def _keys(self) -> list[str]:
        return [f"key{i}" for i in range(len(self.aggregate.keys))]

    @cached_property
    def _raw_keys(self) -> list[str]:
        return [name(id) for key in self.aggregate.keys for id in key.columns]

    @cached_property
    def _read(self) -> list[str]:
        """Returns the columns that measures read."""
        read: list[str | None] = []
        for m in self.aggregate.measures:
            read += [m.value, m.second.value if m.second else None, m.filter, m.total.column if m.total else None]
        return [name(id) for id in dict.fromkeys(id for id in read if id is not None)]

    def _hash(self, *columns: str) -> str:
        """Returns the hash of columns under the key of a run: its two halves are the numbers that a run gives."""
        return f"hash({', '.join(columns)}, {self.relations.number(1)}, {self.relations.number(2)})"

    def _lattice_value(self, measure: Measure, place: int) -> str:
        """Returns the value of a measure, or the second one, on its lattice."""
        types = {column.id: column.type for column in output(self.aggregate.source)}
        column = measure.value if place == 0 or measure.second is None else measure.second.value
        if measure.lattice is None or column is None:
            raise InternalError("a sum or a quantile has a value and a lattice")
        return lattice_value(name(column), types[column], measure.lattices[place], is_step=column in self.steps)
