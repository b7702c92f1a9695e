"""Attacks on statistics: reconstruction, differencing, averaging and membership; on exact or slightly noisy answers,
where each succeeds, and on dpquery within its budget, where each fails as the theorems say.

Secrets are made up. Answers of dpquery come from a session of its own over them, with a ledger in a temporary folder.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpquery.accounting import reconstruction_error
from dpquery.catalog import Catalog
from dpquery.result.table import Result
from dpquery.session.connecting import connect
from dpquery.session.session import Session

Bits = NDArray[np.int64]
Floats = NDArray[np.float64]
_RANDOM = SystemRandom()
EPSILON = 1
"""The whole budget of each attack on dpquery."""
PEOPLE = 64
QUERIES = 4 * PEOPLE
FEW = 10
"""People of whom every subset is asked, as in the theorem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallen:
    """How many bits a reconstruction has wrong where errors are at most so large.

    Attributes:
        error: The largest error of an answer.
        wrong: The part of bits that are wrong.
        bound: The part that the theorem allows, 4 E / n; None where it says nothing.
    """

    error: float
    wrong: float
    bound: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack, without and with dpquery: how often it is right, of what a coin gets half.

    Attributes:
        name: What it does, in a few words.
        told: What happens, for people.
        against: What answers without protection give.
        protected: What dpquery's give.
        most: What the budget allows the best attacker at most.
    """

    name: str
    told: str
    against: float
    protected: float
    most: float


def secret(size: int) -> Bits:
    """Returns fresh random bits."""
    return np.array([_RANDOM.getrandbits(1) for _ in range(size)], dtype=np.int64)


# Reconstruction.


def all_subsets(size: int = FEW) -> list[Fallen]:
    """Returns for each largest error E the part of bits that are wrong at worst, where every subset is counted with
    error E at most: any candidate whose counts are all within E has at most 4 E wrong bits.

    Errors are chosen to hide as much as they can: answers lie half-way between those of two candidates.
    Source:
        Dinur, Nissim 2003, theorem 2: two subsets, of the bits that are 1 wrongly and 0 wrongly, each hold at most 2 E.
    """
    subsets = np.array(list(itertools.product((0, 1), repeat=size)), dtype=np.int64)
    exact = subsets @ subsets.T  # counts of each subset (column) for each candidate (row)
    bits = np.array([1, 0] * (size // 2), dtype=np.int64)
    found = []
    for exchanged in range(size // 2 + 1):
        other = bits.copy()
        other[: 2 * exchanged] = 1 - other[: 2 * exchanged]
        answers, error = (subsets @ bits + subsets @ other) / 2, exchanged / 2
        candidates = subsets[np.abs(exact - answers).max(axis=1) <= error]
        wrong = int(np.abs(candidates - bits).sum(axis=1).max())
        found.append(Fallen(error=error, wrong=wrong / size, bound=reconstruction_error(error, people=size) / size))
    return found


def random_subsets(errors: Sequence[float] = (16, 12, 8, 6, 4, 3, 2, 1, 0)) -> list[Fallen]:
    """Returns the part of bits that least squares gets wrong from a few random subset counts, less and less noisy."""
    found = []
    for error in errors:
        asked, bits = subsets_asked(PEOPLE, QUERIES), secret(PEOPLE)
        noise = np.array([_RANDOM.uniform(-error, error) for _ in range(QUERIES)])
        found.append(Fallen(error=error, wrong=wrong_bits(asked, asked @ bits + noise, bits)))
    return found


def subsets_asked(size: int, count: int) -> Bits:
    """Returns random subsets of so many people, a row each."""
    return np.array([[_RANDOM.getrandbits(1) for _ in range(size)] for _ in range(count)], dtype=np.int64)


def wrong_bits(asked: Bits, answers: Floats, bits: Bits) -> float:
    """Returns the part of bits that are wrong after least squares and rounding."""
    guessed = np.linalg.lstsq(asked.astype(np.float64), answers, rcond=None)[0]
    return float(((guessed > 0.5) != bits).mean())


def reconstruction_of_dpquery(size: int = 32, count: int = 128) -> Fallen:
    """Returns the same attack on dpquery: all subset counts within the budget, which is spent by it."""
    asked, bits = subsets_asked(size, count), secret(size)
    with people(bits) as session:
        answers: list[float] = []
        for start in range(0, count, 32):
            each = session.batch([_count(row) for row in asked[start : start + 32]], epsilon=f"{32 * EPSILON}/{count}")
            answers += [_number(answer) for answer in each]
    error = float(np.abs(np.array(answers) - asked @ bits).max())
    return Fallen(error=error, wrong=wrong_bits(asked, np.array(answers), bits))


def _number(answer: Result) -> float:
    return float(answer.to_arrow()["n"][0].as_py())


def _count(row: Bits) -> str:
    seats = ", ".join(str(seat) for seat in np.flatnonzero(row)) or "-1"
    return f"SELECT COUNT(*) AS n FROM people WHERE ill AND seat IN ({seats})"


@contextlib.contextmanager
def people(bits: Bits, *, epsilon: str = str(EPSILON)) -> Iterator[Session]:
    """Gives a session over people whose seats are known and whose bits are not, with this budget."""
    columns: dict[str, object] = {
        "id": {"type": "int64"},
        "seat": {"type": "int64", "keys": list(range(len(bits)))},
        "ill": {"type": "boolean"},
    }
    places = np.arange(len(bits))
    table = pa.table({"id": places, "seat": places, "ill": bits.astype(bool)})
    tables: dict[str, object] = {"people": {"unit": "id", "unique": [["id"]], "columns": columns}}
    with _session(tables, {"people": table}, epsilon) as session:
        yield session


@contextlib.contextmanager
def _session(tables: dict[str, object], sources: dict[str, pa.Table], epsilon: str) -> Iterator[Session]:
    catalog = Catalog(
        dataset="attacked",
        privacy_unit="person",
        budget={"epsilon": epsilon},
        defaults={"least_charge": "1e-6"},
        tables=tables,
    )
    with (
        tempfile.TemporaryDirectory(prefix="dpquery-attack-") as folder,
        connect(catalog, sources, ledger=Path(folder) / "ledger", analyst="mallory", create=True) as session,
    ):
        yield session


# Other attacks.


def attacks() -> Iterator[Attack]:
    """Yields the best guess of each bit, differencing, averaging and membership, each against both."""
    yield _best_guess()
    yield _differencing()
    yield _averaging()
    yield _membership()


def _best_guess() -> Attack:
    """Each bit guessed from one noisy count of its own, for the whole budget: the strongest attack on bits there is."""
    size = 5000
    bits = secret(size)
    with people(bits) as session:
        text = "SELECT seat, COUNT(*) FILTER (WHERE ill) AS n FROM people GROUP BY seat"
        noisy = np.array(session.sql(text, epsilon=EPSILON).to_arrow()["n"].to_pylist(), dtype=np.float64)
    return Attack(
        name="one count for each person",
        told="the analyst spends all of the budget on counting everybody apart, and guesses each bit",
        against=1.0,
        protected=float(((noisy > 0.5) == bits).mean()),
        most=_most(),
    )


def _most() -> float:
    """Returns what epsilon-DP allows the best attacker of an even bit: e^epsilon / (1 + e^epsilon)."""
    return float(1 / (1 + np.exp(-EPSILON)))


def _differencing() -> Attack:
    """Two counts whose difference is one person; each attempt is at another person, with a budget of its own."""
    bits, right = secret(TRIALS), 0
    everybody = "SELECT COUNT(*) AS n FROM people WHERE ill"
    with people(bits, epsilon=str(EPSILON * TRIALS)) as session:
        for seat, bit in enumerate(bits):
            pair = (everybody, f"{everybody} AND seat <> {seat}")
            counts = [_number(session.sql(text, epsilon=f"{EPSILON}/2", fresh=True)) for text in pair]
            right += (counts[0] - counts[1] > 0.5) == bool(bit)
    return Attack(
        name="differencing",
        told="everybody is counted, and everybody but one; exactly, the difference is that person's secret",
        against=1.0,
        protected=right / TRIALS,
        most=_most(),
    )


def _averaging() -> Attack:
    """The same question many times, so that noise averages out; each attempt is at another person, as above."""
    bits, right, naive = secret(TRIALS), 0, 0
    with people(bits, epsilon=str(EPSILON * TRIALS)) as session:
        for seat, bit in enumerate(bits):
            fresh = [_RANDOM.gauss(float(bit), 2.0) for _ in range(200)]
            naive += (sum(fresh) / len(fresh) > 0.5) == bool(bit)
            text = f"SELECT COUNT(*) AS n FROM people WHERE ill AND seat = {seat}"
            asked = [_number(session.sql(text, epsilon=EPSILON)) for _ in range(5)]
            right += (sum(asked) / len(asked) > 0.5) == bool(bit)
    return Attack(
        name="averaging",
        told="one question is asked again and again; fresh noise would average out, a stored answer stays what it is",
        against=naive / TRIALS,
        protected=right / TRIALS,
        most=_most(),
    )


TRIALS = 100
"""Attempts of differencing and of averaging."""
ATTRIBUTES, MEMBERS = 200, 60


def _membership() -> Attack:
    """Many averages of a group, by which one tells whether somebody's known attributes are part of it."""
    chances = np.array([_RANDOM.uniform(0.1, 0.9) for _ in range(ATTRIBUTES)])

    def drawn(size: int) -> Floats:
        return np.array([[float(_RANDOM.random() < chance) for chance in chances] for _ in range(size)])

    members, others = drawn(MEMBERS), drawn(MEMBERS)
    owner, place = np.nonzero(members)
    columns = {"id": {"type": "int64"}, "attribute": {"type": "int64", "keys": list(range(ATTRIBUTES))}}
    tables: dict[str, object] = {"traits": {"unit": "id", "max_rows": ATTRIBUTES, "columns": columns}}
    with _session(tables, {"traits": pa.table({"id": owner, "attribute": place})}, str(EPSILON)) as session:
        text = "SELECT attribute, COUNT(*) AS n FROM traits GROUP BY attribute"
        noisy = np.array(session.sql(text, epsilon=EPSILON).to_arrow()["n"].to_pylist(), dtype=np.float64)
    return Attack(
        name="membership",
        told=f"{ATTRIBUTES} counts of a group are compared with what is known of somebody, who may be part of it",
        against=_told_apart(members, others, members.sum(axis=0), chances),
        protected=_told_apart(members, others, noisy, chances),
        most=_most(),
    )


def _told_apart(members: Floats, others: Floats, counts: Floats, chances: Floats) -> float:
    """Returns how often the best threshold of a score is right, of as many members as others.

    Source:
        Homer et al. 2008; Dwork, Smith, Steinke, Ullman, Vadhan 2015.
    """
    excess = counts / MEMBERS - chances
    inside, outside = ((one - chances) @ excess for one in (members, others))
    ends = np.concatenate([inside, outside])
    return float(max(((inside >= end).mean() + (outside < end).mean()) / 2 for end in ends))
