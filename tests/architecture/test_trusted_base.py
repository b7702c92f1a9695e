"""The trusted base stays small, and its four *onlys* hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.architecture.package import (
    ROOT,
    TRUSTED,
    Module,
    attributes,
    code_lines,
    for_each,
    imported,
    modules,
    nodes,
)

MOST_LINES = {**dict.fromkeys(TRUSTED, 260), "": 400}
MOST_CODE_LINES = {"units/": 1_835, "kernel/": 2_300, "ledger/": 1_650}
"""All of a package together, without blank lines, comments and docstrings. Grow it knowingly."""
MOST_LINES_BELOW = 3_700
"""Of all that the three packages import at run time, one thing by another, and that is not in them."""
WITH_THE_PACKAGE = ("__init__.py", "frontends/")
"""Loaded with any module: names that load on demand, and the accessor of DataFrames. The base imports nothing of it."""

RANDOMNESS = (
    "secrets",
    "random",
    "cryptography",
    "numpy.random",
    "uuid.uuid4",
    "uuid.uuid1",
    "os.urandom",
    "os.getrandom",
)
ENGINES = ("duckdb", "psycopg", "psycopg2", "sqlalchemy", "pyspark")
LEDGER_STORES = {"ledger/postgres.py": {"psycopg"}, "reuse/shelf_postgres.py": {"psycopg"}}
"""The ledger's own database is no engine, as no private row and no analyst's SQL passes there."""
SEALED = "data/encrypted_files.py"  # salts and keys of encrypted files
CLIENTS = {"frontends/page/server_client.py": {"psycopg"}}
"""A client of the server, as any other: what it gets is noisy and charged."""
CERTIFICATES = ("frontends/postgres/login/tls.py",)
"""Reads the server's own certificate."""
OTHER_DATABASES = {"frontends/postgres/login/users.py"}
"""The users' file holds no data."""
DIALECTS = {"frontends/dbapi/sqlalchemy_dialect.py": {"sqlalchemy"}}
"""A way in, for those who ask: it opens no database."""
NONCES_AND_KEYS = ("frontends/admin/", "frontends/page/", "frontends/postgres/")
"""Servers need what nobody guesses: nonces, salts, cancel keys. No noise is drawn there."""
OWN_PROCESSES = {"backends/duckdb/system_tables.py", "auditing/own_laws.py"}
"""Start a process of this package: that of the emulated catalogs, which holds no data, and one in which the noise of an
audited law may not be that of another."""
PUBLIC_DATA_ONLY = {"frontends/cli/demo.py", "auditing/reuse_drills.py"}
"""They compute exact answers beside the noisy ones: over a public study and made-up people, in their own engines."""
MADE_UP_DATA = ("auditing/",)
"""Makes up rows to compare, and secrets to attack. No noise of an answer is drawn there."""

each_module = for_each()


@each_module
def test_no_file_is_too_long_to_be_read(module: Module) -> None:
    most = next(lines for place, lines in MOST_LINES.items() if module.path.startswith(place))
    assert module.text.count("\n") <= most


@pytest.mark.parametrize("package", TRUSTED)
def test_each_trusted_package_is_small(package: str) -> None:
    assert sum(code_lines(m) for m in modules() if m.path.startswith(package)) <= MOST_CODE_LINES[package]


@pytest.mark.parametrize("package", TRUSTED)
def test_the_readme_counts_the_files_of_the_trusted_base(package: str) -> None:
    count = sum(m.path.startswith(package) and m.path != f"{package}__init__.py" for m in modules())
    written = f"[`dpquery/{package[:-1]}`](dpquery/{package[:-1]}) ({count} files"
    assert written in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("package", TRUSTED)
def test_the_page_about_the_trusted_base_tells_its_size(package: str) -> None:
    lines = sum(code_lines(m) for m in modules() if m.path.startswith(package))
    page = (ROOT / "docs" / "concepts" / "pipeline.md").read_text(encoding="utf-8")
    (told,) = re.findall(rf"^\| `{package}` \|.* \| about ([\d,]+) \|$", page, re.MULTILINE)
    assert abs(int(told.replace(",", "")) - lines) <= lines // 10


def test_the_reading_order_tells_the_size_of_the_whole_base() -> None:
    base = [module for module in modules() if module.path.startswith(TRUSTED)]
    page = " ".join((ROOT / "docs" / "proofs" / "reading-order.md").read_text(encoding="utf-8").split())
    ((told, files),) = re.findall(r"About ([\d,]+) lines of code in (\d+) files\.", page)
    assert abs(int(told.replace(",", "")) - sum(map(code_lines, base))) <= 100
    assert int(files) == sum(not module.path.endswith("__init__.py") for module in base)


def test_what_runs_below_the_trusted_base_is_the_language_of_plans() -> None:
    below = below_the_base()
    assert "plan/evaluate.py" in below and "plan/functions/table.py" in below
    assert {path for path in below if not path.startswith("plan/")} == {"errors.py"}
    lines = sum(code_lines(module) for module in below.values())
    assert lines <= MOST_LINES_BELOW
    for page in ("proofs/reading-order.md", "concepts/pipeline.md"):
        text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
        ((told, files),) = re.findall(
            r"about ([\d,]+) lines of code in (\d+) files (?:that the base imports|below)", text
        )
        assert abs(int(told.replace(",", "")) - lines) <= 100
        assert int(files) == sum(bool(code_lines(module)) for module in below.values())


