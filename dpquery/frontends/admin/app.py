"""The owner's page as a web application: two pages to read, none to write, behind a token."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator
from typing import Any, Protocol

import jinja2
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from dpquery.auditing.svg import STYLE
from dpquery.errors import LedgerError
from dpquery.frontends.admin.audit import SHOWN
from dpquery.frontends.admin.overview import LedgerWatch, Overview
from dpquery.frontends.meaning import section
from dpquery.frontends.postgres.listener import Server
from dpquery.frontends.postgres.login.tokens import SHORTEST_TOKEN
from dpquery.frontends.postgres.metrics import metrics_text
from dpquery.frontends.postgres.process.log import RefusedStatement

COOKIE = "dpquery-owner"


class ObservedServer(Protocol):
    """A running server, read from another thread."""

    @property
    def open(self) -> int:
        """How many clients are logged in."""

    @property
    def refused(self) -> list[RefusedStatement]:
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
    def refused(self) -> list[RefusedStatement]:
        """The last refusals, newest first."""
        return list(reversed(self._server.counts.refused.copy()))

    @property
    def metrics(self) -> str:
        """What it counts, in Prometheus' text format."""
        return metrics_text(self._server)


def application(watch: LedgerWatch, server: ObservedServer, token: str) -> Starlette:
    """Returns the application. `/` is for people and `/metrics` for Prometheus.

    Both ask for the token: as `Authorization: Bearer TOKEN`, or once as `/?token=TOKEN`, which is kept in a cookie
    that scripts and other sites cannot use.
    """
    if len(token) < SHORTEST_TOKEN:
        raise ValueError(f"the owner's token has at least {SHORTEST_TOKEN} characters")
    template = jinja2.Environment(
        loader=jinja2.PackageLoader("dpquery.frontends.admin", ""), autoescape=True, undefined=jinja2.StrictUndefined
    ).get_template("page.html.jinja")

    def knows(given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), token.encode())

    async def page(request: Request) -> Response:
        if knows(request.query_params.get("token")):
            entered = RedirectResponse("/", status_code=303)
            entered.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=request.url.scheme == "https")
            return _guarded(entered)
        if not knows(_shown(request)):
            return _unknown()
        nonce = secrets.token_urlsafe(16)
        return _guarded(HTMLResponse(await run_in_threadpool(_page, template, watch, server, nonce)), nonce)

    async def figures(request: Request) -> Response:
        if not knows(_shown(request)):
            return _unknown()
        text = await run_in_threadpool(metrics, watch, server)
        return _guarded(Response(text, media_type="text/plain; version=0.0.4; charset=utf-8"))

    return Starlette(routes=[Route("/", page), Route("/metrics", figures)])


def _page(template: jinja2.Template, watch: LedgerWatch, server: ObservedServer, nonce: str) -> str:
    view: Overview | None = None
    problem = ""
    try:
        view = watch.overview()
    except LedgerError as error:
        problem = str(error)
    shown: dict[str, Any] = {"view": view, "problem": problem, "verified": watch.verified, "server": server}
    shown |= {"meaning": "" if view is None else section(watch.promises()), "plot_style": STYLE}
    return template.render(**shown, refusals=server.refused, nonce=nonce)


def _shown(request: Request) -> str | None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given if scheme.lower() == "bearer" else request.cookies.get(COOKIE)


def _unknown() -> Response:
    words = "This page is the data owner's. Open it with ?token=TOKEN; the server's log says where the token is.\n"
    return _guarded(PlainTextResponse(words, status_code=401, headers={"WWW-Authenticate": "Bearer"}))


def _guarded(response: Response, nonce: str | None = None) -> Response:
    """Lets a browser load and run nothing but what stands in the page, and keep no copy of it."""
    styles = f"'nonce-{nonce}'" if nonce else "'none'"
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; style-src {styles}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def metrics(watch: LedgerWatch, server: ObservedServer) -> bytes:
    """Returns all metrics, the server's own included, in the Prometheus text format 0.0.4."""
    registry = CollectorRegistry()
    registry.register(_Figures(watch))
    return generate_latest(registry) + server.metrics.encode()


class _Figures(Collector):
    def __init__(self, watch: LedgerWatch) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        yield from self._budgets()
        verified = self._watch.verified
        whole = "1 if the last check of every entry of the ledger found it unbroken."
        yield GaugeMetricFamily("dpquery_ledger_verified", whole, float(verified.entries is not None))

    def _budgets(self) -> Iterator[Metric]:
        """Yields limits and what was spent; nothing but `readable` where the ledger cannot be read."""
        try:
            accounts = self._watch.accounts()
        except LedgerError:
            accounts = []
        readable = GaugeMetricFamily("dpquery_ledger_readable", "1 if the ledger could be read.", float(bool(accounts)))
        yield readable
        labels = ["analyst", "part"]
        limits = GaugeMetricFamily(
            "dpquery_budget_limit", "What may be spent; analyst '' is all together.", labels=labels
        )
        spent = GaugeMetricFamily("dpquery_budget_spent", "What was spent; analyst '' is all together.", labels=labels)
        for name, most, used, _ in accounts:
            for part in SHOWN:
                if getattr(most, part):
                    limits.add_metric([name or "", part], float(getattr(most, part)))
                    spent.add_metric([name or "", part], float(getattr(used, part)))
        yield limits
        yield spent
