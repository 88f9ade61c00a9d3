"""A full disk with survivors scattered over all segments stays usable, whatever is received."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import posthouse
from posthouse.model.errors import InsufficientResources
from posthouse.store.errors import StoreFailed
from tests.process.offices import wait_until
from tests.process.test_full_disk_pipeline import disk as disk

BODY = 300_000
SENDS_MAX = 1_000  # far more than fit
URGENT, USUAL = 6, 1


def fits(queue: posthouse.Queue, priority: int = USUAL) -> bool:
    try:
        queue.send(bytes(BODY), priority=priority, recoverable=True)
    except InsufficientResources:
        return False
    return True


def filled(queue: posthouse.Queue) -> int:
    """How many messages were taken; two of three are urgent, so no segment dies as a whole."""
    for number in range(SENDS_MAX):
        if not fits(queue, URGENT if number % 3 else USUAL):
            return number
    raise AssertionError("the disk took everything")


def receive_urgent(queue: posthouse.Queue) -> int:
    received = 0
    while (message := queue.peek(timeout=0)).priority == URGENT:
        assert queue.receive(timeout=0).id == message.id
        received += 1
    return received


def receive_anywhere(queue: posthouse.Queue) -> int:
    """Two in five, wherever they lie: each segment stays more than half alive."""
    ids = [message.lookup_id for message in queue.browse()]
    chosen = random.Random(12).sample(ids, 2 * len(ids) // 5)
    for lookup_id in chosen:
        queue.lookup(lookup_id, receive=True)
    return len(chosen)


@pytest.mark.peer("tmpfs")
@pytest.mark.parametrize("receive", [receive_urgent, receive_anywhere])
def test_what_was_received_makes_room_again(
    disk: Path, receive: Callable[[posthouse.Queue], int]
) -> None:
    """With default settings; it used to end with `No space left on device`, or to take nothing."""
    with posthouse.open(disk / "home", name="ALPHA") as qm:
        queue = qm.create_queue(r".\private$\orders")
        taken = filled(queue)
        received = receive(queue)
        assert received > taken // 4
        wait_until(lambda: fits(queue), lambda: "no room for a message")
        more = 1 + sum(fits(queue) for _ in range(received // 2))
        assert more > received // 4
        there = taken - received + more
        assert queue.count() == there
    with posthouse.open(disk / "home") as qm:
        assert qm.queue(r".\private$\orders").count() == there
        assert qm.books().balanced


@pytest.mark.peer("tmpfs")
def test_without_a_reserve_a_full_disk_still_starts_and_can_be_emptied(disk: Path) -> None:
    home = disk / "home"
    home.mkdir()
    (home / "posthouse.toml").write_text("[store]\ndisk_reserve = 0\n")
    acknowledged = 0
    with suppress(StoreFailed, posthouse.QueueError), posthouse.open(home, name="ALPHA") as qm:
        queue = qm.create_queue(r".\private$\orders")
        for _ in range(SENDS_MAX):
            queue.send(bytes(BODY), recoverable=True)
            acknowledged += 1
    assert 0 < acknowledged < SENDS_MAX
    with posthouse.open(home) as qm:
        queue = qm.queue(r".\private$\orders")
        assert queue.count() in (acknowledged, acknowledged + 1)
        for _ in range(acknowledged // 2):
            queue.receive(timeout=0)
        wait_until(lambda: fits(queue), lambda: "no room for a message")
