"""What the documentation site adds to the pages of docs/: its navigation, links into the code, and a page for each
public module with its functions. Run by mkdocs as hooks (`make site`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import dpquery

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[([^\]\[]+)\]\(((?:\.\./)+)([^)#\s]*)(#[^)\s]*)?\)")

MODULES = {
    "dpquery": "Sessions, catalogs, ledgers: the names of `import dpquery`.",
    "dpquery.accounting": "Privacy losses: conversions, composition, trade-off functions, errors of noise.",
    "dpquery.mechanisms": "Noise and choices on plain values.",
    "dpquery.errors": "All exceptions.",
    "dpquery.dbapi": "DB-API 2.0.",
}
HOMES = {
    "dpquery": [
        "dpquery.session.connecting.connect",
        "dpquery.session.session.Session",
        "dpquery.result.table.Result",
        "dpquery.result.measurements.Measurement",
        "dpquery.session.query_plan.Plan",
        "dpquery.session.options.Options",
        "dpquery.session.preparing.prepare",
        "dpquery.session.preparing.erase",
        "dpquery.session.connecting.create_ledger",
        "dpquery.session.connecting.amend_ledger",
        "dpquery.ledger.ledger.Ledger",
        "dpquery.kernel.loss.PrivacyLoss",
        "dpquery.accounting.local.randomize",
    ]
}
SECTIONS = [
    ("Home", ["README.md", "quickstart.md", "gallery.md"]),
    ("Start", ["start/data-owners.md", "start/analysts.md", "start/privacy-officers.md", "start/researchers.md"]),
    ("How to", "how-to"),
    ("Concepts", "concepts"),
    ("Notebooks", "notebooks"),
    ("Reference", "reference"),
    ("Functions", "functions"),
    ("Evidence", ["known-weaknesses.md", "benchmarks.md", "peers.md", "tpch.md", "clickbench.md"]),
    ("Proofs", "proofs"),
    ("Contribute", "how-to-contribute"),
]


def on_files(files: Files, config: Any) -> Files:
    """Adds a page for each public module."""
    for module, says in MODULES.items():
        parts = "\n\n".join(f"::: {home}" for home in HOMES.get(module, [module]))
        text = f"# {module}\n\n{says}\n\n{parts}\n"
        files.append(File.generated(config, f"functions/{module.rpartition('.')[2]}.md", content=text))
    return files


def on_config(config: Any) -> Any:
    """Lists the pages by sections: each page of a folder, its README first; names the version at the foot of pages."""
    config.copyright = f"dpquery {dpquery.__version__}"
    docs = Path(config["docs_dir"])
    listed: list[dict[str, list[str]]] = []
    for title, pages in SECTIONS:
        if isinstance(pages, str):
            found = sorted([*(docs / pages).glob("*.md"), *(docs / pages).glob("*.ipynb")])
            names = [path.relative_to(docs).as_posix() for path in sorted(found, key=lambda p: (p.stem != "README", p))]
            if pages == "functions":
                names = [f"functions/{module.rpartition('.')[2]}.md" for module in MODULES]
        else:
            names = [*pages]
        listed.append({title: names})
    config["nav"] = listed
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turns links that leave docs/ into what they name: the code is not part of the site."""
    here = Path(config["docs_dir"]) / page.file.src_uri

    def inside(match: re.Match[str]) -> str:
        target = (here.parent / (match[2] + match[3])).resolve()
        return match[0] if Path(config["docs_dir"]).resolve() in [target, *target.parents] else match[1]

    return LINK.sub(inside, markdown)
