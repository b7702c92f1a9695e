"""Superset from PyPI over a server: a database, datasets, and a dashboard of six charts that is seen in a browser.

Each chart is charged once, though refreshed twenty times. Two users have budgets of their own by way of one delegate.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery as dp
from dpquery.frontends.postgres.login.users import Users
from tests.server.clients.superset import PASSWORD as SUPERSETS
from tests.server.clients.superset import Superset, Visitor, superset
from tests.server.clients.test_owners_page import chromium
from tests.server.serving import CATALOG, PASSWORD, serving

pytestmark = pytest.mark.clients

REFRESHES = 20
PICTURE = "DPQUERY_SUPERSET"
"""Names a file for the screenshot, to keep it: `docs/images/superset.png`."""
DATE = "bought: {type: date, lower: 2023-01-01, upper: 2023-12-31}"
TIME = 'bought: {type: timestamp, lower: "2023-03-01 00:00:00", upper: "2023-03-03 23:59:59"}'
SUM = {
    "expressionType": "SIMPLE",
    "column": {"column_name": "amount", "type": "DOUBLE PRECISION"},
    "aggregate": "SUM",
    "label": "SUM(amount)",
}
CHARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Orders": ("big_number_total", {"metric": "count"}),
    "By region": ("pie", {"metric": "count", "groupby": ["region"], "row_limit": 100, "sort_by_metric": True}),
    "Amounts by hour": (
        "echarts_timeseries_line",
        {"x_axis": "bought", "time_grain_sqla": "PT1H", "metrics": [SUM], "groupby": [], "row_limit": 10000},
    ),
    "Orders by quarter of an hour": (
        "echarts_timeseries_bar",
        {"x_axis": "bought", "time_grain_sqla": "PT15M", "metrics": ["count"], "groupby": [], "row_limit": 10000},
    ),
    "Table": (
        "table",
        {"query_mode": "aggregate", "groupby": ["region"], "metrics": ["count", SUM], "row_limit": 1000},
    ),
    "Days and regions": (
        "pivot_table_v2",
        {
            "groupbyRows": ["region"],
            "groupbyColumns": ["bought"],
            "time_grain_sqla": "P1D",
            "temporal_columns_lookup": {"bought": True},
            "metrics": [SUM],
        },
    ),
}


@dataclass(frozen=True, slots=True)
class Shop:
    """A server over a shop, and Superset beside it."""

    folder: Path
    port: int
    superset: Superset

    def charged(self) -> Counter[str]:
        """How many charges each analyst has, after checking the ledger."""
        ledger = dp.Ledger.open(self.folder / "shop.ledger")
        try:
            ledger.verify()
            return Counter(entry.analyst for entry in ledger.entries())
        finally:
            ledger.close()

    def uri(self, user: str, options: str = "") -> str:
        return f"postgresql+psycopg2://{user}:{quote(PASSWORD)}@127.0.0.1:{self.port}/shop{options}"


def make_shop(folder: Path) -> None:
    """Makes catalog, data, ledger and users, one of whom may act for the others."""
    (folder / "shop.yaml").write_text(CATALOG.replace(DATE, TIME))
    rows = np.arange(4000)
    times = np.datetime64("2023-03-01T00:00:00", "us") + rows % 4320 * np.timedelta64(60_000_000, "us")
    regions = np.array(["east", "north", "south", "west"])[rows % 4]
    table = {"customer": rows // 4, "region": regions, "amount": rows % 500 * 1.0, "bought": times}
    pq.write_table(pa.table(table), folder / "orders.parquet")
    dp.create_ledger(folder / "shop.yaml", folder / "shop.ledger").close()
    users = Users.create(folder / "users.db")
    for name in ("alice", "bob"):
        users.add(name, PASSWORD)
    users.add("superset", PASSWORD, delegate_for=("alice", "bob"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = Path(tmp_path_factory.mktemp("shop"))
    make_shop(folder)
    with serving(folder, "--row-level", "empty") as server, superset(folder / "superset", "alice", "bob") as found:
        yield Shop(folder, server.port, found)


def made_database(user: Visitor, name: str, uri: str, **options: object) -> int:
    """Returns a new database of Superset."""
    asked = {"database_name": name, "sqlalchemy_uri": uri, "expose_in_sqllab": True, **options}
    return int(user.post("database/", asked)["id"])


def made_dataset(user: Visitor, database: int, name: str, **options: object) -> int:
    """Returns a new dataset of Superset: a table, or what `sql` asks."""
    return int(user.post("dataset/", {"database": database, "schema": "public", "table_name": name, **options})["id"])


def made_chart(user: Visitor, dataset: int, name: str, kind: str, options: Mapping[str, Any]) -> int:
    """Returns a new chart, with the query that Superset's browser side makes of its options."""
    asked: dict[str, Any] = {"metrics": options.get("metrics", [options.get("metric")]), "columns": [], "filters": []}
    grain = options.get("time_grain_sqla")
    for column in (
        options.get("x_axis"),
        *(options.get(part, ()) for part in ("groupby", "groupbyRows", "groupbyColumns")),
    ):
        for each in [column] if isinstance(column, str) else column or ():
            asked["columns"].append(_axis(each, grain) if each == "bought" else each)
    asked |= {"row_limit": options.get("row_limit", 10000), "orderby": [[asked["metrics"][0], False]]}
    form = {"datasource": f"{dataset}__table", "viz_type": kind, "adhoc_filters": [], **options}
    context = {"datasource": {"id": dataset, "type": "table"}, "queries": [asked], "form_data": form}
    context |= {"result_format": "json", "result_type": "full"}
    chart = {"slice_name": name, "viz_type": kind, "datasource_id": dataset, "datasource_type": "table"}
    chart |= {"params": json.dumps(form), "query_context": json.dumps(context)}
    return int(user.post("chart/", chart)["id"])


