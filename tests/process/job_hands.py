"""Submitters and queue servers as processes that are killed while they work.

Each tells a file what it begins and what it was answered. They go by client sessions or by NCP, and
find the queue manager again where its ready file says it is.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

import posthouse
from posthouse import qms
from posthouse.model.errors import InvalidHandle, QmsError, QueueError
from posthouse.qms import FileServer, JobQueue

QUEUE = "WORK"
SERVER = "HAND"
PASSWORD = "correct horse"
WAITING_MAX = 60  # jobs; a submitter leaves room for the others
WORK_S = 0.002
AGAIN_S = 0.05
RECONNECT_S = 0.0


class Event(NamedTuple):
    """A line: what happened to which job."""

    what: str
    job: str
    at_ns: int


def read(path: Path) -> list[Event]:
    """What a process told; the last line of a killed one may be cut."""
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [msgspec.json.decode(line, type=Event) for line in whole.splitlines()]


class Teller:
    """Writes the file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def tell(self, what: str, job: str) -> None:
        line = msgspec.json.encode(Event(what, job, time.monotonic_ns())) + b"\n"
        os.write(self._file, line)


@contextmanager
def station(folder: str, door: str, name: str, type: int) -> Iterator[FileServer]:
    """A station as an object, over either door."""
    if door == "ncp":
        ready = json.loads(Path(folder, "ready.json").read_text())
        host, _, port = ready["endpoints"]["ncp"].rpartition(":")
        with qms.ncp(host, int(port)) as server:
            server.login(name, PASSWORD, type)
            yield server
        return
    with (
        posthouse.connect(Path(folder, "home"), reconnect=RECONNECT_S) as qm,
        qms.on(qm, name, type) as server,
    ):
        yield server


def run(arguments: list[str]) -> int:
    """The kind of work, the folder of the queue manager, the door, the file, a name, a seed."""
    kind, folder, door, path, who, seed = arguments
    teller, drawn = Teller(path), random.Random(int(seed))
    name, type = (SERVER, 5) if kind == "serve" else ("ALICE", 1)
    number = 0
    while True:
        with (
            suppress(ConnectionError, InvalidHandle, QueueError, OSError, ValueError, KeyError),
            station(folder, door, name, type) as server,
        ):
            queue = server.queue(QUEUE)
            if kind == "serve":
                serve(queue, teller, drawn)
            else:
                number = submit(queue, teller, drawn, who, number)
        time.sleep(AGAIN_S)


def submit(queue: JobQueue, teller: Teller, drawn: random.Random, who: str, number: int) -> int:
    """Jobs whose names tell their flags; until the connection breaks."""
    try:
        while True:
            while queue.status().jobs >= WAITING_MAX:
                time.sleep(AGAIN_S)
            number += 1
            restart, auto_start = drawn.random() < 0.7, drawn.random() < 0.5
            job = f"{who}-{number}-{'r' if restart else 'x'}{'a' if auto_start else 'x'}"
            teller.tell("creating", job)
            made = queue.create(job, restart=restart, auto_start=auto_start)
            teller.tell("created", job)
            made.write(job.encode() * drawn.randrange(1, 50))
            teller.tell("starting", job)
            made.start()
            teller.tell("started", job)
    except (ConnectionError, QueueError, OSError):
        return number


def serve(queue: JobQueue, teller: Teller, drawn: random.Random) -> None:
    """Every job that comes; some are given back."""
    attached = queue.attach()
    while True:
        taken = attached.service()
        if taken is None:
            time.sleep(AGAIN_S)
            continue
        job = taken.entry().description  # what NCP answers to Service is too short for it
        teller.tell("begun", job)
        data = taken.read()
        assert data == job.encode() * (len(data) // len(job)), (job, data)
        assert data or "a" in job.rpartition("-")[2], job  # released by itself, unwritten
        time.sleep(drawn.uniform(0, WORK_S))
        if "r" in job.rpartition("-")[2] and drawn.random() < 0.05:
            teller.tell("aborting", job)
            with suppress(QmsError):
                taken.abort()
            continue
        teller.tell("finishing", job)
        taken.finish()
        teller.tell("finished", job)
