"""What the owner's page and its metrics learn from a server that runs."""

from __future__ import annotations

from typing import Protocol

from dpquery.frontends.postgres.listener import Server
from dpquery.frontends.postgres.metrics import metrics_text
from dpquery.frontends.postgres.process.log import Refused


class Observed(Protocol):
    """A running server, read from another thread."""

    @property
    def open(self) -> int:
        """How many clients are logged in."""

    @property
    def refused(self) -> list[Refused]:
        """The last refusals, newest first."""

    @property
    def metrics(self) -> str:
        """What it counts, in Prometheus' text format."""


class Running:
    """A server of this process."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def open(self) -> int:
        """How many clients are logged in."""
        return self._server.open

    @property
    def refused(self) -> list[Refused]:
        """The last refusals, newest first."""
        return list(reversed(self._server.counts.refused.copy()))

    @property
    def metrics(self) -> str:
        """What it counts, in Prometheus' text format."""
        return metrics_text(self._server)
