"""Tries the lowest and the newest versions that the package allows of what it needs: `make versions`.

For each an environment is made, the package is installed, `tried.py` is run, and then the quick tests of reading,
planning and running. The lowest are pins of all needs, and of the extras that others read data by, for the Python that
runs this; the newest are tried for each Python that the package names and the machine has.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.packaging.wheel import ROOT, TRIED, environment

TESTS = ("tests/cases", "tests/backends/conformance/test_reading.py", "tests/backends/conformance/test_relations.py")
NEEDED_BY_TESTS = ("pytest", "hypothesis", "mpmath")
EXTRAS = ("delta", "polars", "postgres", "sqlalchemy")
LOWEST = re.compile(r"([A-Za-z0-9_.-]+(?:\[\w+\])?)>=([0-9.]+)")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def main() -> int:
    """Returns 0 if all environments pass."""
    tried = [("lowest", sys.executable, lowest()), *((f"newest of {name}", name, []) for name in pythons())]
    failed = [name for name, python, pins in tried if not passes(name, python, pins)]
    print("passed:", ", ".join(name for name, *_ in tried if name not in failed) or "none")
    if failed:
        print("failed:", ", ".join(failed))
    return len(failed)


def pythons() -> list[str]:
    """Returns the Pythons that the package names, of those that are here: at least the one that runs this."""
    named = (entry.rpartition(" :: ")[2] for entry in PROJECT["classifiers"] if " :: Python :: 3." in entry)
    own = f"python{sys.version_info.major}.{sys.version_info.minor}"
    others = [name for name in (f"python{version}" for version in named) if name != own and _runs(name)]
    return [sys.executable, *others]


def _runs(python: str) -> bool:
    """Whether a command is there, and more than a name that stands for no version."""
    found = shutil.which(python)
    return found is not None and not subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode


def lowest() -> list[str]:
    """Returns a pin of each dependency, and of those of the extras, to the lowest version of its range."""
    needs = [*PROJECT["dependencies"], *(need for extra in EXTRAS for need in PROJECT["optional-dependencies"][extra])]
    pins = [f"{match[1]}=={match[2]}" for match in map(LOWEST.match, needs) if match]
    if len(pins) != len(needs):
        raise SystemExit(f"a dependency has no lowest version: {needs}")
    return pins


def passes(name: str, python: str, pins: list[str]) -> bool:
    """Returns whether the package works in a fresh environment of a Python, with some versions pinned."""
    print(f"{name}:", flush=True)
    with tempfile.TemporaryDirectory(prefix="dpquery-versions-") as folder:
        fresh = environment(Path(folder) / "fresh", python)
        install: list[str | Path] = [
            fresh,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
            "install",
            "--upgrade",
        ]
        if subprocess.run([*install, f"{ROOT}[{','.join(EXTRAS)}]", *NEEDED_BY_TESTS, *pins], check=False).returncode:
            return False
        subprocess.run([fresh, "-m", "pip", "list", "--format=freeze"], check=True)
        quick = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not clients", *TESTS]
        return not any(
            subprocess.run([fresh, *run], cwd=cwd, check=False).returncode
            for run, cwd in (([TRIED], folder), (quick, ROOT))
        )


if __name__ == "__main__":
    sys.exit(main())
