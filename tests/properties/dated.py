"""Worlds whose rows are in blocks: a catalog, rows, queries that restrict the date or seem to, and neighbours."""

from __future__ import annotations

import datetime
from random import Random

import pyarrow as pa

import dpquery as dp
from dpquery.plan.calendar import By, name_of, number_of
from dpquery.units.blocks import UNDATED

FIRST, LAST = datetime.date(2024, 1, 10), datetime.date(2024, 6, 20)
PEOPLE = 9
Row = dict[str, object]
Rows = dict[str, list[Row]]
TYPES = {
    "labs": {"id": pa.int64(), "taken": pa.date32(), "other": pa.date32(), "value": pa.int64()},
    "visits": {"id": pa.int64(), "at": pa.timestamp("us"), "cost": pa.int64()},
    "patients": {"id": pa.int64(), "age": pa.int64()},
    "tests": {"code": pa.int64(), "name": pa.string()},
}
DATES = {"labs": "taken", "visits": "at"}
"""The column that tells the block of a row, of the tables that have blocks."""


def catalog_of(
    *, unit: str = "patient", by: By | None = By.MONTH, last: datetime.date = LAST, max_rows: int = 3
) -> dp.Catalog:
    """Returns the catalog: by patient, or by row; with blocks, or without."""
    owner = {} if unit == "row" else {"unit": "id"}
    blocks = {t: {} if by is None else {"blocks": {"column": c, "by": by.value}} for t, c in DATES.items()}
    date = {"type": "date", "lower": FIRST, "upper": last}
    moment = {"type": "timestamp", "lower": f"{FIRST} 00:00", "upper": f"{last} 23:59:59.999999"}
    number = {"type": "int64", "lower": -3, "upper": 5}
    key = {"type": "int64"}
    return dp.Catalog(
        dataset="clinic",
        privacy_unit=unit,
        neighbours="replace_one" if unit != "row" else "add_remove",
        budget={"epsilon": 1_000_000, "delta": "0.1"},
        defaults={"max_groups": 2, "max_rows": max_rows, "least_charge": "1e-12"},
        tables={
            "labs": owner
            | blocks["labs"]
            | {"columns": {"id": key, "taken": date, "other": date, "value": {**number, "keys": [1, 2, 3]}}},
            "visits": owner | blocks["visits"] | {"columns": {"id": key, "at": moment, "cost": number}},
            "patients": owner | {"columns": {"id": key, "age": number}},
            "tests": {"public": True, "unique": [["code"]], "columns": {"code": key, "name": {"type": "text"}}},
        },
    )


def a_date(random: Random) -> datetime.date | None:
    """Returns a date around the bounds, or at the edges of a block, or none."""
    if random.random() < 0.1:
        return None
    if random.random() < 0.4:
        return datetime.date(2024, random.randint(1, 7), 1) - datetime.timedelta(days=random.randint(0, 1))
    return datetime.date(2023, 12, 1) + datetime.timedelta(days=random.randrange(240))


def a_row(table: str, random: Random, id: int) -> Row:
    """Returns a row of somebody."""
    number = random.randint(-4, 6)
    match table:
        case "labs":
            return {"id": id, "taken": a_date(random), "other": a_date(random), "value": number}
        case "visits":
            day = a_date(random)
            time = random.choice([datetime.time.min, datetime.time.max, datetime.time(12)])
            return {"id": id, "at": None if day is None else datetime.datetime.combine(day, time), "cost": number}
        case _:
            return {"id": id, "age": number}


def rows_of(random: Random) -> Rows:
    """Returns the rows of all."""
    made: Rows = {
        table: [a_row(table, random, id) for id in range(PEOPLE) for _ in range(random.randint(0, most))]
        for table, most in (("labs", 9), ("visits", 6), ("patients", 1))
    }
    return made | {"tests": [{"code": code, "name": f"t{code}"} for code in range(4)]}


def tables_of(rows: Rows) -> dict[str, pa.Table]:
    """Returns the rows as tables, in any order."""
    return {
        table: pa.table({c: pa.array([row[c] for row in rows[table]], type) for c, type in columns.items()})
        for table, columns in TYPES.items()
    }


def block_of(table: str, row: Row, by: By) -> str | None:
    """Returns the block that a row is in; None for all."""
    if table not in DATES:
        return None
    value = row[DATES[table]]
    return name_of(number_of(value, by), by) if isinstance(value, datetime.date) else UNDATED


def neighbour(rows: Rows, block: str, by: By, random: Random, *, unit_is_row: bool, whole: bool) -> Rows:
    """Returns rows that differ in those of one unit in one block; with `whole`, in tables without blocks as well."""
    changed = {table: list(own) for table, own in rows.items()}
    if unit_is_row:
        table = random.choice(["labs", "visits", "patients"] if whole else ["labs", "visits"])
        there = [i for i, row in enumerate(changed[table]) if block_of(table, row, by) in (block, None)]
        if there:
            changed[table].pop(random.choice(there))
        return changed
    id = random.randrange(PEOPLE)
    for table, own in rows.items():
        if table == "tests" or (table == "patients" and not whole):
            continue
        kept = [row for row in own if row["id"] != id or block_of(table, row, by) not in (block, None)]
        tried = [a_row(table, random, id) for _ in range(random.choice([0, 0, 40]))]
        changed[table] = kept + [row for row in tried if block_of(table, row, by) in (block, None)][:8]
    return changed


