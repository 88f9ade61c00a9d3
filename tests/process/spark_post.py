"""Streams that take what is there: the messages that they read, and what is in their sinks."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.process.shop import Names
from tests.process.spark_driver import Job, Stream, parquet_bodies
from tests.process.spark_office import SparkOffice

MESSAGES, LIMIT = 90, 40  # three batches


class Post:
    """A server with messages in it, and drivers that come by."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.folder = folder
        self.office = SparkOffice(folder / "office", running)
        self._names = Names("letter")

    def stream(self, sink: str, mischief: str = "") -> Stream:
        """From a queue of its own with messages."""
        queue = f"from-{sink}-{mischief}"
        target = f"to-{sink}-{mischief}"
        self.office.create(queue, *([target] if sink == "queue" else []))
        folder = self.folder / queue
        folder.mkdir()
        target = target if sink == "queue" else str(folder / "table")
        return Stream(queue, sink, target, str(folder / "at"), LIMIT, mischief)

    def fill(self, stream: Stream) -> set[bytes]:
        bodies = self._names.take(MESSAGES)
        self.office.send(stream.queue, bodies)
        return set(bodies)

    def job(self, *streams: Stream, **more: Any) -> Job:
        """Takes what is there."""
        more.setdefault("master", "")
        office = self.office
        return Job(
            url=office.url,
            token_file=str(office.token_file),
            streams=list(streams),
            follow=False,
            **more,
        )

    def found(self, stream: Stream) -> list[bytes]:
        """What is in the sink."""
        if stream.sink == "queue":
            return self.office.bodies(stream.target)
        return parquet_bodies(stream.target)
