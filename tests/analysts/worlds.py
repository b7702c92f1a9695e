"""Small synthetic data of the five schemas, the same at each run; sessions and plain DuckDB over them."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

import dpquery as dp
from dpquery.data.arrow import arrow_type

HERE = Path(__file__).parent
LEDGERS = tempfile.TemporaryDirectory(prefix="dpquery-analysts-")
Rows = list[tuple[Any, ...]]
UNITS = 150


@cache
def session_of(name: str) -> dp.Session:
    """Returns the one session over a schema."""
    catalog = dp.Catalog.load(HERE / f"{name}.yaml")
    return dp.connect(
        catalog, sources=tables_of(name), ledger=Path(LEDGERS.name) / f"{name}.ledger", create=True, reuse=False
    )


@cache
def tables_of(name: str) -> dict[str, pa.Table]:
    """Returns the tables of a schema, every column as it is declared."""
    declared, made = dp.Catalog.load(HERE / f"{name}.yaml").tables, _MAKERS[name](Random(7))
    tables = {}
    for table in declared.values():
        columns = zip(table.columns.values(), zip(*made[table.name], strict=True), strict=True)
        tables[table.name] = pa.table({c.name: pa.array(values, type=arrow_type(c.type)) for c, values in columns})
    return tables


@cache
def plain_engine(name: str) -> duckdb.DuckDBPyConnection:
    """Returns DuckDB over the same rows, with the functions that other dialects' texts are translated to."""
    engine = duckdb.connect(":memory:")
    engine.execute("SET TimeZone = 'UTC'")
    schema = dp.Catalog.load(HERE / f"{name}.yaml").dataset
    engine.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for table, data in tables_of(name).items():
        engine.register(table, data)
        engine.execute(f"CREATE VIEW {schema}.{table} AS SELECT * FROM main.{table}")
    bounded = "CASE WHEN x IS NULL THEN NULL ELSE greatest(least(x, high), low) END"
    engine.execute(f"CREATE MACRO clamp(x, low, high) AS {bounded}")
    return engine


def _moment(random: Random, first: date, last: date) -> datetime.datetime:
    seconds = random.randrange((last - first).days * 86400)
    return datetime.datetime.combine(first, datetime.time()) + timedelta(seconds=seconds)


def _day(random: Random, first: date, last: date) -> date:
    return first + timedelta(days=random.randrange((last - first).days))


def _cents(random: Random, most: int) -> Decimal:
    return Decimal(random.randrange(most * 100)) / 100


def _hospital(random: Random) -> dict[str, Rows]:
    icd = [
        ("I10", "hypertension", "circulatory"),
        ("I21", "infarction", "circulatory"),
        ("J18", "pneumonia", "respiratory"),
        ("E11", "diabetes", "endocrine"),
        ("S72", "hip fracture", "injury"),
    ]
    wards = [("A1", "medicine", 30), ("A2", "medicine", 24), ("C1", "cardiology", 20), ("S1", "surgery", 28)]
    patients: Rows = []
    admissions: Rows = []
    measurements: Rows = []
    prescriptions: Rows = []
    for i in range(1, UNITS + 1):
        born, smoker = _day(random, date(1930, 1, 1), date(2015, 1, 1)), random.choice([True, False, False, None])
        size = round(random.uniform(120, 200)) if random.random() < 0.9 else None
        died = _day(random, date(2022, 1, 1), date(2024, 12, 31)) if random.random() < 0.1 else None
        region, payer = (
            random.choice(["north", "east", "south", "west"]),
            random.choice(["public", "public", "private"]),
        )
        weight, gp = round(random.uniform(30, 120)), random.choice(["Dr Abel", "Dr Baum", "Dr Cole"])
        patients.append((i, born, random.choice("FM"), region, smoker, payer, size, weight, died, gp))
        for _ in range(random.choice([0, 1, 1, 2, 3, 5])):
            key, came = len(admissions) + 1, _moment(random, date(2022, 1, 1), date(2024, 12, 20))
            stayed = timedelta(hours=random.randrange(4, 500)) if random.random() < 0.95 else None
            ward, kind = random.choice(wards)[0], random.choice(["emergency", "emergency", "elective", "transfer"])
            outcome = random.choice(["home", "home", "care", "died"]) if stayed else None
            gone = None if stayed is None else came + stayed
            admissions.append((key, i, ward, kind, random.choice(icd)[0], came, gone, _cents(random, 20000), outcome))
            for _ in range(random.randrange(3)):
                drug = random.choice(["amoxicillin", "ibuprofen", "insulin", "metformin", "warfarin"])
                prescriptions.append((key, drug, random.randrange(5, 1000), random.randrange(1, 60)))
        for _ in range(random.randrange(6)):
            kind, value = random.choice([("heart_rate", 80), ("systolic", 130), ("temperature", 37), ("glucose", 90)])
            taken = _moment(random, date(2022, 1, 1), date(2024, 12, 31))
            measurements.append((i, kind, round(value * random.uniform(0.8, 1.3)), taken))
    return {"patients": patients, "admissions": admissions, "measurements": measurements,
            "prescriptions": prescriptions, "icd": icd, "wards": wards}  # fmt: skip


