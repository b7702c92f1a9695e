"""Synopses as stored with the ledger's other answers: rows and measurements, chained to the entry that paid."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import zlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dpquery.kernel.loss import PrivacyLoss
from dpquery.reuse.store import ReleaseStore
from dpquery.synopsis.axes import SynopsisAxis
from dpquery.synopsis.making import Transcript
from dpquery.synopsis.model import Marginal
from dpquery.synopsis.rounds import settle
from dpquery.synopsis.synopsis import Measured, Quality, Synopsis

BASE = "synopses"
"""Of the rows of the store that hold synopses; no release is of such rows."""

AxesOf = Callable[[str, Sequence[str], Sequence[str]], tuple[SynopsisAxis, ...]]
"""Returns the axes of a table's columns as the catalog declares them."""


def keep(store: ReleaseStore, made: Synopsis, fingerprint: str) -> None:
    """Keeps a synopsis durably, for the state of the data and of the catalog that it was made of."""
    content = {
        "name": made.name,
        "table": made.table,
        "columns": made.columns,
        "measures": made.measures,
        "rows": _packed_table(made.rows),
        "weight": made.weight,
        "quality": [dataclasses.asdict(one) for one in made.quality.measured],
        "charge": [str(part) for part in (made.charge.epsilon, made.charge.delta, made.charge.rho)],
        "first": [_packed(one) for one in made.transcript.first],
        "later": [_packed(one) for one in made.transcript.later],
        "catalog": fingerprint,
    }
    store.keep(_version(made.data_version), BASE, made.entry, made.analyst, made.time, json.dumps(content))


def read(
    store: ReleaseStore, version: str, is_current: Callable[[str, str], bool], axes: AxesOf
) -> dict[str, Synopsis]:
    """Returns the synopses of a version of the data, by name; the last of each name.

    Args:
        is_current: Whether the catalog still says of a table what it said then.
    """
    found: dict[str, Synopsis] = {}
    for row in store.kept(_version(version), BASE):
        content = json.loads(row.content)
        if is_current(content["table"], content["catalog"]):
            found[content["name"]] = _synopsis(content, row.entry, row.analyst, row.time, version, axes)
    return found


def drop(store: ReleaseStore, version: str, name: str) -> int:
    """Removes the synopses of a name; returns how many there were."""
    return store.drop(_version(version), BASE, lambda row: bool(json.loads(row.content)["name"] == name))


def _version(version: str) -> str:
    return f"{BASE} {version}"  # no release has it, so that what lists releases does not read synopses


def _synopsis(content: dict[str, Any], entry: int, analyst: str, time: str, version: str, axes: AxesOf) -> Synopsis:
    asked = axes(content["table"], content["columns"], content["measures"])
    first = tuple(map(_unpacked, content["first"]))
    transcript = Transcript(
        asked=asked, first=first, axes=settle(asked, first).axes, later=tuple(map(_unpacked, content["later"]))
    )
    epsilon, delta, rho = map(Fraction, content["charge"])
    return Synopsis(
        name=content["name"],
        table=content["table"],
        columns=tuple(content["columns"]),
        measures=tuple(content["measures"]),
        rows=parquet.read_table(io.BytesIO(base64.b64decode(content["rows"]))),
        weight=content["weight"],
        quality=Quality(measured=tuple(map(_measured, content["quality"]))),
        charge=PrivacyLoss(epsilon=epsilon, delta=delta, rho=rho),
        entry=entry,
        analyst=analyst,
        time=time,
        data_version=version,
        transcript=transcript,
    )


def _measured(content: dict[str, Any]) -> Measured:
    return Measured(**{**content, "columns": tuple(content["columns"])})


def _packed_table(table: pa.Table) -> str:
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd")
    return base64.b64encode(file.getvalue()).decode()


def _packed(one: Marginal) -> dict[str, Any]:
    """Returns a marginal as measured: whole numbers, and one variance for all."""
    numbers = base64.b64encode(zlib.compress(one.numbers.astype("<i8").tobytes())).decode()
    groups = [groups.tolist() for groups in one.groups]
    return {"columns": one.columns, "groups": groups, "numbers": numbers, "variance": float(one.variances[0]).hex()}


def _unpacked(content: dict[str, Any]) -> Marginal:
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(content["numbers"])), "<i8").astype(np.float64)
    return Marginal(
        columns=tuple(content["columns"]),
        groups=tuple(np.array(groups, dtype=np.int64) for groups in content["groups"]),
        numbers=numbers,
        variances=np.full(len(numbers), float.fromhex(content["variance"])),
    )
