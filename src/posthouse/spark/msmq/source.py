"""Reads queues of any MSMQ, Windows included, over remote read.

A table is what is in the queues while they are looked through. A stream that only looks (consume =
none) shows each message once, as far as lookup ids show it. A stream that consumes names the
messages of each batch in its offset, reads them without taking them, and takes exactly those when
the batch is committed; meanwhile it has the queues open exclusively, so that no other reader does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

import posthouse
from posthouse.model.errors import InvalidParameter, IoTimeout, SharingViolation
from posthouse.spark.msmq.offsets import (
    Marks,
    Offset,
    offset_of,
    queues_of,
    read_ids,
    write_ids,
)
from posthouse.spark.msmq.options import CONSUME_MAX, Machine, MsmqSource, msmq_source
from posthouse.spark.msmq.rows import Shape, batches, body_max
from posthouse.spark.options import LATEST
from posthouse.spark.schema import check_schema, values_are_texts

AHEAD: Final = 32
POLL_S: Final = 1.0  # between two looks at queues in which nothing new was
OPEN_S: Final = 15.0
FORGET_S: Final = 900.0  # a lock of a broken connection is gone long before
CONSUME, OBSERVE = "consume", "observe"


def source_columns(options: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    """The columns that the options of a read ask for, and whether JSON values are texts."""
    made = msmq_source(options)
    return made.columns, made.json_as_text


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader of a table."""
    made = msmq_source(options)
    if made.consume:
        raise InvalidParameter(
            "only a stream can consume messages",
            "Read with spark.readStream, and Trigger.AvailableNow.",
        )
    return MsmqReader(made, schema)


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """The reader of a stream."""
    made = msmq_source(options)
    return MsmqStreamReader(made, schema)


class Whole(InputPartition):
    """All of one queue."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


class Listed(InputPartition):
    """Some messages of one queue."""

    def __init__(self, queue: str, ids: Sequence[int]) -> None:
        super().__init__(queue)
        self.queue = queue
        self.ids = tuple(ids)


class _Tasks:
    """What tasks do for tables and streams alike."""

    def __init__(self, options: MsmqSource, schema: StructType) -> None:
        check_schema(schema)
        self.options = options
        self._schema = schema

    def rows(self, partition: InputPartition) -> Iterator[Any]:
        """Looks at messages; taking none, it may be done again."""
        arrow = to_arrow_schema(self._schema, timezone="UTC")
        size = body_max(arrow.names)
        machine = self.options.machine
        with machine.connect(AHEAD) as far:
            assert isinstance(partition, Whole | Listed)
            queue = far.queue(partition.queue)
            if isinstance(partition, Whole):
                found = queue.browse(body_max=size)
            else:
                found = queue.lookup_many(partition.ids, body_max=size)
            shape = Shape(arrow, values_are_texts(self._schema))
            yield from batches(found, shown(machine, partition.queue), machine.host, shape)


def shown(machine: Machine, queue: str) -> str:
    """The path of a queue, as the column `queue` has it."""
    name = queue.removeprefix(".\\")
    return name if "=" in name else f"{machine.host}\\{name}"


class MsmqReader(DataSourceReader):
    """Reads queues as tables: one partition each."""

    def __init__(self, options: MsmqSource, schema: StructType) -> None:
        self._tasks = _Tasks(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """A queue that is not there, or not for us, is told of here."""
        options = self._tasks.options
        with options.machine.connect() as far:
            for queue in options.queues:
                with suppress(IoTimeout):
                    far.queue(queue).peek(0, body_max=0)
        return [Whole(queue) for queue in options.queues]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task."""
        return self._tasks.rows(partition)


