"""Freed memory stays for the next buffers; much of it goes back to the system, now and then."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from posthouse.runtime.limits import (
    LOOSE_BYTES,
    MESSAGE_BYTES,
    RELEASE_EVERY_S,
    RELEASED_BYTES,
    MemoryRelease,
)

MANY = RELEASED_BYTES // MESSAGE_BYTES + 1


class Rig:
    """A clock, timers, and how often memory was given back."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.released = 0
        self.loose = 0
        self.release = MemoryRelease(
            self._later, lambda: self.now_s, self._released, lambda: self.loose
        )

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now_s + seconds, call))

    def _released(self) -> None:
        self.released += 1

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now_s]
        self.timers = [timer for timer in self.timers if timer not in due]
        for _, call in due:
            call()


def test_memory_is_given_back_when_many_messages_have_left() -> None:
    rig = Rig()
    for waiting in (0, 2 * MANY, 2 * MANY - 1, MANY + 1):
        rig.release.note_messages(waiting)
        rig.pass_time(0.0)
    assert rig.released == 0
    rig.release.note_messages(MANY)
    rig.pass_time(0.0)
    assert rig.released == 1
    rig.release.note_messages(MANY - 1)  # counted from there on
    rig.pass_time(RELEASE_EVERY_S)
    assert rig.released == 1


def test_memory_is_given_back_at_most_once_a_minute_and_then_although_nothing_happens() -> None:
    rig = Rig()
    for waiting in (3 * MANY, 2 * MANY, MANY, 0):
        rig.release.note_messages(waiting)
        rig.pass_time(0.0)
    assert rig.released == 1
    rig.pass_time(RELEASE_EVERY_S - 1)
    assert rig.released == 1
    rig.pass_time(1)
    assert rig.released == 2
    rig.pass_time(10 * RELEASE_EVERY_S)
    assert (rig.released, rig.timers) == (2, [])


def test_messages_that_come_and_go_give_nothing_back() -> None:
    rig = Rig()
    for _ in range(50):
        for waiting in (MANY // 2, 0):
            rig.release.note_messages(waiting)
            rig.pass_time(10.0)
    assert (rig.released, rig.timers) == (0, [])


def test_memory_is_given_back_when_large_buffers_are_gone() -> None:
    rig = Rig()
    rig.release.note_buffers(RELEASED_BYTES - 1)
    assert not rig.release.loaded
    rig.release.note_buffers(RELEASED_BYTES)
    rig.release.note_buffers(RELEASED_BYTES)
    assert (rig.release.loaded, rig.released) == (True, 0)
    rig.release.note_buffers(0)
    assert (rig.release.loaded, rig.released) == (False, 1)
    rig.release.note_buffers(RELEASED_BYTES)
    rig.release.note_buffers(0)
    assert (rig.release.loaded, rig.released) == (True, 1)
    rig.pass_time(RELEASE_EVERY_S)
    rig.release.note_buffers(0)
    assert (rig.release.loaded, rig.released) == (False, 2)


def test_memory_is_given_back_when_much_of_it_is_loose_whatever_had_it() -> None:
    rig = Rig()
    rig.loose = LOOSE_BYTES
    rig.release.look()
    assert rig.released == 1
    rig.loose += LOOSE_BYTES - 1
    rig.pass_time(RELEASE_EVERY_S)
    rig.release.look()
    assert rig.released == 1
    rig.loose += 1
    rig.pass_time(RELEASE_EVERY_S - 1)  # since it was looked at
    rig.release.look()
    assert rig.released == 1
    rig.pass_time(1)
    rig.release.look()
    assert rig.released == 2
    rig.pass_time(RELEASE_EVERY_S)
    rig.release.note_buffers(RELEASED_BYTES)
    rig.release.note_buffers(0)
    assert rig.released == 3
    rig.loose += LOOSE_BYTES
    rig.pass_time(RELEASE_EVERY_S - 1)  # since memory was given back
    rig.release.look()
    assert rig.released == 3


def test_what_was_freed_is_loose_until_it_is_given_back() -> None:
    code = (
        "from posthouse.runtime.limits import keep_memory, loose_bytes\n"
        "from posthouse.store.memory import release_memory\n"
        "keep_memory()\n"
        "def mib(): return loose_bytes() - begun >> 20\n"
        "begun = loose_bytes()\n"
        "held = [bytes(60_000) + b'x' for _ in range(1_000)]; print(mib())\n"
        "del held[:-1]; print(mib())\n"
        "release_memory(); print(mib())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    held, freed, given_back = map(int, done.stdout.split())
    assert held < 5
    assert 50 < freed < 65
    assert given_back < 5


def test_freed_buffers_stay_with_the_process() -> None:
    code = (
        "import resource, sys\n"
        "from posthouse.runtime.limits import keep_memory\n"
        "if sys.argv[1] == 'kept': keep_memory()\n"
        "for _ in range(3): buffers = [bytes(1 << 20) + b'x' for _ in range(8)]; del buffers\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(20): buffers = [bytes(1 << 20) + b'x' for _ in range(8)]; del buffers\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
    )
    faults = {
        how: int(subprocess.run([sys.executable, "-c", code, how], capture_output=True).stdout)
        for how in ("kept", "usual")
    }
    assert faults["kept"] <= faults["usual"]
    assert faults["kept"] < 20 * 8 * 256  # not every page of every buffer


def test_arrow_takes_its_buffers_from_the_same_heap() -> None:
    code = (
        "from posthouse.runtime.limits import keep_memory\n"
        "keep_memory()\n"
        "import pyarrow\n"
        "print(pyarrow.default_memory_pool().backend_name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "system\n"
