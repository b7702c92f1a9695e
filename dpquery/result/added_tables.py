"""Tables added up from the groups of released ones: exact sums of noisy integers, hence consistent with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, assert_never

from numpy.typing import NDArray

from dpquery.accuracy.noise_shapes import shape_of
from dpquery.accuracy.simulated import Shared
from dpquery.errors import InternalError
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Count, Mechanism, PrivateAggregate
from dpquery.kernel.release import NoisyTable
from dpquery.kernel.selection import all_codes
from dpquery.plan.axes import cells, most_summed, summed
from dpquery.result.inverse_variance import CombinedNoise, in_finer_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseOfSum:
    """The noise of a sum of `count` numbers with independent noises of one law, each rounded where it is finer."""

    noise: NoiseLaw
    count: int

    def half_width(self, failure: Fraction) -> int:
        """Returns a w with P(|noise| > w) <= failure, in lattice steps."""
        if self.count == 1:
            return self.noise.half_width(failure)
        fine, steps = in_finer_steps(self.noise), self.noise.steps
        width = _half_width(fine.mechanism, fine.parameter, self.count, failure)
        if steps == 1:
            return width
        return -(-(2 * (width + self.count) + self.count * steps) // (2 * steps))  # as of `NoiseLaw`, of each number


LINEAR = (Count.ROWS, Count.VALUES, Count.SUM)
"""What adds up over rows with their weights."""

AnyNoise = NoiseLaw | NoiseOfSum | CombinedNoise
"""The noise of a number that is shown: it has a half-width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTable:
    """A table computed from released ones; attributes as of a `NoisyTable`.

    Attributes:
        repeats: Whether its noise may be in another table of the same query too.
        noises_of: The noises of a table that is added up from this one's groups, where these may depend on each other;
            None where each has noise of its own.
        shared: The noise that measures of a table have together, for some places of them, of this one or of one that is
            added up from it; None where it is not known.
        direct: For a measure's place the noise of a release with a number of its own for each group, among those from
            which all groups are estimated by least squares; None where there is none.
        ranks: How many ranks each choice is off at most but with a probability, and 0 for each number; None where there
            are no choices.
    """

    aggregate: PrivateAggregate
    keys: tuple[NDArray[Any], ...]
    numbers: tuple[NDArray[Any], ...]
    noises: tuple[AnyNoise, ...]
    repeats: bool = True
    direct: Callable[[int], NoiseLaw | None] = lambda _: None
    ranks: Callable[[Fraction], Sequence[float]] | None = None
    noises_of: Callable[[PrivateAggregate], Sequence[AnyNoise] | None] = lambda _: None
    shared: Callable[[PrivateAggregate, Sequence[int]], Shared | None] = lambda *_: None


def with_added(
    tables: Sequence[NoisyTable | AddedTable], added: Sequence[tuple[int, PrivateAggregate]]
) -> tuple[NoisyTable | AddedTable, ...]:
    """Returns the released tables, then those added up: each is (number of the released table, what it gives)."""
    return (*tables, *(add_up(tables[leaf], aggregate) for leaf, aggregate in added))


def add_up(leaf: NoisyTable | AddedTable, aggregate: PrivateAggregate) -> AddedTable:
    """Returns the sums of a released table's noisy groups over what the keys of `aggregate` leave out.

    Its keys are public, and all groups are there, in the order of their domains. Where some groups add up more of the
    table's than others, the noise of all is that of the one that adds up most.
    """
    groups, rest = leaf.aggregate.public_groups, aggregate.public_groups
    if groups is None or rest is None or any(len(numbers) != groups for numbers in leaf.numbers):
        raise InternalError("only public groups can be added up")
    places = cells(leaf.aggregate.keys, aggregate.keys)
    if places is None or (len(places) and places.min() < 0):
        raise InternalError("groups are added up into a table that has no place for them")
    count = most_summed(places)
    known = leaf.noises_of(aggregate) if isinstance(leaf, AddedTable) else None
    return AddedTable(
        aggregate=aggregate,
        keys=all_codes(aggregate.keys, rest),
        numbers=tuple(summed(numbers, places, rest) for numbers in leaf.numbers),
        noises=tuple(known or (of_sum(noise, max(1, count)) for noise in leaf.noises)),
        shared=leaf.shared if isinstance(leaf, AddedTable) else lambda *_: None,
    )


def of_sum(noise: AnyNoise, count: int) -> AnyNoise:
    """Returns the noise of the sum of `count` numbers with independent noises of this law."""
    match noise:
        case NoiseLaw():
            return NoiseOfSum(noise=noise, count=count)
        case NoiseOfSum():
            return NoiseOfSum(noise=noise.noise, count=noise.count * count)
        case CombinedNoise():
            more = tuple(replace(part, count=part.count * count) for part in noise.components)
            return CombinedNoise(components=more, rounded=noise.rounded * count)
        case _:
            assert_never(noise)


@lru_cache(maxsize=1024)
def _half_width(mechanism: Mechanism, parameter: Fraction, count: int, failure: Fraction) -> int:
    return shape_of(mechanism).half_width_of_sum(parameter, count, failure)
