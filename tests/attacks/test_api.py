"""Attacks through Python and the command line, and mistakes of owners (API)."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import dpquery
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.errors import CatalogError, DPQueryError, InvalidLossError, LedgerError
from dpquery.frontends.cli.main import run
from dpquery.ledger.ledger import Ledger
from tests.attacks.clinic import BUDGET, CATALOG, Clinic, frames

TEXT = CATALOG.replace("BUDGET", BUDGET)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_sessions_ledgers_and_backends_are_not_pickled(clinic: Clinic, protocol: int) -> None:
    """API-01: neither rows nor budgets leave through a pickle."""
    for part in (clinic.session, clinic.ledger, clinic.backend.inner):
        with pytest.raises(TypeError):
            pickle.dumps(part, protocol)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_sessions_ledgers_and_backends_are_not_copied(clinic: Clinic, copied: Any) -> None:
    """API-02: no copy has a budget of its own."""
    for part in (clinic.session, clinic.ledger, clinic.backend.inner):
        with pytest.raises(TypeError):
            copied(part)


def test_a_session_made_again_has_spent_what_it_spent(tmp_path: Path) -> None:
    """API-02: a notebook cell that is run again changes nothing."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    for turn in range(1, 4):
        with dpquery.connect(small.catalog, frames(), ledger=small.path, analyst="alice", reuse=False) as session:
            session.sql("SELECT COUNT(*) FROM people", epsilon="0.25")
            assert session.remaining.epsilon == 1 - Fraction(turn, 4)
    with pytest.raises(LedgerError):
        Ledger.create(small.path, small.catalog.declarations, small.catalog.budget, {})


def test_what_was_declared_cannot_be_changed_afterwards(clinic: Clinic) -> None:
    """API-03: catalogs are immutable through and through."""
    people = clinic.catalog.tables["people"]
    changes: list[Callable[[], Any]] = [
        lambda: setattr(clinic.catalog, "budget", None),
        lambda: clinic.catalog.tables.update({}),  # type: ignore[attr-defined]
        lambda: clinic.catalog.tables.__setitem__("x", people),  # type: ignore[index]
        lambda: clinic.catalog.analysts.__setitem__("x", None),  # type: ignore[index]
        lambda: setattr(people, "public", True),
        lambda: people.columns.__setitem__("x", None),  # type: ignore[index]
        lambda: setattr(people.columns["age"], "upper", 10**9),
        lambda: setattr(clinic.ledger.budget, "epsilon", 10**9),
    ]
    for change in changes:
        with pytest.raises((AttributeError, TypeError)):
            change()


def test_given_values_are_read_once(tmp_path: Path) -> None:
    """API-03: lists and dictionaries may change after the catalog was made; it does not."""
    keys = ["F", "M"]
    columns = {"id": {"type": "int64"}, "sex": {"type": "text", "keys": keys}}
    tables = {"t": {"unit": "id", "max_rows": 8, "columns": columns}}
    budget = {"epsilon": "1"}
    catalog = Catalog(dataset="d", privacy_unit="person", tables=tables, budget=budget)
    keys.append("X")
    columns["name"] = {"type": "text"}
    tables.clear()
    budget["epsilon"] = "1000"
    assert catalog.tables["t"].columns["sex"].keys == ("F", "M")
    assert set(catalog.tables["t"].columns) == {"id", "sex"}
    assert catalog.budget.epsilon == 1


def test_frames_may_change_after_they_were_handed_over(tmp_path: Path, no_noise: None) -> None:
    """API-03: columns added or removed, and rows dropped, from the frame itself; the session keeps its own."""
    data = frames()
    one = Clinic(tmp_path, tables=data)
    before = one.one("SELECT COUNT(*) FROM people")
    del data["people"]["age"]
    data["people"].loc[len(data["people"]), "id"] = 999
    data.clear()
    assert one.one("SELECT COUNT(*) FROM people") == before


