"""Advice that names arguments of `Session.sql`, in the words of the command line and of the server."""

from __future__ import annotations

import re

_ARGUMENT = re.compile(r"\b(epsilon|delta|rho|max_groups|max_rows)=(\.\.\.|'[^']*'|[\w.]*\w)")


def as_options(advice: str) -> str:
    """Returns advice for the command line.

    Example:
        >>> as_options("Ask with epsilon=... or max_rows=3.")
        'Ask with --epsilon ... or --max-rows 3.'
    """
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2].strip(chr(39))}", advice)


def as_settings(advice: str) -> str:
    """Returns advice for clients of the server, which say such a thing before the query.

    Example:
        >>> as_settings("epsilon=0.2 would still fit.")
        "SET dpquery.epsilon = '0.2' would still fit."
    """
    return _ARGUMENT.sub(lambda found: f"SET dpquery.{found[1]} = '{found[2].strip(chr(39))}'", advice)
