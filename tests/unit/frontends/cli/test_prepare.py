"""`dpquery prepare`, and commands over the folder that it writes."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from dpquery import dbapi
from dpquery.frontends.cli.main import run
from dpquery.frontends.postgres.engine.engine import open_engine
from tests.attacks.test_prepared import CATALOG, COUNT, sources
from tests.scripted import zero_noise


def test_a_folder_is_prepared_and_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    catalog, into = tmp_path / "shop.yaml", tmp_path / "shop.prepared"
    catalog.write_text(CATALOG)
    for name, frame in sources().items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
    assert run(["ledger", "create", str(catalog)]) == 0
    assert run(["prepare", str(catalog), "--into", str(into), "--shards", "2"]) == 0
    said = capsys.readouterr()
    assert "items: shard 2 of 2; about 0 s left\nverified" in said.err and f"--source {into}" in said.out
    for name in sources():
        (tmp_path / f"{name}.parquet").unlink()
    assert run(["query", str(catalog), COUNT, "--epsilon", "1", "--source", str(into), "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ['"n"', "60"]
    ledger = str(tmp_path / "shop.ledger")
    words = {"key": None, "memory_limit": None, "spill": True, "row_level": "error", "most_epsilon": None, "workers": 1}
    with open_engine({"catalog": str(catalog), "sources": str(into), "ledger": ledger, **words}) as (_, facts):
        assert facts == {"dataset": "shop"}
    assert run(["check", str(catalog), "--source", str(into)]) == 0
    assert f"Data, readable as declared\n  orders: {into}\n" in capsys.readouterr().out
    program = "import sys; from dpquery.__main__ import main\ntry: main()\nfinally: print('pandas' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", program, "shell", catalog, "--source", into],
        input="\\budget\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "left" in told.stdout and told.stdout.endswith("False\n"), "what takes half a second is not loaded"
    with dbapi.connect(catalog, into) as connection:
        assert connection.execute(COUNT, epsilon="1").fetchall() == [(60,)]
    assert run(["data", "new-version", ledger, "--why", "more orders"]) == 0
    assert run(["query", str(catalog), COUNT, "--epsilon", "1", "--source", str(into)]) == 2
    assert "another version of the data" in capsys.readouterr().err
    assert run(["check", str(catalog), "--source", str(into)]) == 2
    assert "another version of the data" in capsys.readouterr().err
    assert run(["query", str(catalog), COUNT, "--epsilon", "1", "--source", str(tmp_path / "none")]) == 2
    assert "there is no folder" in " ".join(capsys.readouterr().err.split())
    assert run(["prepare", str(catalog), "--into", str(into)]) == 2
    assert "has no data" in capsys.readouterr().err


def test_a_unit_is_erased_and_a_folder_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    catalog, into = tmp_path / "shop.yaml", tmp_path / "shop.prepared"
    catalog.write_text(CATALOG)
    for name, frame in sources().items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
    assert run(["ledger", "create", str(catalog)]) == 0
    assert run(["prepare", str(catalog), "--into", str(into), "--shards", "2"]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("7\n"))
    assert run(["prepare", str(catalog), "--into", str(into), "--erase", "-"]) == 0
    assert "a new version of the data" in capsys.readouterr().out
    assert run(["query", str(catalog), COUNT, "--epsilon", "1", "--source", str(into), "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ['"n"', "57"]
    assert run(["prepare", str(catalog), "--into", str(into), "--erase", "7"]) == 2
    assert "no row belongs to this unit" in capsys.readouterr().err
    assert run(["prepare", str(catalog), "--into", str(into), "--erase", "7", "--shards", "2"]) == 2
    assert "leave --source and --shards out" in capsys.readouterr().err
    assert run(["prepare", str(catalog), "--into", str(into), "--remove"]) == 0
    assert list(into.iterdir()) == []
    assert run(["prepare", str(catalog), "--into", str(tmp_path), "--remove"]) == 2
    assert "holds other files" in capsys.readouterr().err and catalog.exists()
