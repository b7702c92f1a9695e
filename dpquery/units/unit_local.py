"""What the rules of locality say of a relation, and how they refuse: docs/proofs/unit-local.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpquery.errors import InternalError
from dpquery.plan.expr import Call, Case, Column, Expression, Literal, children
from dpquery.plan.functions import FUNCTIONS, SignatureError
from dpquery.plan.logical import Project, Relation, output
from dpquery.plan.types import Type


class NotUnitLocal(InternalError):
    """A relation that no rule covers.

    Attributes:
        reason: What is refused and why.
        advice: What to write instead.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


@dataclass(frozen=True, slots=True)
class StoredRow:
    """Columns of a relation that hold, on each of its rows, what one row of a stored table holds.

    Attributes:
        table: The stored table.
        columns: (name in the table, type, id in the relation); one name may have several ids.
    """

    table: str
    columns: frozenset[tuple[str, Type, str]]

    @property
    def names(self) -> frozenset[str]:
        """The columns of the stored table that are held."""
        return frozenset(name for name, _, _ in self.columns)

    def under(self, project: Project) -> StoredRow:
        """Returns what a projection keeps of it unchanged."""
        read = [(c.id, c.expression.id) for c in project.columns if isinstance(c.expression, Column)]
        kept = ((name, type, new) for name, type, id in self.columns for new, old in read if old == id)
        return StoredRow(self.table, frozenset(kept))

    def is_named(self, known: Iterable[StoredRow], equal: set[tuple[str, str]]) -> bool:
        """Whether its whole key is equated with the key of one of the known rows of its table.

        Args:
            equal: Pairs of ids of columns that are equal, a known row's before its own.
        """
        for row in known:
            pairs = [(own, held) for own in self.columns for held in row.columns if own[:2] == held[:2]]
            met = {own[0] for own, held in pairs if (held[2], own[2]) in equal}
            if row.table == self.table and met == self.names:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Locality:
    """What is known of a relation.

    Attributes:
        private: Whether it reads private rows. If not, nothing in it needs protection.
        units: Ids of the columns that hold, on every row, the privacy unit that the row belongs to. Empty for public
            relations, and where the unit is the row (then each row stems from exactly one private row, and from each
            private row stems at most one).
        partial: Ids of the columns that hold, on every row, either that privacy unit or NULL: those of a side that an
            outer join fills up.
        rows: Stored rows, as far as foreign keys lead to them, that belong on each row to the unit of that row.
        owner: Where no column tells the unit, the stored row, named by a foreign key, whose unit it is; else None.
    """

    private: bool
    units: frozenset[str] = frozenset()
    partial: frozenset[str] = frozenset()
    rows: frozenset[StoredRow] = frozenset()
    owner: StoredRow | None = None

    @property
    def telling(self) -> frozenset[str]:
        """Ids of the columns that, where they are not NULL, hold the privacy unit of their row."""
        return self.units | self.partial


PUBLIC = Locality(private=False)


def check_expressions(expressions: Iterable[Expression], *given: Relation) -> None:
    """Every column must come from the given relations, of the type that it has there, and every function must be one
    that is known to be row-local and returns what the expression says: bounds rest on types."""
    types = {column.id: column.type for relation in given for column in output(relation)}
    pending = list(expressions)
    while pending:
        expression = pending.pop()
        if isinstance(expression, Column) and types.get(expression.id) != expression.type:
            raise NotUnitLocal(f"column {expression.id} of type {expression.type} is not given by the source")
        if isinstance(expression, Call):
            _check_call(expression)
        if isinstance(expression, Case):
            made = {result.type for _, result in expression.branches} | {expression.otherwise.type}
            if made != {expression.type}:
                raise NotUnitLocal(f"a CASE of type {expression.type} has branches of other types")
        pending.extend(() if isinstance(expression, Column | Literal) else children(expression))


def _check_call(call: Call) -> None:
    """Raises NotUnitLocal unless the function takes arguments of these kinds and returns the kind that is said: of a
    decimal the digits may be others, as a fitted argument has more of them than the one that was written."""
    if (function := FUNCTIONS.get(call.function)) is None:
        raise NotUnitLocal(f"function {call.function} is not known")
    types = tuple(argument.type for argument in call.arguments)
    try:
        found = function.resolve(types, call.arguments)
    except SignatureError:  # about a constant: the types of what it returns do not depend on it
        return
    if found is None or [t.kind for t in (*found[0], found[1])] != [t.kind for t in (*types, call.type)]:
        raise NotUnitLocal(f"function {call.function} does not return {call.type} of these arguments")
