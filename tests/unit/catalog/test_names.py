"""What can be declared can be queried: names of tables and columns, as they are stored and as people type them."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp

DECOMPOSED = unicodedata.normalize("NFD", "Größe é")
NAMES = [
    *(DECOMPOSED, unicodedata.normalize("NFC", DECOMPOSED), "q̣̇", "각", "İstanbul", "ſ", "ﬀ", "Ａ", "m²", "№ 5", "Ω"),
    *(
        "a b",
        'a"b',
        "a.b",
        "?",
        "$1",
        ":x",
        "%s",
        "--",
        "/*",
        "'",
        "\\",
        "*",
        "#0",
        "select",
        "row",
        "1",
        "😀",
        "x" * 128,
    ),
]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", NAMES)
def test_what_can_be_declared_can_be_queried(name: str, tmp_path: Path) -> None:
    """GRP-11: decomposed and composed letters are one name; signs that look like others stand in quotes."""
    catalog = dp.Catalog(
        dataset="d",
        privacy_unit="row",
        budget={"epsilon": 100},
        tables={name: {"columns": {name: {"type": "int64", "lower": 0, "upper": 9}}}},
    )
    with dp.connect(catalog, {name: pd.DataFrame({name: [1, 2, 3]})}, ledger=tmp_path / "l", create=True) as session:
        for form in ("NFC", "NFD"):
            q = quoted(unicodedata.normalize(form, name))
            for query in (
                f"SELECT SUM({q}) FROM {q}",
                f"SELECT SUM({q}.{q}) FROM {q}",
                f"SELECT SUM(a.{q}) FROM (SELECT * FROM {q}) a",
                f"WITH {q} AS (SELECT {q} FROM {q}) SELECT SUM({q}) AS {q} FROM {q}",
            ):
                assert len(session.sql(query, epsilon="0.1").to_pandas()) == 1


@pytest.mark.parametrize("name", ["State ", " x", "a\u200db", "\u00ad", "a\tb", ""])
def test_what_cannot_be_queried_cannot_be_declared(name: str) -> None:
    with pytest.raises(dp.CatalogError, match=r"blank|invisible|empty"):
        dp.Catalog(
            dataset="d",
            privacy_unit="row",
            budget={"epsilon": 1},
            tables={"t": {"columns": {name: {"type": "int64"}}}},
        )


def test_signs_that_look_like_others_are_refused_outside_quotes(tmp_path: Path) -> None:
    """PAR: no keyword or function in other letters."""
    catalog = dp.Catalog(
        dataset="d", privacy_unit="row", budget={"epsilon": 1}, tables={"t": {"columns": {"x": {"type": "int64"}}}}
    )
    with dp.connect(catalog, {"t": pd.DataFrame({"x": [1]})}, ledger=tmp_path / "l", create=True) as session:
        for query in ("SELECT COUNT(*) FROM ｔ", "ＳＥＬＥＣＴ COUNT(*) FROM t", "SELECT ﬀ FROM t"):
            with pytest.raises(dp.QuerySyntaxError, match="in quotes"):
                session.sql(query)


def test_a_frame_with_decomposed_names_answers() -> None:
    frame = pd.DataFrame({"who": range(900, 950), DECOMPOSED: 1.0})
    found = dp.protect(
        frame, privacy_unit="who", max_rows=8, bounds={DECOMPOSED: (0, 2)}, budget={"epsilon": 9}, dataset="names"
    )
    assert found.sum(DECOMPOSED, epsilon=1) is not None
