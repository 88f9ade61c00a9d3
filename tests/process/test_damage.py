"""A flipped bit on a real disk: the server starts, serves the rest, and an operator decides."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import posthouse
from tests.process.serving import Serving

QUEUE = "./private$/orders"
HIT = b"this one is hit"


def command(home: Path, *words: str, code: int = 0) -> list[Any]:
    """What a command prints, as JSON."""
    line = [sys.executable, "-m", "posthouse.cli.main", *words, "--home", str(home), "--json"]
    done = subprocess.run(line, capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    return [json.loads(one) for one in done.stdout.splitlines()]


def bodies(home: Path) -> list[str]:
    return [one["body"] for one in command(home, "peek", QUEUE, "--count", "10")]


def flip(home: Path) -> tuple[str, int]:
    """One bit of the body; where it lies."""
    (segment,) = (home / "store").glob("*.log")
    data = bytearray(segment.read_bytes())
    at = data.index(HIT)
    data[at] ^= 1
    segment.write_bytes(data)
    return segment.name, at


def test_a_flipped_bit_does_not_keep_the_server_down(tmp_path: Path) -> None:
    with Serving(tmp_path, "--name", "ALPHA") as serving:
        serving.ready()
        with posthouse.connect(str(serving.home)) as qm:
            queue = qm.create_queue(QUEUE)
            for body in (b"first", HIT, b"last"):
                queue.send(body, recoverable=True)
        serving.stop(signal.SIGKILL)
    home = serving.home
    file, at = flip(home)
    with Serving(tmp_path) as serving:
        serving.ready()
        assert " warning damage_undecided " in serving.log()
        (listed,) = command(home, "damage", "list")
        assert (listed["file"], listed["queue"]) == (file, None)
        assert listed["offset"] < at < listed["offset"] + listed["bytes"]
        (status,) = command(home, "status", "--check", code=1)
        assert status["damaged"] == 1
        assert any("posthouse damage list" in line for line in status["problems"])
        assert len(bodies(home)) == 2
        command(home, "damage", "accept", "00000099.log", code=1)
        command(home, "damage", "accept", file, "--yes")
        command(home, "status", "--check")
        assert " warning damage_accepted " in serving.log()
        command(home, "books")
    with Serving(tmp_path) as serving:
        serving.ready()
        assert command(home, "damage", "list") == []
        command(home, "status", "--check")


def test_a_home_that_is_set_to_refuse_does_not_start(tmp_path: Path) -> None:
    with Serving(tmp_path, "--name", "ALPHA") as serving:
        serving.ready()
        with posthouse.connect(str(serving.home)) as qm:
            queue = qm.create_queue(QUEUE)
            for body in (HIT, b"last"):
                queue.send(body, recoverable=True)
        serving.stop(signal.SIGKILL)
    file, _ = flip(serving.home)
    (serving.home / "posthouse.toml").write_text("[store]\ndamage = 'refuse'\n")
    with Serving(tmp_path) as serving:
        assert serving.wait() == 1
        assert f"{file}, offset " in serving.errors.read_text()
