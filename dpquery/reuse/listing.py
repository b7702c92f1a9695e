"""What is stored, as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dpquery.ledger.ledger import Ledger
from dpquery.reuse.releases import Release

COLUMNS = ("release", "time", "analyst", "groups", "columns", "query", "charge")


def listing(ledger: Ledger, releases: Sequence[Release]) -> pd.DataFrame:
    """Returns one row for each stored table: the ledger's entry that paid for it, when and for whom, by which keys it
    is grouped, what was measured, the query as it was asked, and what that query was charged, for all its tables."""
    entries = {entry.seq: entry for entry in ledger.entries()} if releases else {}
    rows = [
        (
            release.entry,
            release.time,
            release.analyst,
            ", ".join(release.names[0]),
            ", ".join(release.names[1]),
            entries[release.entry].query,
            str(entries[release.entry].loss),
        )
        for release in releases
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))
