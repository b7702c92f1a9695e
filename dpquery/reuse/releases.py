"""One released table as it is kept: noisy numbers and how they came to be, never anything exact."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import WEIGHT, Count, Key, Lattice, Measure, Mechanism, PrivateAggregate, Weighing
from dpquery.kernel.quantiles import families, places_of
from dpquery.kernel.sensitivity import COARSEST_TERM
from dpquery.plan.expr import Column
from dpquery.plan.show import names_of, show
from dpquery.plan.types import Value
from dpquery.planner.protect.grouping_sets import DeclaredGrouping
from dpquery.reuse.frames import Equation, KeyText, MeasurementFrame, RowWeighing
from dpquery.reuse.text import text_of, value_of

Rows = tuple[tuple[Value, ...], ...]
"""Values of the columns of a key, by group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedMeasure:
    """The noisy numbers of one measure: its text, its noise, what it cost, and a number for each group."""

    measure: str
    noise: NoiseLaw
    loss: PrivacyLoss
    numbers: NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the catalog said of the groups when they were measured; it decides whether they add up.

    Attributes:
        catalog: The fingerprint of what the catalog says of the tables; the facts hold for no other.
        covering: For each key whether its public values cover every row.
        one_group: Whether each privacy unit has one group.
    """

    catalog: str
    covering: tuple[bool, ...]
    one_group: bool

    @staticmethod
    def of(grouping: DeclaredGrouping, catalog: str) -> Facts:
        """Returns what the catalog of this fingerprint says."""
        return Facts(catalog=catalog, covering=grouping.covering, one_group=grouping.one_group)


CONTRACT = 2
"""What numbers mean: rows weigh what they do on their table. Under the first, contributions were bounded by query."""


class OtherContract(Exception):
    """A release under another contract: a number of something else than the same words mean now."""


Family = tuple[tuple[int, Fraction], ...]
"""Quantiles that were chosen together: the place of each, and its target, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRelease:
    """A released table.

    Attributes:
        entry: The number of the ledger's entry that it was charged with.
        analyst, time: For whom, and when.
        frame: What was measured.
        facts: What the catalog said of it.
        names: What its keys and its measures are, for people.
        groups: For each key the shown values of its columns, where groups were selected; else None: all are there.
        tau, delta: From which noisy number of units on groups were shown, and what it cost; None where all are public.
        parts: The measures.
        equations: What binds its measures to each other and to further ones.
        families: The quantiles that were chosen together, by their places among the parts, with their targets. A part
            of one was paid for, and is exact, with all of them alone.
    """

    entry: int
    analyst: str
    time: str
    frame: MeasurementFrame
    facts: Facts
    names: tuple[tuple[str, ...], tuple[str, ...]]
    groups: tuple[Rows, ...] | None
    tau: int | None
    delta: Fraction
    parts: tuple[ReleasedMeasure, ...]
    families: tuple[Family, ...] = ()
    equations: tuple[Equation, ...] = ()

    def of(self, measures: Sequence[str]) -> tuple[ReleasedMeasure, ...] | None:
        """Returns the parts of these measures, given by their texts, or None if one is not there."""
        known = {part.measure: part for part in self.parts}
        return tuple(known[text] for text in measures) if known.keys() >= set(measures) else None

    def chosen_with(self, part: ReleasedMeasure) -> tuple[tuple[Fraction, ReleasedMeasure], ...]:
        """Returns the targets and parts of the quantiles that were chosen together with this one; () if none were."""
        for family in self.families:
            if any(self.parts[place].measure == part.measure for place, _ in family):
                return tuple((target, self.parts[place]) for place, target in family)
        return ()


def to_text(release: StoredRelease) -> str:
    """Returns all of a release but its entry, analyst and time."""
    frame, facts = release.frame, release.facts
    content = {
        "contract": CONTRACT,
        "base": frame.base,
        "conditions": frame.conditions,
        "keys": [[key.columns, key.domain] for key in frame.keys],
        "weights": _weights(frame.weights),
        "facts": [facts.catalog, facts.covering, facts.one_group],
        "names": release.names,
        "groups": None
        if release.groups is None
        else [[list(map(text_of, values)) for values in key] for key in release.groups],
        "selection": [release.tau, str(release.delta)],
        "parts": [_part(part) for part in release.parts],
    }
    if release.families:
        content["families"] = [[[place, str(target)] for place, target in family] for family in release.families]
    if release.equations:
        texts = sorted({text for equation in release.equations for text, _ in equation})
        places = {text: place for place, text in enumerate(texts)}
        content["bound"] = texts
        content["equations"] = [[[places[text], str(by)] for text, by in one] for one in release.equations]
    return json.dumps(content, separators=(",", ":"))


