"""Histograms of choices in DuckDB's SQL: what each value weighs, as one list for each group.

Choices of the same values share a histogram. A histogram is a SELECT with the columns of the keys and `kept`, a list of
structures (value, weight); groups without values may be missing, and without keys there is one row, NULL if there is
no value.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpquery.kernel.plan import CHOICES, WEIGHT, Measure

_LIST = "LIST({'value': value, 'weight': weight}) AS kept"


def signatures(measures: Sequence[Measure]) -> dict[tuple[object, ...], int]:
    """Returns the different histograms that the choices among the measures need, numbered, by `signature`."""
    found = dict.fromkeys(signature(measure) for measure in measures if measure.count in CHOICES)
    return {key: number for number, key in enumerate(found)}


def signature(measure: Measure) -> tuple[object, ...]:
    """Returns what choices with equal histograms have in common."""
    return measure.value, measure.filter, measure.lattice, measure.domain


def of_rows(rows: str, keys: list[str], value: str, passing: str, domain: str | None) -> str:
    """Returns the histogram where each row is a unit: every value weighs 1.

    Args:
        rows: What to read.
        keys: Its columns to group by.
        value: The lattice value in SQL, or the value that is looked up in the domain.
        passing: The filter in SQL.
        domain: For a mode, the table of the domain with columns `value0` and `code`.
    """
    columns = ", ".join([*keys, "value"])
    if domain is None:
        counted = f"SELECT {', '.join([*keys, f'{value} AS value', 'COUNT(*) AS weight'])} FROM {rows} WHERE {passing}"
        return _listed(f"SELECT * FROM ({counted} GROUP BY {columns}) WHERE value IS NOT NULL", keys)
    valued = _valued(rows, keys, value, passing, domain)
    return _listed(f"SELECT {columns}, COUNT(*) AS weight FROM ({valued}) GROUP BY {columns}", keys)


def of_units(
    rows: str, keys: list[str], value: str, passing: str, domain: str | None, *, most: int, dropped: bool
) -> str:
    """Returns the histogram where the values of a unit in a group weigh as much as `most` full ones at most.

    Args:
        dropped: Whether groups that a unit does not keep stand in the table `dropped`.
    """
    unit = ["unit", *keys]
    group, columns = ", ".join(unit), ", ".join([*keys, "value"])
    valued = _valued(rows, unit, value, passing, domain)
    if dropped:
        valued = f"SELECT * FROM ({valued}) AS given ANTI JOIN dropped ON {_same('given', 'dropped', unit)}"
    crowded = f"SELECT {group}, COUNT(*) AS counted FROM valued GROUP BY {group} HAVING COUNT(*) > {most}"
    weight = f"CASE WHEN counted IS NULL THEN {WEIGHT} ELSE {WEIGHT * most} // counted END"
    weighed = f"SELECT valued.*, {weight} AS weight FROM valued LEFT JOIN crowded ON {_same('valued', 'crowded', unit)}"
    added = f"SELECT {columns}, SUM(weight)::BIGINT AS weight FROM ({weighed}) GROUP BY {columns}"
    tables = f"valued AS MATERIALIZED ({valued}), crowded AS MATERIALIZED ({crowded})"
    return f"WITH {tables} {_listed(f'SELECT * FROM ({added}) WHERE weight > 0', keys)}"


def _valued(rows: str, columns: list[str], value: str, passing: str, domain: str | None) -> str:
    """Returns the rows with a lattice value, or with the place of their value in the domain."""
    read = f"SELECT {', '.join([*columns, f'{value} AS value'])} FROM {rows} WHERE {passing}"
    if domain is None:
        return f"SELECT * FROM ({read}) WHERE value IS NOT NULL"
    joined = f"({read}) AS plain JOIN {domain} AS domain ON domain.value0 = plain.value"
    return f"SELECT plain.* REPLACE (domain.code AS value) FROM {joined}"


def _listed(counted: str, keys: list[str]) -> str:
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, _LIST])} FROM ({counted}){grouped}"


def _same(left: str, right: str, columns: list[str]) -> str:
    return " AND ".join(f"{left}.{column} IS NOT DISTINCT FROM {right}.{column}" for column in columns)
