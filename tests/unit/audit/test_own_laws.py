"""Own laws of noise: the audit finds what is wrong with one, and only what it found right can be charged and drawn.

An audit of a right law fails with a chance of at most FALSE_ALARM of `auditing/own_laws.py`, which is 1e-8.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery import mechanisms
from dpquery.auditing import own_laws
from dpquery.auditing.chances import is_unlikely
from dpquery.auditing.own_laws import audit_law
from dpquery.errors import DPQueryError, InsufficientBudgetError, InvalidLossError, ParameterError
from dpquery.frontends.cli.main import run
from dpquery.mechanisms.own_claims import OwnLaw, claimed
from dpquery.mechanisms.own_laws import Audit
from dpquery.mechanisms.own_source import load
from tests.audit.own_laws import Gaussian, Geometric
from tests.docs.pages import blocks, without_numbers

PLACE = "tests.audit.own_laws"
SAMPLES = 50_000
SOURCE = (Path(__file__).resolve().parents[2] / "audit/own_laws.py").read_text()


@pytest.fixture(autouse=True)
def few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_laws, "STEPS", (1, 200))
    monkeypatch.setattr(own_laws, "LOSSES", {"epsilon": ("1/2", "2"), "rho": ("1/10", "1")})
    monkeypatch.setattr(own_laws, "SINGLE", 500)


@pytest.mark.parametrize("name", ["Geometric", "Gaussian"])
def test_nothing_is_found_of_a_right_law(name: str) -> None:
    report, audit = audit_law(f"{PLACE}:{name}", samples=SAMPLES)
    assert report.is_clean, report.violations
    assert audit is not None and audit.steps == 200 and audit.digest == load(f"{PLACE}:{name}").digest


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SmallScale", "is claimed"),
        ("Understated", "an epsilon of 0.5 is claimed"),
        ("ShortTail", "or more has a chance"),
        ("Cut", "noise of at most"),
        ("Bounded", "e^inf"),
        ("NotNormal", "add up to"),
        ("NotWhole", "whole numbers"),
        ("Even", "comes with"),
        ("Biased", "noise of 0 comes with"),
        ("Seeded", "are seeded"),
        ("SeededEachTime", "drawn one by one"),
        ("Antithetic", "one after the other"),
        ("NarrowGaussian", "the divergence of order"),
        ("HeavyInRho", "the divergence of order"),
    ],
)
def test_a_wrong_law_is_found(name: str, said: str) -> None:
    report, audit = audit_law(f"{PLACE}:{name}", samples=SAMPLES)
    assert audit is None and any(said in one for one in report.violations), report.violations


def test_what_is_no_law_is_refused() -> None:
    for name in (f"{PLACE}:NoLaw", f"{PLACE}:Nothing", "no.such.module:X", "X", f"{PLACE}"):
        with pytest.raises(InvalidLossError):
            load(name)
    with pytest.raises(InvalidLossError, match="at least"):
        audit_law(f"{PLACE}:Geometric", samples=10)


PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/use-your-own-law.md"


def law_in(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str = SOURCE) -> str:
    """Returns the name of a law in a module of its own."""
    (folder / "study_laws.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    return "study_laws:Geometric"


def recorded(name: str, folder: Path) -> Path:
    losses = (Fraction(1, 2), Fraction(2))
    audit = Audit(law=name, digest=load(name).digest, currency="epsilon", losses=losses, steps=200, samples=1, time="t")
    audit.write(folder / "audit.json")
    return folder / "audit.json"


def test_a_law_is_used_as_it_was_audited_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = law_in(tmp_path, monkeypatch)
    with pytest.raises(InvalidLossError, match="no audit"):
        mechanisms.own_law(name, tmp_path / "audit.json")
    place = recorded(name, tmp_path)
    law = mechanisms.own_law(name, place)
    assert law.audit.law == name and law.audit.losses == (Fraction(1, 2), Fraction(2))
    with pytest.raises(InvalidLossError, match="the audit is of"):
        mechanisms.own_law("study_laws:Biased", place)
    law_in(tmp_path, monkeypatch, SOURCE + "\n# changed\n")
    with pytest.raises(InvalidLossError, match="is not the one that was audited"):
        mechanisms.own_law(name, place)
    for stranger in ("helpers", "secrets2", "wave"):
        law_in(tmp_path, monkeypatch, f"{SOURCE}\nimport {stranger}\n")
        (tmp_path / f"{stranger}.py").write_text("")
        with pytest.raises(InvalidLossError, match="not an installed package"):
            mechanisms.own_law(name, place)
    law_in(tmp_path, monkeypatch)
    place.write_text("{}")
    with pytest.raises(InvalidLossError, match="not an audit"):
        mechanisms.own_law(name, place)


def test_charges_are_of_their_own_kind_and_name_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = law_in(tmp_path, monkeypatch)
    law = mechanisms.own_law(name, recorded(name, tmp_path))
    ledger = mechanisms.own_ledger(tmp_path / "own.ledger", dataset="study", privacy_unit="person", epsilon=2)
    release = mechanisms.own_noise(100, law=law, sensitivity=1, epsilon=1, to=ledger)
    assert type(release.value) is int and release.mechanism == name and release.loss.epsilon == 1
    assert release.half_width() == 3 and abs(release.scale - 1.36) < 0.01
    (entry,) = ledger.entries()
    assert entry.query.startswith(f"own law {name}, audited as {law.audit.digest}") and entry.loss.epsilon == 1
    with pytest.raises(InsufficientBudgetError):
        mechanisms.own_noise(5, law=law, sensitivity=1, epsilon=2, to=ledger)
    accountant = mechanisms.OwnAccountant(epsilon=4, delta="1e-6")
    number = mechanisms.own_noise(2, law=law, sensitivity="150", epsilon="0.5", to=accountant)
    assert accountant.charges[0].loss.rho == Fraction(1, 8) and number.half_width("0.9") > 100
    ledger.close()


def test_no_other_ledger_pays_and_no_session_opens_this_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = law_in(tmp_path, monkeypatch)
    law = mechanisms.own_law(name, recorded(name, tmp_path))
    table = {"unit": "id", "max_rows": 1, "columns": {"id": {"type": "int64"}}}
    data, proper_place = {"t": pa.table({"id": [1]})}, tmp_path / "study.ledger"
    catalog = dp.Catalog(dataset="study", privacy_unit="person", budget={"epsilon": 2}, tables={"t": table})
    with dp.connect(catalog, data, ledger=proper_place, analyst="a", create=True) as session:
        proper = session._ledger
        for to in (proper, mechanisms.Accountant(epsilon=1), None):
            with pytest.raises(InvalidLossError, match="own_ledger"):
                mechanisms.own_noise(1, law=law, sensitivity=1, epsilon=1, to=to)  # type: ignore[arg-type]
        assert not proper.entries()
    mechanisms.own_ledger(tmp_path / "own.ledger", dataset="study", privacy_unit="person", epsilon=2).close()
    with pytest.raises(DPQueryError):
        dp.connect(catalog, data, ledger=tmp_path / "own.ledger", analyst="a")


def test_what_was_not_audited_is_refused_before_a_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = law_in(tmp_path, monkeypatch)
    law, to = mechanisms.own_law(name, recorded(name, tmp_path)), mechanisms.OwnAccountant(epsilon=9)
    wrong: list[tuple[object, dict[str, object]]] = [
        (1, {"epsilon": 1, "sensitivity": 500}),
        (1, {"epsilon": 3, "sensitivity": 1}),
        (1, {"epsilon": "0.1", "sensitivity": 1}),
        (1, {"rho": 1, "sensitivity": 1}),
        ([1, 2], {"epsilon": 1, "sensitivity": 1}),
        (float("nan"), {"epsilon": 1, "sensitivity": 1}),
    ]
    for value, asked in wrong:
        with pytest.raises((InvalidLossError, ParameterError)):
            mechanisms.own_noise(value, law=law, to=to, **asked)  # type: ignore[arg-type]
    assert not to.charges
    monkeypatch.setattr(law._law, "decay", lambda steps, loss: 2 * float(loss) / steps, raising=False)
    with pytest.raises(InvalidLossError, match="does not hold what it claims"):
        mechanisms.own_noise(1, law=law, sensitivity=1, epsilon=1, to=to)
    assert not to.charges


@pytest.mark.parametrize("law", [Geometric(), Gaussian()])
def test_quantiles_follow_from_the_claimed_tail(law: OwnLaw) -> None:
    found = claimed(law, 7, Fraction(1))
    for failure in (Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6)):
        k = found.quantile(failure)
        assert found.tail(k + 1) <= failure < found.tail(k)
    assert abs(float(found.chances.sum()) - 1) < 1e-9 and len(found.logs) == 1 - 2 * found.first


def test_deviations_that_chance_makes_are_no_alarm() -> None:
    assert not is_unlikely(500, 1000, 0.5) and is_unlikely(900, 1000, 0.5) and not is_unlikely(10, 10, 1.0)
    drawn = np.random.default_rng(5).binomial(1000, 0.3, size=2000)
    assert not any(is_unlikely(int(hits), 1000, 0.3, 1e-9) for hits in drawn)


def test_the_command_audits_the_law_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = (block.text for block in blocks(PAGE) if "file=study_laws.py" in block.words)
    wrong = "    def sample(self, steps, loss, size):\n        return super().sample(steps, 2 * loss, size)\n"
    law_in(tmp_path, monkeypatch, f"{source}\n\nclass Wrong(Staircase):\n{wrong}")
    monkeypatch.chdir(tmp_path)
    asked = ["audit", "--mechanism", "study_laws:Staircase", "--samples", str(SAMPLES)]
    assert run([*asked, "--html", "report.html"]) == 0
    (shown,) = (block.text.split("\n", 1)[1] for block in blocks(PAGE) if "[recorded" in block.text)
    told = capsys.readouterr()
    assert without_numbers(f"{told.err.splitlines()[0]}\n{told.out}".strip()) == without_numbers(shown.strip())
    page = (tmp_path / "report.html").read_text()
    assert "<html" in page and not re.search(r"https?:|src=|<link|@import|url\(|<script", page)
    law = mechanisms.own_law("study_laws:Staircase", "study_laws.Staircase.audit.json")
    release = mechanisms.own_noise(5, law=law, sensitivity=1, epsilon=1, to=mechanisms.OwnAccountant(epsilon=1))
    assert type(release.value) is int and release.half_width() == 3
    assert run(["audit", "--mechanism", "study_laws:Wrong", "--samples", str(SAMPLES), "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["clean"] and not list(tmp_path.glob("*Wrong*"))
    assert run(["audit"]) == 2 and run(["audit", "c.yaml", "--mechanism", "m:n"]) == 2
    assert run(["audit", "--mechanism", "study_laws:Nothing"]) == 2
