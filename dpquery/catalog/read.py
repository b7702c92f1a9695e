"""The tree of a whole catalog → its contents, or every mistake in it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from dpquery.catalog.blocks import check_axis, check_blocks
from dpquery.catalog.column_fields import require_owners_of_totals, require_short_owners, zone_of
from dpquery.catalog.min_units import check_few
from dpquery.catalog.names import fold, name_fault, shown
from dpquery.catalog.ownership import resolve_keys_from, resolve_ownership
from dpquery.catalog.read_table import TableDraft, distinct_names, read_table
from dpquery.catalog.rows import require_rows
from dpquery.catalog.strata import check_strata
from dpquery.catalog.tables import REFUSE, TEXTS_WITHOUT_KEYS, WORK, Defaults
from dpquery.catalog.tree import Node, TreeReading, Word
from dpquery.catalog.versions import require_version
from dpquery.errors import InvalidLossError
from dpquery.kernel.accountant import LEAST_SHARE, Budget, limit_of
from dpquery.kernel.loss import parse_amount, show_amount
from dpquery.plan.logical import ROW_LIMIT
from dpquery.units.declarations import Neighbours

REQUIRED = ("dataset", "privacy_unit", "budget", "tables")
OPTIONAL = ("neighbours", "analysts", "defaults", "work", "profile", "backend")
AMOUNTS = ("epsilon", "delta", "rho")
COUNTS = ("max_groups", "max_rows", "row_limit", "min_units")


def read_contents(root: Node, reading: TreeReading, *, is_file: bool) -> dict[str, object]:
    """Returns what the tree declares, by the fields of `Catalog`; raises CatalogError with all mistakes.

    Args:
        is_file: Whether it was written as YAML, which says its version.
    """
    fields = reading.fields(root, required=REQUIRED, optional=(*OPTIONAL, *(("version",) if is_file else ())))
    if is_file:
        require_version(root, fields.get("version"), reading)
    dataset = _read_name(fields["dataset"], reading) if "dataset" in fields else None
    unit = _read_privacy_unit(fields["privacy_unit"], reading) if "privacy_unit" in fields else None
    neighbours = _read_neighbours(fields["neighbours"], reading) if "neighbours" in fields else Neighbours.ADD_REMOVE
    budget = _read_budget(fields["budget"], reading) if "budget" in fields else None
    analysts = _read_analysts(fields["analysts"], budget, reading) if "analysts" in fields else {}
    defaults = _read_defaults(fields["defaults"], reading) if "defaults" in fields else Defaults()
    work = (reading.count(fields["work"]) or WORK) if "work" in fields else WORK
    profile = (_read_amounts(fields, reading, ("profile",)) or {}).get("profile")
    backend = _read_name(fields["backend"], reading) if "backend" in fields else None
    drafts: dict[str, TableDraft] = {}
    if "tables" in fields:
        if fields["tables"].content == {}:
            reading.refuse(fields["tables"], "declare at least one table")
        declared = distinct_names(reading.mapping(fields["tables"]), reading)
        drafts = {name: read_table(name, node, reading, defaults.zone) for name, node in declared.items()}
    owners = resolve_ownership(drafts, unit, reading)
    keys = resolve_keys_from(drafts, reading)
    in_blocks = {n: (d.blocks_node, d.blocks) for n, d in drafts.items() if d.blocks and d.blocks_node}
    by_path = [name for name, draft in drafts.items() if draft.unit and isinstance(draft.unit.content, Mapping)]
    require_short_owners(drafts, owners, reading)
    require_rows(drafts, owners, unit, fields.get("defaults"), reading)
    require_owners_of_totals(drafts, unit, reading)
    check_strata(drafts, owners, unit, reading)
    check_few(drafts, unit, defaults, fields.get("defaults"), reading)
    check_blocks(in_blocks, by_path, unit, neighbours, reading)
    reading.finish()
    assert dataset is not None
    assert unit is not None
    assert budget is not None
    assert neighbours is not None
    tables = {name: draft.table(owners.get(name), keys[name]) for name, draft in drafts.items()}
    check_axis(tables.values(), fields["tables"], reading)
    reading.finish()
    return {
        "dataset": dataset,
        "privacy_unit": unit,
        "neighbours": neighbours,
        "budget": budget,
        "analysts": MappingProxyType(analysts),
        "defaults": defaults,
        "tables": MappingProxyType(tables),
        "work": work,
        "profile": profile,
        "backend": backend,
    }


def _read_name(node: Node, reading: TreeReading) -> str | None:
    name = reading.text(node)
    if name is not None and (fault := name_fault(name)):
        reading.refuse(node, fault)
        return None
    return name


def _read_privacy_unit(node: Node, reading: TreeReading) -> str | None:
    name = _read_name(node, reading)
    if name is not None and name != "row" and fold(name) == "row":
        reading.refuse(
            node, f"write row if each row is a unit of its own, or a clearly different name; not {shown(name)}"
        )
        return None
    return name


def _read_neighbours(node: Node, reading: TreeReading) -> Neighbours | None:
    text = reading.text(node)
    kinds = [kind for kind in Neighbours if kind.value == text]
    if text is not None and not kinds:
        reading.refuse(node, f"{shown(text)} must be add_remove or replace_one")
    return kinds[0] if kinds else None


def _read_amounts(
    fields: Mapping[str, Node], reading: TreeReading, names: tuple[str, ...] = AMOUNTS, *, zero_delta: bool = False
) -> dict[str, Fraction] | None:
    """Returns the amounts among the fields; None after a mistake."""
    amounts: dict[str, Fraction] = {}
    given = [name for name in names if name in fields]
    for name in given:
        content = fields[name].content
        try:
            written = content.text if isinstance(content, Word) else content
            amounts[name] = parse_amount(written, name=name, allow_zero=zero_delta and name == "delta")
        except InvalidLossError as error:
            reading.refuse(fields[name], error.reason)
    return amounts if len(amounts) == len(given) else None


def _read_budget(node: Node, reading: TreeReading) -> Budget | None:
    before = len(reading.problems)
    amounts = _read_amounts(reading.fields(node, optional=AMOUNTS), reading, zero_delta=True)
    if amounts is None or len(reading.problems) > before or reading.is_broken(node):
        return None
    try:
        budget = Budget.of(**amounts)
        limit_of(budget)  # refuses what is too small to be counted
        return budget
    except InvalidLossError as error:
        reading.refuse(node, f"{error.reason} {error.advice}".rstrip())
        return None


def _read_analysts(node: Node, total: Budget | None, reading: TreeReading) -> dict[str, Budget]:
    analysts: dict[str, Budget] = {}
    for name, inner in reading.mapping(node).items():
        if fault := name_fault(name):
            reading.refuse(inner, fault)
        budget = _read_budget(inner, reading)
        if budget is None or total is None:
            continue
        if budget.kind is not total.kind:
            named = [part for part in AMOUNTS if getattr(total, part)]
            reading.refuse(inner, f"uses other parameters than the budget of the dataset; write {' and '.join(named)}")
            continue
        analysts[name] = budget
        for part in AMOUNTS:
            own, whole = getattr(budget, part) or Fraction(0), getattr(total, part) or Fraction(0)
            if own > whole:
                own_text, whole_text = show_amount(own), show_amount(whole)
                reading.refuse(inner, f"{part} {own_text} exceeds the {whole_text} of the whole dataset")
    return analysts


WORDS = ("zone", "texts_without_keys")
"""Fields of `defaults` that are no numbers."""


def _read_defaults(node: Node, reading: TreeReading) -> Defaults:
    fields = reading.fields(node, optional=(*AMOUNTS, *COUNTS, "least_charge", *WORDS))
    amounts = _read_amounts(fields, reading, (*AMOUNTS, "least_charge")) or {}
    least = amounts.get("least_charge", LEAST_SHARE)
    if least > 1:
        reading.refuse(fields["least_charge"], "is a share of a limit, so it is at most 1")
    counts = {name: reading.count(fields[name]) for name in COUNTS if name in fields}
    return Defaults(
        epsilon=amounts.get("epsilon"),
        rho=amounts.get("rho"),
        delta=amounts.get("delta"),
        max_groups=counts.get("max_groups"),
        max_rows=counts.get("max_rows"),
        row_limit=counts.get("row_limit") or ROW_LIMIT,
        least_charge=least,
        zone=zone_of(fields["zone"], reading) if "zone" in fields else "",
        texts_without_keys=_read_texts(fields["texts_without_keys"], reading)
        if "texts_without_keys" in fields
        else REFUSE,
        min_units=counts.get("min_units"),
    )


def _read_texts(node: Node, reading: TreeReading) -> str:
    """Returns what MIN and MAX of texts without keys give."""
    said = reading.text(node)
    if said is not None and said not in TEXTS_WITHOUT_KEYS:
        reading.refuse(node, f"expected one of {', '.join(TEXTS_WITHOUT_KEYS)}")
    return said or REFUSE
