"""The duplicate history: which messages came in already ([MS-MQQB] 3.1.1.3, 3.1.5.8.1-2, 3.1.6.7).

An entry is a source, an ordinal and the digest of the message: anybody can send under the name of
another, so an identifier that comes again with another content is another message. Entries of one
batch and source lie in one run; an entry that is seen again moves to the newest run, and its entry
in the older run no longer counts. What a batch brought of recoverable messages is one definition in
the log, in the same step as the messages: a message that was taken in is known after a crash, and
no other. A full table gives up entries of the address that has brought most of them, so that a
flood from one address leaves those of the others alone.
"""

from __future__ import annotations

import heapq
import struct
from array import array
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_HISTORY, Change
from posthouse.model.address_prefixes import source_of
from posthouse.model.bounded_tables import Bounded
from posthouse.model.guids import format_guid
from posthouse.wire.packet.digest import DIGEST_SIZE

ENTRIES_LIMIT = 1 << 32  # 3.1.1.3: from there on ordinals come again
OTHER = b"#"  # in the source of an entry whose identifier another content has: its digest follows
TOLD_MAX = 1000  # conflicts that are in the log, each once

_U64 = struct.Struct(">Q")  # so that keys sort as their numbers do
_encode = msgspec.msgpack.Encoder().encode

Notes = Mapping[bytes, Mapping[int, bytes]]  # by source and ordinal: the digest of the message


class _Group(msgspec.Struct, array_like=True):
    """Entries of one source in the log."""

    source: bytes
    ordinals: bytes
    digests: bytes = b""  # version 0.1 kept none


class _Batch(msgspec.Struct, array_like=True):
    """What one batch brought, in the log."""

    time: int
    groups: list[_Group]
    host: str = ""


_decode = msgspec.msgpack.Decoder(_Batch).decode


class HistoryRun:
    """Entries that one batch brought of one source."""

    __slots__ = ("at", "batch", "digests", "durable", "host", "ordinals", "source", "time")

    def __init__(
        self,
        batch: int,
        time: int,
        host: str,
        source: bytes,
        digests: Mapping[int, bytes],
        durable: bool,
    ) -> None:
        self.batch = batch
        self.time = time  # TimeStamp, UTC seconds
        self.host = host  # that brought them
        self.source = source
        self.digests = digests  # by ordinal; an empty one agrees with any content
        self.ordinals = list(digests)
        self.durable = durable
        self.at = 0  # this many of the ordinals have been dropped

    def take(self, count: int) -> list[int]:
        """The next ordinals to drop."""
        taken = self.ordinals[self.at : self.at + count]
        self.at += len(taken)
        return taken

    def left(self) -> dict[int, bytes]:
        """What has not been dropped."""
        return {ordinal: self.digests[ordinal] for ordinal in self.ordinals[self.at :]}


