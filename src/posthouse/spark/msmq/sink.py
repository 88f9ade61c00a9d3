"""Writing to queues of any MSMQ, Windows included, over the binary protocol.

By way of a local queue manager (option `url`) it is the sink of Posthouse: once into the outgoing
queue, and once into a transactional queue at the other end. Straight from the tasks it is at least
once and in no common step: a task that is tried again sends its rows again, and so does a batch
that is replayed. Straight or not, the rows of a task are checked before any of them is sent.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

import posthouse
from posthouse.client.bodies import Body
from posthouse.client.packets import Draft
from posthouse.client.send_options import SendOptions
from posthouse.model.errors import InvalidParameter
from posthouse.spark.msmq.options import MsmqSink
from posthouse.spark.rows.bad_rows import RowPosition, dead_letters, good_rows, refuse
from posthouse.spark.rows.rows import RowMap
from posthouse.spark.sink_options import Writing

_NOT_SENT: Final = "Nothing of this partition was sent; other partitions may have been."
# Properties of a row by the names that `send` has for them.
_NAMES: Final = {
    "label": "label",
    "priority": "priority",
    "correlation_id": "correlation",
    "response_queue": "response_queue",
    "admin_queue": "admin_queue",
    "acknowledge": "ack",
    "app_specific": "app_specific",
    "body_type": "body_type",
    "extension": "extension",
    "time_to_reach_queue": "time_to_reach_queue",
    "time_to_be_received": "time_to_be_received",
}


class Sent(WriterCommitMessage):
    """A task is done; nothing is left for the commit to do."""


def check(rows: RowMap) -> None:
    """What can be refused when the write is planned."""
    if rows.has_destinations:
        raise InvalidParameter(
            "without a local queue manager, all messages of a write go to one queue",
            "Name it with the option queue, or write through a local queue manager: option url.",
        )


class Straight:
    """Sends the rows of a task; pickled with the writer."""

    def __init__(self, options: MsmqSink, rows: RowMap) -> None:
        self._options = options
        self._rows = rows

    def send(self, batches: Iterable[Any]) -> Sent:
        """Checks all rows of a task, then sends them."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        with tempfile.TemporaryFile() as spool:
            letters = self._spooled(spool, batches, partition)
            spool.seek(0)
            with self._options.machine.connect() as far, pa.ipc.open_stream(spool) as checked:
                writing = self._options.writing
                for batch in checked:
                    far.queue(writing.queue).send_many(self._messages(batch), recoverable=True)
                if letters:
                    far.queue(writing.dead_letter_queue).send_many(letters, recoverable=True)
        return Sent()

    def _spooled(self, spool: Any, batches: Iterable[Any], partition: int) -> list[Body | Draft]:
        letters: list[Body | Draft] = []
        row = 0
        with pa.ipc.new_stream(spool, self._rows.schema) as kept:
            for batch in batches:
                place = RowPosition("", 0, partition, row)
                kept.write_batch(self._checked(batch, place, letters))
                row += batch.num_rows
        return letters

    def _checked(self, batch: Any, place: RowPosition, letters: list[Body | Draft]) -> Any:
        checked = self._rows.check(batch)
        if not checked.faults:
            return checked.batch
        if not self._options.writing.dead_letter_queue:
            raise refuse(place, checked.faults[0], _NOT_SENT)
        letters += [
            Draft(letter["body"], label=letter["label"], recoverable=True)
            for letter in dead_letters(batch, checked.faults, place)
        ]
        return good_rows(checked)

    def _messages(self, batch: Any) -> Iterable[Body | Draft]:
        if batch.schema.names == ["body"]:
            return batch.column("body").to_pylist()  # type: ignore[no-any-return]
        return map(_draft, batch.to_pylist())


def _draft(row: dict[str, Any]) -> Draft:
    how: dict[str, Any] = {
        _NAMES[name]: value for name, value in row.items() if name in _NAMES and value is not None
    }
    journal = row.get("journal") or ()
    sending: SendOptions = {
        **how,  # type: ignore[typeddict-item]
        "recoverable": row.get("delivery") != "express",
        "journal": "positive" in journal,
        "dead_letter": "negative" in journal,
    }
    return Draft(row["body"], **sending)


class StraightBatch(DataSourceArrowWriter):
    """Writes a table straight to another computer."""

    def __init__(self, straight: Straight) -> None:
        self._straight = straight

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """In a task."""
        return self._straight.send(iterator)


class StraightStream(DataSourceStreamArrowWriter):
    """Writes a stream straight to another computer."""

    def __init__(self, straight: Straight) -> None:
        self._straight = straight

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """In a task."""
        return self._straight.send(iterator)


def with_direct_names(options: MsmqSink) -> Writing:
    """The options of a write through a local queue manager, with direct names."""
    machine, writing = options.machine, options.writing
    with posthouse.msmq(machine.host, binary_port=machine.binary_port) as far:
        return writing._replace(
            queue=writing.queue and far.format_name(writing.queue),
            dead_letter_queue=writing.dead_letter_queue
            and far.format_name(writing.dead_letter_queue),
        )
