"""The auditor finds nothing in what analysts ask of the five schemas."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpquery as dp
from dpquery.auditing.gray_box import GrayBox
from dpquery.auditing.questions import AuditedQuery, usual
from tests.analysts.test_analysts import QUESTIONS
from tests.analysts.worlds import tables_of


@pytest.mark.slow
@pytest.mark.parametrize("schema", sorted({question.schema for question in QUESTIONS}))
def test_the_auditor_finds_nothing(schema: str, tmp_path: Path) -> None:
    catalog = dp.Catalog.load(Path(__file__).parent / f"{schema}.yaml")
    public = {name: tables_of(schema)[name] for name, table in catalog.tables.items() if table.public}
    asked = [
        AuditedQuery(text=one.sql, options=usual(catalog).but(dialect=one.said.get("dialect", "postgres")))
        for one in QUESTIONS
        if one.schema == schema and "refused" not in one.said
    ]
    section = GrayBox(catalog, asked, tmp_path, public).run(1, worlds=1)
    assert not section.violations and not section.not_done
    assert len(section.lines) >= len(asked) and all(line.figures["pairs"] for line in section.lines)
