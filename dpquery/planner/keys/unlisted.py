"""Which constants a query compares with a column whose declared keys do not hold them: often another spelling."""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.catalog import Catalog
from dpquery.catalog.names import closest
from dpquery.kernel.plan import PrivateAggregate
from dpquery.plan.definitions import definition
from dpquery.plan.expr import Call, Column, Expression, Literal, parts_of
from dpquery.plan.logical import Filter, Project, Relation, Scan, sources
from dpquery.plan.types import TEXT

MOST_NAMED = 5


def unlisted_constants(aggregates: tuple[PrivateAggregate, ...], catalog: Catalog) -> tuple[str, ...]:
    """Returns a sentence for each text that is compared with a column with declared keys and is none of them. It
    follows from the query and the catalog alone."""
    found: dict[str, None] = {}
    for aggregate in aggregates:
        pending: list[Relation] = [aggregate.source]
        while pending:
            relation = pending.pop()
            pending += sources(relation)
            for expression in _expressions(relation):
                found |= dict.fromkeys(_sentences(expression, relation, catalog))
    return tuple(found)[:MOST_NAMED]


def _expressions(relation: Relation) -> tuple[Expression, ...]:
    match relation:
        case Filter():
            return (relation.condition,)
        case Project():
            return tuple(column.expression for column in relation.columns)
        case _:
            return ()


def _sentences(expression: Expression, relation: Relation, catalog: Catalog) -> Iterator[str]:
    for part in parts_of(expression):
        if not isinstance(part, Call) or part.function not in ("eq", "in"):
            continue
        columns = [one for one in part.arguments if isinstance(one, Column) and one.type == TEXT]
        texts = [one.value for one in part.arguments if isinstance(one, Literal) and isinstance(one.value, str)]
        if len(columns) != 1 or len(texts) != len(part.arguments) - 1:
            continue
        name, keys = _declared(columns[0], relation, catalog)
        for text in texts:
            if keys and text not in keys:
                near = closest(text, [key for key in keys if isinstance(key, str)])
                meant = f"; did you mean {near!r}?" if near is not None else ""
                yield f"{text!r} is none of the declared keys of {name}{meant}"


def _declared(column: Column, relation: Relation, catalog: Catalog) -> tuple[str, tuple[object, ...]]:
    """Returns the table's column behind a column, and its declared keys; none where there are none."""
    source = relation.source if isinstance(relation, Filter | Project) else relation
    defined, leaves = definition(column.id, source)
    table = leaves.get(defined.id) if isinstance(defined, Column) else None
    if not isinstance(defined, Column) or not isinstance(table, Scan):
        return "", ()
    stored = next((one.name for one in table.columns if one.id == defined.id), None)
    declared = catalog.tables[table.table].columns.get(stored or "")
    return (f"{table.table}.{stored}", tuple(declared.keys)) if declared and declared.keys else ("", ())
