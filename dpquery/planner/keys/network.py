"""The atoms that grouping columns read, and how joins connect them: which columns follow from each other.

Two atoms are connected by columns that inner joins or WHERE equate, or where an outer join brings rows of the one to
rows of the other. Public tables between two that are read, as in a snowflake schema, belong to the network too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from dpquery.plan.definitions import Leaves, definition, ending_of, gives, side_of
from dpquery.plan.expr import Column, Expression, columns_of, substitute
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import Computed, Join, Project, Relation, Scan, SetOperation, Values, Window, output
from dpquery.plan.ranges import Range
from dpquery.plan.types import FLOAT64, TIMESTAMP
from dpquery.plan.windows import PICKS
from dpquery.planner.keys.atoms import Atom, KeySources, Rows, filled, joined, of_column, of_moments, of_table
from dpquery.planner.keys.conditions import equated, tests_of
from dpquery.planner.keys.images import Domain
from dpquery.planner.keys.moments import by_cells, cells_read
from dpquery.planner.keys.narrowing import narrowed
from dpquery.planner.keys.passing import within

Tuples = Callable[[Sequence[str], Relation, KeySources], Rows | None]
"""What columns of a relation may hold together: see `possible.tuples_of`."""

_PICKING = frozenset({"lag", "lead", "min", "max"}) | PICKS
"""Window functions that give a value of their first argument; `lag` and `lead` have a default as the third."""

Place = str
"""The name of an atom: the id of one of its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An outer join that fills an atom up: where rows meet, columns of other atoms equal columns of its own.

    Attributes:
        pairs: (id of a stored column of the side that is kept, id of a column of the side that is filled up).
        always: Whether rows may fail to meet although these are equal.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    always: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The grouping columns of one relation over its atoms.

    Attributes:
        relation: It gives the columns.
        known: What may be read to find their values.
        tuples: Finds what columns of another relation may hold.
        meanings: For each column its expression over columns of atoms.
        conditions: What every row fulfils, over columns of atoms where it can be told from them.
        ranges: What is known of columns of atoms, and of stored columns.
        scans: The tables that stored and literal columns come from.
        same: For each column that is equated the name that stands for all those it equals.
        moments: For each column that stands for a moment of a timestamp the width of the cells, and their range.
        links: For each atom that an outer join fills up the join.
        atoms: Those that were found so far, by name and columns.
    """

    relation: Relation
    known: KeySources
    tuples: Tuples
    meanings: dict[str, Expression]
    conditions: tuple[Expression, ...]
    ranges: dict[str, Range]
    scans: Leaves
    same: dict[str, str]
    moments: dict[str, tuple[int, Range]]
    links: dict[Place, Link] = field(default_factory=dict)
    atoms: dict[tuple[Place, tuple[str, ...]], Atom | None] = field(default_factory=dict)

    @classmethod
    def of(cls, ids: Sequence[str], relation: Relation, known: KeySources, tuples: Tuples) -> Network:
        """Returns the network of some columns of a relation."""
        defined = {id: definition(id, relation) for id in ids}
        pairs, scans = equated(relation)
        for _, more in defined.values():
            scans |= more
        tests = tests_of(relation)
        for _, more in tests:
            scans |= more
        sampled = {leaf for leaf, scan in scans.items() if isinstance(scan, Values) and scan.is_sample}
        pairs = [pair for pair in pairs if not sampled & {*pair}]
        conditions = tuple(condition for condition, _ in tests if not sampled & {*ids_read(condition)})
        ranges = known.ranges | {
            leaf: within(leaf, known.ranges[leaf], conditions) for leaf in scans if leaf in known.ranges
        }
        made = cls(
            relation=relation,
            known=known,
            tuples=tuples,
            meanings={id: expression for id, (expression, _) in defined.items()},
            conditions=conditions,
            ranges=ranges,
            scans=scans,
            same=_names(pairs),
            moments={},
        )
        return _with_links(_with_equals(_with_moments(made)))

    def related(self) -> list[tuple[str, ...]]:
        """Returns the columns in groups that share no atom and no connection, in order."""
        places = {id: {self.place(leaf) for leaf in ids_read(meaning)} for id, meaning in self.meanings.items()}
        read = set().union(*places.values()) if places else set()
        net = self._edges(read)
        groups: list[tuple[set[Place], list[str]]] = []
        for id, own in places.items():
            reached = _reached(own, net)
            met = [group for group in groups if group[0] & reached]
            merged = (reached.union(*(group[0] for group in met)), [*(i for group in met for i in group[1]), id])
            groups = [group for group in groups if group not in met] + [merged]
        order = list(self.meanings)
        return sorted(
            (tuple(sorted(group, key=order.index)) for _, group in groups), key=lambda group: order.index(group[0])
        )

    def may_be_null(self, id: str) -> bool:
        """Whether a grouping column can be NULL; of a full join's USING, one side's value is there."""
        return id not in self.known.ranges or self.known.ranges[id].nullable

    def values_of(self, leaf: str) -> Domain | None:
        """Returns what one column of an atom may hold by itself, NULL last, or None."""
        atom = self._atom(self.place(leaf), (leaf,))
        return None if atom is None else tuple(value for (value,) in atom.rows)

    def place(self, leaf: str) -> Place:
        """Returns the atom of a column."""
        scan = self.scans.get(leaf)
        if scan is not None:
            return scan.columns[0].id if isinstance(scan, Values) or scan.public else leaf
        if leaf in self.moments:
            return leaf
        origin = ending_of(leaf, self.relation)
        if isinstance(origin, SetOperation):
            return origin.columns[0].id
        return output(side_of(leaf, origin))[0].id if isinstance(origin, Join) else leaf

    def is_private(self, leaf: str) -> bool:
        """Whether a stored column is one of a private table."""
        scan = self.scans[leaf]
        return isinstance(scan, Scan) and not scan.public

    def joined(self, expressions: Iterable[Expression]) -> Atom | None:
        """Returns what all columns that the expressions read may hold together, or None."""
        leaves = {leaf for expression in expressions for leaf in ids_read(expression)}
        net = self._edges({self.place(leaf) for leaf in leaves})
        columns: dict[Place, set[str]] = {place: set() for place in net}
        for leaf in leaves | self._connecting(set(net)) | self._tested(set(net)):
            columns.setdefault(self.place(leaf), set()).add(leaf)
        made: Atom | None = Atom(columns=(), rows=((),))
        for place in self._in_order(columns, net):
            atom = self._atom(place, tuple(sorted(columns[place])))
            if atom is None or made is None:
                return None
            link = self.links.get(place)
            made = joined(made, atom, self.same) if link is None else self._filled(made, atom, link)
        return None if made is None else made.passing(self.conditions)

    def _filled(self, made: Atom, atom: Atom, link: Link) -> Atom | None:
        pairs = [pair for pair in link.pairs if pair[0] in made.columns and pair[1] in atom.columns]
        return filled(made, atom, pairs, always=link.always or len(pairs) < len(link.pairs))

    def _in_order(self, columns: Iterable[Place], net: dict[Place, set[Place]]) -> list[Place]:
        """Returns the atoms so that each stands beside one that it is connected with, and after what fills it up."""
        left, ordered = sorted(columns, key=lambda place: (place in self.links, place)), list[Place]()
        while left:
            ready = [place for place in left if not self._waits_for(place) & {*left} - {place}]
            beside = [place for place in ready if net.get(place, set()) & {*ordered}]
            chosen = (beside or ready or left)[0]
            ordered.append(chosen)
            left.remove(chosen)
        return ordered

    def _waits_for(self, place: Place) -> set[Place]:
        """Returns the atoms whose rows an outer join brings to those of this one."""
        return {self.place(one) for one, _ in self.links[place].pairs} if place in self.links else set()

    def _connecting(self, places: set[Place]) -> set[str]:
        """Returns the columns by which atoms are connected."""
        found = {leaf for leaf in self.same if self.place(leaf) in places}
        names = [self.same[leaf] for leaf in found]
        found = {leaf for leaf in found if names.count(self.same[leaf]) > 1}
        for place in places & self.links.keys():
            for one, other in self.links[place].pairs:
                found |= {one, other} if self.place(one) in places else set()
        return found

    def _tested(self, places: set[Place]) -> set[str]:
        """Returns the columns of public tables by which conditions rule rows of these out."""
        tested = [set(ids_read(condition)) for condition in self.conditions]
        return {leaf for leaves in tested if all(self._is_public(leaf, places) for leaf in leaves) for leaf in leaves}

    def _is_public(self, leaf: str, places: set[Place]) -> bool:
        return leaf in self.scans and not self.is_private(leaf) and self.place(leaf) in places

    def _edges(self, read: set[Place]) -> dict[Place, set[Place]]:
        """Returns the atoms that are read with those between them, and for each the ones that it is connected with."""
        members: dict[str, set[Place]] = {}
        for leaf, name in self.same.items():
            place = self.place(leaf)
            if place in read or not self.is_private(leaf):
                members.setdefault(name, set()).add(place)
        net: dict[Place, set[Place]] = {place: set() for place in read}
        for places in members.values():
            for place in places:
                net.setdefault(place, set()).update(places - {place})
        for place in read & self.links.keys():
            for one, _ in self.links[place].pairs:
                if self.place(one) in read:
                    net[place].add(self.place(one))
                    net[self.place(one)].add(place)
        lists = {scan.columns[0].id for scan in self.scans.values() if isinstance(scan, Values)}
        listing = {place for place in net.keys() & lists if net[place] & read}  # lists that rule values of keys out
        return _without_ends(net, read | listing)

    def _atom(self, place: Place, columns: tuple[str, ...]) -> Atom | None:
        if (place, columns) not in self.atoms:
            found = self._found(columns)
            self.atoms[place, columns] = None if found is None else found.passing(self.conditions)
        return self.atoms[place, columns]

    def _found(self, columns: tuple[str, ...]) -> Atom | None:
        first, known = columns[0], replace(self.known, ranges=self.ranges)
        if first in self.moments:
            return of_moments(first, *self.moments[first])
        scan = self.scans.get(first)
        if scan is not None:
            atom = of_column(first, scan, known) if len(columns) == 1 else of_table(scan, columns, known)
            return atom if atom is not None else self._listed(first)
        origin = ending_of(first, self.relation)
        rows: Rows | None = None
        if isinstance(origin, SetOperation):
            rows = _of_sides(origin, columns, self.known, self.tuples)
        elif isinstance(origin, Join):
            rows = self.tuples(columns, side_of(first, origin), self.known)
        elif isinstance(origin, Window):
            rows = _of_window(origin, first, self.known, self.tuples)
        return None if rows is None else Atom(columns=columns, rows=rows)

    def _listed(self, leaf: str) -> Atom | None:
        """Returns the values of a column that WHERE lists."""
        type = next((c.type for condition in self.conditions for c in columns_of(condition) if c.id == leaf), None)
        listed = None if type is None else narrowed(Column(id=leaf, type=type), None, self.conditions)
        return None if listed is None else Atom(columns=(leaf,), rows=tuple((value,) for value in listed))


def _without_ends(net: dict[Place, set[Place]], read: set[Place]) -> dict[Place, set[Place]]:
    """Returns the atoms that are read, and those that lie between two of them."""
    while needless := [place for place in net if place not in read and len(net[place]) < 2]:
        for place in needless:
            for other in net.pop(place):
                net[other].discard(place)
    return net


def _reached(places: set[Place], net: dict[Place, set[Place]]) -> set[Place]:
    """Returns the atoms that are connected with some atoms, these included."""
    reached: set[Place] = set()
    following = {*places}
    while following:
        reached |= following
        following = set().union(*(net.get(place, set()) for place in following)) - reached
    return reached


def _with_moments(network: Network) -> Network:
    """Returns the network with columns for moments, where grouping columns read timestamps by days or the like."""
    read: dict[Expression, int] = {}
    for meaning in network.meanings.values():
        for inner, width in () if isinstance(meaning, Column) else cells_read(meaning).items():
            read[inner] = min(width, read.get(inner, width))
    if not read:
        return network
    replaced: dict[Expression, tuple[Expression, int]] = {}
    standing: dict[str, tuple[int, Range]] = {}
    for inner, width in read.items():
        if any(network.values_of(leaf) is None for leaf in ids_read(inner)):
            id = f"moment{len(standing)}"
            standing[id] = (width, range_of(inner, network.ranges))
            replaced[inner] = (Column(id=id, type=TIMESTAMP), width)
    return replace(
        network,
        meanings={id: by_cells(meaning, replaced) for id, meaning in network.meanings.items()},
        conditions=tuple(by_cells(condition, replaced) for condition in network.conditions),
        moments=standing,
        atoms={},
    )


def _with_equals(network: Network) -> Network:
    """Returns the network with columns of public tables for private ones that equal them and declare no values."""
    if not network.same:
        return network
    equal: dict[str, Expression] = {}
    types = {c.id: c.type for meaning in network.meanings.values() for c in columns_of(meaning)}
    for leaf in types.keys() & network.same.keys():
        others = [id for id in network.same if network.same[id] == network.same[leaf] and not network.is_private(id)]
        if others and network.is_private(leaf) and network.values_of(leaf) is None:
            equal[leaf] = Column(id=min(others), type=types[leaf])
    return replace(
        network,
        meanings={id: substitute(meaning, equal) for id, meaning in network.meanings.items()},
        conditions=tuple(substitute(condition, equal) for condition in network.conditions),
        atoms={},
    )


def _with_links(network: Network) -> Network:
    links: dict[Place, Link] = {}
    for leaf in {leaf for meaning in network.meanings.values() for leaf in ids_read(meaning)}:
        origin = None if leaf in network.scans else ending_of(leaf, network.relation)
        if isinstance(origin, Join):
            links[network.place(leaf)] = _link(leaf, origin)
    return replace(network, links=links)


def _link(leaf: str, join: Join) -> Link:
    """Returns how an outer join fills the side of a column up."""
    if join.kind != "left" or not gives(join.right, leaf):
        return Link()
    pairs: list[tuple[str, str]] = []
    for kept, given in join.equalities:
        if isinstance(kept, Column) and isinstance(given, Column) and kept.type != FLOAT64:
            stored = definition(kept.id, join.left)[0]
            if isinstance(stored, Column):
                pairs.append((stored.id, given.id))
    return Link(pairs=tuple(pairs), always=join.condition is not None or len(pairs) < len(join.equalities))


def _names(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns for each column that is equated the name of the class of columns that it equals."""
    names: dict[str, str] = {}
    for one, other in pairs:
        kept, lost = sorted((names.get(one, one), names.get(other, other)))
        names = {id: kept if name == lost else name for id, name in names.items()} | {one: kept, other: kept}
    return names


