"""The synopses that a session knows: bought, listed, dropped, and read by SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from dpquery.catalog import Catalog
from dpquery.catalog.min_units import least_units
from dpquery.catalog.names import SYNOPSES, name_fault, shown, suggestion
from dpquery.errors import CatalogError, ParameterError, UnknownNameError, UnsupportedQueryError
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.reuse.store import ReleaseStore
from dpquery.reuse.text import Fingerprints
from dpquery.session import pipeline
from dpquery.session.answering import Remarks
from dpquery.session.options import Request
from dpquery.session.planning import PreparedQuery
from dpquery.session.synopsis_buying import Buying
from dpquery.sql.parse.parse import Named, parse, tables_named
from dpquery.synopsis import stored_synopses
from dpquery.synopsis.reading import SynopsisEngine, engine_over, with_synopses
from dpquery.synopsis.sums import with_intervals
from dpquery.synopsis.synopsis import Synopsis, SynopsisPlan


@dataclass(eq=False, repr=False)
class Synopses(Mapping[str, Synopsis]):
    """The synopses of the data and the catalog as they are, by name.

    Attributes:
        buying: Of what they are bought.
        store: Where they are; None where nothing is stored, so that there are none.
        only_own: Whether only those that this analyst bought are there.
    """

    buying: Buying
    store: ReleaseStore | None
    fingerprints: Fingerprints
    only_own: bool
    _known: tuple[object, dict[str, Synopsis], Catalog] | None = field(default=None, init=False)
    _engine: tuple[object, SynopsisEngine] | None = field(default=None, init=False)

    def __getitem__(self, name: str) -> Synopsis:
        found = self._read()[0]
        if name not in found:
            raise UnknownNameError(f"there is no synopsis {shown(name)} of these data; {suggestion(name, found)}")
        return found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._read()[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read()[0])

    def __len__(self) -> int:
        return len(self._read()[0])

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.values())) or "no synopsis of these data"

    def plan(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        if_rows: int,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        measures: Sequence[str] = (),
    ) -> SynopsisPlan:
        """Returns what a synopsis would measure, and how exactly if the table had so many rows; free."""
        return self.buying.plan(table, columns, measures, QueryBudget.of(epsilon, delta, rho), if_rows)

    def buy(
        self,
        table: str,
        columns: Sequence[str] | None,
        measures: Sequence[str],
        offer: QueryBudget,
        *,
        name: str | None,
        rows: int | None,
    ) -> Synopsis:
        """Returns a new synopsis, charged once and stored."""
        store, called = self._store(), table if name is None else name
        fault = name_fault(called)
        if fault is not None:
            raise ParameterError(fault)
        if called in self or f"{SYNOPSES}.{called}" in self.buying.catalog.tables:
            raise ParameterError(
                f"there is a synopsis {shown(called)} already", advice="Give it another name, or drop the other one."
            )
        made = self.buying.buy(called, table, columns, measures, offer, rows)
        stored_synopses.keep(store, made, self.fingerprints.of_tables(frozenset([table])))
        self._known = None
        return made

    def drop(self, name: str) -> None:
        """Removes a synopsis; what it cost stays charged."""
        found = stored_synopses.drop(self._store(), self.buying.charged.data_version, name)
        self._known = None
        if not found:
            raise UnknownNameError(f"there is no synopsis {shown(name)} of these data")

    @property
    def declared(self) -> Catalog:
        """The catalog with synopses as public tables."""
        return self._read()[1]

    def engine(self) -> SynopsisEngine:
        """Returns the engine that holds synopses and public tables, and nothing private."""
        synopses, declared = self._read()
        if self._engine is None or self._engine[0] is not declared:
            self.close()
            made = engine_over(self.buying.catalog, declared, synopses, self.buying.backend)
            self._engine = declared, made
        return self._engine[1]

    def reads(self, requests: Sequence[Request]) -> bool:
        """Whether queries read synopses.

        Raises:
            UnsupportedQueryError: They read private tables too.
        """
        if SYNOPSES not in "\n".join([str(request.text).casefold() for request in requests]):
            return False
        named = [one for request in requests for one in _named(request)]
        if not any(one.schema == SYNOPSES for one in named):
            return False
        catalog = self.buying.catalog
        others = [catalog.find_table(one.name, one.quoted) for one in named if one.schema != SYNOPSES]
        private = [one.name for one in others if one is not None and not one.public]
        if private:
            raise UnsupportedQueryError(
                f"a synopsis is not read together with private tables, such as {shown(private[0])}",
                advice="Ask two queries; a synopsis can be joined with public tables and with itself.",
            )
        return True

    def planned(self, requests: Sequence[Request]) -> tuple[PreparedQuery, ...]:
        """Returns the plans of queries over synopses and public tables: nothing is measured for them."""
        public = {name: table for name, table in self.declared.tables.items() if table.public}
        catalog, engine = self.declared.with_tables(public), self.engine()
        return pipeline.plan(requests, catalog=catalog, ledger=self.buying.ledger, public=engine, gaps=engine.gaps)

    def told(self, requests: Sequence[Request]) -> list[Remarks]:
        """Returns what the answers to queries over synopses say."""
        names = [{one.name.casefold() for one in _named(request)} for request in requests]
        notes = {name.casefold(): one.note for name, one in self.items()}
        known = partial(with_intervals, synopses=self._read()[0])
        told = [tuple(note for name, note in notes.items() if name in said) for said in names]
        return [Remarks(notes=one, intervals=known) for one in told]

    def close(self) -> None:
        """Ends the engine of synopses."""
        if self._engine is not None:
            self._engine[1].close()
            self._engine = None

    def _store(self) -> ReleaseStore:
        if self.store is None:
            raise CatalogError("a synopsis is stored with answers; open the session without reuse=False")
        return self.store

    def _read(self) -> tuple[dict[str, Synopsis], Catalog]:
        catalog, version = self.buying.catalog, self.buying.charged.data_version
        if self.store is None:
            return {}, catalog
        state = self.store.state()
        if self._known is None or self._known[0] != state:
            found = stored_synopses.read(self.store, version, self._is_current, self.buying.axes)
            mine = {n: one for n, one in found.items() if not self.only_own or one.analyst == self.buying.analyst}
            self._known = state, mine, with_synopses(catalog, mine)
        return self._known[1], self._known[2]

    def _is_current(self, table: str, fingerprint: str) -> bool:
        declared = self.buying.catalog.tables.get(table)
        is_there = declared is not None and least_units(declared, self.buying.catalog) is None
        return is_there and self.fingerprints.of_tables(frozenset([table])) == fingerprint


def _named(request: Request) -> list[Named]:
    return tables_named(parse(request.text, request.dialect, request.params))