class Hostile(str):
    """A text that is equal to everything and says something else each time."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def test_hostile_texts_are_read_or_refused(clinic: Clinic) -> None:
    """API-03: subclasses of str in every place that takes a text."""
    for options in [{"dialect": Hostile("postgres")}, {"confidence": Hostile("0.95")}]:
        try:
            clinic.session.explain("SELECT COUNT(*) FROM people", epsilon=1, **options)  # type: ignore[arg-type]
        except (DPQueryError, TypeError):
            continue
    with pytest.raises(DPQueryError):
        clinic.login(Hostile("mallory")).sql("SELECT nothing FROM people", epsilon=1)


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, "nan", True, None, "x", "1/0", 1e-400])
def test_bad_confidences_are_refused(clinic: Clinic, confidence: object) -> None:
    """API-03: before anything is charged."""
    before = clinic.path.read_bytes()
    with pytest.raises(InvalidLossError):
        clinic.session.sql("SELECT COUNT(*) FROM people", epsilon=1, confidence=confidence)
    assert clinic.path.read_bytes() == before


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, 1)


MISTAKES = {
    "nothing": "",
    "no mapping": "[1, 2]",
    "only a text": "clinic",
    "two documents": TEXT + "---\n" + TEXT,
    "a tag": changed("dataset: clinic", "dataset: !!python/object/apply:os.system ['true']"),
    "another tag": changed("lower: 0, upper: 100", "lower: !!float 0, upper: 100"),
    "an anchor": changed("dataset: clinic", "dataset: &a clinic\nprivacy: *a"),
    "a bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(8)),
    "a merge": changed("  people:\n", "  people:\n    <<: {public: true}\n"),
    "deep": "a: " + "[" * 5000 + "]" * 5000,
    "long": "#" * 5_000_000,
    "a key twice": changed("    unit: id\n", "    unit: id\n    unit: id\n"),
    "an unknown key": changed("    unit: id\n", "    unit: id\n    privat: true\n"),
    "an unknown type": changed("int64", "int65"),
    "bounds the wrong way": changed("lower: 0, upper: 100", "lower: 100, upper: 0"),
    "one bound": changed("lower: 0, upper: 100", "lower: 0"),
    "bounds as text": changed("lower: 0, upper: 100", "lower: '0', upper: '100'"),
    "bounds as booleans": changed("lower: 0, upper: 100", "lower: NO, upper: YES"),
    "bounds of infinity": changed("lower: -10, upper: 40", "lower: -.inf, upper: .inf"),
    "bounds that are no numbers": changed("lower: -10, upper: 40", "lower: .nan, upper: .nan"),
    "bounds beyond int64": changed("lower: 0, upper: 100", "lower: 0, upper: 1000000000000000000000"),
    "fractions as int64": changed("lower: 0, upper: 100", "lower: 0.5, upper: 1.5"),
    "sexagesimal bounds": changed("lower: 0, upper: 100", "lower: 0, upper: 1:30"),
    "float bounds of int64": changed("lower: 0, upper: 100", "lower: 0, upper: 1e3"),
    "dates that are none": changed("lower: 2020-01-01, upper: 2020-12-31", "lower: 2020-02-30, upper: 2020-12-31"),
    "no unit": changed("    unit: id\n", ""),
    "a unit that is no column": changed("    unit: id\n", "    unit: ID2\n"),
    "no columns": changed("    columns: {code: {type: text}, tag: {type: text}}", "    columns: {}"),
    "keys from nowhere": changed("wards.code", "wards.nowhere"),
    "keys from a private table": changed("keys_from: wards.code", "keys_from: people.town"),
    "ownership in a circle": changed("{via: visits, on: {visit: visit}}", "{via: flags, on: {visit: visit}}"),
    "ownership by a public table": changed("{via: visits, on: {visit: visit}}", "{via: wards, on: {visit: code}}"),
    "names that differ in case": changed("  tags:\n", "  WARDS:\n"),
    "columns that differ in case": changed("town: {type: text}", "AGE: {type: text}"),
    "no budget": changed(f"budget: {BUDGET}\n", ""),
    "budget 0": changed(BUDGET, "{epsilon: 0}"),
    "budget -1": changed(BUDGET, "{epsilon: -1}"),
    "budget nan": changed(BUDGET, "{epsilon: .nan}"),
    "budget inf": changed(BUDGET, "{epsilon: .inf}"),
    "budget yes": changed(BUDGET, "{epsilon: yes}"),
    "budget text": changed(BUDGET, "{epsilon: lots}"),
    "delta 1": changed(BUDGET, "{epsilon: 1, delta: 1}"),
    "delta alone": changed(BUDGET, "{delta: 1e-6}"),
    "both currencies": changed(BUDGET, "{epsilon: 1, rho: 1}"),
    "an analyst with too much": changed("defaults:", "analysts: {a: {epsilon: 1000000, delta: 1e-2}}\ndefaults:"),
    "an analyst in another currency": changed("defaults:", "analysts: {a: {rho: 1}}\ndefaults:"),
    "max_rows 0": changed("max_rows: 5", "max_rows: 0"),
    "max_rows -1": changed("max_rows: 5", "max_rows: -1"),
    "max_rows true": changed("max_rows: 5", "max_rows: true"),
    "max_rows huge": changed("max_rows: 5", "max_rows: 100000000000000000000"),
    "max_rows of a public table": changed("  tags:\n    public: true", "  tags:\n    public: true\n    max_rows: 3"),
    "a NUL": TEXT + "\0",
    "not UTF-8": TEXT + "\udcff",
    "a tab": TEXT.replace("  people:", "\tpeople:", 1),
    "a hidden letter": changed("dataset: clinic", "dataset: cli\u200bnic"),
    "another unit for a row": changed("privacy_unit: person", "privacy_unit: Row"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_a_catalog_are_the_owners_errors(tmp_path: Path, name: str) -> None:
    """API-04, API-06: every mistake is refused by a CatalogError with a place, in text and in a file."""
    with pytest.raises(CatalogError):
        Catalog.from_yaml(MISTAKES[name])
    path = tmp_path / "clinic.yaml"
    path.write_bytes(MISTAKES[name].encode("utf-8", "surrogateescape"))
    with pytest.raises(CatalogError):
        Catalog.load(path)


@pytest.mark.parametrize("path", ["", ".", "/nonexistent.yaml", "/dev/null", "/etc"])
def test_catalogs_that_are_no_files(path: str) -> None:
    """API-04."""
    with pytest.raises((CatalogError, OSError)):
        Catalog.load(path)


def test_python_values_have_exact_types() -> None:
    """API-04: True is not 1, a text is no number."""
    good = {"id": {"type": "int64"}, "v": {"type": "int64", "lower": 0, "upper": 9}}
    for bad in [
        {"type": "int64", "lower": False, "upper": True},
        {"type": "int64", "lower": "0", "upper": "9"},
        {"type": "int64", "lower": 0.0, "upper": 9.0},
        {"type": "int64", "lower": 0, "upper": None},
        {"type": "float64", "lower": float("nan"), "upper": 1.0},
        {"type": "float64", "lower": float("-inf"), "upper": float("inf")},
        {"type": "text", "keys": "FM"},
        {"type": "text", "keys": ["F", 1]},
        {"type": "text", "keys": ["F", True]},
        {"type": "boolean", "keys": [0, 1]},
        {"type": int},
        {"type": ["int64"]},
        {"type": "int64", "nullable": "yes"},
        {"type": "int64", "nullable": 1},
        None,
        [],
        7,
    ]:
        tables = {"t": {"unit": "id", "max_rows": 8, "columns": good | {"v": bad}}}
        with pytest.raises(CatalogError):
            Catalog(dataset="d", privacy_unit="person", tables=tables, budget={"epsilon": 1})


def test_wrong_bounds_bias_and_never_leak(tmp_path: Path, no_noise: None) -> None:
    """API-05: with age in [0, 10] every age counts 10 at most; the noise is as the bounds say."""
    narrow = Clinic(tmp_path, catalog=CATALOG.replace("lower: 0, upper: 100}", "lower: 0, upper: 10}", 1))
    people = frames()["people"]
    assert narrow.one("SELECT SUM(age) FROM people") == int(people.age.clip(0, 10).sum())
    (made,) = narrow.session.explain("SELECT SUM(age) FROM people", epsilon=1).measurements
    assert made.linf == 10


def test_claims_are_enforced(tmp_path: Path, no_noise: None) -> None:
    """API-06: "unique", "max_rows" and "public" hold because they are enforced or checked."""
    for name in ("people", "visits", "wards", "flags"):
        (tmp_path / name).mkdir()
    people, visits = frames()["people"], frames()["visits"]
    with pytest.raises(CatalogError, match="table people is not unique by id"):
        Clinic(tmp_path / "people", tables={"people": pd.concat([people] * 3)})
    one = CATALOG.replace("    unique: [[id]]\n", "    max_rows: 1\n", 1)
    twice = Clinic(tmp_path / "people", catalog=one, tables={"people": pd.concat([people] * 3)})
    assert twice.rows("SELECT COUNT(*), SUM(age) FROM people") == [(60, int(people.age.sum()))]
    (made,) = twice.session.explain("SELECT COUNT(*) FROM people", epsilon=1).measurements
    assert made.linf == 1
    many = Clinic(tmp_path / "visits", tables={"visits": visits.assign(id=0)})
    assert many.one("SELECT COUNT(*) FROM visits") == 5
    with pytest.raises(CatalogError, match="unique"):
        Clinic(tmp_path / "wards", tables={"wards": pd.concat([frames()["wards"]] * 2)})
    with pytest.raises(CatalogError, match="not unique there"):
        Clinic(tmp_path / "flags", tables={"visits": pd.concat([visits, visits])})


@pytest.mark.parametrize("unit", ["device", "transaction", "household", "session", "order", "visit"])
def test_small_units_are_warned_about(unit: str) -> None:
    """API-07: the owner hears, in words, whom a small unit leaves unprotected."""
    columns = {f"{unit}_id": {"type": "int64"}, "patient_id": {"type": "int64"}}
    table: dict[str, object] = {"columns": columns, "unit": f"{unit}_id", "max_rows": 8}
    catalog = Catalog(dataset="d", privacy_unit=unit, tables={"t": table}, budget={"epsilon": 1})
    assert catalog.warnings


@pytest.mark.parametrize("name", ["patient_id", "n", "Kürzel"])
def test_rows_as_units_are_warned_about(name: str) -> None:
    """API-07: an identifier is found by its use, whatever it is called: it links tables, or its values come again."""
    columns = {name: {"type": "int64"}, "value": {"type": "int64", "lower": 0, "upper": 9}}
    one: dict[str, object] = {"t": {"columns": columns}}
    linked = Catalog(dataset="d", privacy_unit="row", tables={**one, "u": {"columns": columns}}, budget={"epsilon": 1})
    assert any(name in warning and "links rows" in warning for warning in linked.warnings)
    alone = Catalog(dataset="d", privacy_unit="row", tables=one, budget={"epsilon": 1})
    again = pd.DataFrame({name: [*range(30), *range(30)], "value": [i % 10 for i in range(60)]})
    once = again.assign(**{name: range(60)})
    assert list(DuckDBBackend(alone, {"t": again}).identifying()) == [("t", name)]
    assert list(DuckDBBackend(alone, {"t": once}).identifying()) == []


@pytest.mark.parametrize("budget", [{"epsilon": 100}, {"epsilon": 1, "delta": "0.01"}, {"rho": 50}])
def test_large_budgets_are_warned_about(budget: dict[str, object]) -> None:
    """API-08: what is copied from an example and grown is commented on."""
    tables = {"t": {"unit": "id", "max_rows": 8, "columns": {"id": {"type": "int64"}}}}
    assert Catalog(dataset="d", privacy_unit="person", tables=tables, budget=budget).warnings


def test_no_example_in_the_package_teaches_bad_habits() -> None:
    """API-08: no docstring or demo asks for a large epsilon or a seed."""
    import re

    for path in Path(dpquery.__file__).parent.rglob("*.py"):
        for epsilon in re.findall(r"epsilon=[\"']?([0-9]+\.?[0-9]*)", path.read_text()):
            assert float(epsilon) <= 4, path


def test_reprs_show_no_rows(clinic: Clinic) -> None:
    """API-09: sessions, backends, sources and engines show what is declared."""
    data = frames()["people"]
    town = "Nether Wallop"
    data["town"] = town
    for part in (clinic.session, clinic.ledger, clinic.backend.inner, clinic.catalog):
        assert town not in f"{part!r} {part}"
        assert len(repr(part)) < 20_000


def test_requirements_are_bounded() -> None:
    """API-10: parsers and engines of other versions are not taken as they come; no compiled parser is asked for."""
    import tomllib

    root = Path(dpquery.__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needed = {text.split(">")[0].split("[")[0]: text for text in project["dependencies"]}
    for name in ("sqlglot", "duckdb"):
        assert "<" in needed[name]
    assert all(">=" in text for text in needed.values())
    assert "[rs]" not in needed["sqlglot"]
    assert int(needed["pyarrow"].split(">=")[1].split(".")[0]) >= 15
    assert "sqlglotrs" not in sys.modules


# Connecting with what does not fit.


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ({}, "no source"),
        ({"people": None}, "NoneType"),
        ({"nowhere": pd.DataFrame()}, "not a declared table"),
        ({"wards": pd.DataFrame({"code": ["x"]})}, "no column floor"),
        ({"wards": pa.table({"code": ["x"], "floor": ["1"]})}, ""),
    ],
)
def test_sources_that_do_not_fit(tmp_path: Path, sources: dict[str, object], words: str) -> None:
    """API-06: all of it is said at once, to the owner."""
    catalog = Catalog.from_yaml(TEXT)
    ledger = Ledger.create(tmp_path / "l", catalog.declarations, catalog.budget, {})
    given: dict[str, object] = {**frames(), **sources} if sources else {}
    if words:
        with pytest.raises(CatalogError, match=words):
            dpquery.connect(catalog, given, ledger=ledger)
    else:
        dpquery.connect(catalog, given, ledger=ledger).close()


@pytest.mark.parametrize("content", [None, b"", b"junk", b"SQLite format 3\0" + b"\0" * 4000])
def test_ledgers_that_are_none(tmp_path: Path, content: bytes | None) -> None:
    """API-02: missing or foreign: nothing is created, repaired or answered."""
    path = tmp_path / "l"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LedgerError):
        dpquery.connect(Catalog.from_yaml(TEXT), frames(), ledger=path)
    assert path.exists() is (content is not None)
    if content is not None:
        assert path.read_bytes() == content


def test_empty_tables_and_tables_without_owners(tmp_path: Path) -> None:
    """API-06: nobody, and nobody's rows: every query is answered with noise."""
    data = frames()
    nobody = {name: frame.iloc[:0] for name, frame in data.items()}
    owned = {name: frame for name, frame in data.items() if "id" in frame}
    unowned = {name: frame.assign(id=pd.array([None] * len(frame), "Int64")) for name, frame in owned.items()}
    for number, tables in enumerate([nobody, unowned]):
        folder = tmp_path / str(number)
        folder.mkdir()
        empty = Clinic(folder, tables=tables)
        for query in [
            "SELECT COUNT(*), SUM(cost), AVG(cost), STDDEV(cost), COUNT(DISTINCT note) FROM visits",
            "SELECT ward, COUNT(*), AVG(price) FROM visits GROUP BY ward",
            "SELECT town, COUNT(*) FROM people GROUP BY town",
            "SELECT flag, COUNT(*) FROM flags GROUP BY flag",
            "SELECT COUNT(*) FROM visits JOIN people USING (id)",
            "SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM visits GROUP BY id) p",
            "SELECT code, floor FROM wards ORDER BY code",
        ]:
            answer = empty.sql(query)
            assert repr(answer)
            assert len(answer.accuracy) == len(answer)


