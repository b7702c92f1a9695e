"""The form of `.case` files: cases as values, and their text back with new sections (see README.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

HEADERS = ("catalog", "query", "oracle", "tolerance", "refuse")
SECTIONS = ("plan", "exact", "norms", "message")
RULE = "---- "
REPEAT = re.compile(r"<<(.*?)\*(\d+)>>", re.DOTALL)
ESCAPE = re.compile(r"\\u\{([0-9a-f]+)\}")


@dataclass(slots=True)
class Section:
    """What follows a `----` line: the words after the section's name, and its lines."""

    words: str
    lines: list[str]


@dataclass(slots=True)
class Case:
    """One query with what is expected of it.

    Attributes:
        path, index, line: The file, the number of the block in it, and its first line, counted from 1.
        title: The comment above the case.
        catalog: The words after `catalog`; where a case has none, those of the case before.
        query: The words after `query`: options of the session's call.
        sql: The text of the query, with repetitions and escapes written out.
        refuse: The words after `refuse`, or None for a query that is answered.
        oracle: The words after `oracle`, or None for the query itself.
        tolerance: The words after `tolerance`, or None.
    """

    path: Path
    index: int
    line: int
    title: str = ""
    catalog: str = ""
    query: str = ""
    sql: str = ""
    refuse: str | None = None
    oracle: str | None = None
    tolerance: str | None = None
    sections: dict[str, Section] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Where the case stands, for pytest."""
        return f"{self.path.parent.name}/{self.path.name}:{self.line}"


def read_cases(path: Path) -> list[Case]:
    """Returns the cases of a file in order; a wrong form raises ValueError with its line."""
    cases: list[Case] = []
    catalog = ""
    for index, (line, block) in enumerate(_blocks(path.read_text(encoding="utf-8"))):
        if all(text.startswith("#") for text in block):
            continue
        case = _read_case(Case(path=path, index=index, line=line, catalog=catalog), block)
        catalog = case.catalog
        cases.append(case)
    return cases


def write_section(case: Case, name: str, lines: list[str]) -> None:
    """Writes the lines of one section of a case into its file."""
    _rewrite(case, f"{RULE}{name}", lines)


def write_refusal(case: Case, words: str) -> None:
    """Writes the words after `refuse` of a case into its file."""
    text = case.path.read_text(encoding="utf-8")
    blocks = [block for _, block in _blocks(text)]
    block = blocks[case.index]
    blocks[case.index] = [f"refuse {words}" if line.split(" ")[0] == "refuse" else line for line in block]
    case.path.write_text("\n\n".join("\n".join(block) for block in blocks) + "\n", encoding="utf-8")


def _rewrite(case: Case, start: str, lines: list[str]) -> None:
    blocks = [block for _, block in _blocks(case.path.read_text(encoding="utf-8"))]
    made: list[str] = []
    replacing = False
    for line in blocks[case.index]:
        if line.startswith(RULE):
            replacing = line == start or line.startswith(f"{start} ")
            made.append(line)
            made += lines if replacing else []
        elif not replacing:
            made.append(line)
    blocks[case.index] = made
    case.path.write_text("\n\n".join("\n".join(block) for block in blocks) + "\n", encoding="utf-8")


def _blocks(text: str) -> list[tuple[int, list[str]]]:
    """Returns the stretches between empty lines, each with the number of its first line."""
    blocks: list[tuple[int, list[str]]] = []
    current: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        if line:
            current.append(line)
        elif current:
            blocks.append((number - len(current), current))
            current = []
    return blocks


def _read_case(case: Case, block: list[str]) -> Case:
    sql: list[str] = []
    section: Section | None = None
    for line in block:
        word, _, rest = line.partition(" ")
        if line.startswith(RULE):
            name, _, words = line.removeprefix(RULE).partition(" ")
            if name not in SECTIONS or name in case.sections or not sql:
                raise ValueError(f"{case.id}: section {name!r} is unknown, or stands here twice, or has no query")
            section = case.sections[name] = Section(words, [])
        elif section is not None:
            section.lines.append(line)
        elif line.startswith("#") and not sql:
            case.title = f"{case.title} {line.lstrip('# ')}".strip()
        elif word in HEADERS and not sql:
            setattr(case, word, rest)
        else:
            sql.append(line)
    case.sql = _written_out("\n".join(sql))
    if not sql or not case.catalog or (case.refuse is None and "exact" not in case.sections):
        raise ValueError(f"{case.id}: a case has a catalog, a query, and a refusal or exact rows")
    return case


def _written_out(sql: str) -> str:
    """Returns the query with `<<text*20>>` repeated 20 times and `\\u{0}` as the character of that number."""
    repeated = REPEAT.sub(lambda found: found[1] * int(found[2]), sql)
    return ESCAPE.sub(lambda found: chr(int(found[1], 16)), repeated)