def below_the_base() -> dict[str, Module]:
    """Returns by path the modules that are loaded in a new process once it has imported each module of the base."""
    base = [m.path[:-3].replace("/", ".") for m in modules() if m.path.startswith(TRUSTED)]
    load = (
        f"import importlib, sys; [importlib.import_module(f'dpquery.{{name}}') for name in {base}]; print(*sys.modules)"
    )
    made = subprocess.run([sys.executable, "-c", load], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("dpquery.").replace(".", "/") for name in made.stdout.split() if "dpquery." in name}
    known = {m.path: m for m in modules() if not m.path.startswith((*TRUSTED, *WITH_THE_PACKAGE))}
    return {path: m for path, m in known.items() if {path[:-3], path.removesuffix("/__init__.py")} & loaded}


def _uses(module: Module, names: tuple[str, ...]) -> set[str]:
    """Returns which of the names a module imports, or reads as an attribute."""
    used: set[str] = {*imported(module), *attributes(module)}
    used = {f"numpy{name[2:]}" if name.startswith("np.") else name for name in used}
    return {name for name in names if any(u == name or u.startswith(f"{name}.") for u in used)}


@each_module
def test_only_the_samplers_touch_randomness(module: Module) -> None:
    allowed = {"cryptography", "os.urandom"} if module.path == "kernel/samplers.py" else set()
    allowed |= {"secrets"} if module.path.startswith(NONCES_AND_KEYS) else set()
    allowed |= {"cryptography"} if module.path in CERTIFICATES else set()
    allowed |= {"random"} if module.path.startswith(MADE_UP_DATA) else set()
    allowed |= {"cryptography", "os.urandom"} if module.path == SEALED else set()
    assert _uses(module, RANDOMNESS) <= allowed


@each_module
def test_nothing_uses_numpy_generators(module: Module) -> None:
    found = [n for n in nodes(module) if isinstance(n, ast.Attribute) and n.attr in ("default_rng", "RandomState")]
    assert not found


@each_module
def test_nothing_takes_a_seed_or_switches_noise_off(module: Module) -> None:
    forbidden = {"seed", "random_state", "rng", "noiseless", "no_noise", "disable_noise", "exact_for_testing"}
    names = {node.arg for node in nodes(module) if isinstance(node, ast.arg | ast.keyword)}
    names |= {node.id for node in nodes(module) if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes(module) if isinstance(node, ast.Attribute)}
    assert not names & forbidden


@each_module
def test_nothing_is_switched_by_the_environment(module: Module) -> None:
    """A variable of the environment that changes noise, budget or checks would be a way around them. The key of
    prepared data changes what can be read."""
    if module.path != SEALED:
        assert not _uses(module, ("os.environ", "os.getenv", "os.putenv"))


@each_module
def test_what_is_spent_stands_in_no_library_of_databases(module: Module) -> None:
    # What was released already, and who may connect; never what may be spent.
    if module.path not in ("reuse/shelf_file.py", *OTHER_DATABASES):
        assert not _uses(module, ("sqlite3",))


@each_module
def test_only_backends_know_an_engine(module: Module) -> None:
    if not module.path.startswith("backends/") and module.path not in PUBLIC_DATA_ONLY:
        assert _uses(module, ENGINES) <= {**LEDGER_STORES, **DIALECTS, **CLIENTS}.get(module.path, set())


@each_module
def test_only_the_gate_and_backends_name_exact_aggregates(module: Module) -> None:
    """And the auditor, which makes up the rows that they are of."""
    if not module.path.startswith(("backends/", *MADE_UP_DATA)) and module.path != "kernel/release.py":
        names = {node.id for node in nodes(module) if isinstance(node, ast.Name)}
        assert "ExactAggregates" not in names
        assert not {name for name in imported(module) if name.endswith(".ExactAggregates")}


@each_module
def test_of_the_trusted_base_only_the_ledger_keeps_state(module: Module) -> None:
    """Nothing in the other two rebinds a name of its module or of an enclosing function."""
    if module.path.startswith(("units/", "kernel/")):
        assert not [node for node in nodes(module) if isinstance(node, ast.Global | ast.Nonlocal)]


@each_module
def test_nothing_runs_text_as_code(module: Module) -> None:
    names = {node.id for node in nodes(module) if isinstance(node, ast.Name)}
    assert not names & {"eval", "exec", "compile"}
    allowed = {"subprocess"} if module.path in OWN_PROCESSES else set()
    assert _uses(module, ("pickle", "marshal", "shelve", "subprocess", "os.system")) <= allowed


@each_module
def test_no_assertion_guards_the_trusted_base(module: Module) -> None:
    """`python -O` drops assertions: the trusted base raises an error instead."""
    if module.path.startswith(TRUSTED):
        assert not [node for node in nodes(module) if isinstance(node, ast.Assert)]


def test_a_check_of_each_module_names_those_that_it_refuses() -> None:
    @each_module
    def kernel_is_empty(module: Module) -> None:
        assert not module.path.startswith("kernel/"), "not empty"

    with pytest.raises(AssertionError, match=r"kernel/release\.py: not empty"):
        kernel_is_empty()
