"""Packets that were written a short while ago are not read from their file."""

from __future__ import annotations

import pytest

from posthouse.sim import SimDisk
from posthouse.store import recent_packets
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, packet_of, sender_of

SETTINGS = StoreSettings(store_id=b"0123456789abcdef")
SIZE = 200
GROUP = recent_packets.GROUP_MIN


def written(groups: int, count: int = GROUP) -> tuple[Rig, list[list[int]]]:
    """A store, and the numbers of its messages, group by group."""
    rig, numbers = Rig(LogStore(SimDisk(), SETTINGS), size=SIZE), []
    for _ in range(groups):
        numbers.append([rig.send() for _ in range(count)])
        rig.keep()
    return rig, numbers


def parts(numbers: list[int]) -> list[tuple[bytes, bytes]]:
    return [(sender_of(number), packet_of(number, SIZE)) for number in numbers]


def without_files(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a file is read")

    monkeypatch.setattr("posthouse.store.log.packets_of", refuse)


def test_what_was_just_written_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, (first, second, third) = written(3)
    without_files(rig, monkeypatch)
    everything = first + second + third
    for numbers in (first, third, everything, everything[5:-5], everything[::3], second[::-1]):
        assert rig.store.read_many(numbers) == parts(numbers)


def test_express_messages_between_them_do_not_matter() -> None:
    rig = Rig(LogStore(SimDisk(), SETTINGS), size=SIZE)
    numbers = [rig.send_express() if at % 4 == 1 else rig.send() for at in range(3 * GROUP)]
    rig.keep()
    assert rig.store.read_many(numbers) == parts(numbers)
    assert rig.store.read_many(numbers[::-1]) == parts(numbers[::-1])


def test_what_is_not_there_is_read_from_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_packets, "BYTES_MAX", 2 * GROUP * (SIZE + recent_packets._OVERHEAD))
    rig, groups = written(5)
    everything = [number for group in groups for number in group]
    assert rig.store.read_many(everything) == parts(everything)
    without_files(rig, monkeypatch)
    assert rig.store.read_many(groups[3] + groups[4]) == parts(groups[3] + groups[4])
    for older in (groups[2], groups[2] + groups[3]):
        with pytest.raises(AssertionError, match="a file is read"):
            rig.store.read_many(older)


def test_small_groups_and_a_group_that_is_too_much_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, (few,) = written(1, GROUP - 1)
    assert rig.store.read_many(few) == parts(few)
    monkeypatch.setattr(recent_packets, "BYTES_MAX", GROUP * (SIZE + recent_packets._OVERHEAD))
    large = [rig.send() for _ in range(GROUP + 1)]
    rig.keep()
    assert rig.store.read_many(large) == parts(large)
    without_files(rig, monkeypatch)
    for numbers in (few, large):
        with pytest.raises(AssertionError, match="a file is read"):
            rig.store.read_many(numbers)
