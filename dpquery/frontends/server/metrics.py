"""What the server counts, as Prometheus reads it; for the owner's machines, on an address of its own."""

from __future__ import annotations

import asyncio
import contextlib

from dpquery.frontends.server.listener import Server

MOST_REQUEST = 4096
PATIENCE = 5.0


def metrics_text(server: Server) -> str:
    """Returns the counts in Prometheus' text format."""
    lines = [
        "# TYPE dpquery_connections_open gauge",
        f"dpquery_connections_open {server.open}",
        "# TYPE dpquery_engine_restarts_total counter",
        f"dpquery_engine_restarts_total {server.engine.restarts}",
        "# TYPE dpquery_statement_seconds_total counter",
        f"dpquery_statement_seconds_total {server.counts.seconds:.6f}",
        "# TYPE dpquery_events_total counter",
    ]
    for (kind, what), count in sorted(server.counts.totals.copy().items()):
        lines.append(f'dpquery_events_total{{kind="{kind}",what="{what}"}} {count}')
    return "\n".join(lines) + "\n"


async def serve_metrics(server: Server, host: str, port: int) -> asyncio.Server:
    """Answers GET /metrics."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
            is_asked = head.startswith((b"GET /metrics ", b"GET /metrics?"))
            body = metrics_text(server).encode() if is_asked else b""
            status = "200 OK" if is_asked else "404 Not Found"
            kind = "text/plain; version=0.0.4; charset=utf-8"
            described = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{described}Connection: close\r\n\r\n".encode() + body)
            await asyncio.wait_for(writer.drain(), PATIENCE)
        writer.close()

    return await asyncio.start_server(answer, host, port, limit=MOST_REQUEST)
