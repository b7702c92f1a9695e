# mypy: disable-error-code="assignment, call-arg, call-overload"
"""Attacks through DataFrames: copies, chains and re-runs that would gain a budget, and names that would be SQL."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery.frontends.pandas import datasets
from tests.scripted import zero_noise

SAID: dict[str, Any] = {"privacy_unit": "who", "max_rows": 8, "bounds": {"x": (0, 10)}}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_known", {})


@pytest.fixture
def frame() -> pd.DataFrame:
    made = pd.DataFrame({"who": [1, 1, 2, 3], "x": [1.0, 2, 3, 4], "sex": ["F", "M", "F", "M"]})
    made.dp.protect(**SAID, budget={"epsilon": 1})
    return made


DERIVED: dict[str, Callable[[pd.DataFrame], Any]] = {
    "filter": lambda df: df[df.x > 1],
    "copy": lambda df: df.copy(),
    "shallow copy": lambda df: df.copy(deep=False),
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "assign": lambda df: df.assign(y=df.x.mean()),
    "merge": lambda df: df.merge(df[["who"]], on="who"),
    "concat": lambda df: pd.concat([df, df]),
    "sort and head": lambda df: df.sort_values("x").head(3),
    "dedupe": lambda df: df.drop_duplicates("sex"),
    "sample": lambda df: df.sample(2, random_state=0),
    "columns": lambda df: df[["who", "x"]],
    "reset_index": lambda df: df.reset_index(),
    "astype": lambda df: df.astype({"x": "Float64"}),
    "query": lambda df: df.query("x > 1"),
    "pickle": lambda df: pickle.loads(pickle.dumps(df)),
    "transform": lambda df: df.assign(m=df.groupby("sex").x.transform("mean")),
    "set_axis": lambda df: df.set_axis(["who", "x", "z"], axis=1),
    "chain": lambda df: df[df.x > 0].copy().assign(k=1).query("k == 1").sort_values("who"),
}


@pytest.mark.parametrize("name", DERIVED)
def test_what_is_made_of_a_protected_frame_gains_no_budget(frame: pd.DataFrame, name: str) -> None:
    """API-02: no method answers, no other budget, name or ledger is accepted, and protected anew it spends the same."""
    made = DERIVED[name](frame)
    assert made.attrs["dpquery"] == frame.attrs["dpquery"], "pandas hands the handle on here"
    with pytest.raises(dp.CatalogError, match="protected rows"):
        made.dp.count(epsilon="0.1")
    with pytest.raises(dp.CatalogError, match="one budget"):
        made.dp.protect(**SAID, budget={"epsilon": 1}, dataset="others")
    with pytest.raises(dp.LedgerError, match="does not change"):
        made.dp.protect(**SAID, budget={"epsilon": 2})
    with pytest.raises(dp.LedgerError, match="another promise"):
        made.dp.protect(privacy_unit="row", bounds={"x": (0, 10)}, dataset="who")
    with pytest.raises(dp.LedgerError):
        made.dp.protect(**SAID, ledger="new.ledger", new_ledger=True)
    frame.dp.count(epsilon="0.25")
    made.dp.protect(**SAID).count(epsilon="0.25")
    assert frame.dp.remaining.epsilon == made.dp.remaining.epsilon == Fraction(1, 2)


LOST: dict[str, Callable[[pd.DataFrame], Any]] = {
    "made of values": lambda df: pd.DataFrame(df.to_dict("list")),
    "merge with another": lambda df: df.merge(pd.DataFrame({"who": [1], "z": [2]}), on="who"),
    "concat with another": lambda df: pd.concat([df, pd.DataFrame({"who": [9], "x": [2.0]})]),
}


@pytest.mark.parametrize("name", LOST)
def test_a_frame_that_lost_its_handle_shares_the_budget_of_its_unit(frame: pd.DataFrame, name: str) -> None:
    """API-02: without a name, all frames of one unit are one dataset."""
    made = LOST[name](frame)
    assert made.attrs == {}
    with pytest.raises(dp.CatalogError, match="not protected"):
        made.dp.count(epsilon="0.1")
    frame.dp.count(epsilon=1)
    made.dp.protect(**SAID)
    with pytest.raises(dp.InsufficientBudgetError):
        made.dp.count(epsilon="0.1")


def test_a_frame_whose_attributes_were_cleared_is_known_by_itself(frame: pd.DataFrame) -> None:
    """API-02: the very object that was protected needs no handle."""
    for attrs in ({}, {"dpquery": {"dataset": "new", "ledger": "process:x"}}):
        frame.attrs = attrs
        with pytest.raises(dp.CatalogError, match="one budget"):
            frame.dp.protect(**SAID, dataset="new", budget={"epsilon": 9})
    assert frame.dp.remaining.epsilon == 1


def test_no_frame_gets_the_stored_answer_of_another(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """ACC-15: frames of one dataset hold different rows."""
    zero_noise(monkeypatch)
    other = frame.assign(x=9.0)
    other.dp.protect(**SAID)
    asked = {"epsilon": "0.2", "max_rows": 5}
    assert (frame.dp.sum("x", **asked), other.dp.sum("x", **asked)) == (10, 36)
    assert frame.dp.remaining.epsilon == Fraction(3, 5)


def test_a_cell_run_again_has_spent_what_it_spent() -> None:
    """API-02: the same lines again find the same ledger, whatever else they make."""
    for turn in range(1, 4):
        made = pd.DataFrame({"who": [1, 2], "x": [1.0, 2]})
        made.dp.protect(**SAID, budget={"epsilon": 1})
        made.dp.protect(**SAID, budget={"epsilon": 1})
        made.dp.sum("x", epsilon="0.25")
        assert made.dp.remaining.epsilon == 1 - Fraction(turn, 4)
        del made
        gc.collect()


def test_chains_spend_one_budget(frame: pd.DataFrame) -> None:
    """API-02: query, join, assign_bounds, groupby and explain are views of one ledger."""
    private = frame.dp.query("x > 0").assign_bounds(x=(0, 5))
    private.join(pd.DataFrame({"sex": ["F"], "word": ["f"]}), on="sex").count(epsilon="0.5")
    private.groupby("who")
    assert private.remaining == frame.dp.remaining
    with pytest.raises(dp.InsufficientBudgetError):
        private.sum("x", epsilon="0.6")


CHANGES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "a column": lambda df: df.__setitem__("x", [100.0] * 4),
    "a cell": lambda df: df.loc.__setitem__((0, "x"), 100.0),
    "iloc": lambda df: df.iloc.__setitem__((0, 1), 100.0),
    "iat": lambda df: df.iat.__setitem__((0, 1), 100.0),
    "the unit": lambda df: df.__setitem__("who", [1, 2, 3, 4]),
    "rows": lambda df: df.drop(index=0, inplace=True),
    "order": lambda df: df.sort_values("x", ascending=False, inplace=True),
    "names": lambda df: setattr(df, "columns", ["x", "who", "sex"]),
    "update": lambda df: df.update(pd.DataFrame({"x": [100.0] * 4})),
    "rename": lambda df: df.rename(columns={"x": "y"}, inplace=True),
    "insert": lambda df: df.insert(0, "new", 1),
}


# pandas 3 means to drop the argument. Until it has: then the case goes.
@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("name", CHANGES)
def test_a_frame_changed_in_place_is_noticed_and_what_was_protected_stays(
    frame: pd.DataFrame, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-03: the data are a snapshot, and the changed frame answers nothing until it is protected anew."""
    zero_noise(monkeypatch)
    private = frame.dp.query("x > 0")
    CHANGES[name](frame)
    with pytest.raises(dp.CatalogError, match="changed since"):
        frame.dp.count(epsilon="0.1")
    assert private.sum("x", epsilon="0.5", max_rows=10) == 10
    assert private.count(epsilon="0.5", max_rows=10) == 4


