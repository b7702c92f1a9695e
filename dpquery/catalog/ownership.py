"""What tables say of other tables: whose rows they hold, by a column or by foreign keys, and where keys come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dpquery.catalog.names import fold, name_fault, shown, suggestion
from dpquery.catalog.read_table import TableDraft
from dpquery.catalog.tree import Node, TreeReading
from dpquery.plan.logical import Ownership, OwnerStep
from dpquery.plan.types import TEXT, Kind, Type

UNIT_KINDS = (Kind.INT64, Kind.TEXT, Kind.DECIMAL)
Drafts = Mapping[str, TableDraft]


def resolve_ownership(drafts: Drafts, privacy_unit: str | None, reading: TreeReading) -> dict[str, Ownership]:
    """Returns the way from a row to its privacy unit, for tables whose rows have one.

    `privacy_unit` is None where its declaration is broken.
    """
    direct: dict[str, Ownership] = {}
    steps: dict[str, OwnerStep] = {}
    links = _Links(drafts, reading)
    for name, draft in drafts.items():
        if not _may_have_unit(draft, privacy_unit, reading) or draft.unit is None:
            continue
        if isinstance(draft.unit.content, Mapping):
            step = links.step(draft, draft.unit)
            if step is not None:
                steps[name] = step
        else:
            owner = _unit_of(draft, draft.unit, reading)
            if owner is not None:
                direct[name] = owner
    _refuse_other_types(drafts, direct, reading)
    _refuse_circles(drafts, steps, reading)
    owners: dict[str, Ownership] = {}
    for name in drafts:
        path = _follow(name, steps)
        owner = direct.get(path[-1].parent if path else name)
        if owner is not None:
            owners[name] = replace(owner, path=path)
    return owners


def _may_have_unit(draft: TableDraft, privacy_unit: str | None, reading: TreeReading) -> bool:
    """Whether the table has to say whose rows it holds; notes where it says too much or too little."""
    unit_is_row = privacy_unit == "row"
    if draft.unit is not None and unit_is_row:
        reading.refuse(draft.unit, "with privacy_unit: row, each row is its own unit; leave unit out")
    elif draft.unit is not None and draft.public:
        reading.refuse(draft.unit, "a public table cannot have a unit; keep either public: true or unit")
    elif privacy_unit and not draft.public and not unit_is_row and _says_no_unit(draft.node):
        reading.refuse(
            draft.node, "write unit: to say whose rows these are, or public: true if everybody may know them"
        )
    return not unit_is_row and not draft.public


def _says_no_unit(node: Node) -> bool:
    return isinstance(node.content, Mapping) and "unit" not in node.content


def _unit_of(draft: TableDraft, node: Node, reading: TreeReading) -> Ownership | None:
    """Returns the unit that one column tells, or several together."""
    if not isinstance(node.content, tuple):
        return _unit_column(draft, node, reading)
    found = [_unit_column(draft, item, reading) for item in node.content]
    parts = tuple((one.column, one.type) for one in found if one is not None)
    if len({name for name, _ in parts}) < len(parts):
        reading.refuse(node, "a column is named twice")
    elif len(found) < 2:
        reading.refuse(node, "expected a text, or a list of two columns at least")
    elif len(parts) == len(found):
        column = ", ".join(name for name, _ in parts)
        if any(fold(name) == fold(column) for name in draft.columns):
            reading.refuse(node, f"the table has a column {shown(column)} besides; give it another name")
            return None
        return Ownership(path=(), column=column, type=TEXT, parts=parts)
    return None


def _unit_column(draft: TableDraft, node: Node, reading: TreeReading) -> Ownership | None:
    name = reading.text(node)
    if name is None:
        return None
    if name not in draft.columns:
        if draft.columns:  # no columns at all is a mistake of its own
            reading.refuse(node, f"{shown(name)} is not a declared column; {suggestion(name, draft.columns)}")
        return None
    column = draft.columns[name]
    if column is None:
        return None
    if column.type.kind not in UNIT_KINDS:
        reading.refuse(node, f"the column of a privacy unit must be int64, text or decimal, not {column.type}")
        return None
    if column.randomized is not None:
        reading.refuse(node, f"{shown(name)} is randomized, so it does not identify the owner of a row")
        return None
    return Ownership(path=(), column=name, type=column.type)


@dataclass(slots=True)
class _Links:
    """Reads foreign keys. A parent's column that is not declared exists for ownership alone and takes the type of the
    child's column; `hidden` remembers its spelling, its type and the table that first named it."""

    drafts: Drafts
    reading: TreeReading
    hidden: dict[tuple[str, str], tuple[str, Type, str]] = field(default_factory=dict)

    def step(self, draft: TableDraft, node: Node) -> OwnerStep | None:
        """Returns the step from a table to the parent that `via` names."""
        fields = self.reading.fields(node, required=("via", "on"))
        parent = self.reading.text(fields["via"]) if "via" in fields else None
        if parent is None or "on" not in fields:
            return None
        if parent not in self.drafts:
            known = suggestion(parent, self.drafts)
            self.reading.refuse(fields["via"], f"{shown(parent)} is not a declared table; {known}")
            return None
        if self.drafts[parent].public:
            self.reading.refuse(fields["via"], f"{shown(parent)} is public, so its rows have no owner")
            return None
        pairs = self.reading.mapping(fields["on"])
        if fields["on"].content == {}:
            self.reading.refuse(fields["on"], "name at least one pair of columns, {of this table: of the parent}")
        on = [self._pair(draft, self.drafts[parent], child, target) for child, target in pairs.items()]
        whole = tuple(pair for pair in on if pair is not None)
        return OwnerStep(parent=parent, on=whole) if 0 < len(whole) == len(on) else None

    def _pair(self, draft: TableDraft, parent: TableDraft, child: str, node: Node) -> tuple[str, str, Type] | None:
        type = self._child_type(draft, child, node)
        column = self.reading.text(node)
        if type is None or column is None:
            return None
        fault = self._fault(parent, column, type, draft.name)
        if fault:
            self.reading.refuse(node, fault)
            return None
        return child, column, type

    def _child_type(self, draft: TableDraft, child: str, node: Node) -> Type | None:
        if child not in draft.columns:
            known = suggestion(child, draft.columns)
            self.reading.refuse(node, f"{shown(child)} is not a declared column of {shown(draft.name)}; {known}")
            return None
        column = draft.columns[child]
        if column is not None and column.type.kind is Kind.FLOAT64:
            self.reading.refuse(
                node, "a foreign key of type float64 is not accepted, because different numbers may compare equal"
            )
            return None
        return None if column is None else column.type

    def _fault(self, parent: TableDraft, column: str, type: Type, child_table: str) -> str | None:
        """Returns why the parent's column cannot equal a column of this type, or None."""
        if column in parent.columns:
            declared = parent.columns[column]
            if declared is None or declared.type == type:
                return None
            return f"{shown(column)} of {shown(parent.name)} is {declared.type}, not {type}"
        alike = next((c for c in parent.columns if fold(c) == fold(column)), None)
        if alike is not None:
            return f"{shown(column)} differs from {shown(alike)} of {shown(parent.name)} only in case"
        if fault := name_fault(column):
            return fault
        spelling, first, where = self.hidden.setdefault((parent.name, fold(column)), (column, type, child_table))
        if (spelling, first) == (column, type):
            return None
        return f"{shown(where)} says {shown(spelling)} of type {first} for this column; here it is {type}"