class Watch:
    """The driver's view of the queues: which messages are there."""

    def __init__(self, options: MsmqSource) -> None:
        self._options = options
        self._far: posthouse.RemoteQueueManager | None = None
        self._opened: set[str] = set()
        self._looked_at = -POLL_S

    def __reduce__(self) -> tuple[Any, ...]:
        return Watch, (self._options,)

    def queue(self, name: str) -> posthouse.RemoteQueue:
        """A queue; where it is consumed, for us alone as long as the stream runs."""
        if self._far is None:
            self._far = self._options.machine.connect(AHEAD)
        queue = self._far.queue(name, exclusive=self._options.consume)
        if name not in self._opened:
            _open(queue)
            self._opened.add(name)
        return queue

    def ids(self, name: str) -> Iterator[int]:
        """The identifiers of all messages, in the order of the queue."""
        return (message.lookup_id for message in self.queue(name).browse(body_max=0))

    def is_time(self) -> bool:
        """Spark asks a hundred times a second; a queue is looked through once."""
        return time.monotonic() - self._looked_at >= POLL_S

    def looked(self, found: bool) -> None:
        """Where something new was, there may be more."""
        self._looked_at = -POLL_S if found else time.monotonic()

    def close(self) -> None:
        """Lets others receive again."""
        far, self._far = self._far, None
        if far is not None:
            far.close()


def _open(queue: posthouse.RemoteQueue) -> None:
    """Opens the queue, and retries for a while: its computer may not have noticed yet that the
    previous reader is gone.
    """
    end = time.monotonic() + OPEN_S
    while True:
        try:
            with suppress(IoTimeout):
                queue.peek(0, body_max=0)
            return
        except SharingViolation:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S / 4)


class Observing:
    """A stream that takes nothing: an offset states how far it has looked."""

    def __init__(self, options: MsmqSource, watch: Watch) -> None:
        self._options = options
        self._watch = watch
        self.until: dict[str, set[int]] | None = None

    def initial(self) -> Offset:
        """Before the first message, or after the last."""
        marks = {name: Marks() for name in self._options.queues}
        if self._options.starting == LATEST:
            for name, mark in marks.items():
                for number in self._watch.ids(name):
                    mark.add(number)
        return self._offset(marks)

    def latest(self, start: Offset, count_max: int | None) -> Offset:
        """How far a batch goes that begins there."""
        marks, left = self._marks(start), count_max
        for name, mark in marks.items():
            fresh = list(islice(self._fresh(name, mark), left))
            for number in sorted(fresh):
                mark.add(number)
            left = None if left is None else left - len(fresh)
        return self._offset(marks)

    def _fresh(self, name: str, mark: Marks) -> Iterator[int]:
        """In the order of their identifiers: a mark states that all below it was shown."""
        allowed = None if self.until is None else self.until[name]
        found = (number for number in self._watch.ids(name) if number not in mark)
        return iter(sorted(n for n in found if allowed is None or n in allowed))

    def listed(self, start: Offset, end: Offset) -> dict[str, list[int]]:
        """The messages of a batch, as far as they are still there."""
        begun, ended = self._marks(start), self._marks(end)
        return {
            name: [n for n in self._watch.ids(name) if n in mark and n not in begun[name]]
            for name, mark in ended.items()
        }

    def acknowledge(self, offset: Offset) -> None:
        """Nothing is taken."""

    def _marks(self, offset: Offset) -> dict[str, Marks]:
        texts = queues_of(OBSERVE, offset)
        return {name: Marks(texts.get(name, "")) for name in self._options.queues}

    def _offset(self, marks: Mapping[str, Marks]) -> Offset:
        return offset_of(OBSERVE, {name: str(mark) for name, mark in marks.items()})


