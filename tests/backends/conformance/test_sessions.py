"""SQL through the whole pipeline: the reference's answers, refusals that cost nothing, failures that tell nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpquery.backends.features import Feature, features_of
from dpquery.errors import BackendError, UnsupportedQueryError
from dpquery.kernel.failures import FAILED
from dpquery.kernel.plan import PrivateAggregate
from dpquery.ledger.ledger import Ledger
from dpquery.session.session import Session
from tests.backends.engines import Engine
from tests.cases.catalogs import catalog_of, tables_of
from tests.reference.backend import ReferenceBackend
from tests.scripted import zero_noise

CATALOG = catalog_of("hospital budget=approximate")
QUERIES = [
    "SELECT COUNT(*) AS n, COUNT(bmi) AS known, COUNT(DISTINCT id) AS who FROM patients",
    "SELECT sex, COUNT(*) AS n, AVG(bmi) AS mean, VAR_SAMP(bmi) AS spread FROM patients GROUP BY sex ORDER BY sex DESC",
    "SELECT town, COUNT(*) AS n, COUNT(*) FILTER (WHERE smoker) AS smokers FROM patients GROUP BY town",
    "SELECT ward, MEDIAN(age) AS m, MIN(bmi) AS low, MODE(sex) AS s FROM patients GROUP BY ward",
    "SELECT test, COUNT(*) AS n, SUM(cost) AS total, COUNT(DISTINCT id) AS who FROM labs GROUP BY test",
    "SELECT test, COUNT(*) AS n FROM labs GROUP BY test HAVING COUNT(*) > 1 ORDER BY n DESC LIMIT 1",
    "SELECT EXTRACT(YEAR FROM taken) AS year, COUNT(*) AS n FROM labs GROUP BY 1",
    "SELECT t.panel, COUNT(*) AS n FROM labs l LEFT JOIN tests t ON l.test = t.code GROUP BY t.panel",
    "SELECT p.sex, SUM(l.value) AS total FROM patients p JOIN labs l ON p.id = l.id GROUP BY p.sex",
    "SELECT l.test, f.flag, COUNT(*) AS n FROM labs l JOIN lab_flags f ON l.lab_id = f.lab_id GROUP BY 1, 2",
    "SELECT n, COUNT(*) AS people FROM (SELECT id, LEAST(COUNT(*), 3) AS n FROM labs GROUP BY id) AS t GROUP BY n",
    "SELECT COUNT(*) AS n FROM (SELECT ROW_NUMBER() OVER (PARTITION BY id ORDER BY value) AS r FROM labs) WHERE r <= 2",
]


class Asked:
    """A session over one backend, whose ledger is a file that charges change."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        folder.mkdir(parents=True)
        self.path = folder / "ledger"
        self.ledger = Ledger.create(self.path, CATALOG.declarations, CATALOG.budget, CATALOG.analysts)
        self.backend: Any = engine(CATALOG, {name: table.to_pandas() for name, table in tables_of("hospital").items()})
        self.session = Session(CATALOG, backend=self.backend, ledger=self.ledger, analyst="ann", reuse=False)

    def answer(self, text: str, **options: Any) -> pd.DataFrame:
        return self.session.sql(text, epsilon=9, delta="1/2000", **options).to_pandas()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("bounds", [{}, {"max_rows": 1}], ids=["declared", "one row"])
@pytest.mark.parametrize("text", QUERIES)
def test_answers_are_those_of_the_reference(
    engine: Engine, text: str, bounds: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    found = Asked(tmp_path / "tested", engine).answer(text, **bounds)
    expected = Asked(tmp_path / "reference", ReferenceBackend).answer(text, **bounds)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12)
    assert len(expected.columns) > 0


def test_what_is_refused_costs_nothing(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the backend lacked every feature; and no row is read for it."""
    asked = Asked(tmp_path / "tested", engine)

    def prepare(aggregate: PrivateAggregate) -> None:
        raise UnsupportedQueryError(min(feature.value for feature in features_of(aggregate, CATALOG)))

    monkeypatch.setattr(asked.backend, "prepare", prepare, raising=False)
    monkeypatch.setattr(asked.backend, "run", lambda *_: pytest.fail("rows were read"), raising=False)
    before = asked.path.read_bytes()
    for text in QUERIES:
        with pytest.raises(UnsupportedQueryError, match="|".join(feature.value for feature in Feature)):
            asked.answer(text)
    assert asked.path.read_bytes() == before


@pytest.mark.parametrize("error", [ValueError, MemoryError, BackendError, UnsupportedQueryError])
def test_failures_after_the_charge_are_one_error(
    engine: Engine, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(tmp_path / "tested", engine)

    def run(statement: object, key: int) -> None:
        raise error("a private value")

    monkeypatch.setattr(asked.backend, "run", run, raising=False)
    before = asked.session.remaining
    with pytest.raises(BackendError) as caught:
        asked.answer("SELECT COUNT(*) AS n FROM patients")
    assert (str(caught.value), caught.value.__cause__, caught.value.__context__) == (FAILED, None, None)
    assert asked.session.remaining != before
