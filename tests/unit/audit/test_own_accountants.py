"""Own accountants: the audit finds what is wrong with one, and only an audited one charges a ledger of its own kind."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import dpquery as dp
from dpquery import accounting, mechanisms
from dpquery.auditing.own_accountants import audit_accountant
from dpquery.errors import DPQueryError, InsufficientBudgetError, InvalidLossError
from dpquery.frontends.cli.main import run
from dpquery.ledger.ledger import Ledger
from dpquery.mechanisms.own_composition import Losses, claimed, least_delta
from dpquery.mechanisms.own_laws import Audit

PLACE = "tests.audit.own_accountants"
LEDGER = {"dataset": "study", "privacy_unit": "person"}


def recorded(name: str, folder: Path) -> Path:
    report, audit = audit_accountant(name)
    assert audit is not None, report.violations
    audit.write(folder / "audit.json")
    return folder / "audit.json"


@pytest.mark.parametrize("name", ["Zcdp", "Pure", "Steep"])
def test_nothing_is_found_of_a_right_accountant(name: str) -> None:
    report, audit = audit_accountant(f"{PLACE}:{name}")
    assert report.is_clean, report.violations
    assert audit is not None and audit.currency == "composition" and audit.steps == 300


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Halved", "some mechanisms of these losses have delta"),
        ("Largest", "some mechanisms of these losses have delta"),
        ("Forgetful", "some mechanisms of these losses have delta"),
        ("Slope", "some mechanisms of these losses have delta"),
        ("Ordered", "order of losses matters"),
        ("Falling", "falls with a further"),
        ("Rising", "a larger delta costs"),
        ("Infinite", "not an epsilon"),
    ],
)
def test_a_wrong_accountant_is_found(name: str, said: str) -> None:
    report, audit = audit_accountant(f"{PLACE}:{name}")
    assert audit is None and any(said in one for one in report.violations), report.violations


def test_the_bound_from_below_is_that_of_known_theorems() -> None:
    for epsilon, count, total in (("1/10", 30, 1.0), ("1", 4, 1.5), ("1/2", 1, 0.2)):
        exact = float(accounting.optimal_delta(epsilon, count, total_epsilon=Fraction(total)))
        assert least_delta([accounting.loss(epsilon=epsilon)] * count, total) == pytest.approx(exact, rel=1e-9)
    gaussian = float(accounting.gaussian_delta(1, scale=2))
    assert least_delta([accounting.loss(rho="1/16")] * 2, 1.0) == pytest.approx(gaussian, rel=1e-9)
    both = [accounting.loss(epsilon="1/2"), accounting.loss(rho="1/8")]
    assert least_delta(both, 1.0) > max(least_delta(both[:1], 1.0), least_delta(both[1:], 1.0))
    pytest.importorskip("dp_accounting")
    together = accounting.compose([accounting.randomised_response("1/2"), accounting.gaussian(2)])
    assert float(1 - together(0)) == pytest.approx(0, abs=1e-6)
    reached = max(1 - float(together(Fraction(a, 200))) - math.e * a / 200 for a in range(100))
    assert least_delta(both, 1.0) == pytest.approx(reached, abs=2e-3)
    many = [accounting.loss(epsilon=Fraction(1, 7 + i)) for i in range(40)]  # too many to be told apart: fewer count
    assert 0 < least_delta(many, 0.5) < 1


def test_an_audited_accountant_charges_a_ledger_of_its_own_kind(tmp_path: Path) -> None:
    name = f"{PLACE}:Zcdp"
    audited = mechanisms.own_accountant(name, recorded(name, tmp_path))
    place = tmp_path / "composed.ledger"
    to = mechanisms.own_composed_ledger(place, accountant=audited, epsilon=2, delta="1e-6", **LEDGER)
    count = next(k for k in range(1, 99) if accounting.zcdp_to_approximate(Fraction(k + 1, 200), "1e-6") > 2)
    for _ in range(count):
        mechanisms.laplace(5, sensitivity=1, epsilon="0.1", to=to)
    with pytest.raises(InsufficientBudgetError, match="the accountant claims"):
        mechanisms.laplace(5, sensitivity=1, epsilon="0.1", to=to)
    assert to.spent == accounting.loss(
        epsilon=accounting.zcdp_to_approximate(Fraction(count, 200), "1e-6"), delta="1e-6"
    )
    assert all(f"own accountant {name}, audited as {audited.digest}" in one.query for one in to.ledger.entries())
    assert float(to.ledger.spent(None).epsilon) == pytest.approx(float(to.spent.epsilon))
    to.ledger.close()
    ledger = Ledger.open(place)
    again = mechanisms.ComposedAccountant(ledger, audited)
    assert again.spent == to.spent and again.remaining.epsilon == 2 - again.spent.epsilon
    with pytest.raises(InvalidLossError, match="own accountant"):
        mechanisms.laplace(5, sensitivity=1, epsilon="0.1", to=ledger)
    other = mechanisms.own_ledger(tmp_path / "laws.ledger", epsilon=2, **LEDGER)
    with pytest.raises(InvalidLossError, match="not a ledger of"):
        mechanisms.ComposedAccountant(other, audited)
    columns = {"id": {"type": "int64"}}
    catalog = dp.Catalog(
        dataset="study",
        privacy_unit="person",
        budget={"epsilon": 2},
        tables={"t": {"unit": "id", "max_rows": 1, "columns": columns}},
    )
    with pytest.raises(DPQueryError):
        dp.connect(catalog, {"t": pa.table({"id": [1]})}, ledger=place, analyst="a")


@pytest.mark.parametrize(
    ("kind", "epsilon", "error", "entries"),
    [("Pure", "0.6", InsufficientBudgetError, 1), ("Steep", "0.3", dp.LedgerError, 2)],
)
def test_others_who_charge_at_the_same_time_leave_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, epsilon: str, error: type[DPQueryError], entries: int
) -> None:
    name = f"{PLACE}:{kind}"
    audited = mechanisms.own_accountant(name, recorded(name, tmp_path))
    place = tmp_path / "composed.ledger"
    to = mechanisms.own_composed_ledger(place, accountant=audited, epsilon=1, delta="1e-6", **LEDGER)
    other = mechanisms.ComposedAccountant(Ledger.open(place), audited)
    charge = Ledger.charge

    def late(self: Ledger, **told: object) -> int:
        monkeypatch.setattr(Ledger, "charge", charge)
        mechanisms.laplace(5, sensitivity=1, epsilon=epsilon, to=other)
        return charge(self, **told)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "charge", late)
    with pytest.raises(error):
        mechanisms.laplace(5, sensitivity=1, epsilon=epsilon, to=to)
    assert len(to.ledger.entries()) == entries


def test_claims_are_looked_at_in_use_and_records_are_of_one_source(tmp_path: Path) -> None:
    name = f"{PLACE}:Zcdp"
    place = recorded(name, tmp_path)
    with pytest.raises(InvalidLossError, match="not of the accountant"):
        mechanisms.own_accountant(f"{PLACE}:Pure", place)
    with pytest.raises(InvalidLossError):
        mechanisms.own_law(name, place)
    text = place.read_text()
    place.write_text(text.replace(Audit.read(place).digest, "0" * 64))
    with pytest.raises(InvalidLossError, match="not the one that was audited"):
        mechanisms.own_accountant(name, place)
    for missing in ("Unproved", "Nothing"):
        with pytest.raises(InvalidLossError):
            audit_accountant(f"{PLACE}:{missing}")

    class Sly:
        proof = "none"

        def epsilon(self, losses: Losses, delta: Fraction) -> float:
            return 0.001

    with pytest.raises(InvalidLossError, match="some mechanisms"):
        claimed(Sly(), [accounting.loss(epsilon=1)], Fraction(1, 10**6))


def test_the_command_audits_an_accountant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["audit", "--mechanism", f"{PLACE}:Zcdp", "--record", "a.json"]) == 0
    assert "Nothing contradicts the promise." in capsys.readouterr().out and Audit.read("a.json").law == f"{PLACE}:Zcdp"
    assert run(["audit", "--mechanism", f"{PLACE}:Halved"]) == 1
    assert not list(tmp_path.glob("*Halved*"))
