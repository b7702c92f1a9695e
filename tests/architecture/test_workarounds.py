"""What is switched off or worked around has its reason beside it; where that is a defect elsewhere, also its end."""

from __future__ import annotations

import ast
import io
import re
import tokenize

from tests.architecture.package import PACKAGE, ROOT, Module, modules

ENGINE = "backends/duckdb/"
REPORT = re.compile(r"https://github\.com/[\w-]+/[\w-]+/(?:issues|pull)/\d+")


def has_reason(lines: list[str], number: int) -> bool:
    """Whether a line, counted from 0, ends with a comment or stands below one."""
    return bool(re.search(r"\S  # \w", lines[number])) or lines[number - 1].strip().startswith("# ")


def without_reason(text: str, pattern: str) -> list[str]:
    """Returns the lines that match and say no reason."""
    lines = text.split("\n")
    return [line for i, line in enumerate(lines) if re.search(pattern, line) and not has_reason(lines, i)]


def test_each_setting_of_the_engine_has_its_reason() -> None:
    statements = 0
    for module in modules():
        if module.path.startswith(ENGINE):
            statements += len(re.findall(r'"(?:SET|PRAGMA) ', module.text))
            assert without_reason(module.text, r'"(?:SET|PRAGMA) ') == []
    assert statements >= 10


def test_each_listed_setting_and_optimisation_has_its_reason() -> None:
    (engine,) = (module for module in modules() if module.path == f"{ENGINE}engine.py")
    lists = {"LOCK": 10, "PRIVATE_SETTINGS": 2, "LEFT_OUT": 1}
    lines = engine.text.split("\n")
    for node in engine.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in lists:
            least = lists.pop(node.targets[0].id)
            assert isinstance(node.value, ast.Dict | ast.Tuple)
            listed = node.value.keys if isinstance(node.value, ast.Dict) else node.value.elts
            assert len(listed) >= least
            assert [ast.unparse(each) for each in listed if each and not has_reason(lines, each.lineno - 1)] == []
    assert lists == {}


def test_each_warning_that_is_ignored_has_its_reason() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert without_reason(settings, '^ *"ignore:|^ignore_missing|^filterwarnings.*ignore') == []
    for file in [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        text = file.read_text(encoding="utf-8")
        assert without_reason(text, r'(?:filterwarnings|simplefilter)\("ignore') == [], file


def test_each_defect_elsewhere_says_until_when_it_is_worked_around() -> None:
    linking = [module for module in modules() if REPORT.search(module.text)]
    told = [(module.path, each) for module in linking for each in remarks(module) if REPORT.search(each)]
    assert [(path, each) for path, each in told if not re.search(r"\bUntil\b", each)] == []
    assert len(told) >= 11


def remarks(module: Module) -> list[str]:
    """Returns each docstring, and each comment with those right above and below it."""
    found = [""]
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            found[-1] += f"{token.string}\n"
        elif token.type == tokenize.STRING and token.string.startswith('"""'):
            found += [token.string, ""]
        elif token.type != tokenize.NL and found[-1]:
            found.append("")
    return found
