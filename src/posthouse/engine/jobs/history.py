"""The history of jobs: one row for each that has ended, up to the number that a setting keeps."""

from __future__ import annotations

import struct
from collections import deque
from itertools import islice

import msgspec

from posthouse.engine.jobs.job import EndedJob
from posthouse.engine.ledger.ledger import Ledger, ReservedCounter
from posthouse.engine.ledger.records import TABLE_JOB_HISTORY, Change

FINISHED, FAILED, REMOVED, ABANDONED, DESTROYED = (
    "finished",
    "failed",  # its servicing was aborted or its server lost, and it was not to be restarted
    "removed",  # by its owner or an operator
    "abandoned",  # its submitter was lost before it was released
    "destroyed",  # with its queue
)
RESULT_MAX = 4096
_SERIAL = struct.Struct(">Q")


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(EndedJob).decode


class JobHistory:
    """The last jobs that ended."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self._serials: deque[int] = deque()
        self._order = ReservedCounter(core, b"ended job", 64)

    def load(self) -> None:
        """What the store kept, in the order of the ends."""
        rows = [_decode(value) for _, value in self.core.state.of_table(TABLE_JOB_HISTORY)]
        rows.sort(key=lambda row: row.order)
        self._serials = deque(row.serial for row in rows)
        change = Change()
        self._drop(change)
        self.core.effects.commit(change)

    def add(self, row: EndedJob, change: Change) -> None:
        """One more; the oldest makes room."""
        key, row.order = _SERIAL.pack(row.serial), self._order.next()
        self._serials.append(row.serial)
        self.core.define(TABLE_JOB_HISTORY, key, _encode(row), change)
        self._drop(change)

    def _drop(self, change: Change) -> None:
        while len(self._serials) > self.core.settings.qms.history_max:
            key = _SERIAL.pack(self._serials.popleft())
            self.core.define(TABLE_JOB_HISTORY, key, None, change)

    def rows(
        self, queue_id: int | None = None, after: int = 0, count: int | None = None
    ) -> list[EndedJob]:
        """Those of a queue or all, the first to end first; after a serial, if it is still here."""
        definitions, serials = self.core.state.definitions, list(self._serials)
        if after in serials:
            serials = serials[serials.index(after) + 1 :]
        found = (definitions[TABLE_JOB_HISTORY, _SERIAL.pack(s)] for s in serials)
        rows = (row for row in map(_decode, found) if queue_id in (None, row.queue_id))
        return list(islice(rows, count))

    def find(self, serial: int) -> EndedJob | None:
        """What became of one job."""
        value = self.core.state.definitions.get((TABLE_JOB_HISTORY, _SERIAL.pack(serial)))
        return None if value is None else _decode(value)
