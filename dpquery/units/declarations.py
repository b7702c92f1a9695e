"""What the data owner declares and the promise rests on: who is protected, and which rows are whose.

The ledger keeps its own copy, made when it was created; the gate compares every plan with it: docs/proofs/gate.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from dpquery.plan.calendar import By
from dpquery.plan.logical import Ownership, OwnerStep
from dpquery.plan.types import Kind, Type
from dpquery.units.blocks import BlockRange


class Neighbours(Enum):
    """How neighbouring databases differ in one privacy unit's rows, in all private tables at once."""

    ADD_REMOVE = "add_remove"
    """The unit is there or not."""
    REPLACE_ONE = "replace_one"
    """The unit is there with other rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDeclaration:
    """What the promise needs to know of one table.

    Attributes:
        name: The table's name in plans.
        public: Whether its rows are known to everybody.
        ownership: How a row finds its privacy unit; None for public tables, and where the unit is the row.
        unique: Sets of columns of which no two rows agree, for public tables; the backend checks them.
        dated: The column, with its type and its time zone or "", that tells the block of a row; None where rows are in
            all blocks. In another zone rows would be in other blocks, and be charged twice.
    """

    name: str
    public: bool
    ownership: Ownership | None = None
    unique: tuple[frozenset[str], ...] = ()
    dated: tuple[str, Type, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Declarations:
    """The promise of one dataset.

    Attributes:
        dataset: The name that the ledger is bound to.
        privacy_unit: A word for the protected entity, or "row".
        neighbours: What neighbouring databases are.
        tables: The declared tables, by name.
        blocks: The blocks that have a budget each, or None where the dataset has one for all rows.
    """

    dataset: str
    privacy_unit: str
    neighbours: Neighbours
    tables: Mapping[str, TableDeclaration]
    blocks: BlockRange | None = None

    def __post_init__(self) -> None:
        if self.blocks is None:
            if any(table.dated is not None for table in self.tables.values()):
                raise ValueError("a table has blocks, and the dataset none")
        elif not self.unit_is_row and self.neighbours is not Neighbours.REPLACE_ONE:
            raise ValueError("a unit with other rows in one block is replaced, not added or removed")

    @cached_property
    def unit_is_row(self) -> bool:
        """Whether each private row is a privacy unit of its own."""
        return self.privacy_unit == "row"

    @cached_property
    def undated(self) -> frozenset[str]:
        """The tables whose rows are in no blocks of their own."""
        return frozenset(name for name, table in self.tables.items() if table.dated is None)

    @cached_property
    def own_dates(self) -> frozenset[str]:
        """The tables whose rows tell their block and their unit themselves: a parent may be in another block."""
        return frozenset(name for name, t in self.tables.items() if t.ownership is None or not t.ownership.path)

    @property
    def protected(self) -> str:
        """What one account of the budget protects, in words."""
        if self.unit_is_row:
            return "each single row"
        if self.blocks is None:
            return f"all rows of one {self.privacy_unit}"
        return f"the rows of one {self.privacy_unit} in one {self.blocks.by.value}"

    def to_json(self) -> str:
        """Returns the canonical text: equal declarations have equal texts."""
        tables = {name: _table_to_dict(table) for name, table in sorted(self.tables.items())}
        content: dict[str, Any] = {
            "dataset": self.dataset,
            "privacy_unit": self.privacy_unit,
            "neighbours": self.neighbours.value,
            "tables": tables,
        }
        if self.blocks is not None:
            content["blocks"] = [self.blocks.by.value, self.blocks.first, self.blocks.last]
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Declarations:
        """Returns the declarations that `to_json` wrote; raises ValueError or KeyError on any other text."""
        content = json.loads(text)
        return Declarations(
            dataset=content["dataset"],
            privacy_unit=content["privacy_unit"],
            neighbours=Neighbours(content["neighbours"]),
            tables={name: _table_from_dict(name, table) for name, table in content["tables"].items()},
            blocks=_axis_from_list(content["blocks"]) if "blocks" in content else None,
        )

    def fingerprint(self) -> str:
        """Returns the SHA-256 of the canonical text, in hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def _table_to_dict(table: TableDeclaration) -> dict[str, Any]:
    owner = table.ownership
    steps = [] if owner is None else [[s.parent, [[c, p, _type_to_list(t)] for c, p, t in s.on]] for s in owner.path]
    whose: dict[str, Any] | None = None
    if owner is not None:
        whose = {"path": steps, "column": owner.column, "type": _type_to_list(owner.type)}
        whose |= {"parts": [[name, _type_to_list(type)] for name, type in owner.parts]} if owner.parts else {}
    told: dict[str, Any] = {
        "public": table.public,
        "owner": whose,
        "unique": sorted(sorted(columns) for columns in table.unique),
    }
    if table.dated is None:
        return told
    column, type, zone = table.dated
    return told | {"dated": [column, _type_to_list(type), *([zone] if zone else [])]}


def _table_from_dict(name: str, content: dict[str, Any]) -> TableDeclaration:
    owner = content["owner"]
    ownership = None
    if owner is not None:
        path = tuple(
            OwnerStep(parent=parent, on=tuple((c, p, _type_from_list(t)) for c, p, t in on))
            for parent, on in owner["path"]
        )
        parts = tuple((name, _type_from_list(type)) for name, type in owner.get("parts", []))
        ownership = Ownership(path=path, column=owner["column"], type=_type_from_list(owner["type"]), parts=parts)
    unique = tuple(frozenset(columns) for columns in content["unique"])
    dated = None
    if "dated" in content:
        column, type, *zone = content["dated"]
        dated = (column, _type_from_list(type), zone[0] if zone else "")
    return TableDeclaration(name=name, public=content["public"], ownership=ownership, unique=unique, dated=dated)


def _axis_from_list(content: list[Any]) -> BlockRange:
    by, first, last = content
    return BlockRange(by=By(by), first=first, last=last)


def _type_to_list(type: Type) -> list[str | int]:
    return [type.kind.value, type.precision, type.scale]


def _type_from_list(content: list[Any]) -> Type:
    return Type(Kind(content[0]), int(content[1]), int(content[2]))
