"""Accepting a loss: the store starts again, and everything good is still there."""

from __future__ import annotations

import json
from itertools import product
from random import Random

import pytest

from posthouse.engine.ledger.records import ACCEPTED, LOST_EXPRESS
from posthouse.security.access import Caller
from posthouse.sim import PowerLost, SimDisk
from posthouse.sim.clock import SimClock
from posthouse.store.doctor import check
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import HEADER_SIZE, SEGMENTS, unpack_segment_header
from posthouse.store.log import LogStore
from posthouse.store.repair import JOURNAL_NAME, Loss, NotPossible, accept_loss
from posthouse.store.salvage import Piece, filler, pieces
from posthouse.store.settings import StoreSettings
from tests.engine.rig import MOVE, RECEIVE, START_UTC
from tests.engine.rig import Rig as EngineRig
from tests.engine.settings import engine_settings
from tests.store.rig import Rig, packet_of, picture

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=3000, checkpoint_ratio=1)
WHEN = "2026-01-01T00:00:00+00:00"


def opened(disk: SimDisk) -> Rig:
    return Rig(LogStore(disk, SETTINGS))


def filled() -> tuple[SimDisk, Rig, list[str]]:
    disk = SimDisk()
    rig = opened(disk)
    for turn in range(50):
        number = rig.send()
        rig.define(b"key%d" % (turn % 3), b"%d" % turn)
        if turn % 5 == 0:
            rig.end(number)
        rig.keep()
        rig.tidy()
    return disk, rig, sorted(name for name in disk.names() if name.endswith(".log"))


def accepted(disk: SimDisk, name: str) -> Loss:
    return accept_loss(disk, int(name[:8]), WHEN, SETTINGS)


def damaged_at(disk: SimDisk, name: str, offset: int, *, bare: bool) -> SimDisk:
    """A store damaged in one place; `bare`: without anything but segments."""
    files = disk.contents()
    if bare:
        files = {name: data for name, data in files.items() if name.endswith(".log")}
    damaged = SimDisk(files=files)
    damaged.flip_bit(name, offset, 3)
    return damaged


def check_balance(rig: Rig) -> None:
    for number, queue in rig.state.queues.items():
        waiting = sum(row.queue == number for _, row in rig.state.table.items() if row.lookup_id)
        assert queue.books[ACCEPTED] == waiting + sum(queue.books[1:ACCEPTED])


@pytest.mark.parametrize("bare", [True, False])
def test_any_damaged_segment_can_be_given_up(bare: bool) -> None:
    disk, rig, names = filled()
    before = {number for number, _ in rig.state.table.items()}
    for name in names:
        for offset in range(0, disk.size(name) - 200, 173):
            damaged = damaged_at(disk, name, offset, bare=bare)
            original = damaged.contents()[name]
            loss = accepted(damaged, name)
            assert loss.store_starts, loss
            assert damaged.contents()[loss.kept_as] == original
            again = opened(damaged)
            again.check_packets()
            check_balance(again)
            missing = before - {number for number, _ in again.state.table.items()}
            assert len(missing) <= 2
            assert check(SimDisk(files=damaged.contents(), read_only=True)).healthy


def test_with_a_good_index_only_packets_are_lost() -> None:
    disk, rig, names = filled()
    store = rig.store
    assert isinstance(store, LogStore)
    segment = store.ledger.segments[int(names[0][:8])]
    assert segment.sealed
    for offset in range(48, disk.size(names[0]), 61):
        damaged = damaged_at(disk, names[0], offset, bare=False)
        loss = accepted(damaged, names[0])
        again = opened(damaged)
        expected = picture(rig.state)
        got = picture(again.state)
        assert got["definitions"] == expected["definitions"]
        assert got["pending"] == expected["pending"]
        rows = expected["rows"]
        assert isinstance(rows, dict)
        assert got["rows"] == {n: row for n, row in rows.items() if n not in loss.messages}
        assert loss.records == len(loss.messages) <= 1


