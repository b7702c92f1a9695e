"""Addresses of data that lie elsewhere, as `postgresql://host/db` or `s3://bucket/file.csv`, and what of them is shown.

An address may hold a password, a key or a signature. Messages and logs show the kind, the host and the path of one, and
only where it is written so that no part of a credential can be taken for these.
"""

from __future__ import annotations

import os
import re

DATABASES = ("postgresql", "postgres")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SHOWN = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^:/?#@]*(?::[^/?#@]*)?@)?([\w.-]*(?::\d+)?(?:/[^?#@]*)?)(?:[?#][^@]*)?")
_VERSION = re.compile(r"(.+)@v([0-9]+)", re.DOTALL)


def scheme_of(source: object) -> str:
    """Returns the kind of an address in small letters, such as "s3"; "" of anything else."""
    found = _SCHEME.match(source) if isinstance(source, str) else None
    return "" if found is None else found[1].lower()


def is_database(source: object) -> bool:
    """Whether a source is a PostgreSQL database or a table of one."""
    return scheme_of(source) in DATABASES


def has_password(address: str) -> bool:
    """Whether an address may hold a password or a key before its host, or as one of its options."""
    rest = address.partition("://")[2]
    before = rest.rpartition("@")[0]
    return ":" in before or re.search(r"[?&](ssl)?password=", rest, re.IGNORECASE) is not None


def shown(address: str) -> str:
    """Returns what people may see of an address.

    Example:
        >>> shown("postgresql://ann:secret@db.example:5432/shop?sslmode=require")
        'postgresql://db.example:5432/shop'
        >>> shown("postgresql://ann:se/cret@db.example/shop")
        'postgresql://...'
    """
    found = _SHOWN.fullmatch(address)
    return f"{scheme_of(address)}://..." if found is None else found[1] + found[2]


def origin_of(table: str, source: object) -> str:
    """Returns what tells data elsewhere from others without a look at them, "" of a source that is here."""
    if not scheme_of(source):
        return ""
    place, _, name = str(source).partition("#")
    return f"{place}#{name or table}" if is_database(source) else of_version(str(source))[0]


def of_version(source: str) -> tuple[str, int | None]:
    """Returns the place of a table and the version after it, as in `orders@v12`; None where there is none."""
    found = _VERSION.fullmatch(source)
    return (source, None) if found is None else (found[1], int(found[2]))


def path_of(source: object) -> str:
    """Returns the path of a source that is one, "" of others and of addresses."""
    return "" if scheme_of(source) or not isinstance(source, str | os.PathLike) else os.fspath(source)
