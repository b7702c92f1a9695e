"""Attacks on the noise (MEC): integers on a fixed grid, fresh for each number, from the operating system alone."""

from __future__ import annotations

import ast
import math
import multiprocessing
import os
import pickle
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpquery
from dpquery.errors import InvalidLossError
from dpquery.kernel import samplers
from dpquery.kernel.loss import rho_within, zcdp_to_approximate
from dpquery.kernel.plan import Lattice
from tests.architecture.package import modules
from tests.attacks.clinic import Clinic, frames
from tests.attacks.test_planner import planned
from tests.forking import FORK, fork


def lattices(clinic: Clinic, query: str) -> list[Lattice]:
    """Returns the lattices of a query's sums."""
    return [m.lattice for a in planned(clinic, query).private.aggregates for m in a.measures if m.lattice is not None]


def test_noise_is_whole_numbers() -> None:
    """MEC-01: no floating point between the random bits and the noise: both samplers give integers."""
    for sample in (samplers.discrete_laplace(Fraction(7, 3), 1000), samplers.discrete_gaussian(Fraction(50), 1000)):
        assert sample.dtype == np.int64
    with pytest.raises(Exception, match=r"Fraction|scale"):
        samplers.discrete_laplace(2.5, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize("column", ["cost", "price", "fixed", "big", "CLAMP(free, -1, 1)", "cost * cost"])
def test_sums_lie_on_the_grid_for_every_database(clinic: Clinic, tmp_path: Path, column: str) -> None:
    """MEC-02, MEC-03: with and without rows, each output is a multiple of one grid that the declarations give."""
    query = f"SELECT SUM({column}) AS s FROM visits"
    empty = Clinic(tmp_path, tables={"visits": frames()["visits"].iloc[:0], "flags": frames()["flags"].iloc[:0]})
    (grid,) = {lattice.grid for lattice in lattices(clinic, query) + lattices(empty, query)}
    for where in (clinic, empty):
        for _ in range(20):
            value = where.one(query)
            if isinstance(value, int) and abs(value) == 2**63 - 1:
                continue
            assert (Fraction(value) / grid).denominator == 1


def test_zero_and_one_cannot_be_told_from_the_last_digits(tmp_path: Path) -> None:
    """MEC-02: outputs over an empty table and over one row have the same set of possible values."""
    visits = frames()["visits"]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    flags = frames()["flags"].iloc[:0]
    none = Clinic(tmp_path / "a", tables={"visits": visits.iloc[:0], "flags": flags})
    one = Clinic(tmp_path / "b", tables={"visits": visits.iloc[:1].assign(cost=1 / 3), "flags": flags})
    query = "SELECT SUM(cost) FROM visits"
    (grid,) = {lattice.grid for lattice in lattices(none, query)}
    steps = [[int(Fraction(c.one(query)) / grid) for _ in range(60)] for c in (none, one)]
    for values in steps:
        assert len({v % 2 for v in values}) == 2
        assert len({v % 4 for v in values}) == 4


SOURCES = {"default_rng", "RandomState", "urandom", "uuid1", "uuid4", "token_bytes"}


NONCES_AND_KEYS = ("frontends/admin/", "frontends/page/", "frontends/postgres/")
"""Where salts, nonces and cancel keys are drawn, and never noise."""
SEALED = "data/encrypted_files.py"
"""Draws salts of encrypted files."""
MADE_UP_DATA = "auditing/"
"""Makes up people for audits, and draws no noise."""


def test_noise_is_made_nowhere_but_in_the_samplers() -> None:
    """MEC-04, MEC-05: no other module names a source of randomness for noise, and no SQL text draws any."""
    for module in modules():
        name, text = module.path, module.text
        for node in ast.walk(module.tree):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            keys = {"secrets"} if name.startswith(NONCES_AND_KEYS) else set()
            keys |= {"random"} if name.startswith(MADE_UP_DATA) else set()
            assert not ({"random", "secrets", "numpy.random"} - keys) & set(imported), name
            if isinstance(node, ast.Attribute) and name != SEALED:
                assert not (node.attr == "random" and ast.unparse(node.value) in ("np", "numpy")), name
                allowed = {"token_bytes"} if name.startswith(NONCES_AND_KEYS) else set()
                assert name == "kernel/samplers.py" or node.attr not in SOURCES - allowed, name
        if name.startswith("backends"):
            assert not re.search(r"\b(random|setseed|gen_random_uuid|uuid)\s*\(", text, re.IGNORECASE), name


def test_the_public_interface_has_no_seed() -> None:
    """MEC-05: nothing that an analyst calls takes a seed, a generator or a switch for the noise."""
    import inspect

    parameters: set[str] = set()
    entries: list[Any] = [dpquery.connect, dpquery.Session.sql, dpquery.Session.explain, dpquery.Session.__init__]
    for entry in entries:
        parameters |= set(inspect.signature(entry).parameters)
    forbidden = ("seed", "rng", "random", "generator", "noise", "exact", "debug", "scale")
    assert not [name for name in parameters if any(word in name for word in forbidden)]
    assert not [name for name in vars(samplers) if re.search(r"seed|_rng|generator", name, re.IGNORECASE)]


def _draw(_: int) -> bytes:
    return samplers.discrete_laplace(Fraction(1000), 50).tobytes()


@FORK
def test_forked_workers_draw_different_noise() -> None:
    """MEC-05: no state is inherited over a fork."""
    _draw(0)
    reads = []
    for _ in range(4):
        reader, writer = os.pipe()
        child = fork()
        if child == 0:
            os.write(writer, _draw(0))
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            reads.append(pipe.read())
    assert len({*reads, _draw(0)}) == 5


@pytest.mark.slow
def test_spawned_workers_draw_different_noise() -> None:
    """MEC-05."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert len(set(pool.map(_draw, range(8)))) == 8


def test_numpys_seed_changes_nothing(clinic: Clinic) -> None:
    """MEC-05: an attacker who seeds every known generator sees fresh noise all the same."""
    import random

    seen = set()
    for _ in range(5):
        random.seed(1)
        np.random.seed(1)
        seen.add(clinic.one("SELECT COUNT(*) FROM visits", epsilon="0.001"))
    assert len(seen) == 5


def test_the_work_of_a_draw_does_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """MEC-06: the number of random bytes asked for is the same whatever comes out (up to ties of 16 bits)."""
    asked: list[int] = []
    original = samplers.random_bytes

    def counted(size: int) -> bytes:
        asked.append(size)
        return original(size)

    monkeypatch.setattr(samplers, "random_bytes", counted)
    first_calls = set()
    for _ in range(50):
        asked.clear()
        samplers.discrete_laplace(Fraction(100), 1)
        first_calls.add(asked[0])
        assert sum(asked) <= asked[0] + 2 * len(asked)
    assert len(first_calls) == 1


@pytest.mark.parametrize("epsilon", ["0.1", "1", "10", "100"])
def test_gaussian_noise_keeps_its_promise_for_large_epsilon(epsilon: str) -> None:
    """MEC-07: the delta of N(0, sigma^2) at epsilon, by the exact formula, stays below what was asked for."""
    delta = Fraction(1, 10**5)
    rho = rho_within(Fraction(epsilon), delta)
    assert zcdp_to_approximate(rho, delta) <= Fraction(epsilon)
    sigma, eps = 1 / math.sqrt(2 * rho), float(Fraction(epsilon))

    def normal(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    exact = normal(1 / (2 * sigma) - eps * sigma) - math.exp(eps) * normal(-1 / (2 * sigma) - eps * sigma)
    assert exact <= float(delta)


def test_laplace_is_scaled_by_l1_and_gauss_by_l2(clinic: Clinic) -> None:
    """MEC-08, MEC-10: b = l1 / epsilon and sigma = l2 / sqrt(2 rho), of each measurement's own share.

    What one person moves is written here. The terms of one vector (of `loss` from -80 to -20, of `age` from 0 to 100)
    have one loss, that of the vector, and are charged once; everything else adds up.
    """
    query = "SELECT ward, COUNT(*), SUM(loss), AVG(age) FROM visits JOIN people USING (id) GROUP BY ward"
    moves = {
        "SUM(-20 - loss)": ("loss", 5 * 60),
        "SUM(loss + 80)": ("loss", 5 * 60),
        "SUM(100 - age)": ("age", 5 * 100),
        "SUM(age)": ("age", 5 * 100),
        "COUNT(*)": ("count", 5),
        "SUM(loss)": ("sum", 5 * 80),
        "SUM(age - 50)": ("deviations", 5 * 50),
    }
    for options, size in (({"epsilon": "0.5"}, 4), ({"rho": "0.1"}, 3)):
        plan = clinic.session.explain(query, **options)  # type: ignore[arg-type]
        assert len(plan.measurements) == size
        shares: dict[str, set[tuple[Fraction, Fraction]]] = {}
        for made in plan.measurements:
            vector, most = moves[made.label]
            shares.setdefault(vector, set()).add((made.loss.epsilon, made.loss.rho))
            assert made.l1 >= most
            assert float(made.l2) >= most * (1 - 1e-9)
            if made.mechanism == "laplace":
                assert made.scale >= float(made.l1 / made.loss.epsilon) * (1 - 1e-12)
            else:
                assert made.scale >= float(made.l2) / math.sqrt(2 * made.loss.rho) * (1 - 1e-9)
        assert all(len(losses) == 1 for losses in shares.values()), "terms of one vector have one loss"
        once = [loss for losses in shares.values() for loss in losses]
        assert sum(epsilon for epsilon, _ in once) <= Fraction(1, 2)
        assert sum(rho for _, rho in once) <= Fraction(1, 10)
        assert plan.charge.rho == sum(rho + epsilon**2 / 2 for epsilon, rho in once)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("SELECT COUNT(*) FROM people", {"epsilon": "1000000"}),
        ("SELECT COUNT(*) FROM people", {"epsilon": "1e-15"}),
        ("SELECT COUNT(*) FROM people", {"epsilon": "1e-30"}),
        ("SELECT COUNT(*) FROM people", {"rho": "1e30"}),
        ("SELECT COUNT(*) FROM people", {"rho": "1e-30"}),
        ("SELECT SUM(CLAMP(free, -1e300, 1e300)) FROM visits", {"epsilon": "1"}),
        ("SELECT STDDEV(CLAMP(free, -1e200, 1e200)) FROM visits", {"epsilon": "1"}),
        ("SELECT SUM(CLAMP(free, 0, 5e-324)) FROM visits", {"epsilon": "1"}),
        ("SELECT STDDEV(LN(1)) FROM visits", {"epsilon": "1"}),
        ("SELECT VAR_POP(CLAMP(free, 1000000.0, 1000000.0000001)) FROM visits", {"epsilon": "1"}),
        ("SELECT SUM(big) FROM visits", {"epsilon": "1e-6"}),
        ("SELECT COUNT(*) FROM visits", {"epsilon": "1", "max_rows": 1_000_000, "max_groups": 1_000_000}),
    ],
)
def test_noise_is_neither_nothing_nor_beyond_the_samplers(clinic: Clinic, query: str, options: dict[str, Any]) -> None:
    """MEC-09: refused before a row is read, or answered with finite noise of at least a part of a step."""
    try:
        plan = clinic.session.explain(query, **options)
    except dpquery.QueryError:
        clinic.refuses(query, **options)
        return
    assert all(made.scale > 0 and math.isfinite(made.scale) for made in plan.measurements)
    for value in clinic.rows(query, **options)[0]:
        assert value is None or math.isfinite(float(value))


def test_amounts_are_read_in_decimal(clinic: Clinic) -> None:
    """MEC-11: 0.1 is a tenth, as a text and as a float, and the charge is not below it."""
    for amount in ("0.1", 0.1, Fraction(1, 10), np.float64(0.1)):
        plan = clinic.session.explain("SELECT COUNT(*) FROM people", rho=amount)
        assert plan.charge.rho == Fraction(1, 10)
    third = clinic.session.explain("SELECT COUNT(*) FROM people", rho="1/3")
    assert third.charge.rho >= Fraction(1, 3)


def test_answers_are_not_pulled_back_into_the_data(tmp_path: Path) -> None:
    """MEC-12: counts over nobody may be negative, and means may lie anywhere within the declared bounds."""
    empty = Clinic(tmp_path, tables={"people": frames()["people"].iloc[:0]})
    counts = [empty.one("SELECT COUNT(*) FROM people") for _ in range(40)]
    assert min(counts) < 0 < max(counts)
    means = {empty.one("SELECT AVG(age) FROM people") for _ in range(40)} - {None}
    assert {0.0, 100.0} & means or len(means) > 5


def test_no_two_numbers_share_a_draw(tmp_path: Path) -> None:
    """MEC-13: over an empty table every number is its noise: no column, row or repetition is another's."""
    empty = Clinic(tmp_path, tables={"visits": frames()["visits"].iloc[:0], "flags": frames()["flags"].iloc[:0]})
    query = "SELECT EXTRACT(doy FROM day), COUNT(*), COUNT(id), SUM(fixed), COUNT(DISTINCT note) FROM visits GROUP BY 1"
    answers = []
    for _ in range(3):
        table = empty.sql(query, rho="0.0001").to_arrow()
        answers += [np.array(table[i].to_pylist(), dtype=float) for i in range(1, table.num_columns)]
    columns = np.array(answers)
    assert all(len(np.unique(column)) > 100 for column in columns)
    correlations = np.corrcoef(columns) - np.eye(len(columns))
    correlated = np.abs(correlations) > 6.5 / math.sqrt(366)
    shared = {(i, j) for i, j in np.argwhere(correlated) if i < j}
    # COUNT(*) and COUNT(id) of one query may be one measurement, and then they are the same number.
    assert {(i % 4, j % 4) for i, j in shared} <= {(0, 1)}
    assert all(i // 4 == j // 4 for i, j in shared)


def test_an_answer_is_drawn_once(clinic: Clinic) -> None:
    """MEC-13, ACC-01: reading, showing and converting an answer again gives the same numbers."""
    before = clinic.path.read_bytes()
    answer = clinic.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon="0.01")
    after = clinic.path.read_bytes()
    assert before != after
    first = answer.to_arrow()
    for _ in range(3):
        assert answer.to_arrow().equals(first)
        assert answer.to_pandas().n.tolist() == first["n"].to_pylist()
        assert str(answer) == repr(answer)
        assert answer.accuracy.equals(answer.accuracy)
    assert clinic.path.read_bytes() == after
    assert isinstance(first, pa.Table)


def test_noise_cannot_be_replayed_from_a_pickle(clinic: Clinic) -> None:
    """MEC-05, API-01: what could hold a generator cannot be pickled; what can holds none."""
    with pytest.raises(TypeError):
        pickle.dumps(clinic.session)
    plan = clinic.session.explain("SELECT COUNT(*) FROM visits", epsilon=1)
    assert b"random" not in pickle.dumps(plan.measurements)


@pytest.mark.parametrize("amount", ["nan", "inf", "-1", "0", "", "1e400", True, None, b"1", [1], 1j])
def test_what_is_no_amount_is_refused(clinic: Clinic, amount: object) -> None:
    """MEC-11, ACC-08."""
    clinic.refuses("SELECT COUNT(*) FROM visits", InvalidLossError, epsilon=amount)
