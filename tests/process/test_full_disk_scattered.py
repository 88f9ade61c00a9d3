"""A full disk with survivors scattered over all segments stays usable, whatever is received."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import posthouse
from posthouse.model.errors import InsufficientResources
from tests.process.offices import wait_until
from tests.process.serving import Serving
from tests.support.process.small_disk import disk as disk

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


def fill(file: Path) -> None:
    """Somebody else takes what is left of the disk."""
    with file.open("wb", buffering=0) as filler:
        for size in (1 << 16, 1):
            with suppress(OSError):
                while True:
                    filler.write(bytes(size))


@pytest.mark.peer("tmpfs")
def test_without_a_reserve_a_full_disk_still_starts_and_can_be_emptied(
    disk: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home, folder = disk / "home", tmp_path_factory.mktemp("beside")
    home.mkdir()
    (home / "posthouse.toml").write_text("[store]\ndisk_reserve = 0\n")
    words = "--name", "ALPHA", "--home", str(home)
    with Serving(folder, *words) as serving:
        serving.ready()
        with posthouse.connect(str(home)) as qm:
            acknowledged = filled(qm.create_queue(r".\private$\orders"))
        serving.stop(signal.SIGKILL)
    fill(disk / "filler")
    with Serving(folder, *words) as serving:
        serving.ready()
        with posthouse.connect(str(home)) as qm:
            queue = qm.queue(r".\private$\orders")
            assert queue.count() == acknowledged
            assert not fits(queue)
            for _ in range(acknowledged // 2):
                queue.receive(timeout=0)
            (disk / "filler").unlink()
            wait_until(lambda: fits(queue), lambda: "no room for a message")
