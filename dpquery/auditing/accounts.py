"""The ledger replayed: its chain, the sums of all accounts, and each charge against the noise that was stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.auditing.laws import loss_of
from dpquery.auditing.questions import charged
from dpquery.auditing.report import Line, Section
from dpquery.backends.base import Backend
from dpquery.catalog import Catalog
from dpquery.errors import DPQueryError, InternalError, LedgerError
from dpquery.kernel.accountant import charge_of
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.noise_laws import LAWS
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan, Measure, Noise, PrivateAggregate
from dpquery.kernel.sensitivity import sensitivity
from dpquery.ledger.entries import Entry, State
from dpquery.ledger.ledger import Ledger
from dpquery.reuse.dividing import Reuse
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.releases import Part, Release
from dpquery.reuse.store import Store
from dpquery.reuse.text import Fingerprints
from dpquery.session import pipeline
from dpquery.units.declarations import Neighbours

METHOD = (
    "Every entry of the ledger is followed from the first: each is chained to the one before by a hash. Charges are "
    "added up anew and compared with every limit. Where the answer of a charge is still stored, its query is planned "
    "again, its sensitivity derived anew, and the loss computed from the noise that was really used: it may not be "
    "larger than what was charged."
)
PARTS = ("epsilon", "rho", "delta")


def accounts(catalog: Catalog, ledger: Ledger, public: Backend) -> Section:
    """Returns the section.

    Args:
        public: Knows the public tables; no private row is read.
    """
    try:
        count = ledger.verify()
        entries = ledger.entries()
    except LedgerError as error:
        broken = Line(name="the chain", problem=str(error))
        return Section(name="ledger", title=TITLE, method=METHOD, done="The ledger cannot be read.", lines=(broken,))
    charges = [entry for entry in entries if entry.kind.value == "charge"]
    stored = _stored(ledger)
    recomputed = [
        _recomputed(entry, stored[entry.seq], catalog, ledger, public) for entry in charges if stored[entry.seq]
    ]
    done = (
        f"{count:,} entries, chained without a gap; {len(charges):,} charges added up; "
        f"{sum(bool(line.figures) for line in recomputed):,} of them computed anew from stored answers."
    )
    pending = [entry for entry in charges if entry.state is State.PENDING]
    risks = [f"{len(pending):,} charges have no answer (failed, cancelled, or still running); they count all the same."]
    return Section(
        name="ledger",
        title=TITLE,
        method=METHOD,
        done=done,
        lines=(*_sums(ledger, charges), *recomputed),
        risks=tuple(risks if pending else ()),
        not_done=tuple(f"charge {line.name}: {line.note}" for line in recomputed if line.note),
    )


TITLE = "Does the ledger add up, and was every charge enough for the noise of its answer?"


def _stored(ledger: Ledger) -> defaultdict[int, list[Release]]:
    """Returns the stored releases of the data's version by their entries."""
    found = defaultdict[int, list[Release]](list)
    for release in Store(ledger).all(ledger.data_version):
        found[release.entry].append(release)
    return found


def _sums(ledger: Ledger, charges: Sequence[Entry]) -> Iterator[Line]:
    """Yields the accounts of the dataset and of each analyst, added up by entries; in the block that has most."""
    for name in (None, *dict.fromkeys(entry.analyst for entry in charges)):
        own = [entry for entry in charges if name in (None, entry.analyst)]
        limit, told, found = ledger.limit(name), ledger.spent(name), _most(own)
        figures = {part: float(getattr(found, part)) for part in PARTS if getattr(limit, part)}
        problem = ""
        for part in PARTS:
            if getattr(found, part) > getattr(limit, part):
                problem = f"charges add up to {part} {float(getattr(found, part)):g}, above the limit"
            elif getattr(found, part) > getattr(told, part):
                problem = f"charges add up to {part} {float(getattr(found, part)):g}, and the account holds less"
        yield Line(
            name=f"the account of {'all analysts together' if name is None else name}", figures=figures, problem=problem
        )


