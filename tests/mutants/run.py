"""Runs each mutant of the list against the tests that must find it: `python -m tests.mutants.run [part of a name]`.

Each mutant is made in a copy of the package. Survivors, and tests that already fail without a mutant, end the run with
status 1. `--check` only reads the list.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.places import matches, replaced

ROOT = Path(__file__).resolve().parents[2]
WORKERS = int(os.environ.get("WORKERS", "2"))
PATIENCE = 300  # seconds for one run of tests
VERDICTS = {0: "survived", 1: "killed"}  # statuses of pytest: all passed, some failed


def main(arguments: list[str]) -> int:
    """Returns 0 if every chosen mutant is killed."""
    check_texts()
    if arguments == ["--check"]:
        return 0
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.name for word in arguments)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpquery-mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for i in range(WORKERS):
            copies.put(copy_of_project(Path(folder) / str(i)))
        broken = unmutated(copies, chosen)
        if broken:
            print("These fail without any mutant, so they prove nothing:", *broken, sep="\n  ")
            return 1
        with ThreadPoolExecutor(WORKERS) as workers:
            verdicts = list(workers.map(lambda mutant: judge(copies, mutant), chosen))
    counts = Counter(verdicts)
    print(f"{', '.join(f'{n} {verdict}' for verdict, n in counts.items())} in {time.monotonic() - started:.0f} s")
    return 0 if set(counts) <= {"killed"} else 1


def check_texts() -> None:
    """Ends the run unless each mutant's pattern matches exactly once, and each name occurs once in the list."""
    names = Counter(mutant.name for mutant in MUTANTS)
    problems = [f"{name}: two mutants of this name" for name, count in names.items() if count > 1]
    for mutant in MUTANTS:
        found = len(matches(mutant.place, mutant.old))
        if found != 1 or mutant.old == mutant.new:
            problems.append(f"{mutant.name}: its pattern matches {found} times in definitions named {mutant.place}")
    if problems:
        sys.exit("\n".join(problems))


def copy_of_project(folder: Path) -> Path:
    """Returns a folder with the package, its tests, what they share with benchmarks, and its settings."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for part in ("benchmarks", "dpquery", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def unmutated(copies: SimpleQueue[Path], chosen: Iterable[Mutant]) -> list[str]:
    """Returns the selections of tests that do not pass on the package as it is."""
    selections = sorted({(mutant.tests, mutant.only) for mutant in chosen})

    def passes(selection: tuple[str, str]) -> bool:
        folder = copies.get()
        try:
            return run_tests(folder, *selection) == "survived"
        finally:
            copies.put(folder)

    with ThreadPoolExecutor(WORKERS) as workers:
        passed = list(workers.map(passes, selections))
    return [f"{tests} -k '{only}'" for (tests, only), ok in zip(selections, passed, strict=True) if not ok]


def judge(copies: SimpleQueue[Path], mutant: Mutant) -> str:
    """Returns what became of a mutant, and prints a line about it."""
    folder = copies.get()
    name, mutated = replaced(mutant.place, mutant.old, mutant.new)
    file = folder / "dpquery" / name
    original = file.read_text()
    started = time.monotonic()
    try:
        file.write_text(mutated)
        verdict = run_tests(folder, mutant.tests, mutant.only)
    finally:
        file.write_text(original)
        copies.put(folder)
    print(f"{verdict:9}  {time.monotonic() - started:4.0f} s  {mutant.name}  ({mutant.tests})", flush=True)
    return verdict


def run_tests(folder: Path, tests: str, only: str) -> str:
    """Returns whether tests fail ("killed"), pass ("survived"), or could not be run ("broken")."""
    command = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not clients",
        tests,
    ]
    if only:
        command += ["-k", only]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return "broken"
    return VERDICTS.get(done.returncode, "broken")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
