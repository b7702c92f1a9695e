"""The command `dpquery page`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpquery.errors import extra
from dpquery.frontends.cli.options import opt
from dpquery.frontends.cli.server import address_of, is_loopback

_HERE = ("127.0.0.1", "localhost")


def page(
    database: Annotated[str, typer.Argument(metavar="DATASET", help="The dataset, as the server's catalog names it.")],
    server: Annotated[str, opt("--server", "HOST:PORT", "Where `dpquery serve` is.")] = "127.0.0.1:5433",
    server_ca: Annotated[Path | None, opt("--server-ca", "FILE", "Who signs its certificate, PEM.")] = None,
    listen: Annotated[str, opt("--listen", "HOST:PORT", "Where browsers connect.")] = "127.0.0.1:8081",
    name: Annotated[list[str] | None, opt("--name", "HOST", "A name by which browsers know the page.")] = None,
    tls_cert: Annotated[Path | None, opt("--tls-cert", "FILE", "The page's certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, opt("--tls-key", "FILE", "Its private key, PEM.")] = None,
) -> None:
    """SQL in a browser, for analysts: prices before they are paid, answers with charts. A client of `dpquery serve`."""
    (host, port), (behind, behind_port) = address_of(listen), address_of(server)
    if (tls_cert is None) is not (tls_key is None):
        raise typer.BadParameter("--tls-cert and --tls-key belong together")
    if tls_cert is None and not is_loopback(host):
        raise typer.BadParameter(f"{host} is reachable from other machines: give --tls-cert and --tls-key")
    for module in ("psycopg", "starlette", "jinja2"):
        extra(module, of="page", purpose="the analyst's page")
    uvicorn = extra("uvicorn", of="page", purpose="the analyst's page")
    from dpquery.frontends.page.app import application
    from dpquery.frontends.page.server_client import ServerAddress

    place = ServerAddress(
        host=behind, port=behind_port, database=database, ca=None if server_ca is None else str(server_ca)
    )
    app = application(place, (*_HERE, host, *(name or ())))
    scheme = "http" if tls_cert is None else "https"
    typer.echo(f"{scheme}://{host}:{port}/ (Ctrl-C ends it)")
    uvicorn.run(
        app,
        host=host,
        port=port,
        ssl_certfile=tls_cert,
        ssl_keyfile=tls_key,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
    )
