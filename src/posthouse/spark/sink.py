"""Writing tables and streams to queues: staged by the tasks, published once by the driver.

Each task stages its rows at the queue manager under (query, batch, partition, attempt), durable and
unseen. The commit publishes the stages of the attempts that count, in one step, and the queue
manager remembers the last batch of each query, with what it was made of: a batch that comes again
is not sent again, and another one under its number is refused. Attempts have random numbers: those
of Spark begin again with a retried stage or a new driver.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from posthouse.client import stages
from posthouse.client.errors import ClientConnectionError, refused
from posthouse.client.stages import Signature
from posthouse.model.errors import InvalidParameter, QueueError
from posthouse.spark.checkpoints import batch_content, sync_checkpoint
from posthouse.spark.endpoint import http_first, http_now, http_of
from posthouse.spark.msmq.options import MsmqSink, is_msmq, msmq_sink
from posthouse.spark.msmq.sink import (
    Straight,
    StraightBatch,
    StraightStream,
    check,
    with_direct_names,
)
from posthouse.spark.plain_errors import plain_errors
from posthouse.spark.rows.bad_rows import (
    NOT_PUBLISHED,
    RowPosition,
    dead_letter_batch,
    dead_letter_schema,
    dead_letters,
    good_rows,
    refuse,
)
from posthouse.spark.rows.rows import RowMap
from posthouse.spark.sink_options import QUERY_LENGTH_MAX, SinkOptions, Writing, sink_options

SEPARATOR: Final = "\\"
PIECE_MAX: Final = 8 << 20  # bytes of rows that travel together
AGAIN_MAX: Final = 16 << 20  # bytes of a partition that can be sent again when the way breaks
_ATTEMPT_BITS: Final = 62
_NO_PARTITION: Final = 0x7FFFFFFF
_log = logging.getLogger(__name__)
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "spark.jobGroup.id"  # of a stream's jobs: the id of its run


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task hands to the commit, where the writer is another object."""

    query: str
    batch: int
    partition: int
    attempt: int | None  # None: there were no rows
    bad: int
    run: str = ""  # of the stream


def writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """The writer of a table."""
    made = _sink(options, schema, overwrite)
    if isinstance(made, Straight):
        return StraightBatch(made)
    query, batch = uuid4().hex, made.options.batch
    if made.options.query:
        query = written_as(made.options.query, made.options.writing.queue)
    made.probe(query, batch)
    return BatchSink(made, query, batch, secrets.token_hex(8))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """The writer of a stream."""
    made = _sink(options, schema, overwrite)
    if isinstance(made, Straight):
        return StraightStream(made)
    if made.options.query:
        raise InvalidParameter(
            "a stream has a query id and batch ids of its own", "Leave queryId and batchId out."
        )
    return StreamSink(made, _checkpoint(options))


def written_as(query: str, queue: str) -> str:
    """The name of a query's writes to one queue: each queue has its own last batch."""
    name = f"{query} > {queue.replace('/', SEPARATOR).casefold()}"
    if len(name) > QUERY_LENGTH_MAX or not name.isprintable():
        name = sha256(name.encode()).hexdigest()
    return name if queue else query


def _checkpoint(options: Mapping[str, str]) -> str:
    """The stream's checkpoint folder, from the options of the sink, which Spark lower-cases."""
    return {name.lower(): value for name, value in options.items()}.get("checkpointlocation", "")


def _sink(options: Mapping[str, str], schema: StructType, overwrite: bool) -> Sink | Straight:
    if overwrite:
        raise InvalidParameter(
            "messages can only be appended to a queue",
            'Write with mode("append"), a stream with outputMode("append"). What update or '
            "complete would write of an aggregate: write each batch in foreachBatch.",
        )
    if is_msmq(options):
        return _msmq_sink(msmq_sink(options), schema)
    made = sink_options(options)
    return Sink(made, row_map(made.writing, schema, same_ids=made.same_ids))


def _msmq_sink(options: MsmqSink, schema: StructType) -> Sink | Straight:
    """By way of a local queue manager it is our own sink, with names that lead elsewhere."""
    if options.manager is None:
        rows = row_map(options.writing, schema, straight=True)
        check(rows)
        return Straight(options, rows)
    writing = with_direct_names(options)
    return Sink(SinkOptions(options.manager, writing, False, "", 0), row_map(writing, schema))


