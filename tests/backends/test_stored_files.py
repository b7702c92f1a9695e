"""Files of object stores and web servers, packed CSV files, deep globs, Delta and Iceberg tables as sources."""

from __future__ import annotations

import gzip
import importlib
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.feather as feather
import pyarrow.fs as fs
import pyarrow.parquet as parquet
import pytest

import dpquery as dp
from dpquery.data.stores import ObjectStore
from tests.scripted import zero_noise

CATALOG = dp.Catalog.from_yaml("""
version: 2
dataset: shop
privacy_unit: person
budget: {epsilon: 1000}
tables:
  orders: {unit: id, max_rows: 5, columns: {id: {type: int64}, cost: {type: int64, lower: 0, upper: 10}}}
""")
ORDERS = pa.table({"id": [1, 2, 3, 3], "other": [*"abcd"], "cost": [1, 2, 3, 40]})
MORE = pa.table({"id": [4], "other": ["e"], "cost": [5]})
QUERY = "SELECT COUNT(*) AS n, SUM(cost) AS cost FROM orders"
SECRET = "canary-key-7731"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)


def session(folder: Path, source: Any) -> dp.Session:
    return dp.connect(CATALOG, {"orders": source}, ledger=folder / "ledger", create=True, reuse=False)


def asked(of: dp.Session) -> list[int]:
    return [int(value) for value in of.sql(QUERY, epsilon=1).to_pandas().iloc[0]]


def answered(folder: Path, source: Any) -> list[int]:
    with session(folder, source) as opened:
        return asked(opened)


def refused(folder: Path, source: Any) -> str:
    with pytest.raises(dp.DPQueryError) as caught:
        session(folder, source)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return str(caught.value)


def csv(table: pa.Table) -> bytes:
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    return "".join(",".join(map(str, row)) + "\n" for row in [table.column_names, *rows]).encode()


# Files of this machine.


def test_packed_csv_files_are_read_line_by_line_as_others(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(csv(ORDERS)))
    (tmp_path / "b.csv").write_bytes(csv(MORE))
    assert answered(tmp_path, tmp_path / "a.csv.gz") == [4, 16]
    assert answered(tmp_path, str(tmp_path / "*.csv*")) == [5, 21]


def test_a_packed_file_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(csv(ORDERS))
    for place, data in enumerate((whole[:-9], whole[:20], csv(ORDERS), whole[:40] + bytes(len(whole) - 40))):
        (tmp_path / f"{place}.csv.gz").write_bytes(data)
        assert "cannot be unpacked" in refused(tmp_path, tmp_path / f"{place}.csv.gz")
    (tmp_path / "x.parquet.gz").write_bytes(whole)
    assert "unknown ending" in refused(tmp_path, tmp_path / "x.parquet.gz")


def test_two_stars_reach_through_folders(tmp_path: Path) -> None:
    (tmp_path / "data" / "2024" / "05").mkdir(parents=True)
    parquet.write_table(ORDERS, tmp_path / "data" / "a.parquet")
    parquet.write_table(MORE, tmp_path / "data" / "2024" / "05" / "b.parquet")
    assert answered(tmp_path, str(tmp_path / "data" / "**" / "*.parquet")) == [5, 21]
    assert answered(tmp_path, str(tmp_path / "data" / "*.parquet")) == [4, 16]
    (tmp_path / "data" / "2024" / "c.csv").write_bytes(csv(MORE))
    assert "of several kinds" in refused(tmp_path, str(tmp_path / "data" / "**" / "*.*"))


def test_a_reader_and_a_dataset_elsewhere_are_read_once(tmp_path: Path) -> None:
    assert answered(tmp_path, ORDERS.to_reader(max_chunksize=1)) == [4, 16]
    parquet.write_table(ORDERS, tmp_path / "a.parquet")
    elsewhere = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    with session(tmp_path, pads.dataset("a.parquet", filesystem=elsewhere)) as opened:
        parquet.write_table(MORE, tmp_path / "a.parquet")
        assert asked(opened) == [4, 16]


