"""The reader of pairs.sql: groups of texts that ask the same, and which of them are not measured alike yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

PAIRS = Path(__file__).parent / "pairs.sql"


@dataclass(kw_only=True)
class Group:
    """Texts that ask the same; the first is what others are held against.

    Attributes:
        plain: Whether the answers, without noise and where no weight binds, are those of plain SQL.
        gaps: For the place of a text the reason why it is not measured like the first; for place 0 why all are refused.
    """

    heading: str
    asked: str
    plain: bool = True
    texts: list[str] = field(default_factory=list)
    gaps: dict[int, str] = field(default_factory=dict)

    def gap(self, place: int) -> str | None:
        """Returns why a text is not answered like the first; None where it is."""
        return self.gaps.get(0, self.gaps.get(place))


def read_groups() -> list[Group]:
    """Returns the groups of pairs.sql in order."""
    groups: list[Group] = []
    heading, reason, lines = "", "", list[str]()
    for number, line in enumerate(PAIRS.read_text(encoding="utf-8").splitlines(), 1):
        word, _, rest = line.removeprefix("-- ").partition(" ")
        if line.startswith("-- # "):
            heading = rest
        elif line.startswith("-- = "):
            groups.append(Group(heading=heading, asked=rest))
        elif line.startswith("-- not yet: "):
            reason = rest.removeprefix("yet: ")
        elif line == "-- only each other":
            groups[-1].plain = False
        elif line.startswith("--"):
            if groups:
                raise ValueError(f"line {number} of {PAIRS.name} is no directive: {word}")
        elif line:
            lines.append(line)
            if line.endswith(";"):
                if reason:
                    groups[-1].gaps[len(groups[-1].texts)] = reason
                groups[-1].texts.append("\n".join(lines).removesuffix(";"))
                reason, lines = "", []
    if reason or lines:
        raise ValueError(f"{PAIRS.name} ends within a text")
    return groups
