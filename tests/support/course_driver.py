"""A driver of Spark streams that dies at any step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from posthouse.spark.limits import Limits
from posthouse.spark.offsets import StreamOffset, offset_of
from posthouse.spark.options import source_options
from posthouse.spark.read_tasks import read_portion
from posthouse.spark.stream_planner import Course


class Driver:
    """A query of Spark's from one start to its crash; its checkpoint and sink outlive it."""

    def __init__(self, options: dict[str, str], folder: Path, trouble: Callable[[], None]) -> None:
        self.folder = folder
        self.sink: dict[int, list[bytes]] = {}
        self.course = Course(source_options(options))
        self.trouble = trouble

    def start(self) -> None:
        """Begins, and does again what was planned and not committed."""
        for part in ("offsets", "commits"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.course.begin()
        self.trouble()
        batch = self.last("offsets")
        if batch > self.last("commits"):
            self.finish(batch)

    def last(self, part: str) -> int:
        return max((int(file.name) for file in (self.folder / part).iterdir()), default=-1)

    def offset(self, batch: int) -> StreamOffset:
        if batch < 0:
            return self.course.first()
        line = (self.folder / "offsets" / str(batch)).read_text().splitlines()[2]
        return offset_of(json.loads(line))

    def batch(self, limits: Limits) -> bool:
        """One micro-batch; False where nothing is new."""
        last = self.last("commits")
        end = self.course.next(self.offset(last), limits)
        if end is None:
            return False
        self.trouble()
        text = f"v1\n{{}}\n{json.dumps(end.to_json())}"
        (self.folder / "offsets" / str(last + 1)).write_text(text)
        self.trouble()
        if last >= 0:
            self.course.commit(self.offset(last))
            self.trouble()
        self.finish(last + 1)
        return True

    def finish(self, batch: int) -> None:
        portions = self.course.portions(self.offset(batch - 1), self.offset(batch))
        self.trouble()
        self.sink[batch] = [
            body.as_py()
            for portion in portions
            for part in read_portion(portion, ["body"])
            for body in part.column(0)
        ]
        self.trouble()
        (self.folder / "commits" / str(batch)).write_text("v1\n{}")
        self.trouble()