def from_text(text: str, *, entry: int, analyst: str, time: str) -> StoredRelease:
    """Returns the release that `to_text` wrote.

    Raises:
        OtherContract: It was released under another contract.
        ValueError, LookupError, TypeError, ArithmeticError: It is no such text.
    """
    content = json.loads(text)
    if content.get("contract") != CONTRACT:
        raise OtherContract
    keys = tuple(
        KeyText(columns=tuple(columns), domain=None if domain is None else tuple(map(tuple, domain)))
        for columns, domain in content["keys"]
    )
    frame = MeasurementFrame(
        base=content["base"],
        conditions=tuple(content["conditions"]),
        keys=keys,
        weights=_read_weights(content["weights"]),
    )
    catalog, covering, one_group = content["facts"]
    groups, (tau, delta) = content["groups"], content["selection"]
    shown = None if groups is None else tuple(tuple(tuple(map(value_of, values)) for values in key) for key in groups)
    release = StoredRelease(
        entry=entry,
        analyst=analyst,
        time=time,
        frame=frame,
        facts=Facts(catalog=catalog, covering=tuple(covering), one_group=one_group),
        names=_names(content["names"]),
        groups=shown,
        tau=tau,
        delta=Fraction(delta),
        parts=tuple(_read_part(part) for part in content["parts"]),
        families=tuple(tuple((p, Fraction(t)) for p, t in family) for family in content.get("families", ())),
        equations=_read_equations(content.get("bound", ()), content.get("equations", ())),
    )
    _check(release)
    return release


