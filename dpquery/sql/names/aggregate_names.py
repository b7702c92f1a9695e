"""Aggregates by their names in SQL, and what to write instead of those that have no answer."""

from __future__ import annotations

from sqlglot import exp

from dpquery.plan.aggregates import AGGREGATES
from dpquery.plan.aggregates.aggregate import AggregateFunction

_SPELLINGS = {spelling: one for one in AGGREGATES.values() for spelling in (one.shown, *one.spellings)}
_CLASSES = {
    cls: _SPELLINGS[name] for cls in exp.ALL_FUNCTIONS for name in reversed(cls.sql_names()) if name in _SPELLINGS
}
"""The parser has classes of its own for most names."""

_UNKNOWN_CLASSES: dict[type[exp.Expression], str] = {
    exp.ArrayAgg: "array_agg",
    exp.List: "array_agg",
    exp.JSONArrayAgg: "json_agg",
    exp.JSONObjectAgg: "json_object_agg",
    exp.Skewness: "skewness",
    exp.Kurtosis: "kurtosis",
    exp.ApproxTopK: "approx_top_k",
    exp.ApproxTopSum: "approx_top_sum",
}

_BY_GROUPS = "GROUP BY the value and take COUNT(*): groups and their noisy counts can be shown."
_BY_POWERS = "Take AVG(x), AVG(x * x) and AVG(x * x * x) of a bounded x: central moments follow from them."
_BY_LOGARITHMS = "Take logarithms: AVG(LN(x)) or SUM(LN(x)) of an x with a positive lower bound, and EXP of it."

_UNKNOWN = {
    **dict.fromkeys(("listagg", "array_agg", "json_agg", "jsonb_agg", "json_object_agg", "xmlagg"), _BY_GROUPS),
    "range_agg": _BY_GROUPS,
    "histogram": "GROUP BY the value, or WIDTH_BUCKET(x, lower, upper, n), and take COUNT(*).",
    "approx_top_k": "GROUP BY the value ORDER BY COUNT(*) DESC LIMIT k: one grouped count pays for any k.",
    "approx_top_sum": "GROUP BY the value ORDER BY SUM(weight) DESC LIMIT k, with bounds on the weight.",
    "entropy": "GROUP BY the value and take COUNT(*): the entropy follows from the noisy counts.",
    **dict.fromkeys(("skewness", "kurtosis", "kurtosis_pop"), _BY_POWERS),
    "product": _BY_LOGARITHMS,
    "mad": "Take STDDEV_SAMP(x), or AVG(ABS(x - 40)) around a constant.",
    "sem": "Take STDDEV_SAMP(x) / SQRT(COUNT(x)).",
    **dict.fromkeys(("fsum", "kahan_sum", "sumkahan", "sum_no_overflow"), "Use SUM(x): sums are exact."),
    **dict.fromkeys(("favg", "mean"), "Use AVG(x)."),
    "bitstring_agg": "GROUP BY the value and take COUNT(*).",
}
"""What to write instead of aggregates that are none of ours."""

DEFAULT_ADVICE = "COUNT, SUM, AVG, VAR, STDDEV, COVAR, CORR, REGR, MIN, MAX, MEDIAN, quantiles, MODE and GEOMEAN have."


def function_of(call: exp.Expression) -> AggregateFunction | None:
    """Returns the aggregate that a call names, or None."""
    if isinstance(call, exp.Anonymous):
        return _SPELLINGS.get(call.name.upper())
    return _CLASSES.get(type(call))  # type: ignore[arg-type]


def unknown_name(call: exp.Expression) -> str | None:
    """Returns the name of an aggregate that is known to be none of ours, or None."""
    if isinstance(call, exp.Filter | exp.WithinGroup):
        return unknown_name(call.this)
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    return _UNKNOWN_CLASSES.get(type(call)) or (name if name in _UNKNOWN else None)


def is_named_aggregate(call: exp.Expression) -> bool:
    """Whether the call is an aggregate although the parser does not say so."""
    return isinstance(call, exp.Anonymous | exp.List) and (function_of(call) or unknown_name(call)) is not None


def advice_on(name: str) -> str:
    """Returns what to write instead of an aggregate that is none of ours."""
    return _UNKNOWN.get(name, DEFAULT_ADVICE)
