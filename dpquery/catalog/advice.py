"""Advice to the owner: declarations that are allowed, and yet may protect less or answer worse than intended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.catalog.identifiers import on_linking
from dpquery.catalog.names import shown
from dpquery.catalog.tables import DEFAULT_SHARE_OF_DELTA, ColumnDeclaration, Table
from dpquery.kernel.accountant import BudgetKind, limit_of
from dpquery.kernel.loss import ZERO, PrivacyLoss, pure_to_zcdp, rho_within, show_amount

if TYPE_CHECKING:
    from dpquery.catalog.model import Catalog

LARGE = {"epsilon": Fraction(10), "rho": Fraction(1), "delta": Fraction(1, 100_000)}
MEANINGS = {
    "epsilon": "odds about one unit may change by the factor e^epsilon",
    "rho": "at delta 1e-6 this is an epsilon of 8 and more",
    "delta": "with this probability the promise may fail altogether",
}
SMALL_UNITS = re.compile(
    r"(device|transaction|order|session|visit|event|invoice|payment|trip|message|cookie|ip|imei|mac"
    r"|household|row|record)"
    r"(_?(id|no|nr|num|number|key|uuid|address|addr))?"
)


def advice(catalog: Catalog) -> tuple[str, ...]:
    """Returns the warnings, one sentence or two each, in the order of the catalog."""
    found = [*_on_budget(catalog)]
    if all(table.public for table in catalog.tables.values()):
        found.append("No table is private: nothing is protected, and no query is charged.")
    if catalog.privacy_unit == "row":
        found += on_linking([*catalog.tables.values()])
    for table in catalog.tables.values():
        if not table.public:
            found += _on_unit(table)
        for column in table.columns.values():
            found += _on_column(table, column)
    return tuple(found)


def _on_budget(catalog: Catalog) -> Iterator[str]:
    for part, limit in LARGE.items():
        amount = getattr(catalog.budget, part) or Fraction(0)
        if amount > limit:
            yield f"budget: {part} {show_amount(amount)} is above {show_amount(limit)}: {MEANINGS[part]}."
        default = getattr(catalog.defaults, part)
        if default is None:
            continue
        if amount and default > amount:
            yield f"defaults: {part} {show_amount(default)} exceeds the whole budget; such a query is refused."
        if not amount and (part != "epsilon" and catalog.budget.kind is BudgetKind.PURE):
            yield f"defaults: the budget has no {part}, so a query that needs {part} is refused."
    yield from _on_analysts(catalog)


def _on_analysts(catalog: Catalog) -> Iterator[str]:
    """Yields who can ask nothing at the price that holds where a query says none."""
    price, cost = _default_price(catalog)
    most = pure_to_zcdp(price.epsilon) if catalog.budget.kind is BudgetKind.APPROXIMATE else Fraction(0)
    for name, own in catalog.analysts.items():
        limit = limit_of(own)
        if cost.epsilon <= limit.epsilon and cost.rho <= limit.rho < most:
            yield (
                f"analysts.{name}: the default price of {price} costs rho {show_amount(most)} with Laplace noise, as "
                f"counts have it: the limit is {limit}. Give {shown(name)} more, or make the default smaller."
            )
        if cost.epsilon > limit.epsilon or cost.rho > limit.rho:
            means = "" if str(price) == str(cost) else f", which costs {cost}"
            yield (
                f"analysts.{name}: no query is answered at the default price of {price}{means}: the limit is {limit}. "
                f"Give {shown(name)} more, or make the default smaller."
            )


def _default_price(catalog: Catalog) -> tuple[PrivacyLoss, PrivacyLoss]:
    """Returns what a query asks where it says nothing, and the least that the ledger may count for it."""
    defaults, kind = catalog.defaults, catalog.budget.kind
    if kind is BudgetKind.PURE or defaults.rho is not None or defaults.epsilon is None:
        rho = Fraction(0) if kind is BudgetKind.PURE else defaults.rho or Fraction(0)
        price = PrivacyLoss(rho=rho) if rho else PrivacyLoss(epsilon=defaults.epsilon or Fraction(0))
        return price, price if rho or kind is BudgetKind.PURE else ZERO
    price = PrivacyLoss(epsilon=defaults.epsilon)
    if kind is BudgetKind.ZCDP:  # such a query is refused anyway
        return price, ZERO
    delta = catalog.budget.delta * DEFAULT_SHARE_OF_DELTA if defaults.delta is None else defaults.delta
    ways = [rho for rho in (rho_within(defaults.epsilon, delta), defaults.epsilon**2 / 2) if rho]
    return price, PrivacyLoss(rho=min(ways))


def _on_unit(table: Table) -> Iterator[str]:
    if table.ownership is not None and table.ownership.is_stored:
        name = table.ownership.column
        if SMALL_UNITS.fullmatch(name.lower()):
            yield (
                f"tables.{table.name}.unit: {shown(name)} does not look like a person. If one person can have "
                "several of them, the person is not protected."
            )
        if table.columns[name].keys is not None:
            yield f"tables.{table.name}.columns.{name}.keys: public keys of a privacy unit reveal who is in the data."


def _on_column(table: Table, column: ColumnDeclaration) -> Iterator[str]:
    place = f"tables.{table.name}.columns.{column.name}"
    if column.lower is not None and column.lower == column.upper:
        yield f"{place}: lower equals upper, so every value becomes {column.lower}."
    alike: dict[str, str] = {}
    for key in column.keys or ():
        if isinstance(key, str):
            other = alike.setdefault(key.strip().casefold(), key)
            if other != key:
                yield f"{place}.keys: {shown(other)} and {shown(key)} differ only in blanks or case; both are keys."
