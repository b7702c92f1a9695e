"""Joins of FROM: kinds, ON and USING, to one relation and the names that are visible in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpquery.catalog.cached_locality import cached_locality
from dpquery.errors import UnsupportedQueryError
from dpquery.plan import functions
from dpquery.plan.expr import Call, Column, Expression, columns_of, conjuncts
from dpquery.plan.logical import (
    Computed,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    is_private,
    output,
)
from dpquery.sql.bind.expressions import Binder, Subqueries, conjunct_trees, conjunction
from dpquery.sql.bind.late_joins import check_unread, late_join, refusal
from dpquery.sql.bind.owner_equality import Equality, owner_equality
from dpquery.sql.bind.public_side import filtered, joined_further, start
from dpquery.sql.bind.scope import Context, Scope, Visible, with_names
from dpquery.sql.bind.steps import as_step, reads_released
from dpquery.units.locality import NotUnitLocal

_KINDS: dict[tuple[str, str], JoinKind] = {
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("", "INNER"): "inner",
    ("", "CROSS"): "cross",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinItem:
    """One more item of FROM, and how the text joins it to what stands before it."""

    scope: Scope
    node: exp.Join

    @property
    def kind(self) -> JoinKind:
        """The kind of the join, left and right as in the text."""
        on = self.node.args.get("on") is not None or bool(self.node.args.get("using"))
        words = ((self.node.args.get("side") or "").upper(), (self.node.args.get("kind") or "").upper())
        return _KINDS.get(words) or ("inner" if on else "cross")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A join with its conditions bound, and the names that are visible after it."""

    written: JoinItem
    conditions: tuple[Expression, ...]
    merged: tuple[Computed, ...]
    """Columns of a full join's USING: whichever side's value there is."""
    columns: tuple[Visible, ...]


def check_join(node: exp.Join, context: Context) -> None:
    """Raises for kinds of joins that are not known, and for conditions that are missing."""
    if (node.args.get("method") or "").upper() == "NATURAL":
        raise context.unsupported(
            "NATURAL JOIN would join on all columns that happen to have the same name",
            node.this,
            "Name the columns: JOIN ... USING (...).",
        )
    context.only(node, "this", "on", "using", "side", "kind")
    words = ((node.args.get("side") or "").upper(), (node.args.get("kind") or "").upper())
    if words != ("", "") and words not in _KINDS:
        what = " ".join(word for word in words if word)
        raise context.unsupported(f"{what} JOIN is not supported", node.this, "Use INNER, LEFT, RIGHT or FULL JOIN.")
    on = node.args.get("on") is not None or bool(node.args.get("using"))
    if words[0] and not on:
        raise context.unsupported(f"a {words[0]} JOIN needs a condition", node.this, "Add ON ... or USING (...).")


def join_all(first: Scope, joins: Sequence[JoinItem], context: Context) -> Scope:
    """Returns the scope of joined relations without WHERE."""
    scope, pending = _joined(first, _bound(first, joins, context), [], context)
    assert not pending
    return scope


def join_where(
    first: Scope,
    joins: Sequence[JoinItem],
    where: exp.Where | None,
    subqueries_over: Callable[[Scope], Subqueries],
    outer: Scope | None,
    context: Context,
    named: Sequence[tuple[str, exp.Expression]] = (),
) -> Scope:
    """Returns the scope of FROM and WHERE; arguments as in `bind_from`.

    Args:
        named: Expressions of the select list that WHERE may read by name.
    """
    steps = _bound(first, joins, context)
    items = (first.relation, *(written.scope.relation for written in joins))
    everything = Scope(relation=first.relation, columns=steps[-1].columns if steps else first.columns, items=items)
    subqueries = subqueries_over(everything)
    condition = None if where is None else with_names(where, named, everything) if named else where.this
    conditions = [] if condition is None else _where(condition, everything, subqueries, outer, context)
    scope, pending = _joined(first, steps, conditions, context)
    if scope.late:
        check_unread(scope.late, pending, context)
    if scope.public_side is not None:
        if subqueries.are_found or outer is not None:
            reason = "a join that keeps every row of a public table cannot be used in a subquery of WHERE, or with one"
            raise context.unsupported(reason, where or scope.public_side.node)
        return filtered(scope, pending, where, context)
    around = set() if outer is None else {column.id for column in outer.columns}
    read = {id(condition): {column.id for column in columns_of(condition)} for condition in pending}
    correlated = [condition for condition in pending if read[id(condition)] & around]
    own = [condition for condition in pending if not read[id(condition)] & around]
    late = [condition for condition in own if any(map(subqueries.gives, read[id(condition)]))]
    relation = _filtered(scope.relation, [condition for condition in own if condition not in late])
    try:
        relation = _filtered(subqueries.apply(relation), late)
    except UnsupportedQueryError:
        if not scope.late:
            raise
        raise refusal(scope.late[0], context) from None
    if outer is not None:
        for item in outer.items or (outer.relation,):
            correlated += _owner_conditions(item, relation, correlated, context)
    return replace(scope, relation=relation, correlated=tuple(correlated))


