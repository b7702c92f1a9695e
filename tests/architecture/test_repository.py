"""What a maintainer relies on beside the code: the changelog, the hooks, types of tests."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter

import pytest
import yaml

import dpquery
from tests.architecture.commit_title import NO_PROOF, faults, since
from tests.architecture.package import ROOT, modules
from tests.packaging import versions

UNTYPED = 12
"""Test files in which mypy reports no errors of some codes; the number may only fall."""


def test_the_version_has_a_dated_heading_in_the_changelog() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+, \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
    assert headings[1].split(", ")[0] == dpquery.__version__


def test_changes_to_what_is_promised_stand_under_their_own_heading() -> None:
    parts = re.split(r"^### ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert any(part.startswith("Privacy\n") for part in parts)
    assert not [part for part in parts if not part.startswith("Privacy\n") and "**Privacy**" in part]


def test_the_package_says_what_each_room_is() -> None:
    rooms = re.findall(r"^    (\w+) {2,}\S", dpquery.__doc__ or "", re.MULTILINE)
    folders = {init.parent.name for init in (ROOT / "dpquery").glob("*/__init__.py")}
    assert sorted(rooms) == sorted(folders)


CLASSES_OF_ONE_NAME = {
    "InternalError": "PEP 249 gives the exception of `dbapi` its name",
    "Noise": "`accounting.Noise` is public: what a batch adds; the kernel's is that of one measure",
}
"""Names that two classes have, each with its reason; no other name may come to them."""


def test_each_class_has_a_name_of_its_own() -> None:
    """A name that begins with an underscore is read in its module only."""
    names = Counter(
        node.name
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == set(CLASSES_OF_ONE_NAME)
    assert max(names.values()) == 2


def test_the_contract_of_stages_has_each_room() -> None:
    """What is in no layer may be imported by all, and nobody would see it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (contract["layers"] for contract in contracts if contract["name"] == "stages point one way")
    placed = {name.removeprefix("dpquery.") for layer in layers for name in layer.split(" | ")}
    assert placed == {init.parent.name for init in (ROOT / "dpquery").glob("*/__init__.py")} | {"errors"}


def test_a_commit_is_titled_by_place_and_one_of_the_trusted_base_brings_tests() -> None:
    code, test, proof = "dpquery/kernel/release.py", "tests/unit/kernel/test_release.py", "docs/proofs/gate.md"
    assert not faults("kernel: a gate with a lock", [code, test, proof])
    assert not faults("docs: plainer words", ["docs/start/quickstart.md"])
    assert not faults('Revert "kernel: a gate"', [code])
    for title, files in (
        ("a gate with a lock", [test]),
        ("kernel: a gate; docs: its page", [test, proof]),
        ("kernel: " + "a gate " * 20, [test]),
        ("kernel: a gate with a lock", [code, proof]),
        ("kernel: a gate with a lock", [code, test]),
    ):
        assert len(faults(title, files)) == 1, title


HOOK = "960bd4da6ab82a666dd008cc32d5552bb33bec27"
"""The commit that brought the rules of titles."""

AGAINST_THE_RULES = {"7833bf7b", "604ebdfe", "b763d8fe", "e81bb2bc", "e42a6aa7"}
"""Commits made without the hook: three of the base without a test, one of two places, one title that is too long."""


def test_commits_since_the_hook_keep_its_rules() -> None:
    """But for the proof page, which a commit may say that it does not need."""
    commits = since(HOOK)
    if commits is None:
        pytest.skip("no history is here")
    found = {hash: [*{*faults(title, files)} - {NO_PROOF}] for hash, title, files in commits}
    assert len(commits) > 40 and {hash for hash, wrong in found.items() if wrong} == AGAINST_THE_RULES, found


def test_mypy_skips_no_file_and_fewer_and_fewer_codes_in_tests() -> None:
    folders = [[*(ROOT / name).rglob("*.py")] for name in ("tests", "dpquery")]
    said = [
        [re.findall(r"^# mypy: (.*)$", file.read_text(encoding="utf-8"), re.M) for file in some] for some in folders
    ]
    in_tests, in_package = ([one for lines in some for one in lines] for some in said)
    assert all(re.fullmatch(r'disable-error-code="[a-z-]+(, [a-z-]+)*"', one) for one in in_tests)
    assert len(in_tests) <= UNTYPED
    assert not in_package


def test_each_rate_of_false_alarms_is_in_the_sum() -> None:
    total = (ROOT / "tests" / "statistical" / "tails_of_sums.py").read_text(encoding="utf-8")
    stating = [
        file
        for file in (ROOT / "tests").rglob("*.py")
        if re.search(r"^FALSE_ALARM = ", file.read_text(encoding="utf-8"), re.M)
    ]
    assert len(stating) >= 5
    assert all(file.name in total for file in stating if file.name != "tails_of_sums.py")


def test_hooks_before_a_commit_are_tools_of_this_project() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in hooks["repos"]] == ["local"]
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks["repos"][0]["hooks"])


def test_contributing_names_each_target_of_the_makefile() -> None:
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {target for target in targets if f"make {target}`" not in page} <= {"demo", "lint", "clean"}


def test_each_extra_is_tried_or_left_out_for_a_reason() -> None:
    """`make versions` installs some, and runs tests that use each of them."""
    assert sorted([*versions.EXTRAS, *versions.OTHER_EXTRAS]) == sorted(versions.PROJECT["optional-dependencies"])
    for tests in versions.EXTRAS.values():
        file, _, name = tests.partition("::")
        assert f"def {name or 'test_'}" in (ROOT / file).read_text(encoding="utf-8"), tests
    page = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    *others, last = sorted(versions.EXTRAS)
    assert f"installs the extras {', '.join(others)} and {last}, and runs the tests of each" in page
