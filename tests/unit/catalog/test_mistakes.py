"""Mistakes: all are found at once, each has its place, and none gets through."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpquery.catalog import Catalog
from dpquery.errors import CatalogError

TEN_MISTAKES = """\
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: -1}
defaults: {max_rows: 0}
tables:
  people:
    unit: id
    columns:
      id: {type: float64}
      age: {type: int64, lower: 100, upper: 18}
      sex: {type: text, keys: [F, M, F]}
      size: {type: int64, lowr: 1}
  orders:
    unit: {via: peple, on: {id: id}}
    columns:
      id: {type: int64}
      price: {type: 'decimal(5,2)', lower: 0, upper: 1000.001}
      shop: {type: text, keys_from: shops.code}
  shops:
    columns: {code: {type: int64}}
"""


def test_ten_mistakes_are_reported_together_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(TEN_MISTAKES)
    with pytest.raises(CatalogError) as caught:
        Catalog.load(file)
    places = [re.match(r"shop\.yaml:(\d+): ([^ ]*): ", problem) for problem in caught.value.problems]
    assert [(int(p[1]), p[2]) for p in places if p] == [
        (4, "budget.epsilon"),
        (5, "defaults.max_rows"),
        (8, "tables.people.unit"),
        (11, "tables.people.columns.age.lower"),
        (12, "tables.people.columns.sex.keys[2]"),
        (13, "tables.people.columns.size.lowr"),
        (15, "tables.orders.unit.via"),
        (18, "tables.orders.columns.price.upper"),
        (19, "tables.orders.columns.shop.keys_from"),
        (20, "tables.shops"),
    ]
    assert "did you mean 'lower'?" in str(caught.value)
    assert "did you mean 'people'?" in str(caught.value)


END = "defaults: {max_rows: 8}\nversion: 2\n"
"""What any catalog of people says; at the end, so that lines of mistakes are easily counted."""


def with_table(body: str, head: str = "privacy_unit: p") -> str:
    """Returns a catalog with one table `t` of this body, written in braces, beside the public table `codes`."""
    return (
        f"dataset: d\n{head}\nbudget: {{epsilon: 1}}\ntables:\n  t: {body}\n"
        "  codes: {public: true, columns: {code: {type: text}, n: {type: int64}}}\n" + END
    )


def with_column(column: str) -> str:
    return with_table(f"{{unit: id, columns: {{id: {{type: int64}}, x: {column}}}}}")


def with_head(head: str) -> str:
    return f"{head}\ntables: {{t: {{unit: id, max_rows: 8, columns: {{id: {{type: int64}}}}}}}}\nversion: 2\n"


def refusals(text: str) -> tuple[str, ...]:
    with pytest.raises(CatalogError) as caught:
        Catalog.from_yaml(text)
    return caught.value.problems


COLUMN_MISTAKES = {
    "{}": "the field 'type' is missing",
    "int64": "expected a mapping",
    "{type: int46}": "did you mean 'int64'?",
    "{type: uuid}": "unknown type 'uuid'",
    "{type: [int64]}": "expected a text",
    "{type: 'decimal(39,2)'}": "is not a valid type",
    "{type: 'decimal(5,6)'}": "is not a valid type",
    "{type: 'decimal(5)'}": "a decimal is written decimal(10,2)",
    "{type: decimal(10,2)}": "in quotes inside { }",
    "{type: int64, lower: 1}": "declare both lower and upper, or neither",
    "{type: int64, upper: 1}": "declare both lower and upper, or neither",
    "{type: int64, lower: 1, upper: null}": "has no value",
    "{type: int64, lower: 2, upper: 1}": "the lower bound exceeds the upper bound",
    "{type: int64, lower: 1.0, upper: 2}": "'1.0' is not a valid int64",
    "{type: int64, lower: 0, upper: 1e3}": "'1e3' is not a valid int64",
    "{type: int64, lower: 0, upper: 010}": "'010' is not a valid int64",
    "{type: int64, lower: 0, upper: 0x10}": "'0x10' is not a valid int64",
    "{type: int64, lower: 0, upper: 1_000}": "'1_000' is not a valid int64",
    "{type: int64, lower: 0, upper: 1:30}": "'1:30' is not a valid int64",
    "{type: int64, lower: 0, upper: '9'}": "in quotes",
    "{type: int64, lower: 0, upper: true}": "'true' is not a valid int64",
    "{type: int64, lower: 0, upper: ٣}": "is not a valid int64",
    "{type: int64, lower: 0, upper: 9223372036854775808}": "does not fit into int64",
    "{type: int64, lower: 0, upper: 99999999999999999999}": "is not a valid int64",
    "{type: float64, lower: -.inf, upper: 0}": "infinity and NaN are not accepted",
    "{type: float64, lower: 0, upper: .NaN}": "infinity and NaN are not accepted",
    "{type: float64, lower: 0, upper: 1.1e300}": "too large",
    "{type: float64, lower: 0, upper: 1e9999}": "too large",
    "{type: float64, lower: 0, upper: '1'}": "is not a valid float64",
    "{type: float64, lower: 0, upper: yes}": "is not a valid float64",
    "{type: 'decimal(4,2)', lower: 0, upper: 1.005}": "cannot be represented exactly as decimal(4,2)",
    "{type: 'decimal(4,2)', lower: 0, upper: 100}": "cannot be represented exactly as decimal(4,2)",
    "{type: 'decimal(4,2)', lower: 0, upper: 1e9999}": "cannot be represented exactly as decimal(4,2)",
    "{type: date, lower: 2010-01-01, upper: 2010-02-30}": "day",
    "{type: date, lower: 2010-1-1, upper: 2010-02-01}": "is not a valid date",
    "{type: date, lower: 2010-01-01 00:00:00, upper: 2010-02-01}": "is not a valid date",
    "{type: timestamp, lower: 2010-01-01, upper: 2010-02-01}": "is not a valid timestamp",
    "{type: timestamp, lower: 2010-01-01T00:00Z, upper: 2010-02-01T00:00Z}": "without a zone",
    "{type: text, lower: a, upper: b}": "a column of type text has no bounds",
    "{type: boolean, lower: false, upper: true}": "a column of type boolean has no bounds",
    "{type: int64, lower: [1], upper: 2}": "expected one value of type int64",
    "{type: text, keys: []}": "at least one key",
    "{type: text, keys: F}": "expected a list",
    "{type: text, keys: [a, b, a]}": "is the same key as keys[0]",
    "{type: text, keys: [a, 'a']}": "is the same key as keys[0]",
    "{type: float64, keys: [1, 1.0]}": "is the same key as keys[0]",
    "{type: 'decimal(4,2)', keys: [1, 1.00]}": "is the same key as keys[0]",
    "{type: text, keys: [a, null]}": "nullable",
    "{type: text, nullable: true, keys: [a, null, ~]}": "is the same key as keys[1]",
    "{type: boolean, keys: [true, no]}": "'no' is not a boolean",
    "{type: int64, lower: 0, upper: 9, keys: [1, 10]}": "outside the bounds",
    "{type: text, keys: [a], keys_from: codes.code}": "cannot be combined with keys",
    "{type: text, keys_from: codes.cod}": "did you mean 'codes.code'?",
    "{type: text, keys_from: codes}": "is not a declared table.column",
    "{type: text, keys_from: codes.n}": "'codes.n' is int64, and this column is text",
    "{type: int64, keys_from: t.id}": "is private",
    "{type: text, nullable: 'true'}": "expected true or false",
    "{type: text, nullable: yes}": "expected true or false",
    "{type: text, description: [a]}": "expected a text",
    "{type: text, bounds: [0, 1]}": "unknown field 'bounds'",
    "{type: text, type: int64}": "is declared twice; first in line 5",
    "{type: !!python/name:os.system x}": "is not accepted; declared types decide",
    "{type: !!str text}": "is not accepted; declared types decide",
    "{type: &a text}": "the anchor &a is not accepted",
    "{type: *a}": "the alias *a is not accepted",
    "{<<: {type: text}, type: text}": "unknown field '<<'",
}


@pytest.mark.parametrize(("column", "message"), COLUMN_MISTAKES.items(), ids=COLUMN_MISTAKES)
def test_column_mistake(column: str, message: str) -> None:
    problems = refusals(with_column(column))
    assert any(message in problem for problem in problems), problems
    assert all(problem.startswith("line 5: tables.t.columns.x") for problem in problems)


TABLE_MISTAKES = {
    "{columns: {x: {type: text}}}": "to say whose rows these are",
    "{public: false, columns: {x: {type: text}}}": "to say whose rows these are",
    "{public: true, unit: x, columns: {x: {type: text}}}": "a public table cannot have a unit",
    "{public: true, max_rows: 3, columns: {x: {type: text}}}": "a public table has none",
    "{unit: y, columns: {x: {type: text}}}": "'y' is not a declared column",
    "{unit: X, columns: {x: {type: text}}}": "did you mean 'x'?",
    "{unit: x, columns: {x: {type: float64}}}": "not float64",
    "{unit: x, columns: {x: {type: boolean}}}": "not boolean",
    "{unit: x, columns: {x: {type: date}}}": "not date",
    "{unit: x, columns: {x: {type: timestamp}}}": "not timestamp",
    "{unit: [x], columns: {x: {type: text}}}": "expected a text",
    "{unit: x, columns: {}}": "at least one column",
    "{unit: x}": "the field 'columns' is missing",
    "{unit: x, columns: {x: {type: text}}, max_rows: 0}": "at least 1",
    "{unit: x, columns: {x: {type: text}}, max_rows: 1.0}": "at least 1",
    "{unit: x, columns: {x: {type: text}}, max_groups: true}": "at least 1",
    "{unit: x, columns: {x: {type: text}}, max_groups: 2147483648}": "below 2^31",
    "{unit: x, columns: {x: {type: text}, X: {type: text}}}": "is ambiguous with 'x'",
    "{unit: x, columns: {x: {type: text}, ß: {type: text}, SS: {type: text}}}": "is ambiguous with 'ß'",
    "{unit: x, columns: {x: {type: text}, '': {type: text}}}": "a name cannot be empty",
    '{unit: x, columns: {x: {type: text}, "a\\0": {type: text}}}': "invisible character (U+0000)",
    '{unit: x, columns: {x: {type: text}, "a\\nb": {type: text}}}': "invisible character (U+000A)",
    '{unit: x, columns: {x: {type: text}, "a\\u202eb": {type: text}}}': "invisible character (U+202E)",
    '{unit: x, columns: {x: {type: text}, "a\\u200bb": {type: text}}}': "invisible character (U+200B)",
    '{unit: x, columns: {x: {type: text}, "a\\u3164": {type: text}}}': "invisible character (U+3164)",
    '{unit: x, columns: {x: {type: text}, " a": {type: text}}}': "begins or ends with a blank",
    f"{{unit: x, columns: {{x: {{type: text}}, {'a' * 129}: {{type: text}}}}}}": "at most 128 characters",
    "{unit: x, columns: {x: {type: text}}, unique: [x]}": "expected a list of columns",
    "{unit: x, columns: {x: {type: text}}, unique: [[y]]}": "'y' is not a declared column",
    "{unit: x, columns: {x: {type: text}}, unique: [[]]}": "name at least one column",
    "{unit: x, columns: {x: {type: text}}, unique: [[x, x]]}": "is said twice",
    "{unit: x, columns: {x: {type: text}}, unique: [[x], [x]]}": "is said twice",
    "{unit: {via: u, on: {x: x}}, columns: {x: {type: text}}}": "'u' is not a declared table",
    "{unit: {via: codes, on: {x: code}}, columns: {x: {type: text}}}": "'codes' is public",
    "{unit: {via: t, on: {x: x}}, columns: {x: {type: text}}}": "circle: t -> t",
    "{unit: {via: t}, columns: {x: {type: text}}}": "the field 'on' is missing",
    "{unit: {via: t, on: {}}, columns: {x: {type: text}}}": "at least one pair",
    "{unit: {via: t, on: [x]}, columns: {x: {type: text}}}": "expected a mapping",
    "[1]": "expected a mapping",
}


@pytest.mark.parametrize(("table", "message"), TABLE_MISTAKES.items(), ids=range(len(TABLE_MISTAKES)))
def test_table_mistake(table: str, message: str) -> None:
    problems = refusals(with_table(table))
    assert len(problems) == 1 and message in problems[0], problems
    assert problems[0].startswith("line 5: tables.t")


HEAD = "dataset: d\nprivacy_unit: p\n"
HEAD_MISTAKES = {
    "privacy_unit: p\nbudget: {epsilon: 1}": "the field 'dataset' is missing",
    "dataset:\nprivacy_unit: p\nbudget: {epsilon: 1}": "line 1: dataset: has no value",
    "dataset: d\nprivacy_unit: ROW\nbudget: {epsilon: 1}": "line 2: privacy_unit: write row",
    HEAD + "budget: {}": "line 3: budget: a budget holds either epsilon or rho",
    HEAD + "budget: {epsilon: 1, rho: 1}": "line 3: budget: a budget holds either epsilon or rho",
    HEAD + "budget: {delta: 1e-6}": "line 3: budget: a budget holds either epsilon or rho",
    HEAD + "budget: {epsilon: .inf}": "line 3: budget.epsilon: epsilon must be a positive number",
    HEAD + "budget: {epsilon: 1, delta: 1}": "line 3: budget: these parts do not make",
    HEAD + "budget: {epsilon: 1e-20}": "line 3: budget: the budget is too small to be counted",
    HEAD + "budget: 4": "line 3: budget: expected a mapping",
    HEAD + "budget: {epsilon: [1]}": "line 3: budget.epsilon: epsilon must be a positive number",
    HEAD + "budget: {epsilon: 1}\nanalysts: {a: {epsilon: 2}}": "line 4: analysts.a: epsilon 2 exceeds the 1",
    HEAD + "budget: {epsilon: 1}\nanalysts: {a: {rho: 1}}": "than the budget of the dataset; write epsilon",
    HEAD + "budget: {epsilon: 1}\nanalysts: {a: {epsilon: 1, delta: 1e-9}}": "analysts.a: uses other parameters",
    HEAD + "budget: {rho: 1, delta: 1e-6}\nanalysts: {a: {rho: 1, delta: 1e-5}}": "delta 1e-5 exceeds",
    HEAD + "budget: {epsilon: 1}\nanalysts: {'': {epsilon: 1}}": "a name cannot be empty",
    HEAD + 'budget: {epsilon: 1}\nanalysts: {"a\\a": {epsilon: 1}}': "invisible character (U+0007)",
    HEAD + "budget: {epsilon: 1}\nneighbours: bounded": "must be add_remove or replace_one",
    HEAD + "budget: {epsilon: 1}\ndefaults: {epsilon: 0}": "line 4: defaults.epsilon: epsilon must be a positive",
    HEAD + "budget: {epsilon: 1}\ndefaults: {rows: 1}": "did you mean 'max_rows'?",
    HEAD + "budget: {epsilon: 1}\nbudgets: {}": "did you mean 'budget'?",
    HEAD + "budget: {epsilon: 1}\ndataset: e": "line 4: dataset: is declared twice; first in line 1",
}


@pytest.mark.parametrize(("head", "message"), HEAD_MISTAKES.items(), ids=range(len(HEAD_MISTAKES)))
def test_mistake_outside_the_tables(head: str, message: str) -> None:
    problems = refusals(with_head(head))
    assert len(problems) == 1 and message in problems[0], problems


TEXT_MISTAKES = {
    "": "the catalog is empty",
    "# nothing": "the catalog is empty",
    "null": "expected a mapping",
    "- a": "expected a mapping",
    "a: [": "not YAML",
    "a: 'b": "line 1: not YAML",
    "dataset: d\n\tx: 1": "line 2: not YAML",
    "dataset: d\x07": "line 1: not YAML",
    'dataset: "\\UFFFFFFFF"': "line 1: not YAML",
    "? [a]\n: b": "a name must be a text",
    "dataset: d\n---\ndataset: e": "a second YAML document",
    "%YAML 1.1\n%TAG !e! tag:e,2000:\n---\n!e!x {dataset: d}": "is not accepted",
    "[" * 2000: "nested too deeply",
    "{a: " * 2000: "nested too deeply",
}


@pytest.mark.parametrize(("text", "message"), TEXT_MISTAKES.items(), ids=range(len(TEXT_MISTAKES)))
def test_text_that_is_no_catalog(text: str, message: str) -> None:
    assert any(message in problem for problem in refusals(text))


def test_aliases_cannot_blow_up() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
    assert any("the alias *a28 is not accepted" in problem for problem in refusals(bomb))


def test_files_are_limited_and_utf8(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(CatalogError, match=r"^c\.yaml: a catalog has at most 4 MiB$"):
        Catalog.load(file)
    with pytest.raises(CatalogError, match="at most 4 MiB"):
        Catalog.from_yaml(file.read_text())
    file.write_bytes(b"dataset: d\nprivacy_unit: \xff\n")
    with pytest.raises(CatalogError, match=r"^c\.yaml:2: is not UTF-8"):
        Catalog.load(file)
    file.write_bytes("dataset: d".encode("utf-16"))
    with pytest.raises(CatalogError, match="is not UTF-8"):
        Catalog.load(file)
    with pytest.raises(CatalogError, match="cannot be read"):
        Catalog.load(tmp_path / "absent.yaml")


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(with_column("{type: text}"), encoding="utf-8-sig")
    assert Catalog.load(file).dataset == "d"


def test_a_broken_table_does_not_make_others_look_broken() -> None:
    text = """\
