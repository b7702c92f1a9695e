"""Keys: one column or several, and their public values."""

from __future__ import annotations

import pytest

from dpquery.kernel.plan import Key
from dpquery.kernel.selection import all_codes, group_numbers
from dpquery.plan.types import INT64, TEXT, Type, Value

PAIR = ("a", "b")
TYPES = (INT64, TEXT)


@pytest.mark.parametrize(
    ("columns", "types", "domain"),
    [
        ((), (), ()),
        (("a", "a"), TYPES, ((1, "x"),)),
        (PAIR, (INT64,), ((1, "x"),)),
        (PAIR, TYPES, ((1, "x"), (1, "x"))),
        (PAIR, TYPES, ((1, None), (1, None))),
        (PAIR, TYPES, ((1, "x"), (2,))),
        (PAIR, TYPES, ((1, "x", 3),)),
        (PAIR, TYPES, None),
    ],
    ids=[
        "no column",
        "one column twice",
        "a column without its type",
        "a tuple twice",
        "a tuple with NULL twice",
        "a tuple too short",
        "a tuple too long",
        "selected together",
    ],
)
def test_what_is_no_key(
    columns: tuple[str, ...], types: tuple[Type, ...], domain: tuple[tuple[Value, ...], ...] | None
) -> None:
    with pytest.raises(ValueError):
        Key(columns=columns, types=types, domain=domain)


def test_each_group_has_one_place() -> None:
    keys = (Key(columns=PAIR, types=TYPES, domain=((1, "x"), (1, "y"), (2, "x"))), Key.of("c", INT64, (5, None)))
    codes = all_codes(keys, 6)
    assert [column.tolist() for column in codes] == [[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]]
    assert group_numbers(keys, codes, 6).tolist() == list(range(6))
