"""`dpquery demo --attack`: secrets are taken out of slightly noisy answers, and are not out of dpquery's."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from html import escape
from pathlib import Path

import typer

from dpquery.auditing.attacks import (
    EPSILON,
    FEW,
    PEOPLE,
    QUERIES,
    TRIALS,
    Attack,
    Fallen,
    all_subsets,
    attacks,
    random_subsets,
    reconstruction_of_dpquery,
)
from dpquery.auditing.svg import STYLE, Curve, bar, plot
from dpquery.frontends.text import bar as text_bar
from dpquery.frontends.text import grid

FILE = "attack.html"
TITLE = "Attacks on answers, and on dpquery"
WITH_4E = (
    f"{FEW} people have a secret bit each, and somebody answers how many of any group have it, with an error of at "
    "most E. Whoever asks of all groups and takes any bits that fit has at most 4 E of them wrong (Dinur, Nissim "
    "2003), even where errors are chosen to hide as much as they can, as here."
)
WITH_FEW = (
    f"{PEOPLE} people, and only {QUERIES} random groups. Answers get less and less noise; least squares finds the "
    "bits. Guessing gets half of them wrong."
)
ON_DPQUERY = (
    f"On dpquery with a whole budget of epsilon {EPSILON}, the same questions are answered too, and get the noise that "
    "the budget demands. No attack is right more often than {most:.1%} on average, and the first of these reaches "
    f"nearly that; in {TRIALS} attempts of the others chance makes up to a tenth more or less."
)


def run_attacks(folder: Path) -> None:
    """Runs all attacks, prints what each finds, and writes a page with pictures into a folder."""
    few, many = all_subsets(), random_subsets()
    _said(TITLE, f"1  Reconstruction with every group\n{WITH_4E}")
    _said(*grid(["E", "wrong bits", "4 E says at most", ""], [_few(one) for one in few], [True] * 3 + [False]))
    _said("", f"2  Reconstruction with few groups\n{WITH_FEW}")
    typer.echo("\n".join(grid(["error", "wrong bits", ""], [_many(one) for one in many], [True, True, False])))
    on_dpquery = reconstruction_of_dpquery()
    _said("", f"   the same on dpquery: errors up to {on_dpquery.error:,.0f}, {on_dpquery.wrong:.0%} of bits wrong")
    found = []
    for attack in attacks():
        found.append(attack)
        if len(found) == 1:
            _said("", f"3  Other attacks: how often they are right\n{ON_DPQUERY.format(most=attack.most)}")
        _said("", f"{attack.name}: {attack.told}")
        for name, share in (("no protection", attack.against), ("dpquery", attack.protected)):
            typer.echo(f"  {name:14} {text_bar(Fraction(share).limit_denominator(10**6))} {share:4.0%}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(page(few, many, on_dpquery, found), encoding="utf-8")
    typer.echo(f"\nWith pictures: {folder / FILE}")


def _said(*lines: str) -> None:
    typer.echo("\n".join(lines))


def _few(one: Fallen) -> list[str]:
    return [f"{one.error:g}", f"{one.wrong * FEW:.0f} of {FEW}", f"{(one.bound or 0) * FEW:g}", _bar(one)]


def _many(one: Fallen) -> list[str]:
    return [f"{one.error:g}", f"{one.wrong:.0%}", _bar(one)]


def _bar(one: Fallen) -> str:
    return text_bar(Fraction(one.wrong).limit_denominator(10**6))


def page(few: Sequence[Fallen], many: Sequence[Fallen], on_dpquery: Fallen, found: Sequence[Attack]) -> str:
    """Returns the page with the pictures."""
    looks = (
        ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;"
        "padding:0 1rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%}"
        "td{padding:.3rem .7rem .3rem 0;border-bottom:1px solid #8884;vertical-align:top}"
        ".legend span{margin-right:1.2rem}"
    )
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{TITLE}</title><style>{looks}{STYLE}</style></head><body><h1>{TITLE}</h1>",
        f"<h2>Reconstruction with every group</h2><p>{escape(WITH_4E)}</p>{picture_of_all(few)}",
        f"<h2>Reconstruction with few groups</h2><p>{escape(WITH_FEW)}</p>{picture_of_few(many, on_dpquery)}",
        f"<h2>Other attacks</h2><p>{escape(ON_DPQUERY.format(most=found[0].most))}</p>",
        picture_of_others(found),
        "</body></html>",
    ]
    return "\n".join(parts)


def picture_of_all(few: Sequence[Fallen]) -> str:
    """Returns the part of wrong bits against E, beside 4 E / n."""
    largest = few[-1].error
    return plot(
        [
            Curve(name="4 E / n, the theorem", points=[(0, 0), (largest, 4 * largest / FEW)], is_dotted=True),
            Curve(name="wrong bits, errors chosen at worst", points=[(one.error, one.wrong) for one in few], dots=True),
        ],
        x="largest error E of an answer",
        y="wrong bits",
        across=(0, largest),
        up=(0, 1),
        label="Wrong bits against the largest error, all on the line 4 E / n",
    )


def picture_of_few(many: Sequence[Fallen], on_dpquery: Fallen) -> str:
    """Returns the part of wrong bits against the error of random subset counts, with that of dpquery as a level."""
    largest = max(one.error for one in many)
    return plot(
        [
            Curve(name="answers with this noise", points=[(one.error, one.wrong) for one in many]),
            Curve(name="dpquery", points=[(0, on_dpquery.wrong), (largest, on_dpquery.wrong)]),
            Curve(name="guessing", points=[(0, 0.5), (largest, 0.5)], is_dotted=True),
        ],
        x="largest error of an answer",
        y="wrong bits",
        across=(0, largest),
        up=(0, 0.75),
        label="Wrong bits fall to none as noise falls; of dpquery about half stay wrong",
    )


def picture_of_others(found: Sequence[Attack]) -> str:
    """Returns how often each attack is right, without protection and on dpquery."""
    rows = []
    for one in found:
        rows.append(f'<tr><td colspan="3"><strong>{escape(one.name)}</strong>: {escape(one.told)}</td></tr>')
        for name, share in (("no protection", one.against), ("dpquery", one.protected)):
            drawn = bar(share, f"{share:.0%} right", is_bad=name != "dpquery")
            rows.append(f"<tr><td>{name}</td><td style='width:60%'>{drawn}</td><td>{share:.0%} right</td></tr>")
    return f"<table><tbody>{''.join(rows)}</tbody></table>"
