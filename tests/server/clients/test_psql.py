"""psql over the study: its backslash commands, cursors, COPY, prepared statements, errors."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.server.clients.study import LONG, STUDY_COLUMNS, Study, fresh

pytestmark = pytest.mark.clients

BARE = "l l+ dn dn+ d d+ dt dt+ dv dm di ds df df+ da du dg dT dT+ dp ddp dx do dd db dD dC dO dF dy des drds dL dE dl"
COMMANDS = [f"\\{name}" for name in (BARE + " dA dconfig dP dRp dX conninfo encoding").split()]


def psql(study: Study, script: str, *options: str, expected: int = 0) -> tuple[str, str]:
    """Returns what psql prints, and its notices and errors."""
    command = ["psql", "-X", "-v", "ON_ERROR_STOP=1", *options, study.url]
    made = subprocess.run(command, input=script, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == expected, made.stderr
    return made.stdout, made.stderr


def test_every_command_of_the_catalog_works_and_is_free(study: Study) -> None:
    with study.charges(0):
        _, said = psql(study, "\n".join([*COMMANDS, r"\d patients", r"\d+ labs", r"\dS pg_class", r"\dt *.*"]))
    assert "ERROR" not in said


def test_tables_and_columns_are_those_that_are_declared(study: Study) -> None:
    listed, _ = psql(study, r"\dt", "-At")
    assert [line.split("|")[1] for line in listed.splitlines()] == sorted(STUDY_COLUMNS)
    shown, _ = psql(study, r"\d patients", "-At")
    assert re.findall(r"^(\w+)\|", shown, re.MULTILINE) == STUDY_COLUMNS["patients"]
    commented, _ = psql(study, r"\d+ patients", "-At")
    assert "Clamped to 18 .. 100" in commented


def test_a_query_is_charged_once_and_its_price_is_told(study: Study) -> None:
    query = fresh()
    with study.charges(1):
        printed, said = psql(study, f"{query} \\gdesc\n{query};\n{query};\n", "-At")
    assert printed.splitlines()[:2] == ["sex|text", "n|bigint"]
    first, second = printed.splitlines()[2:4], printed.splitlines()[4:]
    assert first == second and [line[0] for line in first] == ["F", "M"]
    assert said.count("NOTICE:  charged") == 1 and said.count("NOTICE:  no charge") == 1


def test_cursors_scroll_over_one_answer(study: Study) -> None:
    script = (
        f"BEGIN;\nDECLARE c SCROLL CURSOR FOR {fresh()};\nFETCH 1 FROM c;\nFETCH ALL FROM c;\n"
        "MOVE ABSOLUTE 0 IN c;\nFETCH 2 FROM c;\nCLOSE c;\nCOMMIT;\n"
    )
    with study.charges(1):
        printed, _ = psql(study, script, "-Atq")
    lines = printed.splitlines()
    assert lines[:2] == lines[2:] and len(lines) == 4


def test_fetch_count_reads_in_parts(study: Study) -> None:
    with study.charges(1):
        printed, _ = psql(study, f"{fresh()};", "-Atq", "-v", "FETCH_COUNT=1")
    assert [line[0] for line in printed.splitlines()] == ["F", "M"]


def test_prepared_statements_and_copy(study: Study) -> None:
    prepared = "PREPARE q(int) AS SELECT COUNT(*) FROM patients WHERE age > $1;\nEXECUTE q(37);\nEXECUTE q(38);\n"
    copied = f"\\copy ({fresh()}) to stdout csv header\n"
    with study.charges(3):
        printed, _ = psql(study, prepared + copied, "-Atq")
    assert "sex,n\nF," in printed


def test_what_is_known_is_free(study: Study) -> None:
    free = (
        "EXPLAIN SELECT AVG(height) FROM patients;SHOW dpquery.remaining;SELECT * FROM dp.budget;SELECT 1;"
        "SELECT DISTINCT sex FROM patients;SELECT MIN(age), MAX(age) FROM patients;"
        "SELECT * FROM patients LIMIT 0;SELECT TRUE FROM patients WHERE 1 <> 1;"
    )
    with study.charges(0):
        printed, said = psql(study, free.replace(";", ";\n"), "-At")
    assert "18|100" in printed and said.count("no charge") == 4


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM patients LIMIT 5", "rows of a single patient are not shown"),
        ("SELECT nope FROM patients", "column nope does not exist"),
        ("SELECT COUNT(*) FROM nope", "nope"),
        ("DELETE FROM patients", "ERROR"),
        ("SELEC 1", "ERROR"),
        (f"SET statement_timeout = '500ms';\n{LONG}", "canceling statement due to statement timeout"),
    ],
)
def test_refusals_cost_nothing(study: Study, query: str, words: str) -> None:
    with study.charges(0):
        _, said = psql(study, f"{query};\n", expected=3)
    assert words in said
