"""What a backend is, and what it owes the kernel: exactly what the private plan says, word by word.

The words are in `kernel/plan.py`. One suite of tests holds every backend to `backend.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.logical import Relation
from dpquery.units.sizes import Sizes


class PublicFacts(Sizes, Protocol):
    """What planning may know of data: the values and the sizes of public tables."""


class Backend(PublicFacts, Protocol):
    """An engine that holds the tables of a catalog."""

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
