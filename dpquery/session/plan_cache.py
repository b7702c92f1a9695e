"""Plans of one session, and answers that came from the store: what is asked again is not planned again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from dpquery.catalog import Catalog
from dpquery.ledger.ledger import Ledger
from dpquery.result.batch import Batch
from dpquery.reuse.shelf import State
from dpquery.session.options import Request
from dpquery.session.planning import PreparedQuery

MOST_ANSWERS = 500
"""Answers that are remembered."""

MOST = 100
"""Plans that are kept."""
LARGEST = 10_000
"""Public values of the keys of a plan that is kept."""


@dataclass(slots=True)
class PlanCache:
    """The last plans of a session. A plan holds for one budget, one set of declarations and one number of rows of a
    unit in each table, which a profile may tell; for the rest it follows from the catalog, from public tables, which
    are read once, and from the request. One that reads the clock is not kept."""

    known: OrderedDict[object, tuple[object, tuple[PreparedQuery, ...]]] = field(default_factory=OrderedDict)

    def get(
        self,
        requests: tuple[Request, ...],
        ledger: Ledger,
        catalog: Catalog,
        prepare: Callable[[], tuple[PreparedQuery, ...]],
    ) -> tuple[PreparedQuery, ...]:
        """Returns the plans of requests that are answered together; makes them if they are not known.

        Args:
            catalog: As it is planned with: with the numbers of rows that were measured.
        """
        key = tuple(request.key for request in requests)
        if None in key:
            return prepare()
        rows = tuple(table.max_rows for table in catalog.tables.values())
        terms = (ledger.budget, ledger.declarations, rows)
        found = self.known.get(key)
        if found is not None and found[0] == terms:
            return found[1]
        made = prepare()
        if not any(one.reads_clock for one in made) and _size(made) <= LARGEST:
            self.known[key] = (terms, made)
            while len(self.known) > MOST:
                self.known.popitem(last=False)
        return made


def _size(made: tuple[PreparedQuery, ...]) -> int:
    return sum(len(key.domain or ()) for budgeted in made[0].budgeted.aggregates for key in budgeted.aggregate.keys)


@dataclass(slots=True)
class Repeats:
    """The last answers, each with the state of the store that it was made from: any change asks the store again."""

    known: OrderedDict[object, tuple[State, Batch]] = field(default_factory=OrderedDict)

    def get(self, key: object, state: State) -> Batch | None:
        """Returns the answers that the store would give, or None."""
        found = self.known.get(key)
        return None if found is None or found[0] != state else found[1]

    def put(self, key: object, state: State, answers: Batch) -> None:
        """Remembers answers that were made of stored releases alone, when the store was in this state."""
        self.known[key] = (state, answers)
        while len(self.known) > MOST_ANSWERS:
            self.known.popitem(last=False)
