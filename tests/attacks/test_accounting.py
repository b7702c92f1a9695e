"""Attacks on the accounting (ACC): whatever is asked, in whatever order, by whomever, the limit holds."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpquery.catalog import Catalog
from dpquery.errors import (
    BackendError,
    DPQueryError,
    InsufficientBudgetError,
    InternalError,
    InvalidLossError,
    LedgerError,
)
from dpquery.kernel.accountant import Budget, charge_at_least, limit_of
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.release import ExactAggregates, release
from dpquery.kernel.work import Allowed
from dpquery.ledger.ledger import Ledger, State
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.session.connecting import connect
from dpquery.session.options import Request
from dpquery.session.pipeline import plan
from dpquery.session.session import Session
from tests.attacks.clinic import CATALOG, Clinic, Watched, frames
from tests.forking import FORK, fork

COUNT = "SELECT COUNT(*) FROM people"


def spend(session: Session, query: str, **options: Any) -> int:
    """Returns how often a query is answered before the budget is spent."""
    answered = 0
    with contextlib.suppress(InsufficientBudgetError):
        while answered < 10_000:
            session.sql(query, **options)
            answered += 1
    return answered


def test_the_same_question_is_charged_each_time(tmp_path: Path) -> None:
    """ACC-01: averaging: ten answers for a budget of one, then none, and fresh noise in each."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    answers = [small.one(COUNT, epsilon="0.1") for _ in range(10)]
    assert len(set(answers)) > 1
    with pytest.raises(InsufficientBudgetError):
        small.sql(COUNT, epsilon="0.1")
    assert small.session.remaining.epsilon == 0


def test_what_the_budget_cannot_pay_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    """ACC-01: nothing is read and nothing is charged, and the error says what is left."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    before = small.path.read_bytes()
    with pytest.raises(InsufficientBudgetError) as caught:
        small.sql(COUNT, epsilon="1.000000000001")
    assert (small.path.read_bytes(), small.backend.runs) == (before, 0)
    assert caught.value.remaining.epsilon == 1
    assert caught.value.requested.epsilon > 1


def test_differencing_costs_two_answers(tmp_path: Path) -> None:
    """ACC-02: with and without one person: both are charged, and the difference is as noisy as both."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    differences = set()
    for _ in range(5):
        everybody = small.one(COUNT, epsilon="0.1")
        differences.add(everybody - small.one(f"{COUNT} WHERE id <> 7", epsilon="0.1"))
    assert len(differences) > 1
    assert small.session.remaining.epsilon == 0


@pytest.mark.parametrize("budget", ["{epsilon: 2}", "{epsilon: 2, delta: 1e-4}", "{rho: 0.1, delta: 1e-4}"])
def test_reconstruction_ends_with_the_budget(tmp_path: Path, budget: str) -> None:
    """ACC-02: random subsets of people, one question each: the sum of the charges never exceeds the limit."""
    small = Clinic(tmp_path, budget=budget)
    offer = {"rho": "0.004"} if "rho" in budget else {"epsilon": "0.1"}
    limit = small.ledger.limit(None)
    for turn in range(1000):
        chosen = ", ".join(str(i) for i in range(60) if (turn * 7919 + i * i) % 3)
        try:
            small.sql(f"{COUNT} WHERE id IN ({chosen}) AND sex = 'F'", **offer)
        except InsufficientBudgetError:
            break
    else:
        pytest.fail("the budget never ended")
    spent = small.ledger.spent(None)
    assert spent.epsilon <= limit.epsilon
    assert spent.rho <= limit.rho
    assert spent.delta <= limit.delta


def test_epsilons_chosen_by_the_answers_stop_at_the_sum(tmp_path: Path) -> None:
    """ACC-03: the filter is a plain sum, so adaptive choices gain nothing."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    total = Fraction(0)
    amount = Fraction(1, 100)
    with contextlib.suppress(InsufficientBudgetError):
        for _ in range(500):
            answer = small.one(COUNT, epsilon=amount)
            total += amount
            amount = Fraction(1 + abs(int(answer)) % 97, 1000)
    assert Fraction(9, 10) <= total == small.ledger.spent(None).epsilon <= 1


def test_many_sessions_share_one_limit(tmp_path: Path) -> None:
    """ACC-04, API-02: threads, each with a session and a ledger of its own."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    answered: list[int] = []

    def work() -> None:
        session = Session(
            small.catalog, backend=small.backend, ledger=Ledger.open(small.path), analyst="alice", reuse=False
        )
        answered.append(spend(session, COUNT, epsilon="0.01"))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sum(answered) == 100
    assert small.ledger.spent(None).epsilon == 1