def _names(content: list[list[str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    keys, measures = content
    if not all(isinstance(name, str) for name in (*keys, *measures)):
        raise ValueError("names that are no texts")
    return tuple(keys), tuple(measures)


def _weights(weights: RowWeighing) -> list[Any]:
    return [weights.weighing.value, weights.max_rows, weights.column, weights.max_groups]


def _read_weights(content: list[Any]) -> RowWeighing:
    weighing, max_rows, column, max_groups = content
    limits = [max_rows] if max_groups is None else [max_rows, max_groups]
    if not all(type(limit) is int and limit >= 1 for limit in limits):
        raise ValueError("limits on rows and groups are whole numbers from 1")
    if not isinstance(column, str) if weighing == Weighing.STORED.value else column is not None:
        raise ValueError("stored weights have a column, and others none")
    return RowWeighing(weighing=Weighing(weighing), max_rows=max_rows, column=column, max_groups=max_groups)


def _read_equations(texts: Sequence[str], equations: Sequence[Any]) -> tuple[Equation, ...]:
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("measures that are no texts")
    return tuple(tuple((texts[place], Fraction(by)) for place, by in equation) for equation in equations)


def _check(release: StoredRelease) -> None:
    frame = release.frame
    expected = int(np.prod(frame.shape, dtype=object)) if release.groups is None else len((*release.groups, ())[0])
    if frame.is_selected is (release.groups is None) or (release.tau is None) is frame.is_selected:
        raise ValueError("a release of other groups than its keys have")
    if release.groups is not None and {len(key) for key in release.groups} != {expected}:
        raise ValueError("keys of different lengths")
    if len(release.facts.covering) != len(frame.keys) or not release.parts:
        raise ValueError("a release without parts, or with other keys")
    if any(part.numbers.shape != (expected,) for part in release.parts):
        raise ValueError("other numbers than groups")
    _check_families(release)


def _check_families(release: StoredRelease) -> None:
    """Refuses quantiles that the kernel would not choose together so: what they lost could not be counted."""
    places = [place for family in release.families for place, _ in family]
    if len(set(places)) < len(places) or not all(type(p) is int and 0 <= p < len(release.parts) for p in places):
        raise ValueError("quantiles that are not there, or twice")
    dividing = {part.measure for part in release.parts if part.noise.divider is not None}
    expected = set()
    for family in release.families:
        targets = [target for _, target in family]
        chosen = [_quantile(target) for target in targets]
        if len(set(targets)) < len(targets) or families(chosen) != [tuple(range(len(chosen)))]:
            raise ValueError("quantiles that are not chosen together")
        parts = [release.parts[place] for place, _ in family]
        if any(part.noise.is_added for part in parts) or len({part.loss.rho > 0 for part in parts}) > 1:
            raise ValueError("quantiles that are not paid for together")
        expected |= {part.measure for part, place in zip(parts, places_of(chosen), strict=True) if place.divides}
    if dividing != expected:
        raise ValueError("values are divided at other choices")


def _quantile(target: Fraction) -> Measure:
    lattice = Lattice(grid=Fraction(1), lower=0, upper=0)
    return Measure(id=str(target), label="", count=Count.QUANTILE, value="", lattice=lattice, target=target)


def _part(part: ReleasedMeasure) -> list[Any]:
    loss, noise = part.loss, part.noise
    lost = [str(loss.epsilon), str(loss.delta), str(loss.rho)]
    divider = [] if noise.divider is None else [str(noise.divider)]
    drawn = [noise.mechanism.value, str(noise.parameter), _whole_or_text(noise.steps), *divider]
    return [part.measure, drawn, lost, _numbers(part.numbers)]


def _whole_or_text(steps: int | Fraction) -> int | str:
    return steps if isinstance(steps, int) else str(steps)


def _read_part(content: list[Any]) -> ReleasedMeasure:
    measure, noise, (epsilon, delta, rho), numbers = content
    if not isinstance(measure, str):
        raise ValueError("no measure")
    return ReleasedMeasure(
        measure=measure,
        noise=_read_noise(*noise),
        loss=PrivacyLoss(epsilon=Fraction(epsilon), delta=Fraction(delta), rho=Fraction(rho)),
        numbers=_read_numbers(numbers),
    )


def _read_noise(mechanism: str, parameter: str, steps: int | str, divider: str | None = None) -> NoiseLaw:
    noise = NoiseLaw(
        mechanism=Mechanism(mechanism),
        parameter=Fraction(parameter),
        divider=None if divider is None else Fraction(divider),
        steps=Fraction(steps) if isinstance(steps, str) else steps,
    )
    if noise.parameter <= 0 or (noise.divider is not None and noise.divider <= 0):
        raise ValueError("no noise")
    several = 1 / Fraction(noise.steps)
    is_finer = type(steps) is int and 1 <= steps <= WEIGHT
    is_coarser = isinstance(steps, str) and several.denominator == 1 < several <= COARSEST_TERM
    if not (is_finer or is_coarser) or not (noise.is_added or steps == 1):
        raise ValueError("a lattice step is not divided so")
    return noise


def _numbers(numbers: NDArray[Any]) -> str | list[int]:
    """Returns integers of 64 bits as their bytes, others as they are written."""
    if numbers.dtype == np.int64:
        return base64.b64encode(numbers.astype("<i8").tobytes()).decode()
    return [int(number) for number in numbers]


def _read_numbers(content: str | list[int]) -> NDArray[Any]:
    if isinstance(content, str):
        return np.frombuffer(base64.b64decode(content, validate=True), dtype="<i8").astype(np.int64)
    if not all(type(number) is int for number in content):
        raise ValueError("no integers")
    return np.array(content, dtype=object)


def labels_of(aggregate: PrivateAggregate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns what the keys and the measures are, for people."""
    names = names_of(aggregate.source)
    columns = (column for key in aggregate.keys for column in zip(key.columns, key.types, strict=True))
    keys = (show(Column(id=id, type=type), names) for id, type in columns)
    return tuple(keys), tuple(measure.label for measure in aggregate.measures)


def values_of(key: Key, column: NDArray[Any]) -> Rows:
    """Returns the values of a key, of which a released table holds themselves, or their places in the domain."""
    found = column.tolist()
    return tuple((value,) for value in found) if key.domain is None else tuple(key.domain[code] for code in found)


def column_of(key: Key, values: Rows) -> NDArray[Any]:
    """Returns the values of a key as a released table holds them: themselves, or their places in its domain."""
    if key.domain is not None:
        places = {each: place for place, each in enumerate(key.domain)}
        return np.array([places[each] for each in values], dtype=np.int64)
    found = np.empty(len(values), dtype=object)
    found[:] = [value for (value,) in values]
    return found
