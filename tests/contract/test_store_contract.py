"""One suite for every store: what the driver and the engine may rely on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Protocol

import pytest

from posthouse.sim import SimDisk
from posthouse.store.base import Store
from posthouse.store.disk import RealDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, packet_of, picture, random_step
from tests.support.memory_store import MemoryStore

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=4000, step_bytes=2000)


class Home(Protocol):
    """Where a store lives, over several processes."""

    def open(self) -> Store: ...

    def crash(self) -> None: ...


class RealHome:
    """A directory. A crash is the end of the process; nothing written is lost by it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> Store:
        return LogStore(RealDisk(self.path), SETTINGS)

    def crash(self) -> None:
        pass


class SimHome:
    """A simulated disk. A crash is a loss of power."""

    def __init__(self) -> None:
        self.disk = SimDisk()

    def open(self) -> Store:
        return LogStore(self.disk, SETTINGS)

    def crash(self) -> None:
        self.disk = self.disk.crash("random")


class MemoryHome:
    """No disk at all."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def open(self) -> Store:
        self.store = MemoryStore(self.store.disk)
        return self.store

    def crash(self) -> None:
        self.store = self.store.crash()


@pytest.fixture(params=["real", "sim", "memory"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    make: dict[str, Callable[[], Home]] = {
        "real": lambda: RealHome(tmp_path / "store"),
        "sim": SimHome,
        "memory": MemoryHome,
    }
    return make[request.param]()


def test_a_new_store_is_empty(home: Home) -> None:
    rig = Rig(home.open())
    assert len(rig.state.table) == 0
    assert rig.recovered.lost_express == {}
    assert rig.store.synced == rig.store.appended
    assert rig.store.has_room()


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14", "MS-MQDMPR 3.1.1.11/6", "MS-MQDMPR 3.1.1/1")
def test_everything_synced_survives_a_crash(home: Home) -> None:
    rig = Rig(home.open())
    kept = [rig.send(queue, extra=b"x" * queue) for queue in (1, 2, 1)]
    pending = rig.send(pending=True)
    rig.move(kept[0], 3)
    rig.define(b"key", b"value")
    gone = rig.send()
    rig.end(gone)
    rig.keep()
    home.crash()
    again = Rig(home.open())
    assert picture(again.state) == picture(rig.state)
    assert pending in again.state.pending
    again.check_packets()


def test_nothing_unsynced_is_called_synced(home: Home) -> None:
    rig = Rig(home.open())
    rig.send()
    synced = rig.keep()
    rig.send()
    position = rig.flush()
    assert rig.store.synced == synced < position == rig.store.appended
    assert rig.store.sync() == position == rig.store.synced


@pytest.mark.parametrize("seed", range(8))
def test_a_crash_leaves_a_prefix_with_all_that_was_synced(home: Home, seed: int) -> None:
    chance = Random(seed)
    for _ in range(4):
        rig = Rig(home.open())
        history, synced = [picture(rig.state)], 0
        for _ in range(60):
            random_step(rig, chance)
            history.append(picture(rig.state))
            if chance.random() < 0.3:
                rig.keep()
                synced = len(history) - 1
                rig.store.tidy()
        home.crash()
        again = Rig(home.open())
        assert picture(again.state) in history[synced:]
        again.check_packets()
        again.store.close()


def test_a_packet_can_be_read_until_its_end_is_synced_and_tidied(home: Home) -> None:
    rig = Rig(home.open())
    number, express = rig.send(), rig.send_express()
    rig.keep()
    rig.end(number)
    rig.drop(express)
    rig.flush()
    rig.store.tidy()
    assert rig.store.read(number) == packet_of(number)
    assert rig.store.read(express) == packet_of(express)


def test_an_express_message_that_came_and_went_in_one_group_can_be_read(home: Home) -> None:
    rig = Rig(home.open())
    number = rig.send_express()
    rig.drop(number)
    rig.flush()
    assert rig.store.read(number) == packet_of(number)
    rig.store.sync()
    rig.tidy()
    with pytest.raises(LookupError):
        rig.store.read(number)


def test_unknown_messages_cannot_be_read(home: Home) -> None:
    rig = Rig(home.open())
    with pytest.raises(LookupError):
        rig.store.read(1)
    with pytest.raises(LookupError):
        rig.store.read_sender(1)


def test_express_records_have_no_position(home: Home) -> None:
    rig = Rig(home.open())
    before = rig.store.appended
    rig.send_express()
    assert rig.flush() == before == rig.store.synced


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/13")
def test_express_messages_survive_a_clean_stop(home: Home) -> None:
    rig = Rig(home.open())
    numbers = [rig.send_express(queue) for queue in (1, 1, 2)]
    kept = rig.send()
    rig.drop(numbers.pop(0))
    rig.keep()
    rig.store.close()
    again = Rig(home.open())
    assert again.recovered.clean
    assert again.recovered.lost_express == {}
    assert picture(again.state) == picture(rig.state)
    assert {n for n, _ in again.state.table.items()} == {*numbers, kept}
    again.check_packets()


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/13")
def test_express_messages_of_a_clean_stop_are_lost_by_a_later_crash(home: Home) -> None:
    rig = Rig(home.open())
    rig.send_express(2)
    kept = rig.send()
    rig.keep()
    rig.store.close()
    Rig(home.open())
    home.crash()
    again = Rig(home.open())
    assert not again.recovered.clean
    assert again.recovered.lost_express == {2: 1}
    assert [n for n, _ in again.state.table.items()] == [kept]
    again.check_packets()


def test_express_messages_are_lost_by_a_crash(home: Home) -> None:
    rig = Rig(home.open())
    express, kept = rig.send_express(), rig.send()
    rig.keep()
    home.crash()
    again = Rig(home.open())
    assert not again.recovered.clean
    assert [n for n, _ in again.state.table.items()] == [kept]
    with pytest.raises(LookupError):
        again.store.read(express)


def test_a_clean_stop_loses_nothing(home: Home) -> None:
    rig = Rig(home.open())
    chance = Random(1)
    for _ in range(3):
        for _ in range(40):
            random_step(rig, chance)
        rig.flush()
        rig.store.close()
        again = Rig(home.open())
        assert again.recovered.clean
        assert picture(again.state) == picture(rig.state)
        again.check_packets()
        rig = again


def test_upkeep_ends_and_changes_nothing(home: Home) -> None:
    rig = Rig(home.open())
    chance = Random(2)
    for _ in range(300):
        random_step(rig, chance)
        rig.keep()
        rig.store.tidy()
    before = picture(rig.state)
    rig.tidy()
    assert not rig.store.tidy()
    assert picture(rig.state) == before
    rig.check_packets()
    rig.store.sync()
    home.crash()
    assert picture(Rig(home.open()).state) == before


def test_messages_and_their_ends_in_one_group(home: Home) -> None:
    rig = Rig(home.open())
    for _ in range(20):
        number = rig.send()
        rig.end(number)
    rig.keep()
    home.crash()
    again = Rig(home.open())
    assert len(again.state.table) == 0
    assert picture(again.state) == picture(rig.state)


def test_positions_only_grow_over_restarts(home: Home) -> None:
    highest = 0
    for _ in range(4):
        rig = Rig(home.open())
        assert rig.store.synced >= highest
        rig.send()
        highest = rig.keep()
        home.crash()


def test_a_large_message_is_kept(home: Home) -> None:
    rig = Rig(home.open(), size=4 << 20)
    number = rig.send()
    rig.keep()
    home.crash()
    again = Rig(home.open())
    assert again.store.read(number) == packet_of(number, 4 << 20)
