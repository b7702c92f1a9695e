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

HELD = range(CONSIDERED + 1, 10**5 + 1)
"""Rows that a plan lets a unit have at most, with which all sums of selected groups are made of what units hold: with
fewer it has few groups, with more its memory is not kept small."""
FEW_HELD = 3
"""So many sums are always made so. To add up more for each unit and group takes longer than to read the rows again."""
IN_TURN = 2**31
"""What is listed of a unit's group is one number: that of the unit times this, plus the place of the group. A list of
structures takes a fifth of a statement longer."""


class Hashed(Protocol):
    """Makes the hash of columns under the key of a run, in SQL."""

    def __call__(self, *columns: str) -> str: ...


def is_held(sums: int, most_rows: int | None) -> bool:
    """Whether so many sums of selected groups are made of what units hold, of which the plan lets each have so many
    rows at most, or any number."""
    return sums <= FEW_HELD or (most_rows or 0) in HELD


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


def held_by_units(rows: str, keys: list[str], numbers: list[str], hashed: str) -> str:
    """Returns which units have which groups, with their hash as `hashed` and what the unit adds to numbers there.

    A row with NULL for all of it is among them, so that no engine finds them empty (work.md, Lemma 5).

    Args:
        rows, keys, hashed: As for `units_in_some`.
        numbers: Aggregates of rows, with their names.
    """
    held = f"SELECT {', '.join(['unit', *keys, *numbers])} FROM {rows} GROUP BY {', '.join(['unit', *keys])}"
    of_none = ", ".join(["NULL"] * (1 + len(keys) + len(numbers)))
    return f"SELECT *, {hashed} AS hashed FROM ({held} UNION ALL SELECT {of_none})"


def deciding_units(held: str, keys: list[str], most: int, numbers: list[str]) -> str:
    """Returns of each selected group how many units may decide about it, which as `deciding`, and what all units add to
    numbers there. `deciding` is a list of `turn * IN_TURN + place`, `turn` a number of the unit and `place` that of the
    group among those of the unit, by hash. Groups about which none decides may be there too, that of NULL among them.

    Of a unit with more than these groups those alone are put in order that may be among its first by hash, as an order
    holds all columns of a pair: up to `last`, which only such units have.

    Args:
        held: As `held_by_units` says.
        keys: Its columns of the groups.
        most: So many groups of a unit are listed at least, where it has them.
        numbers: Its columns of numbers.
    """
    first = max(CONSIDERED, most)
    turn = "CASE WHEN unit IS NOT NULL THEN row_number() OVER () END AS turn"
    many = f"SELECT unit FROM numbered WHERE pairs > {first} UNION ALL SELECT NULL"
    cut = f"FROM {held} JOIN ({many}) AS far ON far.unit IS NOT DISTINCT FROM {held}.unit GROUP BY far.unit"
    near = f"FROM {held} JOIN turns ON turns.unit IS NOT DISTINCT FROM {held}.unit WHERE last IS NULL OR hashed <= last"
    beyond = "COALESCE(hashed > last, FALSE)"  # as a condition of its own, which `last` of the NULL unit does not meet
    far = f"FROM {held} JOIN cut ON cut.unit IS NOT DISTINCT FROM {held}.unit WHERE {beyond}"
    place = f"row_number() OVER (PARTITION BY turn ORDER BY {', '.join(['hashed', *keys])}) AS place"
    columns = ", ".join([*keys, *numbers])
    ctes = [
        f"numbered AS MATERIALIZED (SELECT unit, {turn}, COUNT(*) AS pairs FROM {held} GROUP BY unit)",
        f"cut AS MATERIALIZED (SELECT far.unit, list_sort(LIST(hashed))[{first}] AS last {cut})",
        "turns AS MATERIALIZED (SELECT numbered.*, last FROM numbered LEFT JOIN cut ON cut.unit = numbered.unit)",
        f"placed AS (SELECT {columns}, turn, {place} {near}"
        + (f" UNION ALL SELECT {columns}, NULL, NULL {far})" if numbers else ")"),
    ]
    someone = f"FILTER (WHERE turn IS NOT NULL AND place <= {first})"
    added = [f"SUM({number}) AS {number}" for number in numbers]
    added += [f"COUNT(*) {someone} AS counted", f"LIST(turn * {IN_TURN} + place) {someone} AS deciding"]
    return f"WITH {', '.join(ctes)} SELECT {', '.join([*keys, *added])} FROM placed GROUP BY {', '.join(keys)}"


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
    other unit is cut before others' pairs are looked at, so that it has a bounded part in what is handed over. Of one
    with more pairs than are looked at, those alone are put in order that may be among its first by hash (`last`).

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
    looked, hash = LOOKED_AT * most, hashed(*pair)
    nth = f"row_number() OVER (PARTITION BY turn ORDER BY {', '.join([hash, *pair])})"
    near = f"FROM pairs JOIN turns ON {same('turns', 'pairs', ['unit'])} WHERE last IS NULL OR {hash} <= last"
    own = f"SELECT turn, {columns} {near} QUALIFY {nth} <= {looked}"
    far = f"SELECT unit FROM many WHERE held > {looked} OR unit IS NULL"
    cut = f"FROM ({far}) AS many LEFT JOIN pairs ON {_SAME_UNIT} GROUP BY many.unit"
    absent = f"SELECT {', '.join(['NULL'] * len(pair))}"
    heavy = f"SELECT unit, {turn}, COUNT(*) AS held FROM pairs GROUP BY unit HAVING COUNT(*) > {most}"
    ctes = [
        f"pairs AS MATERIALIZED (SELECT DISTINCT {given} FROM {rows} WHERE {present})",
        f"many AS MATERIALIZED ({heavy} UNION ALL SELECT NULL, NULL, NULL)",
        f"cut AS MATERIALIZED (SELECT many.unit, list_sort(LIST({hash}))[{looked}] AS last {cut})",
        f"turns AS MATERIALIZED (SELECT many.*, last FROM many LEFT JOIN cut ON {same('cut', 'many', ['unit'])})",
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
