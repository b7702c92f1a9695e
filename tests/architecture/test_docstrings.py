"""Whatever is public says what it gives; what the trusted base claims about privacy names its source."""

from __future__ import annotations

import ast
import re

from tests.architecture.package import ROOT, TRUSTED, Module, for_each, modules, public_definitions

STILL_WITHOUT = {"plan/functions/arithmetic_ranges.py:int_quotient_range"}
"""Known gaps; the list may only shrink."""

NOT_ABOUT_NEIGHBOURS = {
    "kernel/accountant.py:charge_at_least": "raises a charge",
    "kernel/drawing.py:drawing": "samples, whatever the data",
    "kernel/failures.py:one_error": "one error, whatever the data",
    "kernel/choice_utilities.py:utilities": "how numbers are held",
    "kernel/work.py:require_bounded": "the work of a unit's rows",
    "ledger/owner.py:lost": "which charges are recorded",
    "ledger/replay.py:Replay.allows": "sums of charges",
    "ledger/reserved.py:Reserved": "sums of charges",
    "ledger/versions.py:AtVersion": "which charges are recorded",
    "units/public_work.py:beyond": "the work of a unit's rows",
    "units/scaled_weights.py:ScaledRules.pairs": "one database at a time",
    "units/semijoins.py:of_semi_join": "one database at a time",
    "units/sizes.py:Sizes": "public rows alone",
    "units/band_joins.py:swept": "public rows alone",
    "units/weights.py:rows_in_group": "one database at a time",
    "units/work.py:Work.add": "the work of a unit's rows",
}
"""Claims that compare no two databases, and what they are about."""

STILL_UNWRITTEN: set[str] = set()
"""Pages that code names and nobody wrote; the list may only shrink."""

each_module = for_each()
PAGE = re.compile(r"docs/[\w/-]+\.md")


@each_module
def test_modules_functions_and_classes_have_docstrings(module: Module) -> None:
    assert ast.get_docstring(module.tree) or not module.text.strip(), "a module says what it holds"
    missing = {f"{module.path}:{name}" for name, node in public_definitions(module) if not ast.get_docstring(node)}
    assert missing <= STILL_WITHOUT


@each_module
def test_docstrings_begin_with_one_sentence(module: Module) -> None:
    for name, node in public_definitions(module):
        first = (ast.get_docstring(node) or "x.").split("\n\n")[0].rstrip()
        assert first[-1] in ".:;,)", f"{module.path}:{name}"


@for_each(*TRUSTED)
def test_claims_of_the_trusted_base_name_their_source(module: Module) -> None:
    """A theorem's author and year, a proof page, or what the plan enforces; a claim without any cannot be checked."""
    page = ast.get_docstring(module.tree) or ""
    for name, node in public_definitions(module):
        text = ast.get_docstring(node) or ""
        if "Privacy:" not in text and "Claim:" not in text:
            continue
        claim = re.split(r"Privacy:|Claim:", text, maxsplit=1)[1]
        named = PAGE.search(claim) or re.search(r"\b(?:19|20)\d\d\b", claim)
        as_another = re.search(r"As for `\w+`", claim)
        relies = "Relies on" in claim and PAGE.search(page)
        assert named or as_another or relies, f"{module.path}:{name} claims something about privacy and names no source"


def test_claims_of_the_trusted_base_name_their_neighbours() -> None:
    """Each that compares databases says which: those given, or one unit added, removed or replaced."""
    texts = {
        f"{module.path}:{name}": re.split(r"Privacy:|Claim:", ast.get_docstring(node) or "", maxsplit=1)[1:]
        for module in modules()
        if module.path.startswith(TRUSTED)
        for name, node in public_definitions(module)
    }
    claims = {name: text[0].split("\n\n")[0] for name, text in texts.items() if text}
    assert {name for name, claim in claims.items() if "eighbour" not in claim} == NOT_ABOUT_NEIGHBOURS.keys()
    assert len(claims) > 2 * len(NOT_ABOUT_NEIGHBOURS)


@each_module
def test_pages_that_code_names_exist(module: Module) -> None:
    named = set(PAGE.findall(module.text))
    assert {page for page in named if not (ROOT / page).exists()} <= STILL_UNWRITTEN


def test_every_proof_page_belongs_to_code() -> None:
    """Each page is named by the code that it is about, and names that code."""
    everything = "\n".join(m.text for m in modules())
    for page in (ROOT / "docs" / "proofs").glob("*.md"):
        if page.name == "README.md":
            continue
        assert f"docs/proofs/{page.name}" in everything, f"no code names {page.name}"
        files = re.findall(
            r"(?<!unit/)(?:dpquery/)?(?:units|kernel|ledger|accounting|mechanisms)/(?!test_)\w+\.py",
            page.read_text(encoding="utf-8").split("\n## ")[0],
        )
        assert files, f"{page.name} names no code"
        assert all((ROOT / "dpquery" / file.removeprefix("dpquery/")).exists() for file in files)


CALLED_FIRST = {
    "session/connecting.py": {"connect", "create_ledger", "amend_ledger"},
    "session/preparing.py": {"prepare", "erase"},
    "frontends/pandas/declare.py": {"protect"},
    "auditing/run.py": {"audit"},
    "session/session.py": {"Session"} | {f"Session.{name}" for name in ("sql", "explain", "batch", "remaining")},
    "session/query_plan.py": {"Plan"},
    "ledger/ledger.py": {f"Ledger.{name}" for name in ("create", "open", "charge", "entries", "mark", "verify")},
    "catalog/model.py": {f"Catalog.{name}" for name in ("load", "from_yaml", "table", "warnings", "to_text")},
    "result/table.py": {f"Result.{name}" for name in ("to_arrow", "to_pandas", "accuracy", "intervals", "notes")},
}
"""What a person calls in the first hour: each shows how."""


def test_what_is_called_first_has_an_example() -> None:
    found = {module.path: dict(public_definitions(module)) for module in modules() if module.path in CALLED_FIRST}
    for path, names in CALLED_FIRST.items():
        without = {name for name in names if ">>> " not in (ast.get_docstring(found[path][name]) or "")}
        assert not without, f"{path}: {without}"
