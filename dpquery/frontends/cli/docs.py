"""`dpquery docs`: the documentation site that the package brings, served to this machine's browser alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpquery.errors import ParameterError
from dpquery.frontends.cli.options import opt

if TYPE_CHECKING:
    import http.server

_PACKAGED = Path(__file__).parents[2] / "site"
_BUILT = Path(__file__).parents[3] / "build" / "site"  # in a checkout, by `make site`


def docs(
    port: Annotated[int, opt("--port", "N", "The port; by default one that is free.")] = 0,
    no_browser: Annotated[bool, opt("--no-browser", None, "Print the address, and open nothing.")] = False,
) -> None:
    """The documentation, in a browser of this machine; Ctrl-C ends it."""
    with site_server(site_folder(), port) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}/index.html"
        typer.echo(f"{address} (Ctrl-C ends it)")
        if not no_browser:
            import webbrowser

            webbrowser.open(address)
        server.serve_forever()


def site_folder() -> Path:
    """Returns the folder of the site; raises ParameterError where none was built."""
    for folder in (_PACKAGED, _BUILT):
        if (folder / "index.html").is_file():
            return folder
    raise ParameterError(
        "this installation has no documentation site",
        advice="Wheels bring it; in a checkout, `make site` builds it. The pages are in docs/.",
    )


def site_server(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    """Returns a server of a folder's files, which only this machine reaches; it logs nothing."""
    import functools
    import http.server

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Says nothing about requests."""

    return http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Quiet, directory=str(folder)))
