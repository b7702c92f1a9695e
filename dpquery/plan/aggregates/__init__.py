"""The aggregates that plans know, a file for each family: all that the program is told about them.

Whatever file of this package holds aggregates is read, so to add one is to add a file:
docs/how-to-contribute/add-an-aggregate.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from dpquery.plan.aggregates.aggregate import AggregateFunction as AggregateFunction

AGGREGATES: Mapping[str, AggregateFunction] = MappingProxyType(
    {
        found.name: found
        for file in sorted(file.name for file in iter_modules(__path__))
        for found in vars(import_module(f"{__name__}.{file}")).values()
        if isinstance(found, AggregateFunction)
    }
)
"""All aggregates, by their names in plans."""


def aggregate_named(name: str) -> AggregateFunction:
    """Returns an aggregate; raises ValueError for a name that none has."""
    if name not in AGGREGATES:
        raise ValueError(f"the aggregate {name} is not known")
    return AGGREGATES[name]
