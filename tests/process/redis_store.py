"""A Redis server of our own in a temporary folder, reached by its Unix socket only."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from tools.peers import PEERS

START_S = 30
STOP_S = 15
FORGETFUL = {"appendonly": "no"}
DURABLE = {"appendonly": "yes", "appendfsync": "always"}


class RedisStore:
    """One server, which can be killed and started again."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        program = PEERS["redis"].program
        assert program is not None
        told = {"port": "0", "unixsocket": "redis.sock", "save": "", **settings}
        self._command = [program, *(word for pair in told.items() for word in _option(*pair))]
        self._folder = folder
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.client: Any = redis.Redis(unix_socket_path=str(self.socket))
        self.start()

    def start(self) -> None:
        """Returns when it answers, with what it had written."""
        self._server = subprocess.Popen(
            self._command, cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self._server.stdout is not None
        for line in self._server.stdout:
            if b"ready to accept connections" in line.lower():
                break
        assert self.client.ping()

    def kill(self) -> None:
        """As `kill -9` does."""
        assert self._server.stdout is not None
        self._server.kill()
        self._server.wait(STOP_S)
        self._server.stdout.close()

    def bodies(self, stream: str) -> list[bytes]:
        return [fields[b"body"] for _, fields in self.client.xrange(stream)]


def _option(name: str, value: str) -> tuple[str, str]:
    return f"--{name}", value


@contextmanager
def redis_server(settings: dict[str, str]) -> Iterator[RedisStore]:
    """For the length of some tests."""
    folder = Path(tempfile.mkdtemp(prefix="redis-"))
    try:
        store = RedisStore(folder, settings)
        try:
            yield store
        finally:
            store.client.close()
            store.kill()
    finally:
        shutil.rmtree(folder)
