"""`dpquery prepare`, and commands over the folder that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    words = {"memory_limit": None, "spill": True, "row_level": "error", "most_epsilon": None, "workers": 1}
    with open_engine({"catalog": str(catalog), "sources": str(into), "ledger": ledger, **words}) as (_, facts):
        assert facts == {"dataset": "shop"}
    assert run(["data", "new-version", ledger, "--why", "more orders"]) == 0
    assert run(["query", str(catalog), COUNT, "--epsilon", "1", "--source", str(into)]) == 2
    assert "another version of the data" in capsys.readouterr().err
    assert run(["query", str(catalog), COUNT, "--epsilon", "1", "--source", str(tmp_path / "none")]) == 2
    assert "there is no none" in capsys.readouterr().err
    assert run(["prepare", str(catalog), "--into", str(into)]) == 2
    assert "has no data" in capsys.readouterr().err