def _owner_conditions(
    outer: Relation, inner: Relation, correlated: list[Expression], context: Context
) -> list[Expression]:
    """Returns the equality of units that correlation along an ownership path implies."""
    pairs = [pair for condition in correlated if (pair := _equality(condition, outer, inner)) is not None]
    return [functions.call("eq", pair) for pair in owner_equality(outer, inner, pairs, context)]


def _bound(first: Scope, joins: Sequence[JoinItem], context: Context) -> list[_Step]:
    columns, steps = first.columns, []
    for written in joins:
        steps.append(step := _bind(columns, written, context))
        columns = step.columns
    return steps


def _joined(
    scope: Scope, steps: Sequence[_Step], pending: list[Expression], context: Context
) -> tuple[Scope, list[Expression]]:
    """Returns the joined scope, and the conjuncts of WHERE that no join took."""
    rest, columns = list(steps), steps[-1].columns if steps else scope.columns
    while rest:
        scope, pending = _join(scope, rest.pop(_next(scope.relation, rest, pending)), pending, context)
    return replace(scope, columns=columns), pending


def _next(joined: Relation, steps: Sequence[_Step], pending: Sequence[Expression]) -> int:
    """Returns the place of the step to take: of cross joins, whose order decides no row, the first that WHERE equates
    with what is joined, so that no rows are paired which it drops."""
    left = {c.id for c in output(joined)}
    conditions = [*pending, *(part for condition in pending for part in _in_all_branches(condition))]
    for place, step in enumerate(steps):
        if step.written.kind != "cross":
            break
        right = {c.id for c in output(step.written.scope.relation)}
        if any(equality(condition, left, right) for condition in conditions):
            return place
    return 0


def _where(
    tree: exp.Expression, scope: Scope, subqueries: Subqueries, outer: Scope | None, context: Context
) -> list[Expression]:
    """Returns the conjuncts of WHERE but for those that subqueries are: these are kept there."""
    binder = Binder(context, scope, subqueries=subqueries)
    rest = [part for part in conjunct_trees(tree) if not subqueries.takes(part, binder)]
    whole = [tree] if len(rest) == len(conjunct_trees(tree)) else rest
    binder = Binder(context, scope, subqueries=subqueries, outer=outer)
    return [condition for part in whole for condition in conjuncts(binder.condition(part, "WHERE"))]


def _filtered(relation: Relation, conditions: Sequence[Expression]) -> Relation:
    for condition in conditions:
        relation = Filter(source=relation, condition=condition)
    return relation


def _bind(columns: tuple[Visible, ...], written: JoinItem, context: Context) -> _Step:
    """Binds a join's conditions over what stands before it; refuses two relations under one alias."""
    right, node = written.scope, written.node
    used = {(c.table or "").casefold() for c in columns} - {""}
    if used & {(c.table or "").casefold() for c in right.columns}:
        raise context.unsupported("two tables in FROM have the same name", node.this, "Give each an alias.")
    left = Scope(relation=right.relation, columns=columns)
    both = replace(left, columns=columns + right.columns)
    on = node.args.get("on")
    conditions = [] if on is None else conjuncts(Binder(context, both).condition(on, "ON"))
    bare: list[Visible] = []
    merged: list[Computed] = []
    hidden: set[str] = set()
    for name in node.args.get("using") or ():
        if not isinstance(name, exp.Identifier):
            raise context.unsupported("USING takes names of columns", name, "Write another condition with ON.")
        named = exp.Column(this=name)
        named.parent = node  # its place in the text
        a, b = left.find(named, context), right.find(named, context)
        conditions.append(_call("eq", (a, b), name, context))
        hidden |= {a.id, b.id}
        chosen: Expression = b if written.kind == "right" else a
        if written.kind == "full":
            made = _call("coalesce", (a, b), name, context)
            merged.append(Computed(id=context.fresh(), name=name.name, expression=made))
            context.measure(merged[-1].id, made)
            chosen = Column(id=merged[-1].id, type=made.type)
        written_as = next(c.name for c in columns if c.id == a.id and not c.merged)
        assert isinstance(chosen, Column)
        bare.append(Visible(name=written_as, table=None, id=chosen.id, type=chosen.type))
    rest = [replace(c, merged=True) if c.id in hidden else c for c in both.columns]
    kept = [c for c in rest if not (c.merged and c.table is None)]
    return _Step(written=written, conditions=tuple(conditions), merged=tuple(merged), columns=(*bare, *kept))


