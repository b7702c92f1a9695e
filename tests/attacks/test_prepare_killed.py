"""`prepare` that is killed at any moment: the folder holds the version before, or the new one, or none; never a half.

The process that prepares stops itself at each call of the system that writes a name or makes a file durable, and is
killed there; others are killed at random moments.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.data.prepared import MANIFEST
from dpquery.errors import CatalogError
from tests.architecture.package import ROOT
from tests.attacks.test_prepared import COUNT, Shop, sources

PREPARE = """
import os, signal, sys
from pathlib import Path
import dpquery as dp
from tests.attacks.test_prepared import CATALOG, sources
folder, stop = Path(sys.argv[1]), int(sys.argv[2])
count = 0

def counted(call):
    def stopping(*arguments, **named):
        global count
        count += 1
        if count == stop:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)
    return stopping

for name in ("mkdir", "chmod", "open", "fsync", "replace", "unlink", "rmdir", "listdir"):
    setattr(os, name, counted(getattr(os, name)))
catalog = dp.Catalog.from_yaml(CATALOG)
ledger = dp.Ledger.open(folder / "ledger")
count = 0
print("ready", flush=True)
dp.prepare(catalog, sources(), folder / "data", ledger=ledger, shards=2)
print(count, flush=True)
"""


def killed_at(folder: Path, stop: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PREPARE, str(folder), str(stop)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
