"""pgAdmin 4 without a browser: opens the server, its trees and the query tool, as its pages ask for them.

Runs in an environment of pgAdmin's own. Prints one line of JSON: how many different statements were sent, which of them
failed, and what the query tool showed.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

PACKAGE: Any = importlib.util.find_spec("pgadmin4")
ROOT = str(Path(PACKAGE.submodule_search_locations[0])) if PACKAGE else ""
DATA = Path(os.environ.get("PGADMIN_DATA", "."))
COUNT = "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex"
PLACES = ("obj", "sql", "stats", "dependency", "dependent")
IN_DATABASE = "cast event_trigger extension foreign_data_wrapper language publication subscription catalog schema"
IN_SCHEMA = (
    "aggregate collation domain foreign_table fts_configuration fts_dictionary fts_parser fts_template function "
    "operator procedure trigger_function sequence type view mview table"
)
IN_TABLE = "column index primary_key unique_constraint exclusion_constraint trigger rule row_security_policy partition"
CHARTS = "session_stats,tps_stats,ti_stats,to_stats,bio_stats"


def configure() -> None:
    """Writes the settings of an installation for one person."""
    places = {"DATA_DIR": "", "SQLITE_PATH": "pgadmin4.db", "LOG_FILE": "log", "SESSION_DB_PATH": "sessions"}
    places["STORAGE_DIR"] = "storage"
    lines = [f"{name} = {str(DATA / place)!r}" for name, place in places.items()]
    lines += [f"{name} = False" for name in ("WTF_CSRF_ENABLED", "MASTER_PASSWORD_REQUIRED", "USE_OS_SECRET_STORAGE")]
    DATA.mkdir(parents=True)
    (DATA / "config_local.py").write_text("\n".join([*lines, "UPGRADE_CHECK_ENABLED = False", ""]))
    sys.path[:0] = [ROOT, str(DATA)]
    os.chdir(ROOT)
    setattr(builtins, "SERVER_MODE", False)  # noqa: B010


def watched() -> list[tuple[str, str | None]]:
    """Returns a list to which each statement is added, with its error or None."""
    psycopg: Any = importlib.import_module("psycopg")
    sent: list[tuple[str, str | None]] = []

    def text_of(query: Any, cursor: Any) -> str:
        if isinstance(query, bytes):
            return query.decode()
        return query if isinstance(query, str) else str(query.as_string(cursor))

    plain, waiting = psycopg.Cursor.execute, psycopg.AsyncCursor.execute

    def execute(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        try:
            made = plain(self, query, params, **options)
        except psycopg.Error as error:
            sent.append((text_of(query, self), str(error)))
            raise
        sent.append((text_of(query, self), None))
        return made

    async def execute_later(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        try:
            made = await waiting(self, query, params, **options)
        except psycopg.Error as error:
            sent.append((text_of(query, self), str(error)))
            raise
        sent.append((text_of(query, self), None))
        return made

    psycopg.Cursor.execute, psycopg.AsyncCursor.execute = execute, execute_later
    return sent


class Pages:
    """pgAdmin's pages, asked for as its scripts do."""

    def __init__(self) -> None:
        config: Any = importlib.import_module("config")  # before anything of pgAdmin's, which reads it
        assert str(DATA) == config.DATA_DIR
        app = importlib.import_module("pgadmin").create_app()
        app.PGADMIN_INT_KEY, app.PGADMIN_RUNTIME = "", False
        app.config["WTF_CSRF_ENABLED"] = False
        app.run_before_app_start()
        self.client = app.test_client()
        self.client.get("/", follow_redirects=True)

    def get(self, place: str) -> Any:
        try:
            return self.client.get(place).get_json(silent=True)
        except (TypeError, UnboundLocalError):  # pgAdmin's own, where a table has no constraints
            return None

    def post(self, place: str, **data: Any) -> Any:
        return self.client.post(place, data=json.dumps(data), content_type="application/json").get_json(silent=True)

    def nodes(self, kind: str, place: str) -> dict[str, int]:
        listed = self.get(f"/browser/{kind}/nodes/{place}/")
        self.get(f"/browser/{kind}/obj/{place}/")
        found = listed.get("data") if isinstance(listed, dict) else None
        return {node["label"]: node["_id"] for node in found or []}

    def look_at(self, kind: str, place: str, *places: str) -> None:
        for what in places or PLACES:
            self.get(f"/browser/{kind}/{what}/{place}")


