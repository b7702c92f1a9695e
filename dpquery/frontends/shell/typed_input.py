"""What is typed, cut into commands and statements. Loads nothing, as the prompt is shown before the engine is there."""

from __future__ import annotations

from collections.abc import Iterator

WORDS = {
    "quit": "quit",
    "exit": "quit",
    "help": "help",
    "history": "history",
    "q": "quit",
    "d": "tables",
    "dt": "tables",
    "?": "help",
}
"""What people type for some of the commands, out of habit."""


def read_pipe(lines: Iterator[str]) -> Iterator[str]:
    """Yields what a pipe holds: commands by line, statements up to a line that ends with a semicolon, or the end."""
    waiting: list[str] = []
    for line in lines:
        if not waiting and line.lstrip().startswith("\\"):
            yield line
            continue
        waiting.append(line)
        if is_whole("".join(waiting)):
            yield "".join(waiting)
            waiting = []
    if "".join(waiting).strip():
        yield "".join(waiting)


def is_whole(text: str) -> bool:
    """Whether what was typed is to be run: a command, a word of a command, or SQL up to a semicolon."""
    typed = text.strip()
    return not typed or typed.startswith("\\") or typed in WORDS or typed.endswith(";")
