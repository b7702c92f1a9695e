"""Text for people: tables, numbers and bars, and advice on arguments of `Session.sql` in the words of the command line
and of the server. Values may hold any character, so what is not printable is escaped.

Tables are written here, not by `rich`: they go into files and pipes too, and loading it would slow down every answer.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpquery.catalog.tables import Defaults
    from dpquery.kernel.loss import PrivacyLoss
    from dpquery.session.query_plan import Plan

BAR = 20  # characters
LONGEST_RULE = 60  # characters, below the name of a column of long texts
MOST_ERRORS = 8  # of columns that are told before a query is paid


def grid(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Returns the lines of a table: names, a rule, rows; numbers to the right."""
    widths = [max([len(name), *(len(row[i]) for row in rows)]) for i, name in enumerate(names)]
    lines = [names, ["-" * min(width, LONGEST_RULE) for width in widths], *rows]
    return ["  ".join(_pad(c, w, r) for c, w, r in zip(line, widths, right, strict=True)).rstrip() for line in lines]


def _pad(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)


def number(value: object, digits: int | None = None) -> str:
    """Returns a value for people; floats with so many digits behind the point, or with six that count.

    Example:
        >>> number(1234567), number(0.123456789), number(50.7, 2), number(None)
        ('1,234,567', '0.123457', '50.70', 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}" if digits is None else f"{value:,.{digits}f}"
    from dpquery.catalog.names import plain

    return plain(str(value))


def bar(part: Fraction, width: int = BAR) -> str:
    """Returns a bar that is filled in part; in plain characters where the terminal has no others."""
    full, empty = ("█", "░") if "utf" in (sys.stdout.encoding or "").lower() else ("#", ".")
    filled = min(width, max(int(part > 0), round(part * width)))
    return full * filled + empty * (width - filled)


def epsilon_of(rho: Fraction, delta: Fraction) -> str:
    """Returns the epsilon that follows from rho at a delta, to three digits; "" without a delta.

    Example:
        >>> epsilon_of(Fraction(1, 100), Fraction(1, 10**6)), epsilon_of(Fraction(1, 100), Fraction(0))
        ('0.622', '')
    """
    from dpquery.accounting.conversions import zcdp_to_approximate

    return f"{float(zcdp_to_approximate(rho, delta)):.3g}" if delta and rho else ""


def as_asked(charge: PrivacyLoss, defaults: Defaults, epsilon: object, other: object) -> str:
    """Returns a charge in rho with the epsilon that the query asked for, by itself or by the catalog's default.

    Args:
        epsilon, other: What the query said, or None: of epsilon, and of what it may say instead.

    Example:
        >>> from dpquery.catalog.tables import Defaults
        >>> from dpquery.kernel.loss import PrivacyLoss
        >>> as_asked(PrivacyLoss(rho=Fraction(1, 200)), Defaults(epsilon=Fraction(1, 10)), None, None)
        'rho 0.005 (asked as epsilon 0.1)'
    """
    from dpquery.kernel.loss import parse_amount, show_amount

    usual = defaults.epsilon if other is None else None
    asked = usual if epsilon is None else parse_amount(epsilon, name="epsilon")
    return f"{charge} (asked as epsilon {show_amount(asked)})" if charge.rho and asked else str(charge)


def percent(part: Fraction) -> str:
    """Returns a part as a percentage of at most two digits that count, or as less than 0.1 %."""
    shown = float(part * 100)
    return "< 0.1 %" if 0 < shown < 0.1 else f"{shown:.{0 if shown >= 9.95 or shown == 0 else 1}f} %"


def expected_lines(plan: Plan) -> list[str]:
    """Returns how far the columns of an answer would be off, and how small a group may be that is shown."""
    said = list(plan.expected)
    more = [f"and {len(said) - MOST_ERRORS} more columns"] if len(said) > MOST_ERRORS else []
    taus = [one.tau for one in plan.measurements if one.tau is not None]
    hidden = [f"groups of fewer than about {max(taus):,} units would not be shown"] if taus else []
    return [f"expected errors: {'; '.join([*said[:MOST_ERRORS], *more]) or 'none, as nothing is measured'}", *hidden]


_ARGUMENT = re.compile(r"\b(epsilon|delta|rho|max_groups|max_rows)=(\.\.\.|'[^']*'|[\w.]*\w)")
_DIALECT = re.compile(r'\bdialect="(\w+)"')
_OR_DIALECT = re.compile(r', or (?:the query )?with dialect="\w+"(?:, where [^.]*)?')
_ERROR = re.compile(r"\berror=\{'([^']*)': (?:([\d.]+)|\(([\d.]+), (\d+)\))\}")


def as_options(advice: str) -> str:
    """Returns advice for the command line.

    Example:
        >>> as_options("Write error=100, or error={'mean': (0.5, 1000)}, or error={'n': 20}.")
        'Write --error 100, or --error mean=0.5@1000, or --error n=20.'
        >>> as_options("Ask with epsilon=... or max_rows=3.")
        'Ask with --epsilon ... or --max-rows 3.'
        >>> as_options('Write it as PostgreSQL has it, or with dialect="duckdb".')
        'Write it as PostgreSQL has it, or with --dialect duckdb.'
    """
    told = _DIALECT.sub(r"--dialect \1", _as_errors(advice))
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2].strip(chr(39))}", told)


def _as_errors(advice: str) -> str:
    """Returns advice with each `error=` as the option that says it."""

    def option(found: re.Match[str]) -> str:
        rows = f"@{found[4]}" if found[4] else ""
        return f"--error {found[1]}={found[2] or found[3]}{rows}"

    return re.sub(r"\berror=([\d.]*\d)", r"--error \1", _ERROR.sub(option, advice))


def as_settings(advice: str) -> str:
    """Returns advice for clients of the server, which say such a thing before the query, and speak PostgreSQL only.

    Example:
        >>> as_settings("epsilon=0.2 would still fit.")
        "SET dpquery.epsilon = '0.2' would still fit."
        >>> as_settings('Write it as PostgreSQL has it, or with dialect="duckdb".')
        'Write it as PostgreSQL has it.'
    """
    told = _OR_DIALECT.sub("", advice)
    return _ARGUMENT.sub(lambda found: f"SET dpquery.{found[1]} = '{found[2].strip(chr(39))}'", told)
