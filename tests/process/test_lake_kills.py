"""An archive that is killed between data file, log entry and acknowledgment, at every step of them:
each message is in the lake once, and none is received that is not there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.process.spark_driver import lake_bodies
from tests.process.spark_office import SparkOffice, path_of

QUEUE = "orders"
BATCH = 4
STEPS_MAX = 60
UNLIMITED = 1_000_000


class Writer:
    """A process whose children archive and die."""

    def __init__(self, folder: Path, office: SparkOffice, running: ExitStack) -> None:
        options = {
            "url": office.url,
            "tokenFile": str(office.token_file),
            "queue": path_of(QUEUE),
            "consume": "onCommit",
            "group": "archive",
            "maxMessagesPerTrigger": str(BATCH),
        }
        words = [sys.executable, "-m", "tests.process.lake_writer", str(folder)]
        self._process = running.enter_context(
            subprocess.Popen(
                [*words, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )

    def run(self, steps: int) -> int:
        """One child; its exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """Waits for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0


def archived(lake: Path) -> list[bytes]:
    """What the lake has; nothing where making it was cut short."""
    return lake_bodies(str(lake)) if list(lake.glob("_delta_log/*.json")) else []


def test_a_kill_at_every_step_of_a_batch_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with ExitStack() as running:
        office = SparkOffice(tmp_path / "office", running)
        office.create(QUEUE)
        writer = Writer(tmp_path, office, running)
        sent: list[bytes] = []
        killed = 0
        for steps in range(STEPS_MAX):
            new = [f"{steps}-{number}".encode() for number in range(BATCH)]
            office.send(QUEUE, new)
            sent += new
            status = writer.run(steps)
            assert status in (0, -signal.SIGKILL)
            there = archived(tmp_path / "lake")
            left = office.bodies(QUEUE)
            assert len(set(there)) == len(there)
            assert set(there) | set(left) == set(sent)
            killed += status != 0
            if status == 0:
                break
        assert killed > 20
        assert writer.run(UNLIMITED) == 0
        writer.end()
        assert office.count(QUEUE) == 0
        assert sorted(lake_bodies(str(tmp_path / "lake"))) == sorted(sent)