def _axis(column: str, grain: str | None) -> dict[str, object]:
    axis: dict[str, object] = {
        "columnType": "BASE_AXIS",
        "expressionType": "SQL",
        "label": column,
        "sqlExpression": column,
    }
    return axis if grain is None else axis | {"timeGrain": grain}


def refreshed(user: Visitor, chart: int) -> Any:
    """Returns a chart's rows, asked for anew."""
    answer = user.get(f"chart/{chart}/data/?force=true")["result"][0]
    assert answer["status"] == "success", answer
    return answer["data"]


def made_dashboard(user: Visitor, charts: list[int]) -> int:
    """Returns a new dashboard of two rows of three charts."""
    page: dict[str, object] = {"DASHBOARD_VERSION_KEY": "v2"}
    rows = []
    for place in range(0, len(charts), 3):
        row = f"ROW-{place}"
        rows.append(row)
        members = []
        for chart in charts[place : place + 3]:
            members.append(f"CHART-{chart}")
            meta = {"chartId": chart, "width": 4, "height": 40}
            page[members[-1]] = {"id": members[-1], "type": "CHART", "children": [], "meta": meta}
        page[row] = {"id": row, "type": "ROW", "children": members, "meta": {"background": "BACKGROUND_TRANSPARENT"}}
    page["GRID_ID"] = {"id": "GRID_ID", "type": "GRID", "children": rows}
    page["ROOT_ID"] = {"id": "ROOT_ID", "type": "ROOT", "children": ["GRID_ID"]}
    asked = {"dashboard_title": "Orders", "position_json": json.dumps(page), "published": True}
    dashboard = int(user.post("dashboard/", asked)["id"])
    for chart in charts:
        user.put(f"chart/{chart}", {"dashboards": [dashboard]})
    return dashboard


ENTER = """<!doctype html><form method=post action="@ADDRESS@/login/?next=@NEXT@"><input name=username value=alice>
<input name=password value="@PASSWORD@"></form><script>document.forms[0].submit()</script>"""
"""A page that logs in, and goes on to the dashboard."""


