"""An own law of noise against what its author claims: `dpquery audit --mechanism MODULE:NAME`.

What it claims is looked at for many losses, and its sampler is compared with it by events whose chances are claimed.
A right law is refused with a chance of at most FALSE_ALARM in one audit.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from dpquery.auditing.chances import empirical_epsilon, is_unlikely
from dpquery.auditing.report import Report, ReportLine, Section
from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import zcdp_to_approximate
from dpquery.mechanisms.own_claims import Claimed, Integers, NotOffered, claimed, problems_of
from dpquery.mechanisms.own_laws import Audit
from dpquery.mechanisms.own_source import Loaded, load

SAMPLES = 200_000
FALSE_ALARM = 1e-8
"""Of one audit, over all of its tests."""
STEPS = (1, 3, 2048)
LOSSES = {"epsilon": ("1/10", "1", "3"), "rho": ("1/200", "1/10", "1")}
SINGLE = 2_000
"""Samples that are drawn one by one, as a release draws them."""
PAIRS = 20_000
"""Samples on either of two neighbours, of the black box."""
DELTA = Fraction(1, 1000)
VALUES = 48
MODULI = (2, 3, 4, 5, 7, 8, 16)
COMPARED, COLLIDE = 512, 1e-12
METHOD = (
    "For several losses and numbers of steps, the chances that the law claims are added up, and compared with the tail "
    "that it claims and with themselves on all neighbours. Its samples are then compared with these chances: how often "
    "they are at most a bound, equal to a value, or leave a remainder, whether they are whole numbers, follow each "
    "other independently, are the same when they are drawn one by one, and are others in another process. At last an "
    "epsilon is bounded from below by the samples alone."
)


OTHERS = 12
"""Tests of one loss and number of steps beside two of each event: nine of pairs, and two bounds of the black box."""
Event = tuple[str, Callable[[Integers], NDArray[np.bool_]], float]
"""In words, as a function of samples, and its claimed chance."""


@dataclass(frozen=True, slots=True)
class Setting:
    """For what a law is asked, and what it claims there."""

    steps: int
    loss: Fraction
    claimed: Claimed


def audit_law(name: str, *, samples: int = SAMPLES) -> tuple[Report, Audit | None]:
    """Returns what contradicts the claims of a law MODULE:NAME, and the record of the audit if nothing does.

    Args:
        samples: How many are drawn for each loss and number of steps; more of them see smaller mistakes.
    Raises:
        InvalidLossError: There is no such law.
    """
    loaded, now = load(name), datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
    if samples < PAIRS:
        raise InvalidLossError(f"an audit draws at least {PAIRS:,} samples")
    claims, settings = _claims(loaded)
    drawn = () if any(line.problem for line in claims) else tuple(_drawn(loaded, settings, samples))
    sections = [_section("claims", "Do the claims of the law agree with each other?", claims)]
    if drawn:
        sections.append(_section("samples", "Is it drawn as it is claimed?", drawn))
    law, losses = loaded.law, [setting.loss for setting in settings]
    words = f"{law.currency} as it is asked, for noise on one whole number; proof: {law.proof}"
    version = metadata.version("dpquery")
    report = Report(dataset=name, promise=words, version=version, time=now, sections=tuple(sections))
    if not report.is_clean:
        return report, None
    return report, Audit(
        law=name,
        digest=loaded.digest,
        currency=law.currency,
        losses=(min(losses), max(losses)),
        steps=max(setting.steps for setting in settings),
        samples=samples,
        time=now,
    )


def _section(name: str, title: str, lines: tuple[ReportLine, ...]) -> Section:
    found = sum(bool(line.problem) for line in lines)
    what = "combinations of steps and loss" if name == "claims" else "tests"
    done = f"{len(lines)} {what}; {found or 'no'} {'contradiction' if found == 1 else 'contradictions'}."
    return Section(name=name, title=title, method=METHOD, done=done, lines=lines)


def _claims(loaded: Loaded) -> tuple[tuple[ReportLine, ...], list[Setting]]:
    """Returns a line for each setting, and the settings that the law is made for."""
    lines, settings, law = [], list[Setting](), loaded.law
    for steps in STEPS:
        for loss in map(Fraction, LOSSES[law.currency]):
            name, note, problem = f"{steps} steps, {law.currency} {float(loss):g}", "", ""
            try:
                found = claimed(law, steps, loss)
                problem = next(problems_of(law, steps, loss, found), "")
                settings.append(Setting(steps, loss, found))
            except NotOffered as error:
                note = error.reason
            except Exception as error:
                problem = f"its claims cannot be read ({type(error).__name__}: {error})"
            lines.append(ReportLine(name=name, problem=problem, note=note))
    if not settings:
        lines.append(ReportLine(name="all of it", problem="the law is made for none of what it was asked"))
    return tuple(lines), settings


def _drawn(loaded: Loaded, settings: list[Setting], samples: int) -> Iterator[ReportLine]:
    has_failed = False
    for one in settings:
        events = list(_events(one.claimed))
        failure = FALSE_ALARM / len(settings) / (2 * len(events) + OTHERS)
        name = f"{one.steps} steps, {loaded.law.currency} {float(one.loss):g}"
        try:
            noise = _sampled(loaded, one, samples)
            single = np.concatenate([_sampled(loaded, one, 1) for _ in range(SINGLE)])
            problem = next(_unlike(one, events, noise, single, failure), "")
            seen, most = _black_box(loaded, one, noise, failure)
        except Exception as error:
            yield ReportLine(name=name, problem=f"it cannot be drawn ({type(error).__name__}: {error})")
            return
        if not problem and seen > most:
            problem = f"samples betray an epsilon of {seen:.4f}, and {most:.4f} is claimed"
        has_failed |= bool(problem)
        yield ReportLine(name=name, figures={"epsilon seen": seen, "epsilon charged": most}, problem=problem)
    if not has_failed:
        yield _in_other_processes(loaded, settings)


class NotWhole(Exception):
    """What was returned is not a vector of whole numbers."""


def _sampled(loaded: Loaded, one: Setting, size: int) -> Integers:
    noise = loaded.law.sample(one.steps, one.loss, size)
    if not isinstance(noise, np.ndarray) or noise.dtype != np.int64 or noise.shape != (size,):
        kind = f"{noise.dtype} of shape {noise.shape}" if isinstance(noise, np.ndarray) else type(noise).__name__
        raise NotWhole(f"{kind} in place of {size} whole numbers of int64")
    return noise


def _unlike(one: Setting, events: Sequence[Event], noise: Integers, single: Integers, failure: float) -> Iterator[str]:
    """Yields in what samples differ from what is claimed of them."""
    half = len(noise) // 2
    for words, event, chance in events:
        for drawn, how in ((noise, ""), (single, ", drawn one by one")):
            hits = int(event(drawn).sum())
            if is_unlikely(hits, len(drawn), chance, failure):
                yield f"{words} comes with {hits / len(drawn):.4%}{how}, and {chance:.4%} is claimed"
    for words, first, second in (
        ("one after the other", noise[0 : 2 * half : 2], noise[1 : 2 * half : 2]),
        ("of both halves", noise[:half], noise[half : 2 * half]),
        ("drawn one by one", single[::2], single[1::2]),
    ):
        yield from _dependent(one.claimed, words, first, second, failure)


def _dependent(found: Claimed, words: str, first: Integers, second: Integers, failure: float) -> Iterator[str]:
    """Yields how pairs of samples are not independent: equal, opposite, or both above 0 too often or too rarely."""
    chances = found.chances
    above = float(chances[-found.first + 1 :].sum())
    events = {
        "are equal": (first == second, float((chances**2).sum())),
        "are opposite": (first == -second, float((chances * chances[::-1]).sum())),
        "are both above 0": ((first > 0) & (second > 0), above**2),
    }
    for name, (hits, chance) in events.items():
        if is_unlikely(int(hits.sum()), len(first), chance, failure):
            yield f"samples {words} {name} with {hits.mean():.4%}, and independent ones with {chance:.4%}"


def _events(found: Claimed) -> Iterator[Event]:
    """Yields events and their claimed chances: bounds, single values and remainders."""
    chances, first = found.chances, found.first
    below = np.minimum(np.cumsum(chances), 1.0)
    levels = [2.0**-j for j in range(2, 17)]
    for level in sorted({*levels, *(1 - level for level in levels), *(i / 32 for i in range(1, 32))}):
        place = int(np.searchsorted(below, level))
        yield f"noise of at most {first + place}", lambda n, k=first + place: n <= k, float(below[place])  # type: ignore[misc]
    for place in np.argsort(chances)[::-1][:VALUES].tolist():
        yield f"noise of {first + place}", lambda n, k=first + place: n == k, float(chances[place])  # type: ignore[misc]
    noise = np.arange(first, -first + 1)
    for modulus in MODULI:
        for rest in range(modulus):
            chance = float(chances[noise % modulus == rest].sum())
            yield f"a remainder of {rest} by {modulus}", lambda n, m=modulus, r=rest: n % m == r, chance  # type: ignore[misc]


def _black_box(loaded: Loaded, one: Setting, noise: Integers, failure: float) -> tuple[float, float]:
    """Returns an epsilon that samples on two neighbours betray, and the one that is claimed at the same delta."""
    here, there = noise[:PAIRS].astype(float), _sampled(loaded, one, PAIRS).astype(float) + one.steps
    if loaded.law.currency == "epsilon":
        return empirical_epsilon(here, there, failure=failure), float(one.loss)
    most = float(zcdp_to_approximate(one.loss, DELTA))
    return empirical_epsilon(here, there, float(DELTA), failure), most


_CHILD = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from fractions import Fraction
from dpquery.mechanisms.own_source import load
law = load(sys.argv[2]).law
print(json.dumps(law.sample(int(sys.argv[3]), Fraction(sys.argv[4]), int(sys.argv[5])).tolist()))
"""


def _in_other_processes(loaded: Loaded, settings: list[Setting]) -> ReportLine:
    """Returns whether the module, run anew here and in a fresh process, draws other samples, where chance makes none
    equal."""
    one = min(settings, key=lambda one: float((one.claimed.chances**2).sum()))
    alike, name = float((one.claimed.chances**2).sum()), "samples of other processes"
    if alike**COMPARED > COLLIDE:
        return ReportLine(name=name, problem="nearly all of its samples are equal, so that nothing can be told")
    given = [json.dumps(sys.path), loaded.name, str(one.steps), str(one.loss), str(COMPARED)]
    command = [sys.executable, "-c", _CHILD, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        return ReportLine(name=name, problem=f"it cannot be drawn in a fresh process: {done.stderr.strip()[-200:]}")
    if json.loads(done.stdout.splitlines()[-1]) == _sampled(load(loaded.name), one, COMPARED).tolist():
        return ReportLine(name=name, problem="fresh processes draw the same samples: the random numbers are seeded")
    return ReportLine(name=name)