dataset: d
privacy_unit: p
budget: {epsilon: 1}
tables:
  a: {unit: id, columns: {id: {type: itn64}}}
  b: {unit: {via: a, on: {id: id}}, columns: {id: {type: int64}}}
  c: {unit: {via: b, on: {id: b_id}}, columns: {id: {type: int64}, x: {type: text, keys_from: d.x}}}
  d: {public: true, columns: {x: {type: txt}}}
"""
    assert [problem[:6] for problem in refusals(text + END)] == ["line 5", "line 8"]


CHAINS = {
    "{a: {unit: {via: b, on: {x: x}}, C}, b: {unit: {via: a, on: {x: x}}, C}}": "circle: a -> b -> a",
    "{c: {unit: {via: a, on: {x: x}}, C}, a: {unit: {via: a, on: {x: x}}, C}}": "tables.a.unit: circle: a -> a",
    "{a: {unit: x, C}, b: {unit: {via: a, on: {y: x}}, C}}": "'x' of 'a' is int64, not text",
    "{a: {unit: x, C}, b: {unit: {via: a, on: {z: x}}, C}}": "'z' is not a declared column of 'b'",
    "{a: {unit: x, C}, b: {unit: {via: a, on: {f: f}}, C}}": "a foreign key of type float64 is not accepted",
    "{a: {unit: x, C}, b: {unit: {via: a, on: {x: X}}, C}}": "differs from 'x' of 'a' only in case",
    '{a: {unit: x, C}, b: {unit: {via: a, on: {x: "k\\0"}}, C}}': "NUL",
    '{a: {unit: x, C}, b: {unit: {via: a, on: {x: "k\\e"}}, C}}': "invisible character (U+001B)",
    "{a: {unit: x, C}, b: {unit: {via: a, on: {x: k}}, C}, c: {unit: {via: a, on: {y: k}}, C}}": (
        "'b' says 'k' of type int64 for this column; here it is text"
    ),
    "{a: {unit: x, C}, b: {unit: {via: a, on: {x: k}}, C}, c: {unit: {via: a, on: {x: K}}, C}}": (
        "'b' says 'k' of type int64 for this column; here it is int64"
    ),
}


@pytest.mark.parametrize(("tables", "message"), CHAINS.items(), ids=range(len(CHAINS)))
def test_mistake_in_ownership(tables: str, message: str) -> None:
    columns = "columns: {x: {type: int64}, y: {type: text}, f: {type: float64}}"
    problems = refusals(HEAD + "budget: {epsilon: 1}\ntables: " + tables.replace("C}", columns + "}") + "\n" + END)
    assert len(problems) == 1 and message in problems[0], problems


def test_one_mistake_is_one_message() -> None:
    for column in (
        "{type: int64, lower: 1, upper: null}",
        "{type: int64, lower: 1, upper: *a}",
        "{type: int64, lower: 1, upper: x, keys: [1]}",
        "{type: int64, lower: 2, upper: 1, keys: [1]}",
        "{type: int64, lower: 1, upper: 2, keys: [1, *a]}",
        "{type: *a, keys_from: codes.code}",
    ):
        assert len(refusals(with_column(column))) == 1, column


def test_with_the_row_as_unit_no_table_says_unit() -> None:
    problems = refusals(with_table("{unit: x, columns: {x: {type: text}}}", head="privacy_unit: row"))
    assert len(problems) == 1 and "leave unit out" in problems[0]
