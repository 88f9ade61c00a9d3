"""Real `posthouse serve` processes for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

START_S = 30.0
STOP_S = 60.0  # much longer than it takes, also where others are at work


class Serving:
    """One process. Left alone at the end of a `with` it is stopped, and has to stop well.

    With `files` it may have only this many descriptors; `before` are the words of a command that
    runs it.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        files: int | None = None,
        before: tuple[str, ...] = (),
        **environment: str,
    ) -> None:
        self.home = folder / "home"
        self.ready_file = folder / "ready.json"
        self.errors = folder / "stderr.txt"
        command = [sys.executable, "-m", "posthouse.cli.main", "serve", "--home", str(self.home)]
        command += ["--ready-file", str(self.ready_file), "--ports", "ephemeral", "--json"]
        words = [*before, *command, *options]
        if files is not None:
            words = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *words]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **environment},
            )

    def ready(self) -> dict[str, Any]:
        """Waits until it is, and returns the ready file, which is what it prints."""
        assert self.process.stdout is not None
        printed = b"" if self.process.stdout.closed else self.process.stdout.readline()
        self.process.stdout.close()
        assert self.ready_file.exists(), self.errors.read_text()
        ready = dict(json.loads(self.ready_file.read_text()))
        assert not printed or json.loads(printed) == ready
        return ready

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(STOP_S)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tells it to stop, and waits."""
        self.process.send_signal(number)
        return self.wait()

    def log(self) -> str:
        return (self.home / "logs" / "posthouse.log").read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            if kind is not None:
                self.process.kill()
            code = self.stop()
            assert kind is not None or code == 0, self.errors.read_text()
