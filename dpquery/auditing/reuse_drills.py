"""Drills of the store: what is free, what is charged again, and whether what is shown is as accurate as it says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pandas as pd

from dpquery.auditing.drills import BY_KIND, COUNT, place, table

if TYPE_CHECKING:
    from dpquery.result.table import Result

CONFIDENCE = "0.9999999"
"""So that no interval of a correct engine misses the truth in any audit."""
BIG = {"budget": {"epsilon": 100_000}, "analysts": {}, "defaults": {"least_charge": "1e-9", "max_groups": 2}}
SEQUENCES: tuple[tuple[str, ...], ...] = (
    (BY_KIND, COUNT, "SELECT SUM(value) AS s FROM visits", BY_KIND),
    (
        "SELECT kind, size, COUNT(*) AS n FROM visits GROUP BY ALL",
        "SELECT size, COUNT(*) AS n FROM visits GROUP BY size",
        "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind",
        "SELECT size, COUNT(*) AS n FROM visits WHERE kind = 'a' GROUP BY size",
        COUNT,
    ),
    (
        "SELECT tag, COUNT(*) AS n, SUM(value) AS s FROM visits WHERE tag IS NOT NULL GROUP BY tag",
        COUNT,
        "SELECT COUNT(*) AS n, SUM(value) AS s FROM visits WHERE size = 's'",
        "SELECT tag, COUNT(*) AS n FROM visits WHERE size = 's' AND tag IS NOT NULL GROUP BY tag",
        "SELECT COUNT(*) AS n FROM visits WHERE tag IS NULL",
    ),
    (
        "SELECT AVG(value) AS m FROM visits",
        "SELECT SUM(value) AS s, COUNT(*) AS n FROM visits",
        "SELECT SUM(value + 1) AS s FROM visits",
        "SELECT SUM(value - 5) AS s FROM visits WHERE kind = 'a'",
        "SELECT SUM(value) AS s FROM visits WHERE kind = 'a'",
    ),
    (
        COUNT,
        "SELECT COUNT(*) AS n FROM visits WHERE value > 5",
        "SELECT COUNT(*) FILTER (WHERE value > 7) AS n FROM visits",
        "SELECT COUNT(*) FILTER (WHERE value <= 7) AS n FROM visits",
        "SELECT size, COUNT(*) AS n FROM visits WHERE value > 5 GROUP BY size",
        COUNT,
    ),
    (
        "SELECT kind, COUNT(DISTINCT person) AS n FROM visits WHERE kind IN ('a', 'b') GROUP BY kind",
        "SELECT COUNT(DISTINCT person) AS n FROM visits",
        "SELECT size, COUNT(DISTINCT person) AS n FROM visits GROUP BY size",
    ),
    (
        "SELECT kind, COUNT(*) AS n FROM visits WHERE kind IN ('a', 'b') GROUP BY kind",
        "SELECT COUNT(*) AS n FROM visits",
        "SELECT kind, COUNT(*) AS n FROM visits WHERE size = 's' GROUP BY kind",
        "SELECT COUNT(*) AS n FROM visits WHERE size = 's'",
    ),
)


def the_same_again_is_free(folder: Path) -> str:
    """The same question again is free, and has the same answer."""
    with place(folder) as one:
        session = one.session(reuse=True)
        first, entries = session.sql(BY_KIND, epsilon=1).to_pandas(), len(one.ledger.entries())
        again = session.sql(BY_KIND, epsilon=1)
        if len(one.ledger.entries()) != entries:
            return "the same question was charged twice"
        return "" if first.equals(again.to_pandas()) else "the same question was measured again, and not charged"


def more_accuracy_is_charged(folder: Path) -> str:
    """A stored answer does not stand in for a more accurate one, and its interval tells how accurate it is."""
    with place(folder) as one:
        session = one.session(reuse=True)
        coarse = _half_width(session.sql(COUNT, epsilon="0.1"))
        finer = session.sql(COUNT, epsilon="4")
        if len(one.ledger.entries()) != 2:
            return "a more accurate answer was given from a stored one"
        if not finer.charge.epsilon >= 4:
            return f"epsilon 4 was asked for, and {finer.charge} was charged"
        if not _half_width(finer) < coarse / 5:
            return "the interval of a more accurate answer is as wide as before"
        session.sql("SELECT kind, size, SUM(value) AS n FROM visits GROUP BY kind, size", epsilon="0.1")
        session.sql("SELECT SUM(value) AS n FROM visits", epsilon="0.1")
        return "" if len(one.ledger.entries()) == 4 else "the noise of many parts stands in for that of their total"


def _half_width(answer: Result) -> float:
    low, high = (float(answer.accuracy[("n", end)].iloc[0]) for end in ("lower", "upper"))
    return (high - low) / 2


def new_data_are_asked_anew(folder: Path) -> str:
    """Answers that are stored for older data are not given for new data."""
    with place(folder) as one:
        one.session(reuse=True).sql(COUNT, epsilon=1)
        one.ledger.new_data_version(by="audit", why="drill")
        before = len(one.ledger.entries())
        one.session(reuse=True).sql(COUNT, epsilon=1)
        return "" if len(one.ledger.entries()) == before + 1 else "an answer over older data was given"


def other_bounds_are_other_answers(folder: Path) -> str:
    """A bound of the query's own is another question."""
    with place(folder) as one:
        session = one.session(reuse=True)
        session.sql(COUNT, epsilon=1)
        session.sql(COUNT, epsilon=1, max_rows=1)
        return "" if len(one.ledger.entries()) == 2 else "an answer under other bounds was given"


