"""`x = ANY (list)` and `x <> ALL (list)` over lists of constants: what IN and NOT IN say."""

from __future__ import annotations

from sqlglot import exp

_ARRAY_PARTS = ("expressions", "bracket_notation", "value_constructor")


def is_list_place(node: exp.Expr) -> bool:
    """Whether a parameter at this place may be a list: as the one operand of ANY or ALL."""
    around = node.parent
    while isinstance(around, exp.Paren | exp.Cast):
        around = around.parent
    return around is not None and _compared(around) is not None


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


def _items(node: exp.Expr) -> list[exp.Expr] | None:
    """Returns the items of a list, through brackets and a cast to lists."""
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
