"""What the server counts, as Prometheus reads it; for the owner's machines, on an address of its own."""

from __future__ import annotations

import asyncio
import contextlib
import hmac

from dpquery.frontends.postgres.listener import Server
from dpquery.frontends.postgres.login.tokens import is_own_host

MOST_REQUEST = 4096
OK, UNKNOWN = "200 OK", "401 Unauthorized"
PATIENCE = 5.0


def metrics_text(server: Server) -> str:
    """Returns the counts in Prometheus' text format."""
    shares, engine = server.shares, server.engine
    figures = (
        ("connections_open", "gauge", server.open),
        ("statements_running", "gauge", shares.statements.busy),
        ("statements_waiting", "gauge", shares.statements.waiting),
        ("results_bytes", "gauge", shares.room.held),
        ("engines_ready", "gauge", len(engine.processes)),
        ("engine_restarts_total", "counter", engine.restarts),
        ("statement_seconds_total", "counter", f"{server.counts.seconds:.6f}"),
    )
    lines = [f"# TYPE dpquery_{name} {kind}\ndpquery_{name} {value}" for name, kind, value in figures]
    lines.append("# TYPE dpquery_events_total counter")
    for (kind, what), count in sorted(server.counts.totals.copy().items()):
        lines.append(f'dpquery_events_total{{kind="{kind}",what="{what}"}} {count}')
    return "\n".join(lines) + "\n"


async def serve_metrics(server: Server, host: str, port: int, token: str) -> asyncio.Server:
    """Answers GET /metrics to who shows the token, as `Authorization: Bearer TOKEN`, and names this machine as host."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
            status = _status(head.decode("latin-1"), host, token)
            body = metrics_text(server).encode() if status == OK else b""
            kind = "text/plain; version=0.0.4; charset=utf-8"
            described = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            asked = "WWW-Authenticate: Bearer\r\n" if status == UNKNOWN else ""
            writer.write(f"{described}{asked}Connection: close\r\n\r\n".encode() + body)
            await asyncio.wait_for(writer.drain(), PATIENCE)
        writer.close()

    return await asyncio.start_server(answer, host, port, limit=MOST_REQUEST)


def _status(head: str, host: str, token: str) -> str:
    """Returns the status of a request: whether it names this machine, shows the token, and asks for the metrics."""
    first, *lines = head.split("\r\n")
    named = [line.partition(":") for line in lines]
    headers = {name.strip().lower(): value.strip() for name, _, value in named}
    if not is_own_host(headers.get("host", ""), host):
        return "421 Misdirected Request"
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        return UNKNOWN
    return OK if first.startswith(("GET /metrics ", "GET /metrics?")) else "404 Not Found"
