"""Exports: every good message comes out, however bad the rest is."""

from __future__ import annotations

import json

from posthouse.sim import SimDisk
from posthouse.store.export import DEFINITIONS_NAME, MESSAGES_NAME, export
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, packet_of

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=3000, checkpoint_ratio=1)


def filled() -> tuple[SimDisk, Rig]:
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    for turn in range(60):
        number = rig.send()
        rig.define(b"key", b"%d" % turn)
        if turn % 2:
            rig.end(number)
        rig.keep()
        rig.tidy()
    return disk, rig


def exported(files: dict[str, bytes]) -> tuple[dict[int, bytes], SimDisk, int]:
    target = SimDisk()
    result = export(SimDisk(files=files, read_only=True), target)
    lines = [json.loads(line) for line in target.contents()[MESSAGES_NAME].splitlines()]
    assert result.messages == len(lines)
    assert sum(not line["certain"] for line in lines) == result.uncertain
    packets = {line["number"]: target.contents()[line["file"]] for line in lines}
    return packets, target, result.unreadable_records


def test_every_message_of_a_healthy_store_is_exported() -> None:
    disk, rig = filled()
    packets, target, unreadable = exported(disk.contents())
    assert packets == {number: packet_of(number) for number, _ in rig.state.table.items()}
    assert unreadable == 0
    (definition,) = target.contents()[DEFINITIONS_NAME].splitlines()
    assert json.loads(definition)["table"] == 3
    assert target.pending() == []


def test_damage_costs_the_damaged_messages_only() -> None:
    disk, rig = filled()
    whole = {number: packet_of(number) for number, _ in rig.state.table.items()}
    name = sorted(name for name in disk.names() if name.endswith(".log"))[0]
    files = disk.contents()
    files[name] = files[name][:1000] + b"?" * 40 + files[name][1040:]
    packets, _, unreadable = exported(files)
    assert 1 <= unreadable <= 3
    assert len(set(whole) - set(packets)) <= 3
    assert all(packets[number] == packet_of(number) for number in packets)


def test_a_missing_segment_costs_its_messages_only() -> None:
    disk, rig = filled()
    name = sorted(name for name in disk.names() if name.endswith(".log"))[0]
    files = disk.contents()
    del files[name]
    packets, _, _ = exported(files)
    assert len(packets) > len(rig.state.table) // 2


def test_a_store_whose_every_header_is_gone_gives_what_it_can() -> None:
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    rig.send()
    rig.keep()
    files = {"00000001.log": b"?" * 48 + disk.contents()["00000001.log"][48:]}
    packets, _, unreadable = exported(files)
    assert packets == {}
    assert unreadable == 1
