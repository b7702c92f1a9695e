"""Histograms of choices in DuckDB's SQL: what each value weighs, as one list for each group.

Choices of the same values share a histogram. A histogram is a SELECT with the columns of the keys and `kept`, a list of
structures (value, weight); groups without values may be missing, and without keys there is one row, NULL if there is
no value.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpquery.kernel.plan import CHOICES, Measure

_LIST = "LIST({'value': value, 'weight': weight}) FILTER (WHERE value IS NOT NULL AND weight > 0) AS kept"
"""A condition on the groups would be moved below them by the engine, and make each row's value twice."""


def signatures(measures: Sequence[Measure]) -> dict[tuple[object, ...], int]:
    """Returns the different histograms that the choices among the measures need, numbered, by `signature`."""
    found = dict.fromkeys(signature(measure) for measure in measures if measure.count in CHOICES)
    return {key: number for number, key in enumerate(found)}


def signature(measure: Measure) -> tuple[object, ...]:
    """Returns what choices with equal histograms have in common."""
    return measure.value, measure.filter, measure.lattice, measure.domain


def histogram(rows: str, keys: list[str], value: str, passing: str, domain: str | None, *, is_weighed: bool) -> str:
    """Returns the histogram of rows: what those with one value weigh together. Values that weigh nothing are left out.

    Args:
        rows: What to read.
        keys: Its columns to group by.
        value: The lattice value in SQL, or the value that is looked up in the domain.
        passing: The filter in SQL.
        domain: For a mode, the table of the domain with columns `value0` and `code`.
        is_weighed: Whether rows have a column `weight`; else each weighs 1.
    """
    columns, more = ", ".join([*keys, "value"]), ["weight"] if is_weighed else []
    added = "CAST(COALESCE(SUM(weight), 0) AS BIGINT) AS weight" if is_weighed else "COUNT(*) AS weight"
    if domain is None:
        counted = f"SELECT {', '.join([*keys, f'{value} AS value', added])} FROM {rows} WHERE {passing}"
        return _listed(f"{counted} GROUP BY {columns}", keys)
    read = f"SELECT {', '.join([*keys, *more, f'{value} AS value'])} FROM {rows} WHERE {passing}"
    joined = f"({read}) AS plain JOIN {domain} AS domain ON domain.value0 = plain.value"
    valued = f"SELECT plain.* REPLACE (domain.code AS value) FROM {joined}"
    counted = f"SELECT {columns}, {added} FROM ({valued}) GROUP BY {columns}"
    return _listed(counted, keys)


def _listed(counted: str, keys: list[str]) -> str:
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, _LIST])} FROM ({counted}){grouped}"