def test_six_charts_are_charged_once_however_often_they_are_refreshed(shop: Shop, tmp_path: Path) -> None:
    alice, before = shop.superset.log_in("alice"), shop.charged()
    database = made_database(alice, "shop", shop.uri("alice"))
    assert "public" in alice.get(f"database/{database}/schemas/")["result"]
    dataset = made_dataset(alice, database, "orders")
    columns = {column["column_name"] for column in alice.get(f"dataset/{dataset}")["result"]["columns"]}
    assert columns == {"customer", "region", "amount", "bought"}
    assert shop.charged() == before, "databases and datasets are free"
    charts = [made_chart(alice, dataset, name, *what) for name, what in CHARTS.items()]
    paid = [refreshed(alice, chart) for chart in charts]
    assert [len(rows) for rows in paid] == [1, 4, 72, 288, 4, 12]
    assert abs(paid[0][0]["count"] - 4000) < 2000
    charged = shop.charged()
    assert charged - before == {"alice": len(charts)}
    rounds = [[refreshed(alice, chart) for chart in charts] for _ in range(REFRESHES)]
    assert all(found == rounds[0] for found in rounds)
    assert shop.charged() == charged, "a refresh is free; later charts made earlier ones more exact"

    dashboard = made_dashboard(alice, charts)
    page = tmp_path / "enter.html"
    enter = ENTER.replace("@ADDRESS@", shop.superset.address).replace("@PASSWORD@", SUPERSETS)
    page.write_text(enter.replace("@NEXT@", quote(f"/superset/dashboard/{dashboard}/?standalone=1")))
    picture = Path(os.environ.get(PICTURE, tmp_path / "superset.png"))
    options = ("--window-size=1400,1000", "--virtual-time-budget=60000", f"--screenshot={picture}")
    chromium(tmp_path, *options, f"file://{page}")
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 30_000
    asked = re.findall(r'POST /api/v1/chart/data\?form_data=.* HTTP.*" (\d+)', shop.superset.log.read_text())
    assert asked == ["200"] * len(charts)
    assert shop.charged() == charged, "the browser asks what the interface asked"


def test_users_have_budgets_of_their_own_by_one_delegate(shop: Shop) -> None:
    alice, bob = shop.superset.log_in("alice"), shop.superset.log_in("bob")
    uri = shop.uri("superset", "?options=-c%20dpquery.login%3Dsuperset")
    database = made_database(alice, "shared", uri, impersonate_user=True)
    dataset = made_dataset(alice, database, "shared orders", sql="SELECT * FROM orders")
    before = shop.charged()
    for payer, aggregate in ((alice, "MIN"), (bob, "MAX")):
        metric = SUM | {"aggregate": aggregate, "label": aggregate}
        chart = made_chart(alice, dataset, aggregate, "big_number_total", {"metric": metric})
        for user in (payer, alice, bob):
            refreshed(user, chart)
    assert shop.charged() - before == {"alice": 1, "bob": 1}, "who asks first pays, and the answer is free for all"


def test_a_virtual_dataset_of_rows_answers_aggregates_and_has_no_samples(shop: Shop) -> None:
    alice = shop.superset.log_in("alice")
    database = made_database(alice, "virtual", shop.uri("alice"))
    before = shop.charged()
    sql = "SELECT region, amount, bought FROM orders WHERE amount > 100"
    dataset = made_dataset(alice, database, "large orders", sql=sql)
    context = {"datasource": {"id": dataset, "type": "table"}, "result_format": "json", "result_type": "samples"}
    samples = alice.post("chart/data", context | {"queries": [{"columns": [], "metrics": []}]})["result"][0]
    assert samples["data"] == [] and set(samples["colnames"]) == {"region", "amount", "bought"}
    assert shop.charged() == before
    chart = made_chart(alice, dataset, "Large", *CHARTS["By region"])
    assert {row["region"] for row in refreshed(alice, chart)} == {"east", "north", "south", "west"}
    assert shop.charged() - before == {"alice": 1}
