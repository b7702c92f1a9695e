"""UNNEST of a text that is cut at a separator: each row once for each of its parts.

    SELECT tag, COUNT(*) FROM posts, UNNEST(string_to_array(tags, ',')) AS tag GROUP BY tag

It is a join with the numbers of as many parts as a text of the column's `max_length` can have. So the plan itself says
how many rows a row may become, and what bounds contributions sees them all.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.definitions import definition
from dpquery.plan.expr import Case, Column, Expression, Literal
from dpquery.plan.logical import Computed, Join, OutputColumn, Project, Scan, Values, is_private, output
from dpquery.plan.types import INT64, TEXT
from dpquery.sql.bind.expressions import Binder
from dpquery.sql.bind.scope import Context, Scope, Visible

MOST_PARTS = 50
"""Parts of a text: one row is counted as so many."""
_SPLITS = (exp.StringToArray, exp.Split)


def split_in(node: exp.Expression) -> exp.Expression | None:
    """Returns the text cut at a separator that an item of FROM unnests, or None for other items."""
    inner = node.this if isinstance(node, exp.Lateral) else node
    listed = inner.expressions[0] if isinstance(inner, exp.Unnest) and len(inner.expressions) == 1 else None
    return listed if isinstance(listed, _SPLITS) else None


def unnested_in_from(select: exp.Select) -> exp.Select:
    """Returns `SELECT unnest(string_to_array(a, ',')) AS x FROM t` with the list in FROM, where it is the only one."""
    found = [one for item in select.expressions for one in item.find_all(exp.Explode) if isinstance(one.this, _SPLITS)]
    if len(found) != 1:
        return select
    made = select.copy()
    made.parent = select.parent
    (inside,) = (
        one for item in made.expressions for one in item.find_all(exp.Explode) if isinstance(one.this, _SPLITS)
    )
    inside.replace(exp.column("unnest", table="unnest"))
    made.append("joins", exp.Join(this=exp.Unnest(expressions=[found[0].this.copy()]), kind="CROSS"))
    return made


def with_parts(scope: Scope, join: exp.Join, context: Context) -> Scope:
    """Returns the rows of a scope, each once for each part of a text; a row whose text is NULL is in none.

    Args:
        scope: What stands before it in FROM.
        join: The item of FROM whose list is a text that is cut.
    Raises:
        UnsupportedQueryError: The text is no column that is declared short, the separator no constant, or each row is a
            privacy unit.
    """
    item, listed = join.this, split_in(join.this)
    assert listed is not None
    if join.args.get("on") or join.args.get("using") or join.args.get("side") or scope.public_side or scope.late:
        reason = "the parts of a text are joined by CROSS JOIN or a comma, to private or public rows alone"
        raise context.unsupported(reason, item, "Write CROSS JOIN, without ON: a row whose text is NULL has no part.")
    context.only(item, "this", "expressions", "alias")
    context.only(listed, "this", "expression", "null_returns_null", "empty_delimiter_returns_whole")
    context.count_table(item)
    if context.catalog.declarations.unit_is_row and is_private(scope.relation):
        reason = "each row is a privacy unit, and the parts of its text would be several rows"
        raise context.unsupported(reason, listed, "Search the text with LIKE.")
    separator = listed.expression
    if not isinstance(separator, exp.Literal) or not separator.is_string or not separator.name:
        raise context.unsupported("a text is cut at a constant separator", listed)
    text = Binder(context, scope).bind(listed.this)
    most = _most_parts(text, len(separator.name), scope, listed, context)
    number = Column(id=context.fresh(), type=INT64)
    numbers = Values(
        columns=(OutputColumn(id=number.id, name="part", type=INT64),), rows=tuple((i + 1,) for i in range(most))
    )
    cut, empty = Literal(value=separator.name, type=TEXT), Literal(value="", type=TEXT)
    removed = functions.call("subtract", (_length(text), _length(functions.call("replace", (text, cut, empty)))))
    last = functions.call("add", (functions.call("int_divide", (removed, _number(len(separator.name)))), _number(1)))
    condition = functions.call("le", (number, last))
    if isinstance(listed, exp.StringToArray):  # of an empty text it makes an empty list
        condition = functions.call("and", (condition, functions.call("ne", (text, empty))))
    branches = tuple(
        (functions.call("eq", (number, _number(i))), functions.call("split_part", (text, cut, _number(i))))
        for i in range(1, most + 1)
    )
    part = Case(branches=branches, otherwise=Literal(value=None, type=TEXT), type=TEXT)
    joined = Join(left=scope.relation, right=numbers, kind="inner", equalities=(), condition=condition)
    made = Computed(id=context.fresh(), name="", expression=part)
    context.measure(made.id, part)
    kept = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(scope.relation)]
    alias = item.args.get("alias")
    table = "unnest" if alias is None else alias.name
    names = [] if alias is None else [column.name for column in alias.args.get("columns") or ()]
    shown = Visible(name=names[0] if names else table, table=table or None, id=made.id, type=TEXT)
    return replace(scope, relation=Project(source=joined, columns=(*kept, made)), columns=(*scope.columns, shown))


def _most_parts(text: Expression, width: int, scope: Scope, node: exp.Expression, context: Context) -> int:
    """Returns how many parts a text can have that is cut at a separator of this width."""
    stored, tables = definition(text.id, scope.relation) if isinstance(text, Column) else (text, {})
    scan = tables.get(stored.id) if isinstance(stored, Column) else None
    if not isinstance(stored, Column) or not isinstance(scan, Scan) or text.type != TEXT:
        raise context.unsupported("only a text that is stored is cut into rows", node, "Name a column of a table.")
    longest = next(column.max_length for column in scan.columns if column.id == stored.id)
    most = longest // width + 1
    if most > MOST_PARTS:
        raise context.unsupported(
            f"a text of {longest} characters may have {most} parts, each of which is a row",
            node,
            f"Declare a max_length for the column in the catalog that leaves at most {MOST_PARTS}, or search the text "
            "with LIKE.",
        )
    return most


def _length(text: Expression) -> Expression:
    return functions.call("length", (text,))


def _number(value: int) -> Literal:
    return Literal(value=value, type=INT64)