def browse(pages: Pages, server: str, database: str) -> None:
    """Opens everything in the tree."""
    for kind in ("role", "tablespace"):
        for found in pages.nodes(kind, server).values():
            pages.look_at(kind, f"{server}/{found}")
    pages.look_at("database", database)
    trees = {kind: pages.nodes(kind, database) for kind in IN_DATABASE.split()}
    for kind in ("catalog", "schema"):
        for place in trees[kind].values():
            pages.look_at(kind, f"{database}/{place}")
    schema = f"{database}/{trees['schema']['public']}"
    in_schema = {kind: pages.nodes(kind, schema) for kind in IN_SCHEMA.split()}
    table = f"{schema}/{in_schema['table']['patients']}"
    pages.look_at("table", table, *PLACES, "select_sql", "insert_sql")
    for kind in IN_TABLE.split():
        for column in list(pages.nodes(kind, table).values())[:2]:
            pages.look_at(kind, f"{table}/{column}")


def ask(pages: Pages, server: int, database: int, text: str, **explain: Any) -> Any:
    """Returns what the query tool shows for a statement."""
    number = uuid.uuid4().int % 10_000_000
    person = {"user": os.environ["USER_"], "role": None, "password": os.environ["PASSWORD"]}
    pages.post(
        f"/sqleditor/initialize/sqleditor/{number}/1/{server}/{database}", **person, dbname=os.environ["DATABASE"]
    )
    pages.post(f"/sqleditor/query_tool/start/{number}", sql=text, explain_plan=explain or None)
    for _ in range(600):
        seen = pages.get(f"/sqleditor/poll/{number}")
        if (seen.get("data") or {}).get("status") != "Busy":
            return seen
        time.sleep(0.1)
    raise TimeoutError(text)


def main() -> None:
    configure()
    sent, pages = watched(), Pages()
    options: dict[str, Any] = {
        "host": os.environ["HOST"],
        "port": int(os.environ["PORT"]),
        "username": os.environ["USER_"],
    }
    options |= {"db": os.environ["DATABASE"], "password": os.environ["PASSWORD"], "save_password": 0, "role": None}
    options |= {"connect_now": True, "kerberos_conn": False, "shared": False, "name": "dp", "comment": ""}
    made = pages.post("/browser/server/obj/1/", **options, connection_params={"sslmode": "prefer"})
    number = made["node"]["_id"]
    server = f"1/{number}"
    (oid,) = pages.nodes("database", server).values()
    pages.post(f"/browser/database/connect/{server}/{oid}")
    browse(pages, server, f"{server}/{oid}")
    for part in ("activity", "locks", "prepared", "config"):
        pages.get(f"/dashboard/{part}/{number}/{oid}")
    pages.get(f"/dashboard/dashboard_stats/{number}/{oid}?chart_names={CHARTS}")
    pages.get(f"/search_objects/search/{number}/{oid}?text=pat&type=all")
    shown = ask(pages, number, oid, COUNT)["data"]["result"]
    plan = ask(pages, number, oid, COUNT, format="json", analyze=False, verbose=False, costs=False)["data"]["result"]
    refused = ask(pages, number, oid, "SELECT * FROM patients")["errormsg"]
    failed = [(text, said) for text, said in sent if said and "single patient" not in said]
    seen = {
        "statements": len({text for text, _ in sent}),
        "failed": failed,
        "shown": shown,
        "plan": plan,
        "refused": refused,
    }
    print("\n" + json.dumps(seen), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
