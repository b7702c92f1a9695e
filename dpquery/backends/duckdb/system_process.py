"""The process behind `SystemTables`: it holds the tables, and copies itself for each statement.

A copy runs one statement and ends. The operating system bounds its memory and its time, so that no statement takes,
by any call, the memory or the threads of anybody else. Imports little, so that it starts quickly and stays small.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

HEAD = struct.Struct(">IQ")
"""Of a message: the bytes of its JSON, the bytes behind it."""
BEGUN = b"\1"
"""What a copy says first: from then on, its end is the end of its statement."""
NICE, LONG_NICE = 5, 19
"""By how much other processes come before a copy, as those of the server answer everybody; and before a long one."""
BUSY = 6
"""How many times as long as its time of the processor a copy may take where others come first."""
LONG = 0.05
"""Seconds after which a copy is long, so that short statements do not wait for long ones."""
TOO_LONG_SERIES = "dpquery: series"
"""What a statement raises where it would make too long a series."""
GIVEN = "given"
TYPE = b"type"
"""Metadata of a column that Arrow holds as text: its type in the engine."""
_TEXTUAL = ("JSON", "UUID")


def send(channel: socket.socket, words: dict[str, Any], tables: list[pa.Buffer]) -> None:
    """Sends a message; the sizes of its tables go with its words."""
    written = json.dumps({**words, "sizes": [table.size for table in tables]}).encode()
    channel.sendall(HEAD.pack(len(written), sum(table.size for table in tables)) + written)
    for table in tables:
        channel.sendall(table)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[pa.Buffer]] | None:
    """Returns the next message, or None where the other end is gone."""
    head = _exactly(channel, HEAD.size)
    if head is None:
        return None
    length, size = HEAD.unpack(head)
    written, rest = _exactly(channel, length), _exactly(channel, size)
    if written is None or rest is None:
        return None
    words = json.loads(written)
    whole, place, tables = pa.py_buffer(rest), 0, []
    for one in words.pop("sizes"):
        tables.append(whole.slice(place, one))
        place += one
    return words, tables


def _exactly(channel: socket.socket, count: int) -> bytearray | None:
    found = bytearray(count)
    view, place = memoryview(found), 0
    while place < count:
        try:
            read = channel.recv_into(view[place:])
        except OSError:
            return None
        if not read:
            return None
        place += read
    return found


def written_table(table: pa.Table) -> pa.Buffer:
    """Returns a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def read_table(written: pa.Buffer) -> pa.Table:
    """Returns the table of some bytes."""
    return pa.ipc.open_stream(written).read_all()


def main(descriptor: int) -> None:
    """Serves through an inherited socket until it is closed; its first message says what the tables are."""
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)  # whoever started it ends it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # copies leave nothing behind
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # rather this process than one that holds data
    with socket.socket(fileno=descriptor) as control:
        received = receive(control)
        if received is None:
            return
        root = _filled(*received)
        send(control, {"ready": True}, [])
        while True:
            word, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not word:
                return
            with socket.socket(fileno=descriptors[0]) as channel:
                if os.fork() == 0:  # of a process of one thread: no lock is held by another one
                    control.close()
                    _run_one(root, channel)


def _filled(words: dict[str, Any], tables: list[pa.Buffer]) -> duckdb.DuckDBPyConnection:
    root = duckdb.connect(":memory:", config={"threads": 1, "async_threads": 0, "memory_limit": words["memory"]})
    for statement in words["statements"]:
        root.execute(statement)
    for place, table in zip(words["places"], tables, strict=True):
        root.register(GIVEN, read_table(table))
        root.execute(f"INSERT INTO {place} BY NAME SELECT * FROM {GIVEN}")
        root.unregister(GIVEN)
    for statement in words["afterwards"]:
        root.execute(statement)
    return root


def _run_one(root: duckdb.DuckDBPyConnection, channel: socket.socket) -> None:
    """Answers one statement, in a copy of the process, and ends it."""
    try:
        os.nice(NICE)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stderr.fileno())
        channel.sendall(BEGUN)
        received = receive(channel)
        if received is not None:
            words, tables = received
            _limit(words)
            threading.Thread(target=_watch, args=(channel,), daemon=True).start()
            send(channel, *_answer(root, words, tables))
    finally:
        os._exit(0)


