"""Not more open files than allowed, and never one closed that is needed."""

from __future__ import annotations

from posthouse.sim import SimDisk
from posthouse.store.log import LogStore
from posthouse.store.read import verified
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, packet_of

SETTINGS = StoreSettings(store_id=bytes(16), segment_size=700, open_files=2)


def test_few_files_are_open_at_a_time() -> None:
    rig = Rig(LogStore(SimDisk(), SETTINGS))
    numbers = []
    for _ in range(60):
        numbers.append(rig.send())
        rig.keep()
        rig.store.tidy()
    store = rig.store
    assert isinstance(store, LogStore)
    for number in numbers:
        assert store.read(number) == packet_of(number)
        opened = [s for s in store.ledger.segments.values() if s.file is not None]
        assert len(opened) <= SETTINGS.open_files + 2
    assert len(store.ledger.segments) > 10


def test_a_file_that_is_read_or_not_yet_synced_stays_open() -> None:
    rig = Rig(LogStore(SimDisk(), SETTINGS))
    store = rig.store
    assert isinstance(store, LogStore)
    first = rig.send()
    rig.keep()
    place = store.ledger.positions.get(first)
    assert place is not None
    segment, file = store.pinned(place.segment)
    for _ in range(60):
        rig.send()
        rig.flush()
        store.tidy()
    record = verified(file.read(place.offset, place.size), segment.name, place)
    assert record.endswith(packet_of(first))
    store.sync()
    store.unpin(place.segment)
    rig.check_packets()
    store.close()
    assert all(segment.file is None for segment in store.ledger.segments.values())


def test_a_file_that_is_pinned_stays_open_while_others_come_and_go() -> None:
    """Everything is synced, so that the pin alone keeps it."""
    rig = Rig(LogStore(SimDisk(), SETTINGS))
    numbers = []
    for _ in range(60):
        numbers.append(rig.send())
        rig.keep()
        rig.store.tidy()
    store = rig.store
    assert isinstance(store, LogStore)
    place = store.ledger.positions.get(numbers[0])
    assert place is not None
    segment, file = store.pinned(place.segment)
    for number in numbers[1:]:
        assert store.read(number) == packet_of(number)
    assert segment.file is file
    store.unpin(place.segment)
    for number in numbers[1:]:
        store.read(number)
    assert segment.file is None
