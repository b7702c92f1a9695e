"""The six queries of the demo, what each teaches, and how the public study answers them exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One query of the tour.

    Attributes:
        title: What it is.
        lesson: What it teaches.
        sql: The query, as an analyst writes it.
        offer: What it may lose.
        exact: The same question to DuckDB, without privacy: same columns, same order; "" where a refusal is expected.
        keys: How many of the first columns tell the group.
        remark: What to look at in the answer.
    """

    title: str
    lesson: str
    sql: str
    offer: Mapping[str, str] = field(default_factory=dict)
    exact: str = ""
    keys: int = 0
    remark: str = ""


STEPS = (
    Step(
        title="How many patients?",
        lesson="Noise of known size hides each single patient, and a total over thousands hardly notices it.",
        sql="SELECT COUNT(*) AS patients FROM patients",
        offer={"epsilon": "0.1"},
        exact="SELECT COUNT(*) FROM patients",
    ),
    Step(
        title="Averages by group, with public keys",
        lesson="Groups named in the catalog always appear. A narrow CLAMP means little noise, and tames wrong entries.",
        sql="""\
SELECT test, COUNT(*) AS n, AVG(CLAMP(value, 20, 220)) AS mean
FROM labs WHERE test IN ('hdl', 'sbp')
GROUP BY test""",
        offer={"epsilon": "1"},
        exact="SELECT test, COUNT(*), AVG(value) FROM labs WHERE test IN ('hdl', 'sbp') GROUP BY test",
        keys=1,
        remark="A patient counts with at most 40 rows a test, so n is a little low; intervals speak of noise alone.",
    ),
    Step(
        title="A join",
        lesson="Tables of the same patients join on the patient; one patient still weighs no more than the bounds say.",
        sql="""\
SELECT p.sex, AVG(CLAMP(l.value, 20, 120)) AS hdl
FROM patients p JOIN labs l ON p.id = l.id
WHERE l.test = 'hdl'
GROUP BY p.sex""",
        offer={"epsilon": "0.5"},
        exact="""SELECT p.sex, AVG(l.value) FROM patients p JOIN labs l ON p.id = l.id WHERE l.test = 'hdl'
            GROUP BY p.sex""",
        keys=1,
    ),
    Step(
        title="Totals of each patient",
        lesson="A subquery may hold one row per patient. It is not shown: only aggregates over patients are.",
        sql="""\
SELECT COUNT(*) AS patients, AVG(CLAMP(tests, 0, 100)) AS tests_each
FROM (SELECT id, COUNT(*) AS tests FROM labs GROUP BY id) AS totals""",
        offer={"epsilon": "0.2"},
        exact="SELECT COUNT(*), AVG(tests) FROM (SELECT id, COUNT(*) AS tests FROM labs GROUP BY id)",
    ),
    Step(
        title="Groups that nobody declared",
        lesson="Types of event are data too: one is shown if the noisy number of its patients reaches tau. Costs delta.",
        sql="""\
SELECT event, COUNT(DISTINCT id) AS patients
FROM events
GROUP BY event ORDER BY patients DESC""",
        offer={"rho": "0.01"},
        exact="SELECT event, COUNT(DISTINCT id) FROM events GROUP BY event ORDER BY 2 DESC",
        keys=1,
        remark="A patient counts in at most 4 groups. A rho is what this ledger counts; an epsilon is turned into one.",
    ),
    Step(
        title="What is refused: single rows",
        lesson="No noise protects a row that is shown, so the query is refused before any data is read. It costs nothing.",
        sql="SELECT id, value FROM labs WHERE value > 300",
    ),
    Step(
        title="What is refused: more than the budget",
        lesson="The ledger adds up all charges, of all sessions and programs. It survives restarts and cannot be talked to.",
        sql="SELECT COUNT(*) AS patients FROM patients WHERE died",
        offer={"epsilon": "2"},
    ),
)