def test_public_questions_are_answered_when_nothing_is_left(tmp_path: Path) -> None:
    """ACC-02: what reads no private table is exact, costs nothing, and needs no budget."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    small.one(COUNT, epsilon=1)
    entries = small.ledger.mark
    assert small.session.sql("SELECT 1 + 1 AS two").to_arrow().to_pylist() == [{"two": 2}]
    for query in ("SELECT COUNT(*) FROM wards", "SELECT (SELECT COUNT(*) FROM wards WHERE code IN (SELECT 'a'))"):
        answer = small.session.sql(query)
        assert answer.charge == PrivacyLoss()
        assert answer.accuracy.empty
    assert small.ledger.mark == entries
    with pytest.raises(InsufficientBudgetError):
        small.one(f"SELECT (SELECT COUNT(*) FROM wards) + ({COUNT})", epsilon="0.1")


def test_what_is_asked_twice_in_one_query_is_one_draw(tmp_path: Path) -> None:
    """ACC-02: averaging copies of a number within a query gains nothing: there is one."""
    small = Clinic(tmp_path, budget="{epsilon: 10}")
    for _ in range(20):
        assert small.one(f"SELECT ({COUNT}) - ({COUNT})", epsilon="0.1") == 0
        assert small.one(f"WITH c AS ({COUNT}) SELECT a.count - b.count FROM c AS a, c AS b", epsilon="0.1") == 0
    assert small.ledger.spent(None).epsilon == 4


ANALYSTS = "analysts: {alice: {epsilon: 0.6}, bob: {epsilon: 0.6}}\ntables:"


def test_two_analysts_together_stay_within_the_dataset(tmp_path: Path) -> None:
    """ACC-05: each stops at the own limit, both together at the dataset's."""
    text = CATALOG.replace("tables:", ANALYSTS, 1)
    small = Clinic(tmp_path, catalog=text, budget="{epsilon: 1}")
    assert spend(small.session, COUNT, epsilon="0.1") == 6
    assert spend(small.login("bob"), COUNT, epsilon="0.1") == 4
    assert small.ledger.spent(None).epsilon == 1
    for stranger in ["mallory", "Alice", "alice ", "", "\0", "a" * 10_000]:
        with pytest.raises(DPQueryError):
            small.login(stranger)


@pytest.mark.parametrize("seed", range(3))
def test_no_analyst_spends_the_part_of_another(seed: int, tmp_path: Path) -> None:
    """ACC-05: of parts that add up to the dataset's limit each stays whole, however much the others ask, in whatever
    order; and the last of each can be spent when nothing else is left."""
    parts = {"alice": Fraction(3, 10), "bob": Fraction(5, 10), "carol": Fraction(2, 10)}
    said = ", ".join(f"{name}: {{epsilon: {float(part)}}}" for name, part in parts.items())
    text = CATALOG.replace("tables:", f"analysts: {{{said}}}\ntables:", 1)
    small, chance = Clinic(tmp_path, catalog=text, budget="{epsilon: 1}"), random.Random(seed)
    sessions = {name: small.login(name) for name in parts}
    spent = dict.fromkeys(parts, Fraction(0))
    for _ in range(40):
        name, amount = chance.choice([*parts]), Fraction(chance.choice((5, 20, 60, 300)), 1000)
        if spent[name] + amount > parts[name]:
            with pytest.raises(InsufficientBudgetError):
                sessions[name].sql(COUNT, epsilon=amount)
        else:
            sessions[name].sql(COUNT, epsilon=amount)
            spent[name] += amount
        for each, part in parts.items():
            assert small.ledger.remaining(each).epsilon == part - spent[each]
    for name, part in parts.items():
        if part > spent[name]:
            sessions[name].sql(COUNT, epsilon=part - spent[name])
    assert small.ledger.spent(None).epsilon == 1


