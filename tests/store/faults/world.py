"""A queue manager on a simulated disk, with a witness: what every fault test drives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from posthouse.engine.ledger.effects import Event
from posthouse.engine.ledger.records import FLAG_EXPRESS, Record
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.runtime.driver import Call, Driver, Release
from posthouse.security.access import Caller
from posthouse.sim import SimDisk
from posthouse.sim.clock import SimClock
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.engine.rig import START_UTC, Rig
from tests.engine.settings import engine_settings
from tests.store.faults.witness import Turn, Witness, view

# Everything is tiny, so that a short script rolls, seals, checkpoints and compacts all the time.
SEGMENT_SIZE = 3000
STORE = StoreSettings(
    store_id=b"0123456789abcdef",
    segment_size=SEGMENT_SIZE,
    disk_reserve=20_000,
    disk_reserve_percent=100,
    dead_ratio=0.3,
    small_segments=4,
    step_bytes=700,
    checkpoint_ratio=1,
    express_memory=1500,
    open_files=3,
)
ENGINE = engine_settings("ALPHA", dns_domain="example.com", transactions_buffer=2500)


class WatchedStore(LogStore):
    """The store itself; the witness reads along."""

    world: World

    def append(self, records: Sequence[Record]) -> int:
        """Appends; what was asked for may be on the disk even if this fails."""
        turn = self.world.tell(records)
        turn.position = super().append(records)
        return turn.position


class WatchedDriver(Driver):
    """The driver itself; the witness hears when answers go out."""

    world: World
    calls = 0

    def begin_turn(self) -> None:
        """A process without power does nothing at all, not even in its `finally` clauses."""
        self.world.disk.names()
        super().begin_turn()

    def decide(self, call: Call, release: Release) -> None:
        """Counts the calls of a turn."""
        self.calls += 1
        super().decide(call, release)

    def end_turn(self) -> int:
        """A turn without records is one too."""
        position = super().end_turn()
        self.world.tell_end(position)
        self.calls = 0
        return position

    def release(self) -> int:
        """Lets answers out."""
        released = super().release()
        if released:
            self.world.witness.let_out(self.store.synced)
        if self.world.eager:
            self.world.tidy()
        return released


class World(Rig):
    """One queue manager on one disk; `start` checks what it finds there against its witness."""

    def __init__(
        self,
        disk: SimDisk,
        witness: Witness | None = None,
        *,
        store: StoreSettings = STORE,
        engine: EngineSettings = ENGINE,
        driver: type[WatchedDriver] = WatchedDriver,
    ) -> None:
        self.settings = engine
        self.store_settings = store
        self.driver_class = driver
        self.admin = Caller.administrator()
        self.events: list[Event] = []
        self.active: set[int] = set()
        self.clock = SimClock(utc_seconds=START_UTC)
        self.eager = False  # upkeep behind every turn, until there is none left
        self.loose = True  # turns that may be seen in part
        self._told = False
        self.witness = witness or Witness()
        self.disk = disk

    # -- starting and stopping

    def start(self) -> World:
        """Recovers the store and starts the engine on it."""
        self.open_store()
        self.boot()
        return self

    def open_store(self) -> None:
        """Recovers, and finds out which records are there."""
        self.store: Any = WatchedStore(self.disk, self.store_settings)
        self.store.world = self
        self.recovered = self.store.recover()
        witness = self.witness
        self.kept = witness.locate(self.recovered.state)
        witness.check_express(self.recovered.state)
        before = witness.turn_before(self.kept)
        if before is not None:
            now_ms, utc = before.clock
            self.clock = SimClock(now_ms=now_ms, utc_seconds=utc)
        self.witness = witness.resumed(self.kept)
        self.check_packets()

    def boot(self) -> None:
        """Starts the engine on what the store found."""
        self.random = random.Random(self.witness.starts)
        self.loose = True
        self._boot(self.recovered.state)
        self.loose = False

    def _boot(self, state: Any) -> None:
        self.manager = QueueManager(
            self.settings, state, self.store.read, self.random.randbytes, self.store.read_many
        )
        self.driver = self.driver_class(self.manager, self.store, self.time)
        self.driver.world = self
        self.manager.start(*self.time())
        self.driver.on_event = self.events.append
        self.driver.on_active = self.active.update
        self.turn()

    def time(self) -> tuple[int, int]:
        return self.clock.now_ms, self.clock.utc_seconds

    def stop(self) -> None:
        """A clean stop."""
        self.loose = True
        self.driver.close()

    def restart(self) -> None:
        """A clean stop and a start: express messages stay, too, if there is room for them."""
        express = view(self.manager, express=True)
        self.stop()
        room = self.disk.free_space()[0] > 500_000
        room = room and not any(operation.error for operation in self.disk.operations)
        clock = self.clock
        self.open_store()
        assert self.recovered.clean or not room
        self.clock = clock
        self.boot()
        if self.recovered.clean:
            assert not self.recovered.lost_express
            assert view(self.manager, express=True) == express
        self.check()

    def kill(self) -> None:
        """kill -9 and a start: the machine stays on, so the disk forgets nothing."""
        clock = self.clock
        self.open_store()
        self.clock = clock
        self.boot()

    # -- telling the witness

    def tell(self, records: Sequence[Record]) -> Turn:
        """A turn of the engine is on its way to the store."""
        self._told = True
        self.witness.wrote(records)
        turn = Turn(
            -1,
            self.witness.written,
            self.time(),
            view(self.manager),
            self._express(),
            self.driver.calls <= 1 and not self.loose,
        )
        self.witness.turns.append(turn)
        return turn

    def tell_end(self, position: int) -> None:
        """A turn is over, which may have written nothing."""
        if not self._told:
            self.tell(()).position = position
        self._told = False

    def _express(self) -> frozenset[int]:
        rows = self.manager.ledger.state.table.items()
        return frozenset(n for n, row in rows if row.flags & FLAG_EXPRESS)

    # -- steps

    def send(self, to: Any, body: bytes = b"", **options: Any) -> Any:
        """As the rig's, but where the process ends nothing is closed any more."""
        if not isinstance(to, str):
            return super().send(to, body, **options)
        descriptor = self.open(to)
        identifier = super().send(descriptor, body, **options)
        self.close(descriptor)
        return identifier

    def advance(self, seconds: float) -> None:
        """Time passes; everything that is due in one turn need not be one step."""
        self.loose = True
        super().advance(seconds)
        self.loose = False

    def tidy(self, steps: int = 10_000) -> int:
        """This many steps of upkeep, or until there is nothing to do; how many there were."""
        for step in range(steps):
            if not self.driver.tidy():
                return step
            if step % 3 == 2:  # upkeep runs ahead of the syncs, and some steps wait for one
                self.driver.sync()
        assert steps < 10_000, "upkeep never ends"
        return steps

    # -- checks

    def check_packets(self) -> None:
        """Every message can be read, as it was sent."""
        witness = self.witness
        for number in [number for number, _ in self.recovered.state.table.items()]:
            assert self.store.read(number) == witness.packets[number], number
            assert self.store.read_sender(number) == witness.senders[number], number

    def check(self) -> None:
        """What readers see is what the records said, and the books balance."""
        self.witness.check_view(self.kept, view(self.manager))
        self.check_books()

    def check_goes_on(self) -> None:
        """The store works: upkeep, messages in and out, a stop and a start, the clock."""
        self.tidy()
        used = dict(self.witness.lookup_ids)
        self.create("afterwards")
        self.send("afterwards", b"afterwards")
        assert self.receive("afterwards").read.lookup_id not in used, "given twice"
        self.restart()
        self.advance(10**6)
        assert not self.late(), "messages that should have expired"
        self.check_books()

    def late(self) -> list[int]:
        """Messages that nobody holds or has claimed and whose time is over."""
        core = self.manager.ledger
        return [
            number
            for number, row in core.state.table.items()
            if row.expires <= core.utc and row.lookup_id and number not in core.locks
            if not self.manager.groups.is_claimed(row)
        ]