def row_map(writing: Writing, schema: StructType, **how: bool) -> RowMap:
    """How the rows of a table become messages; what cannot be is refused here."""
    rows = RowMap(
        to_arrow_schema(schema, timezone="UTC"),
        writing.constants,
        body_format=writing.body_format,
        xml_root=writing.xml_root,
        destinations=not writing.queue,
        **how,
    )
    if not writing.queue and not rows.has_destinations:
        raise InvalidParameter(
            "no queue is named for the messages", "Give the option queue or a column destination."
        )
    return rows


class Sink:
    """What both writers share: pickled into tasks, so it holds no connection and no secret."""

    def __init__(self, options: SinkOptions, rows: RowMap) -> None:
        self.options = options
        self._rows = rows

    def probe(self, query: str, batch: int) -> None:
        """Reports of a queue, a right, a token or a queue manager that is missing, when planned.

        It stages an empty message for each queue that is known by now, as no partition of the
        batch: the commit does not name that stage, and it goes with the batch.
        """
        writing = self.options.writing
        queues = [name for name in (writing.queue, writing.dead_letter_queue) if name]
        rows = pa.RecordBatch.from_pydict(
            {
                "destination": pa.array(queues, pa.string()),
                "body": pa.array([b""] * len(queues), pa.binary()),
            }
        )
        in_stream = bool(self.options.query)  # a write of foreachBatch, which waits as a stream
        connect = http_of if in_stream else http_first
        with connect(self.options.manager) as http:
            stages.stage(http, query, batch, _NO_PARTITION, 0, rows.schema, [rows])

    def stage(self, query: str, batch: int, batches: Iterable[Any], writer: str = "") -> Staged:
        """Stages the rows of a task under a key of its own."""
        signature = Signature("", _run(), writer)
        partition, attempt = _context().partitionId(), secrets.randbits(_ATTEMPT_BITS)
        made = StageRows(self._rows, self.options.writing, query, batch, partition)
        pieces = made.pieces(batches)
        first = next(pieces, None)
        if first is None:
            return Staged(query, batch, partition, None, 0, signature.run)
        rows = _sent_again(chain((first,), pieces))
        key = (query, batch, partition, attempt)
        with http_of(self.options.manager) as http:
            try:
                queue = self.options.writing.queue
                stages.stage(http, *key, made.schema, rows, queue, signature)
            except QueueError as error:
                raise made.refused(error) from None
        return Staged(*key, made.bad, signature.run)

    def publish(
        self, messages: Sequence[WriterCommitMessage | None], content: str = "", writer: str = ""
    ) -> None:
        """Publishes what the tasks staged; done before: nothing more happens."""
        staged = [message for message in messages if isinstance(message, Staged)]
        if not staged:
            return
        bad = sum(one.bad for one in staged)
        if bad:
            queue = self.options.writing.dead_letter_queue
            _log.warning("%d rows that cannot be messages go to %s", bad, queue)
        counting = [(one.partition, one.attempt) for one in staged if one.attempt is not None]
        query, batch = staged[0].query, staged[0].batch
        signature = Signature(content, staged[0].run, writer)
        with http_of(self.options.manager) as http:
            if stages.publish(http, query, batch, counting, signature).already:
                _log.info("batch %d of query %s was published before", batch, query)

    def discard(self, query: str, batch: int) -> None:
        """Gives up what was staged; what cannot be reached expires there by itself."""
        with suppress(QueueError, ClientConnectionError), http_now(self.options.manager) as http:
            stages.discard(http, query, batch)

    def forget(self, query: str) -> None:
        """Drops what the queue manager keeps of the query; without a connection it expires
        later.
        """
        with suppress(QueueError, ClientConnectionError), http_now(self.options.manager) as http:
            stages.forget(http, query)


