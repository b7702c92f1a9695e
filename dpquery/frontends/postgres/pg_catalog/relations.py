"""PostgreSQL's own relations: their names, columns and types, and what all the emulated catalogs share."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

ANALYST = "\x01analyst"
"""Stands for the current user."""

_CODES = {
    "o": (26, "UINTEGER"),
    "8": (20, "BIGINT"),
    "n": (19, "VARCHAR"),
    "t": (25, "VARCHAR"),
    "b": (16, "BOOLEAN"),
    "4": (23, "INTEGER"),
    "2": (21, "SMALLINT"),
    "d": (701, "DOUBLE"),
    "f": (700, "REAL"),
    "N": (1700, "DECIMAL(38,9)"),
    "z": (1184, "TIMESTAMP"),
    "c": (18, "VARCHAR"),
    "p": (24, "UINTEGER"),
    "x": (17, "BLOB"),
    "t*": (1009, "VARCHAR[]"),
    "o*": (1028, "UINTEGER[]"),
    "2*": (1005, "SMALLINT[]"),
    "f*": (1021, "REAL[]"),
    "d*": (1022, "DOUBLE[]"),
    "b*": (1000, "BOOLEAN[]"),
}


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation of PostgreSQL's own: schema, name, OID, kind, and (name, code of the type) of its columns."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: tuple[tuple[str, str], ...]

    @property
    def place(self) -> str:
        """Where the emulation keeps it."""
        return f"{'pgc' if self.schema == 'pg_catalog' else 'inf'}.{self.name}"

    def ddl(self) -> str:
        """Returns the statement that makes it; in pg_catalog numbers and booleans are 0 or false unless said."""
        has_default = "bo428fp" if self.schema == "pg_catalog" else ""
        columns = (
            f'"{name}" {_CODES[code][1]}' + (f" DEFAULT CAST(0 AS {_CODES[code][1]})" if code in has_default else "")
            for name, code in self.columns
        )
        return f"CREATE TABLE {self.place} ({', '.join(columns)})"


def relations() -> tuple[Relation, ...]:
    """Returns all relations of PostgreSQL 15's system schemas."""
    made = []
    for line in text_of("relations.txt").splitlines():
        full, oid, kind, columns = line.split(" ")
        schema, name = full.split(".")
        pairs = tuple((part.split(":")[0], part.split(":")[1]) for part in columns.split(","))
        made.append(Relation(schema, name, int(oid), kind, pairs))
    return tuple(made)


def text_of(name: str) -> str:
    """Returns a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def oid_of_code(code: str) -> int:
    """Returns the OID of a code for a type."""
    return _CODES[code][0]
