"""Advice that names arguments of `Session.sql`, in the words of the command line and of the server."""

from __future__ import annotations

import re

_ARGUMENT = re.compile(r"\b(epsilon|delta|rho|max_groups|max_rows)=(\.\.\.|'[^']*'|[\w.]*\w)")
_ERROR = re.compile(r"\berror=\{'([^']*)': (?:([\d.]+)|\(([\d.]+), (\d+)\))\}")


def as_options(advice: str) -> str:
    """Returns advice for the command line.

    Example:
        >>> as_options("Write error=100, or error={'mean': (0.5, 1000)}, or error={'n': 20}.")
        'Write --error 100, or --error mean=0.5@1000, or --error n=20.'
        >>> as_options("Ask with epsilon=... or max_rows=3.")
        'Ask with --epsilon ... or --max-rows 3.'
    """
    told = _as_errors(advice)
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2].strip(chr(39))}", told)


def _as_errors(advice: str) -> str:
    """Returns advice with each `error=` as the option that says it."""

    def option(found: re.Match[str]) -> str:
        rows = f"@{found[4]}" if found[4] else ""
        return f"--error {found[1]}={found[2] or found[3]}{rows}"

    return re.sub(r"\berror=([\d.]*\d)", r"--error \1", _ERROR.sub(option, advice))


def as_settings(advice: str) -> str:
    """Returns advice for clients of the server, which say such a thing before the query.

    Example:
        >>> as_settings("epsilon=0.2 would still fit.")
        "SET dpquery.epsilon = '0.2' would still fit."
    """
    return _ARGUMENT.sub(lambda found: f"SET dpquery.{found[1]} = '{found[2].strip(chr(39))}'", advice)
