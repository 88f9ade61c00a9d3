"""The Spark step of `posthouse demo`: orders into Parquet, customers, dead letters by reason.

Spark runs in a process of its own, `posthouse.cli.demo.spark`: the output of a JVM belongs in a
file, and it has to go when the demonstration is stopped. It shows of its progress in lines of JSON.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from posthouse.client.manager import QueueManagerClient
from posthouse.model.errors import ServiceNotAvailable
from posthouse.runtime.home import real_clock

NEEDED: Final = ("pyspark", "pyarrow", "numpy")
STEPS: Final = 5  # lines of progress


class Customer(msgspec.Struct):
    """A row of the table of customers."""

    customer: str
    orders: int
    amount: int


class Piped(msgspec.Struct):
    """What the pipeline made of the queues."""

    archived: int  # messages in the lake
    orders: int  # in the table of customers, all together
    amount: int
    customers: list[Customer]  # those who bought most
    reasons: dict[str, int]  # dead letters
    lake: str
    table: str
    seconds: float = 0.0


class Wanted(NamedTuple):
    """What a pipeline is given."""

    home: Path
    url: str
    queue: str
    dead_letters: str


def spark_is_there() -> bool:
    """Whether the extra `spark` is installed; looked up, not loaded."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def run_pipeline(
    manager: QueueManagerClient, wanted: Wanted, progress: Callable[[int, int], None]
) -> Piped:
    """Runs it to its end with a token of its own, which is good for nothing afterwards."""
    created, began_ms = manager.call("POST", "/tokens", {"role": "administer"}), real_clock()[0]
    token_file = wanted.home / "token"
    token_file.touch(0o600)
    token_file.write_text(created["token"], encoding="ascii")
    try:
        piped = _followed(_lines(wanted, token_file), progress)
    finally:
        token_file.unlink()
        manager.call("DELETE", f"/tokens/{created['info']['id']}")
    piped.seconds = (real_clock()[0] - began_ms) / 1000
    return piped


def _followed(lines: Iterator[dict[str, Any]], progress: Callable[[int, int], None]) -> Piped:
    """The last line is the result."""
    result: dict[str, Any] = {}
    for done, line in enumerate(lines):
        progress(min(done, STEPS), STEPS)
        result = line
    return msgspec.convert(result, Piped)


def _lines(wanted: Wanted, token_file: Path) -> Iterator[dict[str, Any]]:
    """The output of the other process, line by line."""
    log = wanted.home / "spark.txt"
    words = (str(wanted.home), wanted.url, str(token_file), wanted.queue, wanted.dead_letters)
    command = [sys.executable, "-m", "posthouse.cli.demo.spark", *words]
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        ) as process,
        _gone_afterwards(process),
    ):
        assert process.stdout is not None
        for line in process.stdout:
            yield msgspec.json.decode(line, type=dict[str, Any])
    if process.returncode:
        raise ServiceNotAvailable(
            f"the pipeline ended with exit code {process.returncode}", f"What Spark said: {log}"
        )


@contextlib.contextmanager
def _gone_afterwards(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """With all that it started, however this ends."""
    try:
        yield
        process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
