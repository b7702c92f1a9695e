"""What an audit found: sections with figures, violations and risks, in words and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """One thing that was checked: a query, an attack, an account.

    Attributes:
        name: What it is.
        figures: What was measured of it, by name.
        problem: Why it is a violation; "" where it is none.
        note: What there is to know of it.
    """

    name: str
    figures: dict[str, float] = field(default_factory=dict)
    problem: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of an audit.

    Attributes:
        name: A word for it.
        title: What it asks.
        method: How that was looked at, in a few sentences for people who are no programmers.
        done: What was done, with its figures.
        lines: The single things.
        risks: What the owner may want to change; no violation.
        not_done: What could not be looked at, and why.
    """

    name: str
    title: str
    method: str
    done: str
    lines: tuple[ReportLine, ...] = ()
    risks: tuple[str, ...] = ()
    not_done: tuple[str, ...] = ()

    @property
    def violations(self) -> tuple[str, ...]:
        """The problems of all lines."""
        return tuple(f"{line.name}: {line.problem}" for line in self.lines if line.problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An audit of an installation.

    Attributes:
        dataset: Of the catalog.
        promise: What the catalog promises, in words.
        version: Of dpquery.
        time: When the audit ended, in UTC.
        sections: What was looked at.
    """

    dataset: str
    promise: str
    version: str
    time: str
    sections: tuple[Section, ...]

    @property
    def violations(self) -> tuple[str, ...]:
        """What contradicts the promise."""
        return tuple(f"{section.name}: {one}" for section in self.sections for one in section.violations)

    @property
    def risks(self) -> tuple[str, ...]:
        """What the owner may want to change."""
        return tuple(risk for section in self.sections for risk in section.risks)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found that contradicts the promise."""
        return not self.violations

    @property
    def verdict(self) -> str:
        """The outcome in one sentence."""
        found = len(self.violations)
        if not found:
            return "Nothing contradicts the promise."
        return f"{found} {'observation contradicts' if found == 1 else 'observations contradict'} the promise."

    def to_dict(self) -> dict[str, object]:
        """Returns all of it as plain values, for JSON."""
        return {
            "dataset": self.dataset,
            "promise": self.promise,
            "dpquery": self.version,
            "time": self.time,
            "clean": self.is_clean,
            "violations": list(self.violations),
            "risks": list(self.risks),
            "sections": [
                {
                    "name": one.name,
                    "done": one.done,
                    "lines": [
                        {"name": line.name, **line.figures, "problem": line.problem, "note": line.note}
                        for line in one.lines
                    ],
                    "risks": list(one.risks),
                    "not_done": list(one.not_done),
                }
                for one in self.sections
            ],
        }

    def to_html(self, path: str | Path) -> None:
        """Writes the report as one page that needs nothing else."""
        from dpquery.auditing.page import page

        Path(path).write_text(page(self), encoding="utf-8")

    def __str__(self) -> str:
        lines = [f"Audit of {self.dataset}, dpquery {self.version}, {self.time} UTC", f"Promise: {self.promise}"]
        for section in self.sections:
            lines += ["", f"{section.title}", *_wrapped(section.done, "  ")]
            lines += [one for problem in section.violations for one in _wrapped(f"VIOLATION {problem}", "  ")]
            lines += [one for risk in section.risks for one in _wrapped(f"Risk: {risk}", "  ")]
            lines += [one for words in section.not_done for one in _wrapped(f"Not checked: {words}", "  ")]
        return "\n".join([*lines, "", self.verdict])


def _wrapped(text: str, indent: str) -> Sequence[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False
    ) or [indent]
