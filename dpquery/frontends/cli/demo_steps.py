"""The six queries of the demo, what each teaches, and how the public study answers them exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One query of the tour.

    Attributes:
        title: What it is; "" for a further query under the same title.
        lesson: What it teaches.
        sql: The query, as an analyst writes it.
        offer: What it may lose, and other arguments of `Session.sql`.
        exact: The same question to DuckDB, without privacy: same columns, same order; "" where a refusal is expected.
        keys: How many of the first columns tell the group.
        remark: What to look at in the answer.
    """

    title: str
    lesson: str
    sql: str
    offer: Mapping[str, Any] = field(default_factory=dict)
    exact: str = ""
    keys: int = 0
    remark: str = ""


STEPS = (
    Step(
        title="How many patients?",
        lesson="Noise of known size hides each single patient. A total over thousands hardly notices it.",
        sql="SELECT COUNT(*) AS patients FROM patients",
        offer={"epsilon": "0.1"},
        exact="SELECT COUNT(*) FROM patients",
        remark="The ledger counts in rho, in which many small losses add up slowly. The next queries ask in rho.",
    ),
    Step(
        title="Averages by group",
        lesson="The tests that the catalog names always appear, others never. A narrow CLAMP means little noise.",
        sql="""\
SELECT test, COUNT(*) AS n, AVG(CLAMP(value, 20, 220)) AS mean
FROM labs
GROUP BY test""",
        offer={"rho": "0.02"},
        exact="SELECT test, COUNT(*), AVG(value) FROM labs WHERE test IN ('hdl', 'sbp') GROUP BY test",
        keys=1,
        remark="Results of patients with more than 100 weigh less, so n is a little low: in all charts alike.",
    ),
    Step(
        title="Charts that add up",
        lesson="Private tables join on the patient. Each result has the same weight here as in the table above.",
        sql="""\
SELECT p.sex, COUNT(*) AS n, AVG(CLAMP(l.value, 20, 120)) AS hdl
FROM patients p JOIN labs l ON p.id = l.id
WHERE l.test = 'hdl'
GROUP BY p.sex""",
        offer={"rho": "0.02"},
        exact="""SELECT p.sex, COUNT(*), AVG(l.value) FROM patients p JOIN labs l ON p.id = l.id WHERE l.test = 'hdl'
            GROUP BY p.sex""",
        keys=1,
        remark="The counts of F and M add up to that of hdl above, up to the noise: no chart counts otherwise.",
    ),
    Step(
        title="Totals of each patient",
        lesson="A subquery may hold one row per patient. Only aggregates over patients leave the engine.",
        sql="""\
SELECT COUNT(*) AS patients, AVG(CLAMP(tests, 0, 100)) AS tests_each
FROM (SELECT id, COUNT(*) AS tests FROM labs GROUP BY id) AS totals""",
        offer={"rho": "0.002"},
        exact="SELECT COUNT(*), AVG(tests) FROM (SELECT id, COUNT(*) AS tests FROM labs GROUP BY id)",
        remark="Few patients have more than 100 results. Counting at most 100 of each saves much noise, and takes 0.3 "
        "off the mean: the exact number counts all of them.",
    ),
    Step(
        title="Groups that are not declared",
        lesson="Types of event are data too. One is shown if its noisy number reaches tau. That costs delta.",
        sql="""\
SELECT event, COUNT(DISTINCT id) AS patients
FROM events
GROUP BY event ORDER BY patients DESC""",
        offer={"rho": "0.005"},
        exact="SELECT event, COUNT(DISTINCT id) FROM events GROUP BY event ORDER BY 2 DESC",
        keys=1,
    ),
    Step(
        title="What is refused",
        lesson="No noise hides a row that is shown. The query is refused before data are read, and costs nothing.",
        sql="SELECT id, value FROM labs WHERE value > 300",
    ),
    Step(
        title="",
        lesson="The ledger adds up what all sessions are charged. A query that exceeds the rest is refused too.",
        sql="SELECT COUNT(*) AS deaths FROM patients WHERE died",
        offer={"epsilon": "2"},
    ),
)