class MessageHistory:
    """The duplicate history of received messages that are not transactional."""

    TABLE = TABLE_HISTORY

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self.entries_max = min(core.settings.binary.message_history_max, ENTRIES_LIMIT)
        self.kept_s = core.settings.binary.message_history_s
        self.count = 0
        self.listed = 0  # in all runs, with entries that have moved on to newer ones
        self.due_ms: int | None = None  # MessageIDHistory Cleanup Timer
        self._known: dict[bytes, dict[int, HistoryRun]] = {}
        self._runs: dict[
            str, deque[HistoryRun]
        ] = {}  # by the share of their host, the oldest first
        self._listed: Counter[str] = Counter()  # entries in those
        self._others: Counter[bytes] = Counter()  # by source: how many have a source of their own
        self._told: Bounded[tuple[bytes, str, str], None] = Bounded(TOLD_MAX)
        self._durable_runs: dict[int, int] = {}  # by batch: how many hold its definition
        self._batch = 0

    def load(self) -> None:
        """What the log kept; what is in excess by now goes (3.1.3.1)."""
        for key, value in sorted(self.core.state.of_table(self.TABLE)):
            (number,) = _U64.unpack(key)
            batch = _decode(value)
            for group in batch.groups:
                digests = dict(_entries(group))
                self._remember(
                    HistoryRun(number, batch.time, batch.host, group.source, digests, True)
                )
            self._batch = number
        change = Change()
        self._drop_excess(change)
        self.core.commit(change)
        self._start_timer()

    def known_of(self, source: bytes) -> dict[int, HistoryRun]:
        """The entries of one source, by ordinal."""
        return self._known.get(source, {})

    def knows(self, source: bytes, ordinal: int, digest: bytes = b"") -> bool:
        """Whether a message came in already (3.1.5.8.1); without a digest, any of that name."""
        run = self.known_of(source).get(ordinal)
        if run is not None:
            known = run.digests[ordinal]
            if not known or not digest or known == digest:
                return True
        # What came first under that name may be forgotten by now.
        return bool(digest) and ordinal in self.known_of(source + OTHER + digest)

    def has_none_of(self, source: bytes, ordinals: Sequence[int]) -> bool:
        """Whether nothing came in under any of these identifiers, whatever its content."""
        return not self._others.get(source) and self.known_of(source).keys().isdisjoint(ordinals)

    def has_others(self, source: bytes) -> bool:
        """Whether identifiers of a source have come with several contents."""
        return self._others[source] > 0

    def add(self, recoverable: Notes, express: Notes, change: Change, host: str = "") -> None:
        """What a batch brought from a host, new or again, by source; the time of it is now.

        A table that is full gives up entries (3.1.5.8.2).
        """
        self._batch += 1
        batch, now = self._batch, self.core.utc
        for source, digests in self._told_apart(express, host):
            self._remember(HistoryRun(batch, now, host, source, digests, False))
        durable = list(self._told_apart(recoverable, host))
        for source, digests in durable:
            self._remember(HistoryRun(batch, now, host, source, digests, True))
        if durable:
            self._define(batch, now, host, durable, change)
        self._drop_excess(change)
        self._start_timer()

    def _told_apart(self, notes: Notes, host: str) -> Iterator[tuple[bytes, Mapping[int, bytes]]]:
        """The notes; of an identifier that another content has, under a source of its own.

        What came first from elsewhere stays in the share of that address: a stranger who repeats
        it does not get it into their own, to be dropped with it.
        """
        for source, digests in notes.items():
            known = self.known_of(source)
            if known.keys().isdisjoint(digests):
                yield source, digests
                continue
            own = dict(digests)
            for ordinal, digest in digests.items():
                run = known.get(ordinal)
                if run is None:
                    continue
                if digest and run.digests[ordinal] not in (b"", digest):
                    self._tell_conflict(source, ordinal, digest, run.host, host)
                    del own[ordinal]
                    yield source + OTHER + digest, {ordinal: digest}
                elif source_of(run.host) != source_of(host):
                    del own[ordinal]
            if own:
                yield source, own

    def _tell_conflict(
        self, source: bytes, ordinal: int, digest: bytes, first: str, host: str
    ) -> None:
        """Two machines use one name, or one pretends to be the other; counted, and logged once."""
        if ordinal in self.known_of(source + OTHER + digest):
            return
        self.core.conflicts["identifier"] += 1
        key = source[:16], first, host
        if key not in self._told:
            self._told[key] = None
            self.core.event(
                "identifier_conflict", source=format_guid(key[0]), address=host, other=first
            )

    def _remember(self, run: HistoryRun) -> None:
        if run.source not in self._known:
            self._others[_name_of(run.source)] += 1
        known = self._known.setdefault(run.source, {})
        before, share = len(known), source_of(run.host)
        known.update(dict.fromkeys(run.ordinals, run))
        self.count += len(known) - before
        self._list(share, len(run.ordinals))
        self._runs.setdefault(share, deque()).append(run)
        if run.durable:
            self._durable_runs[run.batch] = self._durable_runs.get(run.batch, 0) + 1

    def _list(self, share: str, count: int) -> None:
        self.listed += count
        self._listed[share] += count

    def _define(
        self,
        batch: int,
        time: int,
        host: str,
        groups: Sequence[tuple[bytes, Mapping[int, bytes]]],
        change: Change,
    ) -> None:
        packed = [_group(source, digests) for source, digests in groups]
        value = _encode(_Batch(time, packed, host))
        self.core.define(self.TABLE, _U64.pack(batch), value, change)

    # -- what goes

    def _drop_excess(self, change: Change) -> None:
        if self.listed > 2 * self.entries_max:
            self._drop_outdated(change)
        while self.count > self.entries_max:
            share, *rivals = self._largest()
            surplus = self._listed[share] - (self._listed[rivals[0]] if rivals else 0) + 1
            self._drop(share, min(self.count - self.entries_max, surplus), change)

    def _largest(self) -> list[str]:
        """The share with most entries, and the next one: they give up entries in turn."""
        return heapq.nlargest(2, self._listed, key=self._listed.__getitem__)

    def _drop_outdated(self, change: Change) -> None:
        """Entries that were seen again and again fill neither the memory nor the log."""
        shares, self._runs = self._runs, {}
        self._listed.clear()
        for share, runs in shares.items():
            for run in runs:
                known = self.known_of(run.source)
                run.ordinals, run.at = [n for n in run.take(self.listed) if known.get(n) is run], 0
                if run.ordinals:
                    self._runs.setdefault(share, deque()).append(run)
                    self._listed[share] += len(run.ordinals)
                else:
                    self._forget(run, change)
        self.listed = self.count

    def _drop(self, share: str, count: int, change: Change) -> None:
        """Up to this many entries of a share's oldest run, less those that came again since."""
        run = self._runs[share][0]
        known, taken = self.known_of(run.source), run.take(count)
        self._list(share, -len(taken))
        for ordinal in taken:
            if known.get(ordinal) is run:
                del known[ordinal]
                self.count -= 1
        if not known and self._known.pop(run.source, None) is not None:
            self._others[_name_of(run.source)] -= 1
        if run.at == len(run.ordinals):
            self._runs[share].popleft()
            self._forget(run, change)
        if not self._runs[share]:
            del self._runs[share], self._listed[share]

    def _forget(self, run: HistoryRun, change: Change) -> None:
        """The last run of a batch takes the definition along."""
        if not run.durable:
            return
        left = self._durable_runs[run.batch] - 1
        if left:
            self._durable_runs[run.batch] = left
            return
        del self._durable_runs[run.batch]
        self.core.define(self.TABLE, _U64.pack(run.batch), None, change)

    # -- MessageIDHistory Cleanup Timer (3.1.2.8, 3.1.6.7)

    def run_timer(self) -> None:
        """Drops what is older than one period; goes on only while anything is left."""
        if self.due_ms is None or self.core.now_ms < self.due_ms:
            return
        change, limit = Change(), self.core.utc - self.kept_s
        for share in list(self._runs):
            self._drop_older(share, limit, change)
        self.core.commit(change)
        self.due_ms = None
        self._start_timer()

    def _drop_older(self, share: str, limit: int, change: Change) -> None:
        while share in self._runs and self._runs[share][0].time < limit:
            self._drop(share, self._listed[share], change)

    def _start_timer(self) -> None:
        if self.due_ms is None and self._known:
            self.due_ms = self.core.now_ms + self.kept_s * 1000
            self.core.deadlines.note(self.due_ms)

    def next_deadline_ms(self) -> int | None:
        """When the timer fires; None: it does not run."""
        return self.due_ms

    # -- stop

    def keep_all(self) -> None:
        """A clean stop keeps express messages, so what is known of them is kept too."""
        batches: dict[int, list[HistoryRun]] = {}
        for runs in self._runs.values():
            for run in runs:
                batches.setdefault(run.batch, []).append(run)
        change = Change()
        for batch, runs_of_batch in batches.items():
            if any(not run.durable for run in runs_of_batch):
                left = [(run.source, run.left()) for run in runs_of_batch]
                first = runs_of_batch[0]
                self._define(batch, first.time, first.host, left, change)
        self.core.commit(change)


def _name_of(source: bytes) -> bytes:
    """The source that a source of its own was made for; empty for any other."""
    size = len(OTHER) + DIGEST_SIZE
    return source[:-size] if source[-size:][: len(OTHER)] == OTHER else b""


def _group(source: bytes, digests: Mapping[int, bytes]) -> _Group:
    joined = b"".join(digests.values())
    if len(joined) != DIGEST_SIZE * len(digests):  # some are of version 0.1, or of no packet
        joined = b"".join([digest.ljust(DIGEST_SIZE, b"\0") for digest in digests.values()])
    return _Group(source, array("I", digests).tobytes(), joined)


def _entries(group: _Group) -> Iterator[tuple[int, bytes]]:
    nothing = bytes(DIGEST_SIZE)
    for at, ordinal in enumerate(array("I", group.ordinals)):
        digest = group.digests[DIGEST_SIZE * at : DIGEST_SIZE * (at + 1)]
        yield ordinal, b"" if digest == nothing else digest