def a_condition(random: Random, date: str, other: str, number: str) -> str:
    """Returns a condition that restricts a date, or only seems to."""
    day = f"DATE '{a_date(random) or FIRST}'"
    later = f"DATE '{datetime.date(2024, random.randint(1, 7), 1)}'"
    compare = random.choice(["<", "<=", "=", ">=", ">"])
    month = random.randint(1, 6)
    simple = [
        f"{date} {compare} {later}",
        f"{date} {compare} {day}",
        f"{later} {compare} {date}",
        f"{date} BETWEEN {day} AND {later}",
        f"{date} IN ({day}, {later})",
        f"{date} IS NULL",
        f"DATE_TRUNC('month', {date}) = {later}",
        f"EXTRACT(month FROM {date}) = {month}",
        f"EXTRACT(month FROM {date}) IN ({month}, {month + 1})",
        f"EXTRACT(year FROM {date}) = {random.choice([2023, 2024])}",
    ]
    seeming = [
        f"NOT ({date} {compare} {later})",
        f"{other} {compare} {later}",
        f"({date} {compare} {later} OR {number} > 2)",
        f"({date} {compare} {later} OR {date} > {day})",
        f"CASE WHEN {number} > 1 THEN {date} {compare} {later} ELSE TRUE END",
        f"COALESCE({date}, {day}) {compare} {later}",
        f"({date} {compare} {later}) IS NOT TRUE",
        f"{date} {compare} {other}",
        f"{date} <> {day}",
    ]
    parts = [random.choice(simple if random.random() < 0.7 else seeming) for _ in range(random.randint(1, 2))]
    return " AND ".join(parts)


def a_query(random: Random, unit: str) -> str:
    """Returns a query over tables with blocks, or perhaps not."""

    def labs(alias: str = "l") -> str:
        return a_condition(random, f"{alias}.taken", f"{alias}.other", f"{alias}.value")

    visits = a_condition(random, "v.at", "v.at", "v.cost")
    by_row = [
        f"SELECT COUNT(*) AS n, SUM(value) AS s FROM labs l WHERE {labs()}",
        f"SELECT value, COUNT(*) AS n FROM labs l WHERE {labs()} GROUP BY value",
        f"SELECT COUNT(*) AS n FROM visits v WHERE {visits}",
        f"SELECT COUNT(*) FILTER (WHERE {labs()}) AS n FROM labs l",
        f"SELECT DATE_TRUNC('month', taken) AS m, COUNT(*) AS n FROM labs l WHERE {labs()} GROUP BY 1",
        f"SELECT COUNT(*) AS n FROM (SELECT taken AS d, other AS taken, other, value FROM labs) l WHERE {labs()}",
        f"SELECT COUNT(*) AS n FROM (SELECT value FROM labs l WHERE {labs()} UNION ALL SELECT cost FROM visits v WHERE "
        f"{visits}) u",
        f"SELECT COUNT(*) AS n FROM labs l JOIN tests t ON l.value = t.code WHERE {labs()}",
        f"SELECT COUNT(*) AS n FROM labs l LEFT JOIN tests t ON l.value = t.code AND {labs()}",
        f"SELECT (SELECT COUNT(*) FROM labs l WHERE {labs()}) AS a, "
        f"(SELECT COUNT(*) FROM visits v WHERE {visits}) AS b",
        "SELECT COUNT(*) AS n FROM labs",
        "SELECT COUNT(*) AS n FROM patients",
    ]
    where = random.choice(["", f" WHERE {visits}"])
    last = f"(SELECT id, MAX(at) AS at, MAX(cost) AS cost FROM visits v{where} GROUP BY id)"
    where = random.choice(["", f" WHERE {labs()}"])
    first = f"(SELECT id, MIN(taken) AS taken, MAX(other) AS other, MAX(value) AS value FROM labs l{where} GROUP BY id)"
    by_patient = [
        f"SELECT COUNT(*) AS n, SUM(v.cost) AS s FROM labs l JOIN {last} v ON l.id = v.id WHERE {labs()} AND {visits}",
        f"SELECT COUNT(*) AS n, COUNT(v.at) AS k FROM labs l LEFT JOIN {last} v ON l.id = v.id AND {visits} AND "
        f"{labs()}",
        f"SELECT COUNT(*) AS n FROM {first} l LEFT JOIN visits v ON l.id = v.id WHERE {labs()} AND {visits}",
        f"SELECT COUNT(*) AS n FROM labs l FULL JOIN {last} v ON l.id = v.id WHERE {visits}",
        f"SELECT COUNT(*) AS n FROM labs l WHERE {labs()} AND id IN (SELECT id FROM visits v WHERE {visits})",
        f"SELECT COUNT(*) AS n FROM labs l WHERE {labs()} AND NOT EXISTS (SELECT 1 FROM visits v WHERE v.id = l.id AND "
        f"{visits} AND v.at > l.taken)",
        f"SELECT COUNT(*) AS n FROM (SELECT id, MIN(taken) AS taken, MAX(other) AS other, MAX(value) AS value FROM "
        f"labs GROUP BY id) l WHERE {labs()}",
        f"SELECT COUNT(*) AS n FROM (SELECT id, taken, MAX(other) AS other, MAX(value) AS value FROM labs GROUP BY id, "
        f"taken) l WHERE {labs()}",
        f"SELECT SUM(CLAMP(r, 0, 4)) AS s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY taken) AS r FROM "
        f"labs) l WHERE {labs()}",
        f"SELECT COUNT(*) AS n FROM (SELECT *, COUNT(*) OVER (PARTITION BY id, taken) AS r FROM labs) l WHERE {labs()}",
        f"SELECT COUNT(DISTINCT l.id) AS n FROM labs l JOIN (SELECT DISTINCT id FROM patients) p ON l.id = p.id "
        f"WHERE {labs()}",
        f"SELECT MEDIAN(l.value) AS m FROM labs l WHERE {labs()}",
    ]
    return random.choice(by_row if unit == "row" else by_row + by_patient)
