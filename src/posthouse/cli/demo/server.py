"""The queue managers of `posthouse demo`: separate processes, killed and restarted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from posthouse.model.errors import ServiceNotAvailable
from posthouse.runtime.home import real_clock
from posthouse.runtime.settings.file import SETTINGS_NAME

START_MS: Final = 60_000
STOP_S: Final = 30.0
POLL_S: Final = 0.01


class DemoServer:
    """One home, and at most one `posthouse serve` on it at a time."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.home = folder / name.lower()
        self.home.mkdir(mode=0o700, parents=True)
        self.address = ""
        self.binary = ""  # where other queue managers connect
        self.http = ""  # where they post
        self._ready_file = self.home / "ready.json"
        self._errors = self.home / "stderr.txt"
        self._process: subprocess.Popen[bytes] | None = None
        # In the home and not on the command line, so that a later command finds them there.
        settings = f'[queue_manager]\nname = "{name}"\nports = "ephemeral"\n'
        shared = folder / "directory.toml"  # of both
        shared.touch(mode=0o600)
        settings += f"[directory]\nfile = {_quoted(str(shared))}\nrefresh_s = 1\n"
        (self.home / SETTINGS_NAME).write_text(settings, encoding="utf-8")

    def launch(self) -> None:
        """Starts the process; `ready` waits for it."""
        self._ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "posthouse.cli.main", "serve", "--home", str(self.home)]
        command += ["--ready-file", str(self._ready_file)]
        with self._errors.open("ab") as errors:
            # A session of its own: Ctrl-C is for the demonstration, which then stops its servers.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )

    def ready(self) -> None:
        """Returns when it serves; then its endpoints are known."""
        process, began_ms = self._running(), real_clock()[0]
        while not self._ready_file.exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise self._not_started(f"ended with exit code {process.wait(POLL_S)}")
            if real_clock()[0] - began_ms > START_MS:
                raise self._not_started(f"was not ready after {START_MS // 1000} seconds")
        ready: dict[str, Any] = msgspec.json.decode(self._ready_file.read_bytes())
        self.address = f"http://{ready['endpoints']['admin']}"
        self.binary = ready["endpoints"]["binary"]
        self.http = ready["endpoints"]["http"]

    def _not_started(self, why: str) -> ServiceNotAvailable:
        said = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()
        last = said[-1] if said else "nothing"
        return ServiceNotAvailable(f"the queue manager {self.name} {why}", f"It said: {last}")

    def kill(self) -> None:
        """As `kill -9` does; gone when this returns."""
        process, self._process = self._running(), None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        process, self._process = self._running(), None
        process.terminate()
        try:
            return process.wait(STOP_S)
        except BaseException:
            process.kill()
            process.wait()
            raise

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it does not run"
        return self._process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.stop()


def _quoted(text: str) -> str:
    """As TOML has it; the escapes of JSON are escapes there too."""
    return msgspec.json.encode(text).decode()
