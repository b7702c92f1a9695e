"""The example of the documentation: read from YAML, given in Python, in words and for the kernel."""

from __future__ import annotations

import copy
import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpquery.catalog import Catalog, Defaults
from dpquery.errors import CatalogError
from dpquery.kernel.accountant import Budget, BudgetKind
from dpquery.plan.logical import Ownership, OwnerStep
from dpquery.plan.ranges import Range
from dpquery.plan.types import INT64
from dpquery.units.declarations import Declarations, Neighbours

HOSPITAL = Path(__file__).with_name("hospital.yaml")

IN_PYTHON: dict[str, Any] = {
    "dataset": "hospital",
    "privacy_unit": "patient",
    "neighbours": "add_remove",
    "budget": {"epsilon": 4, "delta": "1e-6"},
    "analysts": {
        "alice": {"epsilon": Fraction(1), "delta": 2e-7},
        "dashboards": {"epsilon": Decimal(2), "delta": "5e-7"},
    },
    "defaults": {"epsilon": "0.1", "max_groups": 4},
    "tables": {
        "patients": {
            "unit": "id",
            "unique": [["id"]],
            "columns": {
                "id": {"type": "int64"},
                "age": {"type": "int64", "lower": 18, "upper": 100},
                "sex": {"type": "text", "keys": ["F", "M"]},
                "bmi": {"type": "float64", "lower": 10, "upper": 80.0, "nullable": True},
                "town": {"type": "text"},
            },
        },
        "labs": {
            "unit": "id",
            "max_rows": 20,
            "columns": {
                "id": {"type": "int64"},
                "test": {"type": "text", "keys_from": "tests.code"},
                "value": {"type": "float64", "lower": 0, "upper": 500},
                "taken": {"type": "date", "lower": datetime.date(2010, 1, 1), "upper": "2019-12-31"},
            },
        },
        "lab_flags": {
            "unit": {"via": "labs", "on": {"lab_id": "lab_id"}},
            "max_rows": 40,
            "columns": {"lab_id": {"type": "int64"}, "flag": {"type": "text", "keys": ("high", "low")}},
        },
        "tests": {
            "public": True,
            "unique": [["code"]],
            "columns": {"code": {"type": "text"}, "panel": {"type": "text"}},
        },
    },
}


@pytest.fixture(scope="module")
def hospital() -> Catalog:
    return Catalog.load(HOSPITAL)


def test_yaml_and_python_say_the_same(hospital: Catalog) -> None:
    assert Catalog(**IN_PYTHON) == hospital
    assert Catalog.from_yaml(HOSPITAL.read_text()) == hospital
    assert Catalog(**IN_PYTHON).to_text() == hospital.to_text()


def test_the_documented_example_is_this_one(hospital: Catalog) -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "catalog.md"
    block = page.read_text().split("```yaml\n")[1].split("```")[0]
    assert Catalog.from_yaml(block) == hospital


def test_content_of_the_example(hospital: Catalog) -> None:
    assert hospital.neighbours is Neighbours.ADD_REMOVE
    assert hospital.budget == Budget.of(epsilon=4, delta="1e-6")
    assert hospital.budget.kind is BudgetKind.APPROXIMATE
    assert hospital.analysts["alice"] == Budget.of(epsilon=1, delta="2e-7")
    assert hospital.defaults == Defaults(epsilon=Fraction(1, 10), max_groups=4)
    assert list(hospital.tables) == ["patients", "labs", "lab_flags", "tests"]
    patients = hospital.table("patients")
    assert patients.unique == (frozenset({"id"}),)
    assert patients.columns["age"].range == Range(lower=Fraction(18), upper=Fraction(100), nullable=False)
    assert type(patients.columns["bmi"].lower) is float
    assert patients.columns["sex"].keys == ("F", "M")
    labs = hospital.table("labs")
    assert (labs.max_rows, labs.max_groups) == (20, None)
    assert labs.columns["test"].keys_from == ("tests", "code")
    assert labs.columns["taken"].lower == datetime.date(2010, 1, 1)
    assert hospital.warnings == ()


def test_ownership_through_a_column_that_is_not_declared(hospital: Catalog) -> None:
    step = OwnerStep(parent="labs", on=(("lab_id", "lab_id", INT64),))
    assert hospital.table("lab_flags").ownership == Ownership(path=(step,), column="id", type=INT64)
    assert "lab_id" not in hospital.table("labs").columns


def test_declarations_survive_the_ledger(hospital: Catalog) -> None:
    declared = hospital.declarations
    assert Declarations.from_json(declared.to_json()) == declared
    assert declared.fingerprint() == Catalog(**IN_PYTHON).declarations.fingerprint()
    assert declared.tables["tests"].unique == (frozenset({"code"}),)
    assert declared.tables["patients"].unique == ()  # uniqueness is checked for public tables alone
    assert declared.tables["labs"].ownership == Ownership(path=(), column="id", type=INT64)


def test_text_names_everything_declared(hospital: Catalog) -> None:
    text = hospital.to_text()
    for word in (
        "Dataset hospital",
        "each patient, with all rows of that patient in all private tables at once",
        "analyst alice: epsilon 1, delta 2e-7",
        "Table lab_flags: private",
        "the row of labs where lab_id = this lab_id, then column id (int64)",
        "clamped to 2010-01-01 .. 2019-12-31",
        "public keys are those of tests.code",
        "public keys 'F', 'M'",
        "rows of one patient: at most 1\n",
        "rows of one patient: at most 20 in all\n  one patient counts in at most 4 groups (default)\n",
        "Table tests: public",
    ):
        assert word in text


def test_lookup_follows_sql(hospital: Catalog) -> None:
    labs = hospital.find_table("LABS", quoted=False)
    assert labs is not None and labs.name == "labs"
    assert hospital.find_table("LABS", quoted=True) is None
    column = labs.find_column("Value", quoted=False)
    assert column is not None and column.name == "value"
    assert labs.find_column("Value", quoted=True) is None
    assert labs.find_column("lab_id", quoted=False) is None
    with pytest.raises(CatalogError, match="did you mean 'labs'"):
        hospital.table("lab")


def test_quoted_lookup_finds_declared_capitals() -> None:
    head = "version: 2, dataset: d, privacy_unit: p, budget: {epsilon: 1}"
    text = f"{{{head}, tables: {{T: {{unit: Id, max_rows: 8, columns: {{Id: {{type: int64}}}}}}}}}}"
    table = Catalog.from_yaml(text).find_table("t", quoted=False)
    assert table is not None and table.name == "T"
    assert table.find_column("Id", quoted=True) is table.find_column("ID", quoted=False) is not None


def test_nothing_given_can_change_the_catalog_later() -> None:
    given = copy.deepcopy(IN_PYTHON)
    catalog = Catalog(**given)
    given["tables"]["patients"]["columns"]["sex"]["keys"].append("X")
    given["tables"]["patients"]["columns"]["age"]["upper"] = 1000
    given["analysts"]["alice"]["epsilon"] = 4
    assert catalog == Catalog(**IN_PYTHON)


def test_the_catalog_is_immutable(hospital: Catalog) -> None:
    with pytest.raises(AttributeError):
        hospital.dataset = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        hospital.tables["x"] = hospital.table("labs")  # type: ignore[index]
    with pytest.raises(TypeError):
        hospital.table("labs").columns["x"] = hospital.table("tests").columns["code"]  # type: ignore[index]
    with pytest.raises(TypeError):
        hospital.analysts["mallory"] = hospital.budget  # type: ignore[index]
