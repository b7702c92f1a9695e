"""Types of a statement's parameters, from what stands beside them: as the numbers that a caller has for types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpquery.sql.parse.lists import is_list_place
from dpquery.sql.parse.parameters import Placeholder, number_of
from dpquery.sql.statements.statement_trees import Tree

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.NullSafeEQ, exp.NullSafeNEQ)
_COMPUTED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Case)
_TEXTS = (exp.Lower, exp.Upper, exp.Substring, exp.Trim, exp.Concat, exp.DPipe, exp.Replace, exp.TimeToStr)
_TEXT_BESIDE = (exp.Like, exp.ILike, exp.RegexpLike, exp.DPipe, exp.Concat)
_MOMENTS = (exp.DateTrunc, exp.TimestampTrunc, exp.CurrentTimestamp, exp.StrToTime)
_LOGIC = (exp.And, exp.Or, exp.Not, exp.Where, exp.Having)
_SAME = (exp.Paren, exp.Neg, exp.Abs, exp.Min, exp.Max, exp.Sum, exp.Round)

_PLAIN = ("boolean", "smallint", "int", "bigint", "decimal", "text", "varchar", "name", "date", "time")
_WORDS = {exp.DataType.Type[word.upper()]: word for word in (*_PLAIN, "timestamp", "timestamptz", "uuid")}
_WORDS[exp.DataType.Type.FLOAT], _WORDS[exp.DataType.Type.DOUBLE] = "float4", "float8"
_WORDS[exp.DataType.Type.TIMESTAMPNTZ] = "timestamp"
"""By the parser's name of a type."""

_SYSTEM = frozenset(
    {
        *("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "varchar"),
        *("date", "time", "timestamp", "timestamptz", "uuid"),
    }
)
"""Types that may be written with their schema."""


ColumnType = Callable[[str, bool], int | None]
"""The number of a column's type, as far as its name tells, and whether the name is quoted."""


@dataclass(frozen=True, slots=True)
class TypeNumbers:
    """The numbers by which somebody knows types.

    Attributes:
        words: By the names that PostgreSQL has for types.
        arrays: Those of arrays, by those of their elements.
    """

    words: Mapping[str, int]
    arrays: Mapping[int, int]


def inferred(
    tree: Tree, placeholders: Sequence[Placeholder], numbers: TypeNumbers, column: ColumnType
) -> Iterator[tuple[int, int]]:
    """Yields the key of each numbered placeholder, and the number of the type that its place asks for, if known."""
    reading = _Reading(tree, numbers, column)
    for node in tree.find_all(exp.Column):
        place = number_of(node)
        key = None if place is None else placeholders[place].key
        number = reading.beside(node) if isinstance(key, int) else None
        if isinstance(key, int) and number is not None:
            yield key, number


@dataclass(frozen=True, slots=True)
class _Reading:
    """Types of expressions in one statement, as far as their form tells: as numbers."""

    tree: Tree
    numbers: TypeNumbers
    column: ColumnType

    def type(self, word: str) -> int:
        return self.numbers.words[word]

    def array(self, word: str) -> int:
        return self.numbers.arrays[self.type(word)]

    def beside(self, node: exp.Expr) -> int | None:
        """Returns the number that the place of a parameter asks for."""
        inside, around = node, node.parent
        while isinstance(around, exp.Paren | exp.Neg | exp.Tuple):
            inside, around = around, around.parent
        match around:
            case exp.Cast():
                return self._of_cast(around)
            case exp.Limit() | exp.Offset() | exp.Fetch():
                return self.type("int8")
            case exp.Any() | exp.All() | exp.Anonymous() if is_list_place(node) and isinstance(
                around.parent, exp.Binary
            ):
                return self.numbers.arrays.get(self._of(around.parent.this) or self.type("text"), self.array("text"))
            case None:
                return None
        if isinstance(around, _TEXT_BESIDE):
            return self.type("text")
        if isinstance(around, (*_COMPARED, *_COMPUTED)):
            others = [part for part in around.iter_expressions() if part is not inside]
            oid = next((oid for part in others if (oid := self._of(part)) is not None), None)
            is_moved = isinstance(around, exp.Add | exp.Sub) and oid in (self.type("date"), self.type("timestamp"))
            return self.type("int8") if is_moved else oid
        return self.type("bool") if isinstance(around, _LOGIC) else None

    def _of(self, node: exp.Expr, depth: int = 0) -> int | None:
        """Returns the number of an expression's type, as far as its form tells."""
        if depth > 20:
            return None
        match node:
            case exp.Column():
                if number_of(node) is not None:
                    return None
                return self.column(node.name, bool(node.this.args.get("quoted"))) or self._of_alias(node, depth)
            case exp.Cast():
                return self._of_type(node.args["to"])
            case exp.Literal():
                return (
                    self.type("text")
                    if node.is_string
                    else self.type("int8")
                    if node.name.isdigit()
                    else self.type("numeric")
                )
            case exp.Boolean():
                return self.type("bool")
            case exp.Count() | exp.CountIf() | exp.Extract() | exp.Length():
                return self.type("int8")
            case exp.Avg() | exp.Stddev() | exp.Variance():
                return self.type("float8")
            case exp.CurrentDate() | exp.StrToDate():
                return self.type("date")
            case exp.Case():
                return next((oid for part in node.args["ifs"] if (oid := self._of(part.args["true"], depth + 1))), None)
        if isinstance(node, _MOMENTS):
            return self.type("timestamp")
        if isinstance(node, _TEXTS):
            return self.type("text")
        if isinstance(node, (*_COMPUTED, *_SAME)):
            found = (self._of(part, depth + 1) for part in node.iter_expressions())
            return next((oid for oid in found if oid is not None), None)
        return None

    def _of_alias(self, node: exp.Column, depth: int) -> int | None:
        """Returns the number of what stands under a name that the query itself gives."""
        for alias in self.tree.find_all(exp.Alias):
            if alias.alias.casefold() == node.name.casefold():
                inner = alias.this
                if not (isinstance(inner, exp.Column) and inner.name.casefold() == node.name.casefold()):
                    return self._of(inner, depth + 1)
        return None

    def _of_cast(self, cast: exp.Cast) -> int | None:
        """Returns the number of what is cast; a list of OIDs is parsed as one of integers, what it is beside tells."""
        oid, around = self._of_type(cast.args["to"]), cast.parent
        while isinstance(around, exp.Paren | exp.Any | exp.All):
            around = around.parent
        if oid == self.array("int4") and isinstance(around, exp.Binary) and self._of(around.this) == self.type("oid"):
            return self.array("oid")
        return oid

    def _of_type(self, node: exp.Expr) -> int | None:
        if isinstance(node, exp.ObjectIdentifier):
            return self.type("oid") if node.name.upper() == "OID" else None
        kind = node.args.get("kind")
        if isinstance(kind, exp.Dot) and isinstance(kind.this, exp.Identifier) and kind.this.name == "pg_catalog":
            return self.numbers.words.get(kind.expression.name) if kind.expression.name in _SYSTEM else None
        if node.this is exp.DataType.Type.ARRAY:
            inner = node.expressions[0] if node.expressions else None
            element = self._of_type(inner) if isinstance(inner, exp.DataType) else None
            return self.numbers.arrays.get(element or self.type("text"))
        word = _WORDS.get(node.this)
        return None if word is None else self.type(word)
