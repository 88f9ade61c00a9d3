"""Stores on the simulated disk in which one bit is flipped."""

from __future__ import annotations

from collections import Counter
from functools import cache

from msgspec.structs import replace

from posthouse.engine.ledger.records import FLAG_EXPRESS
from posthouse.sim import SimDisk
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import unpack_segment_header
from posthouse.store.log import LogStore
from posthouse.store.segment import Scanner
from tests.engine.rig import MOVE, RECEIVE
from tests.engine.settings import engine_settings
from tests.store.faults.harness import is_convenience
from tests.store.faults.script import body
from tests.store.faults.world import STORE, World

WORKGROUP = engine_settings("ALPHA", directory_integrated=False)


SMALL = replace(STORE, segment_size=2500)


def little_life(world: World) -> World:
    """A little of everything, in a few segments: messages, moves, a transaction, a compaction."""
    world.create("stay")
    world.create("east", transactional=True)
    for number in range(3):
        world.send("stay", body(f"stays {number}", 60), priority=number)
        world.send("stay", body(f"goes {number}", 200), priority=7)
        world.receive("stay")
        world.tidy()
    transaction = world.begin("t")
    world.send("east", body("sent"), tx=transaction)
    world.send("east", b"", tx=transaction)
    world.commit(transaction)
    source, target = world.open("stay", RECEIVE), world.open("stay;aside", MOVE)
    read = world.peek(source).read
    world.run(lambda m: m.messages.move_message(source, read.lookup_id, target))
    world.tidy()
    world.send("stay", body("express", 100), recoverable=False)
    for number in range(3):
        world.send("stay", body(f"last {number}", 60))
    return world


class Store:
    """Files as they are at rest, and what must be in them."""

    def __init__(self, world: World) -> None:
        self.files = world.disk.contents()
        self.witness = world.witness.now()
        self.witness.answered = self.witness.written
        rows = world.manager.ledger.state.table.items()
        self.express = {n for n, row in rows if row.flags & FLAG_EXPRESS}

    def flipped(self, name: str, offset: int, bit: int) -> SimDisk:
        """The store with one bit changed."""
        disk = SimDisk(files=self.files)
        disk.flip_bit(name, offset, bit)
        return disk

    def offsets(self, name: str, every: int = 1) -> range:
        """Bytes of a file."""
        return range(0, len(self.files[name]), every)

    def logs(self) -> list[str]:
        """The segments."""
        return [name for name in self.files if name.endswith(".log")]


@cache
def stopped() -> Store:
    """A store after a clean stop: everything in it is proved to have been synced."""
    world = little_life(World(SimDisk(), engine=WORKGROUP, store=SMALL).start())
    world.stop()
    store = Store(world)
    kinds = Counter(name.rpartition(".")[2].partition("-")[0] for name in store.files)
    assert kinds["log"] >= 3, kinds
    assert {"idx", "checkpoint", "express", "clean"} <= kinds.keys()
    return store


@cache
def bare() -> Store:
    """The same without anything that the store could make again."""
    store = stopped()
    other = Store.__new__(Store)
    other.files = {n: d for n, d in store.files.items() if not is_convenience(n) and n != "clean"}
    other.witness, other.express = store.witness, store.express
    return other


@cache
def proved(store: Store) -> dict[str, int]:
    """Up to where in each segment some mark says that the log had been synced."""
    scanned = {}
    for name in store.logs():
        data = store.files[name]
        header = unpack_segment_header(data, name, int(name[:8]))
        scanner = Scanner(data, header.generation, header.first_sequence)
        scanned[name] = (header.first_sequence, list(scanner), scanner.synced)
    synced = max(newest for _, _, newest in scanned.values())
    return {
        name: max(
            [end for place, (_, _, end) in enumerate(records) if first + place <= synced] + [0]
        )
        for name, (first, records, _) in scanned.items()
    }


def refused_properly(damage: StoreDamaged, disk: SimDisk, before: dict[str, bytes]) -> None:
    """It names a place, and nothing was changed or removed to make the error go away."""
    assert disk.contents() == before
    assert disk.calls["any"] == 0
    assert damage.file in before
    assert 0 <= damage.offset <= len(before[damage.file])
    assert damage.file in str(damage)
    assert str(damage.offset) in str(damage)


def read(store: LogStore, number: int) -> tuple[bytes, bytes] | StoreDamaged:
    """A message and its sender, or why it cannot be read."""
    try:
        return store.read(number), store.read_sender(number)
    except StoreDamaged as damage:
        return damage
