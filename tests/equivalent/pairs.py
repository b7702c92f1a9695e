"""The reader of pairs.sql: groups of texts that ask the same, and which of them are not measured alike yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

PAIRS = Path(__file__).parent / "pairs.sql"
KINDS = ("yet", "the same numbers", "with other noise")
"""How a text may differ from the first of its group; see the file."""


@dataclass(kw_only=True)
class Group:
    """Texts that ask the same; the first is what others are held against.

    Attributes:
        plain: Whether the answers, without noise and where no weight binds, are those of plain SQL.
        gaps: For the kind of a difference and the place of a text why it differs from the first; for place 0 why all
            are refused.
    """

    heading: str
    asked: str
    plain: bool = True
    texts: list[str] = field(default_factory=list)
    gaps: dict[tuple[str, int], str] = field(default_factory=dict)

    def gap(self, place: int, *, other: bool = False) -> str | None:
        """Returns why a text is not answered like the first; None where it is.

        Args:
            other: Under another contract than the clinic's own, where noise alone is compared.
        """
        kinds = ("yet", "with other noise") if other else ("yet", "the same numbers")
        found = [self.gaps[kind, at] for at in (0, place) for kind in kinds if (kind, at) in self.gaps]
        return found[0] if found else None


def read_groups() -> list[Group]:
    """Returns the groups of pairs.sql in order."""
    groups: list[Group] = []
    heading, lines, reasons = "", list[str](), dict[str, str]()
    for number, line in enumerate(PAIRS.read_text(encoding="utf-8").splitlines(), 1):
        word, _, rest = line.removeprefix("-- ").partition(" ")
        if line.startswith("-- # "):
            heading = rest
        elif line.startswith("-- = "):
            groups.append(Group(heading=heading, asked=rest))
        elif line.startswith("-- not "):
            kind, _, reason = rest.partition(": ")
            reasons[kind] = reason
        elif line == "-- only each other":
            groups[-1].plain = False
        elif line.startswith("--"):
            if groups:
                raise ValueError(f"line {number} of {PAIRS.name} is no directive: {word}")
        elif line:
            lines.append(line)
            if line.endswith(";"):
                for kind, reason in reasons.items():
                    groups[-1].gaps[kind, len(groups[-1].texts)] = reason
                groups[-1].texts.append("\n".join(lines).removesuffix(";"))
                reasons, lines = {}, []
    if reasons or lines or {kind for group in groups for kind, _ in group.gaps} - {*KINDS}:
        raise ValueError(f"{PAIRS.name} ends within a text, or gives a reason of no kind")
    return groups
