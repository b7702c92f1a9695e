"""One table's declaration, read by itself; what it says of other tables is settled in `ownership.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

from dpquery.catalog.blocks import Blocks, read_blocks
from dpquery.catalog.column_fields import read_length, read_total, read_zone, require_short
from dpquery.catalog.names import fold, name_fault, shown, suggestion
from dpquery.catalog.rows import RowsToMeasure
from dpquery.catalog.strata import read_bounds
from dpquery.catalog.tables import MOST_CATEGORIES, MOST_EPSILON, ColumnDeclaration, Randomized, Table
from dpquery.catalog.tree import Node, TreeReading, Word
from dpquery.catalog.values import parse_type, parse_value
from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import parse_amount
from dpquery.plan.logical import Ownership
from dpquery.plan.ranges import number_of
from dpquery.plan.strata import Strata
from dpquery.plan.types import INT64, Kind, Type, Value

COLUMN_FIELDS = (
    *("lower", "upper", "max_total", "nullable", "keys", "keys_from", "randomized", "max_length", "zone"),
    "description",
)
TABLE_FIELDS = ("public", "unit", "unique", "max_rows", "max_groups", "row_limit", "min_units", "blocks", "description")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDraft:
    """A table of which all is read but its ties to other tables. A column whose declaration is broken is None."""

    node: Node
    name: str
    public: bool
    unit: Node | None
    unique: tuple[frozenset[str], ...]
    max_rows: int | RowsToMeasure | None
    strata: Strata | None
    max_groups: int | None
    row_limit: int | None
    min_units: int | None
    columns: Mapping[str, ColumnDeclaration | None]
    keys_from: Mapping[str, Node]
    description: str
    blocks: Blocks | None
    blocks_node: Node | None

    def table(self, ownership: Ownership | None, keys_from: Mapping[str, tuple[str, str]]) -> Table:
        """Returns the table; only for drafts without mistakes."""
        read = {name: column for name, column in self.columns.items() if column is not None}
        columns = {name: replace(column, keys_from=keys_from.get(name)) for name, column in read.items()}
        return Table(
            name=self.name,
            public=self.public,
            ownership=ownership,
            unique=self.unique,
            max_rows=self.max_rows,
            strata=self.strata,
            max_groups=self.max_groups,
            row_limit=self.row_limit,
            min_units=self.min_units,
            columns=MappingProxyType(columns),
            description=self.description,
            blocks=self.blocks,
        )


def distinct_names(entries: Mapping[str, Node], reading: TreeReading) -> dict[str, Node]:
    """Returns the entries whose names are allowed and differ from each other in more than case."""
    accepted: dict[str, Node] = {}
    folded: dict[str, str] = {}
    for name, node in entries.items():
        if fault := name_fault(name):
            reading.refuse(node, fault)
        elif (other := folded.setdefault(fold(name), name)) != name:
            reading.refuse(node, f"is ambiguous with {shown(other)}: names must differ in more than case")
        else:
            accepted[name] = node
    return accepted


def read_table(name: str, node: Node, reading: TreeReading, zone: str = "") -> TableDraft:
    """Returns what is declared of a table.

    Args:
        zone: Of the dates and timestamps that say none.
    """
    fields = reading.fields(node, required=("columns",), optional=TABLE_FIELDS)
    columns: dict[str, ColumnDeclaration | None] = {}
    keys_from: dict[str, Node] = {}
    if "columns" in fields:
        declared = reading.mapping(fields["columns"])
        if fields["columns"].content == {}:
            reading.refuse(fields["columns"], "declare at least one column")
        for column, inner in distinct_names(declared, reading).items():
            columns[column] = _read_column(column, inner, reading, keys_from, zone)
    public = bool("public" in fields and reading.flag(fields["public"]))
    counts = {f: reading.count(fields[f]) for f in ("max_groups", "row_limit", "min_units") if f in fields}
    rows, strata = (
        read_bounds(fields["max_rows"], columns, keys_from, reading) if "max_rows" in fields else (None, None)
    )
    if public:
        for field in ("max_rows", "max_groups", "row_limit"):
            if field in fields:
                reading.refuse(
                    fields[field], f"{field} bounds the contribution of a privacy unit; a public table has none"
                )
        for said in columns.values():
            if said is not None and said.randomized is not None:
                reading.refuse(node, f"{shown(said.name)} is randomized, which is only possible in private tables")
    unique = _read_unique(fields["unique"], columns, reading) if "unique" in fields else ()
    return TableDraft(
        node=node,
        name=name,
        public=public,
        unit=fields.get("unit"),
        unique=unique,
        columns=columns,
        max_rows=rows,
        strata=strata,
        max_groups=counts.get("max_groups"),
        row_limit=counts.get("row_limit"),
        min_units=counts.get("min_units"),
        keys_from=keys_from,
        description=_read_description(fields, reading),
        blocks=read_blocks(fields["blocks"], columns, public, reading) if "blocks" in fields else None,
        blocks_node=fields.get("blocks"),
    )


def _read_unique(node: Node, columns: Mapping[str, object], reading: TreeReading) -> tuple[frozenset[str], ...]:
    sets: list[frozenset[str]] = []
    for item in reading.items(node) or ():
        if isinstance(item.content, Word | str):
            reading.refuse(item, "expected a list of columns; write unique: [[a], [b, c]] to declare two lists")
            continue
        names = [reading.text(n) for n in reading.items(item) or ()]
        for part, name in zip(reading.items(item) or (), names, strict=True):
            if name is not None and name not in columns:
                reading.refuse(part, f"{shown(name)} is not a declared column; {suggestion(name, columns)}")
        given = frozenset(name for name in names if name is not None)
        if item.content == ():
            reading.refuse(item, "name at least one column")
        elif len(given) < len([n for n in names if n is not None]) or given in sets:
            reading.refuse(item, "is said twice")
        sets.append(given)
    return tuple(sets)


def _read_description(fields: Mapping[str, Node], reading: TreeReading) -> str:
    return (reading.text(fields["description"]) or "") if "description" in fields else ""


def _read_column(
    name: str, node: Node, reading: TreeReading, keys_from: dict[str, Node], zone: str
) -> ColumnDeclaration | None:
    """Returns a column without its `keys_from`, which is put aside; None if it is broken."""
    before = len(reading.problems)
    fields = reading.fields(node, required=("type",), optional=COLUMN_FIELDS)
    nullable = bool("nullable" in fields and reading.flag(fields["nullable"]))
    description = _read_description(fields, reading)
    type = _read_type(fields["type"], reading) if "type" in fields else None
    if "keys_from" in fields:
        keys_from[name] = fields["keys_from"]
        if "keys" in fields:
            reading.refuse(fields["keys_from"], "cannot be combined with keys; keep one of them")
    if type is None:
        return None
    lower, upper = _read_bounds(node, fields, type, reading)
    places = _read_keys(fields["keys"], type, nullable, reading) if "keys" in fields else {}
    _require_inside(places, lower, upper, reading)
    max_length = read_length(fields, type, reading)
    require_short(places, max_length, reading)
    keys = tuple(places) if "keys" in fields else None
    if lower is None and type == INT64:
        numbers = [key for key in places if key is not None]
        lower, upper = min(numbers, default=None), max(numbers, default=None)
    randomized = _read_randomized(fields, type, reading) if "randomized" in fields else None
    total = read_total(fields, type, lower, upper, reading)
    if randomized is not None:
        keys = randomized.categories
        if type.kind not in (Kind.TEXT, Kind.BOOLEAN):
            lower, upper = min(keys), max(keys)  # type: ignore[type-var]
    if len(reading.problems) > before:
        lower, upper, keys, randomized = None, None, None, None  # the type alone is of use from here on
    return ColumnDeclaration(
        name=name,
        type=type,
        lower=lower,
        upper=upper,
        nullable=nullable,
        keys=keys,
        description=description,
        randomized=randomized,
        max_length=max_length,
        zone=read_zone(fields, type, reading, zone),
        max_total=total,
    )


def _read_type(node: Node, reading: TreeReading) -> Type | None:
    text = reading.text(node)
    if text is None:
        return None
    try:
        return parse_type(text)
    except ValueError as error:
        reading.refuse(node, str(error))
        return None


def _read_value(node: Node, type: Type, reading: TreeReading) -> Value:
    """Returns a value that is not NULL, or None after noting a mistake."""
    content = node.content
    if isinstance(content, tuple | Mapping):
        reading.refuse(node, f"expected one value of type {type}")
    elif not reading.is_broken(node):
        try:
            return parse_value(content, type)  # type: ignore[arg-type]
        except ValueError as error:
            reading.refuse(node, str(error))
    return None


def _read_bounds(node: Node, fields: Mapping[str, Node], type: Type, reading: TreeReading) -> tuple[Value, Value]:
    given = [f for f in ("lower", "upper") if f in fields]
    if given and type.kind in (Kind.TEXT, Kind.BOOLEAN):
        reading.refuse(fields[given[0]], f"a column of type {type} has no bounds")
        return None, None
    values = {f: _read_value(fields[f], type, reading) for f in given}
    if len(given) == 1 and not _says_both(node):
        reading.refuse(fields[given[0]], "declare both lower and upper, or neither")
    lower, upper = values.get("lower"), values.get("upper")
    low, high = number_of(lower), number_of(upper)
    if low is not None and high is not None and low > high:
        reading.refuse(fields["lower"], "the lower bound exceeds the upper bound")
        return None, None
    return lower, upper


def _says_both(node: Node) -> bool:
    return isinstance(node.content, Mapping) and "lower" in node.content and "upper" in node.content


def _read_keys(node: Node, type: Type, nullable: bool, reading: TreeReading) -> dict[Value, Node]:
    """Returns the keys in order, each with its place."""
    items = reading.items(node)
    if items == ():
        reading.refuse(node, "list at least one key, or leave keys out")
    first: dict[Value, Node] = {}
    for item in items or ():
        if item.is_null and not nullable:
            reading.refuse(item, "null can only be a key of a nullable column; in quotes it is the text 'null'")
        value = None if item.is_null else _read_value(item, type, reading)
        if (item.is_null or value is not None) and first.setdefault(value, item) is not item:
            reading.refuse(item, f"is the same key as {first[value].path.rpartition('.')[2]}")
    return first


def _read_randomized(fields: Mapping[str, Node], type: Type, reading: TreeReading) -> Randomized | None:
    """Returns how a column's values were reported; its categories stand for keys and bounds."""
    before = len(reading.problems)
    for other in ("keys", "keys_from", "lower", "upper", "max_total", "nullable"):
        if other in fields:
            reading.refuse(
                fields[other], "cannot be combined with randomized, whose categories already list all possible reports"
            )
    inner = reading.fields(fields["randomized"], required=("epsilon", "categories"))
    epsilon = Fraction(1)
    if "epsilon" in inner:
        content = inner["epsilon"].content
        try:
            epsilon = parse_amount(content.text if isinstance(content, Word) else content, name="epsilon")
        except InvalidLossError as error:
            reading.refuse(inner["epsilon"], error.reason)
        if epsilon > MOST_EPSILON:
            reading.refuse(inner["epsilon"], f"an epsilon above {MOST_EPSILON} hides nothing")
    categories = _read_keys(inner["categories"], type, False, reading) if "categories" in inner else {}
    if "categories" in inner and not 2 <= len(categories) <= MOST_CATEGORIES:
        reading.refuse(inner["categories"], f"list from 2 to {MOST_CATEGORIES} categories")
    if len(reading.problems) > before:
        return None
    return Randomized(epsilon=epsilon, categories=tuple(categories))


def _require_inside(keys: Mapping[Value, Node], lower: Value, upper: Value, reading: TreeReading) -> None:
    low, high = number_of(lower), number_of(upper)
    for key, item in keys.items():
        number = number_of(key)
        if number is not None and low is not None and high is not None and not low <= number <= high:
            reading.refuse(item, "the key is outside the bounds of its column")
