"""Answers of one session that came from the store alone, so that asking again takes no planning."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from dpquery.result.batch import Batch
from dpquery.reuse.shelf import State

MOST = 500
"""Answers that are remembered."""


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
        while len(self.known) > MOST:
            self.known.popitem(last=False)