def test_tables_views_and_new_sessions_share_the_budget(tmp_path: Path) -> None:
    """ACC-06: the budget is the dataset's: another table, a subquery, a new session or a second name change nothing."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    questions = [
        "SELECT COUNT(*) FROM people",
        "SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM flags",
        "WITH copy AS (SELECT * FROM people) SELECT COUNT(*) FROM copy",
        "SELECT COUNT(*) FROM (SELECT id FROM people) p",
    ]
    for turn in range(5):
        small.login("alice").sql(questions[turn], epsilon="0.2")
    with pytest.raises(InsufficientBudgetError):
        small.login("bob").sql(COUNT, epsilon="0.01")


def test_another_dataset_or_another_promise_needs_its_own_ledger(tmp_path: Path) -> None:
    """ACC-06, LED-06: a ledger answers only for the declarations it was made for."""
    from dpquery.catalog import Catalog

    small = Clinic(tmp_path, budget="{epsilon: 1}")
    for old, new in [
        ("dataset: clinic", "dataset: other"),
        ("privacy_unit: person", "privacy_unit: people"),
        ("budget: {epsilon: 1}", "budget: {epsilon: 100}"),
        ("  referrals:\n    unit: id", "  referrals:\n    unit: referrer"),
        (
            "  tags:\n    public: true\n    columns: {code: {type: text}",
            "  tags:\n    unit: code\n    columns: {code: {type: int64}",
        ),
        ("privacy_unit: person", "privacy_unit: person\nneighbours: replace_one"),
    ]:
        text = CATALOG.replace("BUDGET", "{epsilon: 1}")
        assert old in text
        changed = Catalog.from_yaml(text.replace(old, new, 1))
        with pytest.raises(LedgerError):
            Session(changed, backend=small.backend, ledger=small.ledger, analyst="alice", reuse=False)


def test_budgets_do_not_come_back_with_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ACC-07: a year later the budget is as spent as before."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    small.sql(COUNT, epsilon=1)
    monkeypatch.setattr("dpquery.ledger.book.now", lambda: "2099-01-01T00:00:00")
    with pytest.raises(InsufficientBudgetError):
        small.sql(COUNT, epsilon="0.000001")


@pytest.mark.parametrize("name", ["epsilon", "delta", "rho"])
@pytest.mark.parametrize(
    "amount",
    [float("nan"), float("inf"), -1, 0, "-0", True, "1e400", "1e-320", 1e-320, "0x1", "1_0", "½", [], {}, 10**400],
)
def test_bad_amounts_buy_nothing(clinic: Clinic, name: str, amount: object) -> None:
    """ACC-08."""
    if name == "delta":
        with contextlib.suppress(InvalidLossError):
            clinic.session.explain(COUNT, epsilon=1, delta=amount)
            pytest.fail("accepted")
        return
    clinic.refuses(COUNT, InvalidLossError, **{name: amount})


def test_hostile_numbers_are_not_called(clinic: Clinic) -> None:
    """ACC-08, API-03: an object that says 0 to the check and 1000 to the noise is no amount."""

    class Liar(float):
        def __repr__(self) -> str:
            return "1000"

        def __float__(self) -> float:
            return 1000.0

    class Text(str):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

    for liar in (Liar(0.5), Text("0.5"), type("I", (int,), {})(1)):
        clinic.refuses(COUNT, InvalidLossError, epsilon=liar)


def test_tiny_charges_add_up(tmp_path: Path) -> None:
    """ACC-08: each charge counts at least a unit of 1e-12."""
    small = Clinic(tmp_path, budget="{rho: 1, delta: 0}")
    plan = small.session.explain(COUNT, rho="1e-14")
    assert plan.charge.rho == Fraction(1, 10**12)


def test_deltas_are_counted_and_limited(tmp_path: Path) -> None:
    """ACC-09: selections spend delta until it is gone, whatever rho is left."""
    small = Clinic(tmp_path, budget="{rho: 100, delta: 1e-6}")
    query = "SELECT town, COUNT(*) FROM people GROUP BY town"
    assert spend(small.session, query, rho="0.1", delta="1e-7") == 10
    left = small.session.remaining
    assert left.delta == 0
    assert left.rho == 99
    small.sql(COUNT, rho="0.1")


CHARGED = [
    "SELECT COUNT(*) FROM people",
    "SELECT town, COUNT(*), AVG(age) FROM people GROUP BY town",
    "SELECT ward, SUM(cost), STDDEV(price) FROM visits GROUP BY ward",
    "SELECT note, COUNT(DISTINCT ward) FROM visits GROUP BY note",
    "SELECT AVG(c) FROM (SELECT id, COUNT(*) AS c FROM visits GROUP BY id) p",
    "SELECT day, COUNT(*) FROM visits WHERE free > 3 GROUP BY day HAVING COUNT(*) > 2 ORDER BY 2",
    "SELECT a.n - b.n AS d FROM (SELECT COUNT(*) AS n FROM people) a, (SELECT COUNT(*) AS n FROM visits) b",
]


@pytest.mark.parametrize("query", CHARGED)
def test_the_price_is_known_beforehand_and_is_the_same_for_every_database(tmp_path: Path, query: str) -> None:
    """ACC-10, OUT-07: explain = charge = what the ledger records, over all rows, without one person, over none."""
    visits, people = frames()["visits"], frames()["people"]
    databases = {
        "all": {},
        "one less": {"visits": visits[visits.id != 7], "people": people[people.id != 7]},
        "nobody": {"visits": visits.iloc[:0], "people": people.iloc[:0], "flags": frames()["flags"].iloc[:0]},
    }
    seen = set()
    for name, tables in databases.items():
        folder = tmp_path / name
        folder.mkdir()
        one = Clinic(folder, tables=tables)
        plan = one.session.explain(query, epsilon="0.5")
        assert not one.ledger.entries()
        answer = one.sql(query, epsilon="0.5")
        (entry,) = one.ledger.entries()
        assert plan.charge == answer.charge == entry.loss
        assert plan.measurements == answer.measurements
        seen.add((str(plan), answer.charge, str(answer.to_arrow().schema)))
    assert len(seen) == 1


def test_samples_earn_no_credit(clinic: Clinic) -> None:
    """ACC-11."""
    clinic.refuses("SELECT COUNT(*) FROM people TABLESAMPLE BERNOULLI (1)")
    clinic.refuses("SELECT COUNT(*) FROM people TABLESAMPLE SYSTEM (1) REPEATABLE (7)")
    clinic.refuses("SELECT COUNT(*) FROM people USING SAMPLE 1%", dialect="duckdb")


def test_there_is_no_mode_without_protection(clinic: Clinic) -> None:
    """ACC-12: unknown options are errors of Python, and the known ones have no unsafe value."""
    for option in ["debug", "exact", "noise", "skip_threshold", "censor_dims", "row_privacy", "clamp", "tau", "seed"]:
        given: dict[str, Any] = {option: False}
        with pytest.raises(TypeError):
            clinic.session.sql(COUNT, epsilon=1, **given)
    clinic.refuses("SELECT SUM(free) FROM visits")
    clinic.refuses(COUNT, epsilon=1, rho=1)


def test_public_is_what_the_catalog_says(clinic: Clinic) -> None:
    """ACC-13: a public table is free; a common table over private rows under its name is not."""
    assert clinic.session.explain("SELECT COUNT(*) FROM wards", epsilon=1).charge.rho == 0
    shadow = "WITH wards AS (SELECT ward AS code FROM visits) SELECT COUNT(*) FROM wards"
    assert clinic.session.explain(shadow, epsilon=1).charge.rho > 0
    joined = "SELECT COUNT(*) FROM wards JOIN visits ON code = ward"
    assert clinic.session.explain(joined, epsilon=1).charge.rho > 0


def test_changed_data_is_a_new_answer_at_a_new_price(tmp_path: Path, no_noise: None) -> None:
    """ACC-15: no answer over old rows is mixed with new ones, and nothing is refunded."""
    (tmp_path / "a").mkdir()
    old = Clinic(tmp_path / "a", budget="{epsilon: 1}")
    assert old.one(COUNT, epsilon="0.5") == 60
    from dpquery.backends.duckdb.backend import DuckDBBackend

    tables = frames() | {"people": frames()["people"].iloc[:50]}
    new = Session(
        old.catalog, backend=DuckDBBackend(old.catalog, tables), ledger=old.ledger, analyst="alice", reuse=False
    )
    assert new.sql(COUNT, epsilon="0.5").to_arrow()[0].to_pylist() == [50]
    assert old.session.remaining.epsilon == 0


class Failing(Watched):
    """A backend that fails after it has read the rows."""

    def __init__(self, inner: Any, failure: BaseException) -> None:
        super().__init__(inner)
        self.failure = failure

    def run(self, statement: Any, key: int) -> ExactAggregates:
        super().run(statement, key)
        raise self.failure


SECRET = "canary-7f3a"


@pytest.mark.parametrize(
    "failure", [ValueError(SECRET), MemoryError(SECRET), RuntimeError(SECRET), BackendError(SECRET), KeyError(SECRET)]
)
def test_a_failed_query_stays_charged_and_says_nothing(tmp_path: Path, failure: Exception) -> None:
    """ACC-04, LED-03, OUT-03: no refund, no second try for free, no word of what failed."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    session = Session(
        small.catalog, backend=Failing(small.backend.inner, failure), ledger=small.ledger, analyst="alice", reuse=False
    )
    with pytest.raises(BackendError) as caught:
        session.sql(COUNT, epsilon="0.5")
    assert session.remaining.epsilon == Fraction(1, 2)
    assert [entry.state for entry in small.ledger.entries()] == [State.PENDING]
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in f"{error} {error!r} {error.args}"
        error = error.__cause__ or error.__context__
    with pytest.raises(BackendError):
        session.sql(COUNT, epsilon="0.5")
    with pytest.raises(InsufficientBudgetError):
        session.sql(COUNT, epsilon="0.5")


