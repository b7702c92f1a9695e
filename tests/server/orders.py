"""The study that the tests of the server ask about: that of the case files, with analysts."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.frontends.postgres.engine.engine import StatementEngine
from dpquery.frontends.postgres.engine.settings import Caps
from dpquery.frontends.postgres.wire.answers import StatementAnswer, StatementRequest
from dpquery.ledger.ledger import Ledger
from tests.cases import catalogs

ANALYSTS = "analysts: {alice: {epsilon: 500000}, bob: {epsilon: 2}}\n"
tables = functools.partial(catalogs.tables_of, "orders")


@functools.cache
def catalog() -> dp.Catalog:
    """Returns the declarations."""
    return dp.Catalog.from_yaml((catalogs.HERE / "orders.yaml").read_text(encoding="utf-8") + ANALYSTS)


class Study:
    """A server's engine over a new ledger."""

    def __init__(
        self, declared: dp.Catalog | None = None, *, row_level: str = "error", caps: Caps | None = None
    ) -> None:
        declared = declared or catalog()
        self.folder = tempfile.TemporaryDirectory(prefix="dpquery-server-")
        self.ledger: Ledger = dp.create_ledger(declared, Path(self.folder.name) / "shop.ledger")
        backend = DuckDBBackend(declared, tables())
        self.engine = StatementEngine(declared, backend=backend, ledger=self.ledger, row_level=row_level, caps=caps)

    def answer(
        self, text: str, *parameters: object, analyst: str = "alice", settings: Mapping[str, str] | None = None
    ) -> StatementAnswer:
        """Returns the answer to a statement."""
        return self.engine.answer(
            StatementRequest(text=text, parameters=parameters, analyst=analyst, settings=settings or {})
        )

    def rows(self, text: str, *parameters: object) -> list[tuple[object, ...]]:
        """Returns the rows of an answer."""
        columns = [column.to_pylist() for column in self.answer(text, *parameters).table.columns]
        return list(zip(*columns, strict=True))

    def close(self) -> None:
        """Closes the ledger, and removes it."""
        self.ledger.close()
        self.folder.cleanup()

    @property
    def entries(self) -> int:
        """How many entries the ledger has."""
        return len(self.ledger.entries())
