"""An own accountant against known compositions: `dpquery audit --mechanism MODULE:NAME`, where it is one.

It may never be below what randomised responses and Gaussian noise of the same losses have together, whose deltas are
known; it may not fall as losses are added or grow, nor rise with delta; and the order of losses may not matter.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from fractions import Fraction
from importlib import metadata

from dpquery.auditing.report import Report, ReportLine, Section
from dpquery.kernel.loss import PrivacyLoss
from dpquery.mechanisms.own_composition import Losses, OwnAccounting, claimed
from dpquery.mechanisms.own_laws import Audit
from dpquery.mechanisms.own_source import load_accountant

DELTAS = tuple(Fraction(1, 10**power) for power in (3, 6, 9))
SLACK = Fraction(1, 10**9)
"""Of floats that are added up in another order."""
METHOD = (
    "For many sequences of losses, alike and different, in epsilon, in rho and in both, and several deltas, the "
    "epsilon that the accountant claims is compared with the delta that randomised responses and Gaussian noise of "
    "these losses have together: a smaller one would be wrong for them. Losses are then put in another order, one is "
    "added, one is made larger, and delta is made larger."
)


def _losses(epsilon: str, count: int, rho: str = "", times: int = 0) -> Losses:
    pure = [PrivacyLoss(epsilon=Fraction(epsilon))] * count if epsilon else []
    return (*pure, *([PrivacyLoss(rho=Fraction(rho))] * times if rho else []))


def _different(count: int) -> Losses:
    return tuple(PrivacyLoss(epsilon=Fraction(place + 1, 20)) for place in range(count))


PANEL: dict[str, Losses] = {
    **{
        f"{k} of epsilon {e}": _losses(e, k) for e, k in itertools.product(("1/100", "1/10", "1", "4"), (1, 2, 10, 300))
    },
    **{f"{k} of rho {r}": _losses("", 0, r, k) for r, k in itertools.product(("1/1000", "1/20", "2"), (1, 2, 10, 300))},
    **{f"{k} different epsilons": _different(k) for k in (2, 5, 12)},
    **{
        f"{k} of epsilon 1/10 and {n} of rho 1/50": _losses("1/10", k, "1/50", n)
        for k, n in ((1, 1), (20, 5), (3, 100))
    },
    "one of epsilon 3 and 200 of epsilon 1/50": (*_losses("3", 1), *_losses("1/50", 200)),
}


def audit_accountant(name: str) -> tuple[Report, Audit | None]:
    """Returns what contradicts the claims of an accountant MODULE:NAME, and the record of the audit if nothing does.

    Raises:
        InvalidLossError: There is no such accountant.
    """
    digest, accountant = load_accountant(name)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
    lines = tuple(_looked_at(accountant, words, losses) for words, losses in PANEL.items())
    found = sum(bool(line.problem) for line in lines)
    what = "contradiction" if found == 1 else "contradictions"
    done = f"{len(lines)} sequences of losses at {len(DELTAS)} deltas; {found or 'no'} {what}."
    title = "Does the accountant compose losses to no less than they have together?"
    section = Section(name="composition", title=title, method=METHOD, done=done, lines=lines)
    words = f"(epsilon, delta) of losses in epsilon and rho, however they are chosen; proof: {accountant.proof}"
    report = Report(dataset=name, promise=words, version=metadata.version("dpquery"), time=now, sections=(section,))
    if not report.is_clean:
        return report, None
    most = max(map(len, PANEL.values()))
    each = [loss.epsilon or loss.rho for losses in PANEL.values() for loss in losses]
    record = Audit(
        law=name,
        digest=digest,
        currency="composition",
        losses=(min(each), max(each)),
        steps=most,
        samples=0,
        time=now,
    )
    return report, record


def _looked_at(accountant: OwnAccounting, words: str, losses: Losses) -> ReportLine:
    try:
        found = [claimed(accountant, losses, delta) for delta in DELTAS]
        problem = next(_problems(accountant, losses, found), "")
    except Exception as error:
        return ReportLine(name=words, problem=str(getattr(error, "reason", "")) or f"{type(error).__name__}: {error}")
    figures = {f"epsilon at {float(delta):g}": float(one) for delta, one in zip(DELTAS, found, strict=True)}
    return ReportLine(name=words, figures=figures, problem=problem)


def _problems(accountant: OwnAccounting, losses: Losses, found: list[Fraction]) -> Iterator[str]:
    """Yields how claims contradict each other."""
    if any(a > b * (1 + SLACK) + SLACK for a, b in itertools.pairwise(found)):
        yield "a larger delta costs a larger epsilon"
    first, *rest = losses
    half = len(losses) // 2
    larger = PrivacyLoss(epsilon=first.epsilon * 2, rho=first.rho * 2)
    for delta, own in zip(DELTAS, found, strict=True):
        for other in ((*reversed(losses),), (*losses[half:], *losses[:half]), (*losses[1::2], *losses[::2])):
            if abs(claimed(accountant, other, delta) - own) > own * SLACK + SLACK:
                yield "the order of losses matters"
        if claimed(accountant, losses, delta) != own:
            yield "it claims something else when it is asked again"
        for more, what in (
            ((*losses, PrivacyLoss(epsilon=Fraction(1, 10))), "a further epsilon"),
            ((*losses, PrivacyLoss(rho=Fraction(1, 100))), "a further rho"),
            ((larger, *rest), "a larger loss"),
        ):
            if claimed(accountant, more, delta) < own * (1 - SLACK) - SLACK:
                yield f"it falls with {what}"
