"""The catalog: what the data owner declares, checked as a whole and immutable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from dpquery.catalog.advice import advice
from dpquery.catalog.blocks import axis_of
from dpquery.catalog.column_fields import zone_of_all
from dpquery.catalog.describe import describe
from dpquery.catalog.names import composed, fold, shown, suggestion
from dpquery.catalog.read import read_contents
from dpquery.catalog.tables import WORK, ColumnDeclaration, Defaults, Table
from dpquery.catalog.tree import TreeReading, tree_of_python
from dpquery.catalog.yaml import read_file, tree_of_yaml
from dpquery.errors import CatalogError
from dpquery.kernel.accountant import Budget
from dpquery.plan.cached import cached
from dpquery.plan.types import Type
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration


@dataclass(frozen=True, slots=True, init=False)
class Catalog:
    """Tables, privacy unit, bounds, public keys and budgets of one dataset.

    Built from YAML with `load` or `from_yaml`, or from the same content as plain Python values, which have no version.
    Every mistake is reported together, in one CatalogError.

    Attributes:
        dataset: The name that the ledger is bound to.
        privacy_unit: A word for the protected entity, or "row".
        neighbours: What neighbouring databases are.
        budget: The hard limit, all analysts together.
        analysts: The limit of each analyst, by name.
        defaults: What holds where neither query nor table says.
        tables: The declared tables, by name, in order.
        work: Steps that one stored row may cause in one query.
        profile: What a profile of each data version may lose, in the budget's epsilon or rho; None where none is given.
        backend: The engine that holds the tables, by name; None for DuckDB, unless `connect` says another.
    """

    dataset: str
    privacy_unit: str
    neighbours: Neighbours
    budget: Budget
    analysts: Mapping[str, Budget]
    defaults: Defaults
    tables: Mapping[str, Table]
    work: int
    profile: Fraction | None
    backend: str | None

    def __init__(
        self,
        *,
        dataset: str,
        privacy_unit: str,
        tables: Mapping[str, object],
        budget: Mapping[str, object],
        analysts: Mapping[str, object] | None = None,
        defaults: Mapping[str, object] | None = None,
        neighbours: str = "add_remove",
        work: int = WORK,
        profile: object = None,
        backend: str | None = None,
    ) -> None:
        given: dict[str, object] = {"dataset": dataset, "privacy_unit": privacy_unit, "neighbours": neighbours}
        given |= {"budget": budget, "tables": tables, "analysts": analysts, "defaults": defaults}
        given |= {"work": work, "profile": profile, "backend": backend}
        reading = TreeReading()
        left_out = {name for name in ("analysts", "defaults", "profile", "backend") if given[name] is None}
        tree = tree_of_python({n: v for n, v in given.items() if n not in left_out}, "", reading)
        self._fill(read_contents(tree, reading, is_file=False))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Catalog:
        """Returns the catalog in a YAML file: UTF-8, at most 4 MiB.

        Raises:
            CatalogError: The file cannot be read, or declares something wrong; all mistakes, each with its line.
        Example:
            >>> Catalog.load(folder / "clinic.yaml").privacy_unit
            'patient'
        """
        return _catalog_of_yaml(read_file(path), Path(path).name)

    @staticmethod
    def from_yaml(text: str) -> Catalog:
        """Returns the catalog in a YAML text.

        Raises:
            CatalogError: It declares something wrong; all mistakes, each with its line.
        Example:
            >>> [*Catalog.from_yaml((folder / "clinic.yaml").read_text()).table("visits").columns]
            ['patient', 'region', 'cost']
        """
        return _catalog_of_yaml(text)

    def _fill(self, contents: Mapping[str, object]) -> None:
        for name, value in contents.items():
            object.__setattr__(self, name, value)

    @property
    def declarations(self) -> Declarations:
        """What the kernel needs to know, with ownership followed to its end.

        Example:
            >>> catalog.declarations.privacy_unit, [*catalog.declarations.tables]
            ('patient', ['visits'])
        """
        return _declarations(self)

    @property
    def zone(self) -> str | None:
        """The one time zone of all columns that declare one, in which now and constants with a zone are read: ""
        where none declares one, None where they differ.

        Example:
            >>> catalog.zone
            ''
        """
        return _zone(self)

    @property
    def has_totals(self) -> bool:
        """Whether some column declares a `max_total`."""
        return _has(self, "max_total")

    @property
    def withholds(self) -> bool:
        """Whether some table has a minimum of people, below which nothing is shown."""
        return self.defaults.min_units is not None or _says_least(self)

    @property
    def has_reports(self) -> bool:
        """Whether some column is randomised."""
        return _has(self, "randomized")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Advice on declarations that are allowed and yet may not be what the owner wants.

        Example:
            >>> print(*catalog.warnings)
            budget: epsilon 1000 is above 10: odds about one unit may change by the factor e^epsilon.
        """
        return advice(self)

    def table(self, name: str) -> Table:
        """Returns the table of exactly this name; raises CatalogError if there is none.

        Example:
            >>> catalog.table("visits").columns["cost"].upper
            500.0
        """
        if name not in self.tables:
            raise CatalogError(f"{shown(name)} is not a declared table; {suggestion(name, self.tables)}")
        return self.tables[name]

    def find_table(self, name: str, quoted: bool) -> Table | None:
        """Returns the table that a query means: quoted names match exactly, others in any case.

        Example:
            >>> catalog.find_table("VISITS", quoted=False) is catalog.table("visits")
            True
            >>> catalog.find_table("VISITS", quoted=True)
        """
        if quoted:
            same = (t for t in self.tables.values() if composed(t.name) == composed(name))
            return self.tables.get(name) or next(same, None)
        return next((t for t in self.tables.values() if fold(t.name) == fold(name)), None)

    def with_max_rows(self, found: Mapping[str, int]) -> Catalog:
        """Returns the catalog with these numbers in place of `max_rows: auto`, by table; the promise is the same.

        Example:
            >>> catalog.with_max_rows({"visits": 2}).table("visits").max_rows
            2
        """
        measured = {name: replace(self.tables[name], max_rows=rows) for name, rows in found.items()}
        return self.with_tables({**self.tables, **measured})

    def with_tables(self, tables: Mapping[str, Table]) -> Catalog:
        """Returns the catalog with these tables and no others.

        Example:
            >>> [*catalog.with_tables({"visits": catalog.table("visits")}).tables]
            ['visits']
        """
        return self._but(tables=MappingProxyType(dict(tables)))

    def with_budget(self, budget: Budget, *, least_charge: Fraction) -> Catalog:
        """Returns the catalog under another budget and without limits of analysts, to be simulated.

        Example:
            >>> small = Catalog.from_yaml((folder / "clinic.yaml").read_text().replace("1000", "2")).budget
            >>> catalog.with_budget(small, least_charge=Fraction(1, 100)).budget == small
            True
        """
        return self._but(budget=budget, analysts={}, defaults=replace(self.defaults, least_charge=least_charge))

    def _but(self, **changed: object) -> Catalog:
        made = object.__new__(Catalog)
        made._fill({field.name: getattr(self, field.name) for field in fields(self)} | changed)
        return made

    def to_text(self) -> str:
        """Returns in words what is declared, with every default that applies.

        Example:
            >>> print(catalog.to_text().splitlines()[0])
            Dataset clinic
        """
        return describe(self)


