"""Functions of aggregate columns that several stages speak of."""

from __future__ import annotations

PAIRS = (
    *("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_count"),
    *("regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"),
)
"""Aggregates of pairs (argument, second), in SQL's order (y, x). Pairs with a NULL do not count."""

CHOSEN = ("any_value", "first", "last", "arg_min", "arg_max")
"""Aggregates that give one of their arguments.

`any_value` is the least value that is not NULL. The others take the row with the least or greatest `second`, NULL never
first, and of several such rows the least argument, NULL last; `arg_min` and `arg_max` skip rows with a NULL.
"""

BITS = ("bit_and", "bit_or", "bit_xor")
"""Of integers, bit by bit."""

EXACT = frozenset(
    {
        *("count", "count_distinct", "sum", "sum_distinct", "avg", "avg_distinct", "min", "max", "mode"),
        *("var_pop", "var_samp", "stddev_pop", "stddev_samp", "quantile_cont", "quantile_disc"),
        *("bool_and", "bool_or", "string_agg", *PAIRS, *CHOSEN, *BITS),
    }
)
"""Aggregates whose value is a function of the multiset of a group's rows."""

TEXT_LIMIT = 10_000
"""Characters of a `string_agg`; what is beyond is cut off."""
