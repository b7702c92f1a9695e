"""Sums over places of one line that are asked together: which conditions and keys of a plan lie on which value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.accountant import BudgetKind
from dpquery.kernel.plan import Measure, Noise, Weighing
from dpquery.plan.expr import Expression
from dpquery.reuse.block_sums import Floats
from dpquery.reuse.cells import Row
from dpquery.reuse.coordinates import is_of_vector, without_filter
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.frames import KeyText, narrowing_of
from dpquery.reuse.lines import Line, begins_of, behind, changes
from dpquery.reuse.text import expression_of, text_of


@dataclass(frozen=True, slots=True, eq=False)
class LineSum:
    """One measure of a query, as sums over a line.

    Attributes:
        rows: What tells sums of the same rows and law of noise: all but keys and conditions.
        one, place: The aggregate, and the place of the measure in it.
        conditions: What its rows fulfil.
    """

    rows: tuple[object, ...]
    one: Wanted
    place: int
    conditions: Row

    @property
    def measure(self) -> Measure:
        """What is summed."""
        return self.one.budgeted.aggregate.measures[self.place]

    @property
    def noise(self) -> Noise:
        """What it is planned to be measured with."""
        return self.one.budgeted.noise[self.place]

    @property
    def variance(self) -> float:
        """That of its noise, in squared steps."""
        return variance_of(self.one.noises[self.place])

    @property
    def keys(self) -> tuple[KeyText, ...]:
        """Its groups."""
        return () if self.one.asked is None else self.one.asked.frame.keys

    def lies_on(self, value: Expression) -> tuple[list[KeyText], Row]:
        """Returns its keys and conditions that tell intervals of a value."""
        keys = [key for key in self.keys if behind(key.columns) == value and _begins(key, value) is not None]
        return keys, tuple(text for text in self.conditions if behind((text,)) == value and _changes(text, value))


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Sums of the same rows over one line, with the same further keys and conditions.

    Attributes:
        possible: In which places rows may be, as far as the public values of keys tell.
    """

    line: Line
    possible: tuple[bool, ...]
    sums: tuple[LineSum, ...]
    conditions: tuple[Row, ...]
    keys: tuple[tuple[KeyText, ...], ...]


def families(wanted: Sequence[Wanted], kind: BudgetKind, kept: frozenset[str] = frozenset()) -> list[Family]:
    """Returns the families of at least two sums, but for those of the ids `kept`, of which some tell intervals of one
    value."""
    sums = [one for one in _sums(wanted, kind) if one.measure.id not in kept]
    told: dict[tuple[object, ...], Counter[Expression]] = {}
    for one in sums:
        values = {behind(key.columns) for key in one.keys} | {behind((text,)) for text in one.conditions}
        counted = told.setdefault(one.rows, Counter())
        counted.update(v for v in values if v is not None and any(one.lies_on(v)))
    alike: dict[tuple[Any, Expression, Any, Any], list[tuple[LineSum, list[KeyText], Row]]] = {}
    for one in sums:
        for value, _ in told[one.rows].most_common():
            keys, conditions = one.lies_on(value)
            further = tuple(key for key in one.keys if key not in keys)
            name = one.rows, value, frozenset(one.conditions) - {*conditions}, further
            if keys or conditions or name in alike:
                alike.setdefault(name, []).append((one, keys, conditions))
                break
    made = [_family(value, some) for (_, value, _, _), some in alike.items()]
    return [family for family in made if family is not None]


def _sums(wanted: Sequence[Wanted], kind: BudgetKind) -> list[LineSum]:
    found = []
    for one in wanted:
        asked = one.asked
        if asked is None or asked.frame.weights.weighing is Weighing.COUNTED:
            continue
        for place, measure in enumerate(one.budgeted.aggregate.measures):
            noise, text = one.budgeted.noise[place], asked.measures[place]
            adds_up = bool(noise.loss.rho) or kind is BudgetKind.PURE  # in the currency of the ledger
            if is_of_vector(asked.frame, text) and measure.family is None and adds_up:
                bare, kept = without_filter(text)
                rows = asked.frame.base, asked.frame.weights.of_rows, one.facts.catalog, bare, noise.mechanism
                found.append(LineSum(rows, one, place, tuple(dict.fromkeys((*asked.frame.conditions, *kept)))))
    return found


def _begins(key: KeyText, value: Expression) -> frozenset[object] | None:
    return begins_of(key.columns, key.domain or (), value)


def _changes(condition: str, value: Expression) -> frozenset[object]:
    return changes(expression_of(condition), value) or frozenset()


def _family(value: Expression, some: Sequence[tuple[LineSum, list[KeyText], Row]]) -> Family | None:
    cuts = {end for _, keys, _ in some for key in keys for end in _begins(key, value) or ()}
    cuts |= {end for _, _, conditions in some for text in conditions for end in _changes(text, value)}
    different = {(tuple(keys), conditions) for _, keys, conditions in some}
    if len(different) < 2 or not cuts:
        return None
    line = Line(value, tuple(sorted(cuts)))
    possible = np.ones(len(cuts) + 2, dtype=np.bool_)
    for one, keys, _ in some:
        for key, covers in zip(one.keys, one.one.facts.covering, strict=True):
            if key in keys and covers and one.one.asked and not narrowing_of(one.one.asked.frame, key):
                possible &= _groups(line, key).any(axis=0)
    return Family(
        line=line,
        possible=tuple(possible.tolist()),
        sums=tuple(one for one, _, _ in some),
        conditions=tuple(conditions for _, _, conditions in some),
        keys=tuple(tuple(keys) for _, keys, _ in some),
    )


def places_of(family: Family) -> list[Floats]:
    """Returns for each sum which places of the line each of its groups adds up, shape (groups, places)."""
    made = []
    for keys, conditions in zip(family.keys, family.conditions, strict=True):
        rows = np.ones((1, len(family.line.begins) + 2), dtype=np.bool_)
        for text in conditions:
            rows &= np.array([value is True for value in family.line.values(text)])
        for key in keys:
            rows = (rows[:, None] & _groups(family.line, key)[None]).reshape(-1, rows.shape[1])
        made.append((rows & np.array(family.possible)).astype(np.float64))
    return made


def _groups(line: Line, key: KeyText) -> NDArray[np.bool_]:
    """Returns which places are in each group of a key, shape (groups, places)."""
    each = [map(text_of, line.values(text)) for text in key.columns]
    number = {values: i for i, values in enumerate(key.domain or ())}
    codes = np.array([number.get(values, -1) for values in zip(*each, strict=True)])
    groups: NDArray[np.bool_] = codes == np.arange(len(number))[:, None]
    return groups
