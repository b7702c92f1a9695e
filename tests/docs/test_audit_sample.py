"""The sample of an audit in the docs is what the command prints, but for numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.audit_sample import sample, shown
from tests.docs.pages import without_numbers


@pytest.mark.slow
def test_the_sample_of_an_audit_is_what_the_command_prints(tmp_path: Path) -> None:
    printed = sample(tmp_path, "--answers", "5")
    assert (tmp_path / "audit.html").exists()
    assert _words(printed) == _words(shown())


def _words(text: str) -> str:
    return without_numbers(" ".join(text.split()))
