"""`prepare` that is killed: the folder holds a whole version."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.architecture.package import ROOT


def killed(every: int, at_random: int) -> int:
    options = ["--every", str(every), "--random", str(at_random)]
    command = [sys.executable, "-m", "tests.attacks.prepare_killed", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(re.findall(r"\d+", done.stdout)[0])


def test_a_preparation_that_is_killed_leaves_a_whole_version() -> None:
    assert killed(14, 2) > 6


@pytest.mark.slow
def test_two_hundred_preparations_that_are_killed() -> None:
    assert killed(1, 60) > 200