def _limit(words: dict[str, Any]) -> None:
    """Ends the process after its time; lets it take so much memory beyond what it has."""
    for passed, timer, patience in (
        (signal.SIGPROF, signal.ITIMER_PROF, 1),
        (signal.SIGALRM, signal.ITIMER_REAL, BUSY),
    ):
        signal.signal(passed, signal.SIG_DFL)
        signal.setitimer(timer, words["seconds"] * patience)
    threading.stack_size(1 << 18)
    with contextlib.suppress(OSError, ValueError):
        data = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        most = data + words["most_memory"]
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _watch(channel: socket.socket) -> None:
    """Lets others come first after a while, and ends the process when its answer is not waited for any more."""
    with contextlib.suppress(OSError):
        if not select.select([channel], [], [], LONG)[0]:
            os.setpriority(os.PRIO_PROCESS, os.getpid(), LONG_NICE)  # of the thread that computes
        channel.recv(1)
    os._exit(0)


def _answer(
    root: duckdb.DuckDBPyConnection, words: dict[str, Any], tables: list[pa.Buffer]
) -> tuple[dict[str, Any], list[pa.Buffer]]:
    """Returns the rows of a statement, or why there are none: too much of something, memory, or unknown."""
    try:
        for name, table in zip(words["tables"], tables, strict=True):
            root.register(name, read_table(table))
        return {}, [written_table(_fetched(root, words))]
    except TooMuch as error:
        return {"too_much": str(error)}, []
    except (MemoryError, duckdb.OutOfMemoryException, pa.ArrowMemoryError):
        return {"memory": True}, []
    except duckdb.Error as error:
        text = str(error)
        if TOO_LONG_SERIES in text:
            return {"too_much": "makes too long a series"}, []
        return ({"memory": True} if "bad_alloc" in text or "allocate" in text else {"unknown": True}), []
    except (pa.ArrowException, ValueError):
        return {"unknown": True}, []


class TooMuch(Exception):
    """A statement gives more than it may; says what."""


def _fetched(root: duckdb.DuckDBPyConnection, words: dict[str, Any]) -> pa.Table:
    """Returns a statement's rows, read in batches, so that what gives too much stops early."""
    relation = root.sql(words["text"])
    if relation is None:
        raise ValueError
    first = words["first"]
    reader = relation.to_arrow_reader(2_000)
    made: list[pa.RecordBatch] = []
    rows = size = items = 0
    for batch in reader if first != 0 else ():
        made.append(batch if first is None else batch.slice(0, first - rows))
        rows, size = rows + len(made[-1]), size + made[-1].nbytes
        for column in made[-1].columns:
            for values in _lists(column):
                items += len(values)
            if _longest(column, words["most_cell"]) > words["most_cell"]:
                raise TooMuch("gives too long a value")
        if rows > words["most_rows"]:
            raise TooMuch("gives too many rows")
        if size > words["most_bytes"]:
            raise TooMuch("gives too many bytes")
        if items > words["most_items"]:
            raise TooMuch("gives too long a list")
        if first is not None and rows >= first:
            break
    types = zip(reader.schema, map(str, relation.types), strict=True)
    fields = [field.with_metadata({TYPE: type}) if type in _TEXTUAL else field for field, type in types]
    return pa.Table.from_batches(made, reader.schema).cast(pa.schema(fields))


def _lists(column: pa.Array) -> Iterator[pa.Array]:
    """Yields the items of the lists in a column, those in its structures and in its lists too."""
    if pa.types.is_struct(column.type):
        for part in column.flatten():
            yield from _lists(part)
    elif pa.types.is_list(column.type) or pa.types.is_map(column.type):
        items = column.flatten() if pa.types.is_list(column.type) else column.items
        yield items
        yield from _lists(items)


def _longest(column: pa.Array, most: int) -> int:
    """Returns at least the bytes of the longest value in a column, exactly where the column has more than `most`."""
    size = int(column.nbytes)
    return size if size <= most else max(int(column.slice(i, 1).nbytes) for i in range(len(column)))
