"""Black box: the worst pair that the gray box met, told apart by the noisy numbers that the gate releases of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpquery.auditing.black_box import DELTA
from dpquery.auditing.chances import Floats, empirical_epsilon
from dpquery.auditing.databases import ANALYST, AuditedDatabase, Hall, for_simulation
from dpquery.auditing.gray_box import Seen
from dpquery.auditing.inputs import AuditedPlan, Groups
from dpquery.auditing.laws import score
from dpquery.auditing.report import ReportLine
from dpquery.catalog import Catalog
from dpquery.kernel.loss import zcdp_to_approximate
from dpquery.kernel.release import NoisyAggregates, release
from dpquery.kernel.work import Allowed

MOST_QUERIES = 3
Sources = Mapping[str, pa.Table]


def worst_pairs(catalog: Catalog, seen: Sequence[Seen], folder: Path, answers: int) -> list[ReportLine]:
    """Returns a line for each of the queries that lost most of their charge on some pair, all of whose groups are
    public: an epsilon that as many noisy answers on both databases betray."""
    tried = sorted((one for one in seen if one.worst is not None), key=lambda one: -one.lost)
    found: list[ReportLine] = []
    for one in tried:
        if len(found) == MOST_QUERIES or not answers:
            break
        line = _attacked(for_simulation(catalog), one, folder, answers)
        found += [] if line is None else [line]
    return found


def _attacked(catalog: Catalog, one: Seen, folder: Path, answers: int) -> ReportLine | None:
    prepared = one.plan
    assert one.worst is not None and prepared is not None
    hall = Hall(catalog, folder)
    sides = [hall.open(sources) for sources in one.worst[1:]]
    try:
        if any(aggregate.is_selected for aggregate in prepared.aggregates):
            return None
        if not any(law.is_added for law in prepared.noises):
            return None
        exact = [side.inputs(prepared, 0) for side in sides]
        scores = [
            np.array([_score(prepared, exact, _released(side, prepared)) for _ in range(answers)]) for side in sides
        ]
    finally:
        for side in sides:
            side.backend.close()
        hall.ledger.close()
    return _line(one, prepared, scores)


def _line(one: Seen, prepared: AuditedPlan, scores: Sequence[Floats]) -> ReportLine:
    told = prepared.plan.guarantee
    delta = 0.0 if told.epsilon else DELTA
    most = float(told.epsilon or zcdp_to_approximate(told.rho, _exact(DELTA)))
    found = empirical_epsilon(scores[0], scores[1], delta)
    problem = f"answers betray an epsilon of {found:.3f}, and {most:.3f} is charged" if found > most else ""
    note = f"delta {DELTA:g}" if delta else ""
    figures = {"epsilon seen": found, "epsilon charged": most}
    return ReportLine(name=one.name, figures=figures, problem=problem, note=note)


def _exact(amount: float) -> Fraction:
    return Fraction(str(amount))


def _released(side: AuditedDatabase, prepared: AuditedPlan) -> NoisyAggregates:
    catalog, backend = side.hall.catalog, side.backend
    return release(
        prepared.budgeted,
        engine=backend,
        allowed=Allowed(steps=catalog.work, sizes=backend),
        ledger=side.hall.ledger,
        analyst=ANALYST,
        query="audit",
        least=catalog.defaults.least_charge,
    )


def _score(prepared: AuditedPlan, exact: Sequence[Sequence[Groups]], noisy: NoisyAggregates) -> float:
    """Returns how much likelier an answer is on the first database than on the second, by the laws that are told: the
    logarithm of the quotient, which is the best attacker's score."""
    laws, found = iter(prepared.noises), 0.0
    for table, here, there in zip(noisy.tables, *exact, strict=True):
        groups = list(zip(*(column.tolist() for column in table.keys), strict=True)) if table.keys else [()]
        for i, measure in enumerate(table.aggregate.measures):
            law, steps = next(laws), table.aggregate.steps(measure)
            if not law.is_added:
                continue
            zeros = (0,) * len(table.aggregate.measures)
            a, b = (np.array([int(side.get(group, zeros)[i]) / steps for group in groups]) for side in (here, there))
            found += score(law, table.numbers[i].astype(np.float64), a, b)
    return found
