"""What an epsilon means, in words, figures and pictures: for the command line and the owner's page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape

from dpquery.accounting import meaning
from dpquery.auditing.svg import STYLE, Curve, plot
from dpquery.catalog import Catalog
from dpquery.frontends.text import grid
from dpquery.kernel.accountant import Budget, parts_of
from dpquery.kernel.loss import ZERO, PrivacyLoss

PRIORS = ("0.001", "0.01", "0.1", "0.5", "0.9")
ALARMS = ("0.001", "0.01", "0.05", "0.1", "0.25")
SMALL = Fraction(1, 10**6)
WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A loss that somebody may cause, with a name: of one query, of a dataset, of an analyst."""

    name: str
    loss: PrivacyLoss


def accounts_of(catalog: Catalog) -> list[Account]:
    """Returns the whole budget of a catalog and that of each analyst."""
    return of_budgets(catalog.dataset, catalog.budget, catalog.analysts)


def of_budgets(dataset: str, budget: Budget, analysts: Mapping[str, Budget]) -> list[Account]:
    """Returns the whole budget of a dataset and that of each analyst, as they were promised."""
    own = [Account(name=f"analyst {name}", loss=parts_of(given)) for name, given in analysts.items()]
    return [Account(name=f"{dataset}, all analysts together", loss=parts_of(budget)), *own]


def together(account: Account, count: int) -> Account:
    """Returns what an account means for so many relatives who are alike."""
    return Account(name=f"{count} relatives, {account.name}", loss=meaning.relatives(account.loss, count))


