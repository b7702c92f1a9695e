"""Runs the auditor over a mutated engine: `python -m tests.audit.seeded [name of a mutant ...] | tee LOG`.

`--table LOG` writes what such a run printed into the docs instead.

Each defect is put into a copy of the package. The auditor, which knows nothing of it, has to find it; and has to find
nothing in a copy without one.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.places import replaced

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/audit-an-installation.md"
HEAD = "| defect | found by the | seconds of a processor |"
PATIENCE = 600  # seconds of a processor for one audit
SENSITIVITY = (
    "replacing a unit treated as adding one",
    "a distinct count moves by 1",
    "max_rows ignored",
    "the magnitude of the lower bound alone",
    "a replacement moves one group by the width, never two",
)
CLAMPING = (
    "integers are not clamped",
    "counts are not bounded",
    "sums are not bounded",
    "distinct values are not bounded",
)
WEIGHTS = (
    "rows of units with too many of them weigh 1",
    "weights are rounded up",
    "a unit in too many public groups counts as one in each",
    "all values of a unit have their full weight",
)
NOISE = (
    "Laplace noise of half the scale",
    "Gaussian noise smaller by sqrt 2",
    "a deviation given where a variance is expected",
    "all groups share a draw",
    "each measure gets the whole loss",
)
TAU = (
    "tau for one group",
    "tau lower by one",
    "the threshold is on exact numbers",
    "each round has the whole delta",
    "a unit keeps one group too many",
)
LEDGER = (
    "charged after the engine ran",
    "failures of the engine are paid back",
    "charges are rounded down",
    "only the analyst's own budget counts",
    "lines need not follow in the chain",
    "a question costs next to nothing",
)
REUSE = (
    "a stored answer stands in for a more accurate one",
    "the noise of a sum of groups is that of one",
    "conditions on anything but keys are forgotten",
    "public values that leave out rows add up to all",
    "answers of older data are given",
)
DEFECTS = (*SENSITIVITY, *CLAMPING, *WEIGHTS, *NOISE, *TAU, *LEDGER, *REUSE)
"""Names of mutants in `tests/mutants`."""
STATES = {True: "found  ", False: "nothing", None: "no audit"}
FIRST = """
import sys, tempfile
from pathlib import Path
from dpquery import Catalog
from dpquery.auditing.black_box import drawn
from dpquery.auditing.drills import drills
from dpquery.auditing.gray_box import GrayBox
from dpquery.auditing.questions import of_text

here = Path("tests/audit")
text, queries = (here / "clinic.yaml").read_text(), (here / "clinic.sql").read_text()
replaced = text.replace("neighbours: add_remove", "neighbours: replace_one")
in_rho = text.replace("{epsilon: 4, delta: 1e-6}", "{rho: 0.5, delta: 1e-6}").replace("epsilon: 1,", "rho: 0.02,")

def sections(folder):
    yield drills(folder / "drills")
    for changed in (text, replaced, in_rho):
        catalog = Catalog.from_yaml(changed)
        yield GrayBox(catalog, of_text(queries, catalog), folder).run(1, worlds=1)
    yield drawn(folder, 6)

with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
    for section in sections(Path(name)):
        if section.violations:
            print(f"found by the {section.name}: {section.violations[0]}"[:300])
            sys.exit(1)
"""
"""What runs in the copy: the parts of an audit, for both adjacencies and two budgets, up to the first violation."""


def copied(folder: Path) -> Path:
    """Returns a copy of what an audit needs."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "dpquery", folder / "dpquery", ignore=ignored)
    (folder / "tests").mkdir(parents=True)
    shutil.copytree(ROOT / "tests/audit", folder / "tests/audit", ignore=ignored)
    return folder


def audited(folder: Path) -> tuple[bool | None, str, float]:
    """Returns whether the auditor found something in a copy, what it said, and the seconds of a processor that it took.

    Where the audit could not be made, or took longer than is waited for, neither is true: None.
    """
    started = _processor_seconds()
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-B", "-c", FIRST]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment, preexec_fn=_limited
    )
    took = _processor_seconds() - started
    if done.returncode not in (0, 1) or (done.returncode == 1 and not done.stdout.startswith("found")):
        return None, f"exit {done.returncode}: {done.stderr.strip()[-300:]}", took
    return done.returncode == 1, done.stdout.strip(), took


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))


def judged(mutant: Mutant, folder: Path) -> tuple[bool | None, str, float]:
    """Returns what the auditor says of a copy with this defect."""
    name, mutated = replaced(mutant.place, mutant.old, mutant.new)
    file = folder / "dpquery" / name
    original = file.read_text(encoding="utf-8")
    file.write_text(mutated, encoding="utf-8")
    try:
        return audited(folder)
    finally:
        file.write_text(original, encoding="utf-8")


def named(name: str) -> Mutant:
    """Returns the mutant of this name."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def seeded(names: list[str], tell: Callable[[str], None]) -> list[str]:
    """Returns the defects that were not found, telling of each; `""` stands for no defect at all."""
    missed = []
    with tempfile.TemporaryDirectory(prefix="dpquery-seeded-") as made:
        folder = copied(Path(made) / "copy")
        for name in names:
            found, words, took = judged(named(name), folder) if name else audited(folder)
            tell(f"{STATES[found]} {took:4.0f} s  {name or 'no defect'}: {words}")
            missed += [name] if found is not bool(name) else []
    return missed


def table(log: str) -> str:
    """Returns what a run over all defects printed as a table; raises ValueError where it did not find each of them."""
    found = re.findall(r"^found +(\d+) s  (.+?): found by the (.+?): ", log, re.MULTILINE)
    if tuple(name for _, name, _ in found) != DEFECTS:
        raise ValueError("the log is of other defects, or not all of them were found")
    return "\n".join([HEAD, "|---|---|---|", *(f"| {name} | {box} | {took} |" for took, name, box in found)])


def written() -> str:
    """Returns the table in the docs."""
    return HEAD + PAGE.read_text(encoding="utf-8").partition(HEAD)[2].partition("\n\n")[0]


def main() -> int:
    """Prints what the auditor found of each defect; 1 if one was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; by default all")
    parser.add_argument("--table", type=Path, metavar="LOG", help="write the table of a run into the docs")
    given = parser.parse_args()
    if given.table:
        text = PAGE.read_text(encoding="utf-8").replace(written(), table(given.table.read_text(encoding="utf-8")))
        PAGE.write_text(text, encoding="utf-8")
        return 0
    chosen = [name for name in DEFECTS if not given.names or any(part in name for part in given.names)]
    missed = seeded(chosen, lambda line: print(line, flush=True))
    print(f"{len(chosen) - len(missed)} of {len(chosen)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
