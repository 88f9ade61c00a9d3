"""How much of a processor waiting servers and clients use."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from tests.process.waiter import processor_s

QUIET_S = 1.5  # upkeep of the server comes to its end


IDLE_MAX = 0.01  # of a processor


class Waiting:
    """The client process."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.process.waiter", str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.pid = self.process.pid

    def tell(self, word: str, number: int) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word} {number}\n".encode())
        answer = self.process.stdout.readline()
        assert answer, "the client process failed"
        return msgspec.json.decode(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        if kind is not None:
            self.process.kill()
        assert self.process.wait() == 0 or kind is not None


def idle_shares(seconds: float, *pids: int) -> list[float]:
    """Which part of a processor processes use that have nothing to do."""
    begun, before = time.monotonic(), [processor_s(pid) for pid in pids]
    time.sleep(seconds)
    used = [processor_s(pid) - was for pid, was in zip(pids, before, strict=True)]
    passed = time.monotonic() - begun
    return [one / passed for one in used]
