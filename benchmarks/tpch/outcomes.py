"""What becomes of each query of TPC-H under the privacy unit customer, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """How a query ends."""

    ANSWERED = "answered"
    """With noise, in its standard text."""
    FREE = "exact and free"
    """It reads public tables alone."""
    SPARSE = "answered, and almost empty"
    """With noise, in its standard text; its groups are too small to be shown."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a query ends, and in a few words why; for a refusal, words that its message holds."""

    kind: Kind
    why: str
    message: str = ""


ANSWERED, FREE, SPARSE, REFUSED = Kind.ANSWERED, Kind.FREE, Kind.SPARSE, Kind.REFUSED

OUTCOMES = {
    "q01": Outcome(ANSWERED, "moments of four columns, shared by sums, averages and the count"),
    "q02": Outcome(FREE, "parts, suppliers and nations; a correlated minimum"),
    "q03": Outcome(REFUSED, "its rows are single orders, each of one customer", "rows of single privacy units"),
    "q04": Outcome(ANSWERED, "EXISTS along the ownership of line items"),
    "q05": Outcome(ANSWERED, "six tables; groups are the public nations"),
    "q06": Outcome(ANSWERED, "one sum"),
    "q07": Outcome(ANSWERED, "two nations by year; the groups that WHERE allows"),
    "q08": Outcome(ANSWERED, "a ratio of two sums"),
    "q09": Outcome(ANSWERED, "public costs beside private quantities"),
    "q10": Outcome(REFUSED, "its rows are single customers", "rows of single privacy units"),
    "q11": Outcome(FREE, "HAVING against a scalar subquery over public tables"),
    "q12": Outcome(ANSWERED, "two conditional sums"),
    "q13": Outcome(ANSWERED, "a histogram of orders per customer: LEFT JOIN on the unit, then a count per customer"),
    "q14": Outcome(ANSWERED, "a ratio of two sums"),
    "q15": Outcome(ANSWERED, "the common table is measured once, and the maximum taken of its noisy sums"),
    "q16": Outcome(FREE, "NOT IN a subquery; parts and suppliers alone"),
    "q17": Outcome(SPARSE, "two steps; almost no part has customers enough for its average to be shown"),
    "q18": Outcome(REFUSED, "its rows are single orders and customers", "rows of single privacy units"),
    "q19": Outcome(ANSWERED, "one sum under a disjunction of conditions"),
    "q20": Outcome(SPARSE, "sums by part and supplier: almost no pair has customers enough to be shown"),
    "q21": Outcome(ANSWERED, "EXISTS and NOT EXISTS between line items of one order"),
    "q22": Outcome(ANSWERED, "two steps: the average balance, then the customers above it"),
}
