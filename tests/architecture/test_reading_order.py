"""The researcher's reading order has every file of the trusted base once, and each file leads to its proof."""

from __future__ import annotations

import re

import pytest

from tests.architecture.package import PACKAGE, ROOT, TRUSTED, Module, imported, modules

PAGE = (ROOT / "docs" / "proofs" / "reading-order.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `((?:units|kernel|ledger)/\w+\.py)` \| (.+?) \| .+ \|$", PAGE, re.MULTILINE)
FILES = sorted(
    file.relative_to(PACKAGE).as_posix()
    for place in TRUSTED
    for file in (PACKAGE / place).rglob("*.py")
    if file.name != "__init__.py"
)


def base() -> list[Module]:
    """Returns the modules of the trusted base."""
    return [module for module in modules() if module.path in FILES]


def test_each_file_of_the_base_is_read_once() -> None:
    assert sorted(path for path, _ in ROWS) == FILES


def test_the_number_of_files_is_said() -> None:
    assert f"in {len(FILES)} files" in PAGE


@pytest.mark.parametrize("path", FILES)
def test_a_file_names_a_proof_that_its_row_links(path: str) -> None:
    linked = re.findall(r"\]\(([\w-]+\.md)\)", dict(ROWS)[path])
    text = (PACKAGE / path).read_text(encoding="utf-8")
    assert {f"docs/proofs/{page}" for page in linked} & set(re.findall(r"docs/proofs/[\w-]+\.md", text))


def test_a_file_is_read_after_what_it_imports() -> None:
    """But for circles by type alone, and the gate's protocols: what a claim rests on comes first."""
    order = {f"dpquery.{path[:-3].replace('/', '.')}": place for place, (path, _) in enumerate(ROWS)}
    for module in base():
        own = order[f"dpquery.{module.path[:-3].replace('/', '.')}"]
        by_type = set(re.findall(r"^    from (dpquery\.\w+\.\w+) import", module.text, re.MULTILINE))
        names = {name for name in order for known in imported(module) if known == name or known.startswith(f"{name}.")}
        assert all(order[name] < own for name in names - by_type), module.path


def test_the_engines_files_of_the_page_are_there() -> None:
    named = re.findall(r"^\| `(backends/[\w/]+\.py)`((?:, `\w+`)*)", PAGE, re.MULTILINE)
    assert len(named) >= 5
    for path, functions in named:
        text = (PACKAGE / path).read_text(encoding="utf-8")
        assert all(f"def {function}(" in text for function in re.findall(r"`(\w+)`", functions))
