"""Group keys for the axes of a picture: what they were computed from, and the values that a bin holds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpquery.kernel.plan import PrivateAggregate
from dpquery.plan.expr import Call, Cast, Column, Expression, Literal, columns_of, substitute
from dpquery.plan.logical import Filter, Project, Relation, column
from dpquery.plan.show import names_of, show


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """What a key stands for.

    Attributes:
        text: The expression that it is; "" where it is a column as it is stored.
        of: What lies in its bins; "" where the keys are no bins.
        start: Where the bin of a key begins, as a multiple of the key.
        width: Of a bin.
        truncates: Whether bins below 0 end where those above 0 begin, so that the one at 0 may hold negative values.
    """

    text: str
    of: str = ""
    start: Fraction = Fraction(1)
    width: Fraction = Fraction(0)
    truncates: bool = False

    def label(self, key: object) -> str | None:
        """Returns the values that the bin of a key holds, for people; None where it is not a bin.

        Example:
            >>> PlotAxis("FLOOR(x / 10)", "x", Fraction(10), Fraction(10)).label(3)
            '30 to <40'
        """
        if not self.of or isinstance(key, bool) or not isinstance(key, int | float | Decimal):
            return None
        first = float(key) * float(self.start)
        if self.truncates and first <= 0:
            return f"below {float(self.width):.9g}" if first == 0 else None
        return f"{first:.9g} to <{first + float(self.width):.9g}"


def axis_of(aggregate: PrivateAggregate, id: str) -> PlotAxis:
    """Returns what a key of a released table stands for."""
    relation = aggregate.source
    expression: Expression = column(relation, id)
    while isinstance(relation, Project | Filter) and isinstance(relation.source, Relation):
        if isinstance(relation, Project):
            own: dict[str, Expression] = {one.id: one.expression for one in relation.columns}
            if not any(read.id in own for read in columns_of(expression)):
                break
            expression = substitute(expression, own)
        relation = relation.source
    expression = _bare(expression)
    if isinstance(expression, Column):
        return PlotAxis("")
    names = names_of(relation)
    text = show(expression, names)
    found = _bin(expression)
    if found is None:
        return PlotAxis(text)
    inner, start, width, truncates = found
    return PlotAxis(text, show(inner, names), start, width, truncates)


def _bin(expression: Expression) -> tuple[Expression, Fraction, Fraction, bool] | None:
    """Returns what lies in a bin, how many times its key the bin begins at, its width, and whether it is cut towards 0;
    None for what is not a bin.

    Bins are FLOOR(x / k), whole numbers divided without their rest, and k times one of these.
    """
    if not isinstance(expression, Call):
        return None
    parts = [_bare(part) for part in expression.arguments]
    match expression.function, parts:
        case "floor", [Call(function="divide") as quotient]:
            width = _number(quotient.arguments[1])
            return None if width is None else (_bare(quotient.arguments[0]), width, width, False)
        case "floor", [inner]:
            return _bin(inner)
        case "int_divide", [inner, divisor]:
            width = _number(divisor)
            return None if width is None else (inner, width, width, True)
        case "multiply", [first, second]:
            for part, other in ((first, second), (second, first)):
                found, times = _bin(part), _number(other)
                if found is not None and times == found[2]:
                    return found[0], Fraction(1), found[2], found[3]
            return None
        case _:
            return None


def _number(expression: Expression) -> Fraction | None:
    """Returns a positive constant, behind casts."""
    bare = _bare(expression)
    value = bare.value if isinstance(bare, Literal) else None
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return Fraction(value) if is_number and value > 0 else None  # type: ignore[arg-type, operator]


def _bare(expression: Expression) -> Expression:
    while isinstance(expression, Cast):
        expression = expression.argument
    return expression
