"""The report as one page of HTML: no script, nothing to load, readable on a telephone and on paper."""

from __future__ import annotations

import re
from html import escape

from dpquery.auditing.report import Report, ReportLine, Section
from dpquery.auditing.svg import STYLE, bar

LOOKS = """
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
  h1, h2, p, li { overflow-wrap: anywhere; }
  h1 { font-size: 1.5rem; margin: 0 0 .3rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
  p { margin: .4rem 0; max-width: 46rem; } .quiet { opacity: .72; font-size: .92rem; }
  .verdict { padding: .7rem 1rem; border-left: 5px solid #2e7d4f; background: #8881; font-size: 1.1rem; }
  .verdict.bad { border-color: #b3261e; } .bad-text { color: #b3261e; font-weight: 600; }
  @media (prefers-color-scheme: dark) { .bad-text { color: #ff8a80; } }
  .scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
  th { text-align: left; opacity: .72; font-weight: 600; line-height: 1.2; } th.n, td.n { text-align: right; }
  th.n { max-width: 5.5rem; } td.n { white-space: nowrap; }
  th, td { padding: .3rem .7rem .3rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
  td.name { overflow-wrap: anywhere; width: 52%; } td.of-bar { width: 18%; padding-top: .55rem; }
  td.name code { font-size: .8rem; } summary { cursor: pointer; margin: .5rem 0; }
  .overview td { padding: .45rem .7rem .45rem 0; } .overview td:last-child { white-space: nowrap; }
  @media (max-width: 40rem) {
    .lines thead, .aside { display: none; }
    .lines tr { display: flex; flex-wrap: wrap; border-bottom: 1px solid #8884; }
    .lines td { border: 0; } .lines td.name { flex: 1 0 100%; } .lines td.n::before { content: attr(data-name) ": "; }
    .lines td.of-bar { flex: 1 0 30%; }
  }
  code { font: .87rem/1.4 ui-monospace, monospace; } li { margin: .3rem 0; max-width: 46rem; }
  .legend span { margin-right: 1.2rem; white-space: nowrap; }
  @media print { body { margin: 0; max-width: none; } details::details-content { content-visibility: visible; } }
"""


FEW = 20
"""Lines that are shown at once; of more the reader asks."""
ASIDE = ("pairs", "moved", "gap by chance", "by chance")
"""Figures for which a telephone has no room."""


def page(report: Report) -> str:
    """Returns the page."""
    kind = "" if report.is_clean else " bad"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Audit of {escape(report.dataset)}</title><style>{LOOKS}{STYLE}</style></head><body>",
        f"<h1>Privacy audit of {escape(report.dataset)}</h1>",
        f"<p>What is promised: {escape(report.promise)}.</p>",
        f'<p class="quiet">dpquery {escape(report.version)}, {escape(report.time)} UTC.</p>',
        f'<p class="verdict{kind}" id="verdict">{escape(report.verdict)}{_count_of_risks(report)}</p>',
        f"<p>{_reading()}</p>",
        _overview(report),
        *(_section(section) for section in report.sections),
        "</body></html>",
    ]
    return "\n".join(parts)


def _count_of_risks(report: Report) -> str:
    count = len(report.risks)
    return f" {count} {'point' if count == 1 else 'points'} for the data owner to consider." if count else ""


def _reading() -> str:
    return (
        "An audit can find that a promise is broken; that it finds nothing does not prove that it holds. The proofs "
        "are in the documentation, and this report checks that the software which is installed does what they say."
    )


def _overview(report: Report) -> str:
    rows = [
        f'<tr><td><a href="#{_place(one)}">{escape(one.title)}</a></td><td>{_state(one)}</td></tr>'
        for one in report.sections
    ]
    return f'<table class="overview"><tbody>{"".join(rows)}</tbody></table>'


def _place(section: Section) -> str:
    return escape(section.name.replace(" ", "-"))


def _state(section: Section) -> str:
    if section.violations:
        return f'<span class="bad-text">{len(section.violations)} contradict</span>'
    if section.risks:
        return f"{len(section.risks)} to consider"
    return "nothing found"


