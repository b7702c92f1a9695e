"""Gray box: for made-up neighbours, what noise is added to moves by no more than is declared, and all else is equal."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import cast

import pyarrow as pa

from dpquery.auditing.claims import problems_of_claims
from dpquery.auditing.databases import AuditedDatabase, Hall, for_simulation, visible
from dpquery.auditing.inputs import AuditedPlan, Groups, compare
from dpquery.auditing.questions import AuditedQuery, constants
from dpquery.auditing.report import ReportLine, Section
from dpquery.auditing.worlds import Maker, World
from dpquery.catalog import Catalog
from dpquery.errors import DPQueryError, QueryError
from dpquery.kernel.checks import blocks_of
from dpquery.plan import logical
from dpquery.plan.calendar import number_named
from dpquery.result.table import Result
from dpquery.units.blocks import UNDATED
from dpquery.units.declarations import Declarations

METHOD = (
    "Databases are made up that differ in one {unit} alone: with values at the declared bounds and far beyond them, "
    "missing values, values that are no numbers, groups that are not declared, and more rows than weigh in full. The "
    "engine computes its exact numbers on each of them. Between two such databases these numbers may move by no more "
    "than the plan declares, the noise may lose no more than is charged, and all else that can be seen must be equal."
)


SHAPES = 4
"""Pairs whose plans and answers are compared as an analyst sees them, each under a part of the queries."""
Inputs = tuple[Groups, ...]


@dataclass(slots=True)
class Seen:
    """What was seen of one query, or of one of its steps.

    Attributes:
        step: Which step of how many, in words; empty where the query is answered at once.
        plan: What is measured; None where it is refused.
    """

    question: AuditedQuery
    step: str = ""
    plan: AuditedPlan | None = field(default=None, repr=False)
    pairs: int = 0
    moved: int = 0
    reached: float = 0.0
    lost: float = 0.0
    problem: str = ""
    refused: str = ""
    worst: tuple[float, dict[str, pa.Table], dict[str, pa.Table]] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The query, and which step of it."""
        return self.question.text + self.step

    def tell(self, problem: str) -> None:
        """Keeps the first problem."""
        self.problem = self.problem or problem


@dataclass(slots=True)
class GrayBox:
    """The gray box over a catalog.

    Attributes:
        catalog: As it is declared.
        questions: What is asked.
        public: Public tables, where they are given.
        folder: For ledgers.
        left_out: What is not asked, for the report.
    """

    catalog: Catalog
    questions: Sequence[AuditedQuery]
    folder: Path
    public: Mapping[str, pa.Table] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    left_out: Sequence[str] = ()

    def run(self, pairs: int, *, first: int = 0, worlds: int = 2, guests: int = 0) -> Section:
        """Returns the section, after so many pairs of databases under a query, or a few more, and so many worlds.

        Args:
            guests: As for `Maker.world`.
        """
        simulated = for_simulation(self.catalog)
        fixed = Maker(catalog=simulated, random=Random(first), public=self.public)
        hall = Hall(simulated, self.folder)
        plans = self._plans(hall, fixed)
        made = 0
        for number in itertools.count(first):
            if not plans or (made >= worlds and sum(one.pairs for one in self.seen) >= pairs):
                break
            random = Random(number)
            maker = Maker(catalog=simulated, random=random, public=fixed.given, known=constants(plans.values()))
            self._look(hall, maker.world(guests), plans, random, compares_shapes=made == 0)
            made += 1
        hall.ledger.close()
        return self._section(made)

    def _section(self, worlds: int) -> Section:
        seen, unit = self.seen, self.catalog.privacy_unit
        asked = [one for one in seen if not one.refused]
        pairs, moved = sum(one.pairs for one in asked), sum(one.moved for one in asked)
        tight = sum(one.reached >= 0.999 for one in asked)
        made = f"{worlds} made-up {'world' if worlds == 1 else 'worlds'}"
        done = (
            f"{pairs:,} pairs of neighbours in {made} under {len(asked)} queries; the engine's numbers "
            f"differ in {moved:,} of them. {tight} of {len(asked)} queries reached what is declared of one of their "
            "numbers, so that a smaller bound would have been seen."
        )
        lines = tuple(_line(one) for one in asked)
        return Section(
            name="gray box",
            title="Do the engine's numbers depend on one person by no more than is declared?",
            method=METHOD.format(unit=unit),
            done=done,
            lines=lines,
            not_done=(*(f"{one.name}: {one.refused}" for one in seen if one.refused), *self.left_out),
        )

    def _plans(self, hall: Hall, maker: Maker) -> dict[int, AuditedPlan]:
        """Notes each query, its steps apart, and why it is refused; returns the plans by their places."""
        seen: list[Seen] = []
        with contextlib.closing(hall.open(maker.sources())) as database:
            for question in self.questions:
                seen += _planned(database, question)
        self.seen = seen
        return {place: one.plan for place, one in enumerate(seen) if one.plan is not None}

    def _look(
        self, hall: Hall, world: World, plans: Mapping[int, AuditedPlan], random: Random, *, compares_shapes: bool
    ) -> None:
        """Compares the databases of one world under all queries, one database after the other being open."""
        keys = {place: random.getrandbits(128) for place in plans}
        inputs: dict[int, list[Inputs]] = {place: [] for place in plans}
        for _, sources in world.databases:
            with contextlib.closing(hall.open(sources)) as database:
                for place in list(inputs):
                    try:
                        inputs[place].append(database.inputs(plans[place], keys[place]))
                    except Exception as error:
                        self.seen[place].tell(f"the engine failed on made-up data ({type(error).__name__})")
                        del inputs[place]
        for place, found in inputs.items():
            _compare_all(self.seen[place], world, found, plans[place], hall.catalog.declarations)
        if compares_shapes:
            pairs = random.sample(world.pairs, min(SHAPES, len(world.pairs)))
            for i, pair in enumerate(pairs):
                sides = (hall.open(world.databases[end][1]) for end in (pair.left, pair.right))
                with contextlib.ExitStack() as stack:
                    left, right = (stack.enter_context(contextlib.closing(side)) for side in sides)
                    for place in list(plans)[i :: len(pairs)]:
                        _compare_shapes(self.seen[place], left, right, plans[place])


