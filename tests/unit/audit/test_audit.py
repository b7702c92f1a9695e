"""The auditor: it finds nothing on the engine as it is, and what is wrong with one that is not."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import beta  # type: ignore[import-untyped]

import dpquery as dp
from dpquery.auditing import drills, gray_box, reuse_drills
from dpquery.auditing.accounts import accounts as replayed
from dpquery.auditing.attacks import all_subsets, subsets_asked, wrong_bits
from dpquery.auditing.chances import allowed_gap, clopper_pearson, empirical_epsilon
from dpquery.auditing.claims import problems_of_claims
from dpquery.auditing.databases import Hall, for_simulation, visible
from dpquery.auditing.gray_box import GrayBox
from dpquery.auditing.page import page
from dpquery.auditing.questions import of_catalog, of_log, of_text
from dpquery.auditing.report import Report, ReportLine, Section
from dpquery.auditing.risks import risks
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.frontends.cli.main import run
from dpquery.kernel.release import ExactAggregates

HERE = Path(__file__).resolve().parents[2] / "audit"
CATALOG = HERE / "clinic.yaml"


def catalog(**changed: object) -> dp.Catalog:
    columns = {
        "id": {"type": "int64"},
        "kind": {"type": "text", "keys": ["a", "b", "c"]},
        "score": {"type": "int64", "lower": 0, "upper": 9},
    }
    given: dict[str, Any] = {
        "dataset": "d",
        "privacy_unit": "person",
        "budget": {"epsilon": 4},
        "tables": {"visits": {"unit": "id", "max_rows": 2, "columns": columns}},
    }
    return dp.Catalog(**given | changed)


def visits(**changed: list[object]) -> pd.DataFrame:
    given: dict[str, list[Any]] = {"id": [1, 1, 2, 3], "kind": ["a", "b", "a", "c"], "score": [0, 3, 5, 9]}
    return pd.DataFrame(given | changed)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (4000, 9000)])
def test_chances_are_bounded_as_by_the_beta_law(hits: int, trials: int) -> None:
    low, high = clopper_pearson(hits, trials, 1e-4)
    expected = (
        beta.ppf(1e-4, hits, trials - hits + 1) if hits else 0.0,
        beta.ppf(1 - 1e-4, hits + 1, trials - hits) if hits < trials else 1.0,
    )
    assert (low, high) == pytest.approx(expected, abs=1e-9)


def test_a_lower_bound_of_epsilon_comes_from_the_best_event_and_no_other() -> None:
    here, there = np.arange(4000) % 10 >= 3, np.arange(4000) % 10 >= 7  # chances of 0.7 and 0.3
    found = empirical_epsilon(here.astype(float), there.astype(float))
    assert 0.5 < found < np.log(0.7 / 0.3)
    assert empirical_epsilon(here.astype(float), here.astype(float)) == 0.0
    assert allowed_gap(20_000) == pytest.approx(0.019, abs=0.001)


def test_the_command_finds_nothing_on_the_engine_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = tmp_path / "queries.sql"
    queries.write_text("SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind;\nSELECT score FROM visits;")
    written = tmp_path / "report.html"
    code = run(
        ["audit", str(CATALOG), "--queries", str(queries), "--pairs", "1", "--answers", "0", "--html", str(written)]
    )
    told = capsys.readouterr().out
    assert code == 0, told
    assert "Nothing contradicts the promise." in told and "Not checked: SELECT score FROM visits" in told
    text = written.read_text()
    assert "http" not in text.replace("http-equiv", "") and "<script" not in text and text.count("<section") == 3
    assert run(["audit", str(tmp_path / "missing.yaml")]) == 2


def test_an_engine_that_counts_twice_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = DuckDBBackend.run

    def doubled(self: DuckDBBackend, statement: Any, key: int) -> ExactAggregates:
        exact = plain(self, statement, key)
        return replace(exact, numbers=tuple(2 * numbers for numbers in exact.numbers))

    monkeypatch.setattr(DuckDBBackend, "run", doubled)
    made = catalog()
    section = GrayBox(made, of_text("SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind", made), tmp_path).run(
        1, worlds=1
    )
    assert "moves by" in section.violations[0]


def test_queries_that_measure_nothing_are_audited(tmp_path: Path) -> None:
    """As at the gate nothing is read for them, so that neither a missing number nor a missing group is a problem."""
    made = catalog()
    texts = ("SELECT MAX(2) AS two FROM visits", "SELECT kind, MAX(2) AS two FROM visits GROUP BY kind")
    section = GrayBox(made, of_text(";".join(texts), made), tmp_path).run(1, worlds=1)
    assert [line.name for line in section.lines] == [*texts]
    assert not section.violations


def test_each_step_of_a_query_is_audited(tmp_path: Path) -> None:
    made = catalog()
    text = "SELECT COUNT(*) AS n FROM visits WHERE score > (SELECT AVG(score) FROM visits) - 100"
    section = GrayBox(made, of_text(text, made), tmp_path).run(1, worlds=1)
    assert [line.name for line in section.lines] == [f"{text} (step {step} of 2)" for step in (1, 2)]
    assert not section.violations and not section.not_done
    assert all(line.figures["pairs"] for line in section.lines)
    # Whose rows the second step counts hangs on the first step's noise; the first has no noise before it.
    assert section.lines[0].figures["moved"]


def test_neither_noise_nor_the_clock_tells_neighbours_apart(tmp_path: Path) -> None:
    made = catalog()
    queries = (
        "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind ORDER BY n DESC",
        "SELECT kind, COUNT(*) AS n FROM visits GROUP BY ROLLUP (kind) ORDER BY n DESC LIMIT 2",
        "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind HAVING COUNT(*) > 40",
        "SELECT COUNT(*) AS n FROM visits WHERE NOW() > TIMESTAMP '2020-01-01'",
        "SELECT DISTINCT kind FROM visits",
        "SELECT COUNT(*) AS n FROM visits GROUP BY kind, score > 3, score > 5",
        "SELECT kind, SUM(score) AS s FROM visits WHERE kind IN (SELECT kind FROM visits GROUP BY kind "
        "ORDER BY COUNT(*) DESC LIMIT 1) GROUP BY CUBE (kind)",
    )
    section = GrayBox(made, of_text(";\n".join(queries), made), tmp_path).run(1, worlds=1)
    assert not section.violations and not section.not_done
    assert len(section.lines) == len(queries) + 1 and all(line.figures["pairs"] for line in section.lines)


@pytest.mark.parametrize(("order", "is_found"), [("", True), (" ORDER BY n", False)])
def test_an_order_that_no_released_number_decides_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, is_found: bool
) -> None:
    turns = itertools.cycle([1, -1])

    def turned(answer: dp.Result, keys: int) -> tuple[object, ...]:
        schema, count, columns, *rest = visible(answer, keys)
        turn = next(turns)
        return schema, count, [column[::turn] for column in columns], *rest  # type: ignore[attr-defined]

    monkeypatch.setattr(gray_box, "visible", turned)
    made = catalog()
    text = f"SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind{order}"
    assert bool(GrayBox(made, of_text(text, made), tmp_path).run(1, worlds=1).violations) is is_found


@pytest.mark.thinned(2)
@pytest.mark.parametrize("budget", [{"epsilon": 4}, {"epsilon": 4, "delta": "1e-6"}, {"rho": 1, "delta": "1e-6"}])
@pytest.mark.parametrize("unit", ["person", "row"])
def test_any_catalog_has_queries_and_neighbours(tmp_path: Path, budget: dict[str, object], unit: str) -> None:
    columns = {"id": {"type": "int64"}, "kind": {"type": "text", "keys": ["a", "b", "c"]}, "note": {"type": "text"}}
    owner = {} if unit == "row" else {"unit": "id", "max_rows": 2}
    made = catalog(budget=budget, privacy_unit=unit, tables={"visits": owner | {"columns": columns}})
    section = GrayBox(made, of_catalog(made)[:4], tmp_path).run(1, worlds=1)
    assert not section.violations and not section.not_done and len(section.lines) == 4


def test_noise_that_is_told_smaller_than_its_loss_is_found(tmp_path: Path) -> None:
    simulated = for_simulation(catalog())
    hall = Hall(simulated, tmp_path)
    database = hall.open({"visits": visits()})
    (question,) = of_text("SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind", simulated)
    prepared = database.prepare(question.text, question.options)
    assert not list(problems_of_claims(prepared, []))
    (made,) = prepared.plan.measurements
    prepared.plan.measurements = (replace(made, scale=made.scale / 2),)
    assert "loses 2 and pays 1" in next(iter(problems_of_claims(prepared, [])))
    prepared.plan.measurements = (made,)
    prepared.plan.guarantee = dp.PrivacyLoss(epsilon=Fraction(2))
    assert "was asked for" in next(iter(problems_of_claims(prepared, [])))


def test_charges_are_computed_anew_from_stored_noise(tmp_path: Path) -> None:
    made = catalog()
    ledger = dp.create_ledger(made, tmp_path / "ledger")
    with dp.connect(made, {"visits": visits()}, ledger=ledger, analyst="ann") as session:
        session.sql("SELECT kind, COUNT(*) AS n, SUM(score) AS s FROM visits GROUP BY kind", epsilon="1/3")
        session.sql("SELECT COUNT(*) AS n FROM visits WHERE score > 3", epsilon=1)
        section = replayed(made, ledger, session._backend)
        lines = {line.name[:1]: line for line in section.lines}
        assert not section.violations and not section.not_done
        assert lines["2"].figures == {"charged": 1.0, "computed": 1.0}
    assert [one.text[:12] for one in of_log(ledger.entries(), made)[0]] == ["SELECT kind,", "SELECT COUNT"]
    ledger.close()
    path = tmp_path / "ledger"
    path.write_bytes(path.read_bytes().replace(b"WHERE score > 3", b"WHERE score > 4"))
    with pytest.raises(dp.LedgerError):
        dp.Ledger.open(path)


def test_an_audit_from_the_log_asks_with_parameters_and_counts_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse_drills, "REUSE_DRILLS", ())  # the command runs them, above
    made, text = catalog(budget={"epsilon": 40}), "SELECT COUNT(*) AS n FROM visits WHERE score > $1"
    in_steps = "SELECT COUNT(*) AS n FROM visits WHERE score > (SELECT AVG(score) FROM visits)"
    other = "SELECT `kind`, COUNTIF(score > 2) AS n FROM `visits` GROUP BY ALL"
    ledger = dp.create_ledger(made, tmp_path / "ledger")
    with dp.connect(made, {"visits": visits()}, ledger=ledger, analyst="ann") as session:
        for value in (3, 4, 4):
            session.sql(text, params=[value], epsilon=1, fresh=True)
        session.sql(in_steps, epsilon=1)
        session.sql(other, dialect="bigquery", epsilon=1)
        session.batch([text.replace("$1", "5"), text.replace("$1", "6")], epsilon=1)
        session.synopsis("visits", ["kind"], epsilon=1)
    section = dp.audit(made, ledger=ledger, from_log=True, pairs=1, answers=0).sections[0]
    ledger.close()
    steps = [f"{in_steps} (step {step} of 2)" for step in (1, 2)]
    alone = [text.replace("$1", value) for value in ("5", "6")]
    assert [line.name for line in section.lines] == [text, text, *steps, other, *alone]
    assert not section.violations and section.not_done == ("synopses: 1 in the log",)
    assert all(line.figures["moved"] for line in section.lines if line.name == text)


def test_what_was_copied_from_the_data_is_named() -> None:
    made = catalog()
    data = DuckDBBackend(made, {"visits": visits()})
    found = " ".join(risks(made, data).risks)
    assert "kind.keys: exactly the values" in found and "lower and upper are exactly" in found
    assert "fewer than 100 units" in found
    data.close()
    data = DuckDBBackend(made, {"visits": visits(kind=["a", "z", "a", "b"], score=[1, 1, 1, 1])})
    found = " ".join(risks(made, data).risks)
    assert "other values" in found and "exactly the most extreme" not in found
    data.close()
    assert "are they from a code list" in " ".join(risks(made, None).risks)


def test_a_report_says_what_was_found_in_each_form() -> None:
    bad = ReportLine(name="SELECT '<b>'", figures={"lost": 2.0, "reached": 2.0, "pairs": 3}, problem="too much & more")
    section = Section(name="gray box", title="?", method="m", done="d", lines=(bad,), risks=("r",), not_done=("n",))
    report = Report(dataset="d", promise="p", version="1", time="now", sections=(section,))
    assert not report.is_clean and report.verdict == "1 observation contradicts the promise."
    assert json.loads(json.dumps(report.to_dict()))["violations"] == ["gray box: SELECT '<b>': too much & more"]
    assert "VIOLATION" in str(report) and "Risk: r" in str(report) and "Not checked: n" in str(report)
    text = page(report)
    assert "too much &amp; more" in text and "<b>" not in text and 'class="filled bad"' in text


def test_a_drill_that_cannot_be_ended_is_a_violation(tmp_path: Path) -> None:
    def broken(folder: Path) -> str:
        raise ValueError("?")

    assert "could not be ended" in drills._tried(broken, tmp_path)


def test_the_theorem_of_reconstruction_is_met_and_reached() -> None:
    for one in all_subsets():
        assert one.wrong == one.bound
    asked = subsets_asked(12, 60)
    bits = asked[0]
    assert wrong_bits(asked, asked @ bits.astype(float), bits) == 0.0


def test_public_tables_that_are_given_are_used(tmp_path: Path) -> None:
    columns = {"id": {"type": "int64"}, "test": {"type": "text", "keys_from": "tests.code"}}
    tables = {
        "labs": {"unit": "id", "max_rows": 2, "columns": columns},
        "tests": {"public": True, "unique": [["code"]], "columns": {"code": {"type": "text"}}},
    }
    made = catalog(tables=tables)
    public = {"tests": pa.table({"code": ["x", "y"]})}
    text = "SELECT test, COUNT(*) AS n FROM labs GROUP BY test"
    box = GrayBox(made, of_text(text, made), tmp_path, public)
    assert not box.run(1, worlds=1).violations
    assert box.seen[0].reached == 1.0
