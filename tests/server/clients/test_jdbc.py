"""pgjdbc over the study: J.java does the checks, each told as a line; charges are counted here."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.server.clients.study import DATABASE, USER, Study, studying
from tests.server.serving import PASSWORD

pytestmark = pytest.mark.clients

DRIVER = Path("/usr/share/java/postgresql.jar")
SOURCE = Path(__file__).with_name("J.java")


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """Of its own: what another client asked before would be free."""
    with studying(tmp_path / "nafld") as found:
        yield found


def test_every_check_of_jdbc_holds_and_charges_are_exact(study: Study, tmp_path: Path) -> None:
    assert DRIVER.exists(), "libpostgresql-jdbc-java is not installed"
    subprocess.run(["javac", "-cp", str(DRIVER), "-d", str(tmp_path), str(SOURCE)], check=True, timeout=120)
    url = f"jdbc:postgresql://127.0.0.1:{study.port}/{DATABASE}?user={USER}&password={quote(PASSWORD)}&socketTimeout=60"
    before = study.entries
    command = ["java", "-cp", f"{tmp_path}:{DRIVER}", "J", url]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = made.stdout.splitlines()
    assert made.returncode == 0, made.stderr
    assert not [line for line in lines if line.startswith("FAIL")]
    written = re.findall(r'check\("(\w+)"', SOURCE.read_text(encoding="utf-8"))
    assert [line.removeprefix("ok ") for line in lines if line.startswith("ok ")] == written
    assert study.entries - before == int(lines[-1].removeprefix("charges "))
