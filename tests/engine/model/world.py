"""The engine on a simulated disk: started, stopped, crashed, and looked at."""

from __future__ import annotations

import random
from typing import NamedTuple

from posthouse.engine.ledger.records import (
    DOOMED_DELETED,
    DOOMED_PURGED,
    FLAG_COPY,
    FLAG_EXPRESS,
    FLAG_FIRST,
    FLAG_LAST,
    FLAG_TRANSACTIONAL,
    NEVER,
    TABLE_QUEUE,
    Row,
)
from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.runtime.driver import Driver
from posthouse.security.rights import RECEIVE_MESSAGE
from posthouse.sim.clock import SimClock
from posthouse.sim.disk import Policy, SimDisk
from posthouse.store.base import Recovered
from posthouse.store.checkpoint import CHECKPOINT_PREFIX
from posthouse.store.express import CLEAN_NAME
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from posthouse.wire.packet.packet import Packet
from tests.engine.model.packets import CALLERS
from tests.engine.model.parts import NACK_QUEUE_DELETED, NACK_QUEUE_PURGED, OUT
from tests.engine.settings import engine_settings

JOURNAL_QUOTA_KIB = 8
STORE = StoreSettings(
    store_id=bytes(range(16)),
    segment_size=3 << 10,
    express_memory=3 << 10,
    small_segments=4,
    step_bytes=4 << 10,
    checkpoint_ratio=1,
    open_files=2,
)
_CLASS_OF_DOOM = {0: 0, DOOMED_PURGED: NACK_QUEUE_PURGED, DOOMED_DELETED: NACK_QUEUE_DELETED}
_SYSTEM = {1: "deadletter", 2: "deadxact", 3: "journal"}


class Held(NamedTuple):
    """A lock as the engine has it."""

    transaction: str
    holder: object
    allow_peek: bool
    expired: bool
    purged: int


class Seen(NamedTuple):
    """A message in a queue as the engine shows it."""

    name: str
    body: bytes
    message_class: int
    priority: int
    express: bool
    transactional: bool
    first: bool
    last: bool
    copied: bool
    expires: int | None
    arrived: int
    aborts: int
    moves: int
    last_move: int
    size: int
    doomed: int
    in_doubt: bool
    held: Held | None


