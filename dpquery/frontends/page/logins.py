"""Who is logged in: visits in memory, each known by a secret word in a cookie, and ended after a while."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dpquery.frontends.page.server_client import Asker

IDLE, LONGEST = 30 * 60.0, 12 * 3600.0  # seconds
MOST, MOST_OF_ONE = 200, 5


@dataclass(slots=True, kw_only=True)
class Visit:
    """One browser's session. `form` is the word that its forms send, which other sites do not know."""

    user: str
    asker: Asker
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    began: float
    seen: float

    def is_own_form(self, given: str) -> bool:
        """Whether a form was made for this visit."""
        return hmac.compare_digest(given.encode(), self.form.encode())


class Visits:
    """All visits. Words of cookies are fresh at each login; a user has MOST_OF_ONE at most, the oldest ends first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._visits: dict[str, Visit] = {}
        self._lock, self._clock = threading.Lock(), clock

    def begin(self, user: str, asker: Asker) -> str:
        """Returns the word of a new visit."""
        now, word = self._clock(), secrets.token_urlsafe(32)
        with self._lock:
            self._sweep(now)
            of_one = [known for known, visit in self._visits.items() if visit.user == user]
            for known in of_one[: max(0, len(of_one) - MOST_OF_ONE + 1)]:
                self._end(known)
            if len(self._visits) >= MOST:
                self._end(next(iter(self._visits)))
            self._visits[word] = Visit(user=user, asker=asker, began=now, seen=now)
        return word

    def of(self, word: str | None) -> Visit | None:
        """Returns the visit of a word, unless it ended."""
        now = self._clock()
        with self._lock:
            self._sweep(now)
            visit = self._visits.get(word or "")
            if visit is not None:
                visit.seen = now
            return visit

    def end(self, word: str | None) -> None:
        """Ends a visit and its connection."""
        with self._lock:
            if word in self._visits:
                self._end(word)

    def _sweep(self, now: float) -> None:
        for word, visit in [*self._visits.items()]:
            if now - visit.seen > IDLE or now - visit.began > LONGEST:
                self._end(word)

    def _end(self, word: str) -> None:
        self._visits.pop(word).asker.close()
