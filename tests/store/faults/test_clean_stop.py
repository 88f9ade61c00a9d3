"""A clean stop keeps the express messages exactly as they were; a crash only counts them."""

from __future__ import annotations

from collections import Counter

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.records import DROP, RECEIVED
from posthouse.model.properties import QueueAccessType
from posthouse.sim import SimDisk
from posthouse.store.log import LogStore
from tests.engine.rig import MOVE, RECEIVE
from tests.store.faults.harness import check, crashed
from tests.store.faults.witness import view
from tests.store.faults.world import STORE, World


def quiet_world() -> World:
    """Two queues, an express message, and a checkpoint behind all of it."""
    world = World(SimDisk()).start()
    world.create("express")
    world.create("other")
    world.send("express", b"first", recoverable=False)
    while not any(name.startswith("checkpoint-") for name in world.disk.names()):
        world.send("other", b"o" * 900)
        world.tidy()
    assert world.store.appended == max(checkpoint_positions(world.disk))
    return world


def checkpoint_positions(disk: SimDisk) -> list[int]:
    names = [name for name in disk.names() if name.startswith("checkpoint-")]
    return [int(name.removeprefix("checkpoint-"), 16) for name in names]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/13", "MS-MQDMPR 3.1.4.2/1")
def test_express_messages_sent_behind_the_last_checkpoint_are_kept() -> None:
    world = quiet_world()
    world.send("express", b"second", recoverable=False)
    world.restart()
    assert world.bodies("express") == [b"first", b"second"]


def test_express_message_received_behind_the_last_checkpoint_stays_gone() -> None:
    world = quiet_world()
    assert world.receive("express").message.body == b"first"
    world.restart()
    assert world.bodies("express") == []
    world.check_books()


def test_express_message_moved_behind_the_last_checkpoint_stays_moved() -> None:
    world = quiet_world()
    source, target = world.open("express", RECEIVE), world.open("express;later", MOVE)
    world.tidy()
    read = world.peek(source).read
    world.run(lambda m: m.messages.move_message(source, read.lookup_id, target))
    world.restart()
    assert world.bodies("express;later") == [b"first"]
    assert world.bodies("express") == []


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/13", "MS-MQDMPR 3.1.1.12/14")
def test_power_loss_at_every_operation_of_a_clean_stop() -> None:
    """Express messages are all there as they were, or none is and they are counted."""
    world = quiet_world()
    world.send("express", b"second", recoverable=False)
    express = view(world.manager, express=True)
    seen, disk = Counter[str](), world.disk

    def operated(operation: object) -> None:
        for label, found in crashed(disk.clone(), 3):
            after = check(found, world.witness.now(), f"{operation}, {label}")
            if after.recovered.clean:
                assert view(after.manager, express=True) == express
            else:
                assert not any(view(after.manager, express=True).values())
                lost = sum(after.recovered.lost_express.values())
                assert lost in (0, 1, 2)
            seen["clean" if after.recovered.clean else "not clean"] += 1

    disk.on_operation = operated
    world.stop()
    print(dict(seen))
    assert min(seen["clean"], seen["not clean"]) >= 3


def test_a_marker_of_a_clean_stop_vouches_for_one_start_only() -> None:
    """What was received since does not come back with the crash behind it."""
    world = quiet_world()
    world.restart()
    world.receive("express")
    world.send("express", b"new", recoverable=False)
    for label, found in crashed(world.disk, 3):
        after = check(found, world.witness, label)
        assert not after.recovered.clean
        assert after.bodies("express") == []
        after.check_books()


def test_a_marker_is_gone_before_anything_is_answered() -> None:
    """Express messages move no position, so a marker that came back would still seem to fit."""
    world = quiet_world()
    (number,) = [read.number for read in world.reads("express")]
    world.stop()
    store = LogStore(world.disk, STORE)
    state = store.recover().state
    state.end(number, RECEIVED)
    store.append([(DROP, number, b"", b"")])
    for label, found in crashed(world.disk, 5):
        again = LogStore(found, STORE).recover()
        assert not again.clean, label
        assert number not in again.state.table


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/13")
def test_lost_express_messages_are_counted_in_the_books() -> None:
    """An estimate: those that the last checkpoint knew of."""
    world = quiet_world()
    after = check(world.disk.crash(), world.witness)
    queue = after.queue("express")
    assert after.recovered.lost_express == {queue.number: 1}
    assert books_of(queue).lost_express == 1
    assert books_of(queue).balanced
    twice = check(after.disk.crash(), after.witness)
    assert sum(twice.recovered.lost_express.values()) <= 1


def test_an_express_message_is_seen_by_readers_at_once_and_never_twice() -> None:
    world = quiet_world()
    source = world.open("express", QueueAccessType.RECEIVE)
    world.send("express", b"second", recoverable=False)
    bodies = [world.receive(source).message.body for _ in range(2)]
    assert bodies == [b"first", b"second"]
    world.tidy()
    world.close(source)
    world.restart()
    assert world.bodies("express") == []