# Files of an object store.


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[Any, str]]:
    """The file system of a bucket on a server of S3's protocol, and what leads to it in addresses."""
    server = importlib.import_module("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "known")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        system, _ = fs.FileSystem.from_uri(f"s3://shop?{options}")
        system.create_dir("shop")
        yield system, options
    server.stop()


def put(system: Any, path: str, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    if path.endswith(".parquet"):
        parquet.write_table(table, sink)
    elif path.endswith(".feather"):
        feather.write_feather(table, sink)
    else:
        sink.write(gzip.compress(csv(table)) if path.endswith(".gz") else csv(table))
    with system.open_output_stream(path, compression=None) as stream:
        stream.write(sink.getvalue())


def test_files_of_a_bucket(bucket: tuple[Any, str], tmp_path: Path) -> None:
    system, options = bucket
    for name in ("a.parquet", "a.csv", "a.csv.gz", "a.feather", "deep/x/1.parquet", "deep/.hidden.parquet"):
        put(system, f"shop/{name}", ORDERS)
    put(system, "shop/deep/x/y/2.parquet", MORE)
    expected = {
        "a.parquet": [4, 16],
        "a.csv": [4, 16],
        "a.csv.gz": [4, 16],
        "a.feather": [4, 16],
        "deep": [5, 21],
        "deep/": [5, 21],
        "deep/**/*.parquet": [5, 21],
        "deep/x/*.parquet": [4, 16],
        "**/2.parquet": [1, 5],
    }
    found = {name: answered(tmp_path, f"s3://shop/{name}?{options}") for name in expected}
    assert found == expected


def test_an_object_that_is_replaced_is_read_as_it_was(bucket: tuple[Any, str], tmp_path: Path) -> None:
    system, options = bucket
    put(system, "shop/b.parquet", ORDERS)
    with session(tmp_path, f"s3://shop/b.parquet?{options}") as opened:
        put(system, "shop/b.parquet", MORE)
        assert asked(opened) == [4, 16]
        system.delete_file("shop/b.parquet")
        assert asked(opened) == [4, 16]


def test_an_object_that_is_replaced_while_it_is_read_is_refused(
    bucket: tuple[Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, options = bucket
    check = ObjectStore.check

    def replacing(store: ObjectStore) -> None:
        put(system, "shop/c.parquet", MORE)
        check(store)

    put(system, "shop/c.parquet", ORDERS)
    monkeypatch.setattr(ObjectStore, "check", replacing)
    assert "was changed while it was read" in refused(tmp_path, f"s3://shop/c.parquet?{options}")


def test_what_a_bucket_refuses_is_said_without_its_keys(bucket: tuple[Any, str], tmp_path: Path) -> None:
    system, options = bucket
    put(system, "shop/bad.parquet", ORDERS)
    put(system, "shop/mixed/a.parquet", ORDERS)
    put(system, "shop/mixed/b.parquet", MORE.rename_columns(["id", "other", "price"]))
    with system.open_output_stream("shop/bad.parquet") as stream:
        stream.write(b"PAR1 canary PAR1")
    said = {
        "nothing.parquet": "does not exist",
        "nothing/*.parquet": "does not exist",
        "bad.parquet": "cannot be read: ArrowInvalid",
        "mixed": "different columns",
        "deep/x.zip": "does not exist",
    }
    for name, words in said.items():
        told = refused(tmp_path, f"s3://shop/{name}?{options}")
        assert words in told and f"s3://shop/{name}," in told and "canary" not in told
    assert "canary" not in refused(tmp_path, f"s3://known:{SECRET}@other/a.parquet?{options}")


def test_prepared_data_of_a_bucket(bucket: tuple[Any, str], tmp_path: Path) -> None:
    system, options = bucket
    put(system, "shop/d.parquet", ORDERS)
    ledger = dp.create_ledger(CATALOG, tmp_path / "ledger")
    folder = dp.prepare(CATALOG, {"orders": f"s3://shop/d.parquet?{options}"}, tmp_path / "p", ledger=ledger)
    with dp.connect(CATALOG, folder, ledger=ledger) as opened:
        assert asked(opened) == [4, 16]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


# Files of a web server.


class Handler(SimpleHTTPRequestHandler):
    """Gives files, half of a file, and a way elsewhere; writes no log."""

    def do_GET(self) -> None:
        if "half" in self.path:
            data = csv(ORDERS)
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[:20])
        elif "away" in self.path:
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_files_of_a_web_server(tmp_path: Path) -> None:
    folder = tmp_path / "web"
    folder.mkdir()
    parquet.write_table(ORDERS, folder / "a.parquet")
    (folder / "a.csv.gz").write_bytes(gzip.compress(csv(ORDERS)))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        with session(tmp_path, f"{place}/a.parquet?X-Signature={SECRET}") as opened:
            parquet.write_table(MORE, folder / "a.parquet")
            assert asked(opened) == [4, 16]
        assert answered(tmp_path, f"{place}/a.csv.gz") == [4, 16]
        for name, words in {"no.csv": "404", "half.csv": "IncompleteRead", "away.csv": "302", "web": "ending"}.items():
            (folder / "web").touch()
            told = refused(tmp_path, f"{place}/{name}?X-Signature={SECRET}")
            assert words in told and "canary" not in told
        server.shutdown()
    assert "cannot be read: URLError" in refused(tmp_path, f"{place}/a.parquet")


# Tables with versions.


def test_delta_tables_are_read_at_one_version(tmp_path: Path) -> None:
    write = importlib.import_module("deltalake").write_deltalake
    place = str(tmp_path / "orders")
    write(place, ORDERS)
    write(place, MORE, mode="overwrite")
    assert len(list(Path(place).glob("*.parquet"))) == 2, "a folder of files would have the old rows too"
    assert answered(tmp_path, place) == [1, 5]
    assert answered(tmp_path, f"{place}@v0") == [4, 16]
    table = importlib.import_module("deltalake").DeltaTable(place, version=0)
    with session(tmp_path, table) as opened:
        write(place, MORE, mode="overwrite")
        table.update_incremental()
        assert asked(opened) == [4, 16]
    assert "cannot be read" in refused(tmp_path, f"{place}@v9")


def test_two_versions_of_one_table_are_not_private_and_public(tmp_path: Path) -> None:
    text = """
version: 2
dataset: twice
privacy_unit: person
budget: {epsilon: 1}
tables:
  orders: {unit: id, max_rows: 5, columns: {id: {type: int64}}}
  known: {public: true, columns: {cost: {type: int64}}}
"""
    place = str(tmp_path / "orders")
    for table in (ORDERS, MORE):
        importlib.import_module("deltalake").write_deltalake(place, table, mode="append")
    sources = {"orders": place, "known": f"{place}@v0"}
    with pytest.raises(dp.CatalogError, match="has the same file"):
        dp.connect(dp.Catalog.from_yaml(text), sources, ledger=tmp_path / "ledger", create=True)


def test_iceberg_tables_are_read_at_one_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    sql = importlib.import_module("pyiceberg.catalog.sql")
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = sql.SqlCatalog("mine", uri=uri, warehouse=f"file://{tmp_path}/lake")
    request.addfinalizer(catalog.engine.dispose)
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", schema=ORDERS.schema)
    table.append(ORDERS)
    first, metadata = table.current_snapshot().snapshot_id, table.metadata_location.removeprefix("file://")
    table.overwrite(MORE)
    with session(tmp_path, table) as opened:
        table.append(MORE)
        assert asked(opened) == [1, 5]
    assert answered(tmp_path, metadata) == [4, 16]
    newest = table.metadata_location.removeprefix("file://")
    assert answered(tmp_path, newest) == [2, 10]
    assert answered(tmp_path, f"{newest}@v{first}") == [4, 16]
    assert "metadata/*.metadata.json" in refused(tmp_path, Path(table.location().removeprefix("file://")))
    monkeypatch.setenv("PYICEBERG_CATALOG__MINE__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__MINE__TYPE", "sql")
    known = importlib.import_module("pyiceberg.catalog")
    monkeypatch.setattr(known, "_ENV_CONFIG", importlib.import_module("pyiceberg.utils.config").Config())
    assert answered(tmp_path, "iceberg://mine/sales.orders") == [2, 10]
    assert answered(tmp_path, f"iceberg://mine/sales.orders@v{first}") == [4, 16]
    assert "cannot be read" in refused(tmp_path, "iceberg://mine/sales.orders@v1")


@pytest.mark.parametrize(("module", "extra"), [("deltalake", "delta"), ("pyiceberg.catalog", "iceberg")])
def test_a_missing_package_says_how_it_is_installed(
    module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders" / "_delta_log").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, module, None)
    source = str(tmp_path / "orders") if extra == "delta" else "iceberg://mine/sales.orders"
    assert f"pip install 'dpquery[{extra}]'" in refused(tmp_path, source)
