"""What analysts ask of five schemas: answered as DuckDB answers without noise, or refused for a reason that holds.

Each query of `*.sql` was written from its question, and not from what the engine can do. Above it stand the question
and, where needed, lines that start with one of these words:

- `dialect:` of the text, else PostgreSQL's.
- `within:` how far numbers may be off, of quantiles and extremes that are chosen among values.
- `chosen:` where only the number of rows is compared.
- `small:` where groups of few people are not shown.
- `plain:` DuckDB's SQL for the same question, where the text cannot be translated to it.
- `refused:` the class of the error and words of it, then `right:` or `wrong:` with why a reader agrees with it or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import dpquery as dp
from tests.analysts.worlds import plain_engine, session_of
from tests.cases.oracle import differences_from, translated
from tests.scripted import zero_noise

HERE = Path(__file__).parent
WORDS = ("dialect", "within", "chosen", "small", "plain", "refused", "right", "wrong")


@dataclass(frozen=True)
class Question:
    """A query with what is expected of it."""

    schema: str
    number: int
    asks: str
    sql: str
    said: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.schema}-{self.number}"


def _read(path: Path) -> Iterator[Question]:
    for number, block in enumerate(filter(None, map(str.strip, path.read_text(encoding="utf-8").split("\n\n"))), 1):
        lines = block.split("\n")
        comments = [line[3:] for line in lines if line.startswith("-- ")]
        pairs = [line.split(": ", 1) for line in comments if line.split(":")[0] in WORDS]
        asks = [line for line in comments if line.split(":")[0] not in WORDS]
        sql = "\n".join(line for line in lines if not line.startswith("-- ")).removesuffix(";")
        yield Question(path.stem, number, " ".join(asks), sql, dict(pairs))


QUESTIONS = [question for path in sorted(HERE.glob("*.sql")) for question in _read(path)]


@pytest.mark.thinned(5)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
def test_is_answered_as_without_noise_or_refused_for_its_reason(
    question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    session, dialect = session_of(question.schema), question.said.get("dialect", "postgres")
    if "refused" in question.said:
        error, _, words = question.said["refused"].partition(": ")
        with pytest.raises(dp.QueryError) as refused:
            session.sql(question.sql, dialect=dialect)
        assert type(refused.value).__name__ == error
        assert words in str(refused.value)
        return
    answer = session.sql(question.sql, dialect=dialect)
    plain = question.said.get("plain") or translated(question.sql, dialect)
    rows = plain_engine(question.schema).execute(plain).fetchall()
    tolerance = float(question.said.get("within", "1e-4"))
    found = differences_from(answer, rows, tolerance=tolerance, ordered=False, has_sets="ROLLUP" in question.sql)
    if "chosen" in question.said:
        assert len(answer) == len(rows)
    elif "small" in question.said:
        assert all(line.startswith("the answer has no row") for line in found)
    else:
        assert found == []


def test_most_are_answered_or_rightly_refused() -> None:
    wrong = [question for question in QUESTIONS if "wrong" in question.said]
    unjudged = [q.id for q in QUESTIONS if "refused" in q.said and not {"right", "wrong"} & {*q.said}]
    assert not unjudged
    assert len(QUESTIONS) >= 300
    assert len(wrong) <= 0.03 * len(QUESTIONS)
