"""Codes of public keys in DuckDB's SQL: looked up in domains, computed where these are a run of integers, and packed.

Rows or groups are called `given`; `key0`, `key1`, ... are the codes of their keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpquery.backends.duckdb.sql.values_sql import name, normal
from dpquery.kernel.plan import Key
from dpquery.plan.cached import cached
from dpquery.plan.types import INT64, Value

Rows = tuple[tuple[Value, ...], ...]
Domains = Sequence[str | None]
"""For each public key the name of a table with columns `value0`, `value1`, ... and `code`."""


def codes(keys: Sequence[Key], domains: Domains, *, by_row: bool = False) -> list[str]:
    """Returns each key of `given`: the code of its domain, or itself.

    Args:
        by_row: Whether `given` is rows and not groups: then a domain that is a run of integers is not joined.
    """
    found = []
    for i, (key, domain) in enumerate(zip(keys, domains, strict=True)):
        if by_row and (run := _run(key)):
            found.append(f"CAST(given.{name(key.columns[0])} AS BIGINT) - {run[0]} AS key{i}")
        else:
            found.append(f"{_own(key) if domain is None else f'domain{i}.code'} AS key{i}")
    return found


def joined(keys: Sequence[Key], domains: Domains, *, by_row: bool = False) -> str:
    """Returns the joins of `given` with the domains, which drop what is not public; NULL meets NULL alone."""
    return " ".join(
        f"JOIN {domain} AS domain{i} ON {_meets(key, f'domain{i}')}"
        for i, (key, domain) in enumerate(zip(keys, domains, strict=True))
        if domain is not None and not (by_row and _run(key))
    )


def inside_runs(keys: Sequence[Key]) -> str:
    """Returns the filter that drops what is not public of domains that are not joined. No statistics of files decide
    what passes it: docs/proofs/work.md, Lemma 5."""
    inside = [
        f"COALESCE(given.{name(key.columns[0])} BETWEEN {run[0]} AND {run[-1]}, FALSE)"
        for key in keys
        if (run := _run(key))
    ]
    return f" WHERE {' AND '.join(inside)}" if inside else ""


def packed(keys: Sequence[Key]) -> str:
    """Returns the codes of public keys, of at most 2^16 combinations, as one number `packed`."""
    return f"CAST({' + '.join(f'{key} * {n}' for key, n, _ in _strides(keys))} AS USMALLINT) AS packed"


def unpacked(keys: Sequence[Key]) -> list[str]:
    """Returns the codes that `packed` holds."""
    return [f"CAST(packed AS BIGINT) // {n} % {size} AS {key}" for key, n, size in _strides(keys)]


def _strides(keys: Sequence[Key]) -> list[tuple[str, int, int]]:
    """Returns each key with what its code counts in a number of all codes, and how many codes it has."""
    sizes = [len(key.domain or ()) for key in keys]
    return [(f"key{i}", math.prod(sizes[i + 1 :]), size) for i, size in enumerate(sizes)]


def _run(key: Key) -> range:
    """Returns the integers of a domain that has one after the other, in order; no others."""
    return _one_after_the_other(key.domain or ()) if key.types == (INT64,) else range(0)


@cached
def _one_after_the_other(domain: Rows) -> range:
    first = domain[0][0] if domain else None
    if not isinstance(first, int):
        return range(0)
    run = range(first, first + len(domain))
    return run if all(row == (n,) for row, n in zip(domain, run, strict=True)) else range(0)


def _own(key: Key) -> str:
    return normal(f"given.{name(key.columns[0])}", key.types[0])


def _meets(key: Key, domain: str) -> str:
    """Returns where rows of `given` have the values of a domain. Plain equality is the quicker one; NULL needs the
    other."""
    holds_null = [any(values[i] is None for values in key.domain or ()) for i in range(len(key.columns))]
    return " AND ".join(
        f"{domain}.value{i} {'IS NOT DISTINCT FROM' if null else '='} given.{name(id)}"
        for i, (id, null) in enumerate(zip(key.columns, holds_null, strict=True))
    )