def _most(entries: Iterable[Entry]) -> PrivacyLoss:
    """Returns the sum of charges; where rows are in blocks, of those to all blocks alone, which is a lower bound."""
    losses = [entry.loss for entry in entries if entry.blocks in ("", "*")]
    return sum(losses, start=PrivacyLoss())


def _recomputed(entry: Entry, releases: Sequence[Release], catalog: Catalog, ledger: Ledger, public: Backend) -> Line:
    """Returns a charge beside the loss that follows from the noise which was used."""
    name = f"{entry.seq}: {entry.query}"
    if "\n-- params:" in entry.query or ";\n" in entry.query:
        return Line(name=name, note="it has parameters, or is of several queries")
    try:
        wanted = _planned(entry, catalog, ledger, public)
        found = [_budgeted(release, wanted, catalog.neighbours) for release in releases]
    except (DPQueryError, LookupError) as error:
        return Line(name=name, note=f"it cannot be planned any more ({type(error).__name__})")
    if None in found:
        return Line(name=name, note="it is planned otherwise today")
    plan = BudgetedPlan(aggregates=tuple(one for one in found if one is not None))
    try:
        loss = charge_of(plan, ledger.budget.kind, catalog.neighbours)
    except InternalError:
        return Line(name=name, problem="its noise cannot be paid for in the ledger's currency")
    problem = "".join(
        f"its noise loses {part} {float(getattr(loss, part)):.9g}, more than {float(getattr(entry.loss, part)):.9g}"
        for part in PARTS
        if getattr(loss, part) > getattr(entry.loss, part)
    )
    part = "epsilon" if entry.loss.epsilon else "rho"
    figures = {"charged": float(getattr(entry.loss, part)), "computed": float(getattr(loss, part))}
    return Line(name=name, figures=figures, problem=problem)


def _planned(entry: Entry, catalog: Catalog, ledger: Ledger, public: Backend) -> tuple[Wanted, ...]:
    """Returns what a query measures when it is planned for what it was charged."""
    request = charged(entry, catalog).request(entry.query, None, catalog.defaults)
    prepared = pipeline.plan((request,), catalog=catalog, ledger=ledger, public=public, derives=True)
    reuse = Reuse(
        store=Store(ledger),
        version=ledger.data_version,
        catalog=Fingerprints(catalog),
        analyst=entry.analyst,
        fresh=True,
    )
    return pipeline.divide(prepared, ledger=ledger, reuse=reuse).wanted


def _budgeted(release: Release, wanted: Sequence[Wanted], neighbours: Neighbours) -> BudgetedAggregate | None:
    """Returns what was measured with the losses of the noise that was used; None where the plan has no such thing."""
    for one in wanted:
        aggregate = one.budgeted.aggregate
        if one.asked is None or one.asked.frame != release.frame:
            continue
        known = dict(zip(one.asked.measures, aggregate.measures, strict=True))
        if not known.keys() >= {part.measure for part in release.parts}:
            continue
        pairs = [(known[part.measure], part) for part in release.parts]
        noise = tuple(_noise(aggregate, measure, part, neighbours) for measure, part in pairs)
        measured = replace(aggregate, measures=tuple(measure for measure, _ in pairs))
        return BudgetedAggregate(aggregate=measured, noise=noise, selection_delta=release.delta)
    return None


def _noise(aggregate: PrivateAggregate, measure: Measure, part: Part, neighbours: Neighbours) -> Noise:
    """Returns the noise of a measure with its loss: l1 / b, or l2^2 / 2 v; of a choice what was stored of it."""
    law = part.noise
    if not LAWS[law.mechanism].is_added:
        return Noise(mechanism=law.mechanism, loss=part.loss)
    moved = sensitivity(aggregate, measure, neighbours, int(aggregate.steps(measure) / Fraction(law.steps)))
    return Noise(mechanism=law.mechanism, loss=loss_of(law, moved.l1, moved.l2_squared, law.parameter))