def test_arrays_behind_a_frame_are_read_only_or_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """API-03: pandas copies what it is given, and gives out what cannot be written."""
    zero_noise(monkeypatch)
    given = np.array([1.0, 2, 3])
    made = pd.DataFrame({"who": [1, 2, 3], "x": given})
    made.dp.protect(**SAID, budget={"epsilon": 100})
    given[:] = 9
    for array in (made["x"].to_numpy(), made["x"].values, made[["x"]].to_numpy()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    assert made.dp.sum("x", epsilon=20) == 6


def test_handles_hold_no_data_no_budget_and_no_ledger(frame: pd.DataFrame, tmp_path: Path) -> None:
    """API-01: what travels are two texts."""
    handle = frame.attrs["dpquery"]
    assert handle == {"dataset": "who", "ledger": handle["ledger"]} and handle["ledger"].startswith("process:")
    frame.to_parquet(tmp_path / "f.parquet")
    again = pd.read_parquet(tmp_path / "f.parquet")
    assert again.attrs == frame.attrs
    with pytest.raises(TypeError):
        pickle.dumps(frame.dp.query("x > 1"))
    with pytest.raises(TypeError):
        copy.deepcopy(frame.dp.query("x > 1"))


@pytest.mark.parametrize("forged", [None, 3, {}, {"dataset": "who"}, {"dataset": 3, "ledger": "x"}, []])
def test_a_handle_that_was_changed_is_refused(frame: pd.DataFrame, forged: Any) -> None:
    """API-02: neither answers nor another protection follow from a broken handle."""
    made = frame.copy()
    made.attrs["dpquery"] = forged
    for call in (lambda: made.dp.count(epsilon=1), lambda: made.dp.protect(**SAID, budget={"epsilon": 1})):
        with pytest.raises(dp.CatalogError, match="was changed"):
            call()


def test_a_frame_of_another_process_needs_a_ledger_that_lives(frame: pd.DataFrame, tmp_path: Path) -> None:
    """API-02: an in-process ledger does not begin anew elsewhere."""
    (tmp_path / "f.pickle").write_bytes(pickle.dumps(frame))
    code = """
import pickle, sys, dpquery as dp
frame = pickle.load(open(sys.argv[1] + "/f.pickle", "rb"))
said = {"privacy_unit": "who", "max_rows": 8, "bounds": {"x": (0, 10)}, "budget": {"epsilon": 1}}
for more in ({}, {"dataset": "new"}, {"ledger": sys.argv[1] + "/none.ledger"}):
    try:
        frame.dp.protect(**said, **more)
    except dp.DPQueryError as error:
        print(type(error).__name__)
frame.dp.protect(**said, ledger=sys.argv[1] + "/f.ledger", new_ledger=True).count(epsilon=1)
frame.to_pickle(sys.argv[1] + "/g.pickle")
"""
    made = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["LedgerError", "CatalogError", "LedgerError"]
    again = pickle.loads((tmp_path / "g.pickle").read_bytes())
    assert again.attrs["dpquery"]["ledger"].startswith("file:") and str(tmp_path) not in str(again.attrs)
    with pytest.raises(dp.LedgerError):
        again.dp.protect(**SAID, budget={"epsilon": 1})
    datasets._known.clear()
    with pytest.raises(dp.LedgerError):
        again.dp.protect(**SAID, budget={"epsilon": 1}, ledger=tmp_path / "h.ledger", new_ledger=True)
    with pytest.raises(dp.LedgerError):
        again.dp.protect(**SAID, budget={"epsilon": 1}, ledger=tmp_path / "f.ledger", new_ledger=True)
    with pytest.raises(dp.InsufficientBudgetError):
        again.dp.protect(**SAID, budget={"epsilon": 1}, ledger=tmp_path / "f.ledger").count(epsilon=1)


def _spend(frame: pd.DataFrame) -> None:
    frame.dp.session._ledger.charge(analyst="analyst", loss=dp.PrivacyLoss(epsilon=Fraction(3, 4)), query="in a fork")


def test_a_fork_spends_the_same_budget(frame: pd.DataFrame) -> None:
    """LED-09: the in-process ledger is a file that a forked process shares, and does not remove."""
    child = multiprocessing.get_context("fork").Process(target=_spend, args=(frame,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert frame.dp.remaining.epsilon == Fraction(1, 4)


def test_the_ledger_stays_when_all_frames_are_gone() -> None:
    """API-02: data are freed, what was spent is not."""
    frame = pd.DataFrame({"who": [1, 2], "x": [1.0, 2]})
    frame.dp.protect(**SAID, budget={"epsilon": 1})
    frame.dp.count(epsilon=1)
    gone = weakref.ref(frame)
    held = weakref.ref(frame.dp.session)
    del frame
    gc.collect()
    assert gone() is None and held() is None
    made = pd.DataFrame({"who": [1, 2], "x": [1.0, 2]})
    made.dp.protect(**SAID)
    assert made.dp.remaining.epsilon == 0


HOSTILE = [
    'x" FROM this; DROP TABLE this --',
    'a"',
    '""',
    '"',
    "a'b",
    "a;b",
    "a--b",
    "a/*b*/",
    ":dp0",
    "$1",
    "?",
    "%s",
    "a\\b",
    "select",
    "this",
    "*",
    "é",
    "x y",
    "`x`",
    "{0}",
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_columns_are_never_sql(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """BAK-02: whatever a column is called, it is that column."""
    zero_noise(monkeypatch)
    made = pd.DataFrame({"who": [1, 2, 3], name: [1.0, 2, 4], "key": ["a", "b", "a"]})
    said = {"bounds": {name: (0, 10)}, "keys": {"key": ["a", "b"]}, "budget": {"epsilon": 1000}}
    made.dp.protect(privacy_unit="who", max_rows=8, **said, defaults={"epsilon": 20, "least_charge": "1e-12"})
    assert made.dp.sum(name) == 7
    assert made.dp.groupby("key")[name].sum().to_dict() == {"a": 5, "b": 2}
    assert made.dp.assign_bounds({name: (0, 3)}).sum([name])[name] == 6
    assert made.dp.groupby("key").agg(**{name: (name, "sum")})[name].to_dict() == {"a": 5, "b": 2}
    if "`" not in name:
        assert made.dp.query(f"`{name}` > 1").count() == 2
    public = pd.DataFrame({"key": ["a", "b"], name + "2": ["p", "q"]})
    assert made.dp.join(public, on="key").value_counts(name + "2").to_dict() == {"p": 2, "q": 1}


@pytest.mark.parametrize("name", ["a\x00b", "a\nb", "a\u202eb", " a", "a\u200bb", "x" * 200, ""])
def test_names_that_nobody_can_see_are_left_out(name: str) -> None:
    """PAR-08: such a column cannot be named."""
    made = pd.DataFrame({"who": [1, 2, 3], name: [1.0, 2, 4]})
    made.dp.protect(privacy_unit="who", max_rows=8, budget={"epsilon": 1})
    assert made.dp.columns == ("who",)
    for call in (lambda: made.dp.count(name, epsilon=1), lambda: made.dp.query(f"`{name}` > 1")):
        with pytest.raises(dp.QueryError):
            call()


@pytest.mark.parametrize(
    "text",
    ["@pd.io.common.os.popen('id')", "@df.to_csv('f')", "__import__('os')", "x.__class__ == 3", "who.pipe(print)"],
)
def test_conditions_are_never_evaluated(frame: pd.DataFrame, text: str) -> None:
    """BAK-07: what pandas would run is refused."""
    with pytest.raises(dp.QueryError):
        frame.dp.query(text)


def test_errors_hold_no_value(frame: pd.DataFrame) -> None:
    """OUT-03: canary values of the data are in no message and no repr."""
    made = pd.DataFrame({"who": [1, 2], "x": [1.0, 2], "name": ["canary1", "canary2"], "mixed": ["canary3", 4]})
    made.dp.protect(**SAID, dataset="birds", budget={"epsilon": 1})
    shown = [repr(made.dp), str(made.dp.explain.count("name", epsilon=1)), repr(made.dp.session)]
    calls: list[Callable[[], Any]] = [
        lambda: made.dp.count("mixed", epsilon=1),
        lambda: made.dp.mean("name", epsilon=1),
        lambda: made.dp.query("name > 3").count(epsilon=1),
        lambda: made.dp.groupby("name").size(epsilon=1),
        lambda: made.copy().dp.count(),
    ]
    for call in calls:
        with pytest.raises(dp.DPQueryError) as caught:
            call()
        shown.append(str(caught.value))
    assert "canary" not in "".join(shown)
