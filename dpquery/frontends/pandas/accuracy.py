"""Intervals beside answers in the shapes of pandas: both ends of them take the shape that the numbers took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pandas as pd
import pyarrow as pa

from dpquery.errors import DPQueryError
from dpquery.result.numbers import noisy
from dpquery.result.table import Result

ACCURACY = "accuracy"
"""The key in `attrs` of an answer, with its intervals."""
Shape = Callable[[Result], Any]


class End:
    """An answer with one end of the intervals in place of its numbers: what a shape reads of a `Result`."""

    def __init__(
        self, result: Result, end: str, confidence: object = None, *, simultaneous: bool | None = None
    ) -> None:
        self._result, self._end, self._asked, self._at_once = result, end, confidence, simultaneous
        self.charge, self.confidence = result.charge, result.confidence

    def to_arrow(self) -> pa.Table:
        """Returns the answer's table; NULL where no interval is known."""
        ends = self._result.ends(self._asked, self._at_once)
        table = self._result.to_arrow()
        columns = [
            pa.array(getattr(ends[name], self._end), pa.float64(), from_pandas=True) if name in ends else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
        return pa.table(columns, names=table.column_names)

    def together(self, *, other: bool = False) -> End:
        """Returns the same end, or the other one, of intervals that hold all at once."""
        end = {"lower": "upper", "upper": "lower"}[self._end] if other else self._end
        return End(self._result, end, self._asked, simultaneous=True)


class Accuracy(str):
    """The intervals of an answer as text, so that files take it, and as a frame.

    pandas copies and compares `attrs` and writes them into files: it is equal to itself, and never copied.

    Attributes:
        frame: The intervals, rows as in the answer.
        released: The answer.
        again: Makes the frame for another confidence; None in another process.
    """

    frame: pd.DataFrame
    released: Any
    again: Callable[[object, bool | None], pd.DataFrame] | None

    def __new__(cls, frame: pd.DataFrame, released: Any, again: Any = None) -> Accuracy:
        """Returns it for an answer that has no other references."""
        made = super().__new__(cls, str(frame))
        made.frame, made.released, made.again = frame, released, again
        return made

    def __deepcopy__(self, memo: object) -> Accuracy:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Accuracy, (self.frame, self.released)


def with_accuracy(shape: Shape, result: Result) -> Any:
    """Returns an answer in its shape, with its intervals: a number that prints its own, pandas objects in `attrs`."""
    made = shape(result)
    if isinstance(made, Result):
        return made
    if not isinstance(made, pd.Series | pd.DataFrame):
        low, high = (shape(cast(Result, End(result, end))) for end in ("lower", "upper"))
        ranks = [*result.rank_errors.values()]
        return noisy(made, low, high, result.confidence, ranks[0] if len(ranks) == 1 else None)
    released = made.copy()
    released.attrs = {}

    def again(confidence: object = None, simultaneous: bool | None = None) -> pd.DataFrame:
        ends = [End(result, end, confidence, simultaneous=simultaneous) for end in ("lower", "upper")]
        return _beside(released, *(shape(cast(Result, end)) for end in ends))

    made.attrs[ACCURACY] = Accuracy(again(), released, again)
    return made


def proportions(counts: Callable[[Result], pd.Series[Any]], result: Result) -> pd.Series[Any]:
    """Returns the part of each group in all that are shown.

    Of n_i / (n_i + rest), which grows with n_i and falls with the rest, the ends are those of both, which hold at once;
    exact counts are not negative.
    """
    if isinstance(result, Result):
        found = counts(result)
        return found / found.sum()
    end = cast(End, result)
    own, others = (counts(cast(Result, end.together(other=o))).astype("float64").clip(lower=0) for o in (False, True))
    others = others.reindex(own.index) if own.index.is_unique else others
    rest = others.sum(skipna=False) - others
    return (own / (own + rest)).where(own + rest > 0)


def _beside(made: Any, low: Any, high: Any) -> pd.DataFrame:
    """Returns both ends as columns beside each other, rows as in the answer; without what carries no noise."""
    if isinstance(made, pd.Series):
        ends = {end: _aligned(found, made) for end, found in (("lower", low), ("upper", high))}
        return pd.DataFrame(ends, index=made.index)
    low, high = _aligned(low, made), _aligned(high, made)
    columns: dict[Any, Any] = {}
    for place, label in enumerate(made.columns):
        number, below, above = (frame.iloc[:, place] for frame in (made, low, high))
        if below.equals(number) and above.equals(number):
            continue
        name = label if isinstance(label, tuple) else (label,)
        columns[(*name, "lower")], columns[(*name, "upper")] = below.to_numpy("float64"), above.to_numpy("float64")
    frame = pd.DataFrame(columns, index=made.index)
    if columns:
        frame.columns = pd.MultiIndex.from_tuples(list(columns))
    return frame


def _aligned(found: Any, made: Any) -> Any:
    if isinstance(made, pd.Series):
        found = found.reindex(made.index) if made.index.is_unique else found
        return found.to_numpy("float64", na_value=float("nan"))
    return found.reindex(made.index) if made.index.is_unique else found


def accuracy_of(shown: Any, confidence: object = None, simultaneous: bool = False) -> pd.DataFrame:
    """Returns the intervals of an answer, or of rows and columns chosen from it, in their order.

    Raises:
        DPQueryError: It is not an answer, or its numbers are not those that were released.
    """
    held = shown.attrs.get(ACCURACY)
    if not isinstance(held, Accuracy):
        raise DPQueryError("this is not a private answer, so it has no intervals")
    frame, released = held.frame, held.released
    if confidence is not None or simultaneous:
        if held.again is None:
            raise DPQueryError("the answer comes from another process and has only the intervals that it had there")
        frame = held.again(confidence, simultaneous or None)
    if isinstance(shown, pd.Series) and isinstance(released, pd.DataFrame) and shown.name in released.columns:
        released, frame = released[shown.name], _of_column(frame, shown.name)
    if not _is_part(shown, released):
        raise DPQueryError(
            "these are not the released numbers, and only released numbers have intervals\n"
            "  Choose rows and columns of the answer itself; what is computed from it has no interval."
        )
    if isinstance(shown, pd.DataFrame):
        frame = _of_columns(frame, list(shown.columns))
    made: pd.DataFrame = frame if shown.index.equals(frame.index) else frame.loc[list(shown.index)]
    return made.copy()


def _of_column(frame: pd.DataFrame, name: Any) -> pd.DataFrame:
    names = name if isinstance(name, tuple) else (name,)
    known: list[Any] = list(frame.columns)
    if (*names, "lower") not in known:
        raise DPQueryError("the column carries no noise, so it has no intervals")
    return pd.DataFrame({end: frame[(*names, end)] for end in ("lower", "upper")})


def _of_columns(frame: pd.DataFrame, names: Sequence[Any]) -> pd.DataFrame:
    wanted = {name if isinstance(name, tuple) else (name,) for name in names}
    kept: list[Any] = list(frame.columns)
    return frame[[column for column in kept if column[:-1] in wanted]]


def _is_part(shown: Any, released: Any) -> bool:
    """Whether these are rows and columns of what was released, with the same values."""
    if type(shown) is not type(released):
        return False
    if isinstance(shown, pd.DataFrame):
        if not set(shown.columns) <= set(released.columns):
            return False
        return all(_is_part(shown[name], released[name]) for name in shown.columns)
    if shown.index.equals(released.index):
        return _equal(shown, released)
    if not released.index.is_unique or not shown.index.isin(released.index).all():
        return False
    return _equal(shown, released.loc[list(shown.index)])


def _equal(shown: pd.Series[Any], released: pd.Series[Any]) -> bool:
    same = (shown.to_numpy() == released.to_numpy()) | (shown.isna().to_numpy() & released.isna().to_numpy())
    return bool(pd.Series(same).fillna(False).all())
