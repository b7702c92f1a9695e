"""Plots as inline SVG, for pages that need nothing else: curves over two axes, and bars in cells of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 480, 300
"""Small, so that numbers can be read where the picture is as narrow as a telephone."""
LEFT, RIGHT, TOP, BOTTOM = 74, 14, 14, 48
COLOURS = ("#2563a8", "#c2571a", "#2e7d4f", "#8a4a9e", "#8a6d1d", "#b3261e")
STYLE = """
  svg.plot { display: block; width: 100%; height: auto; max-width: 38rem; }
  svg.plot text { font: 14px system-ui, sans-serif; fill: currentColor; }
  svg.plot .axis { stroke: currentColor; stroke-opacity: .5; }
  svg.plot .grid { stroke: currentColor; stroke-opacity: .12; }
  svg.bar { display: block; width: 100%; min-width: 7rem; height: .9rem; }
  .track { fill: currentColor; fill-opacity: .13; } .filled { fill: #2563a8; } .filled.bad { fill: #b3261e; }
  .key { display: inline-block; width: 1.4em; height: .25em; vertical-align: middle; margin-right: .4em; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points in order, joined by a line, or alone as dots.

    Attributes:
        name: For the legend; "" for none.
        is_dotted: Whether the line is dotted, as for what is only there to compare with.
        dots: Whether the points themselves are shown and not joined.
    """

    name: str
    points: Sequence[tuple[float, float]]
    is_dotted: bool = False
    dots: bool = False


def plot(
    curves: Sequence[Curve],
    *,
    x: str,
    y: str,
    across: tuple[float, float],
    up: tuple[float, float],
    label: str,
    ticks: tuple[Sequence[float], Sequence[float]] | None = None,
) -> str:
    """Returns a plot with its legend as HTML; what is beyond the axes is cut off.

    Args:
        x, y: What the axes are, in words.
        across, up: From where to where they go.
        label: What the plot shows, for those who cannot see it.
        ticks: Where the axes have numbers; by default at quarters.
    """
    inner = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)

    def at(point: tuple[float, float]) -> tuple[float, float]:
        part = (point[0] - across[0]) / (across[1] - across[0]), (point[1] - up[0]) / (up[1] - up[0])
        return LEFT + min(max(part[0], 0), 1) * inner[0], TOP + (1 - min(max(part[1], 0), 1)) * inner[1]

    quarters = [tuple(a + (b - a) * i / 4 for i in range(5)) for a, b in (across, up)]
    xs, ys = ticks or (quarters[0], quarters[1])
    parts = [f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">']
    for tick in xs:
        place = at((tick, up[0]))[0]
        parts += [f'<line class="grid" x1="{place:.1f}" y1="{TOP}" x2="{place:.1f}" y2="{HEIGHT - BOTTOM}"/>']
        parts += [f'<text x="{place:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{tick:.4g}</text>']
    for tick in ys:
        place = at((across[0], tick))[1]
        parts += [f'<line class="grid" x1="{LEFT}" y1="{place:.1f}" x2="{WIDTH - RIGHT}" y2="{place:.1f}"/>']
        parts += [f'<text x="{LEFT - 7}" y="{place + 4:.1f}" text-anchor="end">{tick:.4g}</text>']
    bottom, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts.append(f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{end}"/>')
    parts.append(f'<text x="{(LEFT + end) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x)}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<text transform="translate(13 {middle}) rotate(-90)" text-anchor="middle">{escape(y)}</text>')
    parts += [_drawn(curve, [at(point) for point in curve.points], _colour(i)) for i, curve in enumerate(curves)]
    return "".join([*parts, "</svg>", _legend(curves)])


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _drawn(curve: Curve, places: Sequence[tuple[float, float]], colour: str) -> str:
    if curve.dots:
        return "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{colour}"/>' for a, b in places)
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    dashes = ' stroke-dasharray="3 4"' if curve.is_dotted else ""
    return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'


def _legend(curves: Sequence[Curve]) -> str:
    named = [
        f'<span><svg class="key" viewBox="0 0 10 2" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="10" height="2" fill="{_colour(i)}"/></svg>{escape(curve.name)}</span>'
        for i, curve in enumerate(curves)
        if curve.name
    ]
    return f'<p class="legend">{" ".join(named)}</p>' if named else ""


def bar(part: float, label: str, *, is_bad: bool = False) -> str:
    """Returns a bar that is filled in part, as wide as its cell."""
    width = 100 * min(max(part, 0), 1)
    kind = "filled bad" if is_bad else "filled"
    return (
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'<rect class="track" width="100" height="10"/><rect class="{kind}" width="{width:.2f}" height="10"/></svg>'
    )