def another_process_reads_the_store(folder: Path) -> str:
    """What is stored is stored durably, and only with a charge behind it."""
    with place(folder) as one:
        first = one.session(reuse=True).sql(COUNT, epsilon=1).to_pandas()
        one.ledger.close()
        again = one.session("bob", reuse=True).sql(COUNT, epsilon=1)
        if len(one.ledger.entries()) != 1:
            return "a stored answer was lost"
        return "" if first.equals(again.to_pandas()) else "an answer was measured again, and not charged"


def shown_numbers_hold_their_intervals(folder: Path) -> str:
    """What is shown of stored and new releases together is as near to the truth as its interval says."""
    for number, sequence in enumerate(SEQUENCES):
        for times in range(2):
            problem = _sequence(folder / f"{number} {times}", sequence, times)
            if problem:
                return problem
    return ""


def _sequence(folder: Path, sequence: Sequence[str], times: int) -> str:
    with place(folder, **BIG) as one, duckdb.connect() as plain:
        plain.register("visits", table())
        session = one.session("ann", reuse=True)
        for index, text in enumerate(sequence):
            answer = session.sql(text, epsilon=1 if (index + times) % 2 else 4, confidence=CONFIDENCE)
            exact = plain.execute(text).df()
            missed = _missed(answer, exact)
            if missed:
                return f"{text}: {missed}"
            charged = sum(entry.loss.epsilon for entry in one.ledger.entries())
            if charged < one.ledger.spent(None).epsilon:
                return "the account holds less than the entries"
    return ""


def _missed(answer: Result, exact: pd.DataFrame) -> str:
    """Returns which shown number is not within its interval of the truth; "" where all are."""
    shown, accuracy = answer.to_pandas(), answer.accuracy
    noisy = [*dict.fromkeys(accuracy.columns.get_level_values(0))]
    keys = [name for name in shown.columns if name not in noisy]
    known = {tuple(row[keys]): row for _, row in exact.iterrows()}
    for place_of, (_, row) in enumerate(shown.iterrows()):
        truth = known.get(tuple(row[keys]))
        for name in noisy:
            value = 0.0 if truth is None or pd.isna(truth[name]) else float(truth[name])
            low, high = (float(accuracy[(name, end)].iloc[place_of]) for end in ("lower", "upper"))
            if not low - 1 <= value <= high + 1:
                return f"{name} is said to be within {low:g} and {high:g}, and is {value:g}"
    return ""


REUSE_DRILLS = (
    the_same_again_is_free,
    more_accuracy_is_charged,
    new_data_are_asked_anew,
    other_bounds_are_other_answers,
    another_process_reads_the_store,
    shown_numbers_hold_their_intervals,
)
