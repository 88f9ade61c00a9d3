"""The memory store; what it has in common with the others is in the contract suite."""

from __future__ import annotations

from tests.store.rig import Rig, picture
from tests.support.memory_store import MemoryStore


def test_records_of_messages_that_are_gone_are_not_kept_for_ever() -> None:
    rig = Rig(MemoryStore())
    kept = rig.send()
    for _ in range(1500):
        rig.end(rig.send())
        rig.keep()
        rig.tidy()
    store = rig.store
    assert isinstance(store, MemoryStore)
    assert len(store.log.records) < 1500
    assert list(store.log.packets) == [kept]
    again = Rig(store.crash())
    assert picture(again.state) == picture(rig.state)
    again.check_packets()


def test_positions_go_on_where_they_were() -> None:
    rig = Rig(MemoryStore())
    for _ in range(1200):
        rig.send()
    position = rig.keep()
    rig.tidy()
    rig.store.close()
    store = rig.store
    assert isinstance(store, MemoryStore)
    assert Rig(MemoryStore(store.log)).store.appended == position
