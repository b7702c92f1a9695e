"""Series are bounded before they are made: an engine makes each as one list in memory, even if little of it is read."""

from __future__ import annotations

from sqlglot import exp

from dpquery.backends.duckdb.system_process import TOO_LONG_SERIES
from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.frontends.postgres.wire.states import TOO_MUCH

MOST_SERIES = 100_000
"""Values of one series."""
_PARTS = ("start", "end", "step")

MACROS = {
    "series_end(a, b, s)": f"""CASE WHEN s <> 0 AND (CAST(b AS DOUBLE) - CAST(a AS DOUBLE)) / s > {MOST_SERIES}
        THEN CAST(error('{TOO_LONG_SERIES}') AS BIGINT) ELSE b END""",
    "moment_end(a, b, s)": f"""CASE WHEN (epoch(CAST(b AS TIMESTAMP)) - epoch(CAST(a AS TIMESTAMP)))
        / nullif(epoch(s), 0) > {MOST_SERIES} THEN CAST(error('{TOO_LONG_SERIES}') AS TIMESTAMP) ELSE b END""",
}
"""The end of a series, or an error where the series is too long."""


def bound_series(tree: exp.Expr) -> None:
    """Bounds each series of a statement: by its constants at once, else when it is made.

    Raises:
        Refusal: A series between constants has too many values.
    """
    for node in list(tree.find_all(exp.GenerateSeries, exp.ExplodingGenerateSeries)):
        start, end, step = (node.args.get(part) for part in _PARTS)
        if not (isinstance(start, exp.Expr) and isinstance(end, exp.Expr)):
            continue
        numbers = [_number(part) for part in (start, end, step or exp.Literal.number(1))]
        first, last, by = numbers
        if first is not None and last is not None and by is not None:
            if by and (last - first) / by > MOST_SERIES:
                hint = "Ask for fewer values."
                raise Refusal(TOO_MUCH, f"a series has at most {MOST_SERIES:,} values here", None, hint)
            continue
        is_moments = isinstance(step, exp.Interval)
        step = step.copy() if isinstance(step, exp.Expr) else exp.Literal.number(1)
        macro = "moment_end" if is_moments else "series_end"
        node.set("end", exp.Anonymous(this=macro, expressions=[start.copy(), end.copy(), step]))


def _number(node: exp.Expr) -> float | None:
    """Returns the value of a written number, or None for anything else."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        inside = _number(node.this)
        return None if inside is None else -inside
    if isinstance(node, exp.Literal) and not node.is_string:
        try:
            return float(node.name)
        except ValueError:
            return None
    return None
