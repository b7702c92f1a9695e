"""What is wrong with a commit, by its title and its files: `python -m tests.architecture.commit_title MESSAGE_FILE`.

Run as a hook of the stage `commit-msg`; see CONTRIBUTING.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.architecture.package import ROOT, TRUSTED

LONGEST = 100
NO_PROOF = "a change to the trusted base brings its proof page (git commit --no-verify where none does)"
PLACE = re.compile(r"[a-z][\w./-]*(?:, [a-z][\w./-]*)*: \S")
OWN_WORDS = ("Merge ", "Revert ", "fixup! ", "squash! ")
"""How git begins titles of its own."""


def faults(title: str, files: Sequence[str]) -> list[str]:
    """Returns what is wrong, for people; empty for a good commit."""
    if title.startswith(OWN_WORDS):
        return []
    found = []
    if len(title) > LONGEST:
        found.append(f"the title is longer than {LONGEST} characters")
    if not PLACE.match(title):
        found.append("the title does not begin with its place, as `kernel: ...` does")
    if re.search(r"; [a-z][\w./-]*: ", title):
        found.append("the title has several places; make several commits")
    if any(file.startswith(tuple(f"dpquery/{each}" for each in TRUSTED)) for file in files):
        if not any(file.startswith("tests/") for file in files):
            found.append("a change to the trusted base brings a test")
        if not any(file.startswith("docs/proofs/") for file in files):
            found.append(NO_PROOF)
    return found


def since(first: str) -> list[tuple[str, str, list[str]]] | None:
    """Returns hash, title and files of each commit after this one; None where its history is not here."""
    log = ("git", "log", "--format=%x00%h %s", "--abbrev=8", "--name-only", f"{first}..HEAD")
    told = subprocess.run(log, check=False, capture_output=True, text=True, cwd=ROOT)
    if told.returncode:
        return None
    found = []
    for commit in told.stdout.split("\0")[1:]:
        head, *files = commit.splitlines()
        hash, _, title = head.partition(" ")
        found.append((hash, title, [file for file in files if file]))
    return found


def main(message: str) -> int:
    """Prints what is wrong with the commit that is being made; returns whether anything is."""
    title = (Path(message).read_text(encoding="utf-8").splitlines() or [""])[0]
    staged = ("git", "diff", "--cached", "--name-only")
    files = subprocess.run(staged, check=True, capture_output=True, text=True).stdout.splitlines()
    found = faults(title, files)
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
