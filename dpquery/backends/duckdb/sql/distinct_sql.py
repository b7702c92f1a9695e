"""Counts of units and of different values in DuckDB's SQL, where a unit may count in a part of its groups alone.

Each is a SELECT of the columns of the keys and `counted`; groups in which nothing counts may be missing, and without
keys there is one row. Rows have the columns `unit` and those of the keys.
"""

from __future__ import annotations

from typing import Protocol

from dpquery.kernel.measures import CONSIDERED, LOOKED_AT
from dpquery.kernel.plan import WEIGHT

_SAME_UNIT = "many.unit IS NOT DISTINCT FROM pairs.unit"
"""No unit is NULL but that of the row which `many` has besides, so that it is never empty (`sentinels`): whether some
unit has many groups or pairs does not decide whether those of others are looked at."""


class Hashed(Protocol):
    """Makes the hash of columns under the key of a run, in SQL."""

    def __call__(self, *columns: str) -> str: ...


def units_in_some(rows: str, keys: list[str], passing: str, most: int, hashed: str) -> str:
    """Returns the units of each selected group: a unit counts in the `most` of its groups with the least hash, if it
    has a row there that passes.

    Args:
        rows: What to read.
        keys: Its columns of the groups.
        passing: The filter in SQL, or "".
        hashed: The hash of `unit` and `keys` in SQL.
    """
    pair, columns = ", ".join(["unit", *keys]), ", ".join(["unit", *keys, "passes"])
    passes = f"COALESCE(bool_or({passing}), FALSE)" if passing else "TRUE"
    place = f"row_number() OVER (PARTITION BY unit ORDER BY {', '.join([hashed, *keys])})"
    own = f"SELECT {columns} FROM pairs SEMI JOIN many ON {_SAME_UNIT} QUALIFY {place} <= {most}"
    ctes = [
        f"pairs AS MATERIALIZED (SELECT {pair}, {passes} AS passes FROM {rows} GROUP BY {pair})",
        f"many AS MATERIALIZED (SELECT unit FROM pairs GROUP BY unit HAVING COUNT(*) > {most} UNION ALL SELECT NULL)",
    ]
    kept = f"(SELECT {columns} FROM pairs ANTI JOIN many ON many.unit = pairs.unit UNION ALL {own}) AS found"
    return f"WITH {', '.join(ctes)} {_counted('COUNT(*) FILTER (WHERE passes)', kept, keys)}"


def deciding_units(rows: str, keys: list[str], most: int, hashed: str) -> str:
    """Returns of each selected group how many units may decide about it, and as `deciding` which: a list of structures
    (turn, place), `turn` a number of the unit and `place` that of the group among those of the unit, by hash.

    Args:
        rows, keys: As for `units_in_some`.
        most: So many groups of a unit are listed at least, where it has them.
        hashed: The hash of `unit` and `keys` in SQL.
    """
    pair = ["unit", *keys]
    place = f"row_number() OVER (PARTITION BY unit ORDER BY {', '.join([hashed, *keys])}) AS place"
    ctes = [
        f"pairs AS MATERIALIZED (SELECT DISTINCT {', '.join(pair)} FROM {rows})",
        "turns AS MATERIALIZED (SELECT unit, row_number() OVER () AS turn FROM (SELECT DISTINCT unit FROM pairs))",
        f"ranked AS (SELECT {', '.join(pair)}, {place} FROM pairs QUALIFY place <= {max(CONSIDERED, most)})",
    ]
    listed = "COUNT(*) AS counted, LIST({'turn': turn, 'place': place}) AS deciding"
    grouped = f"SELECT {', '.join([*keys, listed])} FROM ranked JOIN turns USING (unit) GROUP BY {', '.join(keys)}"
    return f"WITH {', '.join(ctes)} {grouped}"


def divided_units(rows: str, keys: list[str], passing: str, owned: str, raw: list[str], most: int) -> str:
    """Returns the units of each public group, where a unit with rows in G groups weighs min(1, most / G) in each,
    rounded down to steps.

    Args:
        rows, keys, passing: As for `units_in_some`.
        owned: Where all groups of a unit are, public or not.
        raw: Its columns of the groups.
    """
    pair = ["unit", *keys]
    places = f"(SELECT DISTINCT {', '.join(['unit', *raw])} FROM {owned})"
    share = f"CAST({most * WEIGHT} // COUNT(*) AS BIGINT) AS share"
    spread = f"SELECT unit, {share} FROM {places} GROUP BY unit HAVING COUNT(*) > {most}"
    joined = f"{_different(rows, pair, passing)} AS found LEFT JOIN spread ON spread.unit = found.unit"
    summed = _counted(f"COALESCE(SUM(COALESCE(spread.share, {WEIGHT})), 0)", joined, keys)
    return f"WITH spread AS MATERIALIZED ({spread}) {summed}"


