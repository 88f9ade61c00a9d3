"""A server in this process, with its clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from posthouse.engine.manager import QueueManager
from posthouse.model.errors import QueueExists
from posthouse.model.properties import QueueProperties
from posthouse.runtime.serve import (
    Door,
    DoorAddress,
    Options,
    Outcome,
    Service,
    run,
)
from tests.runtime.line_door import ADMIN, QUEUE, LineDoor

Client = Callable[["Visit"], Awaitable[None]]


class Visit:
    """What a client of the test finds."""

    def __init__(self, service: Service, door: LineDoor, ready_file: Path) -> None:
        self.service = service
        self.door = door
        self.ready_file = ready_file
        self.left = ""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ready = json.loads(self.ready_file.read_text())
        host, _, port = ready["endpoints"]["line"].rpartition(":")
        return await asyncio.open_connection(host, int(port))


class Rig:
    """Runs the server until its client says so."""

    def __init__(self, home: Path, config: str = "") -> None:
        self.home = home / "home"
        self.ready_file = home / "ready.json"
        self.told: list[dict[str, object]] = []
        self.home.mkdir()
        (self.home / "posthouse.toml").write_text(f"[log]\nformat = 'json'\n{config}")
        self.visits: list[Visit] = []
        self.tasks: list[asyncio.Task[None]] = []

    def run(self, client: Client, *more: Callable[[Service], Door]) -> Outcome:
        def doors(service: Service) -> list[DoorAddress]:
            door = LineDoor(service)
            visit = Visit(service, door, self.ready_file)
            self.visits.append(visit)
            service.desk.decide(self.make_queue, lambda answer: None)
            asyncio.get_running_loop().call_soon(self.begin, client, visit)
            extra = [DoorAddress(make(service), "127.0.0.1", 0) for make in more]
            return [DoorAddress(door, "127.0.0.1", 0), *extra]

        tell, file = self.told.append, self.ready_file
        options = Options(self.home, name="ALPHA", ready_file=file, version="9.9", tell=tell)
        outcome = run(options, doors)
        for task in self.tasks:
            task.result()
        return outcome

    def make_queue(self, manager: QueueManager) -> None:
        with contextlib.suppress(QueueExists):
            manager.queues.create_queue(QUEUE, QueueProperties(), ADMIN)

    def begin(self, client: Client, visit: Visit) -> None:
        if not self.ready_file.exists():  # every listener accepts once it is there
            asyncio.get_running_loop().call_soon(self.begin, client, visit)
            return
        task = asyncio.ensure_future(client(visit))
        task.add_done_callback(lambda task: end() if task.exception() else None)
        self.tasks.append(task)

    def log(self) -> list[dict[str, object]]:
        text = (self.home / "logs" / "posthouse.log").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def events(self) -> list[object]:
        return [line["event"] for line in self.log()]


def end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
