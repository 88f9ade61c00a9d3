"""A bit flips in any byte of any file of a store: harmless by design, or reported by its place.

What each kind of file gets:

- segments (`.log`): whoever reads the byte notices. A start that reads it refuses, a start that has
  a checkpoint behind it goes on, and the message it is in is refused when somebody reads it;
- indexes and checkpoints: made again from the log, so a flipped one is passed over;
- the marker of a clean stop and express files: express messages may be lost, and are counted.

Behind the last mark of a store that was killed nothing proves what had been synced: there a flip
looks like a torn write, is cut off, and the cut is told.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from msgspec.structs import replace

from posthouse.engine.ledger.records import FLAG_EXPRESS
from posthouse.sim import SimDisk
from posthouse.store.doctor import check as examine
from posthouse.store.errors import StoreDamaged
from posthouse.store.export import export
from posthouse.store.log import LogStore
from posthouse.store.settings import REFUSE
from tests.conftest import Dose
from tests.store.faults.harness import crashed, play
from tests.store.faults.script import STEPS
from tests.store.faults.witness import Witness
from tests.store.faults.world import World
from tests.support.flipped_bits import (
    SMALL,
    WORKGROUP,
    Store,
    bare,
    little_life,
    proved,
    read,
    refused_properly,
    stopped,
)


def opened(disk: SimDisk) -> LogStore | StoreDamaged:
    """The store, or why it does not open."""
    store = LogStore(disk, replace(SMALL, damage=REFUSE))
    try:
        torn_bytes = store.recover().torn_bytes
    except StoreDamaged as damage:
        return damage
    store.notes.append(f"torn {torn_bytes}")
    return store


def is_cut(store: LogStore) -> bool:
    """Something at the end of the log was taken for a torn write, and told."""
    return "torn 0" not in store.notes


def reads_right(store: LogStore, witness: Witness, name: str, offset: int) -> int:
    """Every message as it was sent, or reported with the place of the flip; how many were."""
    reported = 0
    for number in [n for n, _ in store.state.table.items()]:
        found = read(store, number)
        if isinstance(found, StoreDamaged):
            assert (found.file, found.offset <= offset) == (name, True)
            reported += 1
        else:
            assert found == (witness.packets[number], witness.senders[number]), number
    return reported


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14")
def test_a_bit_flipped_in_any_byte_is_harmless_or_reported(dose: Dose) -> None:
    store, seen = stopped(), Counter[str]()
    for name in store.files:
        every = dose(61, 1)
        if name.endswith((".log", ".idx", ".express")):
            every = dose(7 if name.endswith(".idx") else 3, 1)
        for offset in store.offsets(name, every):
            disk = store.flipped(name, offset, offset % 8)
            before = disk.contents()
            found = opened(disk)
            kind = name.rpartition(".")[2].partition("-")[0]
            if isinstance(found, StoreDamaged):
                refused_properly(found, disk, before)
                assert found.file == name
                assert found.offset <= offset
                assert kind == "log"
                seen["log refused"] += 1
                continue
            assert store.witness.locate(found.state) == store.witness.written
            express = {n for n, row in found.state.table.items() if row.flags & FLAG_EXPRESS}
            assert express in (store.express, set())
            assert express or kind in ("clean", "checkpoint")
            reported = reads_right(found, store.witness, name, offset)
            assert not reported or kind in ("log", "express")
            seen[f"{kind} {'reported' if reported else 'harmless'}"] += 1
    print(dict(seen))
    assert seen["log refused"] > 50
    assert seen["log reported"] > 200
    assert min(seen["idx harmless"], seen["checkpoint harmless"], seen["clean harmless"]) > 15


def test_the_log_alone_reports_every_flipped_bit(dose: Dose) -> None:
    """Without checkpoints and indexes each byte of each segment is read, and each is covered.

    But for the bytes behind the last mark: they are cut off, and that is told.
    """
    store, seen = bare(), Counter[str]()
    for name in store.logs():
        end = proved(store)[name]
        for offset in store.offsets(name, dose(3, 1)):
            for bit in range(offset % 8, 8, dose(8, 1)):
                disk = store.flipped(name, offset, bit)
                before = disk.contents()
                found = opened(disk)
                if isinstance(found, StoreDamaged):
                    refused_properly(found, disk, before)
                    assert (found.file, found.offset <= offset) == (name, True)
                    seen["refused"] += 1
                else:
                    assert offset >= end, f"{name} {offset} {bit} went unnoticed"
                    assert is_cut(found)
                    seen["cut"] += 1
    print(dict(seen))
    assert seen["refused"] > 10 * seen["cut"]


def test_the_doctor_reports_every_flip_and_reads_the_rest(dose: Dose) -> None:
    """with or without a checkpoint, it looks at all of the log and saves every other message."""
    seen = Counter[str]()
    for store in (stopped(), bare()):
        for name in store.logs():
            for offset in store.offsets(name, dose(149, 3)):
                if store is bare() and offset >= proved(store)[name]:
                    break
                disk = store.flipped(name, offset, offset % 8)
                before = disk.contents()
                report = examine(disk)
                assert not report.healthy
                assert name in {problem.file for problem in report.problems}
                assert all(problem.remedy for problem in report.problems)
                seen["saved"] += saved(store, disk, seen)
                assert disk.contents() == before
                seen["flips"] += 1
    print(dict(seen))
    assert seen["lost"] <= seen["flips"]
    assert seen["saved"] > 3 * seen["flips"]


def saved(store: Store, disk: SimDisk, seen: Counter[str]) -> int:
    """Everything that export writes is right, and at most the message that was hit is missing."""
    target = SimDisk()
    exported = export(disk, target)
    files = target.contents()
    lines = [json.loads(line) for line in files["messages.jsonl"].splitlines()]
    assert len(lines) == exported.messages
    for line in lines:
        assert files[line["file"]] == store.witness.packets[line["number"]]
    waiting = set(store.witness.oracle.picture(store.witness.written)["rows"])
    lost = waiting - {line["number"] for line in lines}
    assert len(lost) <= 1
    seen["lost"] += len(lost)
    certain = {line["number"] for line in lines if line["certain"]}
    assert certain <= waiting, "a message that was gone is called certain"
    return exported.messages


def test_a_sound_store_is_healthy_at_every_step() -> None:
    """The doctor raises no false alarm, whatever a crash left."""
    world, count = World(SimDisk()).start(), 0
    for step in STEPS:
        step(world)
        world.tidy(2)
        for label, found in crashed(world.disk, 2):
            report = examine(found)
            assert report.healthy, (step.__name__, label, report.problems)
            count += 1
    print(f"{count} stores examined")


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14")
def test_a_flip_in_a_killed_store_is_reported_or_cut_off_behind_the_last_mark(dose: Dose) -> None:
    """No stop, so nothing vouches for the last group: a flip in it looks like a torn write."""
    world = little_life(World(SimDisk(), engine=WORKGROUP, store=SMALL).start())
    store, seen = Store(world), Counter[str]()
    # The group before the last had been called synced by the last one's mark.
    marked = sorted({turn.records for turn in world.witness.turns})[-2]
    name = max(store.logs())
    for offset in store.offsets(name, dose(3, 1)):
        disk = store.flipped(name, offset, offset % 8)
        before = disk.contents()
        found = opened(disk)
        if isinstance(found, StoreDamaged):
            refused_properly(found, disk, before)
            assert found.file == name
            seen["refused"] += 1
            continue
        witness = store.witness.now()
        witness.answered = marked
        witness.locate(found.state)
        assert is_cut(found)
        assert offset >= proved(store)[name]
        assert reads_right(found, witness, name, offset) == 0
        seen["cut"] += 1
    print(dict(seen))
    assert min(seen["refused"], seen["cut"]) > 15


def test_flips_in_a_larger_store_are_harmless_or_reported(dose: Dose) -> None:
    """Samples of the whole script's files, compactions and all."""
    world = play(World(SimDisk()).start())
    world.stop()
    store, seen = Store(world), Counter[str]()
    for name in store.files:
        for offset in store.offsets(name, dose(2203, 17)):
            disk = store.flipped(name, offset, offset % 8)
            before = disk.contents()
            found = opened(disk)
            if isinstance(found, StoreDamaged):
                refused_properly(found, disk, before)
                assert (found.file, name[-4:]) == (name, ".log")
                seen["refused"] += 1
                continue
            assert store.witness.locate(found.state) == store.witness.written
            seen["reported"] += reads_right(found, store.witness, name, offset)
            tidied(found, store.witness)
            seen["harmless"] += 1
    print(dict(seen))
    assert min(seen.values()) > 0


def tidied(store: LogStore, witness: Witness) -> None:
    """Upkeep on top of damage copies nothing wrong and removes nothing that it cannot copy."""
    for _ in range(200):
        if not store.tidy():
            break
        store.sync()
    assert witness.locate(store.state) == witness.written
    again = opened(SimDisk(files=store.disk.contents()))  # type: ignore[attr-defined]
    if not isinstance(again, StoreDamaged):
        assert witness.locate(again.state) == witness.written
