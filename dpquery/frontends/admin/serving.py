"""Runs the owner's page beside a server: in a thread of its own, with a regular check of the whole ledger."""

from __future__ import annotations

import socket
import threading

import uvicorn
from starlette.applications import Starlette
from starlette.middleware.trustedhost import TrustedHostMiddleware

from dpquery.errors import DPQueryError
from dpquery.frontends.admin.app import ObservedServer, application
from dpquery.frontends.admin.overview import LedgerWatch

BETWEEN_CHECKS = 300.0  # seconds


class OwnersPage:
    """The page while it runs; a context manager.

    Args:
        watch: The ledger.
        server: What the server counts.
        token: What opens the page, at least 16 characters.
        host, port: Where it listens; port 0 is any free one. Without TLS, so only on the machine itself.
    Raises:
        DPQueryError: Something else listens there, or the host is not the machine itself.
    """

    def __init__(self, watch: LedgerWatch, server: ObservedServer, token: str, *, host: str, port: int) -> None:
        if host not in ("127.0.0.1", "localhost"):
            advice = "Listen on 127.0.0.1, and reach it through SSH or a proxy that has a certificate."
            raise DPQueryError(f"the owner's page has no TLS, and does not listen on {host}\n  {advice}")
        self._watch = watch
        self._socket = _listening(host, port)
        self._done = threading.Event()
        self._server = uvicorn.Server(_config(_only_here(application(watch, server, token))))
        self._threads = [
            threading.Thread(target=self._server.run, args=([self._socket],), daemon=True, name="owner's page"),
            threading.Thread(target=self._check, daemon=True, name="ledger's check"),
        ]

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def _check(self) -> None:
        while not self._done.wait(BETWEEN_CHECKS):
            self._watch.verify()

    def __enter__(self) -> OwnersPage:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._server.should_exit = True
        for thread in self._threads:
            thread.join(timeout=10)
        self._socket.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise DPQueryError(f"the owner's page cannot listen on {host}:{port}: {error.strerror}") from error


def _only_here(app: Starlette) -> Starlette:
    """Refuses requests that name another host, as a page of the web does whose name was pointed at this machine."""
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return app


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="off", ws="none")
