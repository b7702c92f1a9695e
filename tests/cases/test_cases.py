"""Every SQL case: its plan, its rows without noise, its sensitivities; or its refusal."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dpquery as dp
from dpquery.result.measurements import Measurement
from tests.cases.case_file import Case, read_cases, write_refusal, write_section
from tests.cases.catalogs import session_of
from tests.cases.oracle import differences
from tests.scripted import zero_noise
from tests.unit.planner.pass_invariants import check_passes, traced_with, tracing

HERE = Path(__file__).parent
CASES = [case for path in sorted(HERE.glob("*/*.case")) for case in read_cases(path)]
ACCEPTED = [case for case in CASES if case.refuse is None]
REFUSED = [case for case in CASES if case.refuse is not None]
COARSER = 1 + Fraction(1, 10**5)
"""Sums of very many steps are rounded before noise is added, which may move each group by a step more."""
ROOT = re.compile(r"([0-9/]+)?\*?sqrt\((\d+)\)")


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.id)
def test_accepted(case: Case, complete: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    session, options = session_of(case.catalog), _options(case)
    traces = tracing(monkeypatch)
    plan = session.explain(case.sql, **options)
    for trace in traces or [traced_with(session, [case.sql], options)]:  # none where the plan was made for another case
        check_passes(session, trace)
    answer = session.sql(case.sql, **options)
    assert answer.to_arrow().schema.equals(plan.schema)
    _compare(case, "plan", lambda: str(plan).split("\n"), complete)
    _check_norms(case, plan.measurements)
    ordered = case.sections["exact"].words == "nosort"
    _compare(case, "exact", lambda: _table(answer, ordered), complete)
    _check_oracle(case, answer, ordered)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_refused(case: Case, complete: bool) -> None:
    session, options = session_of(case.catalog), _options(case)
    with pytest.raises(dp.QueryError) as refused:
        session.explain(case.sql, **options)
    if complete and case.refuse == "?":
        write_refusal(case, _refusal(refused.value))
    else:
        assert _refusal(refused.value) == case.refuse
    _check_caret(refused.value)
    _compare(case, "message", lambda: str(refused.value).split("\n"), complete)
    before = session.remaining
    with pytest.raises(type(refused.value), match=re.escape(refused.value.reason)):
        session.sql(case.sql, **options)
    assert session.remaining == before


def test_the_suite_is_as_large_as_promised() -> None:
    norms = [case for case in ACCEPTED if "norms" in case.sections]
    plans = [case for case in ACCEPTED if "plan" in case.sections]
    assert len(CASES) >= 1_300
    assert len(REFUSED) >= 520
    assert len(norms) >= 175
    assert len(plans) >= 265


def _options(case: Case) -> dict[str, Any]:
    """Returns the options on the line `query`: whole numbers for bounds, everything else as text."""
    pairs = dict(word.split("=", 1) for word in case.query.split())
    return {name: int(value) if name.startswith("max_") else value for name, value in pairs.items()}


def _compare(case: Case, name: str, made: Callable[[], list[str]], complete: bool) -> None:
    section = case.sections.get(name)
    if section is None:
        return
    if complete and section.lines != made():
        write_section(case, name, made())
    elif not complete:
        assert made() == section.lines


def _refusal(error: dp.QueryError) -> str:
    """Returns the class, the place, and the words over the caret; `-` where an error has no place."""
    if error.line is None or error.text is None or error.span is None:
        return f"{type(error).__name__} -"
    words = error.text[error.span.start : error.span.end].split("\n")[0]
    shown = words if words.isprintable() and len(words) <= 80 else ""
    return f"{type(error).__name__} {error.line}:{error.column} {shown}".rstrip()


def _check_caret(error: dp.QueryError) -> None:
    """The caret stands under the refused words."""
    if error.column is None or error.text is None or error.line is None or error.column > 90:
        return
    quoted, caret = str(error).split("\n")[1:3]
    assert caret.index("^") - 2 == error.column - 1
    line = error.text.split("\n")[error.line - 1]
    assert "".join(c if c.isprintable() else "?" for c in line).startswith(quoted[2:])


def _check_norms(case: Case, measured: tuple[Measurement, ...]) -> None:
    """Holds the sensitivities against figures that were worked out by hand: `linf l1 l2 label`."""
    section = case.sections.get("norms")
    if section is None:
        return
    for line, found in zip(section.lines, measured, strict=True):
        linf, l1, l2, label = line.split(maxsplit=3)
        assert label == found.label
        squared = _square(l2)
        assert Fraction(linf) <= found.linf <= Fraction(linf) * COARSER
        assert Fraction(l1) <= found.l1 <= Fraction(l1) * COARSER
        assert squared <= Fraction(found.l2) ** 2 <= squared * COARSER**2


def _square(text: str) -> Fraction:
    """Returns the square of a number written like 12, 3/2, sqrt(5) or 4*sqrt(5)."""
    root = ROOT.fullmatch(text)
    return Fraction(text) ** 2 if root is None else Fraction(root[1] or 1) ** 2 * int(root[2])


def _check_oracle(case: Case, answer: dp.Result, ordered: bool) -> None:
    query = case.sql
    if case.oracle is not None:
        if case.oracle.startswith("none: "):
            return
        assert case.oracle[0] == case.oracle[-1] == '"'
        query = case.oracle[1:-1]
    squares = any("^2" in measured.label for measured in answer.measurements)  # on a coarser lattice
    found = differences(
        answer,
        query,
        catalog=case.catalog.split()[0],
        dialect=_options(case).get("dialect", "postgres") if case.oracle is None else "duckdb",
        tolerance=float(case.tolerance or (1e-4 if squares else 1e-6)),
        ordered=ordered,
    )
    assert found == []


def _table(answer: dp.Result, ordered: bool) -> list[str]:
    """Returns the rows as aligned text; sorted as text unless their order is part of the answer."""
    columns = [[_cell(value) for value in column.to_pylist()] for column in answer.to_arrow().columns]
    widths = [max(map(len, column), default=0) for column in columns]
    rows = list(zip(*columns, strict=True))
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines if ordered else sorted(lines)


def _cell(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.4f}".rstrip("0").rstrip(".").replace("-0", "0") if abs(value) < 5e-5 else _short(value)
        case int() | Decimal() | datetime.date():
            return str(value)
        case _:
            plain = re.fullmatch(r"[^\W\d][\w%/-]*", value) is not None and value not in ("NULL", "true", "false")
            return value if plain else repr(value)


def _short(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")