class World:
    """One computer: a disk that survives, and a queue manager that may not."""

    def __init__(self, seed: int, machine_quota_kib: int) -> None:
        self.settings = engine_settings(
            "ALPHA",
            machine_quota_kib=machine_quota_kib,
            journal_quota=JOURNAL_QUOTA_KIB << 10,
            transactions_buffer=1500,
        )
        self.random = random.Random(seed)
        self.clock = SimClock()
        self.disk = SimDisk(seed)
        self.store: LogStore
        self.manager: QueueManager
        self.driver: Driver
        self._texts: dict[int, tuple[str, bytes]] = {}

    # -- life

    def boot(self, lose_power_at: int = 0) -> Recovered:
        """A start on whatever the disk holds; the State must follow from the log alone."""
        replica = picture(replayed(SimDisk(files=self.disk.contents())))
        if lose_power_at:
            self.disk.lose_power_at(lose_power_at)
        self.store = LogStore(self.disk, STORE)
        recovered = self.store.recover()
        found = picture(recovered.state)
        for part, said in replica.items():
            assert found[part] == said, f"{part}: {found[part]}, the log alone says {said}"
        self.manager = QueueManager(
            self.settings,
            recovered.state,
            self.store.read,
            self.random.randbytes,
            self.store.read_many,
        )
        self.driver = Driver(self.manager, self.store, self._clocks)
        self.manager.start(*self._clocks())
        self._texts.clear()
        return recovered

    def _clocks(self) -> tuple[int, int]:
        return self.clock.now_ms, self.clock.utc_seconds

    def crash(self, policy: Policy) -> None:
        """The power goes; `policy` says what becomes of unsynced writes."""
        self.disk = self.disk.crash(policy)

    def segments(self) -> set[str]:
        """The files of the log."""
        return {name for name in self.disk.names() if name.endswith(".log")}

    def forget_texts(self) -> None:
        """Packets were copied: read them all again."""
        self._texts.clear()

    # -- looking

    def name_of(self, queue: Queue) -> str:
        """The short name of a queue."""
        role = queue.definition.role
        if role is QueueRole.OUTGOING:
            return OUT
        if queue.number in _SYSTEM:
            return _SYSTEM[queue.number]
        assert queue.path is not None
        if role is QueueRole.JOURNAL:
            return f"{queue.path.queue};journal"
        return (
            f"{queue.path.queue};{queue.path.subqueue}" if queue.path.subqueue else queue.path.queue
        )

    def queues(self) -> dict[str, Queue]:
        """Every queue that applications can see."""
        everything = self.manager.queues.all()
        internal = [q for q in everything if q.definition.role is QueueRole.INTERNAL]
        assert not any(queue.state.count for queue in internal)
        return {self.name_of(q): q for q in everything if q not in internal}

    def is_readable(self, queue: Queue) -> bool:
        """Whether the ordinary user may receive from a queue of applications."""
        if queue.definition.role is not QueueRole.PLAIN:
            return False
        guard = self.manager.queues.guard(queue)
        return guard.allows(CALLERS["bob"], RECEIVE_MESSAGE)

    def ghosts(self) -> list[Queue]:
        """Deleted queues that still hold messages of open transactions, the oldest first."""
        core = self.manager.ledger
        return [core.queues[number] for number in sorted(core.deleted_queues)]

    def contents(self, queue: Queue) -> list[tuple[int, int, Seen]]:
        """Number, lookup identifier and face of every message, in queue order."""
        table = self.manager.ledger.state.table
        found = []
        for place, number in queue.state.order.forward():
            row = table.get(number)
            assert row is not None
            assert (row.queue, row.priority, row.lookup_id) == (queue.number, *place)
            found.append((number, row.lookup_id, self._seen(number, row)))
        return found

    def _seen(self, number: int, row: Row) -> Seen:
        flags = row.flags
        return Seen(
            *self.text(number),
            row.message_class,
            row.priority,
            bool(flags & FLAG_EXPRESS),
            bool(flags & FLAG_TRANSACTIONAL),
            bool(flags & FLAG_FIRST),
            bool(flags & FLAG_LAST),
            bool(flags & FLAG_COPY),
            None if row.expires == NEVER else row.expires,
            row.arrived,
            row.aborts,
            row.moves,
            row.last_move if row.moves else 0,  # else its place in a sequence
            row.size,
            _CLASS_OF_DOOM[row.doomed],
            self.manager.messages.reading.is_in_doubt(number),
            self._held(number),
        )

    def text(self, number: int) -> tuple[str, bytes]:
        """Label and body of a message, as its stored packet has them."""
        known = self._texts.get(number)
        if known is None:
            packet = Packet(self.manager.messages.packet(number))
            known = self._texts[number] = packet.label, bytes(packet.body)
        return known

    def _held(self, number: int) -> Held | None:
        lock = self.manager.ledger.locks.get(number)
        if lock is None:
            return None
        name = "" if lock.transaction is None else name_of_transaction(lock.transaction.identifier)
        return Held(name, lock.holder, lock.allow_peek, lock.expired, lock.purged)


def identifier_of(name: str) -> bytes:
    """The identifier of a transaction."""
    return name.encode().ljust(16, b".")


def name_of_transaction(identifier: bytes) -> str:
    """The short name of a transaction."""
    return identifier.rstrip(b".").decode()


def replayed(disk: SimDisk) -> State:
    """What the log alone says: no checkpoint, no index, nothing of a clean stop."""
    for name in disk.names():
        if name.startswith(CHECKPOINT_PREFIX) or name == CLEAN_NAME or name.endswith(".idx"):
            disk.unlink(name)
    return LogStore(disk, STORE).recover().state


def picture(state: State) -> dict[str, object]:
    """Everything durable that a State says, in a form that can be compared."""
    rows = {n: row for n, row in state.table.items() if not row.flags & FLAG_EXPRESS}
    defined = {int.from_bytes(key, "little") for key, _ in state.of_table(TABLE_QUEUE)}
    days = state.calendar.dump()
    due = {second: set(memoryview(raw).cast("Q")) for second, raw in days.items()}
    return {
        "rows": rows,
        "order": {
            number: order
            for number, queue in state.queues.items()
            if (order := [(*place, n) for place, n in queue.order.forward() if n in rows])
        },
        "books": {n: q.books[1:] for n, q in state.queues.items() if n in defined and any(q.books)},
        "extras": {n: extra for n, extra in state.extras.items() if n in rows},
        "pending": set(state.pending),
        "doomed": {n for n in state.doomed if n in rows},
        "definitions": dict(state.definitions),
        "unwatched": {
            n
            for n, row in rows.items()
            if row.expires != NEVER and row.lookup_id and n not in due.get(row.expires, ())
        },
    }
