"""Black box: noise as it is drawn, and how well worst pairs can be told apart, over a small built-in dataset.

Cells are public groups in which the same pair is repeated with other people, so that one query makes many independent
answers. What scales and losses ought to be is worked out by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpquery.auditing.chances import (
    FAILURE,
    Floats,
    allowed_gap,
    clopper_pearson,
    empirical_epsilon,
    epsilon_of,
    largest_gap,
)
from dpquery.auditing.databases import AuditedDatabase, Hall
from dpquery.auditing.laws import tail
from dpquery.auditing.report import ReportLine, Section
from dpquery.catalog import Catalog
from dpquery.kernel.loss import zcdp_to_approximate
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.session.options import Options

CELLS = 4000
MAX_ROWS, HIGH = 3, 4
DELTA = 1e-5
"""At which the epsilon of Gaussian noise is told."""
Rows = list[tuple[int, int, float]]
METHOD = (
    "The engine answers queries over a small dataset of its own, thousands of times. Where there are no rows an answer "
    "is noise alone: its distribution has to be the one that the charge demands. For two datasets that differ in one "
    "person, half of the answers choose the event that tells them apart best, and the other half bounds from below "
    f"which epsilon that betrays (Clopper and Pearson; each bound is wrong once in {1 / FAILURE:,.0f} audits). "
    "More than the charge would be a leak."
)


def catalog_of(budget: dict[str, object], neighbours: str = "add_remove") -> Catalog:
    """Returns the built-in catalog."""
    columns = {
        "person": {"type": "int64"},
        "cell": {"type": "int64", "keys": list(range(CELLS))},
        "value": {"type": "float64", "lower": -1, "upper": HIGH},
        "kind": {"type": "int64", "keys": [0, 1]},
        "note": {"type": "text"},
    }
    tables = {"visits": {"unit": "person", "max_rows": MAX_ROWS, "columns": columns}}
    defaults = {"least_charge": "1e-12"}
    return Catalog(
        dataset="built-in",
        privacy_unit="person",
        neighbours=neighbours,
        budget=budget,
        tables=tables,
        defaults=defaults,
    )


def table_of(rows: Rows) -> dict[str, pa.Table]:
    """Returns visits of (person, cell, value); notes name the person and the cell."""
    return {
        "visits": pa.table(
            {
                "person": pa.array([row[0] for row in rows], pa.int64()),
                "cell": pa.array([row[1] for row in rows], pa.int64()),
                "value": pa.array([row[2] for row in rows], pa.float64()),
                "kind": pa.array([1] * len(rows), pa.int64()),
                "note": pa.array([f"{row[0]} {row[1]}" for row in rows], pa.string()),
            }
        )
    }


COUNT = "SELECT cell, COUNT(*) AS x FROM visits GROUP BY cell"
SUM = "SELECT cell, SUM(value) AS x FROM visits GROUP BY cell"
BOTH = "SELECT cell, COUNT(*) AS x, SUM(value) AS y FROM visits GROUP BY cell"
MODE = "SELECT cell, MODE(kind) AS x FROM visits GROUP BY cell"


def heavy() -> Rows:
    """One person in each cell, with more rows than weigh in full, far above the bound."""
    return [(cell, cell, value) for cell in range(CELLS) for value in (math.inf, 1e308, 4.0, 17.5) * 2]


def halves() -> Rows:
    """One person in two cells, with as many rows in each."""
    return [(cell // 2, cell, 1.0) for cell in range(CELLS) for _ in range(4)]


def others(first: int) -> Rows:
    """One person in every other cell, far above the bound."""
    return [(cell, cell, math.inf) for cell in range(first, CELLS, 2) for _ in range(MAX_ROWS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinguishingAttack:
    """Two datasets, a query, and the number in which they are told apart."""

    name: str
    text: str
    here: Rows
    there: Rows
    score: Callable[[Floats], Floats]
    neighbours: str = "add_remove"
    rho: float | None = None


def _each(numbers: Floats) -> Floats:
    return numbers.ravel()


def _both(numbers: Floats) -> Floats:
    return np.minimum(numbers[:, 0::2], numbers[:, 1::2]).ravel()


def _one_and_other(numbers: Floats) -> Floats:
    return (numbers[:, 0::2] - numbers[:, 1::2]).ravel()


EPSILON, RHO = math.log(3), 0.05
ATTACKS = (
    DistinguishingAttack(name="COUNT, a person with too many rows", text=COUNT, here=heavy(), there=[], score=_each),
    DistinguishingAttack(name="SUM, values beyond the bound", text=SUM, here=heavy(), there=[], score=_each),
    DistinguishingAttack(name="COUNT and SUM of one vector", text=BOTH, here=heavy(), there=[], score=_each),
    DistinguishingAttack(name="COUNT, a person in two groups", text=COUNT, here=halves(), there=[], score=_both),
    DistinguishingAttack(name="MODE, one person alone", text=MODE, here=heavy(), there=[], score=_each),
    DistinguishingAttack(
        name="SUM, a person replaced",
        text=SUM,
        here=others(0),
        there=others(1),
        score=_one_and_other,
        neighbours="replace_one",
    ),
    DistinguishingAttack(name="SUM with Gaussian noise", text=SUM, here=heavy(), there=[], score=_each, rho=RHO),
)


def drawn(folder: Path, queries: int) -> Section:
    """Returns the section, of so many answers of thousands of cells for each line."""
    lines = [*_laws(folder, queries), *(_attacked(attack, folder, queries) for attack in ATTACKS)]
    lines += [*_lone(folder, queries), _at_the_threshold(folder, queries)]
    return Section(
        name="black box",
        title="Is the noise what the charge demands, and how well can one person be seen through it?",
        method=METHOD,
        done=f"{queries * CELLS:,} noisy numbers for each of {len(lines)} lines, over the built-in dataset.",
        lines=tuple(lines),
    )


def _options(attack: DistinguishingAttack | None, rho: float | None = None) -> Options:
    rho = attack.rho if attack is not None else rho
    return Options(epsilon=str(EPSILON)) if rho is None else Options(rho=str(rho))


def _budget(rho: float | None) -> dict[str, object]:
    return {"epsilon": 1_000_000} if rho is None else {"rho": 1_000_000, "delta": "1e-6"}


def _sampled(database: AuditedDatabase, text: str, options: Options, queries: int) -> dict[str, Floats]:
    """Returns the numbers by column, shape (queries, cells)."""
    answers = [database.answer(text, options).to_arrow() for _ in range(queries)]
    return {
        name: np.array([np.array(answer[name].to_pylist(), dtype=np.float64) for answer in answers])
        for name in answers[0].column_names[1:]
    }


def _attacked(attack: DistinguishingAttack, folder: Path, queries: int) -> ReportLine:
    hall = Hall(catalog_of(_budget(attack.rho), attack.neighbours), folder)
    scores = []
    for rows in (attack.here, attack.there):
        database = hall.open(table_of(rows))
        scores.append(attack.score(_sampled(database, attack.text, _options(attack), queries)["x"]))
        database.backend.close()
    hall.ledger.close()
    delta = 0.0 if attack.rho is None else DELTA
    found = empirical_epsilon(scores[0], scores[1], delta)
    most = EPSILON if attack.rho is None else float(zcdp_to_approximate(_exactly(attack.rho), _exactly(DELTA)))
    problem = f"answers betray an epsilon of {found:.3f}, and {most:.3f} is charged" if found > most else ""
    note = f"delta {DELTA:g}" if delta else ""
    return ReportLine(
        name=attack.name, figures={"epsilon seen": found, "epsilon charged": most}, problem=problem, note=note
    )


def _exactly(amount: float) -> Fraction:
    return Fraction(str(amount))


def _laws(folder: Path, queries: int) -> Iterator[ReportLine]:
    """Yields what noise alone is like, in cells without rows."""
    for rho in (None, RHO):
        hall = Hall(catalog_of(_budget(rho)), folder)
        database = hall.open(table_of([]))
        for text, moved, step in ((COUNT, MAX_ROWS, 1.0), (SUM, MAX_ROWS * HIGH, None)):
            name = f"{'Laplace' if rho is None else 'Gaussian'} noise of {'a count' if text == COUNT else 'a sum'}"
            numbers = _sampled(database, text, _options(None, rho), queries)["x"]
            scale = moved / EPSILON if rho is None else moved / math.sqrt(2 * rho)
            yield _law(name, numbers, scale, step, is_laplace=rho is None)
        yield _apart(database, queries, rho)
        database.backend.close()
        hall.ledger.close()


def _law(name: str, numbers: Floats, scale: float, step: float | None, *, is_laplace: bool) -> ReportLine:
    """Returns how far numbers are from a law of this scale, rounded to whole steps or finer than can be seen."""
    shift = 0.5 if step else 0.0

    def below(k: Floats) -> Floats:
        z = (k + shift) / scale
        if is_laplace:
            return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))
        return np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in z])

    samples = numbers.ravel()
    gap = largest_gap(samples, below) if step else _gap_of_fine(samples, below)
    most = allowed_gap(samples.size)
    problem = f"its distribution is {gap:.4f} from that of scale {scale:.4g}; at most {most:.4f} is chance"
    repeated = len(numbers) > 1 and bool((numbers[0] == numbers[1]).all())
    if repeated:
        return ReportLine(name=name, problem="two answers have the same noise")
    return ReportLine(name=name, figures={"gap": gap, "gap by chance": most}, problem=problem if gap > most else "")


def _gap_of_fine(samples: Floats, below: Callable[[Floats], Floats]) -> float:
    ordered = np.sort(samples)
    law, places = below(ordered), np.arange(1, ordered.size + 1) / ordered.size
    return float(max(np.abs(places - law).max(), np.abs(places - 1 / ordered.size - law).max()))


def _apart(database: AuditedDatabase, queries: int, rho: float | None) -> ReportLine:
    """Returns whether two numbers of one answer, and neighbouring cells, have noise of their own."""
    both = _sampled(
        database,
        "SELECT cell, SUM(value) AS x, COUNT(DISTINCT person) AS y FROM visits GROUP BY cell",
        _options(None, rho),
        queries,
    )
    x, y = both["x"].ravel(), both["y"].ravel()
    pairs = {"two columns": (x, y), "neighbouring cells": (x[:-1], x[1:])}
    most = 6 / math.sqrt(x.size)
    found = {
        name: abs(float(np.corrcoef(a, b)[0, 1])) if a.std() and b.std() else 1.0 for name, (a, b) in pairs.items()
    }
    worst = max(found, key=lambda name: found[name])
    problem = f"noise of {worst} is correlated by {found[worst]:.3f}; at most {most:.3f} is chance"
    name = f"{'Laplace' if rho is None else 'Gaussian'} noise of different numbers"
    return ReportLine(
        name=name,
        figures={"correlation": found[worst], "by chance": most},
        problem=problem if found[worst] > most else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lone:
    """People who alone make so many groups each, and what a query asks that selects groups."""

    groups: int
    budget: dict[str, object]
    loss: dict[str, str]
    delta: float | None = None
    shows: str = "COUNT(DISTINCT person)"
    """What is shown: where it is not the number of people, groups may be selected in rounds."""


LONE = (
    Lone(groups=1, budget={"rho": 1_000_000, "delta": "9/10"}, loss={"rho": "2"}),
    Lone(groups=4, budget={"rho": 1_000_000, "delta": "9/10"}, loss={"rho": "0.5"}, delta=0.05),
    Lone(groups=4, budget={"rho": 1_000_000, "delta": "9/10"}, loss={"rho": "0.5"}, delta=0.05, shows="COUNT(*)"),
    Lone(groups=1, budget={"epsilon": 1_000_000, "delta": "9/10"}, loss={"epsilon": "1"}, delta=0.05),
    Lone(groups=4, budget={"epsilon": 1_000_000, "delta": "9/10"}, loss={"epsilon": "4"}, delta=0.05),
)


def _lone(folder: Path, queries: int) -> Iterator[ReportLine]:
    """Yields how often a group is shown that exists through one person alone."""
    for case in LONE:
        text = f"SELECT note, {case.shows} AS n FROM visits GROUP BY note"
        hall = Hall(catalog_of(case.budget), folder)
        database = hall.open(table_of([(cell // case.groups, cell, 1.0) for cell in range(CELLS)]))
        options = Options(**case.loss, delta="1/100", max_groups=case.groups)  # type: ignore[arg-type]
        delta = case.delta or _just_above(database.prepare(text, options).noises[-1])
        shown = 0
        for _ in range(queries):
            notes = database.answer(text, options.but(delta=str(delta))).to_arrow()["note"].to_pylist()
            shown += len({note.split()[0] for note in notes})
        trials = queries * CELLS // case.groups
        low = clopper_pearson(shown, trials)[0]
        asked = ", ".join(f"{name} {amount}" for name, amount in case.loss.items())
        yield ReportLine(
            name=f"groups that one person alone makes, {case.groups} for each ({case.shows}, {asked})",
            figures={"shown": shown / trials, "delta": delta},
            problem=f"shown at least {low:.4%} of the time, where delta is {delta:.4%}" if low > delta else "",
        )
        database.backend.close()
        hall.ledger.close()


def _just_above(law: NoiseLaw) -> float:
    """Returns a delta that the chance of some tau nearly reaches, so that a tau lower by one is seen."""
    least = next(k for k in range(1, 1000) if tail(law, k) < 0.02)
    return max(1e-4, round(tail(law, least) * 1.001, 12))


def _at_the_threshold(folder: Path, queries: int) -> ReportLine:
    """Returns how well the presence of a group tells apart whether it has one person more, at tau."""
    text, groups = "SELECT note, COUNT(DISTINCT person) AS n FROM named GROUP BY note", CELLS // 4
    options = Options(epsilon=str(EPSILON), delta="1/40", max_groups=1)
    hall = Hall(_named_catalog(), folder)
    empty = hall.open(_groups_of(1, 1))
    least = max(made.tau or 1 for made in empty.prepare(text, options).plan.measurements)
    empty.backend.close()
    shown = []
    for people in (least, least - 1):
        database = hall.open(_groups_of(people, groups))
        hits = sum(database.answer(text, options).to_arrow().num_rows for _ in range(queries))
        shown.append(np.arange(queries * groups) < hits)
        database.backend.close()
    hall.ledger.close()
    found = max(epsilon_of(*pair) for pair in (shown, shown[::-1], [~one for one in shown], [~shown[1], ~shown[0]]))
    problem = f"their presence betrays an epsilon of {found:.3f}, and {EPSILON:.3f} is charged"
    return ReportLine(
        name="groups as large as the threshold, one person more or less",
        figures={"epsilon seen": found, "epsilon charged": EPSILON},
        problem=problem if found > EPSILON else "",
    )


def _named_catalog() -> Catalog:
    columns = {"person": {"type": "int64"}, "note": {"type": "text"}}
    return Catalog(
        dataset="built-in",
        privacy_unit="person",
        budget={"epsilon": 1_000_000, "delta": "9/10"},
        tables={"named": {"unit": "person", "max_rows": 1, "columns": columns}},
        defaults={"least_charge": "1e-12"},
    )


def _groups_of(people: int, groups: int) -> dict[str, pa.Table]:
    """Returns so many groups of so many people each."""
    person = np.arange(people * groups)
    return {"named": pa.table({"person": person, "note": [f"g{one % groups}" for one in person]})}