def _shop(random: Random) -> dict[str, Rows]:
    products: Rows = [
        (i, f"thing {i}", random.choice(["toys", "books", "garden"]), _cents(random, 300)) for i in range(1, 13)
    ]
    customers: Rows = []
    orders: Rows = []
    items: Rows = []
    for i in range(1, UNITS + 1):
        joined, age = _day(random, date(2021, 1, 1), date(2024, 12, 1)), random.randrange(18, 90) if i % 9 else None
        country, city = random.choice(["DE", "FR", "IT", "NL"]), random.choice(["Bonn", "Lyon", "Rome"])
        segment = random.choice(["consumer", "consumer", "corporate"])
        customers.append((i, country, city, joined, segment, random.random() < 0.4, age))
        for _ in range(random.choice([0, 1, 2, 3, 4, 8])):
            key, at = len(orders) + 1, _moment(random, date(2022, 1, 1), date(2024, 12, 20))
            sent = at + timedelta(hours=random.randrange(1, 400)) if random.random() < 0.8 else None
            status, channel = (
                random.choice(["paid", "shipped", "returned", "cancelled"]),
                random.choice(["web", "app", "phone"]),
            )
            coupon = random.choice([None, None, "SPRING", "WELCOME"])
            orders.append((key, i, at, sent, status, channel, _cents(random, 1500), coupon))
            for product in random.sample(products, random.randrange(1, 4)):
                items.append((key, product[0], random.randrange(1, 10), product[3]))
    return {"customers": customers, "orders": orders, "order_items": items, "products": products}


def _app(random: Random) -> dict[str, Rows]:
    steps = {
        "open": None,
        "signup": 1,
        "view_pricing": 2,
        "start_trial": 3,
        "purchase": 4,
        "share": None,
        "crash": None,
    }
    areas = {"open": "core", "crash": "core", "share": "social"}
    types: Rows = [(event, areas.get(event, "funnel"), step) for event, step in steps.items()]
    users: Rows = []
    events: Rows = []
    payments: Rows = []
    for i in range(1, UNITS + 1):
        id, signed = f"u{i:04}", _moment(random, date(2024, 1, 1), date(2024, 6, 1))
        plan = random.choice(["free", "free", "pro", "team"])
        referrer = random.choice([None, "https://ads.example/a", "https://news.example/b", "friend"])
        users.append((id, signed, random.choice(["us", "gb", "de", "br"]), plan, referrer))
        for _ in range(random.randrange(12)):
            at = signed + timedelta(seconds=random.randrange(29 * 86400))
            long = random.randrange(300000) if random.random() < 0.8 else None
            version = random.choice(["1.0.3", "1.1.0", "2.0.1"])
            platform = random.choice(["ios", "android", "web"])
            session = i * 10 + random.randrange(3)
            events.append((len(events) + 1, id, random.choice(types)[0], at, session, platform, version, long))
        for _ in range(0 if plan == "free" else random.randrange(4)):
            payments.append((id, _day(random, signed.date(), date(2024, 6, 30)), random.randrange(400) / 4, plan))
    return {"users": users, "events": events, "payments": payments, "event_types": types}