def _of_sides(operation: SetOperation, ids: Sequence[str], known: KeySources, tuples: Tuples) -> Rows | None:
    """Returns what columns of a set operation take from its sides."""
    matched = {column.id: column for column in operation.columns}
    left = tuples([matched[id].left for id in ids], operation.left, known)
    if operation.kind.startswith("except"):
        return left
    right = tuples([matched[id].right for id in ids], operation.right, known)
    if operation.kind.startswith("intersect"):
        return left if right is None else right if left is None else tuple(row for row in left if row in {*right})
    return None if left is None or right is None else tuple(dict.fromkeys((*left, *right)))


def _of_window(window: Window, id: str, known: KeySources, tuples: Tuples) -> Rows | None:
    """Returns what a window function gives that picks a value of another row: the values of its argument, NULL where
    there is no such row, and the default that the query says."""
    column = next(column for column in window.columns if column.id == id)
    if column.function not in _PICKING:
        return None
    picked = [column.arguments[0], *column.arguments[2:]]
    sides = [tuples(("picked",), Project(source=window.source, columns=(_computed(one),)), known) for one in picked]
    if None in sides:
        return None
    return tuple(dict.fromkeys([*(row for side in sides for row in side or ()), (None,)]))


def _computed(expression: Expression) -> Computed:
    return Computed(id="picked", name="", expression=expression)


def ids_read(expression: Expression) -> list[str]:
    """Returns the ids of the columns that an expression reads, in order."""
    return sorted({column.id for column in columns_of(expression)})
