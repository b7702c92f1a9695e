"""Synopses in the ledger: what their stored rounds lost together, from their noise, beside what was charged."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from dpquery.auditing.laws import told_loss
from dpquery.auditing.report import ReportLine
from dpquery.backends.base import Backend
from dpquery.catalog import Catalog
from dpquery.kernel.plan import Mechanism
from dpquery.ledger.entries import Entry
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.versions import AtVersion
from dpquery.reuse.store import ReleaseStore
from dpquery.reuse.text import Fingerprints
from dpquery.session.synopsis_buying import Buying
from dpquery.synopsis.rounds import MarginalQuestion
from dpquery.synopsis.stored_synopses import read
from dpquery.synopsis.synopsis import Synopsis

ROUNDING = 1e-9
"""The part of a loss by which a sum in floating point may be off."""


def synopses(
    catalog: Catalog, ledger: Ledger, versions: Iterable[str], entries: Iterable[Entry], public: Backend
) -> dict[int, ReportLine]:
    """Returns a line for each charge whose synopsis is stored, by its number: what the noise of its rounds lost.

    Those whose table the catalog declares otherwise today are left out.

    Args:
        versions: Of the data.
        public: Knows the public tables; no private row is read.
    """
    store, fingerprints, found = ReleaseStore(ledger), Fingerprints(catalog), dict[int, Synopsis]()
    buying = {
        one: Buying(catalog=catalog, backend=public, charged=AtVersion(ledger, one), analyst="") for one in versions
    }

    def is_current(table: str, fingerprint: str) -> bool:
        return table in catalog.tables and fingerprints.of_tables(frozenset([table])) == fingerprint

    for version, one in buying.items():
        found |= {made.entry: made for made in read(store, version, is_current, one.axes).values()}
    return {
        entry.seq: _line(entry, _lost(found[entry.seq], buying[found[entry.seq].data_version]))
        for entry in entries
        if entry.seq in found
    }


def _line(entry: Entry, lost: float) -> ReportLine:
    charged = float(entry.loss.epsilon or entry.loss.rho)
    problem = f"its noise loses {lost:.9g}, more than {charged:.9g}" if lost > charged * (1 + ROUNDING) else ""
    return ReportLine(
        name=f"{entry.seq}: {entry.query}", figures={"charged": charged, "computed": lost}, problem=problem
    )


def _lost(made: Synopsis, buying: Buying) -> float:
    """Returns what all rounds lost, in epsilon of Laplace noise and in rho of Gaussian."""
    rounds = ((made.transcript.first, made.transcript.asked), (made.transcript.later, made.transcript.axes))
    lost = list[float]()
    for marginals, axes in rounds:
        for one in marginals:
            question = MarginalQuestion(columns=one.columns, groups=one.groups)
            told = buying.measurement(question, made.table, axes, made.charge)
            lost.append(told_loss(replace(told, scale=_scale(told.mechanism, float(one.variances[0])))))
    return math.fsum(lost)


def _scale(mechanism: str, variance: float) -> float:
    """Returns the scale of whole-numbered Laplace noise, or the deviation of Gaussian noise, of this variance."""
    if mechanism == Mechanism.GAUSSIAN.value:
        return math.sqrt(variance)
    return 0.5 / math.asinh(math.sqrt(0.5 / variance))