def _hr(random: Random) -> dict[str, Rows]:
    departments = [("sales", "market", 900000), ("engineering", "product", 3000000), ("design", "product", 500000),
                   ("finance", "office", 400000)]  # fmt: skip
    employees: Rows = []
    absences: Rows = []
    reviews: Rows = []
    trainings: Rows = []
    for i in range(1, UNITS + 1):
        hired = _day(random, date(2012, 1, 1), date(2024, 1, 1))
        left = _day(random, hired, date(2024, 12, 31)) if random.random() < 0.25 else None
        title, born = random.choice(["junior", "junior", "senior", "lead", "manager"]), random.randrange(1956, 2003)
        department, site = random.choice(departments)[0], random.choice(["Berlin", "Porto", "Turin"])
        pay, boss = random.randrange(22000, 180000), random.randrange(1, 20) if i > 20 else None
        employees.append((i, hired, left, department, title, pay, born, random.choice("ffmmx"), site, i % 5 == 0, boss))
        for _ in range(random.randrange(5)):
            start = _day(random, date(2023, 1, 1), date(2024, 12, 31))
            absences.append(
                (i, start, start + timedelta(days=random.randrange(15)), random.choice(["sick", "holiday", "parental"]))
            )
        reviews += [(i, year, random.randrange(1, 6)) for year in range(2021, 2025) if random.random() < 0.8]
        for _ in range(random.randrange(4)):
            course, day = (
                random.choice(["safety", "sql", "leadership", "french"]),
                _day(random, date(2021, 1, 1), date(2024, 12, 31)),
            )
            trainings.append((i, course, day, random.randrange(1, 160) / 2))
    return {"employees": employees, "absences": absences, "reviews": reviews, "trainings": trainings,
            "departments": departments}  # fmt: skip


def _transport(random: Random) -> dict[str, Rows]:
    stations: Rows = [
        (f"S{i}", i % 6 + 1, random.choice(["centre", "harbour", "hills"]), 53 + i / 100, 10 + i / 100)
        for i in range(8)
    ]
    lines = [("U1", "metro", 900), ("U2", "metro", 900), ("B5", "bus", 80), ("T3", "tram", 220)]
    days = [date(2024, 1, 1) + timedelta(days=i) for i in range(91)]
    weather: Rows = [(day, random.choice([0, 0, 0, 2.5, 12]), random.randrange(-5, 18)) for day in days]
    cards: Rows = []
    trips: Rows = []
    for i in range(1, UNITS + 1):
        product, issued = (
            random.choice(["adult", "adult", "student", "senior"]),
            _day(random, date(2020, 1, 1), date(2024, 3, 1)),
        )
        cards.append((i, product, random.randrange(1, 7), issued, random.random() < 0.5))
        for _ in range(random.randrange(14)):
            at, origin, line = _moment(random, days[0], days[-1]), random.choice(stations)[0], random.choice(lines)[0]
            done = random.random() < 0.9
            out, to = (
                (at + timedelta(minutes=random.randrange(3, 90)), random.choice(stations)[0]) if done else (None, None)
            )
            fare, late = Decimal(random.randrange(5, 60)) / 4, max(0, random.randrange(-20, 40))
            trips.append((len(trips) + 1, i, at, out, origin, to, line, fare, late))
    return {"cards": cards, "trips": trips, "stations": stations, "lines": lines, "weather": weather}


_MAKERS: dict[str, Callable[[Random], dict[str, Rows]]] = {
    "hospital": _hospital, "shop": _shop, "app": _app, "hr": _hr, "transport": _transport,
}  # fmt: skip