def _section(section: Section) -> str:
    found = section.violations
    parts = [
        f'<section id="{_place(section)}"><h2>{escape(section.title)}</h2>',
        f"<p>{escape(section.done)}</p>",
    ]
    parts.append(f'<p class="quiet">{escape(section.method)}</p>')
    if found:
        listed = "".join(f'<li class="bad-text">{escape(one)}</li>' for one in found)
        parts.append(f"<p>Contradicts the promise:</p><ul>{listed}</ul>")
    if section.risks:
        listed = "".join(f"<li>{_prose(one)}</li>" for one in section.risks)
        parts.append(f"<p>To be considered:</p><ul>{listed}</ul>")
    if section.lines:
        tables = "".join(_table(lines) for lines in _alike(section.lines))
        is_open = " open" if found or len(section.lines) <= FEW else ""
        parts.append(f"<details{is_open}><summary>All {len(section.lines)} lines</summary>{tables}</details>")
    if section.not_done:
        listed = "".join(f"<li><code>{escape(one)}</code></li>" for one in section.not_done)
        parts.append(f"<p>Not checked:</p><ul>{listed}</ul>")
    return "\n".join([*parts, "</section>"])


def _prose(text: str) -> str:
    """Returns a sentence, in which what is between grave accents is code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _alike(lines: tuple[ReportLine, ...]) -> list[list[ReportLine]]:
    """Returns the lines in groups with the same figures, in order."""
    groups: dict[tuple[str, ...], list[ReportLine]] = {}
    for line in lines:
        groups.setdefault(tuple(line.figures), []).append(line)
    return list(groups.values())


def _table(lines: list[ReportLine]) -> str:
    names = list(lines[0].figures)
    numbers = "".join(f'<th class="n{_aside(name)}">{escape(WORDS.get(name, name))}</th>' for name in names)
    shown = _bar_of(lines[0])
    head = f"<tr><th></th>{numbers}{'' if shown is None else '<th></th>'}<th></th></tr>"
    rows = "".join(map(_row, lines))
    return f'<div class="scroll"><table class="lines"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


WORDS = {
    "reached": "change reached",
    "lost": "charge lost",
    "moved": "that differ",
    "epsilon seen": "epsilon betrayed, at least",
}


def _row(line: ReportLine) -> str:
    cells = "".join(
        f'<td class="n{_aside(name)}" data-name="{escape(WORDS.get(name, name))}">{_number(name, value)}</td>'
        for name, value in line.figures.items()
    )
    shown = _bar_of(line)
    drawn = "" if shown is None else f'<td class="of-bar">{bar(shown[0], shown[1], is_bad=bool(line.problem))}</td>'
    state = (
        '<span class="bad-text">contradicts</span>' if line.problem else "holds" if not line.note else escape(line.note)
    )
    name = f"<code>{escape(line.name)}</code>" if line.name.startswith("SELECT") else escape(line.name)
    return f'<tr><td class="name">{name}</td>{cells}{drawn}<td>{state}</td></tr>'


def _aside(name: str) -> str:
    return " aside" if name in ASIDE else ""


def _bar_of(line: ReportLine) -> tuple[float, str] | None:
    """Returns which part of a bar a line fills, and what it means; None where it has none."""
    figures = line.figures
    for part, whole, words in (
        ("lost", None, "of the charge lost"),
        ("epsilon seen", "epsilon charged", "of the charged epsilon betrayed"),
        ("gap", "gap by chance", "of what chance allows"),
        ("correlation", "by chance", "of what chance allows"),
        ("shown", "delta", "of delta"),
        ("computed", "charged", "of the charge computed anew"),
    ):
        if part in figures:
            of = 1.0 if whole is None else figures[whole]
            share = figures[part] / of if of else 0.0
            return share, f"{share:.0%} {words}"
    return None


def _number(name: str, value: float) -> str:
    if name in ("reached", "lost"):
        return f"{value:.0%}"
    return f"{value:,.0f}" if name in ("pairs", "moved") else f"{value:.4g}"