def text(account: Account, *, count: int = 1, others: Sequence[Account] = ()) -> str:
    """Returns the meaning of a loss as text: errors of attackers, beliefs, a group, other accounts, and deployments.

    Args:
        count: Of relatives, who count together.
    """
    loss = account.loss
    lines = [f"{account.name}: {loss}", *_aside(loss), ""]
    lines += [f"The best attacker who guesses between two equally likely cases is right at most {_percent(loss)}."]
    lines += ["", "How well can anybody tell whether one person is in the data (or has which of two records)?"]
    lines += grid(["false alarms", "hits, at most"], [[_share(x), _hits(loss, x)] for x in ALARMS], [True, True])
    lines += ["", "What may somebody believe about one person?", *_beliefs(loss)]
    if count > 1:
        group = together(account, count).loss
        lines += ["", f"{count} relatives who are alike count together: {group}", *_beliefs(group)]
    if others:
        rows = [[one.name, str(one.loss), _percent(one.loss)] for one in others]
        lines += ["", "Budgets", *grid(["who", "may cause", "best guess"], rows, [False, False, True])]
    lines += ["", "Beside published deployments, of which each protects something else"]
    rows = [[one.name, str(one.loss), _percent(one.loss)] for one in meaning.DEPLOYMENTS]
    lines += [*grid(["what", "as published", "best guess"], rows, [False, False, True]), ""]
    for one in meaning.DEPLOYMENTS:
        words = f"{one.name}: protects {one.unit}, {one.neighbours}. {one.source}"
        lines += textwrap.wrap(words, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _aside(loss: PrivacyLoss) -> Iterator[str]:
    if loss.rho:
        delta = loss.delta or SMALL
        yield f"  as epsilon: {float(meaning.in_epsilon(loss)):.3g} at delta {float(delta):g}"
    if loss.delta:
        yield f"  with a chance of {float(loss.delta):g} nothing is promised"


def _beliefs(loss: PrivacyLoss) -> list[str]:
    rows = []
    for prior in PRIORS:
        low, high = meaning.posterior(prior, loss)
        rows.append([_share(prior), _share(low), _share(high)])
    return grid(["before", "after, at least", "after, at most"], rows, [True, True, True])


def _percent(loss: PrivacyLoss) -> str:
    return _share(meaning.best_guess(loss))


def _hits(loss: PrivacyLoss, alarms: str) -> str:
    return _share(1 - meaning.trade_off(loss)(alarms))


def _share(amount: Fraction | str) -> str:
    """Returns a share as a percentage.

    Example:
        >>> _share("0.5"), _share(Fraction(1, 3)), _share("0.0001"), _share(Fraction(999_999, 1_000_000))
        ('50 %', '33.3 %', '0.01 %', '> 99.9 %')
    """
    value = 100 * float(Fraction(amount))
    if 99.95 < value < 100:
        return "> 99.9 %"
    return f"{value:.3g} %"


# Pages.


def curves(accounts: Sequence[Account], points: int = 101) -> str:
    """Returns the plot of what attackers reach, a curve for each account."""
    places = [Fraction(i, points - 1) for i in range(points)]
    drawn = [
        Curve(name=one.name, points=[(float(x), float(meaning.trade_off(one.loss)(x))) for x in places])
        for one in accounts
    ]
    guessing = Curve(name="guessing", points=[(0, 1), (1, 0)], is_dotted=True)
    return plot(
        [*drawn, guessing],
        x="false alarms",
        y="misses, at least",
        across=(0, 1),
        up=(0, 1),
        label="The best attacker's misses against false alarms; lower curves protect less",
    )


def beliefs(accounts: Sequence[Account], points: int = 101) -> str:
    """Returns the plot of beliefs after all answers against those before, the highest for each account."""
    places = [Fraction(i, points - 1) for i in range(points)]
    drawn = [
        Curve(name=one.name, points=[(float(x), float(meaning.posterior(x, one.loss)[1])) for x in places])
        for one in accounts
    ]
    nothing = Curve(name="nothing is learnt", points=[(0, 0), (1, 1)], is_dotted=True)
    return plot(
        [*drawn, nothing],
        x="belief before",
        y="belief after, at most",
        across=(0, 1),
        up=(0, 1),
        label="What anybody may believe about one person after all answers, against before",
    )


def section(accounts: Sequence[Account]) -> str:
    """Returns the meaning of accounts as HTML, for a page that has the styles of plots."""
    shown = [one for one in accounts if one.loss != ZERO]
    published = [Account(name=one.name, loss=one.loss) for one in meaning.DEPLOYMENTS]
    sources = "".join(
        f"<li>{escape(one.name)}: {escape(one.unit)}, {escape(one.neighbours)}. {escape(one.source)}</li>"
        for one in meaning.DEPLOYMENTS
    )
    return (
        f"<h3>Attackers</h3><p>{ATTACKERS}</p>{curves(shown)}<h3>Beliefs</h3><p>{BELIEFS}</p>{beliefs(shown)}"
        f"<h3>In figures</h3>{_table('meanings', 'loss', shown)}"
        f"<h3>Beside published deployments</h3>{_table('deployments', 'as published', published)}"
        f"<p>{DEPLOYMENTS}</p><ul>{sources}</ul>"
    )


ATTACKERS = (
    "Somebody must tell from all answers whether one person is in the data, or has which of two records, and knows "
    "everything else. Who raises few false alarms misses most people: no attacker comes below the curve."
)
BELIEFS = (
    "What anybody may think likely about one person before the answers, and at most after them. Where there is a "
    "delta, answers of a chance of that order may tell more."
)
DEPLOYMENTS = (
    "Figures are computed from the parameters as their sources publish them. Each protects something else than this "
    "dataset does, so they compare only where unit and neighbours are alike."
)


def _table(place: str, losses: str, accounts: Sequence[Account]) -> str:
    rows = "".join(
        f"<tr><td>{escape(one.name)}</td><td>{escape(str(one.loss))}</td><td class='number'>{_percent(one.loss)}</td>"
        f"<td class='number'>{_share(meaning.posterior('0.01', one.loss)[1])}</td>"
        f"<td class='number'>{_hits(one.loss, '0.05')}</td></tr>"
        for one in accounts
    )
    figures = ("best guess of two", "belief of 1 % becomes at most", "hits at 5 % false alarms")
    head = "".join(f"<th class='number'>{one}</th>" for one in figures)
    return (
        f"<div class='scroll'><table id='{place}'><thead><tr><th>what</th><th>{losses}</th>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def page(accounts: Sequence[Account], title: str) -> str:
    """Returns a page that needs nothing else."""
    looks = (
        ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;"
        "padding:0 1rem}h1{font-size:1.5rem;margin:0}h3{font-size:1.15rem;margin:2rem 0 .4rem}p,li{max-width:46rem;"
        "overflow-wrap:anywhere}table{border-collapse:collapse;width:100%;font-size:.9rem}th{text-align:left;"
        "line-height:1.2}th,td{padding:.3rem .7rem .3rem 0;border-bottom:1px solid #8884;vertical-align:top}"
        ".number{text-align:right}td.number{white-space:nowrap}.scroll{overflow-x:auto}"
        ".legend span{display:inline-block;margin-right:1.2rem}"
        "@media (max-width:40rem){body{margin:1rem auto}ul{padding-left:1.2rem}table{font-size:.8rem}"
        "th,td{padding-right:.3rem}}"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{looks}{STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"{section(accounts)}</body></html>"
    )
