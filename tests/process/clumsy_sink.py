"""The sink of streams in clumsy hands: the first attempt of a task writes everything, and then it
fails, or dawdles until another attempt has written everything too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from posthouse.spark.source import PosthouseSource

DAWDLE_S = 60.0  # not for ever, lest a test hang where it should fail


class Clumsy(DataSourceStreamArrowWriter):
    """Writes, and then something happens."""

    def __init__(self, sink: Any, mischief: str, folder: str) -> None:
        self._sink, self._mischief, self._folder = sink, mischief, folder

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._sink.write(iterator)
        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        if self._mischief == "fails" and not context.attemptNumber():
            Path(self._folder, f"failed-{batch}-{context.partitionId()}").touch()
            raise ValueError("the first attempt fails at the end")
        if self._mischief == "dawdles" and not context.partitionId():
            self._dawdle(Path(self._folder, f"again-{batch}"), context.attemptNumber())
        return message

    def _dawdle(self, again: Path, attempt: int) -> None:
        """The first attempt waits for the other one."""
        if attempt:
            again.touch()
        until = time.monotonic() + DAWDLE_S
        while not again.exists() and time.monotonic() < until:
            time.sleep(0.01)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._sink.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._sink.abort(messages, batchId)


def made(name: str, mischief: str, folder: str) -> type[PosthouseSource]:
    """A format that does so."""

    class ClumsySource(PosthouseSource):
        @classmethod
        def name(cls) -> str:
            return name

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            return Clumsy(super().streamWriter(schema, overwrite), mischief, folder)

    return ClumsySource
