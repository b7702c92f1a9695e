"""`%%dpsql`: SQL in a notebook's cell, after `%load_ext dpquery`.

    %%dpsql answer << session epsilon=0.5
    SELECT region, COUNT(*) AS n FROM visits GROUP BY region

The line names a session, or a protected frame, that the notebook holds. It may say what the query loses, `explain` to
see the plan instead, and with `<<` the name under which the answer is kept.
"""

from __future__ import annotations

import shlex
from typing import Any

import pandas as pd

from dpquery.catalog.names import shown, suggestion
from dpquery.errors import QuerySyntaxError, UnknownNameError
from dpquery.frontends.pandas.accessor import Accessor
from dpquery.frontends.pandas.busy_indicator import working
from dpquery.frontends.pandas.protected_frame import Protected
from dpquery.frontends.pandas.values import ASKED
from dpquery.session.session import Session

FORM = "Write %%dpsql session epsilon=0.5, or %%dpsql answer << session epsilon=0.5."
OPTIONS = (*ASKED, "dialect")


def load(shell: Any) -> None:
    """Gives an IPython shell the magic."""

    def dpsql(line: str, cell: str) -> Any:
        return run(line, cell, shell.user_ns)

    dpsql.__doc__ = __doc__
    shell.register_magic_function(dpsql, magic_kind="cell", magic_name="dpsql")


def run(line: str, cell: str, names: dict[str, Any]) -> Any:
    """Returns the answer to a cell's SELECT, or its plan, or None where the line says under which name it is kept.

    Args:
        line: What stands behind the magic's name.
        cell: The SELECT.
        names: The notebook's variables.
    """
    try:
        words = shlex.split(line)
    except ValueError:
        raise QuerySyntaxError("the line of %%dpsql has an open quote", advice=FORM) from None
    kept = None
    if "<<" in words[1:2]:
        kept, words = words[0], words[2:]
        if not kept.isidentifier():
            raise QuerySyntaxError(f"{shown(kept)} is not a valid name for an answer", advice=FORM)
    if not words or "=" in words[0]:
        raise QuerySyntaxError("the line of %%dpsql names no session", advice=FORM)
    asked = dict(_option(word) for word in words[1:] if word != "explain")
    answer = _ask(words[0], cell, asked, names, is_explaining="explain" in words[1:])
    if kept is None:
        return answer
    names[kept] = answer
    return None


def _option(word: str) -> tuple[str, Any]:
    name, found, value = word.partition("=")
    if not found or name not in OPTIONS or name == "weights":
        raise QuerySyntaxError(
            f"{shown(word)} is not an option; {suggestion(name, (*OPTIONS, 'explain'))}", advice=FORM
        )
    return name, int(value) if name.startswith("max_") and value.isdecimal() else value


def _ask(name: str, cell: str, asked: dict[str, Any], names: dict[str, Any], *, is_explaining: bool) -> Any:
    found: Any = names.get(name)
    if isinstance(found, pd.DataFrame):
        found = Accessor(found)
    if isinstance(found, Session):
        with working():
            return found.explain(cell, **asked) if is_explaining else found.sql(cell, **asked)
    if isinstance(found, Protected | Accessor):
        return (found.explain if is_explaining else found).sql(cell, **asked)
    raise UnknownNameError(f"{shown(name)} is neither a session nor a protected frame of this notebook", advice=FORM)
