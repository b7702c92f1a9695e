"""Statements over PostgreSQL's catalogs as statements of the engine that emulates them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dpquery.frontends.postgres.pg_catalog.contents import SETTINGS, VIRTUAL
from dpquery.frontends.postgres.pg_catalog.relations import ANALYST
from dpquery.frontends.postgres.pg_catalog.values import VALUE_CASTS, is_procedure, is_shown, name_columns, type_word
from dpquery.frontends.postgres.wire.answers import FORBIDDEN, NO_TABLE, UNSUPPORTED, Refusal

REGULAR = {
    "regclass": ("class_oid", "class_name"),
    "regtype": ("type_oid", "type_name"),
    "regproc": ("proc_oid", "proc_name"),
    "regprocedure": ("proc_oid", "proc_name"),
    "regnamespace": ("namespace_oid", "namespace_name"),
    "regrole": ("", ""),
}
_PLAIN_TYPES = {"oid": "UINTEGER", "xid": "UINTEGER", "cid": "UINTEGER", "int2vector": "SMALLINT[]"}
_ROLES = ("pg_roles", "pg_user", "pg_authid", "pg_shadow", "enabled_roles", "table_privileges", "role_table_grants")
_OPERATORS: dict[str, Callable[[exp.Expr, exp.Expr], exp.Expr]] = {
    "~": lambda a, b: exp.RegexpLike(this=a, expression=b),
    "!~": lambda a, b: exp.Not(this=exp.Paren(this=exp.RegexpLike(this=a, expression=b))),
    "~*": lambda a, b: exp.RegexpLike(this=exp.Lower(this=a), expression=exp.Lower(this=b)),
    "~~": lambda a, b: exp.Like(this=a, expression=b),
    "!~~": lambda a, b: exp.Not(this=exp.Paren(this=exp.Like(this=a, expression=b))),
    "=": lambda a, b: exp.EQ(this=a, expression=b),
    "<>": lambda a, b: exp.NEQ(this=a, expression=b),
    "+": lambda a, b: exp.Add(this=a, expression=b),
    "-": lambda a, b: exp.Sub(this=a, expression=b),
    ">": lambda a, b: exp.GT(this=a, expression=b),
    "<": lambda a, b: exp.LT(this=a, expression=b),
    "||": lambda a, b: exp.DPipe(this=a, expression=b),
}
_ENGINE_CLOCKS = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")
"""What the engine reads as its clock where no column has this name, in quotes too."""
_PRIVILEGES = "table_privileges", "role_table_grants"
LISTS = {"pg_namespace", "pg_class", "pg_attribute", "pg_tables", "pg_description", "tables", "columns", "schemata"}
"""Relations that list the declared tables and synopses; so do the privileges."""
_BY_NAME = {"class_oid", "class_name", "to_regclass"}
"""Functions that find a relation by its name, or its name."""
_TEXTUAL = (exp.Literal, exp.Anonymous, exp.Format, exp.DPipe, exp.Concat, exp.Lower)


@dataclass(slots=True, kw_only=True)
class Asking:
    """Who asks, with which settings; and the virtual tables that the statement reads, by the name they get."""

    analyst: str
    database: str
    settings: Mapping[str, str]
    pid: int = 1
    virtual: dict[str, str] = field(default_factory=dict)
    reads_clock: bool = False
    lists_tables: bool = False

    @property
    def is_lasting(self) -> bool:
        """Whether the statement will give the same again; synopses are bought and dropped."""
        return not (self.virtual or self.reads_clock or self.lists_tables)


def rewrite(tree: exp.Expr, known: Mapping[str, frozenset[str]], asking: Asking) -> exp.Expr:
    """Returns the tree for the emulating engine.

    Args:
        tree: A statement whose functions are allowed.
        known: The names of the emulated relations, by schema.
        asking: Who asks.
    """
    for part in tree.find_all(exp.Identifier):
        if not part.args.get("quoted"):
            part.set("this", part.name.lower())
    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    oids = {(t.alias or t.name).lower(): t.name.lower() for t in tree.find_all(exp.Table)}
    for column in list(tree.find_all(exp.Column)):
        if column.table.lower() in oids and (hidden := _hidden(column, oids)) is not None:
            is_item = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
            column.replace(exp.alias_(hidden, column.name) if is_item else hidden)
    name_columns(tree)
    for node in reversed(list(tree.walk())):
        made = _rewritten(node, known, common, asking)
        called = node if made is None else made
        asking.lists_tables |= isinstance(called, exp.Anonymous) and str(called.this).lower() in _BY_NAME
        if made is not None and made is not node:
            if node is tree:
                return made
            node.replace(made)
    return tree


def _hidden(column: exp.Column, oids: Mapping[str, str]) -> exp.Expr | None:
    """Returns what stands for a column that every table of PostgreSQL has without showing it; None for another."""
    match column.name.lower():
        case "tableoid":
            return exp.Anonymous(this="class_oid", expressions=[exp.Literal.string(oids[column.table.lower()])])
        case "xmin":
            return exp.cast(exp.Literal.number(1), "UINTEGER", dialect="duckdb")
    return None


def _rewritten(
    node: exp.Expr, known: Mapping[str, frozenset[str]], common: set[str], asking: Asking
) -> exp.Expr | None:
    match node:
        case exp.Table() if isinstance(node.this, exp.Identifier):
            return _table(node, known, common, asking)
        case exp.Column() if is_procedure(node) and is_shown(node):
            named = _named(node.copy(), "proc_name")
            return exp.alias_(named, node.name) if isinstance(node.parent, exp.Select) else named
        case exp.Column() if node.args.get("db") is not None:
            node.set("db", None)
            node.set("catalog", None)
        case exp.Column() if node.name.lower() in ("current_user", "session_user", "user") and not node.table:
            return exp.Literal.string(asking.analyst)
        case exp.Column() if node.name.lower() in _ENGINE_CLOCKS and not node.table:
            asking.reads_clock = True
        case exp.Dot() if isinstance(node.this, exp.Identifier) and _is_system(node.this):
            return _part(node.expression)
        case exp.Dot() if isinstance(node.this, exp.Identifier) and isinstance(node.expression, exp.Func):
            raise Refusal("42883", "this function does not exist")
        case exp.Table() if _is_system(node.args.get("db")):
            node.set("db", None)
        case exp.Collate():
            return _part(node.this)
        case exp.Operator():
            sign = str(node.args["operator"]).split(".")[-1]
            if sign not in _OPERATORS:
                raise Refusal(UNSUPPORTED, "this operator is not supported over the catalogs")
            return _OPERATORS[sign](node.this, node.expression)
        case exp.Cast():
            return _cast(node)
        case exp.Any() | exp.All() if isinstance(node.this, exp.Paren) and _is_list(node.this.this):
            node.set("this", exp.Paren(this=_list(node.this.this)))
        case exp.NEQ() if _is_all(node.expression):
            listed = node.expression.this if isinstance(node.expression, exp.All) else node.expression.expressions[0]
            member = exp.EQ(this=node.this, expression=exp.Any(this=exp.Paren(this=listed)))
            return exp.Not(this=exp.Paren(this=member))
        case exp.CurrentUser() | exp.SessionUser():
            return exp.Literal.string(asking.analyst)
        case exp.CurrentTimestamp():
            return _clock(asking)
        case exp.CurrentDate():
            return exp.Cast(this=_clock(asking), to=exp.DataType.build("date"))
        case exp.CurrentSchemas():
            return _schemas(node.this)
        case exp.Div() if node.args.get("typed") and _is_integer(node.this) and _is_integer(node.expression):
            return exp.IntDiv(this=node.this, expression=node.expression)
        case exp.CurrentSchema():
            return exp.Literal.string("public")
        case exp.CurrentCatalog() | exp.CurrentDatabase():
            return exp.Literal.string(asking.database)
        case exp.CurrentVersion():
            return exp.Literal.string(VERSION)
        case exp.JSONObject():
            return node
        case exp.Encode():
            return exp.Anonymous(this="encode", expressions=[node.this, node.args["charset"]])
        case exp.Substring() if _is_pattern(node.args.get("start")):
            return _matched(node.this, node.args["start"])
        case exp.Anonymous():
            return _call(node, asking)
    return None


def _is_pattern(node: object) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _matched(text: exp.Expr, pattern: exp.Literal) -> exp.Expr:
    """Returns the first group of what a pattern matches, or all of it where it has none; NULL where nothing is."""
    group = exp.Literal.number(1 if re.search(r"(?<!\\)\((?!\?)", pattern.name) else 0)
    found = exp.Anonymous(this="regexp_extract", expressions=[text, pattern, group])
    return exp.Anonymous(this="nullif", expressions=[found, exp.Literal.string("")])


def _clock(asking: Asking) -> exp.Expr:
    asking.reads_clock = True
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    return exp.Cast(this=exp.Literal.string(now.isoformat(sep=" ")), to=exp.DataType.build("timestamp"))


def _part(node: exp.Expr) -> exp.Expr:
    return node


def _is_all(node: exp.Expr) -> bool:
    if isinstance(node, exp.All):
        return not isinstance(node.this, exp.Subquery | exp.Select)
    return isinstance(node, exp.Anonymous) and str(node.this).upper() == "ALL" and len(node.expressions) == 1


def _schemas(implicit: object) -> exp.Expr:
    names = ["pg_catalog", "public"] if isinstance(implicit, exp.Boolean) and implicit.this else ["public"]
    return exp.Array(expressions=[exp.Literal.string(part) for part in names])


def _is_integer(node: exp.Expr) -> bool:
    """Whether a node is an integer by its form."""
    if isinstance(node, exp.Cast):
        return type_word(node.args["to"]) in ("int", "bigint", "smallint", "uinteger")
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()


def _is_system(schema: object) -> bool:
    return isinstance(schema, exp.Identifier) and schema.name.lower() in ("pg_catalog", "information_schema")


VERSION = "PostgreSQL 15.0 (dpquery: differentially private answers)"


def _table(node: exp.Table, known: Mapping[str, frozenset[str]], common: set[str], asking: Asking) -> exp.Expr:
    schema, name = node.db.lower(), node.name.lower()
    if not schema and name in common:
        return node
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
    node.set("catalog", None)
    if schema == "dp" and name in VIRTUAL:
        asking.virtual[name] = f"dp_{name}"
        node.set("db", None)
        node.set("this", exp.to_identifier(f"dp_{name}"))
        return node
    for real, place in (("pg_catalog", "pgc"), ("information_schema", "inf")):
        if schema in ((real, "") if real == "pg_catalog" else (real,)) and name in known[real]:
            node.set("db", exp.to_identifier(place))
            node.set("this", exp.to_identifier(name))
            asking.lists_tables |= name in LISTS or name in _PRIVILEGES
            return _with_analyst(node, name, asking) if name in _ROLES else node
    raise Refusal(NO_TABLE, f'relation "{node.name[:100]}" does not exist')


def _with_analyst(node: exp.Table, name: str, asking: Asking) -> exp.Expr:
    """Returns a table of roles with only the name of the current user: no analyst sees another."""
    column = {"pg_user": "usename", "pg_shadow": "usename", "enabled_roles": "role_name"}.get(name, "rolname")
    column = "grantee" if name in _PRIVILEGES else column
    alias = node.args["alias"].copy()
    node.set("alias", None)
    is_asking = exp.EQ(this=exp.column(column), expression=exp.Literal.string(ANALYST))
    answer = exp.If(this=is_asking, true=exp.Literal.string(asking.analyst))
    shown = exp.Case(ifs=[answer], default=exp.column(column))
    star = exp.Star(replace=[exp.alias_(shown, column)])
    made = exp.Subquery(this=exp.Select(expressions=[star]).from_(node.copy()), alias=alias)
    made.set("joins", [join.copy() for join in node.args.get("joins") or ()])
    return made


def _cast(node: exp.Cast) -> exp.Expr | None:
    to = node.args["to"]
    word = type_word(to)
    if word in REGULAR:
        return _regular(node, word)
    if word in VALUE_CASTS:
        return VALUE_CASTS[word](node)
    if word in ("text", "varchar") and is_procedure(node.this):
        return _named(node.this.copy(), "proc_name")
    if word in _PLAIN_TYPES:
        node.set("to", exp.DataType.build(_PLAIN_TYPES[word], dialect="duckdb"))
        return None
    if isinstance(to, exp.DataType) and to.this is exp.DataType.Type.ARRAY:
        if _is_list(node.this):
            node.set("this", _list(node.this))
        inner = to.expressions[0] if to.expressions else None
        if inner is not None and type_word(inner) == "gertype":
            return exp.Anonymous(this="type_names", expressions=[node.this])
        if inner is not None and type_word(inner) in ("oid", "gerclass", "gerproc", "gerrole", "gernamespace"):
            node.set("to", exp.DataType.build("UINTEGER[]", dialect="duckdb"))
        elif inner is not None and (
            inner.this is exp.DataType.Type.USERDEFINED or type_word(inner) in ("char", "name")
        ):
            node.set("to", exp.DataType.build("VARCHAR[]", dialect="duckdb"))
        return None
    is_text = word in ("char", "name", "bpchar", "cstring", "json", "jsonb", "inet", "aclitem", "xml")
    if isinstance(to, exp.DataType) and (to.this is exp.DataType.Type.USERDEFINED or is_text):
        node.set("to", exp.DataType.build("VARCHAR", dialect="duckdb"))
    return None


_SHOWING = (exp.Alias, exp.Select, exp.DPipe, exp.Anonymous, exp.ArrayAgg, exp.Case, exp.If)


def _regular(node: exp.Cast, word: str) -> exp.Expr:
    """Returns a cast to a type of names: a name becomes its OID, an OID that is shown becomes its name."""
    to_oid, to_name = REGULAR[word]
    if not to_oid:
        return _part(node.this)
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    cast_to = type_word(around.args["to"]) if isinstance(around, exp.Cast) else ""
    if isinstance(node.this, _TEXTUAL) or cast_to in ("oid", "int", "bigint"):
        found = exp.Anonymous(this=to_oid, expressions=[node.this])
        is_shown = cast_to in ("text", "varchar", "name") or isinstance(around, exp.Alias | exp.Select)
        if not is_shown:
            return found
        return _named(found, to_name)
    if cast_to or isinstance(around, _SHOWING):
        return _named(node.this, to_name)
    return _part(node.this)


def _named(node: exp.Expr, to_name: str) -> exp.Expr:
    if to_name == "type_name":
        return exp.Anonymous(this="format_type", expressions=[node, exp.Null()])
    return exp.Anonymous(this=to_name, expressions=[node])


_LIST = re.compile(r'\{(?:[^{},"\\]*|"[^"\\]*")(?:,(?:[^{},"\\]*|"[^"\\]*"))*\}')
_ITEM = re.compile(r'"([^"\\]*)"|([^{},"\\]+)')


def _is_list(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string) and _LIST.fullmatch(node.name) is not None


def _list(node: exp.Expr) -> exp.Expr:
    items = [quoted or plain.strip() for quoted, plain in _ITEM.findall(node.name[1:-1])]
    return exp.Array(expressions=[exp.Literal.string(item) for item in items])


def _call(node: exp.Anonymous, asking: Asking) -> exp.Expr | None:
    name = str(node.this).lower()
    first = node.expressions[0] if node.expressions else None
    match name:
        case "version":
            return exp.Literal.string(VERSION)
        case "current_database":
            return exp.Literal.string(asking.database)
        case "current_schema":
            return exp.Literal.string("public")
        case "session_user" | "current_user" | "user":
            return exp.Literal.string(asking.analyst)
        case "current_schemas":
            return _schemas(first)
        case "pg_backend_pid":
            return exp.Literal.number(asking.pid)
        case "getdatabaseencoding":
            return exp.Literal.string("UTF8")
        case "now" | "statement_timestamp" | "transaction_timestamp" | "clock_timestamp":
            return _clock(asking)
        case "current_setting":
            return _setting(first, node, asking)
        case "set_config":
            is_other = isinstance(first, exp.Literal) and not first.name.lower().startswith("dpquery.")
            if len(node.expressions) == 3 and is_other:
                return exp.Cast(this=node.expressions[1], to=exp.DataType.build("text"))
            raise Refusal(FORBIDDEN, "this setting is made with SET")
        case "json_build_object":
            return exp.Anonymous(this="json_object", expressions=node.expressions)
        case "to_char" if len(node.expressions) == 2 and isinstance(node.expressions[1], exp.Literal):
            form = exp.Literal.string(node.expressions[1].name.replace("TZ", "UTC")).sql()
            read: exp.Expr = exp.maybe_parse(f"TO_CHAR(x, {form})", dialect="postgres")
            read.set("this", first)
            return read
        case "cardinality":
            return exp.Anonymous(this="len", expressions=node.expressions)
        case "substring" if len(node.expressions) == 2 and _is_pattern(node.expressions[1]):
            return _matched(node.expressions[0], node.expressions[1])
        case "btrim":
            return exp.Trim(this=first, expression=node.expressions[1] if len(node.expressions) > 1 else None)
    return None


def _setting(first: exp.Expr | None, node: exp.Anonymous, asking: Asking) -> exp.Expr:
    if not isinstance(first, exp.Literal) or not first.is_string:
        return exp.Anonymous(this="setting_of", expressions=[first])
    value = asking.settings.get(first.name.lower(), SETTINGS.get(first.name.lower()))
    if value is not None:
        return exp.Literal.string(value)
    if len(node.expressions) == 2:
        return exp.Cast(this=exp.Null(), to=exp.DataType.build("text"))
    raise Refusal("42704", f'unrecognized configuration parameter "{first.name[:100]}"')
