"""Aggregates by their names in SQL, and what to write instead of those that have no answer."""

from __future__ import annotations

from sqlglot import exp

PAIRS: dict[type[exp.Expression], str] = {
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.Corr: "corr",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrR2: "regr_r2",
    exp.RegrCount: "regr_count",
    exp.RegrAvgx: "regr_avgx",
    exp.RegrAvgy: "regr_avgy",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
}
"""Aggregates of two numbers, y before x."""

EXACT: dict[type[exp.Expression], str] = {
    exp.AnyValue: "any_value",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.ArgMin: "arg_min",
    exp.ArgMax: "arg_max",
    exp.First: "first",
    exp.Last: "last",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.GroupConcat: "string_agg",
}
"""Aggregates that are answered where they are exact: within one unit, and over public or noisy tables."""

_NAMES = {"every": "bool_and", "arbitrary": "any_value"}
"""Names of the former that the parser has no class for."""

_UNKNOWN: dict[type[exp.Expression], str] = {
    exp.ArrayAgg: "array_agg",
    exp.List: "array_agg",
    exp.JSONArrayAgg: "json_agg",
    exp.JSONObjectAgg: "json_object_agg",
    exp.Skewness: "skewness",
    exp.Kurtosis: "kurtosis",
    exp.ApproxTopK: "approx_top_k",
    exp.ApproxTopSum: "approx_top_sum",
}
_UNKNOWN_NAMES = {
    **{name: name for name in ("product", "geomean", "geometric_mean", "kurtosis_pop", "entropy", "histogram", "mad")},
    **{name: name for name in ("sem", "json_agg", "jsonb_agg", "json_object_agg", "xmlagg", "range_agg")},
    **{name: name for name in ("fsum", "kahan_sum", "sumkahan", "favg", "mean", "sum_no_overflow", "bitstring_agg")},
    "listagg": "listagg",
}

_BY_GROUPS = "GROUP BY the value and take COUNT(*): groups and their noisy counts can be shown."
_BY_POWERS = "Take AVG(x), AVG(x * x) and AVG(x * x * x) of a bounded x: central moments follow from them."
_BY_LOGARITHMS = "Take logarithms: AVG(LN(x)) or SUM(LN(x)) of an x with a positive lower bound, and EXP of it."

ADVICE = {
    "any_value": "GROUP BY the value, or take COUNT(DISTINCT x).",
    "bool_and": "Count the exceptions: COUNT_IF(NOT condition) is near 0 where the condition always holds.",
    "bool_or": "Count: COUNT_IF(condition) is near 0 where the condition never holds.",
    "arg_min": "Sort groups: GROUP BY x ORDER BY AVG(y) LIMIT 1, with bounds on y.",
    "arg_max": "Sort groups: GROUP BY x ORDER BY AVG(y) DESC LIMIT 1, with bounds on y.",
    "first": "Pick one row of each unit in a subquery that groups by the unit, and aggregate those.",
    "last": "Pick one row of each unit in a subquery that groups by the unit, and aggregate those.",
    "bit_and": "Count each bit: COUNT_IF(x & 1 = 1), COUNT_IF(x & 2 = 2), ...",
    "bit_or": "Count each bit: COUNT_IF(x & 1 = 1), COUNT_IF(x & 2 = 2), ...",
    "bit_xor": "Count each bit: COUNT_IF(x & 1 = 1), COUNT_IF(x & 2 = 2), ...",
    "string_agg": _BY_GROUPS,
    "sum_distinct": "Use SUM(x), or COUNT(DISTINCT x).",
    "avg_distinct": "Use AVG(x), or COUNT(DISTINCT x).",
    "listagg": _BY_GROUPS,
    "array_agg": _BY_GROUPS,
    "json_agg": _BY_GROUPS,
    "jsonb_agg": _BY_GROUPS,
    "json_object_agg": _BY_GROUPS,
    "xmlagg": _BY_GROUPS,
    "range_agg": _BY_GROUPS,
    "histogram": "GROUP BY the value, or WIDTH_BUCKET(x, lower, upper, n), and take COUNT(*).",
    "approx_top_k": "GROUP BY the value ORDER BY COUNT(*) DESC LIMIT k: one grouped count pays for any k.",
    "approx_top_sum": "GROUP BY the value ORDER BY SUM(weight) DESC LIMIT k, with bounds on the weight.",
    "entropy": "GROUP BY the value and take COUNT(*): the entropy follows from the noisy counts.",
    "skewness": _BY_POWERS,
    "kurtosis": _BY_POWERS,
    "kurtosis_pop": _BY_POWERS,
    "product": _BY_LOGARITHMS,
    "geomean": _BY_LOGARITHMS,
    "geometric_mean": _BY_LOGARITHMS,
    "mad": "Take STDDEV_SAMP(x), or AVG(ABS(x - 40)) around a constant.",
    "sem": "Take STDDEV_SAMP(x) / SQRT(COUNT(x)).",
    "fsum": "Use SUM(x): sums are exact.",
    "kahan_sum": "Use SUM(x): sums are exact.",
    "sumkahan": "Use SUM(x): sums are exact.",
    "sum_no_overflow": "Use SUM(x): sums are exact.",
    "favg": "Use AVG(x).",
    "mean": "Use AVG(x).",
    "bitstring_agg": "GROUP BY the value and take COUNT(*).",
}
"""What to write instead, over different privacy units, by the function's name in plans."""

_DEFAULT_ADVICE = "COUNT, SUM, AVG, VAR, STDDEV, COVAR, CORR, REGR, MIN, MAX, MEDIAN, quantiles and MODE have."


def plain(call: exp.Expression) -> exp.Expression:
    """Returns the call without the IGNORE NULLS that the parser puts around ANY_VALUE in some dialects."""
    return call.this if isinstance(call, exp.IgnoreNulls) and isinstance(call.this, exp.AnyValue) else call


def exact_name(call: exp.Expression) -> str | None:
    """Returns the function of an aggregate that is answered where it is exact, or None."""
    return EXACT.get(type(call)) or (_NAMES.get(call.name.lower()) if isinstance(call, exp.Anonymous) else None)


def unknown_name(call: exp.Expression) -> str | None:
    """Returns the name of an aggregate that is known to be none of ours, or None."""
    if isinstance(call, exp.Filter | exp.WithinGroup):
        return unknown_name(call.this)
    return _UNKNOWN.get(type(call)) or (
        _UNKNOWN_NAMES.get(call.name.lower()) if isinstance(call, exp.Anonymous) else None
    )


def is_named_aggregate(call: exp.Expression) -> bool:
    """Whether the call is an aggregate although the parser does not say so."""
    return isinstance(call, exp.Anonymous | exp.List) and (exact_name(call) or unknown_name(call)) is not None


def advice_on(function: str) -> str:
    """Returns what to write instead of an aggregate over different privacy units."""
    return ADVICE.get(function, _DEFAULT_ADVICE)


def spelled(function: str) -> str:
    """Returns a function's name in messages."""
    name = function.upper()
    return f"{name.removesuffix('_DISTINCT')}(DISTINCT ...)" if name.endswith("_DISTINCT") else name
