"""Which declarations a ledger takes in place of its own, so that the same budget goes on. docs/proofs/ledger.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dpquery.errors import InvalidLossError
from dpquery.units.declarations import Declarations, TableDeclaration

ANEW = "A different promise needs a new ledger, and people about whom nothing was answered yet."


def amended(held: Declarations, said: Declarations) -> Declarations:
    """Returns a ledger's declarations with the tables of a catalog; those that the catalog leaves out stay known.

    Claim:
        Each sum of charges bounds what is lost under the new declarations as it did under the old ones: no unit is
        protected otherwise than when the charges were made, and no rows are anybody's whose rows they were not
        (docs/proofs/ledger.md).
        Neighbours: the same before and after.
    Raises:
        InvalidLossError: It would be another promise; the reason names each difference.
    """
    if problems := [*differences(held, said)]:
        raise InvalidLossError("; ".join(problems), advice=ANEW)
    return replace(held, tables={**held.tables, **said.tables})


def agrees(held: Declarations, said: Declarations) -> bool:
    """Whether a catalog says what a ledger says, of the tables that it has; a ledger may know more of them."""
    known = {name: table for name, table in held.tables.items() if name in said.tables}
    return replace(held, tables=known).fingerprint() == said.fingerprint()


def differences(held: Declarations, said: Declarations) -> Iterator[str]:
    """Yields what declarations change of the promise that a ledger was created for."""
    pairs = {
        "the dataset": (held.dataset, said.dataset),
        "the privacy unit": (held.privacy_unit, said.privacy_unit),
        "the neighbours": (held.neighbours.value, said.neighbours.value),
    }
    for what, (old, new) in pairs.items():
        if old != new:
            yield f"{what} was {old!r} and would be {new!r}"
    if held.blocks != said.blocks:
        yield "the blocks would change (the owner adds new ones with dpquery ledger extend)"
    for name in sorted(held.tables.keys() & said.tables.keys()):
        yield from _difference(held.tables[name], said.tables[name])


def _difference(held: TableDeclaration, said: TableDeclaration) -> Iterator[str]:
    if held.public is not said.public:
        old, new = ("public", "private") if held.public else ("private", "public")
        why = "earlier answers from its rows were not counted" if held.public else "its rows stay protected"
        yield f"table {held.name} was {old} and would be {new}: {why}"
    elif held.ownership != said.ownership:
        yield f"rows of table {held.name} would get another owner: the unit's column, its type, or the path to it"
    elif held.dated != said.dated:
        yield f"rows of table {held.name} would be in other blocks"
