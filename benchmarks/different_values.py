"""What COUNT(DISTINCT other) leaves out, by how many units share a value: `python -m benchmarks.different_values`.

Units have 10 rows on average with a heavy tail, or 10 each; values are popular alike, or the more the lower. Each line
compares the turns that are taken (docs/proofs/weights.md, Theorem 4) with what is left if each unit keeps `max_rows`
values of its own by hash, and with a largest matching.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from random import Random

import numpy as np

from dpquery.backends.duckdb.exact_results import matched

UNITS = 2_000


def world(random: Random, heavy: bool, steep: bool, values: int) -> list[list[int]]:
    """Returns the values of each unit."""
    sizes = [math.ceil(math.exp(random.gauss(1.8, 1.1))) if heavy else 10 for _ in range(UNITS)]
    power = 3 if steep else 1
    return [list({int(values * random.random() ** power) for _ in range(size)}) for size in sizes]


def in_turns(units: Sequence[Sequence[int]], most: int, random: Random) -> int:
    """Returns how many values are stood for."""
    hashed = {value: i for i, value in enumerate(sorted(set().union(*units), key=lambda _: random.random()), start=1)}
    ordered = sorted(units, key=lambda own: (len(own), random.random()))
    entries = [(turn, hashed[value]) for turn, own in enumerate(ordered) for value in own]
    turn, place = np.array(entries, np.int64).T
    return int(matched(np.zeros_like(turn), turn, place, groups=1, most=most)[0])


def kept(units: Sequence[Sequence[int]], most: int, random: Random) -> int:
    """Returns how many values some unit keeps, each by itself."""
    return len({value for own in units for value in random.sample(own, min(most, len(own)))})


def largest(units: Sequence[Sequence[int]], most: int) -> int:
    """Returns how many values units can stand for, by augmenting paths."""
    has: dict[int, list[int]] = {}
    for unit, own in enumerate(units):
        for value in own:
            has.setdefault(value, []).append(unit)
    held: list[set[int]] = [set() for _ in units]
    owner: dict[int, int] = {}
    full: set[int] = set()  # units that no path leads out of
    for value in has:
        seen, end, queue = dict[int, int](), None, deque([value])
        while queue and end is None:
            one = queue.popleft()
            for unit in has[one]:
                if unit in seen or unit in full:
                    continue
                seen[unit] = one
                if len(held[unit]) < most:
                    end = unit
                    break
                queue.extend(held[unit])
        if end is None:
            full |= seen.keys()
            continue
        while True:
            one = seen[end]
            before = owner.get(one)
            held[end].add(one)
            owner[one] = end
            if before is None:
                break
            held[before].discard(one)
            end = before
    return len(owner)


def main() -> None:
    """Prints a table."""
    print("| rows | popularity | values | max_rows | there are | kept by each | in turns | largest |")
    print("|---|---|---|---|---|---|---|---|")
    random = Random(1)
    for heavy in (True, False):
        for steep in (False, True):
            for values in (1_000, 4_000, 20_000):
                units = world(random, heavy, steep, values)
                for most in (1, 4):
                    found = (len(set().union(*units)), kept(units, most, random), in_turns(units, most, random))
                    names = ("heavy" if heavy else "10 each", "steep" if steep else "alike", values, most)
                    print("|", " | ".join(map(str, (*names, *found, largest(units, most)))), "|", flush=True)


if __name__ == "__main__":
    main()
