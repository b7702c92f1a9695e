"""The command line, as a function of its arguments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpquery.frontends.cli.main import run


@pytest.fixture
def dpquery(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line: exit code, standard output, standard error."""

    def run_command(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command
