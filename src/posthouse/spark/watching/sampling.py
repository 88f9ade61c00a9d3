"""Samples queues: counts, ages, and messages that are new. It only peeks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from posthouse.client import arrow_read
from posthouse.client.admin_http import BulkHttp
from posthouse.client.arrow_read import PlannedQueue, QueuePlan
from posthouse.model.errors import QueueError
from posthouse.model.message_ids import MessageId
from posthouse.spark.body_shapes import shape_of, short_hash
from posthouse.spark.watching.observations import Look, QueueSample, SeenMessage

DEAD: Final = (".\\system$;deadletter", ".\\system$;deadxact")
MESSAGES_MAX: Final = 50_000
"""New messages of one queue that one look reads; the next look reads on."""
_COLUMNS: Final = (
    "lookup_id",
    "id",
    "arrived_time",
    "sent_time",
    "sender",
    "source_queue_manager",
    "correlation_id",
    "response_queue",
    "class",
    "destination",
)
_BODY: Final = ("body", "body_type", "body_size")
_NORMAL: Final = "normal"


class Sampler:
    """One queue manager, looked at again and again."""

    def __init__(self, http: BulkHttp, queues: Iterable[str]) -> None:
        self._http = http
        self._queues = list(queues)
        self._journals = [f"{queue};journal" for queue in self._queues]
        self._read: dict[str, int] = {}  # the last lookup id that was seen, by what was asked for

    def look(self) -> Look:
        """What there is now, and what is new since the last look.

        The first look takes waiting messages as new, not those of journals and dead letters.
        """
        before = dict(self._read)
        try:
            return self._look()
        except BaseException:
            self._read = before  # what was read of some queues is new at the next look, too
            raise

    def _look(self) -> Look:
        samples, messages = list[QueueSample](), list[SeenMessage]()
        asked = [*self._queues, *self._journals, *DEAD]
        plans = arrow_read.plan(self._http, [PlannedQueue(queue) for queue in asked]).queues
        for name, plan in zip(asked, plans, strict=True):
            if name in self._queues:
                samples.append(QueueSample(plan.queue, plan.messages, self._oldest(plan)))
            messages += self._new(name, plan)
        return Look(time.time(), tuple(samples), tuple(messages))

    def _oldest(self, plan: QueuePlan) -> float | None:
        if not plan.messages:
            return None
        rows = arrow_read.read(
            self._http, plan.queue, plan.earliest - 1, plan.earliest, ["arrived_time"]
        )
        times = [time for batch in rows for time in batch.column("arrived_time").to_pylist()]
        return times[0].timestamp() if times else None  # none: it was received meanwhile

    def _new(self, name: str, plan: QueuePlan) -> Iterator[SeenMessage]:
        first = 0 if name in self._queues else plan.latest
        after = self._read.setdefault(name, first)
        if plan.latest < after:  # another home was put in its place
            after = self._read[name] = 0
        if plan.latest <= after:
            return
        wanted = PlannedQueue(plan.queue, after, max_messages=MESSAGES_MAX)
        (part,) = arrow_read.plan(self._http, [wanted]).queues
        columns = [*_COLUMNS, *(_BODY if name in DEAD else ())]
        for batch in arrow_read.read(self._http, plan.queue, after, part.end, columns):
            for row in batch.to_pylist():
                yield _seen(plan.queue, row)
        self._read[name] = part.end


def _seen(queue: str, row: dict[str, Any]) -> SeenMessage:
    return SeenMessage(
        queue,
        packed_id(row["id"]),
        _seconds(row["arrived_time"]),
        _seconds(row["sent_time"]),
        row["sender"] or "",
        row["source_queue_manager"] or "",
        (row["correlation_id"] or "").lower().strip("0") and row["correlation_id"].lower(),
        bool(row["response_queue"]),
        "" if row["class"] == _NORMAL else row["class"],
        row["destination"] or "",
        _shape(row) if "body" in row else "",
    )


def packed_id(text: str) -> str:
    """An identifier in the digits that correlation identifiers have."""
    try:
        return MessageId.parse(text).pack().hex()
    except QueueError:
        return text.lower()


def _shape(row: dict[str, Any]) -> str:
    shape = shape_of(row["body"], row["body_type"], row["body_size"])
    return f"{shape.kind} {short_hash(*shape.parts)}"


def _seconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()
