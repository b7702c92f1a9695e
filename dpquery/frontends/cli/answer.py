"""Answers on the command line: as a table, CSV, JSON or Parquet, and what they cost, on the standard error."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpquery.cancelling import is_cancelled
from dpquery.frontends.text import as_asked, expected_lines, grid, number

if TYPE_CHECKING:
    import pyarrow as pa

    from dpquery.result.table import Result
    from dpquery.session.options import Options
    from dpquery.session.query_plan import Plan
    from dpquery.session.session import Session

MOST_ROWS = 40  # that a table on the terminal shows


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def say(text: str) -> None:
    """Prints to the standard error."""
    typer.echo(text, err=True)


def check_output(format: Format, output: Path | None) -> None:
    """Refuses what could not be written, before anything is charged."""
    if output is None:
        if format is Format.PARQUET:
            raise typer.BadParameter("parquet cannot be printed; name a file with --output")
        return
    folder = output.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise typer.BadParameter(f"--output: {folder} is not a writable folder")
    if output.exists() and not (output.is_file() and os.access(output, os.W_OK)):
        raise typer.BadParameter(f"--output: {output} is not a writable file")


def write_answer(answer: Result, format: Format, output: Path | None, intervals: bool) -> None:
    """Prints an answer, or writes it to a file."""
    from dpquery.result.interval_columns import with_intervals

    if format is Format.TABLE:
        content = (_wide_table(answer) if intervals else _table(answer)).encode()
    else:
        content = _encode(with_intervals(answer) if intervals else answer.to_arrow(), format)
    if output is not None:
        output.write_bytes(content)
        say(f"{len(answer):,} {'row' if len(answer) == 1 else 'rows'} written to {output}")
    else:
        typer.echo(content.decode(), nl=False)


def _encode(table: pa.Table, format: Format) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    if format is Format.PARQUET:
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, sink)
    elif format is Format.CSV:
        import pyarrow.csv

        pyarrow.csv.write_csv(table, sink)
    else:
        return _json(table).encode()
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _json(table: pa.Table) -> str:
    """Returns a list of objects, one row a line."""
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    rows = zip(*columns, strict=True) if columns else iter(())
    lines = [json.dumps(dict(zip(table.column_names, row, strict=True)), ensure_ascii=False) for row in rows]
    return "[" + ",".join(f"\n  {line}" for line in lines) + "\n]\n" if lines else "[]\n"


def _plain(value: object) -> Any:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        value = int(value) if value.as_tuple().exponent == 0 else float(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(answer: Result) -> str:
    """Returns the answer as it prints itself, without notes and charge; what is not printable is escaped."""
    shown = answer.to_text() + "\n"
    return "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in shown)


def _wide_table(answer: Result) -> str:
    from dpquery.result.interval_columns import with_intervals

    table = with_intervals(answer)
    columns = [column.slice(0, MOST_ROWS).to_pylist() for column in table.columns]
    right = [all(value is None or isinstance(value, int | float | Decimal) for value in column) for column in columns]
    rows = [[number(value) for value in row] for row in zip(*columns, strict=True)]
    more = [f"... {len(table) - MOST_ROWS:,} more rows"] if len(table) > MOST_ROWS else []
    return "\n".join([*grid(table.column_names, rows, right), *more]) + "\n"


def show_charge(answer: Result, session: Session, options: Options, *, say: Callable[[str], None] = say) -> None:
    """Says what is known of rows that are left out, what an answer cost, and what is left."""
    for note in answer.notes:
        say(f"[{note}]")
    level = f"{answer.level}; " if len(answer.accuracy.columns) else ""
    place = f" to {answer.blocks}" if answer.blocks else ""
    paid = as_asked(answer.charge, session.catalog.defaults, options.epsilon, options.rho or options.error)
    charged = f"charged {paid}{place}" if answer.charge.epsilon or answer.charge.rho else "nothing was charged"
    say(f"[{level}{charged}; left for {session.analyst}: {session.remaining}]")


def prices_text(plan: Plan, session: Session) -> str:
    """Returns what losses and errors would cost: for each column how far it may be off, of a quantile in ranks."""
    from dpquery.kernel.accountant import BudgetKind

    prices = plan.prices
    rows = [
        [str(asked), *("" if math.isnan(found) else f"{found:,.4g}" for found in row)]
        for asked, row in zip(prices.index, prices.to_numpy().tolist(), strict=True)
    ]
    if not rows:
        return "none: a query in steps has no table of prices\n"
    currency = "epsilon" if session.catalog.budget.kind is BudgetKind.PURE else "rho"
    names = [f"charge ({currency})" if name == "charge" else str(name) for name in prices.columns]
    return "\n".join(grid(["", *names], rows, [False] + [True] * len(names))) + "\n"


def show_prospect(plan: Plan, session: Session, *, say: Callable[[str], None] = say) -> None:
    """Says how far a query would be off, what it would leave, and how often it could be asked."""
    for line in expected_lines(plan):
        say(f"[{line}]")
    left, times = session.remaining_for(plan), times_of(plan, session)
    often = "" if times is None else f"; enough for {such(times)}"
    say(f"[nothing was charged; left for {session.analyst}: {left}{often}]")


def times_of(plan: Plan, session: Session) -> int | None:
    """Returns how often a query could be asked with what is left, if each time costs as much; None if it is free."""
    left, charge = session.remaining_for(plan), plan.charge
    pairs = ((charge.epsilon, left.epsilon), (charge.delta, left.delta), (charge.rho, left.rho))
    return min((rest // cost for cost, rest in pairs if cost), default=None)


def such(times: int) -> str:
    """Returns so many such queries, in words."""
    return "no such query" if times == 0 else f"{times:,} such {'query' if times == 1 else 'queries'}"


@contextlib.contextmanager
def left_if_interrupted(session: Session) -> Iterator[None]:
    """Says what is left if the query that runs meanwhile is interrupted: it may have been charged."""
    try:
        yield
    except BaseException:
        if is_cancelled():
            say(f"[interrupted; the charge is kept; left for {session.analyst}: {session.remaining}]")
        raise
