"""MessageIDHistoryTable: which messages came in already ([MS-MQQB] 3.1.1.3, 3.1.5.8.1-2, 3.1.6.7).

An entry is a source and an ordinal. Entries of one batch and source lie in one run, the oldest run
first; an entry that is seen again moves to the newest run, and what the older one says of it no
longer counts. What a batch brought of recoverable messages is one definition in the log, in the
same step as the messages: a message that was taken in is known after a crash, and no other.
"""

from __future__ import annotations

import struct
from array import array
from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from posthouse.engine.core import Core
from posthouse.engine.records import TABLE_HISTORY, Change

ENTRIES_LIMIT = 1 << 32  # 3.1.1.3: from there on ordinals come again

_U64 = struct.Struct(">Q")  # so that keys sort as their numbers do
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[tuple[bytes, bytes]]]).decode


class Run:
    """Entries that one batch brought of one source."""

    __slots__ = ("at", "batch", "durable", "ordinals", "source", "time")

    def __init__(
        self, batch: int, time: int, source: bytes, ordinals: list[int], durable: bool
    ) -> None:
        self.batch = batch
        self.time = time  # TimeStamp, UTC seconds
        self.source = source
        self.ordinals = ordinals
        self.durable = durable
        self.at = 0  # so many of the ordinals have been dropped

    def take(self, count: int) -> list[int]:
        """The next ordinals to drop."""
        taken = self.ordinals[self.at : self.at + count]
        self.at += len(taken)
        return taken


class MessageHistory:
    """The duplicate history of received messages that are not transactional."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.entries_max = min(core.settings.message_history_max, ENTRIES_LIMIT)
        self.kept_s = core.settings.message_history_s
        self.count = 0
        self.listed = 0  # in all runs, with entries that have moved on to newer ones
        self.due_ms: int | None = None  # MessageIDHistory Cleanup Timer
        self._known: dict[bytes, dict[int, Run]] = {}
        self._runs: deque[Run] = deque()
        self._durable_runs: dict[int, int] = {}  # by batch: how many hold its definition
        self._batch = 0

    def load(self) -> None:
        """What the log kept; what is in excess by now goes (3.1.3.1)."""
        for key, value in sorted(self.core.state.of_table(TABLE_HISTORY)):
            (batch,) = _U64.unpack(key)
            time, groups = _decode(value)
            for source, packed in groups:
                self._remember(Run(batch, time, source, list(array("I", packed)), True))
            self._batch = batch
        change = Change()
        self._drop_excess(change)
        self.core.commit(change)
        self._start_timer()

    def known_of(self, source: bytes) -> dict[int, Run]:
        """The entries of one source, by ordinal."""
        return self._known.get(source, {})

    def knows(self, source: bytes, ordinal: int) -> bool:
        """Whether a message came in already (3.1.5.8.1)."""
        return ordinal in self.known_of(source)

    def add(
        self,
        recoverable: Mapping[bytes, Iterable[int]],
        express: Mapping[bytes, Iterable[int]],
        change: Change,
    ) -> None:
        """What a batch brought, new or again, by source; the time of all of it is now.

        A table that is full gives up its oldest entries (3.1.5.8.2).
        """
        self._batch += 1
        batch, now = self._batch, self.core.utc
        for source, ordinals in express.items():
            self._remember(Run(batch, now, source, list(ordinals), False))
        for source, ordinals in recoverable.items():
            self._remember(Run(batch, now, source, list(ordinals), True))
        if recoverable:
            self._define(batch, now, recoverable.items(), change)
        self._drop_excess(change)
        self._start_timer()

    def _remember(self, run: Run) -> None:
        known = self._known.setdefault(run.source, {})
        before = len(known)
        known.update(dict.fromkeys(run.ordinals, run))
        self.count += len(known) - before
        self.listed += len(run.ordinals)
        self._runs.append(run)
        if run.durable:
            self._durable_runs[run.batch] = self._durable_runs.get(run.batch, 0) + 1

    def _define(
        self, batch: int, time: int, groups: Iterable[tuple[bytes, Iterable[int]]], change: Change
    ) -> None:
        packed = [(source, array("I", ordinals).tobytes()) for source, ordinals in groups]
        self.core.define(TABLE_HISTORY, _U64.pack(batch), _encode((time, packed)), change)

    # -- what goes

    def _drop_excess(self, change: Change) -> None:
        if self.listed > 2 * self.entries_max:
            self._drop_outdated(change)
        while self.count > self.entries_max:
            self._drop(self._runs[0], self.count - self.entries_max, change)

    def _drop_outdated(self, change: Change) -> None:
        """Entries that were seen again and again fill neither the memory nor the log."""
        runs, self._runs = self._runs, deque()
        for run in runs:
            known = self.known_of(run.source)
            run.ordinals, run.at = [n for n in run.take(self.listed) if known.get(n) is run], 0
            if run.ordinals:
                self._runs.append(run)
            else:
                self._forget(run, change)
        self.listed = self.count

    def _drop(self, run: Run, count: int, change: Change) -> None:
        """Up to so many entries of the oldest run; those seen again since are not its any more."""
        known, taken = self.known_of(run.source), run.take(count)
        self.listed -= len(taken)
        for ordinal in taken:
            if known.get(ordinal) is run:
                del known[ordinal]
                self.count -= 1
        if not known:
            self._known.pop(run.source, None)
        if run.at == len(run.ordinals):
            self._runs.popleft()
            self._forget(run, change)

    def _forget(self, run: Run, change: Change) -> None:
        """The last run of a batch takes the definition along."""
        if not run.durable:
            return
        left = self._durable_runs[run.batch] - 1
        if left:
            self._durable_runs[run.batch] = left
            return
        del self._durable_runs[run.batch]
        self.core.define(TABLE_HISTORY, _U64.pack(run.batch), None, change)

    # -- MessageIDHistory Cleanup Timer (3.1.2.8, 3.1.6.7)

    def run_timer(self) -> None:
        """Drops what is older than one period; goes on only while anything is left."""
        if self.due_ms is None or self.core.now_ms < self.due_ms:
            return
        change, limit = Change(), self.core.utc - self.kept_s
        while self._runs and self._runs[0].time < limit:
            self._drop(self._runs[0], len(self._runs[0].ordinals), change)
        self.core.commit(change)
        self.due_ms = None
        self._start_timer()

    def _start_timer(self) -> None:
        if self.due_ms is None and self._known:
            self.due_ms = self.core.now_ms + self.kept_s * 1000

    def next_deadline_ms(self) -> int | None:
        """When the timer fires; None: it does not run."""
        return self.due_ms

    # -- stop

    def keep_all(self) -> None:
        """A clean stop keeps express messages, so what is known of them is kept too."""
        batches: dict[int, list[Run]] = {}
        for run in self._runs:
            batches.setdefault(run.batch, []).append(run)
        change = Change()
        for batch, runs in batches.items():
            if any(not run.durable for run in runs):
                left = [(run.source, run.ordinals[run.at :]) for run in runs]
                self._define(batch, runs[0].time, left, change)
        self.core.commit(change)
