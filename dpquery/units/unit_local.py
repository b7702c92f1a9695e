"""What the rules of locality say of a relation, and how they refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpquery.errors import InternalError
from dpquery.plan.expr import Call, Column, Expression, children
from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.logical import Relation, output


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
class Locality:
    """What is known of a relation.

    Attributes:
        private: Whether it reads private rows. If not, nothing in it needs protection.
        units: Ids of the columns that hold, on every row, the privacy unit that the row belongs to. Empty for public
            relations, and where the unit is the row (then each row stems from exactly one private row, and from each
            private row stems at most one).
        partial: Ids of the columns that hold, on every row, either that privacy unit or NULL: those of a side that an
            outer join fills up.
    """

    private: bool
    units: frozenset[str] = frozenset()
    partial: frozenset[str] = frozenset()

    @property
    def telling(self) -> frozenset[str]:
        """Ids of the columns that, where they are not NULL, hold the privacy unit of their row."""
        return self.units | self.partial


PUBLIC = Locality(private=False)


def check_expressions(expressions: Iterable[Expression], *given: Relation) -> None:
    """Every column must come from the given relations, of the type that it has there, and every function must be one
    that is known to be row-local."""
    types = {column.id: column.type for relation in given for column in output(relation)}
    pending = list(expressions)
    while pending:
        expression = pending.pop()
        if isinstance(expression, Column) and types.get(expression.id) != expression.type:
            raise NotUnitLocal(f"column {expression.id} of type {expression.type} is not given by the source")
        if isinstance(expression, Call) and expression.function not in FUNCTIONS:
            raise NotUnitLocal(f"function {expression.function} is not known")
        pending.extend(children(expression))
