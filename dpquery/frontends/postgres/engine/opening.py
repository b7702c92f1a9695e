"""The real engine, opened in its own process from words that the command line gave."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from dpquery.backends.base import Backend
from dpquery.backends.opening import open_backend
from dpquery.backends.resources import Resources
from dpquery.catalog import Catalog
from dpquery.frontends.postgres.engine.engine import Engine
from dpquery.frontends.postgres.engine.settings import Caps
from dpquery.kernel.loss import parse_amount
from dpquery.ledger.ledger import Ledger
from dpquery.session.preparing import sources_of
from dpquery.session.session import Session

FACTORY = f"{__name__}:open_engine"


@contextlib.contextmanager
def open_engine(arguments: dict[str, Any]) -> Iterator[tuple[Engine, dict[str, Any]]]:
    """Gives the engine over a catalog, its data and its ledger; see `worker.Factory`.

    Args:
        arguments: The paths `catalog`, `sources` by table or of a prepared folder, `ledger`; `row_level`;
            `most_epsilon`, or None; `memory_limit` and `spill` as for `dpquery.connect`.

    Raises:
        DPQueryError: Mistakes in the catalog, tables without data, a ledger that is missing or another's.
    """
    catalog = Catalog.load(arguments["catalog"])
    ledger = Ledger.open(arguments["ledger"])
    resources = Resources(arguments["memory_limit"], arguments["spill"])
    with contextlib.ExitStack() as ending:
        ending.callback(ledger.close)
        version, current = ledger.data_version, list[Backend]()
        ending.callback(lambda: current[0].close() if current else None)

        def open_data() -> Backend:
            sources = sources_of(catalog, arguments["sources"], ledger)
            current[:] = [open_backend(catalog, sources, resources=resources)]
            return current[0]

        backend = open_data()
        someone = next(iter(catalog.analysts), "analyst")
        Session(catalog, backend=backend, ledger=ledger, analyst=someone)  # whether they belong together
        most = arguments["most_epsilon"]
        caps = Caps(epsilon=None if most is None else parse_amount(most, name="--most-epsilon"))
        engine = Engine(
            catalog,
            backend=backend,
            ledger=ledger,
            caps=caps,
            row_level=arguments["row_level"],
            data_version=version,
            reopen=open_data,
        )
        yield engine, {"dataset": catalog.dataset}
