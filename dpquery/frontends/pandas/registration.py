"""`df.dp` is there once dpquery and pandas are both imported, in whichever order; importing dpquery loads nothing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAME = "dp"


def register() -> None:
    """Gives every DataFrame and Series the attribute `dp`, now or as soon as pandas is imported."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        sys.meta_path.insert(0, _AwaitsPandas())
    elif hasattr(pandas, "api"):
        _register(pandas)


def _register(pandas: ModuleType) -> None:
    if not hasattr(pandas.DataFrame, NAME):
        pandas.api.extensions.register_dataframe_accessor(NAME)(_accessor)
    if not hasattr(pandas.Series, NAME):
        pandas.api.extensions.register_series_accessor(NAME)(_of_series)


def _accessor(frame: Any) -> object:
    """Returns the accessor of a frame; what it needs is loaded here."""
    from dpquery.frontends.pandas.accessor import Accessor

    return Accessor(frame)


def _of_series(series: Any) -> object:
    """Returns the accessor of a Series."""
    from dpquery.frontends.pandas.accessor import Answers

    return Answers(series)


class _AwaitsPandas(MetaPathFinder):
    """Sees the import of pandas, once."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "pandas" or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("pandas")
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                _register(module)

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
