"""Dashboard: queries that are bought together, with what is expected of each, alone and together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.accountant import charge_at_least
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.ledger import Ledger
from dpquery.plan.logical import Relation, Released, sources
from dpquery.result.batch import Batch
from dpquery.reuse.coordinates import is_of_vector
from dpquery.reuse.query_split import QuerySplit
from dpquery.reuse.vector_estimates import Vectors, VectorSource, stored
from dpquery.session.explain import released_by
from dpquery.session.options import Request
from dpquery.session.planning import PreparedQuery

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 60
"""Characters of a query that a printed table shows."""


@dataclass(frozen=True, slots=True)
class Number:
    """One noisy number of a tile: standard deviations of its noise, of the group that is least exact.

    Attributes:
        tile: The place of its query, from 1.
        alone: Where each query gets the same part of the loss and is answered by itself.
        together: Where all are bought at once.
        source: How it is known: measured, from others, or from what is stored.
    """

    tile: int
    query: str
    number: str
    alone: float
    together: float
    source: str


class Dashboard:
    """What queries would cost together and how exact they would be; nothing is charged before `buy`.

    Attributes:
        charge: What the ledger would count for all of them.
        numbers: What is expected of each noisy number.
        measured: What would be measured, a line each.
        alone: What the queries would cost one by one, where nothing is stored.
    """

    def __init__(
        self,
        numbers: Sequence[Number],
        measured: Sequence[str],
        charge: PrivacyLoss,
        alone: PrivacyLoss,
        buy: Callable[[], Batch],
    ) -> None:
        self.numbers, self.measured, self.charge, self.alone = tuple(numbers), tuple(measured), charge, alone
        self._buy = buy

    @staticmethod
    def of(
        requests: Sequence[Request],
        planned: Callable[[tuple[Request, ...], bool], Planned],
        ledger: Ledger,
        analyst: str,
        least: Fraction,
        buy: Callable[[], Batch],
    ) -> Dashboard:
        """Returns the plan of some queries.

        Args:
            planned: Plans queries that are measured at once; without what is stored, if that is said.
            least: What a fresh question costs at least, of an analyst's limit.
        """
        prepared, parts = planned(tuple(requests), requests[0].fresh)
        share = Fraction(1, len(requests))
        alone = [planned((one.of_part(share),), True)[1] for one in requests]
        limit, kind = ledger.budgets.get(analyst, ledger.budget), ledger.budget.kind
        whole, *each = (charge_at_least(one.charge(kind, ledger.declarations), limit, least) for one in (parts, *alone))
        by_itself = sum(each, PrivacyLoss())
        return Dashboard(_numbers(requests, prepared, parts, alone), _measured(parts), whole, by_itself, buy)

    def buy(self) -> Batch:
        """Returns the answers to all queries; they are charged at once. Afterwards each of them, filters on public keys
        and coarser groups are free, as far as they follow exactly enough from what was measured."""
        return self._buy()

    @property
    def table(self) -> pd.DataFrame:
        """The numbers: tile, query, number, alone, together, source."""
        import pandas as pd

        return pd.DataFrame(
            [[n.tile, n.query, n.number, n.alone, n.together, n.source] for n in self.numbers],
            columns=["tile", "query", "number", "alone", "together", "source"],
        )

    def __str__(self) -> str:
        rows = [("tile", "number", "alone", "together", "", "query")]
        for n in self.numbers:
            query = " ".join(n.query.split())
            shown = query if len(query) <= WIDTH else query[: WIDTH - 3] + "..."
            rows.append((str(n.tile), n.number, _figure(n.alone), _figure(n.together), n.source, shown))
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        lines = ["  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        charge = "Charge: nothing" if self.charge == PrivacyLoss() else f"Charge: {self.charge}"
        charge += f"; one by one {self.alone}" if self.charge.epsilon + self.charge.rho < self._noticeable else ""
        return "\n".join([*lines, "Measured", *(f"  {line}" for line in self.measured or ("nothing",)), charge])

    @property
    def _noticeable(self) -> Fraction:
        """What is clearly less than the queries cost one by one: loss that is split costs the same together."""
        return (self.alone.epsilon + self.alone.rho) * Fraction(99, 100)

    def __repr__(self) -> str:
        return str(self)


Planned = tuple[tuple[PreparedQuery, ...], QuerySplit]
"""Plans of queries that are measured at once, and what of them is stored."""


def charged_queries(ledger: Ledger, analyst: str) -> tuple[str, ...]:
    """Returns the different queries without parameters that were recorded for an analyst, oldest first."""
    texts = [one.query for one in ledger.entries() if one.analyst == analyst and "-- params:" not in one.query]
    return tuple(dict.fromkeys(each.strip() for text in texts for each in text.split(";\n") if each.strip()))


def _numbers(
    requests: Sequence[Request], prepared: Sequence[PreparedQuery], parts: QuerySplit, alone: Sequence[QuerySplit]
) -> list[Number]:
    deviations, found = expected_deviations(parts), list[Number]()
    for tile, (request, one, own) in enumerate(zip(requests, prepared, alone, strict=True), start=1):
        labels = {m.id: m.label for each in own.wanted for m in each.budgeted.aggregate.measures}
        by_itself = {labels[id]: value for id, value in expected_deviations(own).items()}
        for index in sorted(_read(one.private.result)):
            if index >= len(parts.wanted[: parts.read]):
                continue  # added up from a released one
            there = parts.found[index].estimates
            for measure, estimate in zip(parts.wanted[index].budgeted.aggregate.measures, there, strict=True):
                source = "stored" if estimate is not None else "measured"
                source = "from others" if estimate is None and measure.id in parts.follows else source
                known = by_itself.get(measure.label, math.nan)
                found.append(Number(tile, request.text, measure.label, known, deviations[measure.id], source))
    return found


def _measured(parts: QuerySplit) -> list[str]:
    return [
        f"{released_by(budgeted.aggregate)}: {', '.join(measure.label for measure in budgeted.aggregate.measures)}"
        for budgeted in parts.rest.aggregates
    ]


def _read(relation: Relation) -> set[int]:
    """Returns the numbers of the released tables that a result is computed from."""
    if isinstance(relation, Released):
        return {relation.index}
    return {index for source in sources(relation) for index in _read(source)}


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def expected_deviations(parts: QuerySplit) -> dict[str, float]:
    """Returns the standard deviation of the noise of each measure that queries read, by its id, in its own unit: of the
    group that is least exact; NaN of choices."""
    sources: dict[str, list[VectorSource]] = {}
    for one, rest in zip(parts.wanted, parts.missing, strict=True):
        measured = {m.id for m in rest.aggregate.measures} if rest is not None else set[str]()
        for place, measure in enumerate(one.budgeted.aggregate.measures):
            if one.asked is not None and measure.id in measured:
                text = one.asked.measures[place]
                if is_of_vector(one.asked.frame, text):
                    source = VectorSource(one.asked.frame, one.facts, text, one.noises[place], one.asked.equations)
                    sources.setdefault(one.asked.frame.base, []).append(source)
    vectors = {base: Vectors([*stored(parts.over[base]), *some]) for base, some in sources.items()}
    found = {}
    for one, there in zip(parts.wanted[: parts.read], parts.found, strict=False):
        for place, (measure, estimate) in enumerate(zip(one.budgeted.aggregate.measures, there.estimates, strict=True)):
            variance = estimate.variance if estimate is not None else None
            if one.asked is not None and one.asked.frame.base in vectors:
                made = vectors[one.asked.frame.base].variance(one.asked, one.facts, one.asked.measures[place])
                variance = variance if made is None else made
            if variance is None and one.noises[place].is_added:
                variance = variance_of(one.noises[place])
            is_number = one.noises[place].is_added and variance is not None
            found[measure.id] = math.sqrt(variance or 0.0) * float(measure.unit) if is_number else math.nan
    return found
