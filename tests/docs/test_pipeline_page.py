"""The page on the pipeline says where each part of the package stands."""

from __future__ import annotations

from dpquery.planner.passes import PASSES
from tests.docs.pages import ROOT


def test_every_pass_of_planning_is_listed_in_order_with_its_reason() -> None:
    page = (ROOT / "docs" / "concepts" / "pipeline.md").read_text()
    assert "\n".join(f"| `{one.name}` | {one.reason} |" for one in PASSES) in page


def test_every_module_and_folder_of_the_package_is_listed() -> None:
    page = (ROOT / "docs" / "concepts" / "pipeline.md").read_text().split("## Where things stand")[1]
    package = ROOT / "dpquery"
    modules = {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    folders = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert sorted(name for name in modules | folders if f"`{name}`" not in page) == []
