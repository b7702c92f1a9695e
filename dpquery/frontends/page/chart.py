"""A chart of an answer with error bars, as SVG that needs no script: bars of groups, or a line over an order."""

from __future__ import annotations

import datetime
import html
import math
from collections.abc import Callable, Sequence
from decimal import Decimal

from dpquery.frontends.page.server_client import Answer, AnswerColumn

MOST_BARS = 40
_ROW, _LABEL, _WIDE, _HIGH = 26, 130, 480, 240
_ORDERED = (int, float, Decimal, datetime.date, datetime.datetime)


def charts(answer: Answer) -> list[str]:
    """Returns a chart for each noisy column, where there are groups to draw: their labels are the other columns."""
    noisy = [column for column in answer.columns if column.lows is not None]
    keys = [column for column in answer.columns if column.lows is None]
    if not noisy or not keys or len(noisy[0].values) < 2:
        return []
    labels = [", ".join(cells) for cells in zip(*(key.cells for key in keys), strict=True)]
    is_ordered = len(keys) == 1 and all(_is_ordered(value) for value in keys[0].values)
    return [(_line if is_ordered and len(labels) > 3 else _bars)(column, labels) for column in noisy]


def _is_ordered(value: object) -> bool:
    return isinstance(value, _ORDERED) and not isinstance(value, bool)


def _bars(column: AnswerColumn, labels: Sequence[str]) -> str:
    """Returns horizontal bars from 0, each with its interval as a whisker."""
    count = min(len(labels), MOST_BARS)
    low, high = _range(column, count, with_zero=True)

    def x(value: float) -> float:
        return _LABEL + (value - low) / (high - low) * (_WIDE - _LABEL - 10)

    parts = []
    for i in range(count):
        y, value = i * _ROW + 4, _float(column.values[i])
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 14}" text-anchor="end">{html.escape(_short(labels[i]))}</text>')
        if not math.isnan(value):
            left, right = sorted((x(0), x(value)))
            parts.append(f'<rect class="bar" x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{_ROW - 8}"/>')
            parts.append(_whisker(column, i, x, y + (_ROW - 8) / 2))
    parts.append(f'<line class="axis" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{count * _ROW}"/>')
    more = f"; the first {count} of {len(labels)}" if len(labels) > count else ""
    return _svg(column.name + more, count * _ROW + 4, parts)


def _whisker(column: AnswerColumn, i: int, x: Callable[[float], float], y: float) -> str:
    assert column.lows is not None and column.highs is not None
    if math.isnan(column.lows[i]) or math.isnan(column.highs[i]):
        return ""
    left, right = x(column.lows[i]), x(column.highs[i])
    ends = "".join(f"M{at:.1f} {y - 4}v8" for at in (left, right))
    return f'<path class="whisker" d="M{left:.1f} {y}H{right:.1f}{ends}"/>'


def _line(column: AnswerColumn, labels: Sequence[str]) -> str:
    """Returns a line over the keys in their order, with the band of its intervals and the ends of the axes."""
    assert column.lows is not None and column.highs is not None
    low, high = _range(column, len(labels), with_zero=False)
    step = (_WIDE - 90) / max(1, len(labels) - 1)

    def at(i: int, value: float) -> str:
        return f"{70 + i * step:.1f} {10 + (high - value) / (high - low) * (_HIGH - 40):.1f}"

    known = [i for i in range(len(labels)) if not math.isnan(_float(column.values[i]))]
    banded = [i for i in known if not math.isnan(column.lows[i] + column.highs[i])]
    band = [at(i, column.highs[i]) for i in banded] + [at(i, column.lows[i]) for i in reversed(banded)]
    line = [at(i, _float(column.values[i])) for i in known]
    parts = [f'<path class="band" d="M{" L".join(band)}Z"/>'] if band else []
    parts += [f'<path class="line" d="M{" L".join(line)}"/>'] if line else []
    parts += [f'<text x="64" y="{y}" text-anchor="end">{_tick(v)}</text>' for y, v in ((14, high), (_HIGH - 30, low))]
    parts.append(f'<text x="70" y="{_HIGH - 8}">{html.escape(labels[0])}</text>')
    parts.append(f'<text x="{_WIDE - 20}" y="{_HIGH - 8}" text-anchor="end">{html.escape(labels[-1])}</text>')
    return _svg(column.name, _HIGH, parts)


def _range(column: AnswerColumn, count: int, *, with_zero: bool) -> tuple[float, float]:
    ends = [*column.values[:count], *(column.lows or ())[:count], *(column.highs or ())[:count]]
    known = [found for end in ends if not math.isnan(found := _float(end))] + ([0.0] if with_zero else [])
    low, high = min(known, default=0.0), max(known, default=1.0)
    return (low, high) if high > low else (low - 1, high + 1)


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float | Decimal) else float("nan")


def _tick(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _short(text: str) -> str:
    return text if len(text) <= 18 else text[:17] + "…"


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    name, box = html.escape(title), f"0 0 {_WIDE} {height}"
    drawn = f'<svg viewBox="{box}" role="img" aria-label="{name}">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{name}</figcaption>{drawn}</figure>"
