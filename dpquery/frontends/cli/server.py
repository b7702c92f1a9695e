"""`dpquery serve` and `dpquery user`: the server for BI tools and who may use it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpquery.errors import CatalogError
from dpquery.frontends.cli.options import CatalogFile, KeyFile, LedgerFile, MemoryLimit, Sources, SpillTo, opt, spill_of
from dpquery.frontends.opening import find_data, ledger_beside, open_ledger

if TYPE_CHECKING:
    from dpquery.catalog import Catalog
    from dpquery.frontends.postgres.listener import Server

UsersFile = Annotated[Path, opt("--users -u", "FILE", "The users' file; dpquery user add makes it.")]
TOKEN = "A file with the token; created if missing. By default a new token each time."
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user, as a client logs in.")]
FromInput = Annotated[bool, opt("--password-stdin", None, "Read the password from the standard input.")]

user_commands = typer.Typer(help="Who may connect to the server.", no_args_is_help=True)


def serve(
    catalog: CatalogFile,
    users: UsersFile,
    listen: Annotated[str, opt("--listen", "HOST:PORT", "Where clients connect.")] = "127.0.0.1:5433",
    source: Sources = None,
    ledger: LedgerFile = None,
    tls_cert: Annotated[Path | None, opt("--tls-cert", "FILE", "The server's certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, opt("--tls-key", "FILE", "Its private key, PEM.")] = None,
    tls_client_ca: Annotated[
        Path | None, opt("--tls-client-ca", "FILE", "Who signs clients' certificates, PEM.")
    ] = None,
    require_tls: Annotated[bool, opt("--require-tls", None, "Refuse clear text from this machine, too.")] = False,
    most_epsilon: Annotated[str | None, opt("--most-epsilon", "AMOUNT", "The most of SET dpquery.epsilon.")] = None,
    row_level: Annotated[
        str, opt("--row-level", "error|empty|synopsis", "What queries for single rows get.")
    ] = "error",
    statement_timeout: Annotated[float, opt("--statement-timeout", "SECONDS", "Of one statement.", min=0.001)] = 600.0,
    idle_timeout: Annotated[float, opt("--idle-timeout", "SECONDS", "Of a silent connection.", min=0.001)] = 3600.0,
    most_connections: Annotated[int, opt("--most-connections", "N", "At the same time.", min=1)] = 200,
    threads: Annotated[int, opt("--threads", "N", "Statements that run at once.", min=1)] = 16,
    workers: Annotated[int, opt("--workers", "N", "Processes that hold the data and answer.", min=1, max=64)] = 1,
    statements_per_user: Annotated[
        int | None, opt("--statements-per-user", "N", "Else a quarter of them.", min=1)
    ] = None,
    most_results: Annotated[int, opt("--most-results", "MB", "Results kept; one user has a quarter.", min=4)] = 512,
    tick: Annotated[float, opt("--tick", "SECONDS", "When cancelled statements end.", min=0.01, max=60)] = 0.25,
    key_file: KeyFile = None,
    memory_limit: MemoryLimit = None,
    spill: SpillTo = None,
    metrics: Annotated[str | None, opt("--metrics", "HOST:PORT", "Where Prometheus reads /metrics.")] = None,
    metrics_token: Annotated[Path | None, opt("--metrics-token", "FILE", TOKEN)] = None,
    admin: Annotated[str | None, opt("--admin", "HOST:PORT", "Where the owner's page is, as 127.0.0.1:8080.")] = None,
    admin_token: Annotated[Path | None, opt("--admin-token", "FILE", TOKEN)] = None,
) -> None:
    """Answer PostgreSQL clients and BI tools: every answer is private, and charged to who asks."""
    from dpquery.catalog import Catalog
    from dpquery.frontends.postgres.engine.engine import FACTORY
    from dpquery.frontends.postgres.listener import Limits, Server
    from dpquery.frontends.postgres.login.tls import tls_context
    from dpquery.frontends.postgres.login.users import Users
    from dpquery.frontends.postgres.process.pool import Pool
    from dpquery.frontends.postgres.process.supervisor import SupervisorSettings

    host, port = address_of(listen)
    if (tls_cert is None) is not (tls_key is None) or (tls_client_ca is not None and tls_cert is None):
        raise typer.BadParameter("--tls-cert and --tls-key belong together, and --tls-client-ca needs them")
    if require_tls and tls_cert is None:
        raise typer.BadParameter("--require-tls needs --tls-cert and --tls-key")
    if tls_cert is None and not is_loopback(host):
        raise typer.BadParameter(f"{host} is reachable from other machines: give --tls-cert and --tls-key")
    if row_level not in ("error", "empty", "synopsis"):
        raise typer.BadParameter("--row-level must be error, empty or synopsis")
    declared = Catalog.load(catalog)
    found, problems = find_data(declared, catalog.parent, source or ())
    if problems:
        raise CatalogError(problems)
    arguments: dict[str, Any] = {
        "catalog": str(catalog),
        "sources": found,
        "ledger": str(ledger or ledger_beside(declared, catalog)),
        "key": key_file,
        "row_level": row_level,
        "most_epsilon": most_epsilon,
        "memory_limit": memory_limit,
        "spill": spill_of(spill),
        "workers": workers,
    }
    limits = Limits(
        connections=most_connections,
        statements_per_user=statements_per_user,
        room=most_results << 20,
        statement=statement_timeout,
        idle=idle_timeout,
    )
    server = Server(
        Pool(
            SupervisorSettings(
                factory=FACTORY,
                arguments=arguments,
                threads=threads,
                most_bytes=max(1, most_results // 4) << 20,
                tick=tick,
            ),
            workers,
        ),
        Users(users),
        limits,
        needs_tls=require_tls,
        caps={} if most_epsilon is None else {"dpquery.epsilon": most_epsilon},
    )
    if tls_cert is not None and tls_key is not None:
        server.tls, server.binding = tls_context(tls_cert, tls_key, tls_client_ca)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    with contextlib.ExitStack() as pages:
        if admin is not None:
            _open_page(pages, server, declared, arguments["ledger"], address_of(admin), admin_token)
        counted = None if metrics is None else (*address_of(metrics), _metrics_token(metrics, metrics_token))
        asyncio.run(_run(server, host, port, counted, declared))


def _open_page(
    pages: contextlib.ExitStack,
    server: Server,
    catalog: Catalog,
    ledger: str,
    address: tuple[str, int],
    token: Path | None,
) -> None:
    from dpquery.errors import extra

    for library in ("jinja2", "prometheus_client", "starlette", "uvicorn"):
        extra(library, of="admin", purpose="the owner's page")
    from dpquery.frontends.admin.app import Running
    from dpquery.frontends.admin.overview import LedgerWatch
    from dpquery.frontends.admin.serving import OwnersPage
    from dpquery.frontends.postgres.login.tokens import token_of

    opened = open_ledger(ledger)
    pages.callback(opened.close)
    secret, shown = token_of(token)
    page = OwnersPage(LedgerWatch(opened, catalog.analysts), Running(server), secret, host=address[0], port=address[1])
    pages.enter_context(page)
    typer.echo(f"The owner's page: http://{address[0]}:{page.port}/?token={shown}", err=True)


def _metrics_token(address: str, token: Path | None) -> str:
    from dpquery.frontends.postgres.login.tokens import token_of

    secret, shown = token_of(token)
    typer.echo(f"Metrics: http://{address}/metrics with Authorization: Bearer {shown}", err=True)
    return secret


async def _run(server: Server, host: str, port: int, metrics: tuple[str, int, str] | None, catalog: Catalog) -> None:
    from dpquery.frontends.postgres.metrics import serve_metrics
    from dpquery.frontends.postgres.process.worker import SWITCH

    sys.setswitchinterval(SWITCH)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, ended.set)
    try:
        bound = await server.start(host, port)
    except OSError as error:
        await server.stop()  # the engine runs already
        reason = os.strerror(error.errno) if error.errno else "it cannot be used"
        raise typer.BadParameter(f"{host}:{port}: {reason}; say another with --listen HOST:PORT") from None
    if not sys.stdin.isatty():  # a terminal that is closed ends the server
        loop.add_signal_handler(signal.SIGHUP, server.engine.renew)
    counted = None if metrics is None else await serve_metrics(server, *metrics)
    encrypted = " sslmode=require" if server.tls is not None else ""
    typer.echo(f"dpquery answers for {catalog.dataset} on {host}:{bound}", err=True)
    typer.echo(f'  psql "host={host} port={bound} dbname={catalog.dataset} user=NAME{encrypted}"', err=True)
    await ended.wait()
    typer.echo("Ending: statements that run may finish", err=True)
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(which)  # a second one ends it at once
    if counted is not None:
        counted.close()
    await server.stop()


def address_of(text: str) -> tuple[str, int]:
    """Returns host and port of HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 <= int(port[:6]) <= 65_535:
        raise typer.BadParameter(f"write the address as HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@user_commands.command()
def add(
    name: Name,
    users: UsersFile,
    analyst: Annotated[str | None, opt("--analyst -a", "NAME", "Whose budget is used; by default the user's.")] = None,
    certificate: Annotated[str | None, opt("--certificate", "NAME", "Name in a certificate that is enough.")] = None,
    delegate_for: Annotated[list[str] | None, opt("--delegate-for", "USER", "Whom it may act for; * for all.")] = None,
    password_stdin: FromInput = False,
) -> None:
    """Add a user; makes the file if there is none."""
    from dpquery.frontends.postgres.login.users import Users

    file = Users.create(users)
    for_whom = tuple(delegate_for or ())
    file.add(name, _password(password_stdin), analyst=analyst, certificate=certificate, delegate_for=for_whom)
    typer.echo(f"{name} may connect, as the analyst {analyst or name}", err=True)


@user_commands.command()
def passwd(name: Name, users: UsersFile, password_stdin: FromInput = False) -> None:
    """Give a user another password."""
    from dpquery.frontends.postgres.login.users import Users

    Users(users).set_password(name, _password(password_stdin))


@user_commands.command()
def remove(name: Name, users: UsersFile) -> None:
    """Remove a user. Connections that stand stay; what the analyst spent stays spent."""
    from dpquery.frontends.postgres.login.users import Users

    Users(users).remove(name)


@user_commands.command("list")
def list_users(users: UsersFile) -> None:
    """Print the users."""
    from dpquery.frontends.postgres.login.users import Users

    for user in Users(users).all():
        facts = [f"analyst {user.analyst}"]
        facts += [f"certificate {user.certificate}"] if user.certificate else []
        facts += [f"delegate for {', '.join(user.delegate_for)}"] if user.delegate_for else []
        typer.echo(f"{user.name}: {'; '.join(facts)}")


def _password(from_input: bool) -> str:
    if from_input:
        return sys.stdin.readline().rstrip("\n")
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
