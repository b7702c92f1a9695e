"""Whether a catalog and a ledger say the same: the promise and the budgets are the ledger's."""

from __future__ import annotations

from dataclasses import replace

from dpquery.catalog import Catalog
from dpquery.errors import LedgerError
from dpquery.kernel.accountant import Budget, parts_of
from dpquery.ledger.amendments import agrees, differences
from dpquery.ledger.ledger import Ledger


def check_ledger(catalog: Catalog, ledger: Ledger) -> None:
    """The promise is the ledger's: a catalog that says otherwise is refused."""
    if not agrees(ledger.declarations, catalog.declarations) and ledger.mark:  # which reads it again
        _check_declarations(catalog, ledger)
    _check_budget("all analysts together", catalog.budget, ledger.budget)
    for analyst, declared in catalog.analysts.items():
        _check_budget(f"analyst {analyst}", declared, ledger.budgets.get(analyst))
    if missing := sorted(ledger.budgets.keys() - catalog.analysts.keys()):
        raise LedgerError(f"the ledger has budgets for analysts that the catalog does not name: {', '.join(missing)}")


def _check_declarations(catalog: Catalog, ledger: Ledger) -> None:
    declared, counts = catalog.declarations, ledger.declarations
    if agrees(counts, declared):
        return
    axes = [axis for axis in (declared.blocks, counts.blocks) if axis is not None]
    if len(axes) == 2 and agrees(counts, replace(declared, blocks=counts.blocks)):
        ends = [f"{axis.blocks[0]} to {axis.blocks[-2]}" for axis in axes]
        raise LedgerError(
            f"the catalog of {catalog.dataset} has blocks from {ends[0]}, but the ledger has blocks from "
            f"{ends[1]}, and the ledger decides: the owner adds blocks with dpquery ledger extend"
        )
    if not (changed := [*differences(counts, declared)]):
        raise LedgerError(
            f"the catalog of {catalog.dataset} declares tables, or keys of public tables, that the ledger does not "
            "know. The owner can add them under the same budget: dpquery ledger amend CATALOG --why TEXT"
        )
    raise LedgerError(
        f"the catalog of {catalog.dataset} is not the one that the ledger was created for: {'; '.join(changed)}. "
        "Restore the catalog. For other people, use another dataset with its own ledger"
    )


def _check_budget(who: str, declared: Budget, counts: Budget | None) -> None:
    """After the owner changed a limit in the ledger, the catalog has to say the same."""
    if counts is None:
        raise LedgerError(
            f"the catalog gives {who} a budget, but the ledger does not, and the ledger decides. The owner sets a "
            "limit with dpquery ledger limit LEDGER --analyst NAME, or removes the analyst from the catalog"
        )
    if declared != counts:
        raise LedgerError(
            f"the catalog's budget for {who} is {parts_of(declared)}, but the ledger's is {parts_of(counts)}, and "
            "the ledger decides: write that in the catalog, or have the owner change it with dpquery ledger limit"
        )
