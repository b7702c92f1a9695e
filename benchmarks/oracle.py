"""What one person's bit changes in outcome, memory and time, in process and by wire: `python -m benchmarks.oracle`.

Two wards differ in one bit of person 7. Each shape of `benchmarks.shapes` is asked of both in turn, `--runs` times,
each time as a fresh question that is charged for. Shapes that are refused must be refused by both, and charge nothing.
Of the others the table says whether the outcomes are equal, by how many megabytes resident memory grows at its peak,
the median times and those on processors, each with the p-value of a two-sample Kolmogorov-Smirnov test, the bound (the
steps of `kernel/work.py` for the rows of the person, and the time that they take at most), and the p-value of the
one-sided test that the bit costs more time than the bound. With `--persons 100000` there are many others, whose rows
the bit could decide about.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

import dpquery as dp
from benchmarks.server import PASSWORD, served
from benchmarks.shapes import ANSWERED, CATALOG, REFUSED, ROW_LIMIT, asked, frames
from benchmarks.soak import descendants
from dpquery.catalog import Catalog
from dpquery.frontends.postgres.login.users import Users
from dpquery.kernel.work import BYTES, parts_of, steps_of
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.session.options import Request
from dpquery.session.pipeline import plan
from dpquery.units.costs import STEP

EPSILON = "1e-4"
SETTINGS = f"SET dpquery.epsilon = '{EPSILON}'; SET statement_timeout = '10s'"
ALARM = 1e-6
"""A p-value below it is a difference."""
MOST_MEMORY = 8.0
"""Megabytes between both peaks that any shape may take; more only where many rows may, as printed."""
SLOWEST_STEP = 1e-3
"""Milliseconds; docs/proofs/work.md."""
PROCESS_CLOCK = 2
"""Of another process, as `clock_getcpuclockid` makes it."""
WARMING = 10_000
"""Numbers of runs that are not counted begin here."""


@dataclass(slots=True)
class Ward:
    """One of the two wards, behind a door.

    Attributes:
        ask: Asks a question; returns the outcome, in words that hold no noise.
        folder: Where its ledger is.
        processes: Those that answer.
    """

    ask: Callable[[str], str]
    folder: Path
    processes: list[int]

    def ledger(self) -> dict[str, bytes]:
        """Returns all bytes of the ledger's files."""
        return {path.name: path.read_bytes() for path in sorted(self.folder.glob("ward.ledger*")) if path.is_file()}

    def charges(self) -> int:
        """Returns how many charges the ledger holds."""
        ledger = dp.Ledger.open(self.folder / "ward.ledger")
        try:
            return len(ledger.entries())
        finally:
            ledger.close()

    def resident(self, word: str = "VmRSS:") -> float:
        """Returns the resident megabytes of its processes, or with VmHWM: their peak since it was last forgotten."""
        lines = [
            line for process in self.processes for line in Path(f"/proc/{process}/status").read_text().splitlines()
        ]
        return sum(int(line.split()[1]) for line in lines if line.startswith(word)) / 1024

    def processor(self) -> float:
        """Returns the milliseconds that all threads of its processes have computed so far (Linux)."""
        return sum(time.clock_gettime((~process << 3) | PROCESS_CLOCK) for process in self.processes) * 1000

    def forget_peak(self) -> None:
        """Sets the peak of its processes to what they have now (Linux)."""
        for process in self.processes:
            Path(f"/proc/{process}/clear_refs").write_text("5")


Door = Callable[[Path], contextlib.AbstractContextManager[Ward]]


