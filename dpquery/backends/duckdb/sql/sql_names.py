"""Names and grouping values in the SQL of backends."""

from __future__ import annotations

import re

from dpquery.errors import InternalError
from dpquery.plan.types import FLOAT64, Type

_ID = re.compile(r"[a-z][a-z0-9_]*")


def normal(value: str, type: Type) -> str:
    """Returns a grouping value in one form: 0.0 and -0.0 are one group, and either of them could stand for it."""
    return f"({value} + 0.0::DOUBLE)" if type == FLOAT64 else value


def name(id: str) -> str:
    """Returns an id as a name in SQL; only names that the planner makes have this form."""
    if not _ID.fullmatch(id):
        raise InternalError("an id of a plan cannot be a name in SQL")
    return id
