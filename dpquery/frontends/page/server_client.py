"""One analyst's connection to the server, and what it says: prices, answers, budgets, declarations, history.

What is typed is sent as it is, as one statement: the server decides, charges and refuses as for every client.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import psycopg
from psycopg import sql

from dpquery.frontends.text import epsilon_of
from dpquery.result.cell_texts import shown

SHOWN = 200  # rows of an answer, and entries of the history
_LOSSES = ("epsilon", "rho")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where the server is."""

    host: str
    port: int
    database: str
    ca: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What libpq is told: other machines must show a certificate that is theirs."""
        if self.host in ("127.0.0.1", "localhost", "::1"):
            mode: dict[str, Any] = {"sslmode": "prefer"}
        else:
            mode = {"sslmode": "verify-full", "sslrootcert": self.ca or "system"}
        return {"host": self.host, "port": self.port, "dbname": self.database, "connect_timeout": 10, **mode}


class ServerRefusal(Exception):
    """What the server refuses, for the analyst: its message, its advice, and where in the text it is (from 0)."""

    def __init__(self, error: psycopg.Error) -> None:
        said = error.diag
        self.message = said.message_primary or "the server did not answer"
        self.hint = said.message_hint or ""
        self.position = int(said.statement_position) - 1 if said.statement_position else None
        self.is_lost = isinstance(error, psycopg.OperationalError) and said.sqlstate is None
        super().__init__(self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerColumn:
    """A column of an answer: its name, its values as shown, and for noisy numbers what a chart draws."""

    name: str
    cells: tuple[str, ...]
    values: tuple[Any, ...]
    lows: tuple[float, ...] | None = None
    highs: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The columns of an answer, and the server's notices: what was charged, what is left out."""

    columns: tuple[AnswerColumn, ...]
    notices: tuple[str, ...]
    is_cut: bool


class Asker:
    """An analyst's connection; used by one request at a time.

    Raises:
        Refused: The password is wrong, or the server refuses a statement.
    """

    def __init__(self, place: ServerAddress, user: str, password: str) -> None:
        self._lock, self._notices = threading.Lock(), list[str]()
        try:
            self._connection = psycopg.connect(user=user, password=password, autocommit=True, **place.options)
        except psycopg.Error as error:
            raise ServerRefusal(error) from None
        self._connection.add_notice_handler(lambda said: self._notices.append(said.message_primary or ""))
        try:
            self._connection.execute("SET dpquery.intervals = on")
        except psycopg.Error as error:
            self._connection.close()
            raise ServerRefusal(error) from None

    def price(self, text: str, loss: tuple[str, str] | None) -> tuple[str, ...]:
        """Returns what a query would measure and cost, line by line; free."""
        rows, _ = self._run(sql.SQL("EXPLAIN {}").format(sql.SQL(text)), loss)
        return tuple(str(row[0]) for row in rows)

    def ask(self, text: str, loss: tuple[str, str] | None) -> Answer:
        """Returns the answer to a query, which is charged to the analyst."""
        rows, names = self._run(sql.SQL(text), loss)
        return Answer(columns=_columns(names, rows[:SHOWN]), notices=tuple(self._notices), is_cut=len(rows) > SHOWN)

    def budget(self) -> list[dict[str, Any]]:
        """Returns what may be spent, was spent, and is left, in each currency; of rho also the epsilon that follows."""
        rows = self._table("SELECT currency, budget, spent, remaining FROM dp.budget")
        delta = next((Fraction(row["budget"]) for row in rows if row["currency"] == "delta"), Fraction(0))
        for row in (row for row in rows if row["currency"] == "rho"):
            row["epsilon"] = {part: epsilon_of(Fraction(row[part]), delta) for part in ("budget", "remaining")}
        return rows

    def declared(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the columns of each table."""
        found: dict[str, list[dict[str, Any]]] = {}
        for row in self._table("SELECT table_name, column_name, type, lower, upper, public_keys FROM dp.columns"):
            found.setdefault(str(row["table_name"]), []).append(row)
        return found

    def history(self) -> list[dict[str, Any]]:
        """Returns the analyst's last releases, newest first."""
        return self._table(f"SELECT * FROM dp.releases ORDER BY number DESC LIMIT {SHOWN}")

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _table(self, text: str) -> list[dict[str, Any]]:
        rows, names = self._run(sql.SQL(text), None)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _run(self, statement: sql.SQL | sql.Composed, loss: tuple[str, str] | None) -> tuple[list[Any], list[str]]:
        """Runs one statement, at a loss that holds for it alone. Binary results mean the protocol of one statement."""
        with self._lock:
            self._notices.clear()
            try:
                for name in _LOSSES:
                    self._connection.execute(f"RESET dpquery.{name}".encode())
                if loss is not None:
                    setting = sql.SQL("SET dpquery.{} = {}").format(sql.SQL(loss[0]), sql.Literal(loss[1]))
                    self._connection.execute(setting)
                cursor = self._connection.execute(statement, binary=True)
                rows = cursor.fetchmany(SHOWN + 1) if cursor.description else []
                return rows, [column.name for column in cursor.description or ()]
            except psycopg.Error as error:
                raise ServerRefusal(error) from None


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[AnswerColumn, ...]:
    """Returns the columns, each noisy one with the two beside it that say its interval."""
    by_column = [tuple(row[i] for row in rows) for i in range(len(names))]
    found, place = list[AnswerColumn](), 0
    while place < len(names):
        name, values = names[place], by_column[place]
        if _are_its_ends(name, names[place + 1 : place + 3]):
            lows, highs = (tuple(_number(v) for v in by_column[place + i]) for i in (1, 2))
            pairs = [shown(value, low, high) for value, low, high in zip(values, lows, highs, strict=True)]
            cells = tuple(f"{text} {interval}".strip() for text, interval in pairs)
            found.append(AnswerColumn(name=name, cells=cells, values=values, lows=lows, highs=highs))
            place += 3
        else:
            cells = tuple("NULL" if value is None else str(value) for value in values)
            found.append(AnswerColumn(name=name, cells=cells, values=values))
            place += 1
    return tuple(found)


def _are_its_ends(name: str, ends: Sequence[str]) -> bool:
    """Whether these are the ends of a column's interval; where a name was taken already, a number follows it."""
    suffixes = zip(ends, ("low", "high"), strict=False)
    return len(ends) == 2 and all(re.fullmatch(rf"{re.escape(name)}_{end}(_\d+)?", found) for found, end in suffixes)


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
