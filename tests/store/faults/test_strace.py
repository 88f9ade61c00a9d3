"""On a real process and a real disk: the kernel's own account of writes, syncs and answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.strace_lines import Call, parsed

ROOT = Path(__file__).parents[3]
CALLS = "pwritev,pwritev2,pwrite64,write,fdatasync,fsync,openat,ftruncate"


# Space that is prepared, nobody is told of it: the first bytes of the whole write are zero.
FIRST_ZEROS = re.compile(r'^[^"]*"\\0\\0\\0\\0')


def traced(home: Path, tmp_path: Path, *options: str) -> list[Call]:
    """What a process did while it worked and answered."""
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-y", "-s", "40", "-e", f"trace={CALLS}", "-o", str(trace)]
    program = [sys.executable, "-m", "tests.store.faults.answering", str(home), *options]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, *program], cwd=ROOT, env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.count(b"answer ") > 30
    return parsed(trace.read_text(errors="replace"))


def unsynced_answers(calls: list[Call], store: str) -> tuple[list[str], Counter[str]]:
    """Answers that left while a write to the log or a new segment was not yet on the disk."""
    written: set[str] = set()
    made: set[str] = set()
    early: list[str] = []
    seen = Counter[str]()
    for name, path, text in calls:
        log = path.startswith(store) and path.endswith(".log")
        if log and name.startswith("pwrite") and not FIRST_ZEROS.search(text):
            written.add(path)
            seen["log writes"] += 1
        elif log and name == "openat" and "O_CREAT" in text:
            made.add(path)
            seen["new segments"] += 1
        elif log and name in ("fdatasync", "fsync"):
            written.discard(path)
            seen["log syncs"] += 1
        elif name == "fsync" and path == store:
            made.clear()
            seen["directory syncs"] += 1
        elif name == "write" and '"answer ' in text:
            seen["answers"] += 1
            seen["answers behind a write"] += seen["log writes"] > seen["writes before"]
            seen["writes before"] = seen["log writes"]
            if written or made:
                early.append(f"{text} while {sorted(written | made)} wait")
    return early, seen


@pytest.mark.peer("strace")
@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/11")
def test_a_real_process_answers_when_the_kernel_has_synced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    early, seen = unsynced_answers(traced(home, tmp_path), str((home / "store").resolve()))
    print(dict(seen))
    assert early == []
    assert seen["answers behind a write"] > 30
    assert seen["new segments"] > 3
    assert seen["log syncs"] >= seen["answers behind a write"]


@pytest.mark.peer("strace")
def test_a_process_that_answers_before_its_sync_is_noticed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    calls = traced(home, tmp_path, "hasty")
    early, seen = unsynced_answers(calls, str((home / "store").resolve()))
    print(dict(seen), len(early))
    assert len(early) > 30