def _refuse_other_types(drafts: Drafts, direct: Mapping[str, Ownership], reading: TreeReading) -> None:
    """One unit has one identifier: 7 and '7' would be two."""
    first = next(iter(direct), "")
    for name, owner in direct.items():
        here, there = _types(owner), _types(direct[first])
        if here != there:
            reading.refuse(
                drafts[name].unit or drafts[name].node,
                f"the unit is {here} here and {there} in table {shown(first)}: the same unit "
                "would count as two. Declare one type; values are converted to it",
            )
        elif set(owner.columns) == set(direct[first].columns) and owner.columns != direct[first].columns:
            reading.refuse(
                drafts[name].unit or drafts[name].node,
                f"table {shown(first)} names the same columns in another order, in which the same unit would count as "
                "two; write them as there",
            )


def _types(owner: Ownership) -> str:
    types = ", ".join(map(str, owner.types))
    return f"({types})" if owner.parts else types


def _refuse_circles(drafts: Drafts, steps: Mapping[str, OwnerStep], reading: TreeReading) -> None:
    done: set[str] = set()
    for start in steps:
        way: list[str] = []
        seen: set[str] = set()
        name = start
        while name in steps and name not in seen and name not in done:
            way.append(name)
            seen.add(name)
            name = steps[name].parent
        if name in seen:
            circle = way[way.index(name) :]
            reading.refuse(drafts[name].unit or drafts[name].node, "circle: " + " -> ".join([*circle, name]))
        done |= seen


def _follow(name: str, steps: Mapping[str, OwnerStep]) -> tuple[OwnerStep, ...]:
    path: list[OwnerStep] = []
    while name in steps and len(path) < len(steps):
        path.append(steps[name])
        name = steps[name].parent
    return tuple(path)


def resolve_keys_from(drafts: Drafts, reading: TreeReading) -> dict[str, dict[str, tuple[str, str]]]:
    """Returns the columns of each table with `keys_from`, and the table and column that each names."""
    resolved: dict[str, dict[str, tuple[str, str]]] = {}
    for draft in drafts.values():
        resolved[draft.name] = {}
        for name, node in draft.keys_from.items():
            source = _read_keys_from(draft, name, node, drafts, reading)
            if source is not None:
                resolved[draft.name][name] = source
    return resolved


def _read_keys_from(
    draft: TableDraft, name: str, node: Node, drafts: Drafts, reading: TreeReading
) -> tuple[str, str] | None:
    text = reading.text(node)
    if text is None:
        return None
    parts = text.split(".")
    splits = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]
    found = [(table, column) for table, column in splits if table in drafts and column in drafts[table].columns]
    if len(found) != 1:
        public = [f"{t.name}.{c}" for t in drafts.values() if t.public for c in t.columns]
        reading.refuse(node, f"{shown(text)} is not a declared table.column; {suggestion(text, public)}")
        return None
    table, column = found[0]
    source, target = drafts[table].columns[column], draft.columns[name]
    if not drafts[table].public:
        reading.refuse(node, f"{shown(table)} is private; keys come from a public table")
    elif table == draft.name:
        reading.refuse(node, "keys must come from a different table")
    elif source is not None and target is not None and source.type != target.type:
        reading.refuse(node, f"{shown(text)} is {source.type}, and this column is {target.type}")
    return table, column
