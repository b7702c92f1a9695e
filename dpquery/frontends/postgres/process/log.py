"""Lines for the owner: who connected, what was answered, what was refused; without queries, parameters and values."""

from __future__ import annotations

import datetime
import itertools
import json
import logging
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from dpquery.frontends.postgres.login.users import User
from dpquery.frontends.postgres.wire.answers import Refusal, StatementAnswer
from dpquery.kernel.failures import cause_of

LOGGER = logging.getLogger("dpquery.server")
_NUMBERS = itertools.count(1)


KEPT_REFUSALS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedStatement:
    """One statement that was refused: when (UTC), whose, and with which SQLSTATE and words."""

    time: str
    analyst: str
    sqlstate: str
    message: str


@dataclass(slots=True)
class Counts:
    """What the server did since it started, for metrics and the owner's page."""

    totals: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: float = 0.0
    refused: deque[RefusedStatement] = field(default_factory=lambda: deque(maxlen=KEPT_REFUSALS))


@dataclass(slots=True)
class ConnectionLog:
    """The lines of one connection, which all name its number."""

    counts: Counts
    address: str
    number: int = field(default_factory=_NUMBERS.__next__)

    def _say(self, event: str, **facts: Any) -> None:
        told = " ".join(f"{name}={_plain(value)}" for name, value in facts.items())
        LOGGER.info("%s connection=%d %s", event, self.number, told)

    def connected(self, login: User, user: User, *, is_tls: bool, application: str) -> None:
        """A client has logged in."""
        self.counts.totals["connections", "accepted"] += 1
        extra = {} if login == user else {"login": login.name}
        self._say(
            "connected",
            user=user.name,
            analyst=user.analyst,
            **extra,
            address=self.address,
            tls=is_tls,
            application=application,
        )

    def rejected(self, why: str, name: str) -> None:
        """A client was not let in; `name` is what it says it is."""
        self.counts.totals["connections", "rejected"] += 1
        self._say("rejected", user=name, address=self.address, why=why)

    def disconnected(self) -> None:
        """A client is gone."""
        self._say("disconnected")

    def answered(self, user: User, answered: StatementAnswer, seconds: float) -> None:
        """A statement was answered; its notices say what it cost."""
        self.counts.totals["statements", "answered"] += 1
        self.counts.seconds += seconds
        if answered.notices:  # they say what was charged, or why nothing was
            words = answered.notices[0]
            self._say(
                "answered", analyst=user.analyst, rows=len(answered.table), ms=round(seconds * 1000, 1), notice=words
            )

    def refused(self, user: User, refusal: Refusal) -> None:
        """A statement was refused."""
        self.counts.totals["refusals", refusal.sqlstate] += 1
        time = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
        self.counts.refused.append(
            RefusedStatement(time=time, analyst=user.analyst, sqlstate=refusal.sqlstate, message=refusal.message)
        )
        self._say("refused", analyst=user.analyst, sqlstate=refusal.sqlstate)

    def defect(self, error: BaseException) -> None:
        """The server failed where it should not; what the exception says may quote data and stays unsaid."""
        self.counts.totals["defects", type(error).__name__] += 1
        LOGGER.error("defect connection=%d cause=%s", self.number, _plain(cause_of(error)))


def _plain(value: object) -> str:
    """Returns a fact on one line, in quotes and with escapes where it has blanks, quotes or unprintable characters."""
    text = str(value)[:200]
    if text and all(c.isprintable() and c not in ' "=\\' for c in text):
        return text
    return json.dumps("".join(c if c.isprintable() else c.encode("unicode-escape").decode() for c in text))
