"""Streams from any MSMQ, batch by batch, against a computer that numbers as Windows does."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StringType, StructField, StructType

from posthouse.model.errors import InvalidParameter
from posthouse.model.message_columns import BY_NAME
from posthouse.protocols.remote_read.stubs import Opnum
from posthouse.spark.msmq.source import Listed, MsmqStreamReader, Whole, reader, stream_reader
from posthouse.spark.schema import message_schema
from tests.client.read_peer import Break, Peer, packet

URGENT, USUAL = 1 << 56, 4 << 56  # highest bytes: 7 less the priority
SCHEMA = message_schema(("lookup_id", "body"))
ALL = ReadAllAvailable()


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


def put(peer: Peer, *lookup_ids: int) -> None:
    """In the order of the queue, which is that of the identifiers."""
    for number in lookup_ids:
        peer.put(packet(b"%d" % number), lookup_id=number)
    peer.messages = dict(sorted(peer.messages.items()))


class Run:
    """A stream as Spark drives it: offsets go through JSON, the reader of tasks through pickle."""

    def __init__(self, peer: Peer, **options: str) -> None:
        place = {"host": "127.0.0.1", "rpcPort": str(peer.port), "queue": "private$\\q"}
        self._options = {"transport": "msmq", **place, **options}
        self.reader = self.new_reader()
        self.start: Any = kept(self.reader.initialOffset())

    def new_reader(self) -> MsmqStreamReader:
        made = stream_reader(self._options, SCHEMA)
        assert isinstance(made, MsmqStreamReader)
        return made

    def crash(self) -> None:
        """The driver is gone, and another begins."""
        self.reader.stop()
        self.reader = self.new_reader()

    def plan(self, count_max: int = 0) -> Any:
        limit = ReadMaxRows(count_max) if count_max else ALL
        return kept(self.reader.latestOffset(self.start, limit))

    def read(self, end: Any) -> list[int]:
        """What the tasks of a batch see."""
        tasks = pickle.loads(pickle.dumps(self.reader))
        parts = self.reader.partitions(self.start, end)
        rows = [row for part in parts for batch in tasks.read(part) for row in batch.to_pylist()]
        assert all(row["body"] == b"%d" % row["lookup_id"] for row in rows)
        return [row["lookup_id"] for row in rows]

    def batch(self, count_max: int = 0) -> list[int]:
        """A whole batch, committed; nothing where there is nothing new."""
        self.reader._watch.looked(True)  # as after a second
        end = self.plan(count_max)
        if end == self.start:
            return []
        seen = self.read(end)
        self.reader.commit(self.start)
        self.start = end
        return seen


def kept(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


@pytest.fixture
def consuming(peer: Peer) -> Iterator[Run]:
    run = Run(peer, consume="onCommit")
    yield run
    run.reader.stop()


@pytest.fixture
def observing(peer: Peer) -> Iterator[Run]:
    run = Run(peer)
    yield run
    run.reader.stop()


def test_urgent_message_with_a_smaller_identifier_is_seen(peer: Peer, observing: Run) -> None:
    put(peer, USUAL + 1, USUAL + 2)
    assert observing.batch() == [USUAL + 1, USUAL + 2]
    put(peer, URGENT + 3, USUAL + 4)
    assert sorted(observing.batch()) == [URGENT + 3, USUAL + 4]
    assert observing.batch() == []
    assert len(peer.messages) == 4


def test_limit_cuts_without_losing_any(peer: Peer, observing: Run) -> None:
    put(peer, USUAL + 1, USUAL + 2, URGENT + 3)
    batches = [observing.batch(2), observing.batch(2), observing.batch(2)]
    assert batches == [[URGENT + 3, USUAL + 1], [USUAL + 2], []]


def test_batch_that_is_planned_again_is_the_same(peer: Peer, observing: Run) -> None:
    put(peer, USUAL + 1, USUAL + 2)
    end = observing.plan()
    put(peer, USUAL + 3)
    observing.crash()
    assert observing.read(end) == [USUAL + 1, USUAL + 2]


def test_what_is_committed_is_taken_when_more_is_asked_for(peer: Peer, consuming: Run) -> None:
    put(peer, USUAL + 1, USUAL + 2)
    assert consuming.batch() == [USUAL + 1, USUAL + 2]
    assert len(peer.messages) == 2
    assert consuming.batch() == []
    assert not peer.messages


def test_only_what_was_planned_is_taken(peer: Peer, consuming: Run) -> None:
    """An urgent one that came since lies between them, by its number."""
    put(peer, 5, USUAL + 1)
    end = consuming.plan()
    put(peer, 7, URGENT + 2)
    assert consuming.read(end) == [5, USUAL + 1]
    consuming.start = end
    assert sorted(consuming.batch()) == [7, URGENT + 2]
    assert sorted(peer.messages) == [7, URGENT + 2]


def test_crash_before_the_commit_reads_the_same_again(peer: Peer, consuming: Run) -> None:
    put(peer, 1, 2, 3)
    end = consuming.plan(2)
    assert consuming.read(end) == [1, 2]
    consuming.crash()
    assert consuming.read(end) == [1, 2]
    consuming.start = end
    assert consuming.batch() == [3]
    assert sorted(peer.messages) == [3]


def test_crash_between_two_batches_leaves_none_behind(peer: Peer, consuming: Run) -> None:
    """Spark does not say again what was committed before the last batch that it planned."""
    put(peer, 1, 2)
    first = consuming.plan(1)
    assert consuming.read(first) == [1]
    consuming.start = first
    second = kept({**first, "queues": {"private$\\q": "2"}})
    consuming.crash()
    assert consuming.read(second) == [2]
    assert sorted(peer.messages) == [2]


@pytest.mark.parametrize("opnum", [Opnum.START_RECEIVE, Opnum.END_RECEIVE])
def test_connection_that_breaks_over_taking_leaves_nothing_twice(
    peer: Peer, consuming: Run, opnum: Opnum
) -> None:
    put(peer, 1, 2, 3)
    assert consuming.batch() == [1, 2, 3]
    broken: list[int] = []

    def breaks(request: Any, call: Any) -> None:
        if request.__class__.__name__ != "StartReceive" or request.action == 0x40000020:
            broken.append(opnum)
            if len(broken) == 2:
                raise Break

    peer.before[opnum] = breaks
    assert consuming.batch() == []
    while peer.messages:
        assert consuming.batch() == []
    assert len(broken) >= 2


def test_available_now_ends_with_what_was_there(peer: Peer, consuming: Run) -> None:
    put(peer, 1, 2, 3)
    consuming.reader.prepareForTriggerAvailableNow()
    put(peer, 4)
    assert [consuming.batch(2), consuming.batch(2), consuming.batch(2)] == [[1, 2], [3], []]
    assert sorted(peer.messages) == [4]


def test_message_that_somebody_took_is_left_out(peer: Peer, consuming: Run) -> None:
    put(peer, 1, 2, 3)
    end = consuming.plan()
    del peer.messages[2]
    assert consuming.read(end) == [1, 3]


def test_queue_is_not_looked_through_all_the_time(peer: Peer, observing: Run) -> None:
    assert observing.batch() == []
    asked = len(peer.calls)
    assert observing.plan() == observing.start
    assert len(peer.calls) == asked


def test_batches_have_a_default_size_only_where_they_are_listed(peer: Peer) -> None:
    assert Run(peer).reader.getDefaultReadLimit() == ALL
    assert Run(peer, consume="onCommit").reader.getDefaultReadLimit() == ReadMaxRows(10_000)
    assert Run(peer, maxOffsetsPerTrigger="7").reader.getDefaultReadLimit() == ReadMaxRows(7)


def test_batch_is_cut_into_equal_parts(peer: Peer) -> None:
    run = Run(peer, consume="onCommit", minPartitions="3")
    put(peer, *range(1, 8))
    parts = run.reader.partitions(run.start, run.plan())
    assert all(isinstance(part, Listed) for part in parts)
    assert [part.ids for part in parts if isinstance(part, Listed)] == [(1, 2, 3), (4, 5, 6), (7,)]
    run.reader.stop()


def test_few_messages_have_a_part_each(peer: Peer) -> None:
    run = Run(peer, consume="onCommit", minPartitions="3")
    put(peer, 1, 2)
    parts = run.reader.partitions(run.start, run.plan())
    assert [part.ids for part in parts if isinstance(part, Listed)] == [(1,), (2,)]
    run.reader.stop()


def test_table_is_what_is_there_while_it_is_looked_through(peer: Peer) -> None:
    put(peer, 3, 1)
    options = {"transport": "msmq", "host": "127.0.0.1", "rpcPort": str(peer.port), "queue": "q"}
    made = reader(options, SCHEMA)
    (part,) = made.partitions()
    assert isinstance(part, Whole)
    rows = [row["lookup_id"] for batch in made.read(part) for row in batch.to_pylist()]
    assert sorted(rows) == [1, 3]


def test_columns_that_every_message_has_may_be_promised_over_msmq_too(peer: Peer) -> None:
    put(peer, 3, 1)
    options = {"transport": "msmq", "host": "127.0.0.1", "rpcPort": str(peer.port), "queue": "q"}
    sure = message_schema(BY_NAME, exact=True)
    made = reader(options, sure)
    (part,) = made.partitions()
    (batch,) = made.read(part)
    assert batch.schema == to_arrow_schema(sure, timezone="UTC")
    batch.validate(full=True)
    assert {n for n in batch.schema.names if batch.column(n).null_count} <= {
        name for name, column in BY_NAME.items() if column.nullable
    }
    wrong = StructType([StructField("body_text", StringType(), nullable=False)])
    with pytest.raises(InvalidParameter, match="body_text is never null"):
        reader(options, wrong)
