"""One query enters few files and makes few calls; both numbers may only fall.

Moments have two forms, which are both planned and compared, and what is shown is the estimate over all that is stored.
"""

from __future__ import annotations

from tests.architecture.walk import walk

FILES, CALLS = 185, 6_869


def test_a_query_enters_few_files_and_makes_few_calls() -> None:
    made = walk()
    assert "kernel/release.py" in made.files, "the query was measured"
    assert len(made.files) <= FILES
    assert made.calls.total() <= CALLS, made.calls.most_common(20)
