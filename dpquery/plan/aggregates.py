"""The aggregates that plans know: a closed set, and the parts of it that several stages speak of."""

from __future__ import annotations

from enum import StrEnum


class Function(StrEnum):
    """An aggregate whose value is a function of the multiset of a group's rows; its value is its name in plans.

    Pairs have two arguments in SQL's order (y, x), and pairs with a NULL do not count. `any_value` is the least value
    that is not NULL. `first`, `last`, `arg_min` and `arg_max` take the row with the least or greatest second argument,
    NULL never first, and of several such rows the least argument, NULL last; the latter two skip rows with a NULL.
    """

    COUNT = "count"
    """Of rows, where there is no argument."""
    COUNT_DISTINCT = "count_distinct"
    SUM = "sum"
    SUM_DISTINCT = "sum_distinct"
    AVG = "avg"
    AVG_DISTINCT = "avg_distinct"
    MIN = "min"
    MAX = "max"
    MODE = "mode"
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"
    QUANTILE_CONT = "quantile_cont"
    QUANTILE_DISC = "quantile_disc"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    STRING_AGG = "string_agg"
    COVAR_POP = "covar_pop"
    COVAR_SAMP = "covar_samp"
    CORR = "corr"
    REGR_SLOPE = "regr_slope"
    REGR_INTERCEPT = "regr_intercept"
    REGR_R2 = "regr_r2"
    REGR_COUNT = "regr_count"
    REGR_AVGX = "regr_avgx"
    REGR_AVGY = "regr_avgy"
    REGR_SXX = "regr_sxx"
    REGR_SYY = "regr_syy"
    REGR_SXY = "regr_sxy"
    ANY_VALUE = "any_value"
    FIRST = "first"
    LAST = "last"
    ARG_MIN = "arg_min"
    ARG_MAX = "arg_max"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"

    def __hash__(self) -> int:
        """Returns the hash of the name, which it equals."""
        return hash(str(self))


PAIRS = (
    *(Function.COVAR_POP, Function.COVAR_SAMP, Function.CORR, Function.REGR_SLOPE, Function.REGR_INTERCEPT),
    *(Function.REGR_R2, Function.REGR_COUNT, Function.REGR_AVGX, Function.REGR_AVGY),
    *(Function.REGR_SXX, Function.REGR_SYY, Function.REGR_SXY),
)
"""Aggregates of pairs."""

CHOSEN = (Function.ANY_VALUE, Function.FIRST, Function.LAST, Function.ARG_MIN, Function.ARG_MAX)
"""Aggregates that give one of their arguments."""

BITS = (Function.BIT_AND, Function.BIT_OR, Function.BIT_XOR)
"""Of integers, bit by bit."""

EXACT = frozenset(Function)
"""All of them: aggregates of one unit's rows are computed exactly."""

TEXT_LIMIT = 10_000
"""Characters of a `string_agg`; what is beyond is cut off."""
