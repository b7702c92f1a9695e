"""Tests wait for what happens, and not for a time after which it should have happened: the machine may be busy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
RANDOM = "the moment is drawn: any moment is as good"
LONG = "what is tried lasts for a while, and nothing is expected of when"
SLEEPS = {
    "attacks/prepare_killed.py": RANDOM,
    "attacks/test_ledger_attacks.py": RANDOM,
    "server/clients/test_asyncpg.py": "a client that leaves before or while its statement runs",
    "server/clients/pgadmin_pages.py": "a loop with an end that looks",
    "unit/frontends/pandas/test_notebooks.py": LONG,
    "unit/frontends/postgres/fake.py": LONG,
    "unit/ledger/test_stores.py": RANDOM,
}
"""Files that sleep outside a loop that looks at a condition, with the reason."""


def _sleeps(tree: ast.AST, *, is_looking: bool = False) -> Iterator[int]:
    """Yields the lines of calls of `sleep` outside `while`."""
    for node in ast.iter_child_nodes(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "sleep" and not is_looking:
            yield called.lineno
        yield from _sleeps(node, is_looking=is_looking or isinstance(node, ast.While))


def test_no_test_waits_a_fixed_time_for_something_to_happen() -> None:
    """C24: what waits is `tests.waiting.wait_until`, or a loop that looks."""
    found = {
        path.relative_to(TESTS).as_posix(): lines
        for path in sorted(TESTS.rglob("*.py"))
        if "sleep" in (text := path.read_text(encoding="utf-8")) and (lines := list(_sleeps(ast.parse(text))))
    }
    assert set(found) == set(SLEEPS), found


def test_a_sleep_is_found_where_nothing_looks() -> None:
    assert list(_sleeps(ast.parse("import time\ntime.sleep(1)\nwhile not done():\n    time.sleep(1)"))) == [2]
