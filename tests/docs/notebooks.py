"""The notebooks of the documentation: run cell by cell, as a notebook would, without one.

`python -m tests.docs.notebooks` runs all of them and writes what they show into them.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT

NOTEBOOKS = tuple(sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")))
Output = dict[str, Any]


class Shell:
    """As much of IPython as the notebooks use: variables, `%load_ext`, and the magics of extensions."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {"__name__": "__main__"}
        self._magics: dict[str, Any] = {}

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        assert magic_kind == "cell"
        self._magics[magic_name] = function

    def run(self, text: str) -> list[Output]:
        """Returns what a cell shows: what it prints, and the value of its last line."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = self._value(text)
        shown = [] if not printed.getvalue() else [_stream(printed.getvalue())]
        return shown if value is None else [*shown, _display(value)]

    def _value(self, text: str) -> Any:
        if text.startswith("%%"):
            line, _, cell = text.partition("\n")
            name, _, rest = line[2:].partition(" ")
            return self._magics[name](rest, cell)
        if text.startswith("%load_ext "):
            __import__(text.split()[1])
            sys.modules[text.split()[1]].load_ipython_extension(self)
            return None
        tree = ast.parse(text)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), self.user_ns)
        if last is None:
            return None
        return eval(compile(ast.Expression(last.value), "<cell>", "eval"), self.user_ns)  # type: ignore[attr-defined]


def _stream(text: str) -> Output:
    return {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}


def _display(value: Any) -> Output:
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    rich = value._repr_html_() if hasattr(value, "_repr_html_") else None
    if rich is not None:
        data["text/html"] = rich.splitlines(keepends=True)
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=90)
        data = {"text/plain": ["<Figure>"], "image/png": base64.b64encode(picture.getvalue()).decode()}
        __import__("matplotlib.pyplot").pyplot.close(value)
    return {"data": data, "metadata": {}, "output_type": "execute_result"}


def read(path: Path) -> dict[str, Any]:
    """Returns a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def execute(notebook: dict[str, Any]) -> None:
    """Runs a notebook's cells in order and fills in what they show."""
    shell = Shell()
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell["outputs"] = shell.run("".join(cell["source"]))
            cell["execution_count"] = number
            for output in cell["outputs"]:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = number


def outline(notebook: dict[str, Any]) -> list[list[str]]:
    """Returns what each cell shows, without numbers: answers differ from run to run."""
    shown = []
    for cell in notebook["cells"]:
        parts = []
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                parts.append(_plain("".join(output["text"])))
            else:
                parts.append(" ".join(sorted(output["data"])))
        shown.append(parts)
    return shown


def _plain(text: str) -> str:
    return re.sub(r"[\s-]+", " ", re.sub(r"-?\d[\d,./e+-]*|NaN|nan", "#", text)).strip()


def write(path: Path) -> None:
    """Runs a notebook and writes it back."""
    notebook = read(path)
    execute(notebook)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    for notebook_path in NOTEBOOKS:
        write(notebook_path)
        print(notebook_path.relative_to(ROOT))