def test_a_missing_segment_can_be_given_up() -> None:
    disk, rig, names = filled()
    for bare in (True, False):
        left = damaged_at(disk, names[0], 0, bare=bare)
        left.unlink(names[0])
        with pytest.raises(StoreDamaged):
            opened(SimDisk(files=left.contents()))
        loss = accepted(left, names[0])
        assert loss.kept_as == ""
        again = opened(left)
        again.check_packets()
        check_balance(again)
        assert len(again.state.table) > len(rig.state.table) // 2


def test_what_was_lost_is_in_the_journal_and_in_the_books() -> None:
    disk, rig, names = filled()
    number = next(n for n, _ in rig.state.table.items())
    offset = disk.contents()[names[0]].index(packet_of(number))
    damaged = damaged_at(disk, names[0], offset, bare=False)
    accepted(damaged, names[0])
    (line,) = [json.loads(line) for line in damaged.contents()[JOURNAL_NAME].splitlines()]
    assert (line["when"], line["segment"], line["messages"]) == (WHEN, names[0], [number])
    assert line["kept_as"] == f"{names[0]}.damaged"
    assert "wrong checksum" in line["reasons"][0]
    again = opened(damaged)
    assert number not in again.state.table
    assert again.state.queues[1].books[LOST_EXPRESS] == 1
    check_balance(again)


def test_two_damaged_segments_are_given_up_one_by_one() -> None:
    disk, _, names = filled()
    damaged = damaged_at(disk, names[0], 2000, bare=True)
    damaged.flip_bit(names[1], 2000, 1)
    first = accepted(damaged, names[0])
    assert not first.store_starts
    assert names[1] in first.still_wrong
    assert accepted(damaged, names[1]).store_starts
    assert len(damaged.contents()[JOURNAL_NAME].splitlines()) == 2
    opened(damaged).check_packets()


def test_a_newest_segment_without_a_beginning_can_be_given_up() -> None:
    disk, rig, names = filled()
    for offset in (3, 20, 60, 90):
        damaged = damaged_at(disk, names[-1], offset, bare=True)
        with pytest.raises(StoreDamaged):
            opened(SimDisk(files=damaged.contents()))
        assert accepted(damaged, names[-1]).store_starts
        again = opened(damaged)
        again.check_packets()
        assert {n for n, _ in again.state.table.items()} == {n for n, _ in rig.state.table.items()}


def test_the_same_segment_can_be_damaged_twice() -> None:
    disk, _, names = filled()
    damaged = damaged_at(disk, names[0], 2000, bare=True)
    accepted(damaged, names[0])
    damaged.flip_bit(names[0], 1000, 1)
    again = SimDisk(files={n: d for n, d in damaged.contents().items() if "checkpoint" not in n})
    loss = accepted(again, names[0])
    assert loss.kept_as == f"{names[0]}.damaged-2"
    assert loss.store_starts


def test_a_healthy_segment_is_not_given_up() -> None:
    disk, _, names = filled()
    before = disk.contents()
    with pytest.raises(NotPossible, match="is not damaged"):
        accepted(disk, names[0])
    with pytest.raises(NotPossible, match="does not belong"):
        accepted(disk, "00000099.log")
    assert disk.contents() == before


def test_a_store_without_any_sound_segment_cannot_go_on() -> None:
    with pytest.raises(NotPossible, match="export"):
        accepted(SimDisk(files={"00000001.log": b"?" * 100}), "00000001.log")


def test_a_crash_while_a_loss_is_accepted_loses_no_more() -> None:
    disk, rig, names = filled()
    lost = next(number for number, _ in rig.state.table.items())
    offset = disk.contents()[names[0]].index(packet_of(lost))
    damaged = damaged_at(disk, names[0], offset, bare=False)
    whole = damaged.clone()
    accepted(whole, names[0])
    operations = whole.calls["any"] - damaged.calls["any"]
    expected = picture(opened(whole).state)
    cut_off = 0
    for number, seed in product(range(1, operations + 1), range(4)):
        attempt = damaged.clone()
        attempt.lose_power_at(number)
        try:
            accepted(attempt, names[0])
        except PowerLost:
            attempt = attempt.crash("random", seed=seed)
            cut_off += 1
            accepted(attempt, names[0])
        assert picture(opened(attempt).state) == expected, (number, seed)
    assert cut_off > 40


