"""Libraries that come with an extra: asked for when they are used, and named when they are not there."""

from __future__ import annotations

import importlib
from typing import Any

from dpquery.errors import DPQueryError


def extra(module: str, of: str, purpose: str, instead: str = "") -> Any:
    """Returns a module that an extra of dpquery installs.

    Args:
        module: the module's full name
        of: the extra's name, as in `dpquery[plot]`
        purpose: what needs it, as the subject of a sentence
        instead: what to use without it, a sentence

    Raises:
        DPQueryError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0].replace("_", "-")
        advice = f"Install it with: pip install 'dpquery[{of}]'" + (f"; {instead}" if instead else "")
        raise DPQueryError(f"{purpose} needs {library}, which is not installed\n  {advice}") from error
