"""The rounds of a synopsis, and the rows that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from dpquery.plan.types import INT64, TEXT
from dpquery.synopsis.axes import SynopsisAxis
from dpquery.synopsis.making import Transcript, draw, measure
from dpquery.synopsis.model import Integers, Marginal, _change, nonnegative
from dpquery.synopsis.rounds import MarginalQuestion

AXES = (
    SynopsisAxis(name="a", type=TEXT, values=("x", "y", "z")),
    SynopsisAxis(name="b", type=INT64, values=(0, 1, 2, 3)),
    SynopsisAxis(name="c", type=INT64, edges=(0, 5, 10, 15, 20)),
    SynopsisAxis(name="d", type=TEXT, values=("u", "v")),
)
ROWS = 2_000


def data(seed: int) -> Integers:
    """Rows in cells: b follows a, d follows a and b together, c nothing."""
    random = np.random.default_rng(seed)
    a = random.choice(3, ROWS, p=[0.5, 0.3, 0.2])
    b = np.where(random.random(ROWS) < 0.7, a, random.choice(4, ROWS))
    d = np.where(random.random(ROWS) < 0.9, (a + b) % 2, random.choice(2, ROWS))
    return np.stack([a, b, random.choice(4, ROWS), d], axis=1)


class Asked:
    """Measures rows with Gaussian noise of a whole loss rho, and remembers what was asked."""

    def __init__(self, rows: Integers, rho: float, seed: int, told: Transcript | None = None) -> None:
        self.rows, self.rho, self.random = rows, rho, np.random.default_rng(seed)
        self.questions, self.shares = list[tuple[object, ...]](), Fraction(0)
        self._told = [] if told is None else [*told.first, *told.later]

    def __call__(
        self, questions: Sequence[MarginalQuestion], axes: Sequence[SynopsisAxis], share: Fraction
    ) -> list[Marginal]:
        self.shares += share
        found = []
        for one in questions:
            edges = [axes[i].edges for i in one.columns]
            self.questions.append((one.columns, [groups.tolist() for groups in one.groups], edges))
            if self._told:
                found.append(self._told.pop(0))
                continue
            size = int(np.prod([groups.max() + 1 for groups in one.groups]))
            deviation, empty = (len(questions) / (2 * self.rho * float(share))) ** 0.5, np.zeros(size)
            made = Marginal(columns=one.columns, groups=one.groups, numbers=empty, variances=empty + deviation**2)
            exact = np.bincount(made.places(self._cells(axes)), minlength=size)
            noisy = np.round(exact + self.random.normal(size=size) * deviation)
            found.append(
                Marginal(columns=one.columns, groups=one.groups, numbers=noisy, variances=empty + deviation**2)
            )
        return found

    def _cells(self, axes: Sequence[SynopsisAxis]) -> Integers:
        """Returns the rows in the cells of later axes, whose ranges may be merged."""
        columns = []
        for i, axis in enumerate(axes):
            if axis.edges:
                starts = np.array([float(AXES[i].edges[cell]) for cell in self.rows[:, i]])
                edges = np.array([float(edge) for edge in axis.edges[1:-1]])  # type: ignore[arg-type]
                columns.append(np.searchsorted(edges, starts, side="right"))
            else:
                columns.append(self.rows[:, i])
        return np.stack(columns, axis=1)


def error(cells: Integers, rows: Integers, columns: tuple[int, ...]) -> float:
    """Returns how large a part of the rows is in other cells."""
    shape = [4] * len(columns)
    both = [
        np.bincount(np.ravel_multi_index(tuple(one[:, list(columns)].T), shape), minlength=4 ** len(columns)) / len(one)
        for one in (cells, rows)
    ]
    return float(np.abs(both[0] - both[1]).sum())


def test_rows_have_the_marginals_that_were_measured() -> None:
    rows = data(0)
    _, cells = draw(measure(AXES, Asked(rows, 50.0, 0), False), rows=ROWS)
    for columns in ((0,), (0, 1), (1, 3), (2, 3), (0, 1, 3)):
        assert error(cells, rows, columns) < 0.05, columns


def test_triples_are_asked_of_columns_that_depend_on_each_other_alone() -> None:
    asked = Asked(data(1), 5.0, 1)
    measure(AXES, asked, False)
    triples = {columns for columns, *_ in asked.questions if len(columns) == 3}  # type: ignore[arg-type]
    assert triples == {(0, 1, 3)}


@pytest.mark.parametrize("rho", [1e-5, 0.01, 1.0])
@pytest.mark.parametrize("is_pure", [False, True])
def test_shares_add_up_to_the_whole_loss_at_most(rho: float, is_pure: bool) -> None:
    for axes in (AXES, AXES[:1], AXES[:2]):
        asked = Asked(data(2)[:, : len(axes)], rho, 2)
        measure(axes, asked, is_pure)
        assert 0 < asked.shares <= 1


@pytest.mark.parametrize("rho", [0.001, 0.05, 5.0])
def test_what_is_asked_follows_from_what_was_released_and_from_nothing_else(rho: float) -> None:
    """Of neighbours, or of any two tables, the rounds ask the same where they were told the same: the whole choice is
    replayed from its transcript."""
    rows = data(3)
    asked = Asked(rows, rho, 3)
    told = measure(AXES, asked, False)
    for other in (np.delete(rows, 17, axis=0), data(4), np.zeros_like(rows)):
        again = Asked(other, rho, 99, told)
        replayed = measure(AXES, again, False)
        assert again.questions == asked.questions and again.shares == asked.shares
        assert [one.columns for one in replayed.later] == [one.columns for one in told.later]
    first, second = (draw(one, rows=100)[0] for one in (told, replayed))
    assert first.equals(second)


def test_the_soft_equation_of_a_cell_is_solved() -> None:
    random = np.random.default_rng(5)
    found, theta = random.gamma(0.5, 200, 500), random.normal(0, 2, 500)
    numbers, variances = random.normal(50, 200, 500), 10.0 ** random.uniform(-3, 6, 500)
    one = Marginal(columns=(0,), groups=(np.arange(500),), numbers=numbers, variances=variances)
    d = _change(found, theta, one, 0.1)
    inside = np.abs(d) < 29
    left, right = found * np.exp(d), numbers - 0.1 * variances * (theta + d)
    assert inside.mean() > 0.5
    assert np.allclose(left[inside], right[inside], rtol=1e-6, atol=1e-4 * (1 + variances[inside]))


def test_numbers_are_moved_to_the_nearest_that_are_not_negative() -> None:
    assert nonnegative(np.array([5.0, -1.0, 2.0])).tolist() == [4.5, 0.0, 1.5]
    assert nonnegative(np.array([-5.0, -7.0])).sum() == pytest.approx(1.0)
