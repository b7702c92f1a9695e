"""What only the owner does to a ledger: change limits, and accept one that was restored. docs/proofs/ledger.md.

Each act is an entry of the chain. None lowers a total, and no limit falls below what was spent.
"""

from __future__ import annotations

from dpquery.errors import InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget, Units, from_units, limit_of, to_units
from dpquery.ledger import accounts, schema
from dpquery.ledger.mark import Level, MarkFile
from dpquery.ledger.replay import Terms, widest
from dpquery.ledger.schema import DATASET, NOTHING, PARTS, Mark
from dpquery.ledger.store import Connection
from dpquery.units.blocks import Axis

_SET = """UPDATE account SET limit_epsilon = :epsilon, limit_delta = :delta, limit_rho = :rho
    WHERE spent_epsilon <= :epsilon AND spent_delta <= :delta AND spent_rho <= :rho"""
_LOSE = "UPDATE account SET " + ", ".join(
    f"limit_{part} = CASE WHEN limit_{part} < spent_{part} + :{part} THEN spent_{part} + :{part} "
    f"ELSE limit_{part} END, spent_{part} = spent_{part} + :{part}"
    for part in PARTS
)


def set_limit(connection: Connection, terms: Terms, account: str, budget: Budget) -> Units:
    """Gives an account another limit, or opens one for an analyst; returns the limit as the ledger counts it.

    Raises InvalidLossError for a budget of another kind, below what was spent, or where analysts have no limits.
    """
    kind = terms.budgets[DATASET].kind
    if type(budget) is not Budget or budget.kind is not kind:
        raise InvalidLossError(f"the new limit must be a budget of the dataset's kind, {kind.value}")
    if account != DATASET and terms.is_open:
        advice = "Limits of analysts are declared when a ledger is created."
        raise InvalidLossError("any analyst may spend this ledger's budget, and none has a limit", advice=advice)
    units = to_units(limit_of(budget))
    if terms.axis is not None:
        _set_limits(connection, terms, account, units)
        return units
    values = dict(zip(PARTS, units, strict=True))
    row = connection.execute(schema.ACCOUNT, (account,)).fetchone()
    if row is None:
        row = (account, *units, *terms.lost)
        connection.execute(schema.OPEN_ACCOUNT, (account, *widest(units, terms.lost), *terms.lost))
    everybody = account == DATASET and terms.is_open
    statement = _SET if everybody else f"{_SET} AND name = :name"
    _, *limits = row
    changed = connection.execute(statement, values if everybody else {**values, "name": account}).rowcount
    if changed < 1 or any(spent > most for spent, most in zip(limits[3:], units, strict=True)):
        spent = from_units((limits[3], limits[4], limits[5]))
        raise InvalidLossError(f"the new limit of {from_units(units)} lies below what was spent, {spent}")
    return units


def _set_limits(connection: Connection, terms: Terms, account: str, units: Units) -> None:
    """Gives all accounts of an analyst, in the whole and in each block, another limit, or opens them."""
    names = [*accounts.family(account, terms.axis)]
    if connection.execute(schema.ACCOUNT, (account,)).fetchone() is None:
        for name in names:
            connection.execute(schema.OPEN_ACCOUNT, (name, *widest(units, terms.lost), *terms.lost))
    if account == DATASET and terms.is_open:
        names = [row[0] for row in connection.execute(schema.ACCOUNTS).fetchall() if row[0] != accounts.TOTAL]
    if not accounts.set_limits(connection, names, units):
        raise InvalidLossError(f"the new limit of {from_units(units)} lies below what was spent in some block")


def extend(connection: Connection, grown: Axis) -> None:
    """Opens the accounts of new blocks: each as a copy of the whole, which counts in every block."""
    for name, *amounts in connection.execute(schema.ACCOUNTS).fetchall():
        if accounts.is_whole(name):
            known = accounts.rows(connection, accounts.family(name, grown))
            for account in accounts.family(name, grown):
                if account not in known:
                    connection.execute(schema.OPEN_ACCOUNT, (account, *amounts))


def lost(connection: Connection, terms: Terms, marks: MarkFile, *, is_mark_lost: bool) -> Units:
    """Returns the most that a restored ledger may have lost, of each part.

    Claim:
        Every answer's charge is in this ledger's chain, or within what is returned (docs/proofs/ledger.md). Between the
        newest level of the mark and the newest that the chain still holds lie all charges that the mark saw and the
        chain may not hold. Without a mark, it is all that the dataset had left. With blocks, the levels are sums of all
        charges, whatever they touched, and the whole has at least as much left as any block.
    """
    if is_mark_lost and not marks.path.exists():
        row = connection.execute(schema.ACCOUNT, (DATASET,)).fetchone()
        return _minus(row[1:4], row[4:7])
    levels = marks.read(terms.identity)
    if schema.holds(connection, levels[0].mark):
        raise LedgerError("the ledger holds all that its mark remembers; there is nothing to accept")
    base = next(level for level in levels if schema.holds(connection, level.mark))
    return _minus(levels[0].spent, base.spent)


def lose(connection: Connection, units: Units) -> None:
    """Takes an amount from every account, for nobody knows whose it was; limits make room where they have to."""
    connection.execute(_LOSE, dict(zip(PARTS, units, strict=True)))


def kept(connection: Connection, terms: Terms, marks: MarkFile) -> list[Level]:
    """Returns what a mark goes on remembering when a ledger is accepted: the levels that the chain holds."""
    founding = Level(Mark(0, terms.identity), NOTHING)
    levels = marks.read(terms.identity) if marks.path.exists() else [founding]
    return [level for level in levels if schema.holds(connection, level.mark)]


def _minus(most: Units, less: Units) -> Units:
    epsilon, delta, rho = (max(0, one - other) for one, other in zip(most, less, strict=True))
    return epsilon, delta, rho
