"""Puts the documentation site into the wheel, where `make site` has built it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SiteHook(BuildHookInterface):
    """Adds build/site as dpquery/site."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is built; editable installations read the site from build/ themselves."""
        if version == "standard" and (Path(self.root) / "build" / "site" / "index.html").is_file():
            build_data["force_include"]["build/site"] = "dpquery/site"
