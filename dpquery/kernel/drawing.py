"""Noise for the numbers of one table. Much is drawn while the backend runs, as it depends on nothing that is read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from dpquery.kernel.mechanisms import NoiseLaw

BESIDE = 2**14
"""From this many numbers on, noise is drawn in a thread of its own."""

Draw = Callable[[int, int], NDArray[np.int64]]
"""Gives the noise of a measure, by its place among the measures, for so many groups; once for each measure."""


@contextlib.contextmanager
def drawing(noises: tuple[NoiseLaw, ...], groups: int | None) -> Iterator[Draw]:
    """Gives what draws fresh noise. Where many public groups are released, it is being drawn from here on.

    Args:
        noises: Of each measure; a choice has none.
        groups: How many will be released, or None where the data decide.
    Privacy:
        The samples are independent of the data and of each other, so it does not matter when they are drawn; each is
        given out once.
    Source:
        docs/proofs/gate.md, step 5.
    """
    adding = [place for place, noise in enumerate(noises) if noise.is_added]
    if groups is None or groups * len(adding) < BESIDE:
        yield lambda place, size: noises[place].sample(size)
        return
    with ThreadPoolExecutor(1, "dpquery noise") as thread:
        begun = {place: thread.submit(noises[place].sample, groups) for place in adding}
        yield lambda place, _: begun.pop(place).result()
