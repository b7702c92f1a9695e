"""Noisy numbers: they print their intervals, and are plain numbers in every other respect."""

from __future__ import annotations

import copy
import json
import math
import pickle
from decimal import Decimal

import pandas as pd
import pytest

from dpquery.result.numbers import NoisyDecimal, NoisyFloat, NoisyInt, noisy


def test_they_print_their_interval() -> None:
    assert repr(noisy(8011, 7987.0, 8035.0, 0.95)) == str(noisy(8011, 7987.0, 8035.0, 0.95)) == "8,011 ± 24"
    assert str(noisy(39.298, 38.8, 40.12, 0.95)) == "39.30 [38.80, 40.12]"
    assert str(noisy(Decimal("12.50"), 10.0, 15.0, 0.95)) == "12.5 ± 2.5"
    assert str(noisy(40.0, math.nan, math.nan, 0.95)) == "40 [none]"
    assert noisy(8011, 7987.0, 8035.0, 0.9)._repr_html_() == (
        "8,011 <small title='90 % interval of the noise'>± 24</small>"
    )
    assert f"{noisy(8011, 7987.0, 8035.0, 0.95):,}" == "8,011" and f"{noisy(1.25, 1.0, 1.5, 0.95):.1f}" == "1.2"


@pytest.mark.parametrize(
    ("made", "plain"),
    [
        (noisy(7, 5.0, 9.0, 0.95), 7),
        (noisy(7.5, 5.0, 9.0, 0.95), 7.5),
        (noisy(Decimal("7.5"), 5.0, 9.0, 0.95), Decimal("7.5")),
    ],
)
def test_they_are_plain_numbers(made: NoisyInt | NoisyFloat | NoisyDecimal, plain: float) -> None:
    assert made == plain and hash(made) == hash(plain) and isinstance(made, type(plain))
    assert type(made + 1) is type(-made) is type(plain)
    assert (made.low, made.high, made.interval, made.confidence) == (5, 9, (5, 9), 0.95)
    for twin in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (twin, twin.interval, type(twin)) == (made, made.interval, type(made))
    if not isinstance(made, Decimal):
        assert json.dumps([made]) == json.dumps([plain])
        assert pd.Series([made]).dtype == pd.Series([plain]).dtype


def test_what_has_no_interval_says_none() -> None:
    made = noisy(1.5, None, None, 0.95)
    assert (made.low, made.high, made.interval) == (None, None, None)
    moment = pd.Timestamp("2020-01-01")
    assert noisy(moment, math.nan, math.nan, 0.95) is moment
    assert noisy(True, 0.0, 1.0, 0.95) is True
    missing = noisy(math.nan, 0.0, 1.0, 0.95)
    assert type(missing) is float and math.isnan(missing)
