"""Made-up databases for a catalog: a crowd, and neighbours whose rows are as extreme as is allowed, or worse.

Nothing of real data is read but public tables, where they are given.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from dpquery.auditing.values import Recipe, ValuePool, number_within, serial
from dpquery.catalog import Catalog
from dpquery.catalog.rows import rows_of
from dpquery.catalog.tables import ColumnDeclaration, Table
from dpquery.data.arrow import arrow_type
from dpquery.plan.calendar import By, name_of, number_of
from dpquery.plan.types import Kind
from dpquery.units.blocks import UNDATED
from dpquery.units.declarations import Neighbours

Row = dict[str, object]
Rows = dict[str, list[Row]]
"""Rows by table, in plain Python values; None is NULL."""

MOST_ROWS = 400
"""Rows of one made-up unit in a table."""
CROWDS = (0, 1, 6, 40)
"""How many people there are besides."""
PUBLIC_ROWS = 6

EXTREMES = (
    Recipe("high", "same", "heavy"),
    Recipe("low", "same", "heavy"),
    Recipe("high", "same", "heavy", 1),
    Recipe("above", "each", "heavy"),
    Recipe("below", "same", "full"),
    Recipe("above", "same", "one"),
    Recipe("null", "each", "heavy"),
    Recipe("odd", "each", "heavy"),
    Recipe("high", "unlisted", "heavy"),
    Recipe("low", "each", "full"),
    Recipe("mixed", "mixed", "heavy"),
    Recipe("mixed", "mixed", "few"),
)
"""Units that reach what is declared, and units that would pass it if nothing were enforced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two databases that are neighbours, by their places; in one block of rows, where rows are in blocks."""

    left: int
    right: int
    block: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Databases, each with its name, and which of them are neighbours."""

    databases: tuple[tuple[str, dict[str, pa.Table]], ...]
    pairs: tuple[Pair, ...]