def test_an_interrupted_query_stays_charged(tmp_path: Path) -> None:
    """ACC-04, LED-04: the analyst cancels after the rows were read."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    backend = Failing(small.backend.inner, KeyboardInterrupt())
    session = Session(small.catalog, backend=backend, ledger=small.ledger, analyst="alice", reuse=False)
    with pytest.raises(KeyboardInterrupt):
        session.sql(COUNT, epsilon="0.5")
    assert session.remaining.epsilon == Fraction(1, 2)


@FORK
def test_a_killed_query_stays_charged(tmp_path: Path) -> None:
    """ACC-04, LED-02: the process dies while the rows are read."""

    class Dying(Watched):
        def run(self, statement: Any, key: int) -> ExactAggregates:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

    small = Clinic(tmp_path, budget="{epsilon: 1}")
    child = fork()
    if child == 0:
        session = Session(
            small.catalog, backend=Dying(small.backend.inner), ledger=small.ledger, analyst="alice", reuse=False
        )
        session.sql(COUNT, epsilon="0.5")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert Ledger.open(small.path).remaining("alice").epsilon == Fraction(1, 2)


def test_the_charge_comes_before_the_rows(tmp_path: Path) -> None:
    """ACC-04, LED-02: when the backend is called, the entry is in the file."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    found: list[Fraction] = []

    class Looking(Watched):
        def run(self, statement: Any, key: int) -> ExactAggregates:
            found.append(Ledger.open(small.path).spent(None).epsilon)
            return super().run(statement, key)

    session = Session(
        small.catalog, backend=Looking(small.backend.inner), ledger=small.ledger, analyst="alice", reuse=False
    )
    session.sql("SELECT COUNT(*), AVG(age) FROM people", epsilon="0.5")
    assert found == [Fraction(1, 2)]


