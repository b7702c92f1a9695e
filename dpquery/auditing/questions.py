"""Which queries are audited: those of a file, those that the ledger knows, or some that follow from the catalog."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from dpquery.auditing.charged_queries import NotRead, apart, queries_of
from dpquery.auditing.inputs import AuditedPlan
from dpquery.catalog import Catalog
from dpquery.catalog.tables import Table
from dpquery.kernel.accountant import BudgetKind
from dpquery.ledger.entries import Entry
from dpquery.ledger.schema import EntryKind as Entries
from dpquery.plan.expr import Literal
from dpquery.plan.types import BOOLEAN, Kind
from dpquery.session.options import Asked, Options
from dpquery.sql.parse.parameters import Given
from dpquery.sql.parse.parse import DIALECTS

MOST = 60
"""Queries that are made from a catalog."""
_LOSS = re.compile(r"--\s*(epsilon|delta|rho|max_groups|max_rows)\s*=\s*([0-9.eE/+-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedQuery:
    """A query, and what is asked with it.

    Attributes:
        dialects: Those that it may be in, where that is not known: it is asked in the first that does not refuse it.
    """

    text: str
    options: Options
    params: Given = None
    dialects: tuple[str, ...] = ()

    @property
    def readings(self) -> tuple[AuditedQuery, ...]:
        """The query in each dialect that it may be in."""
        made = (replace(self, options=self.options.but(dialect=one), dialects=()) for one in self.dialects)
        return tuple(made) or (self,)


def usual(catalog: Catalog) -> Options:
    """Returns what a query asks where it says nothing: the catalog's defaults, else an epsilon of 1 or a rho of 0.1."""
    defaults, kind = catalog.defaults, catalog.budget.kind
    said = defaults.epsilon is not None or defaults.rho is not None
    delta = None if kind is BudgetKind.PURE or defaults.delta is not None else catalog.budget.delta / 1000
    loss: dict[str, object] = {} if said else {"rho": "0.1"} if kind is BudgetKind.ZCDP else {"epsilon": "1"}
    return Options(**loss, delta=delta or None)  # type: ignore[arg-type]


def of_text(text: str, catalog: Catalog) -> list[AuditedQuery]:
    """Returns the queries of a file: apart by semicolons; `-- epsilon=0.5` in one of them is what it asks."""
    return [
        AuditedQuery(text=part.strip(), options=usual(catalog).but(**_said(part)))
        for part in apart(text)
        if re.sub(r"--[^\n]*", "", part).strip()
    ]


def _said(part: str) -> Asked:
    found = {name: int(value) if name.startswith("max") else value for name, value in _LOSS.findall(part)}
    return cast(Asked, found)


def of_log(entries: Iterable[Entry], catalog: Catalog) -> tuple[list[AuditedQuery], list[str]]:
    """Returns the queries that were charged, each once with the same parameters, at what they were charged; and how
    many charges of each kind hold none that can be asked again."""
    found, left_out = dict[str, AuditedQuery](), Counter[str]()
    for entry in entries:
        if entry.kind is Entries.CHARGE:
            try:
                queries = queries_of(entry)
            except NotRead as error:
                left_out[str(error)] += 1
                continue
            for one in queries:
                options = charged(entry, catalog)
                question = AuditedQuery(text=one.text, options=options, params=one.params, dialects=tuple(DIALECTS))
                found[f"{one.text} {one.params!r}"] = question
    return list(found.values()), [f"{kind}: {count:,} in the log" for kind, count in left_out.items()]


def charged(entry: Entry, catalog: Catalog) -> Options:
    """Returns the options of a query that asks for what an entry was charged."""
    loss = entry.loss
    asked = {"epsilon": loss.epsilon} if loss.epsilon else {"rho": loss.rho}
    usually = usual(catalog).delta
    return Options(**asked, delta=loss.delta or usually)  # type: ignore[arg-type]


