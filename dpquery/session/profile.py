"""Profile: what was bought about the rows and values of a dataset's tables, for people and programs."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery.catalog.names import plain, shown
from dpquery.errors import ParameterError, UnknownNameError
from dpquery.kernel.loss import PrivacyLoss, parse_amount
from dpquery.session.profile_ladder import GROUPS, TOO_FEW, IntervalEstimate, Ladder, Loss, check_groups

SHARE = Fraction(1, 10)
"""Of the dataset's budget, what a usual query loses where the catalog does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """What is known of one table.

    Attributes:
        name: The table's.
        max_rows: Its declared bound; None where it is to be measured.
        rows: Units by their number of rows; None where each has one row, or rows have no owner.
        months: Units by the number of months with rows, as (words, number of units); () where rows have no date.
        outside: For each bounded number, the units whose values are within, below, above, both, or unreadable.
        epsilon, rho: What a usual query loses, one of them: by the catalog's defaults, or else a tenth of the budget.
        is_assumed: Whether it is that tenth.
        per_block: The length of a block, where rows are those of a unit's fullest block; else "".
    """

    name: str
    max_rows: int | None
    rows: Ladder | None
    months: tuple[tuple[str, IntervalEstimate], ...] = ()
    outside: Mapping[str, Mapping[str, IntervalEstimate]] = field(default_factory=dict)
    epsilon: Fraction | None = None
    rho: Fraction | None = None
    is_assumed: bool = False
    per_block: str = ""

    @property
    def ladder(self) -> Ladder:
        """Units by their number of rows; raises ParameterError where a unit has one row, or there are none."""
        if self.rows is None:
            raise ParameterError(
                f"no profile tells of the rows of {shown(self.name)}: a unit has one there at most, or max_rows is per "
                "stratum"
            )
        return self.rows

    @property
    def estimated_units(self) -> IntervalEstimate:
        """How many units have rows in the table."""
        return self.ladder.estimated_units

    @property
    def bound(self) -> int | None:
        """The declared bound; the suggested one where it is `auto`; None where too few units are seen for that."""
        if self.max_rows is not None or self.rows is None or not self.rows.steps:
            return self.max_rows
        return self.suggest_max_rows()

    def units_above(self, max_rows: int) -> IntervalEstimate:
        """Returns how many units have more rows than a bound, and so weigh less than all their rows."""
        return self.ladder.units_above(max_rows)

    def loss(self, max_rows: int | None = None) -> Loss:
        """Returns the share of the table's rows that weights leave out, by default at the declared bound."""
        rows = max_rows if max_rows is not None else self.bound
        if rows is None:
            raise ParameterError(TOO_FEW, advice="Buy one with more epsilon, or write a number.")
        return self.ladder.loss(rows)

    def suggest_max_rows(self, *, groups: int = GROUPS, epsilon: object = None, rho: object = None) -> int:
        """Returns the bound that leaves about K sqrt(2) / epsilon units above it, or K / sqrt(2 rho): there, what
        noise adds to K groups and what weights leave out of them weigh the same.

        Args:
            groups: K, the groups of the table's usual queries.
            epsilon, rho: What these lose; by default what the catalog says, or else a tenth of the budget.
        Raises:
            ParameterError: The profile shows too few units.
        """
        if epsilon is not None and rho is not None:
            raise ParameterError("give either epsilon or rho, not both")
        if epsilon is None and rho is None:
            return self.ladder.suggest_max_rows(
                groups=groups, epsilon=None if self.rho is not None else self.epsilon, rho=self.rho
            )
        read = [None if x is None else parse_amount(x, name=n) for n, x in (("epsilon", epsilon), ("rho", rho))]
        return self.ladder.suggest_max_rows(groups=groups, epsilon=read[0], rho=read[1])

    @property
    def rule(self) -> str:
        """What K sqrt(2) / epsilon says at the usual loss, for people; "" where nothing can be said."""
        return self._rule(GROUPS)

    def _rule(self, groups: int) -> str:
        if self.rows is None or not self.rows.steps or (self.epsilon is None and self.rho is None):
            return ""
        price = f"rho {float(self.rho):g}" if self.rho is not None else f"epsilon {float(self.epsilon or 0):g}"
        price += ", a tenth of the budget" if self.is_assumed else ""
        return f"max_rows {self.suggest_max_rows(groups=groups):,} suits queries of {groups:,} groups at {price}"

    @property
    def sentence(self) -> str:
        """What is known of the rows that weights leave out at the declared bound, on one line for people."""
        each, bound = f" (rows of a unit's fullest {self.per_block})" if self.per_block else "", self.bound
        if bound is None:
            return f"{plain(self.name)}, max_rows auto: {TOO_FEW}; more epsilon shows more of them"
        auto = "" if self.max_rows is not None else " (auto)"
        return f"{plain(self.name)}, max_rows {bound:,}{auto}{each}: {self.ladder.sentence(bound)}"

    @property
    def said(self) -> tuple[str, ...]:
        """What is known of rows and of values that bounds leave out, a line each for people."""
        rows = [] if self.rows is None else [self.sentence]
        return (*rows, *(values_sentence(self.name, column, units) for column, units in self.outside.items()))

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_text(self, *, groups: int = GROUPS) -> str:
        """Returns all of it for people, with the bound that suits queries of so many groups."""
        check_groups(groups)
        return "\n".join(self._lines(groups))

    def _lines(self, groups: int) -> Iterator[str]:
        yield f"Table {plain(self.name)}"
        if self.rows is not None:
            yield from self._of_rows(self.rows, groups)
        if self.months:
            yield from _aligned("months with rows", self.months)
        for column, units in self.outside.items():
            yield f"  units by values of {plain(column)}: {_values(units)}"

    def _of_rows(self, ladder: Ladder, groups: int) -> Iterator[str]:
        half = ladder.noise.half_width(1)
        cells = [(cell.name, _shown(cell.units, half)) for cell in ladder.steps]
        yield from _aligned(f"rows in the fullest {self.per_block}" if self.per_block else "rows", cells)
        if cells and ladder.beyond:
            yield f"    above {ladder.top:,}: fewer than {ladder.beyond:,} units, with any number of rows"
        yield f"  {self.sentence.partition(', ')[2]}"
        if rule := self._rule(groups):
            yield f"  {rule}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Mapping[str, TableProfile]):
    """How rows and values of the dataset's units lie against the declared bounds, with noise; for one data version.

    Attributes:
        tables: What is known of each table, by name.
        missing: Tables that could not be profiled, each with the reason.
        charge: What the ledger counted; nothing where all was stored already.
        data_version: Of the data it is about.
    """

    tables: Mapping[str, TableProfile]
    missing: Mapping[str, str]
    charge: PrivacyLoss
    data_version: str

    def __getitem__(self, table: str) -> TableProfile:
        if table not in self.tables:
            raise UnknownNameError(f"{shown(table)} is not in this profile")
        return self.tables[table]

    def __contains__(self, table: object) -> bool:
        return table in self.tables

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, groups: int = GROUPS) -> str:
        """Returns all of it for people, with the bounds that suit queries of so many groups."""
        parts = [table.to_text(groups=groups) for table in self.tables.values()]
        parts += [f"Table {plain(name)}: no profile. {reason}" for name, reason in self.missing.items()]
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _shown(units: int, half: int) -> IntervalEstimate:
    return IntervalEstimate(value=max(0, units), lower=max(0, units) - half, upper=max(0, units) + half)