class Consuming:
    """A stream that takes what was committed: an offset names the messages of its batch.

    When Spark asks for what is after an offset, the batch that ended there is committed. Its
    messages are taken then, and again when they are met later: an end that a broken connection
    kept from arriving leaves a message there.
    """

    def __init__(self, options: MsmqSource, watch: Watch) -> None:
        self._options = options
        self._watch = watch
        self._done: dict[str, dict[int, float]] = {name: {} for name in options.queues}
        self.until: dict[str, set[int]] | None = None

    def initial(self) -> Offset:
        """No batch yet; what is there is not skipped unless that is asked for."""
        return self._offset({name: [] for name in self._options.queues})

    def latest(self, start: Offset, count_max: int | None) -> Offset:
        """The messages of the next batch, or the same offset where there are none."""
        self.acknowledge(start)
        found: dict[str, list[int]] = {}
        left = count_max
        for name in self._options.queues:
            found[name] = self._fresh(name, left)
            left = None if left is None else left - len(found[name])
        return self._offset(found) if any(found.values()) else start

    def _fresh(self, name: str, count_max: int | None) -> list[int]:
        """Messages of no batch yet; others that are met should have been taken."""
        done, allowed = self._done[name], None if self.until is None else self.until[name]
        found: list[int] = []
        met: list[int] = []
        for number in self._watch.ids(name) if count_max != 0 else ():
            if number in done:
                met.append(number)
            elif allowed is None or number in allowed:
                found.append(number)
            if len(found) == count_max:
                break
        self._take(name, met)
        return found

    def listed(self, start: Offset, end: Offset) -> dict[str, list[int]]:
        """The messages of a batch."""
        self.acknowledge(start)
        return self._ids(end)

    def acknowledge(self, offset: Offset) -> None:
        """Takes the messages of a batch that is committed; done before, nothing happens."""
        for name, ids in self._ids(offset).items():
            done = self._done.get(name)
            if done is not None and (fresh := [n for n in ids if n not in done]):
                self._take(name, fresh)

    def _take(self, name: str, ids: list[int]) -> None:
        if ids:
            self._watch.queue(name).receive_lookups(ids)
        now, done = time.monotonic(), self._done[name]
        done.update(dict.fromkeys(ids, now))
        for number in [number for number, then in done.items() if now - then > FORGET_S]:
            del done[number]

    def _ids(self, offset: Offset) -> dict[str, list[int]]:
        texts = queues_of(CONSUME, offset)
        return {name: read_ids(text) for name, text in texts.items()}

    def _offset(self, ids: Mapping[str, Sequence[int]]) -> Offset:
        return offset_of(CONSUME, {name: write_ids(numbers) for name, numbers in ids.items()})


class MsmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads queues as a stream; the driver plans by identifiers, tasks look at the messages."""

    def __init__(self, options: MsmqSource, schema: StructType) -> None:
        self._tasks = _Tasks(options, schema)
        self._watch = Watch(options)
        made = Consuming if options.consume else Observing
        self._mode: Consuming | Observing = made(options, self._watch)

    @property
    def _options(self) -> MsmqSource:
        return self._tasks.options

    def initialOffset(self) -> Offset:
        """Where the first batch begins."""
        return self._mode.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The options; identifiers of a batch that consumes are all in its offset."""
        count_max = self._options.max_messages
        if count_max is None and not self._options.consume:
            return ReadAllAvailable()
        return ReadMaxRows(count_max or CONSUME_MAX)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends."""
        if not self._watch.is_time():
            return start
        count_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self._mode.latest(start, count_max)
        self._watch.looked(end != start)
        return end

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now, and no more."""
        self._mode.until = {name: set(self._watch.ids(name)) for name in self._options.queues}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The messages between two offsets, in equal parts."""
        made: list[InputPartition] = []
        for name, ids in self._mode.listed(start, end).items():
            size = max(-(-len(ids) // self._options.partitions), 1)
            made += [Listed(name, ids[at : at + size]) for at in range(0, len(ids), size)]
        return made

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task."""
        return self._tasks.rows(partition)

    def commit(self, end: Offset) -> None:
        """Everything up to there is done with."""
        self._mode.acknowledge(end)

    def stop(self) -> None:
        """Spark does not always call it; a connection that ends does the same."""
        self._watch.close()
