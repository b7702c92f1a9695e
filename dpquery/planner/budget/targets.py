"""Accuracy asked for instead of a loss: the least loss with which the intervals are as narrow as that.

Numbers whose interval is as wide for all data can have a target: counts, sums, and sums of these with constant
factors. The error of an average, or of a ratio to a number of rows, depends on how many rows there are, which is
private: it can have a target together with a number of rows that the analyst assumes. Nothing but the charge depends on
that number. A quantile, a minimum or a maximum has a target in ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpquery.accuracy.counting import Halved, is_count
from dpquery.accuracy.error_propagation import Factors, factors_of, is_rounding
from dpquery.accuracy.noise_shapes import shape_of
from dpquery.accuracy.ratios import Bounds, Mean, mean_of, quotient_of
from dpquery.errors import InvalidLossError, UnsupportedQueryError
from dpquery.kernel.accountant import Budget, BudgetKind
from dpquery.kernel.mechanisms import calibrate
from dpquery.kernel.noise_laws import LAWS
from dpquery.kernel.plan import CHOICES, BudgetedPlan, Count, Measure, Noise, PrivateAggregate
from dpquery.kernel.sensitivity import finer_steps, sensitivity
from dpquery.plan.expr import Cast, Column
from dpquery.planner.budget.aims import Aim, check_names
from dpquery.planner.budget.allocate import QueryBudget, deviation_of, noise_of, plan_of, selection_delta
from dpquery.planner.budget.rank_targets import choices_for
from dpquery.units.declarations import Neighbours

DIGITS = 5
"""Losses are solved for to so many digits, rounded up."""

Pair = tuple[PrivateAggregate, Measure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """What a query asks to know how well.

    Attributes:
        errors: The largest half-width of a cell's interval, in the unit of the column: for each column named, or one
            for all.
        failure: With which probability the interval of a cell may not hold.
        rows: For averages and ratios, how many rows each group is assumed to have at least, by column.
        simultaneous: Whether it is the probability that the interval of any cell of the answer may not hold.
    """

    errors: Mapping[str, Fraction] | Fraction
    failure: Fraction
    rows: Mapping[str, Fraction] = field(default_factory=dict)
    simultaneous: bool = False


def allocate_for(
    aggregates: tuple[PrivateAggregate, ...],
    aims: Sequence[Aim],
    accuracy: Accuracy,
    offer: QueryBudget,
    *,
    budget: Budget,
    neighbours: Neighbours,
) -> BudgetedPlan:
    """Returns the plan of the least charge that keeps every target.

    Each measure loses as little as its narrowest target allows, by the mechanism that the ledger counts least for. A
    number computed from k measures with factors a_i gives each a k-th of its failure, as intervals do, and of its
    half-width the part that makes the sum of losses least: in proportion to (a_i s_i)^(1/2) where shares are of
    epsilon, to (a_i s_i)^(2/3) where they are of rho; s_i is the noise of one unit of loss.
    Measures without a target lose as much as those that have one do on average.

    Args:
        offer: Its delta alone counts, for selections.
    Raises:
        UnsupportedQueryError: A column that cannot have a target.
        InvalidLossError: A target for what is not a noisy column, or one too small to be kept.
    """
    pairs = {measure.id: (aggregate, measure) for aggregate in aggregates for measure in aggregate.measures}
    pure = budget.kind is BudgetKind.PURE
    numbers = noisy_numbers(aggregates) if accuracy.simultaneous else None
    wanted = _wanted(
        aims, accuracy, pairs, lambda id: deviation_of(*pairs[id], neighbours, in_epsilon=pure), pure, numbers
    )
    noises: dict[str, Noise] = {}
    for aggregate in aggregates:
        own = {m.id: wanted[m.id] for m in aggregate.measures if m.id in wanted and m.count in CHOICES}
        noises |= choices_for(aggregate, own, neighbours, pure=pure)
    noises |= {id: _least(pairs[id], neighbours, n, pure=pure) for id, n in wanted.items() if id not in noises}
    mean = sum((_price(noise, pure) for noise in noises.values()), Fraction(0)) / max(1, len(noises))
    selections = sum(aggregate.is_selected for aggregate in aggregates)
    without = QueryBudget(delta=offer.delta) if pure else QueryBudget(delta=offer.delta, rho=Fraction(1))
    delta = selection_delta(without, budget, selections)
    made = [noises.get(id) or noise_of(measure, mean, in_epsilon=pure) for id, (_, measure) in pairs.items()]
    return plan_of(aggregates, made, delta)


def half_width_of(
    aim: Aim,
    half_width: Callable[[str, int], Fraction | None],
    rows: Fraction | None = None,
    pairs: Mapping[str, Pair] | None = None,
) -> Fraction | None:
    """Returns the half-width of a number's interval where it does not depend on the data, or None.

    Args:
        half_width: (measure, number of measures that share the failure) to the half-width of the measure's interval.
        rows: How many rows each group is assumed to have at least; averages and ratios have a half-width then.
        pairs: The measures, by id.
    """
    if rows is not None and (mean := _mean(aim, pairs or {})) is not None:
        read = mean.measures
        widths = {id: half_width(id, len(read)) for id in read}
        known = {id: width for id, width in widths.items() if width is not None}
        return mean.half_width(known, rows) if len(known) == len(read) else None
    made = aim.expression
    if isinstance(made, Cast) and is_rounding(made):  # it is rounded to be shown
        found = half_width_of(replace(aim, expression=made.argument), half_width, rows, pairs)
        return None if found is None else found + Fraction(1, 2 * 10**made.type.scale)
    factors = factors_of(aim.expression, lambda id: half_width(id, 1) is not None) if aim.is_itself else None
    if not factors:
        return None
    return sum((abs(factor) * (half_width(id, len(factors)) or 0) for id, factor in factors.items()), Fraction(0))


def _wanted(
    aims: Sequence[Aim],
    accuracy: Accuracy,
    pairs: Mapping[str, Pair],
    deviation: Callable[[str], float],
    pure: bool,
    numbers: int | None,
) -> dict[str, list[tuple[Fraction, Fraction]]]:
    """Returns for each measure with a target (half-width, failure) of each of its targets; of a choice in ranks.

    Args:
        numbers: How many noisy numbers share the failure; None where those of each cell do.
    """
    errors = accuracy.errors
    if not isinstance(errors, Fraction):
        check_names(errors, {aim.name for aim in aims}, "target")
    if not aims:
        raise InvalidLossError("the answer has no noisy column, so error= has no effect", advice="Leave error= out.")
    found: dict[str, list[tuple[Fraction, Fraction]]] = {}
    for aim in aims:
        error = errors if isinstance(errors, Fraction) else errors.get(aim.name)
        if error is None:
            continue
        choice = choice_of(aim, pairs)
        if choice is not None:
            found.setdefault(choice, []).append((error, accuracy.failure / (numbers or 1)))
            continue
        factors = _factors_of(aim, error, accuracy.rows.get(aim.name), pairs)
        if not factors or any(pairs[id][1].count in CHOICES for id in factors):
            raise _no_target(aim, pairs)
        parts = {id: (abs(factor) * deviation(id)) ** (1 / 2 if pure else 2 / 3) for id, factor in factors.items()}
        for id, part in _fractions(parts).items():
            found.setdefault(id, []).append(
                (error * part / abs(factors[id]), accuracy.failure / (numbers or len(factors)))
            )
    if not found:
        raise InvalidLossError("no column has a target", advice="Write error=100, or error={'column': 100}.")
    return found


def _factors_of(
    aim: Aim, error: Fraction, rows: Fraction | None, pairs: Mapping[str, Pair]
) -> dict[str, Fraction] | None:
    """Returns with which factors the half-widths of measures add up to that of a number, or None."""
    if not aim.is_itself:
        return None
    mean = _mean(aim, pairs)
    if mean is None:
        return factors_of(aim.expression, lambda id: id in pairs)
    return None if rows is None else mean.factors(error, rows)


def _mean(aim: Aim, pairs: Mapping[str, Pair]) -> Mean | None:
    """Returns the average that a number is, or its ratio to a number of rows; None if it is neither."""
    if not aim.is_itself:
        return None
    return mean_of(aim.expression) or quotient_of(
        aim.expression, lambda over, under: _reach(over, under, pairs, aim.halved)
    )


def _reach(over: Factors, under: Factors, pairs: Mapping[str, Pair], halved: Sequence[Halved] = ()) -> Bounds | None:
    """Returns between what one sum of measures divided by another lies; None where the other may be too small.

    The divisor D = sum b_j U_j is a number of rows: of counts, and of Bernstein terms, so that each U_j >= 0 and
    b_j > 0. Each measure M_i of the other sum has a U_j with lower U_j <= M_i <= upper U_j; one that is in both sums
    has itself, as a part has of a total that is measured in halves, and others may have the sum of both halves. With
    s_j, the sum of the largest that each a_i M_i is in U_j, the other sum is at most
    sum s_j U_j <= max(0, s_j / b_j) D; at least it is what the smallest make it.
    """
    read = (*over, *under)
    if not all(id in pairs for id in read) or any(pairs[id][0] is not pairs[read[0]][0] for id in read):
        return None
    if not is_count(under, {id: pairs[id][1] for id in under}):
        return None
    wholes: list[tuple[tuple[str, ...], Measure]] = [((id,), pairs[id][1]) for id in under]
    wholes += [(one.parts, one.total) for one in halved if {*one.parts} <= under.keys()]
    least, most = (dict.fromkeys(under, Fraction(0)) for _ in range(2))
    for id, factor in over.items():
        within = (
            (others, _bounds(pairs[id][1], whole)) for others, whole in sorted(wholes, key=lambda w: w[0] != (id,))
        )
        others, ends = next(((others, ends) for others, ends in within if ends is not None), ((), None))
        if ends is None:
            return None
        low, high = sorted(factor * end for end in ends)
        for other in others:
            least[other], most[other] = least[other] + low, most[other] + high
    nothing = Fraction(0)
    return (
        min(nothing, *(least[id] / factor for id, factor in under.items())),
        max(nothing, *(most[id] / factor for id, factor in under.items())),
    )


def _bounds(part: Measure, whole: Measure) -> Bounds | None:
    """Returns between which multiples of one measure another lies: of a count, or a sum of bounded values, those of a
    count of all the rows, or values, that count in it; None where the one may be smaller."""
    if part.id == whole.id:
        return Fraction(1), Fraction(1)
    counts_it = whole.count is Count.ROWS or (whole.count is Count.VALUES and whole.value == part.value)
    if not counts_it or whole.filter not in (None, part.filter):
        return None
    match part.count:
        case Count.ROWS | Count.VALUES:
            return Fraction(0), Fraction(1)
        case Count.SUM if part.lattice is not None and part.family is None and part.total is None:
            low, high = part.lattice.values
            return min(0, low) * part.lattice.unit, max(0, high) * part.lattice.unit
        case _:
            return None


def choice_of(aim: Aim, pairs: Mapping[str, Pair]) -> str | None:
    """Returns the quantile, minimum or maximum that a number is, or None."""
    expression = aim.expression
    while isinstance(expression, Cast):
        expression = expression.argument
    if not aim.is_itself or not isinstance(expression, Column) or expression.id not in pairs:
        return None
    return expression.id if pairs[expression.id][1].count is Count.QUANTILE else None


def noisy_numbers(aggregates: Sequence[PrivateAggregate]) -> int:
    """Returns how many noisy numbers a query releases; raises UnsupportedQueryError where that is not known before."""
    total = 0
    for aggregate in aggregates:
        groups = aggregate.public_groups
        if groups is None:
            raise UnsupportedQueryError(
                "how many groups will be shown is not known before, so no error can hold for all of them at once",
                advice="Leave simultaneous= out, or declare the keys as public if everybody may know them.",
            )
        total += groups * len(aggregate.measures)
    return max(1, total)


def _no_target(aim: Aim, pairs: Mapping[str, Pair]) -> UnsupportedQueryError:
    if _mean(aim, pairs) is not None:
        what = "average" if mean_of(aim.expression) is not None else "ratio"
        return UnsupportedQueryError(
            f"the error of the {what} {aim.name} depends on how many rows each group has, which is private",
            advice=f"Say for how many rows it is to hold: error={{{aim.name!r}: (0.5, 1000)}}, from 1000 rows on.",
        )
    return UnsupportedQueryError(
        f"{aim.name} cannot have a target: its error depends on the data, not only on the noise",
        advice="Give targets to counts, sums, averages, ratios to counts and quantiles, by name: error={'n': 100}.",
    )


def _fractions(parts: Mapping[str, float]) -> dict[str, Fraction]:
    """Returns parts of a whole as exact fractions that sum to at most 1."""
    total = sum(parts.values())
    if len(parts) == 1 or not 0 < total < math.inf:
        return dict.fromkeys(parts, Fraction(1, len(parts)))
    return {id: Fraction(max(1, math.floor(part / total * 10**6)), 10**6 + len(parts)) for id, part in parts.items()}


def _least(pair: Pair, neighbours: Neighbours, needs: Sequence[tuple[Fraction, Fraction]], *, pure: bool) -> Noise:
    """Returns the noise of the least charge that keeps all these half-widths."""
    steps = [(math.floor(width / pair[1].unit), failure) for width, failure in needs]
    currencies = [True] if pure else [False, True]
    found = [_solve(pair, neighbours, steps, in_epsilon) for in_epsilon in currencies]
    return min(found, key=lambda noise: _price(noise, pure))


def _solve(pair: Pair, neighbours: Neighbours, needs: Sequence[tuple[int, Fraction]], in_epsilon: bool) -> Noise:
    """Returns the noise of the smallest loss of `DIGITS` digits that keeps all half-widths, in lattice steps."""
    aggregate, measure = pair
    moved, finer = sensitivity(aggregate, measure, neighbours), finer_steps(aggregate, measure)

    def keeps(amount: Fraction) -> bool:
        try:
            made = calibrate(moved, noise_of(measure, amount, in_epsilon=in_epsilon), finer)
        except InvalidLossError:
            return False
        return all(made.half_width(failure) <= steps for steps, failure in needs)

    one = noise_of(measure, Fraction(1), in_epsilon=in_epsilon)
    largest, shape = float(LAWS[one.mechanism].parameter(moved, one.loss)), shape_of(one.mechanism)
    about = max(largest / shape.parameter_within(steps + 0.5, math.log(2 / failure)) for steps, failure in needs)
    unit = Fraction(10) ** (math.floor(math.log10(about)) - DIGITS)
    low, high = 10 ** (DIGITS - 1), 10 ** (DIGITS + 2)
    if not keeps(high * unit):
        raise InvalidLossError(
            f"no noise on {measure.label} can be this small and still be sampled exactly",
            advice="Ask for a larger error.",
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle * unit) else (middle, high)
    return noise_of(measure, high * unit, in_epsilon=in_epsilon)


def _price(noise: Noise, pure: bool) -> Fraction:
    return noise.loss.epsilon if pure else LAWS[noise.mechanism].rho(noise.loss)
