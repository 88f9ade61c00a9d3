"""One flipped bit does not keep a manager down: what it hit is set aside, all else is served.

Each bit of a log is flipped that is read by a start. The start either refuses with file and offset,
which only a record that is not a message's may cause, or everything else is exactly as it was:
nothing is doubled, nothing altered, and what is missing is on the list of damaged records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from posthouse.engine.ledger.damaged_records import DamagedRecord
from posthouse.engine.ledger.records import CHANGE, COPY, FLAG_EXPRESS, MARK, MESSAGE
from posthouse.engine.ledger.state import State
from posthouse.model.errors import MessageStorageFailed
from posthouse.runtime.driver import Driver
from posthouse.sim import SimDisk
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CARRY, RELEASE, SEGMENT_HEADER_SIZE, SEGMENTS, segment_name
from posthouse.store.log import LogStore
from posthouse.store.lost_records import damaged_records
from posthouse.store.settings import SET_ASIDE
from tests.conftest import Dose
from tests.store.faults.harness import is_convenience, play, records
from tests.store.faults.world import STORE, World
from tests.support.flipped_bits import (
    SMALL,
    WORKGROUP,
    Store,
    bare,
    little_life,
    proved,
    read,
    refused_properly,
)

NEEDED = {CHANGE, CARRY, RELEASE, SEGMENTS}  # kinds that a log cannot do without
ASIDE = replace(SMALL, damage=SET_ASIDE)


@cache
def killed() -> Store:
    """A store whose process was killed: most of it lies after the last checkpoint."""
    world = World(SimDisk(), engine=WORKGROUP, store=replace(SMALL, segment_size=6000)).start()
    store = Store(little_life(world))
    assert any(name.startswith("checkpoint-") for name in store.files)
    return store


class Kinds:
    """Which record each byte of a segment belongs to."""

    def __init__(self, data: bytes) -> None:
        self.spans = records(data)

    def at(self, offset: int) -> tuple[int, int]:
        """Kind and offset of the record; 0: the header of the segment."""
        for kind, begin, end in self.spans:
            if begin <= offset < end:
                return kind, begin
        return 0, 0


def rows_of(state: State) -> dict[int, object]:
    return {n: row for n, row in state.table.items() if not row.flags & FLAG_EXPRESS}


def opened(disk: SimDisk) -> LogStore | StoreDamaged:
    store = LogStore(disk, ASIDE)
    try:
        store.recover()
    except StoreDamaged as damage:
        return damage
    return store


def serves_the_rest(store: LogStore, of: Store, name: str, begin: int) -> DamagedRecord | None:
    """All but the message that was hit are as they were; it is reported, or not there either."""
    wanted = of.witness.oracle.picture(of.witness.written)["rows"]
    rows, listed = rows_of(store.state), damaged_records(store.state)
    assert all((segment_name(one.segment), one.offset) == (name, begin) for one in listed)
    assert len(listed) <= 1
    missing = wanted.keys() - rows.keys()
    assert not rows.keys() - wanted.keys(), "a message that had ended is back"
    assert len(missing) <= len(listed), "a message is missing and not reported"
    for number, row in rows.items():
        assert row == wanted[number]
        found = read(store, number)
        if isinstance(found, StoreDamaged):
            assert (found.file, found.offset) == (name, begin)
            assert found.place is not None  # by which the engine reports it
            assert not listed or listed[0].number == number
        else:
            assert found == (of.witness.packets[number], of.witness.senders[number])
    return listed[0] if listed else None


@pytest.mark.parametrize("made", [killed, bare])
def test_one_flipped_bit_costs_at_most_the_message_that_it_hits(made: object, dose: Dose) -> None:
    store: Store = made()  # type: ignore[operator]
    seen = Counter[str]()
    for name in store.logs():
        kinds, end = Kinds(store.files[name]), proved(store)[name]
        for offset in range(0, end, dose(11, 1)):
            kind, begin = kinds.at(offset)
            for bit in range(offset % 8, 8, dose(8, 1)):
                disk = store.flipped(name, offset, bit)
                before = disk.contents()
                found = opened(disk)
                if isinstance(found, StoreDamaged):
                    refused_properly(found, disk, before)
                    assert found.file == name
                    assert kind in NEEDED or offset < SEGMENT_HEADER_SIZE, (name, offset, bit)
                    seen["refused"] += 1
                    continue
                seen[f"served {kind}"] += 1
                damaged = serves_the_rest(found, store, name, begin)
                assert damaged is None or kind in (MESSAGE, COPY)
                seen["reported"] += damaged is not None
    print(dict(seen))
    assert seen["reported"] > 100
    assert seen[f"served {MESSAGE}"] > 200
    assert seen[f"served {MARK}"] > 20
    assert seen["refused"] > 50


class Hurt(World):
    """A queue manager on a damaged log; what it finds is compared by the tests."""

    def __init__(self, disk: SimDisk) -> None:
        settings = replace(STORE, damage=SET_ASIDE)
        super().__init__(disk, store=settings, driver=Driver)  # type: ignore[arg-type]

    def open_store(self) -> None:
        """Without a witness: it would miss what was set aside."""
        self.store = LogStore(self.disk, self.store_settings)
        self.recovered = self.store.recover()

    def again(self) -> Hurt:
        """A clean stop and a start."""
        self.stop()
        return Hurt(self.disk).start()  # type: ignore[return-value]

    def listed(self) -> list[DamagedRecord]:
        return self.manager.machine.damaged_records()


@cache
def long_life() -> Store:
    """The whole script, and then the power is gone; copies, stages and prepared work included."""
    world = play(World(SimDisk()).start())
    store = Store(world)
    kinds = {kind for name in store.logs() for kind, _, _ in records(store.files[name])}
    assert {MESSAGE, COPY, CHANGE, CARRY, RELEASE} <= kinds
    return store


def hits(store: Store, kinds: set[int], every: int) -> Iterator[tuple[str, int, int, int]]:
    """Places of flips in records of these kinds: file, begin and end of the record, offset."""
    for name in store.logs():
        for kind, begin, end in records(store.files[name]):
            if kind in kinds and end <= proved(store)[name]:
                for offset in range(begin + begin % every, end, every):
                    yield name, begin, end, offset


def without_checkpoints(disk: SimDisk) -> SimDisk:
    return SimDisk(files={n: d for n, d in disk.contents().items() if not is_convenience(n)})


@pytest.mark.parametrize("log_only", [False, True], ids=["as it is", "log alone"])
def test_the_engine_serves_everything_else_until_an_operator_decides(
    log_only: bool, dose: Dose
) -> None:
    store, seen = long_life(), Counter[str]()
    for name, begin, _, offset in hits(store, {MESSAGE, COPY}, dose(499, 5)):
        disk = store.flipped(name, offset, offset % 8)
        hurt = Hurt(without_checkpoints(disk) if log_only else disk)
        hurt.open_store()
        assert serves_the_rest(hurt.store, store, name, begin) or not log_only
        hurt.boot()
        seen["reported at the start"] += bool(hurt.listed())
        read_all(hurt, store, seen)
        assert all(
            (segment_name(one.segment), one.offset) == (name, begin) for one in hurt.listed()
        )
        hurt.check_books()
        hurt.tidy()
        decide(hurt, name, seen)
    print(dict(seen))
    assert seen["decided"] > 20
    assert seen["unreadable"] > 5 or log_only


def read_all(hurt: Hurt, store: Store, seen: Counter[str]) -> None:
    """Readers get every message as it was sent, or an error that names it as damaged."""
    for queue in hurt.manager.queues.all():
        for _, number in queue.state.order.forward():
            try:
                packet = hurt.store.read(number)
            except StoreDamaged:
                sound, error = hurt.run(
                    lambda m, number=number: m.messages.reading.fetch_sound([number])
                )
                assert (sound, type(error)) == ([], MessageStorageFailed)
                assert number in {one.number for one in hurt.listed()}
                seen["unreadable"] += 1
            else:
                assert (
                    number not in store.witness.packets or packet == store.witness.packets[number]
                )


def decide(hurt: Hurt, name: str, seen: Counter[str]) -> None:
    """Undecided damage is reported by each start and keeps its file; accepted damage is over."""
    listed = hurt.listed()
    hurt = hurt.again()
    assert hurt.listed() == listed
    if not listed:
        return
    assert hurt.disk.exists(name)
    hurt.run(lambda m: m.machine.accept_damage(listed, "operator"))
    assert not hurt.listed()
    hurt.tidy()
    hurt.check_books()
    hurt = hurt.again()
    assert not hurt.listed()
    hurt.check_books()
    again = Hurt(without_checkpoints(hurt.disk)).start()
    assert not again.listed()  # type: ignore[attr-defined]
    again.check_books()
    seen["decided"] += 1
