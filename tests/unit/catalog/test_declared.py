"""What correct declarations mean: values by their type, ownership, lookups, advice."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpquery.catalog import Catalog, ColumnDeclaration
from dpquery.errors import CatalogError
from dpquery.kernel.accountant import BudgetKind
from dpquery.plan.logical import OwnerStep
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Type, Value, decimal
from dpquery.units.declarations import Neighbours


def column(declaration: str) -> ColumnDeclaration:
    head = "version: 2\ndataset: d\nprivacy_unit: p\nbudget: {epsilon: 1}\n"
    text = f"{head}tables: {{t: {{unit: id, max_rows: 8, columns: {{id: {{type: int64}}, x: {declaration}}}}}}}"
    return Catalog.from_yaml(text).table("t").columns["x"]


def python_catalog(declared: dict[str, Any], **others: Any) -> Catalog:
    content: dict[str, Any] = {"dataset": "d", "privacy_unit": "p", "budget": {"epsilon": 1}}
    content["tables"] = {"t": {"unit": "id", "max_rows": 8, "columns": {"id": {"type": "int64"}, "x": declared}}}
    return Catalog(**(content | others))


@pytest.mark.parametrize(
    ("name", "type"),
    [
        *[(name, BOOLEAN) for name in ("boolean", "bool")],
        *[(name, INT64) for name in ("int8", "int16", "int32", "int64", "integer", "bigint", "INT64")],
        *[(name, FLOAT64) for name in ("float32", "float64", "double")],
        *[(name, TEXT) for name in ("text", "string", "varchar", "'text'")],
        ("date", DATE),
        ("timestamp", TIMESTAMP),
        ("'decimal(10,2)'", decimal(10, 2)),
        ("'decimal( 38 , 0 )'", decimal(38, 0)),
    ],
)
def test_types(name: str, type: Type) -> None:
    assert column(f"{{type: {name}}}").type == type


def test_text_keeps_exactly_what_was_written() -> None:
    keys = column(
        "{type: text, keys: [NO, off, 010, 1:30, 1e3, 0x1F, 2010-01-01, .inf, 'null', '', ' a', =, 1_0, true]}"
    ).keys
    assert keys == (
        "NO",
        "off",
        "010",
        "1:30",
        "1e3",
        "0x1F",
        "2010-01-01",
        ".inf",
        "null",
        "",
        " a",
        "=",
        "1_0",
        "true",
    )


def test_null_is_a_key_of_a_nullable_column() -> None:
    assert column("{type: text, nullable: true, keys: [a, null]}").keys == ("a", None)


@pytest.mark.parametrize(
    ("declaration", "lower", "upper"),
    [
        ("{type: int64, lower: -9223372036854775808, upper: 9223372036854775807}", -(2**63), 2**63 - 1),
        ("{type: int64, lower: -0, upper: +7}", 0, 7),
        ("{type: int64, keys: [3, -1, 2]}", -1, 3),
        ("{type: int64, nullable: true, keys: [null, 4]}", 4, 4),
        ("{type: int64, keys: [3, 4], lower: 0, upper: 9}", 0, 9),
        ("{type: float64, lower: -1e300, upper: 1e3}", -1e300, 1000.0),
        ("{type: float64, lower: -0.0, upper: .5}", 0.0, 0.5),
        ("{type: float32, lower: 1, upper: 1}", 1.0, 1.0),
        ("{type: 'decimal(4,2)', lower: -99.99, upper: 1e1}", Decimal("-99.99"), Decimal("10.00")),
        ("{type: 'decimal(38,0)', lower: 0, upper: " + "9" * 38 + "}", Decimal(0), Decimal("9" * 38)),
        ("{type: date, lower: 0001-01-01, upper: '9999-12-31'}", datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
        (
            "{type: timestamp, lower: 2010-01-01 00:00, upper: 2010-12-31T23:59:59.999999}",
            datetime.datetime(2010, 1, 1),
            datetime.datetime(2010, 12, 31, 23, 59, 59, 999999),
        ),
    ],
)
def test_bounds(declaration: str, lower: Value, upper: Value) -> None:
    declared = column(declaration)
    assert (declared.lower, declared.upper) == (lower, upper)
    assert (type(declared.lower), type(declared.upper)) == (type(lower), type(upper))
    assert str(declared.lower) != "-0.0"


def test_decimal_bounds_have_the_scale_of_their_type() -> None:
    assert str(column("{type: 'decimal(6,3)', lower: 1, upper: 2.50}").upper) == "2.500"


def test_ranges() -> None:
    assert column("{type: boolean, nullable: true}").range.upper == 1
    assert column("{type: boolean, nullable: true}").range.nullable
    assert not column("{type: int64}").range.is_finite
    assert column("{type: date, lower: 1970-01-02, upper: 1970-01-03}").range.lower == 1
    assert column("{type: float64, lower: 0.1, upper: 1}").range.lower == Fraction(0.1)
    assert column("{type: text, keys: [a]}").range.lower is None


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"type": "int64", "lower": True, "upper": 2}, "True is not a valid int64"),
        ({"type": "int64", "lower": "1", "upper": 2}, "'1' is not a valid int64"),
        ({"type": "int64", "lower": 1.0, "upper": 2}, "1.0 is not a valid int64"),
        ({"type": "int64", "lower": Fraction(1), "upper": 2}, "is not a valid int64"),
        ({"type": "int64", "lower": 0, "upper": 10**5000}, "does not fit into int64"),
        ({"type": "float64", "lower": False, "upper": 2}, "False is not a valid float64"),
        ({"type": "float64", "lower": "0", "upper": 2}, "'0' is not a valid float64"),
        ({"type": "float64", "lower": float("-inf"), "upper": 2}, "infinity and NaN"),
        ({"type": "float64", "lower": 0, "upper": float("nan")}, "infinity and NaN"),
        ({"type": "float64", "lower": 0, "upper": 10**400}, "too large"),
        ({"type": "float64", "lower": 0, "upper": Decimal("1e999999")}, "too large"),
        ({"type": "decimal(4,2)", "lower": 0, "upper": Decimal("sNaN")}, "infinity and NaN"),
        ({"type": "decimal(4,2)", "lower": 0, "upper": Decimal("1e999999")}, "cannot be represented exactly"),
        ({"type": "decimal(4,2)", "lower": 0, "upper": 0.001}, "cannot be represented exactly"),
        ({"type": "text", "keys": [1]}, "1 is not a string"),
        ({"type": "text", "keys": ["a\0"]}, "NUL"),
        ({"type": "text", "keys": ["\ud800"]}, "surrogate"),
        ({"type": "text", "keys": {"a", "b"}}, "a value of type set is not accepted"),
        ({"type": "boolean", "keys": [1]}, "1 is not a boolean"),
        ({"type": "date", "lower": datetime.datetime(2010, 1, 1), "upper": "2011-01-01"}, "is not a valid date"),
        (
            {"type": "timestamp", "lower": datetime.date(2010, 1, 1), "upper": "2011-01-01 00:00"},
            "is not a valid timestamp",
        ),
        (
            {"type": "timestamp", "keys": [datetime.datetime(2010, 1, 1, tzinfo=datetime.UTC)]},
            "without a zone",
        ),
        ({"type": "text", "nullable": 1}, "expected true or false"),
        ({"type": None}, "has no value"),
        ({"type": int}, "a value of type type is not accepted"),
        ({True: "text", "type": "text"}, "the name True must be a text"),
        ({1: "text", "type": "text"}, "names must be strings, not int"),
    ],
)
def test_python_values_count_by_their_exact_type(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogError) as caught:
        python_catalog(declared)
    assert len(caught.value.problems) == 1 and message in caught.value.problems[0], caught.value.problems
    assert caught.value.problems[0].startswith("tables.t.columns.x")


def test_subclasses_with_behaviour_of_their_own_are_refused() -> None:
    class Number(int):
        def __le__(self, other: object) -> bool:
            return True

    class Names(dict[str, object]):
        pass

    class Word(str):
        pass

    declared: dict[str, Any] = {"type": Word("int64"), "lower": Number(5), "upper": 1}
    with pytest.raises(CatalogError) as caught:
        python_catalog(declared, analysts=Names())
    kinds = [problem.partition(":")[0] for problem in caught.value.problems]
    assert sorted(kinds) == ["analysts", "tables.t.columns.x.lower", "tables.t.columns.x.type"]


def test_endless_nesting_in_python_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(CatalogError, match="nested too deeply"):
        python_catalog({"type": "text", "keys": endless})


def test_budget_kinds_and_defaults() -> None:
    assert python_catalog({"type": "text"}).budget.kind is BudgetKind.PURE
    catalog = python_catalog(
        {"type": "text"},
        budget={"rho": "1/2", "delta": 1e-6},
        analysts={"a": {"rho": 0.5, "delta": "1e-6"}},
        defaults={"rho": 0.01, "max_rows": 3},
        neighbours="replace_one",
    )
    assert catalog.budget.kind is BudgetKind.ZCDP
    assert catalog.analysts["a"].rho == Fraction(1, 2)
    assert (catalog.defaults.rho, catalog.defaults.max_rows, catalog.defaults.max_groups) == (Fraction(1, 100), 3, None)
    assert catalog.neighbours is Neighbours.REPLACE_ONE
    assert "replace_one: all rows of one unit replaced" in catalog.to_text()
    plain = python_catalog({"type": "text"})  # no numbers that nobody said
    assert (plain.defaults.max_rows, plain.defaults.max_groups, dict(plain.analysts)) == (None, None, {})


def test_ownership_follows_any_number_of_steps() -> None:
    tables: dict[str, Any] = {
        "t0": {"unit": "who", "max_rows": 8, "columns": {"who": {"type": "text"}, "k": {"type": "date"}}}
    }
    for i in range(1, 40):
        on = {"k": "k", "n": f"hidden{i}"}
        tables[f"t{i}"] = {
            "unit": {"via": f"t{i - 1}", "on": on},
            "max_rows": 8,
            "columns": {"k": {"type": "date"}, "n": {"type": "int64"}},
        }
    catalog = Catalog(dataset="d", privacy_unit="p", budget={"epsilon": 1}, tables=dict(reversed(tables.items())))
    ownership = catalog.table("t39").ownership
    assert ownership is not None and (ownership.column, ownership.type, len(ownership.path)) == ("who", TEXT, 39)
    assert ownership.path[0] == OwnerStep(parent="t38", on=(("k", "k", DATE), ("n", "hidden39", INT64)))
    assert ownership.path[-1].parent == "t0"


def test_with_the_row_as_unit_tables_have_no_owner() -> None:
    tables: dict[str, Any] = {"t": {"columns": {"x": {"type": "text"}}}}
    catalog = Catalog(dataset="d", privacy_unit="row", budget={"epsilon": 1}, tables=tables)
    assert catalog.declarations.unit_is_row
    assert catalog.table("t").ownership is None and not catalog.table("t").public
    assert "protected: each single row" in catalog.to_text()


def test_names_of_yaml_keep_their_text() -> None:
    head = "version: 2, dataset: 123, privacy_unit: NO, budget: {epsilon: 1}"
    text = f"{{{head}, tables: {{on: {{unit: 1, max_rows: 8, columns: {{1: {{type: text}}}}}}}}}}"
    catalog = Catalog.from_yaml(text)
    assert (catalog.dataset, catalog.privacy_unit, list(catalog.tables)) == ("123", "NO", ["on"])


def test_keys_from_finds_names_with_dots() -> None:
    tables: dict[str, Any] = {
        "t": {
            "unit": "id",
            "max_rows": 8,
            "columns": {"id": {"type": "text"}, "x": {"type": "text", "keys_from": "a.b.c"}},
        },
        "a.b": {"public": True, "columns": {"c": {"type": "text"}}},
    }
    catalog = Catalog(dataset="d", privacy_unit="p", budget={"epsilon": 1}, tables=tables)
    assert catalog.table("t").columns["x"].keys_from == ("a.b", "c")
    tables["a"] = {"public": True, "columns": {"b.c": {"type": "text"}}}
    with pytest.raises(CatalogError, match=r"not a declared table\.column"):
        Catalog(dataset="d", privacy_unit="p", budget={"epsilon": 1}, tables=tables)


def test_descriptions_are_printed_on_one_line_without_tricks() -> None:
    catalog = python_catalog({"type": "text", "description": "line\n one\x1b[31m\u202e"})
    assert "  # line one\\u001b[31m\\u202e\n" in catalog.to_text()


ID: dict[str, Any] = {"type": "int64"}
LINKED: dict[str, Any] = {
    "t": {"columns": {"Key": ID, "x": {"type": "float64"}}},
    "s": {"columns": {"key": ID | {"keys": [1, 2]}, "y": ID}},
    "p": {"public": True, "columns": {"key": ID, "y": ID}},
    "r": {"columns": {"KEY": ID, "y": {"type": "text"}}},
}
ORDER_UNIT: dict[str, Any] = {"t": {"unit": "order_id", "max_rows": 8, "columns": {"order_id": ID}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": {"epsilon": 11}}, "epsilon 11 is above 10"),
        ({"budget": {"epsilon": 1, "delta": "1e-4"}}, "delta 0.0001 is above 1e-5"),
        ({"budget": {"rho": 2, "delta": "1e-6"}}, "rho 2 is above 1"),
        ({"defaults": {"epsilon": 2}}, "exceeds the whole budget"),
        ({"defaults": {"rho": 1}}, "the budget has no rho"),
        ({"tables": ORDER_UNIT}, "'order_id' does not look like a person"),
        ({"tables": {"t": {"public": True, "columns": {"a": ID}}}}, "No table is private"),
        (
            {"tables": {"t": {"unit": "a", "max_rows": 8, "columns": {"a": ID | {"keys": [1, 2]}}}}},
            "reveal who is in the data",
        ),
    ],
)
def test_advice(changes: dict[str, Any], message: str) -> None:
    warnings = python_catalog({"type": "text"}, **changes).warnings
    assert len(warnings) == 1 and message in warnings[0], warnings


def test_advice_on_an_analyst_who_can_ask_for_no_count() -> None:
    """Normal noise at the default price would cost rho 0.0012; Laplace noise costs half the square, 0.02."""
    said = {"budget": {"epsilon": 5, "delta": "1e-6"}, "defaults": {"epsilon": "0.2"}}
    for epsilon, is_told in (("0.5", True), ("2", False)):
        catalog = python_catalog({"type": "text"}, **said, analysts={"ann": {"epsilon": epsilon, "delta": "1e-7"}})
        told = [warning for warning in catalog.warnings if "analysts.ann: the default price of epsilon 0.2" in warning]
        assert len(told) == len(catalog.warnings) == is_told
        assert all("costs rho 0.02 with Laplace noise" in warning for warning in told)
    assert "epsilon 0.2, which costs rho 0.02 at most" in catalog.to_text()
    assert "analyst ann: epsilon 2, delta 1e-7 (counted as delta 5e-8, rho 0.0" in catalog.to_text()


@pytest.mark.parametrize(
    ("budget", "default", "own", "enough"),
    [
        ({"epsilon": 1}, {"epsilon": "0.5"}, {"epsilon": "0.4"}, {"epsilon": "0.5"}),
        ({"rho": 1, "delta": "1e-6"}, {"rho": "0.5"}, {"rho": "0.4"}, {"rho": "0.5"}),
        (
            {"epsilon": 1, "delta": "1e-6"},
            {"epsilon": "0.5"},
            {"epsilon": "0.2", "delta": "1e-7"},
            {"epsilon": "0.9", "delta": "1e-6"},
        ),
    ],
)
def test_advice_on_an_analyst_who_can_ask_nothing(
    budget: dict[str, Any], default: dict[str, Any], own: dict[str, Any], enough: dict[str, Any]
) -> None:
    """C22: at the default price every query of this analyst is refused."""
    delta = {"delta": budget["delta"]} if "rho" in budget else {}
    said = {"budget": budget, "defaults": default, "analysts": {"ann": own | delta, "bob": enough | delta}}
    warnings = python_catalog({"type": "text"}, **said).warnings
    told = [warning for warning in warnings if "no query is answered at the default price" in warning]
    assert len(told) == 1 and told[0].startswith("analysts.ann: "), warnings
    assert python_catalog({"type": "text"}, **(said | {"defaults": {}})).warnings == ()


def test_advice_on_identifiers_goes_by_use() -> None:
    """API-07: a column that several private tables have links their rows; no list of words decides."""
    found = python_catalog({"type": "text"}, privacy_unit="row", tables=LINKED).warnings
    assert ["'Key' links rows: table 'r'" in found[0], "'KEY' links rows: table 't'" in found[1]] == [True, True]
    assert len(found) == 2 and all("privacy_unit is row" in warning for warning in found)
    alone = {"t": {"columns": {"userId": ID, "x": ID}}}
    assert python_catalog({"type": "text"}, privacy_unit="row", tables=alone).warnings == ()


@pytest.mark.parametrize("other", ["text", "decimal(9,0)"])
def test_one_unit_has_one_type(other: str) -> None:
    """API-20: 7 and '7' would be two units of one person."""
    tables = {
        "t": {"unit": "id", "max_rows": 8, "columns": {"id": ID}},
        "s": {"unit": "who", "max_rows": 8, "columns": {"who": {"type": other}}},
    }
    with pytest.raises(CatalogError, match=r"tables.s.unit: the unit is .* here and int64 in table 't'"):
        python_catalog({"type": "text"}, tables=tables)


def test_advice_on_columns() -> None:
    assert "differ only in blanks or case" in python_catalog({"type": "text", "keys": ["a", "A"]}).warnings[0]
    assert "'a' and 'a '" in python_catalog({"type": "text", "keys": ["a", "a "]}).warnings[0]
    assert "every value becomes 5" in python_catalog({"type": "int64", "lower": 5, "upper": 5}).warnings[0]
    assert python_catalog({"type": "text"}).warnings == ()


def test_damaged_files_are_read_or_refused_and_nothing_else() -> None:
    text = Path(__file__).with_name("hospital.yaml").read_text()
    chance = random.Random(20)
    pieces = [
        "{",
        "}",
        "[",
        "]",
        ":",
        "-",
        "null",
        "true",
        "*a",
        "&a ",
        "!x ",
        "'",
        '"',
        "\n",
        "  ",
        "1e999",
        "\0",
        "é",
    ]
    for _ in range(60):
        damaged = text
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(damaged))
            damaged = damaged[:start] + chance.choice(pieces) + damaged[start + chance.randint(0, 12) :]
        try:
            Catalog.from_yaml(damaged)
        except CatalogError as error:
            assert error.problems and all(error.problems)