def of_catalog(catalog: Catalog) -> list[AuditedQuery]:
    """Returns queries that ask of each private table what people ask of it."""
    private = [table for table in catalog.tables.values() if not table.public]
    texts = [text for table in private for text in _of_table(catalog, table)]
    options = usual(catalog)
    bounded = [f"SELECT COUNT(*) AS n FROM {_quoted(table.name)}" for table in private if catalog.privacy_unit != "row"]
    asked = [AuditedQuery(text=text, options=options) for text in dict.fromkeys(texts)][: MOST - len(bounded)]
    return [*asked, *(AuditedQuery(text=text, options=options.but(max_rows=3)) for text in bounded)]


def _of_table(catalog: Catalog, table: Table) -> Iterator[str]:
    name, columns = _quoted(table.name), list(table.columns.values())
    own = table.ownership
    unit = ", ".join(map(_quoted, own.columns)) if own is not None and not own.path else ""
    keys = [c for c in columns if c.keys or c.keys_from or c.type == BOOLEAN]
    numbers = [c for c in columns if c.lower is not None and c.type.kind in (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL)]
    moments = [c for c in columns if c.lower is not None and c.type.kind in (Kind.DATE, Kind.TIMESTAMP)]
    texts = [c for c in columns if c.type.kind is Kind.TEXT and not (c.keys or c.keys_from or c.randomized)]
    sums = ", ".join(f"SUM({_quoted(c.name)}) AS s{i}" for i, c in enumerate(numbers[:4]) if c.randomized is None)
    yield f"SELECT COUNT(*) AS n{', ' + sums if sums else ''} FROM {name}"
    for c in keys[:4]:
        key = _quoted(c.name)
        yield f"SELECT {key}, COUNT(*) AS n{', ' + sums if sums else ''} FROM {name} GROUP BY {key}"
        if unit:
            yield f"SELECT {key}, COUNT(DISTINCT ({unit})) AS people FROM {name} GROUP BY {key}"
        if c.randomized is None:
            yield f"SELECT MODE({key}) AS most FROM {name}"
    for a, b in itertools.pairwise(keys):
        yield f"SELECT {_quoted(a.name)}, {_quoted(b.name)}, COUNT(*) AS n FROM {name} GROUP BY ALL"
    for i, c in enumerate(number for number in numbers[:4] if number.randomized is None):
        value, key = _quoted(c.name), f"{_quoted(keys[i % len(keys)].name)}, " if keys else ""
        by = " GROUP BY 1" if keys else ""
        yield f"SELECT {key}SUM({value}) AS s FROM {name}{by}"
        yield f"SELECT {key}AVG({value}) AS mean, STDDEV({value}) AS spread FROM {name}{by}"
        yield f"SELECT MEDIAN({value}) AS m, MAX({value}) AS most FROM {name}"
        if unit:
            each = f"SELECT SUM({value}) AS own FROM {name} GROUP BY {unit}"
            yield f"SELECT COUNT(*) AS n, AVG(CLAMP(own, 0, 1000)) AS mean FROM ({each}) AS each_unit"
    for c in moments[:2]:
        yield f"SELECT DATE_TRUNC('month', {_quoted(c.name)}) AS k, COUNT(*) AS n FROM {name} GROUP BY 1"
    for c in texts[:2] if catalog.budget.kind is not BudgetKind.PURE else ():
        people = f", COUNT(DISTINCT ({unit})) AS people" if unit else ""
        yield f"SELECT {_quoted(c.name)}, COUNT(*) AS n{people} FROM {name} GROUP BY 1"
    for c in texts[:1]:
        yield f"SELECT COUNT(DISTINCT {_quoted(c.name)}) AS different FROM {name}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def constants(prepared: Iterable[AuditedPlan]) -> Mapping[Kind, list[object]]:
    """Returns the constants of plans by kind of type: values at which queries may tell rows apart."""
    found: dict[Kind, dict[object, None]] = {}
    for one in prepared:
        for aggregate in one.aggregates:
            for literal in _literals(aggregate):
                if literal.value is not None:
                    found.setdefault(literal.type.kind, {})[literal.value] = None
    return {kind: list(values) for kind, values in found.items()}


def _literals(node: object) -> Iterator[Literal]:
    if isinstance(node, Literal):
        yield node
    elif isinstance(node, tuple | list):
        for part in node:
            yield from _literals(part)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        for field in dataclasses.fields(node):
            yield from _literals(getattr(node, field.name))
