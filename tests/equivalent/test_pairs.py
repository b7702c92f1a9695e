"""Texts that ask the same are measured alike: the same integers, the same noise to the number, the same charge.

The table is pairs.sql. What it claims of plain SQL is checked as well: the texts of a group are equal there, and where
no unit has more rows than `max_rows` the answers without noise are those of plain SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import dpquery as dp
from dpquery.result.measurements import Measurement
from tests.cases.oracle import differences_from
from tests.equivalent.clinic import plain, plain_rows, session, tables
from tests.equivalent.pairs import Group, read_groups
from tests.scripted import zero_noise

GROUPS = read_groups()
HEAVY, LIGHT = tables(heavy=True), tables(heavy=False)
PROMISED = 235
"""Pairs that hold, at least."""


def _pairs(*, other: bool = False) -> list[Any]:
    return [
        _expected(group, place, group.texts[0], group.texts[place], other=other)
        for group in GROUPS
        for place in range(1, len(group.texts))
    ]


def _expected(group: Group, place: int, *values: Any, other: bool = False) -> Any:
    """Returns the values of one test, which is expected to fail where the table says so."""
    gap = group.gap(place, other=other)
    marks = [] if gap is None else [pytest.mark.xfail(reason=gap, strict=True)]
    return pytest.param(*values, id=f"{group.asked}-{place}", marks=marks)


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Session]:
    """The clinic in which weights bind."""
    with session(HEAVY, tmp_path_factory.mktemp("heavy")) as opened:
        yield opened


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Session]:
    """The clinic in which all rows weigh 1."""
    with session(LIGHT, tmp_path_factory.mktemp("light")) as opened:
        yield opened


@pytest.fixture(scope="module")
def otherwise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dp.Session]]:
    """The clinic with Gaussian noise, and where one patient replaces another."""
    folder = tmp_path_factory.mktemp("otherwise")
    for contract in ("rho", "replace_one"):
        (folder / contract).mkdir()
    with session(LIGHT, folder / "rho", "rho") as one, session(LIGHT, folder / "replace_one", "replace_one") as other:
        yield [one, other]


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("first", "second"), _pairs())
def test_texts_are_measured_alike(heavy: dp.Session, first: str, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    one, other = heavy.sql(first), heavy.sql(second)
    assert _noises(one.measurements) == _noises(other.measurements)
    assert one.charge == other.charge
    assert _rows(one) == _rows(other)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("first", "second"), _pairs(other=True))
def test_texts_have_the_same_noise_under_other_contracts(otherwise: list[dp.Session], first: str, second: str) -> None:
    for opened in otherwise:
        one, other = opened.explain(first), opened.explain(second)
        assert _noises(one.measurements) == _noises(other.measurements)
        assert one.charge == other.charge


@pytest.mark.thinned(2)
@pytest.mark.parametrize("group", [_expected(group, 0, group) for group in GROUPS if group.plain])
def test_without_noise_and_weights_the_answer_is_that_of_plain_sql(
    light: dp.Session, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    answer = light.sql(group.texts[0])
    rows = plain_rows(plain(LIGHT), group.texts[0])
    sets = any(word in group.texts[0] for word in ("ROLLUP", "CUBE"))
    assert differences_from(answer, rows, tolerance=1e-9, ordered=False, has_sets=sets) == []


@pytest.mark.thinned(4)
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.asked)
def test_texts_are_equal_in_plain_sql(group: Group) -> None:
    for data in (HEAVY, LIGHT):
        engine = plain(data)
        first, *others = [_sorted(plain_rows(engine, text)) for text in group.texts]
        assert first and all(other == first for other in others)


def test_as_many_pairs_hold_as_promised() -> None:
    holding = [place for group in GROUPS for place in range(1, len(group.texts)) if group.gap(place) is None]
    assert len(holding) >= PROMISED
    assert all(len(set(group.texts)) == len(group.texts) > 1 for group in GROUPS)
    assert len({group.asked for group in GROUPS}) == len(GROUPS) >= 70


def _noises(measured: tuple[Measurement, ...]) -> list[tuple[Any, ...]]:
    """Returns what noise each measurement has and what it pays, in an order that does not depend on names."""
    found = [(one.mechanism, one.scale, one.tau, one.loss) for one in measured]
    return sorted(found, key=repr)


def _rows(answer: dp.Result) -> list[tuple[Any, ...]]:
    return _sorted(list(zip(*(column.to_pylist() for column in answer.to_arrow().columns), strict=True)))


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(_value, row)) for row in rows), key=repr)


def _value(value: Any) -> Any:
    """Returns a value so that equal numbers of different types are the same; quotients agree to twelve digits."""
    if value is None or isinstance(value, str | bool) or not hasattr(value, "__float__"):
        return value
    return float(f"{float(value):.12g}")