def test_a_missing_ledger_answers_nothing(tmp_path: Path) -> None:
    """ACC-12, LED-07: deleted under an open session."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    small.path.unlink()
    with pytest.raises(LedgerError):
        small.sql(COUNT, epsilon="0.1")
    assert small.backend.runs == 0


def test_shares_within_a_query_never_exceed_the_offer(clinic: Clinic) -> None:
    """ACC-16: shares are exact fractions of what is offered."""
    for measures in (1, 3, 7, 11):
        columns = ", ".join(f"SUM(CLAMP(free, 0, {i + 1}))" for i in range(measures))
        for amount in ("0.1", "1/3", "1e-4"):
            plan = clinic.session.explain(f"SELECT {columns} FROM visits", rho=amount)
            assert sum(m.loss.rho for m in plan.measurements) <= Fraction(amount)
            assert plan.charge.rho - Fraction(amount) < Fraction(measures, 10**12)


LEAST = Fraction(1, 10_000)


@pytest.mark.parametrize(
    ("budget", "analysts", "asked", "part", "limit"),
    [
        ("{epsilon: 1}", "", {"epsilon": "1e-12"}, "epsilon", Fraction(1)),
        ("{epsilon: 1}", "{alice: {epsilon: 0.2}}", {"epsilon": "1e-9"}, "epsilon", Fraction(1, 5)),
        ("{rho: 2, delta: 1e-6}", "", {"rho": "1e-12"}, "rho", Fraction(2)),
        ("{rho: 2, delta: 1e-6}", "{alice: {rho: 1, delta: 1e-7}}", {"rho": "1e-12"}, "rho", Fraction(1)),
    ],
)
def test_a_question_costs_at_least_a_share_of_the_limit(
    tmp_path: Path, budget: str, analysts: str, asked: dict[str, str], part: str, limit: Fraction
) -> None:
    """WRK-03: a million questions at a price of nothing, whose existence of an answer is the signal."""
    named = f"analysts: {analysts}\n" if analysts else ""
    text = CATALOG.replace("budget: BUDGET", f"{named}budget: {budget}").replace(", least_charge: 1e-12", "")
    catalog = Catalog.from_yaml(text)
    ledger = Ledger.create(tmp_path / "ledger", catalog.declarations, catalog.budget, catalog.analysts)
    session = connect(catalog, frames(), ledger=ledger, analyst="alice", reuse=False)
    plan = session.explain(COUNT, **asked)  # type: ignore[arg-type]
    assert getattr(plan.charge, part) == limit * LEAST
    assert "least charge" in str(plan)
    answer = session.sql(COUNT, **asked)  # type: ignore[arg-type]
    assert answer.charge == plan.charge
    assert getattr(answer.guarantee, part) == Fraction(asked[part])
    assert getattr(ledger.spent("alice"), part) == limit * LEAST
    assert getattr(session.remaining, part) == limit * (1 - LEAST)


def test_the_gate_itself_raises_a_charge(tmp_path: Path) -> None:
    """Who calls the gate without a word of the least charge gets the usual one."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    request = Request(text=COUNT, offer=QueryBudget(epsilon=Fraction(1, 10**9)), bounds=ContributionBounds())
    (made,) = plan((request,), catalog=small.catalog, ledger=small.ledger, public=small.backend)
    allowed = Allowed(steps=small.catalog.work, sizes=small.backend)
    noisy = release(
        made.budgeted, engine=small.backend, allowed=allowed, ledger=small.ledger, analyst="alice", query=""
    )
    limit = limit_of(small.catalog.budget)
    assert noisy.charge.epsilon == limit.epsilon * LEAST
    assert small.ledger.spent(None).epsilon == limit.epsilon * LEAST


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1), Fraction(2)])
def test_a_least_charge_that_is_none_is_refused(share: Fraction) -> None:
    with pytest.raises(InternalError):
        charge_at_least(dp_loss("1"), Budget.of(epsilon=1), share)


def test_what_reads_nothing_costs_nothing(tmp_path: Path) -> None:
    """A charge of nothing stays one: stored answers, and questions about public tables alone."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    small.sql("SELECT code FROM wards")
    assert small.ledger.entries() == []
    session = connect(small.catalog, frames(), ledger=small.ledger, analyst="alice")
    session.sql(COUNT, epsilon="0.1")
    assert session.sql(COUNT, epsilon="0.1").charge == dp_loss("0")
    assert len(small.ledger.entries()) == 1


def dp_loss(epsilon: str) -> PrivacyLoss:
    """Returns a loss of epsilon alone."""
    return PrivacyLoss(epsilon=Fraction(epsilon))
