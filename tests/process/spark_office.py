"""A server for pipelines: at one address whatever happens to it, with a token that may operate."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import posthouse
from tests.process.offices import free_port
from tests.process.shop import Names
from tests.process.warm import WarmServer

# Small segments, so that they are sealed, compacted and checkpointed meanwhile.
SETTINGS = """
[queue_manager]
name = "{name}"
[store]
segment_size = "1MiB"
[ping]
answer = false
[admin]
port = {port}
"""
RECONNECT_S = 60.0
BATCH = 100
STOCK_MAX = 1200  # messages that wait: three batches, so that a pipeline never lacks work
PAUSE_S = 0.02


class SparkOffice:
    """One server; `kill` and `start` as often as one likes."""

    def __init__(self, folder: Path, running: ExitStack, name: str = "ALPHA") -> None:
        folder.mkdir()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.token_file = folder / "token"
        self.server = WarmServer(folder)
        self.server.home.mkdir(mode=0o700)
        settings = SETTINGS.format(name=name, port=port)
        (self.server.home / "posthouse.toml").write_text(settings, encoding="ascii")
        running.enter_context(self.server)
        self.server.start()
        self.qm = running.enter_context(self.connect())
        token = self.qm.call("POST", "/tokens", {"role": "administer"})["token"]
        self.token_file.touch(0o600)
        self.token_file.write_text(token, encoding="ascii")

    def connect(self) -> posthouse.QueueManagerClient:
        return posthouse.connect(self.server.home, reconnect=RECONNECT_S)

    def create(self, *queues: str, **properties: Any) -> None:
        for queue in queues:
            self.qm.create_queue(path_of(queue), **properties)

    def send(self, queue: str, bodies: Iterable[bytes]) -> None:
        self.qm.queue(path_of(queue)).send_many(bodies, recoverable=True)

    def bodies(self, queue: str) -> list[bytes]:
        return [message.body for message in self.qm.queue(path_of(queue)).browse()]

    def copy_home(self) -> None:
        """A copy of the stopped home, as docs/production.md says."""
        self.server.stop()
        shutil.copytree(self.server.home, self.server.home.with_name("copy"))
        self.server.start()

    def put_back(self) -> None:
        """The copy takes the place of the home."""
        self.server.stop()
        shutil.rmtree(self.server.home)
        shutil.copytree(self.server.home.with_name("copy"), self.server.home)
        self.server.start()

    def lapse(self) -> None:
        """The time of all leases is over: their readers have died."""
        for group in self.qm.call("GET", "/groups")["groups"]:
            if group["leased"]:
                asked = {name: group[name] for name in ("mode", "owner", "epoch")}
                path = f"/queues/{group['queue']}/groups/{group['name']}/lease"
                self.qm.call("POST", path, {**asked, "end": True})

    def count(self, queue: str) -> int:
        return self.qm.queue(path_of(queue)).count()


def path_of(queue: str) -> str:
    """The path of a private queue."""
    return f".\\private$\\{queue}"


class Feeder:
    """Sends to one queue until it is told to stop; `sent` is what was acknowledged."""

    def __init__(self, office: SparkOffice, queue: str) -> None:
        self.sent: list[bytes] = []
        self.failures: list[BaseException] = []
        self.queue = queue
        self._office = office
        self._names = Names(queue)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._office.connect() as qm:
                queue = qm.queue(path_of(self.queue))
                while not self._stop.is_set():
                    if queue.count() < STOCK_MAX:
                        bodies = self._names.take(BATCH)
                        queue.send_many(bodies, recoverable=True)
                        self.sent += bodies
                    time.sleep(PAUSE_S)
        except BaseException as error:
            self.failures.append(error)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(RECONNECT_S)
        assert not self._thread.is_alive()
        if self.failures:
            raise self.failures[0]
