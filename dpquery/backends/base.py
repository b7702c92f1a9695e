"""What a backend is, and what it owes the kernel: exactly what the private plan says, word by word.

The words are in `kernel/plan.py`. One suite of tests, `tests/backends/conformance`, holds every backend to them:
docs/how-to-contribute/add-a-backend.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from dpquery.backends.features import Gaps
from dpquery.backends.resources import Resources
from dpquery.catalog import Catalog
from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.logical import Relation
from dpquery.units.sizes import Sizes


class PublicFacts(Sizes, Protocol):
    """What planning may know of data: the values and the sizes of public tables."""


class Backend(PublicFacts, Protocol):
    """An engine that holds the tables of a catalog. `PublicTables` gives all of it but `prepare`, `run` and `gaps`."""

    @property
    def gaps(self) -> Gaps:
        """What it lacks: plans that ask for it are refused by `prepare`."""
        ...

    def check(self) -> None:
        """Raises BackendError if what was checked of the tables when they were opened may hold no more.

        Asked before each charge; reads no row, and tells nothing but that a file was changed.
        """
        ...

    def prepare(self, aggregate: PrivateAggregate) -> Any:
        """Returns the statement of a private aggregate, before it is charged for; looks at no private row.

        Args:
            aggregate: Checked by the kernel.
        Raises:
            UnsupportedQueryError: There is no form for it here.
        """
        ...

    def run(self, statement: Any, key: int) -> ExactAggregates:
        """Returns the exact integers of a statement that `prepare` made, in one snapshot of the data.

        Args:
            key: 128 bits, fresh for each release; decides which groups and values of a unit are kept.
        """
        ...

    def close(self) -> None:
        """Ends the engine; it answers nothing from here on."""
        ...

    def evaluate(self, relation: Relation, released: Sequence[pa.Table]) -> pa.Table:
        """Returns the rows of a relation over released and public tables, columns named by id.

        It runs where no private table is within reach. `released[i]` is read as `Released(index=i)`.
        """
        ...


class OpenBackend(Protocol):
    """What an entry point of `dpquery.backends` names: a class, or a function that returns a backend."""

    def __call__(self, catalog: Catalog, sources: Mapping[str, object], *, resources: Resources) -> Backend:
        """Returns the backend of a catalog's tables.

        Args:
            catalog: The declarations.
            sources: For each declared table its data, as the owner named them.
            resources: What it may use of the machine.
        Raises:
            CatalogError: Data that are missing or contradict the declarations; all of them at once.
        """
        ...
