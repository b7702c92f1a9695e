"""Random frames of people's rows in every dtype, and how answers are compared with pandas' own."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import dpquery  # noqa: F401  (it gives frames their `dp`)

REGIONS = ["east", "north", "west"]
GENEROUS = {"epsilon": 10**6, "delta": "0.001"}
"""With the noise scripted away the loss matters for the lattice and for K of MIN and MAX alone."""

NUMBERS = {
    "float64": lambda values: pd.array([np.nan if v is None else v for v in values], "float64"),
    "Float64": lambda values: pd.array(values, "Float64"),
    "double[pyarrow]": lambda values: pd.array(values, pd.ArrowDtype(pa.float64())),
    "int64": lambda values: pd.array([0 if v is None else int(v) for v in values], "int64"),
    "Int16": lambda values: pd.array([None if v is None else int(v) for v in values], "Int16"),
    "int64[pyarrow]": lambda values: pd.array([None if v is None else int(v) for v in values], "int64[pyarrow]"),
}
TEXTS = {
    "object": lambda values: np.array(values, dtype=object),
    "str": lambda values: pd.array(values, "str"),
    "string": lambda values: pd.array(values, "string"),
    "category": lambda values: pd.Categorical(values, categories=REGIONS),
    "string[pyarrow]": lambda values: pd.array(values, pd.ArrowDtype(pa.string())),
}
MOMENTS = {
    "datetime64[ns]": lambda values: pd.DatetimeIndex(values).as_unit("ns"),
    "datetime64[us]": lambda values: pd.DatetimeIndex(values).as_unit("us"),
    "zoned": lambda values: pd.DatetimeIndex(values).tz_localize("UTC").tz_convert("Europe/Berlin"),
    "timestamp[us][pyarrow]": lambda values: pd.array(values, pd.ArrowDtype(pa.timestamp("us"))),
}
_number = itertools.count()
FIRST = datetime.datetime(2020, 1, 1)

numbers = st.one_of(st.none(), st.integers(0, 80).map(lambda quarter: quarter / 4))
rows = st.tuples(
    st.integers(1, 6), numbers, st.one_of(st.none(), st.sampled_from(REGIONS)), st.integers(0, 3), st.integers(0, 99)
)


@st.composite
def frames(draw: Any) -> pd.DataFrame:
    """Returns a frame of a few people: a number, a text, a small integer, a boolean, a moment and a decimal."""
    drawn = draw(st.lists(rows, min_size=8, max_size=40))
    who, x, region, k, day = (list(column) for column in zip(*drawn, strict=True))
    number, text, moment = (draw(st.sampled_from(sorted(kinds))) for kinds in (NUMBERS, TEXTS, MOMENTS))
    return pd.DataFrame(
        {
            "who": who,
            "x": NUMBERS[number](x),  # type: ignore[no-untyped-call]
            "region": TEXTS[text](region),  # type: ignore[no-untyped-call]
            "k": np.array(k, dtype=draw(st.sampled_from(["int64", "int8"]))),
            "flag": [value % 2 == 0 for value in k],
            "at": MOMENTS[moment]([FIRST + datetime.timedelta(days=value) for value in day]),  # type: ignore[no-untyped-call]
            "price": [None if v is None else Decimal(str(v)) for v in x],
        },
        index=pd.RangeIndex(5, 5 + len(who)),
    )


def protected(frame: pd.DataFrame, **said: Any) -> Any:
    """Returns `frame.dp`, protected so generously that nothing is cut."""
    given: dict[str, Any] = {
        "privacy_unit": "who",
        "bounds": {"x": (0, 20), "k": (0, 3), "at": ("2020-01-01", "2020-12-31"), "price": (0, 20)},
        "keys": {"region": REGIONS},
        "types": {"price": "decimal(10,2)"},
        "max_groups": 20,
        "max_rows": 50,
        "budget": GENEROUS,
        "defaults": {"epsilon": 20, "least_charge": "1e-12"},
        "dataset": f"people{next(_number)}",
    }
    frame.dp.protect(**{**given, **said})
    return frame.dp


def assert_same(answer: Any, expected: Any) -> None:
    """Checks value, shape, index and names; public keys that no row has are filled in, as pandas leaves them out."""
    if isinstance(expected, pd.Series | pd.DataFrame):
        check = pd.testing.assert_series_equal if isinstance(expected, pd.Series) else pd.testing.assert_frame_equal
        if isinstance(expected, pd.Series) and isinstance(expected.dtype, pd.api.extensions.ExtensionDtype):
            answer, expected = answer.astype("float64"), expected.astype("float64")
        check(answer, expected, check_dtype=False, check_categorical=False, check_freq=False, rtol=1e-3, atol=1e-3)
        return
    if pd.isna(expected):
        assert pd.isna(answer)
    else:
        assert float(answer) == pytest.approx(float(expected), rel=1e-3, abs=1e-3)