# The command line.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the clinic's catalog, tables and ledger."""
    (tmp_path / "clinic.yaml").write_text(TEXT)
    for name, frame in frames().items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
    assert run(["ledger", "create", str(tmp_path / "clinic.yaml")]) == 0
    return tmp_path


COMMANDS = [
    [],
    ["nonsense"],
    ["query"],
    ["query", "CATALOG"],
    ["query", "CATALOG", ""],
    ["query", "CATALOG", "SELECT note FROM visits"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "--epsilon", "nan"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "--epsilon", "-1"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "--epsilon", "1e9"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "--epsilon", "1", "--rho", "1"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "--max-rows", "0"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "--dialect", "klingon"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "--confidence", "2"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "--format", "parquet"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "-o", "/nonexistent/x"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "-s", "visits"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "-s", "visits=/etc/passwd"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "-s", "nowhere=x.parquet"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "-l", "/nonexistent/ledger"],
    ["query", "CATALOG", "SELECT COUNT(*) FROM visits", "-e", "1", "-l", "/etc/passwd"],
    ["query", "CATALOG", "-f", "/nonexistent.sql"],
    ["query", "CATALOG", "-f", "/dev/zero/x"],
    ["query", "/nonexistent.yaml", "SELECT 1"],
    ["query", "/etc", "SELECT 1"],
    ["explain", "CATALOG", "DROP TABLE visits"],
    ["budget", "/nonexistent.yaml"],
    ["ledger", "create", "CATALOG"],
    ["ledger", "verify", "/etc/passwd"],
    ["ledger", "show", "/nonexistent"],
    ["check", "/nonexistent.yaml"],
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_wrong_commands_are_refused_and_free(
    folder: Path, command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """API-06, OUT-03: exit code 2, a message, no traceback, and the ledger as it was."""
    ledger = folder / "clinic.ledger"
    before = ledger.read_bytes()
    code = run([str(folder / "clinic.yaml") if part == "CATALOG" else part for part in command])
    out, err = capfd.readouterr()
    assert code in (1, 2)
    assert "Traceback" not in out + err
    assert "defect" not in err
    assert ledger.read_bytes() == before


def test_an_unwritable_ledger_answers_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """API-02: corrupted beside the catalog."""
    ledger = folder / "clinic.ledger"
    content = bytearray(ledger.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 500] = b"\xff" * 500
    ledger.write_bytes(content)
    code = run(["query", str(folder / "clinic.yaml"), "SELECT COUNT(*) AS n FROM visits", "-e", "1"])
    out, err = capfd.readouterr()
    if code == 0:  # the damage may lie in a page that holds nothing
        assert run(["ledger", "verify", str(ledger)]) == 0
    else:
        assert code == 2
        assert out.splitlines()[-1:] != ["n"]
        assert "LedgerError" in err


def _answer(path: str) -> int:
    return run(["query", f"{path}/clinic.yaml", "SELECT COUNT(*) AS n FROM people", "-e", "5000", "--fresh"])


@pytest.mark.slow
def test_command_lines_at_once_share_the_budget(folder: Path) -> None:
    """API-02, ACC-04: of four that ask for half the budget, two at most are answered."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        codes = pool.map(_answer, [str(folder)] * 4)
    assert codes.count(0) <= 2
    assert set(codes) <= {0, 1, 2}