def make_ward(folder: Path, *, bit: bool, size: int = 0) -> None:
    """Writes catalog, tables, an empty ledger and a user; person 7 has as many visits as are read, or where a size is
    said, which is how many persons there are, as many as the others."""
    folder.mkdir(parents=True)
    (folder / "ward.yaml").write_text(CATALOG)
    made = frames(bit, size=size, notes=20) if size else frames(bit, ROW_LIMIT)
    for name, frame in made.items():
        table = pa.Table.from_pandas(frame, preserve_index=False)
        for place, column in enumerate(table.column_names):
            if column == "day":
                table = table.set_column(place, column, table[column].cast(pa.date32(), safe=False))
        pq.write_table(table, folder / f"{name}.parquet")
    dp.create_ledger(folder / "ward.yaml", folder / "ward.ledger").close()
    Users.create(folder / "users.db").add("reader", PASSWORD)


@contextlib.contextmanager
def in_process(folder: Path) -> Iterator[Ward]:
    """A session in a process of its own, asked by lines."""
    command = [sys.executable, "-c", "import sys; from benchmarks.oracle import answer; answer(sys.argv[1])"]
    process = subprocess.Popen([*command, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    given, said = process.stdin, process.stdout

    def ask(text: str) -> str:
        print(json.dumps(text), file=given, flush=True)
        return said.readline().strip()

    try:
        if said.readline().strip() != "ready":
            raise RuntimeError("the session did not open")
        yield Ward(ask, folder, [process.pid])
    finally:
        given.close()
        process.wait(600)
        said.close()


def answer(folder: str) -> None:
    """Answers the questions that come as lines, until there are no more."""
    files = {name: f"{folder}/{name}.parquet" for name in Catalog.from_yaml(CATALOG).tables}
    with dp.connect(f"{folder}/ward.yaml", files, ledger=f"{folder}/ward.ledger") as session:
        print("ready", flush=True)
        for line in sys.stdin:
            try:
                table = session.sql(json.loads(line), epsilon=EPSILON, fresh=True).to_arrow()
                outcome = f"answered {table.column_names}"
            except dp.DPQueryError as error:
                outcome = f"{type(error).__name__}: {error}"
            print(json.dumps(outcome), flush=True)


@contextlib.contextmanager
def over_the_wire(folder: Path) -> Iterator[Ward]:
    """A server in a process of its own, asked by a client that has set a small epsilon and a time-out."""
    with served(folder, catalog="ward.yaml") as (url, root), psycopg.connect(url, autocommit=True) as client:
        client.execute(SETTINGS)

        def ask(text: str) -> str:
            try:
                cursor = client.execute(text)
                cursor.fetchall()
                return f"answered {[column.name for column in cursor.description or ()]}"
            except psycopg.Error as error:
                return f"{error.sqlstate}: {error}"

        yield Ward(ask, folder, descendants(root))


DOORS: dict[str, Door] = {"in process": in_process, "over the wire": over_the_wire}


@contextlib.contextmanager
def opened(folder: Path, door: Door, size: int = 0) -> Iterator[tuple[Ward, Ward]]:
    """Opens both wards, with the bit and without; the folder may hold neither yet. The size is that of `make_ward`."""
    folders = []
    for name, bit in (("with", True), ("without", False)):
        folders.append(folder / name)
        make_ward(folders[-1], bit=bit, size=size)
    with door(folders[0]) as first, door(folders[1]) as second:
        yield first, second


@dataclass(slots=True)
class Figures:
    """What two wards did, the one with the bit first.

    Attributes:
        outcomes: What was answered.
        times: In milliseconds, in the order of the runs.
        computed: Milliseconds on processors, which other load of the machine moves little.
        memory: The peak during each run, in megabytes.
        charged: Entries of the ledger.
    """

    outcomes: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    times: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    computed: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    memory: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    charged: tuple[int, int] = (0, 0)

    @property
    def same(self) -> bool:
        """Whether there was one outcome, and it was an answer that was charged for, in each run."""
        answered = len(self.outcomes[0] | self.outcomes[1]) == 1 and "answered" in next(iter(self.outcomes[0]))
        return answered and self.charged == (len(self.times[0]),) * 2

    @property
    def grown(self) -> float:
        """Megabytes between the medians of the peaks."""
        first, second = (statistics.median(peaks) for peaks in self.memory)
        return first - second


def compare(wards: tuple[Ward, Ward], shape: str, runs: int, seconds: float = math.inf) -> Figures:
    """Returns what a shape did, asked of both wards in turn.

    Args:
        runs: Of each ward, after three of which the time does not count.
        seconds: After which no other run begins.
    """
    figures, end = Figures(), time.monotonic() + seconds
    for ward in wards:
        ward.ask(asked("a filter", WARMING))
    floors = [ward.resident() for ward in wards]
    for run in range(3):
        for ward in wards:
            figures.outcomes[wards.index(ward)].add(ward.ask(asked(shape, WARMING + 1 + run)))
    before = [ward.charges() for ward in wards]
    for run in range(runs):
        if time.monotonic() > end:
            break
        for which in (0, 1) if run % 2 else (1, 0):
            wards[which].forget_peak()
            computed, begun = wards[which].processor(), time.perf_counter()
            figures.outcomes[which].add(wards[which].ask(asked(shape, run)))
            figures.times[which].append((time.perf_counter() - begun) * 1000)
            figures.computed[which].append(wards[which].processor() - computed)
            figures.memory[which].append(wards[which].resident("VmHWM:") - floors[which])
    after = [ward.charges() for ward in wards]
    figures.charged = (after[0] - before[0], after[1] - before[1])
    return figures


def smirnov(first: list[float], second: list[float], *, one_sided: bool = False) -> float:
    """Returns the p-value of the two-sample Kolmogorov-Smirnov test, by its limit law, which is never too small for
    samples of a hundred.

    Args:
        one_sided: Against the alternative that the first are larger.
    Source:
        Massey 1951, "The Kolmogorov-Smirnov test for goodness of fit"; Smirnov 1948 for one side.
    """
    places = np.sort(np.concatenate([first, second]))
    below = [np.searchsorted(np.sort(sample), places, side="right") / len(sample) for sample in (first, second)]
    gaps = below[1] - below[0]
    gap = float(np.max(gaps if one_sided else np.abs(gaps)))
    size = len(first) * len(second) / (len(first) + len(second))
    if one_sided:
        return math.exp(-2 * size * max(0.0, gap) ** 2)
    terms = [(-1) ** (k - 1) * math.exp(-2 * k * k * size * gap * gap) for k in range(1, 101)]
    return 1.0 if gap * math.sqrt(size) < 0.2 else min(1.0, max(0.0, 2 * math.fsum(terms)))


@dataclass(frozen=True, slots=True)
class Bound:
    """What person 7 may cause, as printed: the rows that the person has in the table, times what one row may.

    Attributes:
        steps: Of work.
        texts: Megabytes of text in memory.
    """

    steps: int
    texts: float

    @property
    def milliseconds(self) -> float:
        """The time of so many steps, if each is among the slowest."""
        return self.steps * SLOWEST_STEP

    @property
    def memory(self) -> float:
        """Megabytes that may lie between the peaks: of texts, or of what the steps have read or made, 64 bytes each."""
        return max(MOST_MEMORY, self.texts, self.steps * STEP / 1e6)


def bounds(folder: Path, shapes: Iterable[str]) -> dict[str, Bound]:
    """Returns what each shape may cause; the folder holds a ward with the bit."""
    made = {}
    with dp.connect(Catalog.from_yaml(CATALOG), frames(True), ledger=folder / "with" / "ward.ledger") as session:
        for shape in shapes:
            request = Request(text=asked(shape), offer=QueryBudget.of(EPSILON, None, None), bounds=ContributionBounds())
            (made_of,) = plan((request,), catalog=session.catalog, ledger=session._ledger, public=session._backend)
            parts = parts_of(made_of.budgeted, session.catalog.declarations, session._backend)
            rows = ROW_LIMIT if "visits" in asked(shape) else 1
            made[shape] = Bound(rows * steps_of(parts), rows * BYTES * sum(part.held for part in parts) / 1e6)
    return made


def refused(wards: tuple[Ward, Ward], shape: str) -> set[str]:
    """Returns what both wards said to a shape that charges nothing.

    Raises:
        RuntimeError: A ledger changed.
    """
    before = [ward.ledger() for ward in wards]
    said = {ward.ask(asked(shape)) for ward in wards}
    if [ward.ledger() for ward in wards] != before:
        raise RuntimeError(f"{shape}: a refusal changed the ledger")
    return said


def row(shape: str, found: Figures, bound: Bound) -> tuple[str, bool]:
    """Returns a line of the table, and whether it is as promised."""
    taken = (found.times, found.computed)
    beyond = [smirnov([one - bound.milliseconds for one in first], last, one_sided=True) for first, last in taken]
    good = found.same and min(beyond) >= ALARM and found.grown <= bound.memory
    cells = [shape, "equal" if found.same else f"DIFFERENT {found.outcomes} {found.charged}"]
    cells += [*(f"{statistics.median(peaks):.1f}" for peaks in found.memory), f"{bound.memory:,.0f}"]
    for both in taken:
        cells += [*(f"{statistics.median(times):.1f}" for times in both), f"{smirnov(*both):.0e}"]
    cells += [f"{bound.steps:,}", f"{bound.milliseconds:,.1f}", f"{min(beyond):.0e}"]
    return f"| {' | '.join(cells)} |", good


HEAD = """
| shape | outcomes | MB with | without | bound | ms with | without | p | CPU with | without | p | steps | ms | beyond |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""


def report(folder: Path, door: str, shapes: list[str], runs: int, seconds: float, together: int, size: int) -> bool:
    """Prints the table of one door; returns whether each shape is as promised.

    Each few shapes have new processes, so that what the engine keeps of one does not hide what another takes.
    """
    print(f"\n{door}, {runs} runs of each\n{HEAD}", flush=True)
    good, end = True, time.monotonic() + seconds
    refusals, answers = ([shape for shape in shapes if shape in group] for group in (REFUSED, ANSWERED))
    with opened(folder / "refused", DOORS[door]) as wards:
        for shape in refusals:
            said = refused(wards, shape)
            equal = len(said) == 1 and "answered" not in next(iter(said))
            good = good and equal
            cells = [shape, "refused by both" if equal else f"DIFFERENT {said}", *[""] * 12]
            print(f"| {' | '.join(cells)} |", flush=True)
    known = bounds(folder / "refused", answers)
    for number in range(0, len(answers), together):
        with opened(folder / str(number), DOORS[door], size) as wards:
            for shape in answers[number : number + together]:
                if time.monotonic() > end:
                    print(f"not asked, or not often enough, for want of time: {shape} and what follows")
                    return False
                line, promised = row(shape, compare(wards, shape, runs, end - time.monotonic()), known[shape])
                good = good and promised
                print(line if promised else f"{line} NOT AS PROMISED", flush=True)
    return good


def main() -> int:
    """Runs it from the command line; 0 where all is as promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="of each shape in each ward")
    parser.add_argument("--minutes", type=float, default=30.0, help="of each door, at most")
    parser.add_argument("--together", type=int, default=1, help="shapes that the same processes answer")
    parser.add_argument("--persons", type=int, default=0, help="many, with few visits each; by default 40 with many")
    parser.add_argument("--door", choices=list(DOORS), action="append", help="by default both")
    parser.add_argument("--shape", choices=[*REFUSED, *ANSWERED], action="append", help="by default all")
    given = parser.parse_args()
    good = True
    for door in given.door or DOORS:
        with tempfile.TemporaryDirectory() as name:
            shapes = given.shape or [*REFUSED, *ANSWERED]
            good &= report(Path(name), door, shapes, given.runs, given.minutes * 60, given.together, given.persons)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
