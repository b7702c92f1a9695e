"""From histograms, just bought or found stored, to what is known of a table. Post-processing of noisy numbers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.catalog import Catalog
from dpquery.session.profile import SHARE, TableProfile
from dpquery.session.profile_ladder import Cell, Estimate, Ladder, Noise
from dpquery.session.profile_questions import OUTSIDE, Question, bound_of
from dpquery.units.declarations import Neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Noisy numbers of units, by the cell as its query names it."""

    units: Mapping[object, int]
    noise: Noise


def profile_of(catalog: Catalog, name: str, found: Sequence[tuple[Question, Histogram]]) -> TableProfile:
    """Returns what histograms of a table say, beside what its catalog says."""
    table, defaults, budget = catalog.tables[name], catalog.defaults, catalog.budget
    rows: Ladder | None = None
    months: tuple[tuple[str, Estimate], ...] = ()
    outside: dict[str, Mapping[str, Estimate]] = {}
    for question, histogram in found:
        if question.kind == "rows":
            rows = _ladder(question, histogram, catalog.neighbours)
        elif question.kind == "months":
            cells, half = _cells(question, histogram), histogram.noise.half_width(1)
            months = tuple((cell.name, _estimate(cell.units, half)) for cell in cells)
        else:
            outside[question.column] = values_of(histogram)
    is_said = defaults.epsilon is not None or defaults.rho is not None
    usual = (defaults.epsilon, defaults.rho) if is_said else (_part(budget.epsilon), _part(budget.rho))
    return TableProfile(
        name=name,
        max_rows=bound_of(table, catalog),
        rows=rows,
        months=months,
        outside=outside,
        epsilon=usual[0],
        rho=usual[1],
        is_assumed=not is_said,
        per_block="" if table.blocks is None else table.blocks.by.value,
    )


def values_of(histogram: Histogram) -> Mapping[str, Estimate]:
    """Returns how many units have values within, below, above, on both sides, or unreadable."""
    half = histogram.noise.half_width(1)
    return {kind: _estimate(histogram.units[kind], half) for kind in OUTSIDE if kind in histogram.units}


def _ladder(question: Question, histogram: Histogram, neighbours: Neighbours) -> Ladder:
    replaced = neighbours is Neighbours.REPLACE_ONE
    return Ladder(cells=tuple(_cells(question, histogram)), noise=histogram.noise, replaced=replaced)


def _cells(question: Question, histogram: Histogram) -> list[Cell]:
    return [Cell(low=low, high=high, units=histogram.units[i]) for i, (low, high) in enumerate(question.cells)]


def _estimate(units: int, half: int) -> Estimate:
    return Estimate(value=max(0, units), lower=max(0, units - half), upper=max(0, units) + half)


def _part(amount: Fraction) -> Fraction | None:
    return amount * SHARE if amount else None
