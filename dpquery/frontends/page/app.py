"""The page as a web application: a login, a form, and what the server answers. It runs no script.

Each form carries a word of its visit, each request that changes something must come from this very site, and a browser
may load nothing else: docs/concepts/server.md, "The analyst's page".
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jinja2
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from dpquery.frontends.page.chart import charts
from dpquery.frontends.page.logins import Visit, Visits
from dpquery.frontends.page.server_client import Asker, ServerAddress, ServerRefusal

COOKIE = "dpquery-visit"
LARGEST = 100_000  # bytes of a form
SUMMARY = ("Charge", "Expected errors", "Groups of fewer", "Ranks", "Left out", "Warning", "Blocks")
"""With these words the lines of a plan begin that say what it costs and how far it may be off."""

Login = Callable[[str, str], Asker]


def application(place: ServerAddress, names: tuple[str, ...], *, login: Login | None = None) -> Starlette:
    """Returns the application.

    Args:
        place: Where the server is.
        names: The hosts by which browsers know the page; requests for others are refused.
        login: Makes a connection of a user and a password.
    """
    page = _Page(place, login or (lambda user, password: Asker(place, user, password)))
    routes = [
        Route("/", page.show),
        Route("/login", page.login, methods=["POST"]),
        Route("/ask", page.ask, methods=["POST"]),
        Route("/logout", page.logout, methods=["POST"]),
    ]
    app = Starlette(routes=routes)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*names])
    return app


class _Page:
    def __init__(self, place: ServerAddress, login: Login) -> None:
        self._place, self._login, self._visits = place, login, Visits()
        loader = jinja2.PackageLoader("dpquery.frontends.page", "")
        environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
        self._template = environment.get_template("page.html.jinja")

    async def show(self, request: Request) -> Response:
        """The form of the login, or of a query."""
        visit = self._visits.of(request.cookies.get(COOKIE))
        return await self._shown(visit)

    async def login(self, request: Request) -> Response:
        """Begins a visit, or says that user or password are wrong."""
        form = await _form(request)
        if form is None or not _is_from_here(request):
            return _guarded(HTMLResponse("This form was not made here.\n", status_code=403))
        try:
            user = form.get("user", "")
            asker = await run_in_threadpool(self._login, user, form.get("password", ""))
        except ServerRefusal as refused:
            return await self._shown(None, problem=refused, status=401)
        entered = RedirectResponse("/", status_code=303)
        word = self._visits.begin(user, asker)
        entered.set_cookie(COOKIE, word, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return _guarded(entered)

    async def ask(self, request: Request) -> Response:
        """Prices a query or asks it, as the button says."""
        visit, form = self._visits.of(request.cookies.get(COOKIE)), await _form(request)
        if visit is None:
            return await self._shown(None, status=401)
        if form is None or not _is_from_here(request) or not visit.is_own_form(form.get("form", "")):
            return _guarded(HTMLResponse("This form was not made here.\n", status_code=403))
        text, loss = form.get("sql", "").strip().rstrip(";"), _loss(form)
        made: dict[str, Any] = {"text": text, "form": form}
        try:
            if form.get("do") == "ask":
                answer = await run_in_threadpool(visit.asker.ask, text, loss)
                made |= {"answer": answer, "charts": [Markup(chart) for chart in charts(answer)]}
            else:
                price = await run_in_threadpool(visit.asker.price, text, loss)
                made |= {"price": price, "summary": [line for line in price if line.startswith(SUMMARY)]}
        except ServerRefusal as refused:
            made["problem"] = refused
        return await self._shown(visit, word=request.cookies.get(COOKIE), **made)

    async def logout(self, request: Request) -> Response:
        """Ends a visit."""
        word, form = request.cookies.get(COOKIE), await _form(request)
        visit = self._visits.of(word)
        if visit is not None and form is not None and visit.is_own_form(form.get("form", "")):
            self._visits.end(word)
        left = RedirectResponse("/", status_code=303)
        left.delete_cookie(COOKIE)
        return _guarded(left)

    async def _shown(self, visit: Visit | None, *, status: int = 200, word: str | None = None, **made: Any) -> Response:
        nonce = secrets.token_urlsafe(16)
        about: dict[str, Any] = {"budget": (), "declared": {}, "history": ()}
        if visit is not None:
            try:
                about = await run_in_threadpool(_about, visit.asker)
            except ServerRefusal as refused:
                self._visits.end(word)
                visit, made = None, {"problem": refused}
        usual: dict[str, Any] = {
            "text": "",
            "form": {},
            "price": (),
            "summary": (),
            "answer": None,
            "charts": (),
            "problem": None,
        }
        shown = {**usual, **made, **about, "visit": visit, "place": self._place, "nonce": nonce}
        return _guarded(HTMLResponse(self._template.render(shown), status_code=status), nonce)


def _about(asker: Asker) -> dict[str, Any]:
    return {"budget": asker.budget(), "declared": asker.declared(), "history": asker.history()}


async def _form(request: Request) -> dict[str, str] | None:
    """Returns the fields of a form; None where it is too long or is none."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            return None
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=10)
    except ValueError:
        return None
    return {name: values[0] for name, values in fields.items()}


def _is_from_here(request: Request) -> bool:
    """Whether a form was sent by a page of this site: browsers say where each form comes from."""
    return urlsplit(request.headers.get("origin", "")).netloc == request.headers.get("host")


def _loss(form: dict[str, str]) -> tuple[str, str] | None:
    """Returns the currency and the amount that a form asks for, if any."""
    amount, currency = form.get("amount", "").strip(), form.get("currency", "epsilon")
    return (currency, amount) if amount and currency in ("epsilon", "rho") else None


def _guarded(response: Response, nonce: str | None = None) -> Response:
    """Lets a browser load and run nothing but what stands in the page, and keep no copy of it."""
    styles = f"'nonce-{nonce}'" if nonce else "'none'"
    rules = f"default-src 'none'; style-src {styles}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    response.headers["Content-Security-Policy"] = rules
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    return response
