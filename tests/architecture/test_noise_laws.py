"""A law of noise is one entry of the kernel and one class of its shape: nothing else asks which of them it has."""

from __future__ import annotations

import ast

import pytest

from dpquery.accuracy.noise_shapes import shape_of
from dpquery.kernel.noise_laws import LAWS
from dpquery.kernel.plan import Mechanism
from tests.architecture.package import Module, for_each, modules, nodes

KNOWS = {
    "kernel/plan.py": "has their names",
    "kernel/noise_laws.py": "has the laws",
    "accuracy/noise_shapes.py": "has their shapes",
    "kernel/gaussian_factor.py": "what is claimed of an answer alone is proved for Gaussian noise",
    "planner/budget/allocate.py": "says which mechanism a currency is spent on",
    "accuracy/intervals.py": "takes the randomness of reports for normal",
    "auditing/laws.py": "computes what noise loses apart from the kernel's functions, which are what is audited",
    "auditing/synopsis_losses.py": "computes what stored noise lost, likewise",
    "mechanisms/noise.py": "offers each by its name, to people who chose it",
    "kernel/mechanisms.py": "selections in rounds are proved for Gaussian noise, dividing values for Laplace noise",
}
LAW_NAMES = {f"{kind}{name}" for kind in ("", "_") for name in ("Laplace", "Gaussian", "LAPLACE", "GAUSSIAN")}

each_module = for_each()


def _named(module: Module) -> list[str]:
    """Returns the mechanisms that a module names, and the classes of their shapes."""
    given = [node for node in nodes(module) if isinstance(node, ast.Attribute)]
    found = [node.attr for node in given if isinstance(node.value, ast.Name) and node.value.id == "Mechanism"]
    return found + [node.id for node in nodes(module) if isinstance(node, ast.Name) and node.id in LAW_NAMES]


@each_module
def test_nothing_else_asks_for_the_mechanism(module: Module) -> None:
    assert module.path in KNOWS or not _named(module)


@pytest.mark.parametrize("path", KNOWS)
def test_what_may_name_a_mechanism_does(path: str) -> None:
    (module,) = [module for module in modules() if module.path == path]
    assert _named(module) or "class Mechanism(" in module.text, "it is no exception any more"


@each_module
def test_a_mechanism_is_not_compared_by_its_text(module: Module) -> None:
    texts = {one.value for one in Mechanism}
    compared = [part for node in nodes(module) if isinstance(node, ast.Compare) for part in node.comparators]
    assert not [part for part in compared if isinstance(part, ast.Constant) and part.value in texts]


def test_each_mechanism_has_its_law_and_what_adds_noise_its_shape() -> None:
    assert set(LAWS) == set(Mechanism)
    shapes = [shape_of(mechanism) for mechanism, law in LAWS.items() if law.is_added]
    assert len({type(shape) for shape in shapes}) == len(shapes) == 2
