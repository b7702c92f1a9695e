"""Tasks that fail in executors, by name, as Spark sends them there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from dpquery.backends.spark.executors import Job, of_rows


def killed_once(folder: str, job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields what a partition returns; the worker of each part's first task is killed after it has."""
    for piece in of_rows(job, batches):
        yield piece
        mark = Path(folder) / str(piece.column(0)[0].as_py())
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def failing(job: Job, batches: Iterator[pa.RecordBatch]) -> NoReturn:
    raise ValueError("a private value")


def repeating(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields what a partition returns twice, as no task does."""
    pieces: list[Any] = list(of_rows(job, batches))
    yield from [*pieces, *pieces]
