"""MIN and MAX of texts whose values are not public: refused, or a constant of the catalog, which measures nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpquery as dp
from dpquery.catalog.write import write_catalog
from tests.cases.catalogs import HERE, tables_of

ATTR = "SELECT sex, MIN(town) AS least, MAX(town) AS greatest, COUNT(*) AS n FROM patients GROUP BY sex"


def _session(tmp_path: Path, said: str) -> dp.Session:
    text = (HERE / "hospital.yaml").read_text(encoding="utf-8")
    catalog = dp.Catalog.from_yaml(text.replace("defaults: {", f"defaults: {{{said}"))
    assert dp.Catalog.from_yaml(write_catalog(catalog)).defaults == catalog.defaults
    return dp.connect(catalog, sources=tables_of("hospital"), ledger=tmp_path / "ledger", create=True)


def test_they_are_refused_by_default(tmp_path: Path) -> None:
    with _session(tmp_path, "") as session, pytest.raises(dp.QueryError, match="no public keys to choose from"):
        session.sql(ATTR)


@pytest.mark.parametrize(("said", "shown"), [('"null"', None), ('"*"', "*")])
def test_the_owner_may_have_a_constant_stand_for_each(tmp_path: Path, said: str, shown: str | None) -> None:
    with _session(tmp_path, f"texts_without_keys: {said}, ") as session:
        plan = str(session.explain(ATTR.replace("COUNT(*) AS n", "MIN(note) AS note")))
        assert "Charge: nothing" in plan
        answer = session.sql(ATTR)
        told = answer.to_arrow().to_pydict()
        assert told["least"] == told["greatest"] == [shown] * 3
        assert [measured.aggregate for measured in answer.measurements] == ["count"]


def test_public_keys_are_still_chosen_among(tmp_path: Path) -> None:
    with _session(tmp_path, 'texts_without_keys: "*", ') as session:
        answer = session.sql("SELECT MIN(sex) AS s, MIN(town) AS t FROM patients WHERE town IN ('Aa', 'Bb')")
        ((sex, town),) = zip(*answer.to_arrow().to_pydict().values(), strict=True)
        assert sex in ("F", "M", "X")
        assert town in ("Aa", "Bb")


def test_other_words_are_mistakes() -> None:
    text = (HERE / "hospital.yaml").read_text(encoding="utf-8")
    with pytest.raises(dp.CatalogError, match=r"expected one of refuse, null, \*"):
        dp.Catalog.from_yaml(text.replace("defaults: {", "defaults: {texts_without_keys: hide, "))