def test_fillers_take_exactly_the_place_of_what_was_lost() -> None:
    for size, count in ((24, 1), (100, 1), (100, 4), (1000, 3)):
        lost = filler(Piece(0, 48, 48 + size, 7, count), 99)
        assert len(lost) == size
        found = list(pieces(bytes(48) + lost, 99, 7, 6 + count))
        assert [(piece.bad, piece.sequence) for piece in found] == [
            (0, 7 + place) for place in range(count)
        ]
    assert HEADER_SIZE == 24


# -- the engine on what is left


class Machine(EngineRig):
    """A queue manager on such a store."""

    def __init__(self, disk: SimDisk) -> None:
        self.settings = engine_settings("ALPHA", dns_domain="example.com")
        self.clock = SimClock(utc_seconds=START_UTC)
        self.random = Random(1)
        self.admin = Caller.administrator()
        self.events, self.active, self.deleted = [], set(), []
        self.store = LogStore(disk, SETTINGS)
        self._boot(self.store.recover().state)


def in_doubt() -> SimDisk:
    """A store with a prepared transaction: two sends, a receive and a move."""
    disk = SimDisk()
    machine = Machine(disk)
    for name in ("orders", "bills"):
        machine.create(name, transactional=True)
    filling = machine.begin("filling")
    for body in (b"to be read", b"to be moved", b"to stay"):
        machine.send("orders", body, tx=filling)
    machine.commit(filling)
    tx, source = machine.begin(), machine.open("orders", RECEIVE)
    target = machine.open("orders;parked", MOVE)
    moved = machine.reads("orders")[1].lookup_id
    for body in (b"sent first", b"sent second"):
        machine.send("bills", body, tx=tx)
    machine.receive(source, transaction=tx)
    machine.run(lambda m: m.messages.move_message(source, moved, target, tx))
    machine.run(lambda m: m.transactions.collection.prepare_for(b"coordinator", tx.identifier))
    return disk


def records_of(disk: SimDisk) -> list[tuple[str, int]]:
    """A byte inside of every record, behind the list of segments at the beginning of each file."""
    found = []
    for name in sorted(n for n in disk.names() if n.endswith(".log")):
        data = disk.contents()[name]
        header = unpack_segment_header(data, name, int(name[:8]))
        whole = pieces(data, header.generation, header.first_sequence, None)
        found += [(name, piece.offset + HEADER_SIZE) for piece in whole if piece.kind != SEGMENTS]
    return found


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_what_is_in_doubt_can_be_decided_whatever_was_lost_of_it(end: str) -> None:
    disk, seen = in_doubt(), set[tuple[str, ...]]()
    for name, offset in records_of(disk):
        damaged = damaged_at(disk, name, offset, bare=True)
        assert accepted(damaged, name).store_starts
        machine = Machine(damaged)
        seen.add(tuple(event.name for event in machine.events))
        for tx in machine.manager.transactions.in_doubt():
            getattr(machine, end)(tx)
        assert machine.manager.transactions.in_doubt() == []
        assert machine.manager.ledger.locks == {}
        assert machine.manager.ledger.reserved == 0
        assert not machine.manager.ledger.state.pending
    assert seen == {
        ("transaction_in_doubt",),
        ("transaction_incomplete", "transaction_in_doubt"),
        (),
    }


def test_the_operator_is_told_how_much_of_a_transaction_is_missing() -> None:
    disk = in_doubt()
    logs = [(name, data) for name, data in disk.contents().items() if name.endswith(".log")]
    for body in (b"sent first", b"to be read", b"to be moved"):
        ((name, data),) = [(name, data) for name, data in logs if body in data]
        damaged = damaged_at(disk, name, data.index(body), bare=True)
        accepted(damaged, name)
        machine = Machine(damaged)
        (event,) = [e for e in machine.events if e.name == "transaction_incomplete"]
        assert event.details["operations"] == 1
        (tx,) = machine.manager.transactions.in_doubt()
        assert len(tx.operations) == 3