@cached
def _zone(catalog: Catalog) -> str | None:
    return zone_of_all(catalog.tables.values())


@cached
def _says_least(catalog: Catalog) -> bool:
    return any(table.min_units is not None for table in catalog.tables.values())


@cached
def _has(catalog: Catalog, field: str) -> bool:
    columns = [column for table in catalog.tables.values() for column in table.columns.values()]
    return any(getattr(column, field) is not None for column in columns)


@cached
def _declarations(catalog: Catalog) -> Declarations:
    tables = {
        table.name: TableDeclaration(
            name=table.name,
            public=table.public,
            ownership=table.ownership,
            unique=table.unique if table.public else (),
            dated=None if table.blocks is None else _dated(table.columns[table.blocks.column]),
        )
        for table in catalog.tables.values()
    }
    return Declarations(
        dataset=catalog.dataset,
        privacy_unit=catalog.privacy_unit,
        neighbours=catalog.neighbours,
        tables=tables,
        blocks=axis_of(catalog.tables.values()),
    )


def _dated(column: ColumnDeclaration) -> tuple[str, Type, str]:
    return column.name, column.type, column.zone


@lru_cache(maxsize=16)  # it never changes, and a program reads the same one again for each session
def _catalog_of_yaml(text: str, source: str = "") -> Catalog:
    reading = TreeReading(source=source)
    contents = read_contents(tree_of_yaml(text, reading), reading, is_file=True)
    catalog = object.__new__(Catalog)
    catalog._fill(contents)
    return catalog