def pairs_in_turn(rows: str, keys: list[str], passing: str, value: str, most: int, hashed: Hashed) -> str:
    """Returns of each group how many different values some unit counts in any case, and as `contested` what units with
    more than `most` pairs of group and value have beside them: a list of structures (turn, place), `turn` the number of
    a unit in the order of turns and `place` that of a pair in the order of pairs, of which `matching` makes the rest.

    Pairs of units that have at most `most` of them are counted in any case: their turns are the first. The list of any
    other unit is cut before others' pairs are looked at, so that it has a bounded part in what is handed over.

    Args:
        rows, keys, passing: As for `units_in_some`.
        value: The column of the values.
        hashed: Makes the hash of columns in SQL.
    """
    pair = [*keys, "value"]
    given = ", ".join(["unit", *keys, f"{value} AS value"])
    present = f"{value} IS NOT NULL" + (f" AND {passing}" if passing else "")
    turn = f"row_number() OVER (ORDER BY COUNT(*), {hashed('unit')}, unit) AS turn"
    place = f"row_number() OVER (ORDER BY {', '.join([hashed(*pair), *pair])}) AS place"
    columns = ", ".join(pair)
    nth = f"row_number() OVER (PARTITION BY pairs.unit ORDER BY {', '.join([hashed(*pair), *pair])})"
    own = f"SELECT turn, {columns} FROM pairs JOIN many ON {_SAME_UNIT} QUALIFY {nth} <= {LOOKED_AT * most}"
    absent = f"SELECT {', '.join(['NULL'] * len(pair))}"
    heavy = f"SELECT unit, {turn} FROM pairs GROUP BY unit HAVING COUNT(*) > {most}"
    ctes = [
        f"pairs AS MATERIALIZED (SELECT DISTINCT {given} FROM {rows} WHERE {present})",
        f"many AS MATERIALIZED ({heavy} UNION ALL SELECT NULL, NULL)",
        f"sure AS MATERIALIZED (SELECT DISTINCT {columns} FROM pairs ANTI JOIN many ON many.unit = pairs.unit)",
        f"listed AS MATERIALIZED ({own} UNION ALL {absent}, NULL)",
        f"free AS MATERIALIZED (SELECT * FROM listed ANTI JOIN (FROM sure UNION ALL {absent}) AS sure "
        f"ON {same('sure', 'listed', pair)})",
        f"places AS MATERIALIZED (SELECT {columns}, {place} FROM (SELECT DISTINCT {columns} FROM free))",
    ]
    edges = f"SELECT turn, place, places.* EXCLUDE (place) FROM free JOIN places ON {same('free', 'places', pair)}"
    everything = f"SELECT NULL AS turn, NULL AS place, {columns} FROM sure UNION ALL BY NAME {edges}"
    listed = "LIST({'turn': turn, 'place': place}) FILTER (WHERE turn IS NOT NULL) AS contested"
    counted = f"COUNT(*) FILTER (WHERE turn IS NULL) AS counted, {listed}"
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"WITH {', '.join(ctes)} SELECT {', '.join([*keys, counted])} FROM ({everything}){grouped}"


def same(left: str, right: str, columns: list[str]) -> str:
    """Returns where rows of two tables agree in columns; NULL agrees with NULL."""
    return " AND ".join(f"{left}.{column} IS NOT DISTINCT FROM {right}.{column}" for column in columns) or "TRUE"


def _different(rows: str, columns: list[str], passing: str) -> str:
    where = f" WHERE {passing}" if passing else ""
    return f"(SELECT DISTINCT {', '.join(columns)} FROM {rows}{where})"


def _counted(counted: str, rows: str, keys: list[str]) -> str:
    grouped = f" GROUP BY {', '.join(f'found.{key}' for key in keys)}" if keys else ""
    shown = [*(f"found.{key} AS {key}" for key in keys), f"{counted} AS counted"]
    return f"SELECT {', '.join(shown)} FROM {rows}{grouped}"
