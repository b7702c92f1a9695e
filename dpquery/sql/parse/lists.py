"""What PostgreSQL spells in several ways: IN is ANY, UNNEST or VALUES of a list; ranges; texts cast to intervals."""

from __future__ import annotations

from sqlglot import exp

from dpquery.sql.parse.intervals import in_one_unit

_ARRAY_PARTS = ("expressions", "bracket_notation", "value_constructor")


def is_list_place(node: exp.Expr) -> bool:
    """Whether a parameter at this place may be a list: as the one operand of ANY, ALL or UNNEST."""
    around = node.parent
    while isinstance(around, exp.Paren | exp.Cast):
        around = around.parent
    return around is not None and (_compared(around) is not None or isinstance(around, exp.Explode))


def _compared(node: exp.Expr) -> exp.Expr | None:
    """Returns what ANY or ALL is over; the parser knows ALL (list) by name alone."""
    if isinstance(node, exp.Any | exp.All):
        operand: exp.Expr = node.this
        return operand
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "ALL" and len(node.expressions) == 1:
        listed: exp.Expr = node.expressions[0]
        return listed
    return None


def with_lists_as_in(tree: exp.Expr) -> exp.Expr:
    """Returns the tree with each comparison with a list as IN or NOT IN; other uses of lists stay, and are refused."""
    for node in list(tree.walk()):
        if isinstance(node, exp.In) and (listed := _unnested(node.args.get("query"))) is not None:
            node.set("query", None)
            node.set("expressions", listed)
        if isinstance(node, exp.In) and len(node.expressions) == 1 and (listed := _of_values(node.expressions[0])):
            node.set("expressions", [item.copy() for item in listed])
        if isinstance(node, exp.EQ | exp.NEQ) and (over := _compared(node.expression)) is not None:
            items = _items(over)
            if items is None or isinstance(node, exp.NEQ) is isinstance(node.expression, exp.Any):
                continue
            made: exp.Expr = exp.Boolean(this=False)
            if items:
                made = exp.In(this=node.this.copy(), expressions=[item.copy() for item in items])
            if isinstance(node, exp.NEQ):
                made = exp.Not(this=exp.Paren(this=made))
            if node is tree:
                return made
            node.replace(made)
    return tree


def as_select(tree: exp.Expr) -> exp.Expr:
    """Returns the statement VALUES as SELECT * FROM (VALUES ...), with its ORDER BY and LIMIT; others as they are."""
    if not isinstance(tree, exp.Values):
        return tree
    around = {name: part for name in ("with_", "order", "limit", "offset") if (part := tree.args.get(name))}
    for name in around:
        tree.set(name, None)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=tree), **around)


def with_plain_forms(tree: exp.Expr) -> exp.Expr:
    """Returns the tree with intervals in place of texts that are cast to them, and comparisons in place of ranges."""
    for node in list(tree.walk()):
        made: exp.Expr | None = None
        if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.INTERVAL and is_text(node.this):
            one = in_one_unit(node.this.name)
            made = None if one is None else exp.maybe_parse(f"INTERVAL '{one}'", dialect="postgres")
        elif isinstance(node, exp.ArrayContainedBy) and len(ends := _ends(node.expression)) == 2:
            lower = exp.GTE(this=node.this.copy(), expression=ends[0].copy())
            upper = exp.LT(this=node.this.copy(), expression=ends[1].copy())
            made = exp.Paren(this=exp.And(this=lower, expression=upper))
        if made is not None and node is not tree:
            node.replace(made)
    return tree


def is_text(node: object) -> bool:
    """Whether a node is a constant text."""
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _ends(node: exp.Expr) -> list[exp.Expr]:
    """Returns the ends of a range of whole numbers; nothing for another node."""
    is_range = isinstance(node, exp.Anonymous) and str(node.this).lower() in ("int4range", "int8range")
    return list(node.expressions) if is_range else []


def _unnested(query: object) -> list[exp.Expr] | None:
    """Returns the items of `(SELECT unnest(list))`, or None for another query."""
    select = query.this if isinstance(query, exp.Subquery) else None
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return None
    is_alone = not any(value for name, value in select.args.items() if name != "expressions")
    inner = select.expressions[0]
    items = _items(inner.this) if is_alone and isinstance(inner, exp.Explode) else None
    return [item.copy() for item in items] if items else None


def _of_values(node: object) -> list[exp.Expr] | None:
    """Returns the items of `VALUES (1), (2)`, or None for another node or several columns."""
    if not isinstance(node, exp.Values) or any(value for name, value in node.args.items() if name != "expressions"):
        return None
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    return [row[0] for row in rows] if all(len(row) == 1 for row in rows) else None


def _items(node: exp.Expr) -> list[exp.Expr] | None:
    """Returns the items of a list, through brackets and a cast to lists."""
    if found := _of_values(node.this if isinstance(node, exp.Subquery) else node):
        return found
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.ARRAY):
        node = node.this
    if isinstance(node, exp.Literal) and node.is_string and node.name[:1] == "{" and node.name[-1:] == "}":
        plain = [part.strip() for part in node.name[1:-1].split(",")] if node.name[1:-1].strip() else []
        if all(part and not set(part) & set('"{}\\') and part.upper() != "NULL" for part in plain):
            return [exp.Literal.string(part) for part in plain]
        return None
    if not isinstance(node, exp.Array) or any(v for name, v in node.args.items() if name not in _ARRAY_PARTS):
        return None
    items: list[exp.Expr] = list(node.expressions)
    return items
