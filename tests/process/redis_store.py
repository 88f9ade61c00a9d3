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


class RedisStore:
    """One server."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.client: Any = redis.Redis(unix_socket_path=str(self.socket))

    def bodies(self, stream: str) -> list[bytes]:
        return [fields[b"body"] for _, fields in self.client.xrange(stream)]


@contextmanager
def redis_server() -> Iterator[RedisStore]:
    """For the length of some tests; nobody pulls its plug, so it writes nothing."""
    program = PEERS["redis"].program
    assert program is not None
    folder = Path(tempfile.mkdtemp(prefix="redis-"))
    settings = {"port": "0", "unixsocket": "redis.sock", "save": "", "appendonly": "no"}
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    server = subprocess.Popen([program, *words], cwd=folder, stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if b"ready to accept connections" in line.lower():
                break
        store = RedisStore(folder)
        assert store.client.ping()
        yield store
        store.client.close()
    finally:
        server.stdout.close()
        server.terminate()
        server.wait(STOP_S)
        shutil.rmtree(folder)
