"""What a ledger says: its entries as JSON lines or Parquet and summed by query, and its accounts."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dpquery.errors import InvalidLossError

if TYPE_CHECKING:
    from dpquery.kernel.loss import PrivacyLoss
    from dpquery.ledger.ledger import Entry, Ledger

PARTS = ("epsilon", "delta", "rho")
SUFFIXES = (".jsonl", ".parquet")


def export_ledger(ledger: Ledger, path: str | os.PathLike[str]) -> int:
    """Writes all entries of a ledger to a new file, `.jsonl` or `.parquet`; returns how many.

    Amounts stand there twice: as exact decimal texts, and as the nearest float. The queries are whole, in the clear.

    Example:
        >>> export_ledger(ledger, folder / "entries.jsonl") == len(ledger.entries())
        True
    """
    target = Path(path)
    if target.suffix not in SUFFIXES:
        raise InvalidLossError(f"{target.name} is neither .jsonl nor .parquet")
    records = [flat(entry) for entry in ledger.entries()]
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if target.suffix == ".jsonl":
            file.writelines(json.dumps(one, ensure_ascii=True).encode() + b"\n" for one in records)
        else:
            import pyarrow
            import pyarrow.parquet

            exact = (f"{part}_exact" for part in PARTS)
            texts = ["time", "kind", "analyst", *exact, "state", "query", "blocks", "by", "why", "hash"]
            fields = [("number", pyarrow.int64()), *((name, pyarrow.string()) for name in texts)]
            fields += [(part, pyarrow.float64()) for part in PARTS]
            table = pyarrow.Table.from_pylist(records, schema=pyarrow.schema(fields))
            pyarrow.parquet.write_table(table, file)
    return len(records)


def flat(entry: Entry) -> dict[str, object]:
    """Returns one entry as a row."""
    row: dict[str, object] = {"number": entry.seq, "time": entry.time, "kind": entry.kind.value}
    row |= {"analyst": entry.analyst}
    row |= {part: float(getattr(entry.loss, part)) for part in PARTS}
    row |= {f"{part}_exact": _decimal(getattr(entry.loss, part)) for part in PARTS}
    row |= {"state": entry.state.value, "query": entry.query, "blocks": entry.blocks}
    return row | {"by": entry.by, "why": entry.why, "hash": entry.hash}


def record(entry: Entry) -> dict[str, object]:
    """Returns one entry for `ledger show --json`."""
    made: dict[str, object] = {"number": entry.seq, "time": entry.time, "kind": entry.kind.value}
    made |= {"analyst": entry.analyst, "charge": {part: float(getattr(entry.loss, part)) for part in PARTS}}
    made |= {"state": entry.state.value, "query": entry.query} | ({"blocks": entry.blocks} if entry.blocks else {})
    return made | ({"by": entry.by, "why": entry.why} if entry.by else {})


def told(entry: Entry) -> str:
    """Returns what an entry is about: its query, or what the owner did and why."""
    acts = {"limit": "new limit", "data": "new data", "blocks": "new blocks", "amend": "new tables"}
    acts |= {"restore": "restored ledger accepted"}
    act = acts.get(entry.kind.value)
    return entry.query if act is None else f"{act}, by {entry.by}: {entry.why}"


def totals_of(entries: Iterable[Entry]) -> list[dict[str, object]]:
    """Returns how often each analyst asked each query and what it was charged in all, the dearest first."""
    from dpquery.kernel.accountant import compose

    grouped: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.kind.value == "charge":
            grouped[entry.analyst, entry.query].append(entry)
    rows = []
    for (analyst, query), charged in grouped.items():
        loss = compose(entry.loss for entry in charged)
        order = (loss.epsilon, loss.rho, loss.delta)
        charge = {part: float(getattr(loss, part)) for part in PARTS}
        rows.append(
            (order, {"analyst": analyst, "times": len(charged), "charge": charge, "shown": str(loss), "query": query})
        )
    return [row for _, row in sorted(rows, key=lambda pair: pair[0], reverse=True)]


def _decimal(amount: Fraction) -> str:
    """Returns an amount of the ledger, which is whole in units of 1e-18, without exponent or loss."""
    whole, rest = divmod(amount.numerator * 10**18 // amount.denominator, 10**18)
    return f"{whole}.{rest:018d}".rstrip("0").rstrip(".")


# Accounts.

SHOWN = ("epsilon", "rho", "delta")
Account = tuple[str | None, "PrivacyLoss", "PrivacyLoss", "PrivacyLoss"]
"""a name, None for the dataset; limit, spent, left"""


def analysts_of(ledger: Ledger, named: Iterable[str] = ()) -> list[str]:
    """Returns the analysts who have a limit, are named by the catalog, or were charged, each once."""
    charged = [entry.analyst for entry in ledger.entries() if entry.analyst]
    return list(dict.fromkeys([*ledger.budgets, *named, *charged]))


def accounts_of(ledger: Ledger, analysts: Iterable[str]) -> Iterator[Account]:
    """Yields limit, spent and left of the dataset, under the name None, and of each analyst."""
    from dpquery.kernel.loss import PrivacyLoss

    limit, spent = ledger.limit(None), ledger.spent(None)
    left = PrivacyLoss(
        epsilon=limit.epsilon - spent.epsilon, delta=limit.delta - spent.delta, rho=limit.rho - spent.rho
    )
    yield None, limit, spent, left
    for analyst in analysts:
        yield analyst, ledger.limit(analyst), ledger.spent(analyst), ledger.remaining(analyst)