_BEYOND = {
    "below": "below its bounds",
    "above": "above its bounds",
    "both": "on both sides of them",
    "unreadable": "that cannot be read",
}


def is_beyond(units: Mapping[str, IntervalEstimate]) -> bool:
    """Whether some unit's values are seen to be clamped or unreadable."""
    return any(units[kind].lower > 0 for kind in _BEYOND if kind in units)


def values_sentence(table: str, column: str, units: Mapping[str, IntervalEstimate]) -> str:
    """Returns what is known of values that bounds clamp, or that cannot be read, on one line for people."""
    found = {kind: units[kind] for kind in _BEYOND if kind in units}
    seen = [f"{number} units have values {_BEYOND[kind]}" for kind, number in found.items() if number.lower > 0]
    unseen = [kind for kind, number in found.items() if number.lower <= 0]
    most = max((found[kind].upper for kind in unseen), default=0)
    rest = [f"{', '.join(unseen)}: at most {most:,.0f} units"] if unseen else []
    return f"{plain(table)}.{plain(column)}: {'; '.join([*seen, *rest])}"


def _values(units: Mapping[str, IntervalEstimate]) -> str:
    """Returns the numbers that are seen, and how large the others may be."""
    seen = [f"{name} {number}" for name, number in units.items() if number.lower > 0]
    unseen = [name for name, number in units.items() if number.lower <= 0]
    most = max((units[name].upper for name in unseen), default=0)
    told = [", ".join(seen)] if seen else []
    return "; ".join([*told, *([f"{', '.join(unseen)}: at most {most:,.0f}"] if unseen else [])])


def _aligned(title: str, cells: Sequence[tuple[str, IntervalEstimate]]) -> Iterator[str]:
    yield f"  units by {title}" + ("" if cells else ": too few for the noise")
    width = max((len(name) for name, _ in cells), default=0)
    numbers = [f"{number.value:,.0f}" for _, number in cells]
    digits = max(map(len, numbers), default=0)
    for (name, number), value in zip(cells, numbers, strict=True):
        yield f"    {name:>{width}}  {value:>{digits}} ± {round(number.upper - number.value):,}"