def _call(name: str, arguments: tuple[Expression, Expression], node: exp.Expression, context: Context) -> Call:
    try:
        return functions.call(name, arguments)
    except (LookupError, TypeError):
        types = " and ".join(str(argument.type) for argument in arguments)
        reason = f"the columns {node.name} differ in type: {types}"
        raise context.unsupported(reason, node, "Write ON with a CAST.") from None


def _join(left: Scope, step: _Step, pending: list[Expression], context: Context) -> tuple[Scope, list[Expression]]:
    """Returns the joined scope, and the conjuncts of WHERE that this join did not take.

    An inner join takes from WHERE the equalities between its sides: that is where comma joins have theirs. A right
    join is the left join of the sides exchanged; only the order of the visible columns stays.
    """
    written, kind = step.written, step.written.kind
    first, second = left.relation, written.scope.relation
    waits = late_join(first, second, kind, step.conditions, written.node.this, context)
    if waits is not None and not (step.merged or left.public_side or written.scope.public_side):
        private, late = waits
        return Scope(relation=private, columns=step.columns, late=(*left.late, *written.scope.late, late)), pending
    if written.scope.late:
        raise refusal(written.scope.late[0], context)
    first, second = _known(first, second, written.node.this, context)
    if kind == "right":
        first, second, kind = second, first, "left"
    candidates = [*step.conditions, *(pending if kind in ("inner", "cross") else ())]
    found = [(condition, _equality(condition, first, second)) for condition in candidates]
    equalities = [pair for _, pair in found if pair is not None]
    taken = [condition for condition, pair in found if pair is not None]
    implied = [_equality(part, first, second) for condition in candidates for part in _in_all_branches(condition)]
    equalities += [pair for pair in implied if pair is not None and pair not in equalities]
    equalities += owner_equality(first, second, equalities, context)
    join = Join(
        left=first,
        right=second,
        kind="inner" if kind == "cross" and equalities else kind,
        equalities=tuple(equalities),
        condition=conjunction([condition for condition in step.conditions if condition not in taken]),
        span=context.span_around(written.node.this),
    )
    side = left.public_side
    if side is not None or written.scope.public_side is not None:
        side = joined_further(left, written.scope, join, written.node, context)
    elif kind == "left" and is_private(second) and not is_private(first):
        join, side = start(join, written.node)
    relation = _with_merged(join, step.merged, context) if join.kind == "full" else join
    try:
        if is_private(relation):
            cached_locality(relation, context.catalog.declarations)
    except NotUnitLocal as error:
        raise context.unsupported(error.reason, written.node.this, error.advice) from None
    scope = Scope(relation=relation, columns=step.columns, public_side=side, late=left.late)
    return scope, [condition for condition in pending if condition not in taken]


def _known(first: Relation, second: Relation, node: exp.Expression, context: Context) -> tuple[Relation, Relation]:
    """Returns both sides of a join, a released one as a step where the other is private."""
    if is_private(first) and reads_released(second) and not is_private(second):
        return first, as_step(second, node, context)
    if is_private(second) and reads_released(first) and not is_private(first):
        return as_step(first, node, context), second
    return first, second


def _with_merged(join: Join, merged: tuple[Computed, ...], context: Context) -> Relation:
    """Returns a full join under a projection that adds the merged columns and the privacy unit of every row."""
    kept = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(join)]
    computed = list(merged)
    if is_private(join.left) and is_private(join.right):
        units = [cached_locality(side, context.catalog.declarations).units for side in (join.left, join.right)]
        for a, b in join.equalities:
            if isinstance(a, Column) and a.id in units[0] and isinstance(b, Column) and b.id in units[1]:
                owner = functions.call("coalesce", (a, b))
                if all(known.expression != owner for known in computed):
                    computed.append(Computed(id=context.fresh(), name="", expression=owner))
    return Project(source=join, columns=(*kept, *computed))


def _in_all_branches(condition: Expression) -> list[Expression]:
    """Returns the equalities that stand in every branch of an OR: where it is true, so are they."""
    if not (isinstance(condition, Call) and condition.function == "or"):
        return []
    first, *others = (conjuncts(branch) for branch in condition.arguments)
    common = [part for part in first if all(part in other for other in others)]
    return [part for part in dict.fromkeys(common) if isinstance(part, Call) and part.function == "eq"]


def _equality(condition: Expression, left: Relation, right: Relation) -> Equality | None:
    """Returns (left side, right side) if the condition equates an expression of each, else None."""
    return equality(condition, {c.id for c in output(left)}, {c.id for c in output(right)})


def equality(condition: Expression, left: set[str], right: set[str]) -> Equality | None:
    """Returns (left side, right side) if the condition equates expressions over these columns, else None."""
    if not (isinstance(condition, Call) and condition.function == "eq"):
        return None
    first, second = condition.arguments
    for a, b in ((first, second), (second, first)):
        reads = [{c.id for c in columns_of(part)} for part in (a, b)]
        if reads[0] and reads[1] and reads[0] <= left and reads[1] <= right:
            return a, b
    return None