def _planned(database: AuditedDatabase, question: AuditedQuery) -> list[Seen]:
    """Returns a query's steps in the first dialect that does not refuse it, else why the first of all does."""
    refused = ""
    for one in question.readings:
        try:
            steps = database.steps(one.text, one.options, one.params)
        except QueryError as error:
            refused = refused or str(error).split("\n", 1)[0]
            continue
        names = [f" (step {i} of {len(steps)})" for i in range(1, len(steps) + 1)] if len(steps) > 1 else [""]
        return [Seen(one, step=name, plan=plan) for name, plan in zip(names, steps, strict=True)]
    return [Seen(question, refused=refused)]


def _compare_all(
    one: Seen, world: World, inputs: Sequence[Inputs], prepared: AuditedPlan, declared: Declarations
) -> None:
    """Compares all pairs of a world under one query."""
    words = [name for name, _ in world.databases]
    for problem in problems_of_claims(prepared, inputs):
        one.tell(problem)
    for pair in world.pairs:
        here, there = inputs[pair.left], inputs[pair.right]
        one.pairs += 1
        label = f"{words[pair.left]} against {words[pair.right]}"
        if pair.block is not None and not _is_charged(prepared, declared, pair.block):
            if here != there:
                one.tell(f"rows of a block that is not charged move its numbers ({label})")
            continue
        found = compare(prepared, here, there)
        one.moved += found.moved
        one.reached = max(one.reached, *found.reached, 0.0)
        if one.worst is None or found.lost > one.worst[0]:
            one.worst = found.lost, world.databases[pair.left][1], world.databases[pair.right][1]
        one.lost = max(one.lost, found.lost)
        for problem in found.problems:
            one.tell(f"{problem} ({label})")


def _is_charged(prepared: AuditedPlan, declared: Declarations, block: str) -> bool:
    touched, axis = blocks_of(prepared.budgeted, declared), declared.blocks
    assert axis is not None
    if block == UNDATED:
        return touched.undated
    return any(first <= number_named(block, axis.by) <= last for first, last in touched.spans)


def _compare_shapes(one: Seen, left: AuditedDatabase, right: AuditedDatabase, prepared: AuditedPlan) -> None:
    """Compares what an analyst sees of two neighbours beside the noisy numbers: previews, then answers."""
    question = one.question
    if _preview(left, question) != _preview(right, question):
        one.tell("the plan, its price or its error tells neighbours apart")
    if one.step or any(aggregate.is_selected for aggregate in prepared.aggregates):
        return
    shapes = [_shape(database, question, prepared) for database in (left, right)]
    if shapes[0] != shapes[1]:
        one.tell("types, rows, charges or errors of the answer tell neighbours apart")


def _preview(database: AuditedDatabase, question: AuditedQuery) -> tuple[object, ...]:
    return database.preview(question.text, question.options, question.params)


def _shape(database: AuditedDatabase, question: AuditedQuery, prepared: AuditedPlan) -> tuple[object, ...]:
    """Returns what neighbours must have in common of an answer: what public keys fix of it, as far as no released
    number decides which rows are shown, or in which order."""
    keys = len({id for aggregate in prepared.aggregates for key in aggregate.keys for id in key.columns})
    try:
        answer = database.answer(question.text, question.options, question.params)
    except DPQueryError as error:
        return type(error), str(error)
    nodes = list(_nodes(prepared.result))
    is_fixed = _shows_keys(answer, keys) and not any(isinstance(n, logical.Filter | logical.Limit) for n in nodes)
    schema, count, columns, *rest = visible(answer, keys if is_fixed else 0)
    if not is_fixed:
        return schema, *rest
    rows = list(zip(*cast(list[list[object]], columns), strict=True))
    if any(isinstance(node, logical.Sort) for node in nodes):
        rows.sort(key=repr)  # the order is that of released numbers
    return schema, count, rows, *rest


def _nodes(relation: logical.Relation) -> Iterator[logical.Relation]:
    yield relation
    for source in logical.sources(relation):
        yield from _nodes(source)


def _shows_keys(answer: Result, keys: int) -> bool:
    """Whether the first columns of an answer are its keys, and no others of it decide about rows."""
    return len(answer.columns) - answer.accuracy.columns.get_level_values(0).nunique() == keys


def _line(one: Seen) -> ReportLine:
    figures = {"pairs": one.pairs, "moved": one.moved, "reached": one.reached, "lost": one.lost}
    return ReportLine(name=one.name, figures=figures, problem=one.problem)
