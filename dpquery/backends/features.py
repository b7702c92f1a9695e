"""What a plan asks of a backend, as a closed set of features, so that a backend can say which of them it lacks.

A backend that lacks a feature refuses every plan that has it, in `prepare`, before the charge: `require` does that. The
conformance suite (`tests/backends/conformance`) holds it to both: what it says it lacks it refuses, the rest is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Literal, assert_never

from dpquery.catalog import Catalog
from dpquery.errors import UnsupportedQueryError
from dpquery.kernel.plan import Count, PrivateAggregate, Weighing
from dpquery.plan.expr import Column
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    output,
    sources,
)
from dpquery.plan.types import Kind


class Feature(Enum):
    """What one plan may ask for beyond another; the words stand in refusals."""

    UNITS = "counts of units"
    ROWS = "counts of rows"
    VALUES = "counts of values"
    SUM = "sums"
    SQUARES = "sums of squares"
    DISTINCT = "counts of different values"
    QUANTILE = "histograms of numbers, for quantiles, MIN and MAX"
    MODE = "histograms of given values, for MODE"
    FILTERED = "aggregates with a FILTER"
    TOTALS = "sums within a max_total"
    PUBLIC_KEYS = "groups by public keys"
    KEYS_TOGETHER = "public keys of several columns together"
    SELECTED_KEYS = "groups that are selected"
    DECIDING = "groups that are selected in rounds"
    STORED_WEIGHTS = "weights fixed on the table"
    STRATA = "weights bounded in strata"
    COUNTED_WEIGHTS = "weights counted in the query"
    DIVIDED_UNITS = "units that count for less in each of many groups"
    ROW_UNITS = "rows as privacy units"
    OWNERS_BY_KEY = "tables owned through a foreign key"
    BLOCKS = "tables with blocks"
    FILTERS = "filters of rows"
    EXPRESSIONS = "computed columns"  # what only renames columns is owed by all
    JOINS = "joins"
    PER_UNIT = "aggregates of each unit's rows"
    WINDOWS = "window functions"
    SET_OPERATIONS = "UNION, INTERSECT and EXCEPT"
    OTHER_RELATIONS = "ORDER BY, LIMIT and lists of values below an aggregate"
    BOOLEAN = "columns of booleans"
    INT64 = "columns of integers"
    FLOAT64 = "columns of floats"
    DECIMAL = "columns of decimals"
    TEXT = "columns of text"
    DATE = "columns of dates"
    TIMESTAMP = "columns of timestamps"


@dataclass(frozen=True, slots=True)
class Gap:
    """What a backend lacks, and whether that may change.

    Attributes:
        word: "notimpl" if it may come, "never" if it cannot.
        reason: Why it cannot; for what may come, what is missing, or "".
    """

    word: Literal["notimpl", "never"]
    reason: str = ""

    def __post_init__(self) -> None:
        if self.word not in ("notimpl", "never") or (self.word == "never" and not self.reason):
            raise ValueError("a gap is notimpl, or never and has a reason")


Gaps = Mapping[Feature, Gap]
NO_GAPS: Gaps = MappingProxyType({})


def require(aggregate: PrivateAggregate, catalog: Catalog, gaps: Gaps) -> None:
    """Raises UnsupportedQueryError where a plan has a feature that a backend lacks; for its `prepare`."""
    for feature in Feature:
        if feature in gaps and feature in features_of(aggregate, catalog):
            reason = gaps[feature].reason
            raise UnsupportedQueryError(
                f"the catalog's backend does not compute {feature.value}{f': {reason}' if reason else ''}",
                advice="The data owner may choose another backend; nothing was charged.",
            )


def features_of(aggregate: PrivateAggregate, catalog: Catalog) -> frozenset[Feature]:
    """Returns all that a plan asks for."""
    return frozenset((*_of_aggregate(aggregate), *_of_relation(aggregate.source, catalog)))


def _of_aggregate(aggregate: PrivateAggregate) -> Iterator[Feature]:
    for measure in aggregate.measures:
        match measure.count:
            case Count.UNITS:
                yield Feature.UNITS
                if aggregate.divides_units:
                    yield Feature.DIVIDED_UNITS
            case Count.DECIDING:
                yield Feature.DECIDING
            case Count.ROWS:
                yield Feature.ROWS
            case Count.VALUES:
                yield Feature.VALUES
            case Count.SUM:
                yield Feature.SUM
                if measure.lattice is not None and measure.lattice.squared:
                    yield Feature.SQUARES
            case Count.DISTINCT:
                yield Feature.DISTINCT
            case Count.QUANTILE:
                yield Feature.QUANTILE
            case Count.MODE:
                yield Feature.MODE
            case _:
                assert_never(measure.count)
        if measure.filter is not None:
            yield Feature.FILTERED
        if measure.total is not None:
            yield Feature.TOTALS
    for key in aggregate.keys:
        yield Feature.SELECTED_KEYS if key.domain is None else Feature.PUBLIC_KEYS
        if len(key.columns) > 1:
            yield Feature.KEYS_TOGETHER
    if aggregate.unit is None:
        yield Feature.ROW_UNITS
    match aggregate.weights.weighing:
        case Weighing.STORED:
            yield Feature.STORED_WEIGHTS
        case Weighing.COUNTED:
            yield Feature.COUNTED_WEIGHTS
        case Weighing.WHOLE:
            pass
        case _:
            assert_never(aggregate.weights.weighing)


def _of_relation(relation: Relation, catalog: Catalog) -> Iterator[Feature]:
    match relation:
        case Scan():
            yield from _of_scan(relation, catalog)
        case Filter():
            yield Feature.FILTERS
        case Project():
            if any(not isinstance(computed.expression, Column) for computed in relation.columns):
                yield Feature.EXPRESSIONS
        case Join():
            yield Feature.JOINS
        case Aggregate():
            yield Feature.PER_UNIT
        case Window():
            yield Feature.WINDOWS
        case SetOperation():
            yield Feature.SET_OPERATIONS
        case Sort() | Limit() | Values() | Released():
            yield Feature.OTHER_RELATIONS
        case _:
            assert_never(relation)
    yield from (OF_KIND[column.type.kind] for column in output(relation))
    for source in sources(relation):
        yield from _of_relation(source, catalog)


def _of_scan(scan: Scan, catalog: Catalog) -> Iterator[Feature]:
    table = catalog.tables[scan.table]
    if scan.weight is not None:
        yield Feature.STORED_WEIGHTS
    if scan.strata is not None:
        yield Feature.STRATA
    if scan.scaled:
        yield Feature.TOTALS
    if scan.ownership is not None and scan.ownership.path:
        yield Feature.OWNERS_BY_KEY
    if table.blocks is not None:
        yield Feature.BLOCKS


OF_KIND = {kind: Feature[kind.name] for kind in Kind if kind is not Kind.INTERVAL} | {Kind.INTERVAL: Feature.INT64}
"""The feature of each type: a type without one does not import."""