@dataclass(kw_only=True)
class Maker:
    """Makes units with all their rows, each with ids of its own.

    Attributes:
        public: The rows of public tables; of those that are not given, some are made up.
        known: Values of interest by kind of type, as the constants of queries are.
    """

    catalog: Catalog
    random: Random
    public: Mapping[str, pa.Table] = field(default_factory=dict)
    known: Mapping[Kind, Sequence[object]] = field(default_factory=dict)
    ids: int = 0

    def __post_init__(self) -> None:
        tables = self.catalog.tables.values()
        self.private = [table for table in tables if not table.public]
        self.given = {t.name: self.public.get(t.name, self._made_up(t)) for t in tables if t.public}
        pool = ValuePool(random=self.random, known=self.known, keys_from=self._keys_from)
        self.pool, self.links = pool, self._linking()
        self.as_text = {
            (table.name, column.name)
            for table in self.private
            for column in table.columns.values()
            if column.type.kind in (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL) and self.random.random() < 0.1
        }

    def world(self, guests: int = 0) -> World:
        """Returns a crowd and neighbours of it.

        Args:
            guests: Where units are added and have no blocks, so many of them are added to one another in all ways: of
                2^guests databases guests x 2^(guests - 1) pairs are neighbours. By default each is added by itself.
        """
        crowd: Rows = {}
        for _ in range(self.random.choice(CROWDS)):
            _extend(crowd, self.unit(Recipe("mixed", "mixed", "few")))
        if not self.catalog.declarations.unit_is_row and self.random.random() < 0.7:
            _extend(crowd, self._owned_by_nobody())
        if self.catalog.declarations.blocks is not None:
            return self._in_blocks(crowd)
        recipes = self._recipes()
        is_added = self.catalog.neighbours is Neighbours.ADD_REMOVE
        if guests and is_added:
            return self._in_all_ways(crowd, self.random.sample(recipes, min(guests, len(recipes))))
        units = [(recipe.words, self.unit(recipe, first=i)) for i, recipe in enumerate(recipes)]
        databases = [(words, self.sources(crowd, unit)) for words, unit in units]
        if is_added:
            empty = ("no unit", self.sources(crowd))
            return World(
                databases=(empty, *databases), pairs=tuple(Pair(left=0, right=i + 1) for i in range(len(databases)))
            )
        found = itertools.combinations(range(len(databases)), 2)
        return World(databases=tuple(databases), pairs=tuple(Pair(left=i, right=j) for i, j in found))

    def _in_all_ways(self, crowd: Rows, recipes: Sequence[Recipe]) -> World:
        """Returns the databases of all sets of units of these recipes; two are neighbours that differ in one unit."""
        units = [(recipe.words, self.unit(recipe, first=i)) for i, recipe in enumerate(recipes)]
        databases, pairs = [], []
        for chosen in range(2 ** len(units)):
            inside = [units[i] for i in range(len(units)) if chosen >> i & 1]
            words = " and ".join(words for words, _ in inside) or "no unit"
            databases.append((words, self.sources(crowd, *(unit for _, unit in inside))))
            pairs += [Pair(left=chosen, right=chosen | 1 << i) for i in range(len(units)) if not chosen >> i & 1]
        return World(databases=tuple(databases), pairs=tuple(pairs))

    def _recipes(self) -> list[Recipe]:
        random = self.random
        others = [
            Recipe(
                random.choice(Recipe.VALUES),
                random.choice(Recipe.KEYS),
                random.choice(Recipe.ROWS),
                random.randrange(3),
            )
            for _ in range(4)
        ]
        return [*EXTREMES, *others]

    def sources(self, *parts: Rows) -> dict[str, pa.Table]:
        """Returns the tables of the database that holds these rows."""
        found = dict(self.given)
        for table in self.private:
            rows = self._unique(table, [row for part in parts for row in part.get(table.name, ())])
            found[table.name] = pa.table(
                {c.name: self._column(table, c, [row[c.name] for row in rows]) for c in table.columns.values()}
            )
        return found

    def _column(self, table: Table, column: ColumnDeclaration, values: list[object]) -> pa.Array:
        if (table.name, column.name) in self.as_text:
            return pa.array([None if value is None else str(value) for value in values], pa.string())
        return pa.array(values, arrow_type(column.type))

    def _unique(self, table: Table, rows: list[Row]) -> list[Row]:
        """Returns the rows without those that repeat what is declared to be unique."""
        for columns in table.unique:
            seen = dict[object, Row]()
            for row in rows:
                key = tuple(row[name] for name in sorted(columns))
                seen.setdefault(id(row) if None in key else key, row)
            rows = list(seen.values())
        return rows

    # One unit.

    def unit(self, recipe: Recipe, *, first: int = 0, block: int | str | None = None) -> Rows:
        """Returns all rows of a new unit.

        Args:
            first: Where each row is a unit, which of the private tables it is in.
            block: In tables with blocks, the one in which all rows are; by default any.
        """
        self.ids += 1
        unit = self.ids
        if self.catalog.declarations.unit_is_row:
            table = self.private[first % len(self.private)]
            return {table.name: [self._row(table, recipe, 0, None, {}, block)]}
        made: Rows = {}
        for table in self._parents_first():
            count = self._count(table, recipe)
            parents = made.get(table.ownership.path[0].parent, []) if table.ownership and table.ownership.path else [{}]
            made[table.name] = [
                self._row(table, recipe, i, unit, parents[i % len(parents)], block)
                for i in range(count if parents else 0)
            ]
        return made

    def _count(self, table: Table, recipe: Recipe) -> int:
        most = rows_of(table, self.catalog)
        assert isinstance(most, int)
        match recipe.rows:
            case "one":
                return 1
            case "few":
                return self.random.randint(0, 3)
            case "full":
                return min(most, MOST_ROWS)
            case _:
                return min(2 * most + 8, MOST_ROWS)

    def _row(
        self, table: Table, recipe: Recipe, place: int, unit: int | None, parent: Row, block: int | str | None
    ) -> Row:
        row: Row = {}
        own = table.ownership
        copied = {child: parent.get(held) for child, held, _ in own.path[0].on} if own is not None and own.path else {}
        for column in table.columns.values():
            if column.name in copied:
                row[column.name] = copied[column.name]
            elif own is not None and not own.path and column.name in own.columns:
                is_last = column.name == own.columns[-1]  # of several parts the others are those of many units
                row[column.name] = None if unit is None else serial(column.type, unit if is_last else unit % 2)
            elif (table.name, column.name) in self.links:
                self.ids += 1
                row[column.name] = serial(column.type, self.ids)
            elif table.blocks is not None and block is not None and column.name == table.blocks.column:
                row[column.name] = self._date_in(column, block, table.blocks.by)
            else:
                row[column.name] = self.pool.value(column, recipe, place, self.ids)
        return row

    def _date_in(self, column: ColumnDeclaration, block: int | str, by: By) -> object:
        return None if isinstance(block, str) else number_within(column, block, by, self.random)

    def _owned_by_nobody(self) -> Rows:
        """Returns rows whose unit is NULL, or whose foreign key leads nowhere."""
        loose = Recipe("mixed", "mixed", "few")
        return {
            table.name: [self._row(table, loose, i, None, {}, None) for i in range(3)]
            for table in self.private
            if not any(self._names_unit(table, columns) for columns in table.unique)
        }

    def _names_unit(self, table: Table, columns: frozenset[str]) -> bool:
        own = table.ownership
        return own is not None and not own.path and own.columns[-1] in columns

    def _parents_first(self) -> list[Table]:
        return sorted(self.private, key=lambda table: len(table.ownership.path) if table.ownership else 0)

    def _linking(self) -> set[tuple[str, str]]:
        """Returns the columns that get a value of their own in each row: what other tables name, and unique ones."""
        found = set()
        for table in self.private:
            own = table.ownership
            for step in own.path if own else ():
                found |= {(step.parent, held) for _, held, _ in step.on}
            for columns in table.unique:
                free = [n for n in columns if table.columns[n].keys is None and table.columns[n].lower is None]
                found |= {(table.name, name) for name in free if not (own and not own.path and name in own.columns)}
        return found

    # Rows in blocks.

    def _in_blocks(self, crowd: Rows) -> World:
        """Returns neighbours that differ in the rows of one unit in one block alone."""
        axis = self.catalog.declarations.blocks
        assert axis is not None
        numbers: list[int | str] = [axis.first, axis.last, self.random.randint(axis.first, axis.last), UNDATED]
        block = self.random.choice(numbers)
        name = block if isinstance(block, str) else name_of(block, axis.by)
        by_row = self.catalog.declarations.unit_is_row
        base = {} if by_row else self._outside(self.unit(Recipe("mixed", "mixed", "heavy")), name, axis.by)
        dated = [table for table in self.private if table.blocks is not None]
        found = [("no unit there", self.sources(crowd, base))]
        keep = self.ids
        for i, recipe in enumerate(self._recipes()):
            self.ids = keep - 1  # the same unit, with other rows
            place = self.private.index(dated[i % len(dated)])
            guest = self.unit(recipe, first=place, block=block)
            own = {t.name: guest.get(t.name, []) for t in self.private if t in dated or (i % 2 and not by_row)}
            found.append((f"{recipe.words} in {name}", self.sources(crowd, base, own)))
            self.ids += MOST_ROWS
        replaced = self.catalog.neighbours is Neighbours.REPLACE_ONE
        first = int(replaced and by_row)  # a row is replaced by a row
        ends = itertools.combinations(range(first, len(found)), 2)
        pairs = [Pair(left=i, right=j, block=name) for i, j in ends if replaced or i == 0]
        return World(databases=tuple(found), pairs=tuple(pairs))

    def _outside(self, rows: Rows, block: str, by: By) -> Rows:
        """Returns the rows that are in other blocks, or in none of their own."""
        kept: Rows = {}
        for table in self.private:
            own, dated = rows.get(table.name, []), table.blocks
            kept[table.name] = [row for row in own if dated is None or _block_of(row[dated.column], by) != block]
        return kept

    # Public tables.

    def _keys_from(self, table: str, column: str) -> list[object]:
        return [value for value in self.given[table].column(column).to_pylist() if value is not None]

    def _made_up(self, table: Table) -> pa.Table:
        once = {name for columns in table.unique for name in columns}
        pool = ValuePool(random=self.random, known=self.known, keys_from=lambda *_: [])
        rows = [
            {
                c.name: serial(c.type, i) if c.name in once else pool.value(c, Recipe("mixed", "mixed", "few"), i, i)
                for c in table.columns.values()
            }
            for i in range(PUBLIC_ROWS)
        ]
        types = {c.name: arrow_type(c.type) for c in table.columns.values()}
        return pa.table({name: pa.array([row[name] for row in rows], type) for name, type in types.items()})


def _extend(rows: Rows, more: Rows) -> None:
    for table, added in more.items():
        rows.setdefault(table, []).extend(added)


def _block_of(value: object, by: By) -> str:
    return name_of(number_of(value, by), by) if isinstance(value, datetime.date) else UNDATED
