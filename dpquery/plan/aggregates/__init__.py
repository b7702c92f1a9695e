"""The aggregates that plans know, a file for each family: all that the program is told about them.

Whatever file of this package holds aggregates is read, so to add one is to add a file:
docs/how-to-contribute/add-an-aggregate.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from dpquery.plan.aggregates.aggregate import AggregateFunction as AggregateFunction


def by_name(found: Iterable[object]) -> Mapping[str, AggregateFunction]:
    """Returns the aggregates among objects by name; raises ValueError where two of them have the same name."""
    named: dict[str, AggregateFunction] = {}
    for aggregate in found:
        if isinstance(aggregate, AggregateFunction) and named.setdefault(aggregate.name, aggregate) is not aggregate:
            raise ValueError(f"two aggregates have the name {aggregate.name}")
    return MappingProxyType(named)


_FILES = [import_module(f"{__name__}.{file}") for file in sorted(file.name for file in iter_modules(__path__))]
AGGREGATES = by_name(found for file in _FILES for found in vars(file).values())
"""All aggregates, by their names in plans."""


def aggregate_named(name: str) -> AggregateFunction:
    """Returns an aggregate; raises ValueError for a name that none has."""
    if name not in AGGREGATES:
        raise ValueError(f"the aggregate {name} is not known")
    return AGGREGATES[name]
