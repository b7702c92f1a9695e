"""Accuracy asked for instead of a loss: the least loss with which the intervals are as narrow as that.

Numbers whose interval is as wide for all data can have a target: counts, sums, and sums of these with constant
factors. The error of an average, or of a ratio to a number of rows, depends on how many rows there are, which is
private: it can have a target together with a number of rows that the analyst assumes. Nothing but the charge depends on
that number. A quantile, a minimum or a maximum has a target in ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery.accuracy.combinations import half_width, together
from dpquery.accuracy.counting import Halved, is_count
from dpquery.accuracy.error_propagation import Factors, rounded_factors_of
from dpquery.accuracy.ratios import Bounds, RatioOfSums, mean_of, quotient_of
from dpquery.errors import InvalidLossError, UnsupportedQueryError
from dpquery.kernel.accountant import Budget, BudgetKind
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import CHOICES, BudgetedPlan, Count, Measure, Noise, PrivateAggregate
from dpquery.plan.expr import Cast, Column, columns_of
from dpquery.planner.budget.aims import Aim, check_names
from dpquery.planner.budget.allocate import QueryBudget, noise_of, plan_of, selection_delta
from dpquery.planner.budget.least_noise import Pair, Target, least_noise, paid_as, price, sharing
from dpquery.planner.budget.rank_targets import choices_for
from dpquery.units.declarations import Neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyTarget:
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
    accuracy: AccuracyTarget,
    offer: QueryBudget,
    *,
    budget: Budget,
    neighbours: Neighbours,
) -> BudgetedPlan:
    """Returns the plan of the least charge that keeps every target.

    Targets that share measures, or terms of one vector, are kept by noise of one mechanism, the one that the ledger
    counts less for. A number computed from several measures gives each the share of its loss with which a sum of their
    noises errs least, as `budget_split` does; a measure loses what the target that needs most gives it, and all terms
    of a vector lose alike. Measures without a target lose as much as those that have one do on average.

    Args:
        offer: Its delta alone counts, for selections.
    Raises:
        UnsupportedQueryError: A column that cannot have a target.
        InvalidLossError: A target for what is not a noisy column, or one too small to be kept.
    """
    pairs = {measure.id: (aggregate, measure) for aggregate in aggregates for measure in aggregate.measures}
    pure = budget.kind is BudgetKind.PURE
    choices, targets = _wanted(aims, accuracy, pairs, failure_of_each(accuracy, aggregates))
    noises: dict[str, Noise] = {}
    for aggregate in aggregates:
        own = {m.id: choices[m.id] for m in aggregate.measures if m.id in choices}
        noises |= choices_for(aggregate, own, neighbours, pure=pure)
    paid = list(noises.values())
    for shared in sharing(targets, pairs):
        made = least_noise(shared, pairs, neighbours, pure=pure)
        paid += made.values()
        noises |= {id: made[paid_as(m)] for id, (_, m) in pairs.items() if paid_as(m) in made}
    mean = sum((price(noise, pure) for noise in paid), Fraction(0)) / max(1, len(paid))
    selections = sum(aggregate.is_selected for aggregate in aggregates)
    without = QueryBudget(delta=offer.delta) if pure else QueryBudget(delta=offer.delta, rho=Fraction(1))
    delta = selection_delta(without, budget, selections)
    all = [noises.get(id) or noise_of(m, mean, in_epsilon=pure, pure=pure) for id, (_, m) in pairs.items()]
    return plan_of(aggregates, all, delta)


def half_width_of(
    aim: Aim,
    noises: Mapping[str, NoiseLaw],
    failure: Fraction,
    rows: Fraction | None,
    pairs: Mapping[str, Pair],
    *,
    at_once: bool = False,
) -> float | None:
    """Returns the half-width of a number's interval where it does not depend on the data, or None.

    Args:
        noises: Of the measures, by id.
        rows: How many rows each group is assumed to have at least; averages and ratios have a half-width then.
        at_once: Whether each measure may fail so often, and no interval fails where none does.
    """

    def reach(factors: Factors) -> Fraction:
        parts = [(factor * pairs[id][1].unit, noises[id]) for id, factor in sorted(factors.items())]
        return together(parts, failure) if at_once else half_width(parts, failure)

    if not all(noises[id].is_added for id in (column.id for column in columns_of(aim.expression)) if id in noises):
        return None
    if rows is not None and (mean := _mean(aim, pairs)) is not None:
        return mean.half_width(reach, rows)
    found = rounded_factors_of(aim.expression, lambda id: id in pairs) if aim.is_itself else None
    if not found or not found[0]:
        return None
    factors, rounded = _without_roundings(*found)
    return float(reach(factors) + rounded)


def _wanted(
    aims: Sequence[Aim], accuracy: AccuracyTarget, pairs: Mapping[str, Pair], failure: Fraction
) -> tuple[dict[str, list[tuple[Fraction, Fraction]]], list[Target]]:
    """Returns for each choice with a target (ranks, failure) of each of its targets, and the targets of numbers.

    Args:
        failure: Of each number.
    """
    errors = accuracy.errors
    if not isinstance(errors, Fraction):
        check_names(errors, {aim.name for aim in aims}, "target")
    if not aims:
        raise InvalidLossError("the answer has no noisy column, so error= has no effect", advice="Leave error= out.")
    choices: dict[str, list[tuple[Fraction, Fraction]]] = {}
    targets = []
    for aim in aims:
        error = errors if isinstance(errors, Fraction) else errors.get(aim.name)
        if error is None:
            continue
        choice = choice_of(aim, pairs)
        if choice is not None:
            choices.setdefault(choice, []).append((error, failure))
            continue
        sums = _sums_of(aim, error, accuracy.rows.get(aim.name), pairs)
        if any(room <= 0 for _, room in sums):
            raise InvalidLossError(f"{aim.name} is rounded by more than this error", advice="Ask for a larger error.")
        targets.append(Target(sums=sums, failure=failure, at_once=accuracy.simultaneous))
    if not choices and not targets:
        raise InvalidLossError("no column has a target", advice="Write error=100, or error={'column': 100}.")
    return choices, targets


def _sums_of(
    aim: Aim, error: Fraction, rows: Fraction | None, pairs: Mapping[str, Pair]
) -> tuple[tuple[Factors, Fraction], ...]:
    """Returns sums of measures, and how far each may be off so that a number is off by at most `error`."""
    mean = _mean(aim, pairs)
    if mean is not None and rows is not None:
        found = tuple((factors, error * rows - rounded) for factors, rounded in mean.ends(error))
    else:
        linear = rounded_factors_of(aim.expression, lambda id: id in pairs) if aim.is_itself and mean is None else None
        if not linear or not linear[0]:
            raise _no_target(aim, error, pairs)
        factors, rounded = _without_roundings(*linear)
        found = ((factors, error - rounded),)
    if any(pairs[id][1].count in CHOICES for factors, _ in found for id in factors):
        raise _no_target(aim, error, pairs)
    return found


def _without_roundings(factors: Factors, widths: Factors) -> tuple[Factors, Fraction]:
    """Returns the factors of measures, and how far the roundings may move the sum."""
    rounded = sum((abs(factors[id]) * width for id, width in widths.items()), Fraction(0))
    return {id: factor for id, factor in factors.items() if id not in widths}, rounded


def _mean(aim: Aim, pairs: Mapping[str, Pair]) -> RatioOfSums | None:
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


def failure_of_each(accuracy: AccuracyTarget, aggregates: Sequence[PrivateAggregate]) -> Fraction:
    """Returns with which probability the interval of one number may not hold; of several that share it, its part."""
    return accuracy.failure / (noisy_numbers(aggregates) if accuracy.simultaneous else 1)


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


def _no_target(aim: Aim, error: Fraction, pairs: Mapping[str, Pair]) -> UnsupportedQueryError:
    if _mean(aim, pairs) is not None:
        what = "average" if mean_of(aim.expression) is not None else "ratio"
        return UnsupportedQueryError(
            f"the error of the {what} {aim.name} depends on how many rows each group has, which is private",
            advice="Say for how many rows it is to hold: "
            f"error={{{aim.name!r}: ({float(error):.15g}, 1000)}}, from 1000 rows on.",
        )
    return UnsupportedQueryError(
        f"{aim.name} cannot have a target: its error depends on the data, not only on the noise",
        advice="Give targets to counts, sums, averages, ratios to counts and quantiles, by name: error={'n': 100}.",
    )
