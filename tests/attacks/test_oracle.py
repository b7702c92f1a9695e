"""One person's bit as an oracle (WRK-01, WRK-02): what it changes in outcome and memory, in process and over the wire.

`python -m benchmarks.oracle` measures times too, with a hundred runs of each shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.oracle import Ward, bounds, compare, in_process, make_ward, opened, over_the_wire, refused, smirnov
from benchmarks.shapes import ANSWERED, REFUSED, asked
from dpquery.frontends.postgres.wire import answers


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    folder = tmp_path_factory.mktemp("served") / "ward"
    make_ward(folder, bit=True)
    with over_the_wire(folder) as ward:
        yield ward


def test_the_shapes_have_names_of_their_own() -> None:
    assert not set(REFUSED) & set(ANSWERED)
    assert len(REFUSED) >= 30 and len(ANSWERED) >= 30
    assert all(asked(shape, 1) != asked(shape, 2) for shape in ANSWERED)


@pytest.mark.parametrize("shape", REFUSED)
def test_what_causes_much_work_is_refused_over_the_wire_before_the_charge(served: Ward, shape: str) -> None:
    said = refused((served, served), shape)
    assert len(said) == 1
    assert next(iter(said))[:5] in (answers.UNSUPPORTED, answers.NO_FUNCTION)


def test_a_time_out_is_an_outcome_and_an_answer_is_another(served: Ward) -> None:
    """What the harness compares: an answer holds no noise, and each is charged."""
    before = served.charges()
    assert {served.ask(asked("a filter", run)) for run in (1, 2)} == {"answered ['count']"}
    assert served.charges() == before + 2


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ward, Ward]]:
    with opened(tmp_path_factory.mktemp("wards"), over_the_wire) as both:
        yield both


@pytest.mark.slow
@pytest.mark.parametrize("shape", ANSWERED)
def test_the_outcome_does_not_tell_the_bit_over_the_wire(servers: tuple[Ward, Ward], shape: str) -> None:
    """WRK-01: an answer within the time-out, never an error, with and without the bit."""
    assert compare(servers, shape, runs=3).same


@pytest.mark.slow
@pytest.mark.parametrize("shape", ANSWERED)
def test_outcome_and_memory_do_not_tell_the_bit(tmp_path: Path, shape: str) -> None:
    """WRK-02: one row takes at most 8 MB, and ten thousand rows with texts what is printed of them.

    Each shape has new processes, so that what the engine keeps of one does not hide what another takes.
    """
    with opened(tmp_path, in_process) as both:
        found = compare(both, shape, runs=5)
    assert found.same
    assert found.grown <= bounds(tmp_path, [shape])[shape].memory


def test_the_test_of_times_sees_a_shift_and_nothing_else() -> None:
    first = [float(i) for i in range(100)]
    assert smirnov(first, first) == 1.0
    assert smirnov(first, [time + 0.5 for time in first]) > 0.99
    assert smirnov([time + 60 for time in first], first) < 1e-12
    assert smirnov([time + 60 for time in first], first, one_sided=True) < 1e-12
    assert smirnov([time - 60 for time in first], first, one_sided=True) == 1.0
