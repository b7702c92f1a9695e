"""A disk that fills and frees, and files that are truncated: each charge that returned a number has its own entry."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.architecture.package import ROOT


def charged(seconds: int, processes: int, truncate: bool) -> tuple[int, int]:
    """Returns how many charges returned a number, and how many entries there are, after checking each number."""
    options = ["--seconds", str(seconds), "--processes", str(processes), *["--truncate"] * truncate]
    command = [sys.executable, "-m", "tests.attacks.full_disk", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    released, recorded = re.findall(r"[\d,]+(?= charges|$)", done.stdout.strip())
    return int(released.replace(",", "")), int(recorded.replace(",", ""))


@pytest.mark.parametrize("truncate", [False, True])
def test_no_charge_returns_the_entry_of_another(truncate: bool) -> None:
    """LED-20."""
    released, recorded = charged(1, 4, truncate)
    assert 0 < released <= recorded


@pytest.mark.slow
@pytest.mark.parametrize("truncate", [False, True])
def test_no_charge_returns_the_entry_of_another_in_a_minute(truncate: bool) -> None:
    released, recorded = charged(60, 8, truncate)
    assert 0 < released <= recorded
