"""Public group keys that are the values of a public table."""

from __future__ import annotations

from dpquery.catalog.names import shown, suggestion
from dpquery.catalog.ownership import Drafts
from dpquery.catalog.read_table import TableDraft
from dpquery.catalog.tree import Node, Reading


def resolve_keys_from(drafts: Drafts, reading: Reading) -> dict[str, dict[str, tuple[str, str]]]:
    """Returns, for each table, the columns with `keys_from` and the table and column that each names."""
    resolved: dict[str, dict[str, tuple[str, str]]] = {}
    for draft in drafts.values():
        resolved[draft.name] = {}
        for name, node in draft.keys_from.items():
            source = _read_keys_from(draft, name, node, drafts, reading)
            if source is not None:
                resolved[draft.name][name] = source
    return resolved


def _read_keys_from(
    draft: TableDraft, name: str, node: Node, drafts: Drafts, reading: Reading
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