class StageRows:
    """The rows of one task as rows of a stage, bad ones set apart."""

    def __init__(
        self, rows: RowMap, writing: Writing, query: str, batch: int, partition: int
    ) -> None:
        self._rows = rows
        self._dead_letter_queue = writing.dead_letter_queue
        self._place = RowPosition(query, batch, partition, 0)
        self.bad = 0
        self.schema = rows.schema
        if self._dead_letter_queue:
            self.schema = dead_letter_schema(self.schema)

    def refused(self, error: QueueError) -> QueueError:
        """What the queue manager said, with the row that it said it of."""
        row, column = getattr(error, "row", None), getattr(error, "column", None)
        if row is None:
            return error
        where = f"row {row} of partition {self._place.partition}, column {column}"
        return refused(error.code, f"{where}: {error.cause}", f"{error.remedy} {NOT_PUBLISHED}")

    def pieces(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of the stage, none empty and none large."""
        for batch in batches:
            if batch.num_rows:
                for made in self._checked(batch):
                    yield from _cut(made)
                self._place = self._place._replace(row=self._place.row + batch.num_rows)

    def _checked(self, batch: Any) -> Iterator[Any]:
        checked = self._rows.check(batch)
        if not checked.faults:
            yield self._whole(checked.batch)
            return
        if not self._dead_letter_queue:
            raise refuse(self._place, checked.faults[0])
        self.bad += len(checked.faults)
        yield self._whole(good_rows(checked))
        letters = list(dead_letters(batch, checked.faults, self._place))
        yield dead_letter_batch(letters, self._dead_letter_queue, self.schema)

    def _whole(self, batch: Any) -> Any:
        """With the columns that only dead letters need."""
        return batch if batch.schema == self.schema else _widened(batch, self.schema)


def _widened(batch: Any, schema: Any) -> Any:
    arrays = [
        batch.column(field.name)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cut(batch: Any) -> Iterator[Any]:
    """In halves until each is small, or a single row."""
    if batch.num_rows > 1 and batch.nbytes > PIECE_MAX:
        half = batch.num_rows // 2
        yield from _cut(batch.slice(0, half))
        yield from _cut(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _sent_again(pieces: Iterator[Any]) -> Iterable[Any]:
    """A list where the partition is small: that is sent again when the connection breaks."""
    kept, size = [], 0
    for piece in pieces:
        kept.append(piece)
        size += piece.nbytes
        if size > AGAIN_MAX:
            return chain(kept, pieces)
    return kept


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are written in tasks"
    return context


def _run() -> str:
    """Stream and run that this task is of, `foreachBatch` included; else nothing.

    The stream is the id that Spark keeps in its checkpoint.
    """
    context = _context()
    stream = context.getLocalProperty(_QUERY)
    run = context.getLocalProperty(_RUN) if stream else None
    return f"{stream}/{run}" if run else ""


def _streaming() -> tuple[str, int]:
    """Query and batch of the stream that this task is of."""
    context = _context()
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    assert query is not None, "a stream has a query id"
    assert batch is not None, "a batch of a stream has a number"
    return query, int(batch)


@plain_errors("write", "commit")
class BatchSink(DataSourceArrowWriter):
    """Writes a table; the same object commits."""

    def __init__(self, sink: Sink, query: str, batch: int, writer: str) -> None:
        self._sink = sink
        self._query = query
        self._batch = batch
        self._writer = writer

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """In a task."""
        return self._sink.stage(self._query, self._batch, iterator, self._writer)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publishes when all tasks are done. A query name made for this write is dropped then:
        it is not used again.
        """
        self._sink.publish(messages, writer=self._writer)
        if not self._sink.options.query:
            self._sink.forget(self._query)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """When one has failed, or the commit."""
        self._sink.discard(self._query, self._batch)


@plain_errors("write", "commit")
class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a stream; Spark commits on a new object that gets the messages only."""

    def __init__(self, sink: Sink, checkpoint: str) -> None:
        self._sink = sink
        self._checkpoint = checkpoint

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """In a task."""
        return self._sink.stage(*_streaming(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """When all tasks of a batch are done; perhaps for the second time.

        What the batch was made of survives a power failure before the batch does, and is kept with
        it: other rows under its number do not count as published.
        """
        sync_checkpoint(self._checkpoint, "offsets")
        self._sink.publish(messages, batch_content(self._checkpoint, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """When one has failed, or the commit."""
        for message in messages:
            if isinstance(message, Staged):
                self._sink.discard(message.query, message.batch)
                return
