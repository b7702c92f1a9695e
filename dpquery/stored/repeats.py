"""Answers of one session that came from the store alone, so that asking again takes no planning."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from dpquery.result.table import Result
from dpquery.stored.store import State

MOST = 500
"""Answers that are remembered."""


@dataclass(slots=True)
class Repeats:
    """The last answers, each with the state of the store that it was made from: any change asks the store again."""

    known: OrderedDict[object, tuple[State, Result]] = field(default_factory=OrderedDict)

    def get(self, key: object, state: State) -> Result | None:
        """Returns the answer that the store would give, or None."""
        found = self.known.get(key)
        return None if found is None or found[0] != state else found[1]

    def put(self, key: object, state: State, answer: Result) -> None:
        """Remembers an answer that was made of stored releases alone, when the store was in this state."""
        self.known[key] = (state, answer)
        while len(self.known) > MOST:
            self.known.popitem(last=False)
