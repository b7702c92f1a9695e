"""What a server counts while it runs. It holds no answer and no query's text, and is forgotten at the end."""

from __future__ import annotations

import datetime
import threading
from collections import Counter, deque
from dataclasses import dataclass

KEPT_REFUSALS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """One request that was turned down: when (UTC), whose, and with which SQLSTATE and words."""

    time: str
    analyst: str
    sqlstate: str
    message: str


class Tally:
    """Counters that threads share.

    Attributes:
        connections: Open connections.
        answers: How many answers were `charged` and how many `free`.
        refusals: How many requests were refused, by SQLSTATE.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: deque[Refused] = deque(maxlen=KEPT_REFUSALS)
        self.connections = 0
        self.answers: Counter[str] = Counter(charged=0, free=0)
        self.refusals: Counter[str] = Counter()

    def opened(self) -> None:
        """Counts a connection."""
        with self._lock:
            self.connections += 1

    def closed(self) -> None:
        """Counts the end of a connection."""
        with self._lock:
            self.connections -= 1

    def answered(self, *, is_charged: bool) -> None:
        """Counts an answer."""
        with self._lock:
            self.answers["charged" if is_charged else "free"] += 1

    def refused(self, analyst: str, sqlstate: str, message: str) -> None:
        """Counts and keeps a refusal; the last 100 are shown."""
        time = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
        with self._lock:
            self.refusals[sqlstate] += 1
            self._refused.append(Refused(time=time, analyst=analyst, sqlstate=sqlstate, message=message))

    def last_refused(self) -> list[Refused]:
        """Returns the refusals that are kept, the newest first."""
        with self._lock:
            return list(reversed(self._refused))
