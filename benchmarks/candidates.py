"""The stores that are compared: each keeps a queue of 1 KiB messages, one sync for each group.

All of them end up with the same: messages on the disk that can be found by number and walked in
the order of queue and priority.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import lmdb

from benchmarks.samples import body_of
from benchmarks.witness import WitnessDisk
from posthouse.engine.ledger.records import (
    ARRIVAL_OF_ROW,
    CHANGE,
    MESSAGE,
    NEVER,
    PACKED_ROW,
    RECEIVED,
    Change,
    Record,
    Row,
)
from posthouse.engine.ledger.row_columns import Rows
from posthouse.engine.ledger.rows import packed_rows
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from posthouse.wire.packet.batch import Batch

QUEUE = 16
PRIORITY = 3
ARRIVED = 1_700_000_000


class Candidate(Protocol):
    """A store under test. A group is durable when the call returns."""

    def insert(self, first: int, count: int) -> None:
        """This many new messages, numbered from `first`."""

    def remove(self, first: int, count: int) -> None:
        """Takes them away again, oldest first."""

    def count(self) -> int:
        """Messages that are there."""

    def close(self) -> None:
        """Gives everything back."""


class Posthouse(Candidate):
    """Our log, with the state that the engine keeps beside it: rows, order, books."""

    def __init__(self, directory: Path) -> None:
        self.disk = WitnessDisk(directory)
        self.store = LogStore(self.disk, StoreSettings(store_id=os.urandom(16)))
        self.state = self.store.recover().state

    def insert(self, first: int, count: int) -> None:
        numbers = list(range(first, first + count))
        row = Row(first, QUEUE, NEVER, ARRIVED, 0, 0, 0, 0, 0, 0, PRIORITY, 0, 0, 0)
        bodies = [body_of(number) for number in numbers]
        head = Batch.of_data(bodies[0]).head
        rows = packed_rows(row, Batch(bodies, [head] * count, numbers))
        self.state.arrive(first, row, b"", rows, sum(map(len, bodies)))
        pack, packed_rows_of = ARRIVAL_OF_ROW.pack, PACKED_ROW.iter_unpack(rows)
        records: list[Record] = [
            (MESSAGE, number, pack(number, packed, *head.span, 0, 0), body)
            for number, (packed,), body in zip(numbers, packed_rows_of, bodies, strict=True)
        ]
        self._commit(records)

    def remove(self, first: int, count: int) -> None:
        numbers, change = list(range(first, first + count)), Change()
        rows = self.state.table.rows(numbers)
        self.state.end_run(numbers, Rows.of(rows), RECEIVED)
        change.ends.extend([(number, RECEIVED) for number in numbers])
        self._commit([(CHANGE, 0, change.pack(), b"")])

    def _commit(self, records: list[Record]) -> None:
        position = self.store.append(records)
        written = self.disk.writes
        assert self.store.sync() >= position
        self.disk.require_synced(written)
        self.store.tidy()

    def count(self) -> int:
        return self.state.table.count

    def close(self) -> None:
        self.store.close()
        self.disk.close()


class Sqlite(Candidate):
    """SQLite with a write-ahead log that is synced at each commit, and an index for the order."""

    index = "create index message_order on message (queue, priority desc, id)"

    def __init__(self, directory: Path) -> None:
        # Autocommit mode: transactions begin and end only where this code begins and ends them.
        self.base = sqlite3.connect(directory / "queue.db", isolation_level=None)
        for setting, value in (("journal_mode", "wal"), ("synchronous", "full")):
            self.base.execute(f"pragma {setting} = {value}")
        self.base.execute("pragma wal_autocheckpoint = 4000")
        self.base.execute("pragma cache_size = -65536")
        self._require_durable()
        self.base.execute(
            "create table message (id integer primary key, queue integer, priority integer,"
            " state integer, body blob)"
        )
        if self.index:
            self.base.execute(self.index)

    def _require_durable(self) -> None:
        settings = [self.base.execute(f"pragma {s}").fetchone()[0] for s in ("journal_mode",)]
        settings += [self.base.execute("pragma synchronous").fetchone()[0]]
        assert settings == ["wal", 2], f"SQLite did not take its settings: {settings}"

    def insert(self, first: int, count: int) -> None:
        rows = [(n, QUEUE, PRIORITY, body_of(n)) for n in range(first, first + count)]
        self.base.execute("begin immediate")
        self.base.executemany("insert into message values (?, ?, ?, 0, ?)", rows)
        self.base.execute("commit")

    def remove(self, first: int, count: int) -> None:
        self.base.execute("begin immediate")
        self.base.executemany(
            "delete from message where id = ?", [(n,) for n in range(first, first + count)]
        )
        self.base.execute("commit")

    def count(self) -> int:
        return int(self.base.execute("select count(*) from message").fetchone()[0])

    def close(self) -> None:
        self.base.close()


class SqliteBare(Sqlite):
    """SQLite without the index: numbers only, no order by priority."""

    index = ""


class Lmdb(Candidate):
    """LMDB with its default, safe settings: the order is in the key."""

    key = struct.Struct(">IBQ")

    def __init__(self, directory: Path) -> None:
        self.base = lmdb.open(str(directory), map_size=16 << 30, sync=True, metasync=True)
        flags = self.base.flags()
        assert flags["sync"], "LMDB did not take its settings"
        assert flags["metasync"], "LMDB did not take its settings"

    def _keys(self, first: int, count: int) -> list[bytes]:
        pack = self.key.pack
        return [pack(QUEUE, 7 - PRIORITY, number) for number in range(first, first + count)]

    def insert(self, first: int, count: int) -> None:
        with self.base.begin(write=True) as transaction:
            put = transaction.put
            for number, key in enumerate(self._keys(first, count), first):
                put(key, body_of(number), append=True)

    def remove(self, first: int, count: int) -> None:
        with self.base.begin(write=True) as transaction:
            for key in self._keys(first, count):
                transaction.delete(key)

    def count(self) -> int:
        return int(self.base.stat()["entries"])

    def close(self) -> None:
        self.base.close()


POSTHOUSE = "Posthouse"
SQLITE = "SQLite"
CANDIDATES: dict[str, Callable[[Path], Candidate]] = {
    POSTHOUSE: Posthouse,
    SQLITE: Sqlite,
    "SQLite, no index": SqliteBare,
    "LMDB": Lmdb,
}
