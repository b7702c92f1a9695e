"""Every block of the documentation does what its page says.

Words behind the language of a block:

- `python`: runs, all blocks of a page in one namespace and one empty folder; `python no-run` is compiled only.
- `text exact`: what the Python or console block before it printed; `text like`: the same but for numbers.
- `yaml`: a catalog loads, and is written to `<dataset>.yaml` for the page; `yaml refused` is a mistake; `yaml part` is
  YAML and no more.
- `sql`: is planned over the page's catalog, or else the one of `docs/reference/catalog.md`; `sql refused Name` is
  refused with that error.
- `toml`: nothing; the page's own test reads it.
- `console`: each `$ dpquery` names a command and options that exist; `console run` runs in the page's folder.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

import dpquery as dp
from dpquery.frontends.cli import main as cli
from dpquery.frontends.pandas import datasets
from tests.docs.pages import PAGES, ROOT, Block, anchors, blocks, links, name_of, prose, without_numbers
from tests.docs.worlds import session_over

LANGUAGES = {"python", "toml", "text", "yaml", "sql", "console", "mermaid", ""}
LONGEST_LINE = 120
GIVEN = ROOT / "docs" / "reference" / "catalog.md"


class Page:
    """One page being read from its start: a namespace, what was printed, and the catalog given last."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.name, self.folder = name_of(page), folder
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.printed = io.StringIO()
        self.catalog: dp.Catalog | None = None

    def read(self, block: Block) -> None:
        """Does what the block says."""
        reader = getattr(self, f"_{block.language}", None)
        if reader is not None:
            reader(block)

    def _python(self, block: Block) -> None:
        code = compile("\n" * (block.line - 1) + block.text, self.name, "exec")
        if "no-run" not in block.words:
            self.printed = io.StringIO()
            with contextlib.redirect_stdout(self.printed):
                exec(code, self.namespace)

    def _text(self, block: Block) -> None:
        if not block.words:
            return
        printed = self.printed.getvalue()
        form = {"exact": str, "like": without_numbers}[block.words[0]]
        assert form(_trimmed(printed)) == form(_trimmed(block.text)), f"{self.name}:{block.line}"  # type: ignore[operator]

    def _yaml(self, block: Block) -> None:
        if "part" in block.words:
            yaml.safe_load(block.text)
        elif "refused" in block.words:
            with pytest.raises(dp.CatalogError):
                dp.Catalog.from_yaml(block.text)
        else:
            self.catalog = dp.Catalog.from_yaml(block.text)
            (self.folder / f"{self.catalog.dataset}.yaml").write_text(block.text, encoding="utf-8")

    def _sql(self, block: Block) -> None:
        catalog = self.catalog or _given_catalog()
        made = self.folder / f"line{block.line}"
        made.mkdir()
        with session_over(catalog, made) as session:
            for query in filter(str.strip, block.text.split(";\n")):
                if "refused" not in block.words:
                    session.explain(query, epsilon=None if catalog.defaults.epsilon else "0.1")
                    continue
                with pytest.raises(dp.QueryError) as caught:
                    session.explain(query, epsilon=None if catalog.defaults.epsilon else "0.1")
                assert type(caught.value).__name__ in block.words, f"{self.name}:{block.line}: {caught.value}"

    def _console(self, block: Block) -> None:
        for line in block.text.splitlines():
            for command in re.findall(r"(?:^\$ |\| )(dpquery [^|>#]*)", line):
                arguments = shlex.split(re.split(r" \|\| ", command)[0])[1:]
                _check_command(arguments)
                if "run" in block.words:
                    self.printed = io.StringIO()
                    with contextlib.chdir(self.folder), contextlib.redirect_stdout(self.printed):
                        assert cli.run(arguments) == 0, line


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def _given_catalog() -> dp.Catalog:
    return dp.Catalog.from_yaml(next(block.text for block in blocks(GIVEN) if block.language == "yaml"))


def _check_command(arguments: list[str]) -> None:
    """Checks that the command exists with these options, without running it."""
    command: Any = cli.command_line()
    words = list(arguments)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
    assert {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= known, shlex.join(arguments)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "_known", {})  # a page begins as a process does
    reading = Page(page, tmp_path)
    for block in blocks(page):
        reading.read(block)


def test_blocks_name_their_language() -> None:
    found = {(name_of(page), block.language) for page in PAGES for block in blocks(page)}
    assert [(name, language) for name, language in found if language not in LANGUAGES] == []


def test_links_lead_somewhere() -> None:
    assert [(name_of(page), target) for page in PAGES for target in links(page) if not _leads(page, target)] == []


def _leads(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    return file.exists() and (not anchor or anchor in anchors(file))


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, pending = set[Path](), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        pending += [(page.parent / target.partition("#")[0]).resolve() for target in links(page) if target[0] != "#"]
    assert set(PAGES) <= reached, sorted(name_of(page) for page in set(PAGES) - reached)


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / target).resolve() for target in links(index)}
    wanted = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "proofs" and page != index}
    assert sorted(name_of(page) for page in wanted - named) == []


def _without_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_each_page_has_one_title() -> None:
    assert [name_of(page) for page in PAGES if len(re.findall(r"^# ", _without_blocks(page), re.MULTILINE)) != 1] == []


def test_words_that_belittle_and_paths_of_one_machine_are_left_out() -> None:
    belittling = re.compile(r"\b(?:simply|just|obviously|easily|of course)\b", re.IGNORECASE)
    assert [(name_of(page), word) for page in PAGES for word in belittling.findall(prose(page))] == []
    paths = re.compile(r"/(?:home|Users|root|tmp|w[o]rk)/")
    assert [name_of(page) for page in PAGES if paths.search(page.read_text(encoding="utf-8"))] == []


def test_lines_of_prose_are_short() -> None:
    """Tables and links to pictures have no line breaks; signatures and formulas are longer in few places."""
    written = [
        line for page in PAGES for line in _without_blocks(page).splitlines() if not line.startswith(("|", "!["))
    ]
    assert sum(len(line) > LONGEST_LINE for line in written) <= 15


def test_tables_have_as_many_cells_in_each_row() -> None:
    for page in PAGES:
        for table in re.findall(r"(?:^\|.*\|\n)+", _without_blocks(page), re.MULTILINE):
            cells = {len(re.split(r"(?<!\\)\|", row)) for row in table.strip().split("\n")}
            assert len(cells) == 1, f"{name_of(page)}: {table[:80]}"
