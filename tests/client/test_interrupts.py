"""Ctrl-C while the blocking client waits for an answer."""

from __future__ import annotations

import dis
import gc
import inspect
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn

import pytest

import posthouse
from posthouse.client.address import resolve
from posthouse.client.consumer import Consuming
from posthouse.client.core import UNANSWERED_MAX
from posthouse.client.session_socket import SocketLink
from tests.client.serving import Serving

PLACES = "/posthouse/", "threading.py", "socket.py", "selectors.py"
SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
LIMIT_S = 60.0  # for a session that hangs; it closes at once


class Interrupt:
    """Ctrl-C as a function is called that is the given one in number.

    Functions of ours count, and those of Python that they wait in. Others do not: Python 3.11 can
    crash where an exception comes out of a tracer in a generator, or in a callback from C.
    """

    def __init__(self, at: int) -> None:
        self._calls_left = at

    @property
    def came(self) -> bool:
        return self._calls_left <= 0

    def called(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_flags & SUSPENDED or not any(map(code.co_filename.__contains__, PLACES)):
            return
        self._calls_left -= 1
        if self.came:
            sys.settrace(None)
            raise KeyboardInterrupt


@contextmanager
def interrupted(at: int) -> Iterator[Interrupt]:
    interrupt = Interrupt(at)
    before = sys.gettrace()
    gc.disable()  # no finalizer runs, in which Python would ignore Ctrl-C
    sys.settrace(interrupt.called)
    try:
        yield interrupt
    finally:
        sys.settrace(before)
        gc.enable()


def ask_and_close(server: Serving, path: str, interrupted_at: list[int]) -> None:
    """Asks with Ctrl-C in every place there is; after each the session closes."""
    for at in count(1):
        interrupt = None
        try:
            with posthouse.connect(server.home) as manager:
                queue = manager.queue(path)
                with interrupted(at) as interrupt:
                    queue.count()
        except KeyboardInterrupt:
            interrupted_at.append(at)
        if interrupt is None or not interrupt.came:
            return


def test_a_session_that_ctrl_c_cut_off_anywhere_closes(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        manager.create_queue(path)
    assert places_of(ask_and_close, server, path) > 20


def places_of(work: Callable[..., None], *arguments: object) -> int:
    """Runs that in a thread, whose end or mistake is waited for; how many places Ctrl-C came in."""
    places, failures = list[int](), list[BaseException]()

    def run() -> None:
        try:
            work(*arguments, places)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), f"it hangs after Ctrl-C in call {len(places) + 1}"
    for failure in failures:
        raise failure
    return len(places)


LARGE = b"x" * 200_000  # read into a buffer of its own


def receive_and_go_on(server: Serving, path: str, interrupted_at: list[int]) -> None:
    """Receives with Ctrl-C in every place there is; after each the same session goes on."""
    with posthouse.connect(server.home) as manager:
        for at in count(1):
            queue = manager.queue(path)
            queue.send(LARGE)
            try:
                with interrupted(at) as interrupt:
                    assert queue.receive(timeout=5).body == LARGE
            except KeyboardInterrupt:
                interrupted_at.append(at)
            queue.send(LARGE)
            assert queue.receive(timeout=5).body == LARGE
            queue.purge()
            if not interrupt.came:
                return


def test_a_session_goes_on_after_ctrl_c_anywhere(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        manager.create_queue(path)
    assert places_of(receive_and_go_on, server, path) > 50


def send_and_go_on(server: Serving, path: str, interrupted_at: list[int]) -> None:
    """Sends with Ctrl-C in every place there is: that message is there once or not at all.

    As many follow as may be unanswered: an answer that Ctrl-C has lost would hold up the last.
    """
    after = [b"after it"] * (UNANSWERED_MAX + 1)
    with posthouse.connect(server.home) as manager:
        queue = manager.queue(path)
        queue.send(b"opens the queue")
        for at in count(1):
            queue.purge()
            try:
                with interrupted(at) as interrupt:
                    queue.send(b"cut off")
            except KeyboardInterrupt:
                interrupted_at.append(at)
            for body in after:
                queue.send(body)
            bodies = [message.body for message in queue.receive_many(100, timeout=5)]
            assert bodies in ([b"cut off", *after], after)
            if not interrupt.came:
                return


def test_a_session_sends_on_after_ctrl_c_anywhere(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        manager.create_queue(path)
    assert places_of(send_and_go_on, server, path) > 20


def consume_and_go_on(
    server: Serving, path: str, prefetch: bool, interrupted_at: list[int]
) -> None:
    """Consumes with Ctrl-C in every place there is; the same consumer goes on to the end."""
    bodies = [b"%d" % number for number in range(12)]
    with posthouse.connect(server.home) as manager:
        queue = manager.queue(path)
        for at in count(1):
            queue.send_many(bodies, recoverable=True)
            with queue.consume(timeout=0, batch=3, prefetch=prefetch) as consumer:
                taken = [consumer.next() for _ in range(3)]
                try:
                    with interrupted(at) as interrupt:
                        while len(taken) < 7:
                            taken.append(consumer.next())
                        consumer.done()
                except KeyboardInterrupt:
                    interrupted_at.append(at)
                taken += consumer
            seen = set[bytes]()
            for message in filter(None, taken):
                assert message.in_doubt or message.body not in seen, at
                seen.add(message.body)
            assert seen == set(bodies), at
            if not interrupt.came:
                return


@pytest.mark.parametrize("prefetch", [False, True])
def test_a_consumer_goes_on_after_ctrl_c_anywhere(
    server: Serving, path: str, prefetch: bool
) -> None:
    """Nothing is lost, and what comes again is marked."""
    with posthouse.connect(server.home) as manager:
        manager.create_queue(path)
    assert places_of(consume_and_go_on, server, path, prefetch) > 50


def test_a_consumer_goes_on_after_ctrl_c_as_it_hands_out_what_is_at_hand(
    server: Serving, path: str
) -> None:
    """Python looks for signals when a call returns; nothing is asked of the connection there."""
    code = Consuming.at_hand.__code__
    steps = list(dis.get_instructions(code))
    places = [after.offset for one, after in pairwise(steps) if one.opname.startswith("CALL")]
    assert places
    bodies = [b"%d" % number for number in range(9)]
    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path)
        for place in places:
            queue.send_many(bodies)
            with queue.consume(timeout=0, batch=9) as consumer:
                taken = [consumer.next() for _ in range(3)]
                with interrupted_in(code, place), pytest.raises(KeyboardInterrupt):
                    consumer.next()
                taken += consumer
            assert [message and message.body for message in taken] == bodies


@contextmanager
def interrupted_in(code: CodeType, place: int) -> Iterator[None]:
    """Ctrl-C before that instruction of a function."""

    def called(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        return at_opcode if frame.f_code is code else None

    def at_opcode(frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode" and frame.f_lasti == place:
            sys.settrace(None)
            raise KeyboardInterrupt
        return at_opcode

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)


def test_ctrl_c_in_a_wait_keeps_the_connection(server: Serving, path: str) -> None:
    """Nothing is half done then: transactions and locks stay."""
    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path, transactional=True)
        with manager.transaction() as transaction:
            queue.send(b"kept", tx=transaction)
            with patched_poll(manager), pytest.raises(KeyboardInterrupt):
                queue.receive(timeout=5)
        assert queue.receive(timeout=5).body == b"kept"


class InterruptedPoll:
    """A poll that Ctrl-C ends."""

    def poll(self, timeout: float | None) -> NoReturn:
        raise KeyboardInterrupt


@contextmanager
def patched_poll(manager: posthouse.QueueManagerClient) -> Iterator[None]:
    link: Any = manager._channel._link
    poll, link._poll = link._poll, InterruptedPoll()
    yield
    link._poll = poll


class InterruptedCondition(threading.Condition):
    """Ctrl-C in the one place of a wait in which it does not have its lock."""

    def wait(self, timeout: float | None = None) -> NoReturn:
        self._release_save()  # type: ignore[attr-defined]
        raise KeyboardInterrupt


def test_ctrl_c_as_a_wait_for_another_thread_begins_is_told_as_such(
    server: Serving, path: str
) -> None:
    with posthouse.connect(server.home) as manager, ThreadPoolExecutor(1) as threads:
        queue = manager.create_queue(path)
        channel: Any = manager._channel
        waits = threads.submit(queue.receive, timeout=LIMIT_S)
        while not channel._link.idle:
            pass
        changed, channel._changed = channel._changed, InterruptedCondition(channel.core.lock)
        with pytest.raises(KeyboardInterrupt):
            queue.receive(timeout=LIMIT_S)
        channel._changed = changed
        queue.send(b"goes on")
        assert waits.result(LIMIT_S).body == b"goes on"


def test_ctrl_c_as_a_wait_in_this_process_begins_is_told_as_such(tmp_path: Path) -> None:
    with posthouse.open(tmp_path / "home", name="ALPHA") as manager:
        queue = manager.create_queue(r".\private$\orders")
        link: Any = manager._channel._link
        changed = link._changed
        link._changed = InterruptedCondition(changed._lock)
        with pytest.raises(KeyboardInterrupt):
            queue.receive(timeout=LIMIT_S)
        link._changed = changed
        queue.send(b"goes on")
        assert queue.receive(timeout=LIMIT_S).body == b"goes on"


def test_after_a_write_that_ctrl_c_cut_off_nothing_is_written_to_the_connection(
    server: Serving, path: str
) -> None:
    """Else another thread's frame would be taken for the rest of the message that was cut off."""
    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path)
        link: Any = manager._channel._link
        for cut_off in ("_write_begun", "_rest_begun"):
            generation = manager._channel.core.generation
            setattr(link, cut_off, True)
            link._left += [memoryview(b"half of it")] * (cut_off == "_rest_begun")
            queue.send(cut_off.encode())
            assert manager._channel.core.generation == generation + 1
        bodies = [message.body for message in queue.receive_many(2, timeout=5)]
        assert bodies == [b"_write_begun", b"_rest_begun"]


class ReaderFirst:
    """A lock that the thread that reads gets first each time, and writes what is left."""

    def __init__(self, link: Any) -> None:
        self._link, self._lock = link, link._lock

    def __enter__(self) -> None:
        with self._lock:
            self._link._write_rest(self._link._socket)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_write_that_waits_for_the_thread_that_reads_is_not_one_that_was_cut_off(
    tmp_path: Path,
) -> None:
    near, far = socket.socketpair()
    with near, far:
        link: Any = SocketLink(resolve(tmp_path, None, None, None))
        link._socket = near
        link._left.append(memoryview(b"the rest of one frame, "))
        link._lock = ReaderFirst(link)
        link.write([b"the next frame"])
        assert far.recv(100) == b"the rest of one frame, the next frame"
        link.close()


def test_other_threads_go_on_after_ctrl_c(server: Serving, path: str) -> None:
    """The lock is free again, and the thread that reads notices that the connection was ended."""
    with posthouse.connect(server.home) as manager, ThreadPoolExecutor(2) as threads:
        queue = manager.create_queue(path)
        for at in count(1):
            waits = threads.submit(queue.receive, timeout=LIMIT_S)
            with suppress(KeyboardInterrupt), interrupted(at) as interrupt:
                queue.count()
            threads.submit(queue.send, b"goes on").result(LIMIT_S)
            assert waits.result(LIMIT_S).body == b"goes on"
            if not interrupt.came:
                return
