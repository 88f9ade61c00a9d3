"""The blocking session: threads around the core.

Any number of threads may use one session. There is no background thread: a thread that waits for an
answer reads for all of them. Each thread writes its own frames; what the connection does not take
at once is left to the reader.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import Any, Final, TypeVar

from posthouse.client.abandoned import close_abandoned
from posthouse.client.connection_log import log_attempt, log_given_up, log_lost, log_restored
from posthouse.client.core import SessionCore
from posthouse.client.errors import ServerUnreachable, SessionEnded
from posthouse.client.operations import Operation
from posthouse.client.process_ownership import of_the_parent, watch
from posthouse.client.requests import EndRequest, QueueHandle, Request, TransactionHandle
from posthouse.client.session_socket import ClientLink
from posthouse.client.session_upgrade import (
    as_connection_error,
    lost_connection,
    out_of_reach,
    worth_retrying,
)
from posthouse.model.errors import QueueError, RemoteProtocolError

T = TypeVar("T")

RETRY_FIRST_S: Final = 0.02
RETRY_MAX_S: Final = 1.0
LOOK_S: Final = 0.02  # between two looks for what has waited long enough
FRUITLESS_MAX: Final = 5  # connections in a row that broke before any answer came


class SharedCore(SessionCore):
    """The core for several threads: one at a time."""

    def __init__(self, session: bytes, client: str) -> None:
        super().__init__(session, client, time.monotonic)
        self.lock = threading.RLock()

    def submit(self, request: Request) -> None:
        """Submit a request while no other thread uses the core."""
        with self.lock:
            self.take_in(request)

    def inherit(self, session: bytes) -> None:
        """Begin again with a lock that no thread of the parent holds."""
        self.lock = threading.RLock()
        super().inherit(session)

    def end(self, handle: QueueHandle, lookup_ids: list[int], locked_in: int) -> EndRequest:
        """End messages while no other thread uses the core."""
        with self.lock:
            return super().end(handle, lookup_ids, locked_in)

    def abandon(self, request: Request) -> None:
        """Give a request up while no other thread uses the core."""
        with self.lock:
            super().abandon(request)

    def close_handle(self, handle: QueueHandle) -> Request | None:
        """Close a handle while no other thread uses the core."""
        with self.lock:
            return super().close_handle(handle)


class Channel:
    """Runs operations over a link."""

    def __init__(
        self, link: ClientLink, session: bytes, client: str, timeout: float, reconnect: float
    ) -> None:
        self.core = core = SharedCore(session, client)
        self._link = link
        self._timeout = timeout
        self._reconnect = reconnect
        self._changed = threading.Condition(core.lock)
        self._reader = 0  # the thread that reads
        self._idle: set[int] = set()  # threads that wait for the one that reads
        self._connected = False
        self._closed = False
        self._forked = False  # this is a child of the process that opened it, and not connected
        self._may_connect = True
        self._child = threading.Lock()  # of the threads of a child: one of them connects
        self._fruitless = 0
        self._failed = False  # an attempt at another connection
        self._outage_ends: float | None = None  # until when attempts are made
        self._reason: Exception = _closed()  # why the last connection broke
        watch(self)
        try:
            self._connect(timeout)
        except BaseException:
            link.close()
            raise

    # -- operations

    def run(self, operation: Operation[T]) -> T:
        """Drives an operation to its end. What it does by itself needs no lock of ours."""
        if self._forked:
            self._begin_in_child()
        try:
            try:
                while True:
                    self._exchange(next(operation))
            except StopIteration as end:
                value: T = end.value
                return value
            finally:
                if self.core.outgoing or self.core.ends:
                    self._flush()  # frames of the last step that no caller waits for
        except BaseException as error:
            if not isinstance(error, Exception):
                self._interrupted()
            raise

    def ask(self, request: Request) -> Any:
        """One request and its answer, as an operation of one step: `operations.ask`."""
        if self._forked:
            self._begin_in_child()
        try:
            self._exchange(request, new=True)
        except BaseException as error:
            if not isinstance(error, Exception):
                self._interrupted()
            raise
        if request.error is not None:
            raise request.error
        return request.answer

    def _exchange(self, request: Request | None, *, new: bool = False) -> None:
        """Writes what is to be written, and waits for the answer to a request."""
        core = self.core
        try:
            if core.begins or (request is not None and not request.repeatable):
                self._look()
            thread = get_ident()
            with core.lock:
                if new and request is not None:
                    core.take_in(request)
                if self._connected and (outgoing := core.take_outgoing()):
                    self._write(outgoing)
                if request is None or request.done:
                    return
                mine = self._connected and self._reader in (0, thread)
                if mine:
                    self._reader = thread
            if not mine or not self._read_answer(request):
                self._wait(request)
        except BaseException:
            self._stop_reading()
            if request is not None:
                core.abandon(request)
            self._flush()
            raise

    def _read_answer(self, request: Request) -> bool:
        """Reads once, as the thread that reads. False: there is more to wait for."""
        core = self.core
        try:
            data = self._link.read(None, core.room())
            with core.lock:
                if data:
                    core.receive(data)
                    if (core.outgoing or core.ends) and self._connected:
                        self._write(core.take_outgoing())
                self._reader = 0
                if self._idle or self._closed:
                    self._changed.notify_all()
        except (OSError, RemoteProtocolError, QueueError) as error:
            self._lost(error)
            self._stop_reading()
        return request.done

    def _interrupted(self) -> None:
        """Ctrl-C. Unless the thread only waited, something is half done: bytes that were read and
        not taken in, or a queue that was to be opened. Another connection begins without it.
        """
        thread = get_ident()
        if self._link.idle == thread:
            self._link.idle = 0
        elif thread in self._idle:
            self._idle.discard(thread)
        else:
            self._lost(SessionEnded("the call was interrupted"))

    def abandon(self, close: Callable[[], Operation[None]]) -> None:
        """Close a consumer that the program has dropped."""
        if not self._forked and not self._closed:
            close_abandoned(lambda: self.run(close()))

    def begin_transaction(self) -> TransactionHandle:
        """A new transaction: its beginning leaves with the first thing that is done in it."""
        if self._forked:
            self._begin_in_child()
        with self.core.lock:
            return self.core.begin_transaction()

    def _flush(self) -> None:
        with self.core.lock:
            if self._connected and (outgoing := self.core.take_outgoing()):
                self._write(outgoing)

    def _write(self, outgoing: list[bytes]) -> None:
        """Only with the lock of the core: one thread at a time writes."""
        try:
            self._link.write(outgoing)
        except OSError as error:
            self._lost(error)

    def _look(self) -> None:
        """Reads what has come: the session reads only while a thread waits, and may have ended
        unnoticed.

        Then requests that cannot be repeated go to a new connection, instead of getting lost.
        """
        try:
            with self.core.lock:
                if self._others_are_reading() or not self._connected:
                    return
                self._reader = get_ident()
            while data := self._link.look():
                with self.core.lock:
                    self.core.receive(data)
        except (OSError, RemoteProtocolError, QueueError) as error:
            self._lost(error)
        finally:
            self._stop_reading()

    def _stop_reading(self) -> None:
        with self.core.lock:
            if not self._others_are_reading():
                self._reader = 0
                self._changed.notify_all()

    def _others_are_reading(self) -> bool:
        """A thread that calls is not reading, even if Ctrl-C cut off the end of its last read."""
        return self._reader not in (0, get_ident())

    def _wait(self, request: Request) -> None:
        while not self._others_read(request):
            self._read_once(request)

    def _others_read(self, request: Request) -> bool:
        """Waits while another thread reads. False: it is this one's turn."""
        with self.core.lock:
            while self._others_are_reading() and not request.done:
                self._idle.add(get_ident())
                wait_on(self._changed, self._patience(request.deadline))
                self._idle.discard(get_ident())
                if not self._connected:
                    self._give_up_overdue()
            if not request.done:
                self._reader = get_ident()
            return request.done

    def _patience(self, deadline: float | None) -> float | None:
        """How long to wait for others; with a connection its end is the queue manager's."""
        if self._connected or deadline is None:
            return None
        return max(deadline - time.monotonic(), LOOK_S)

    def _give_up_overdue(self) -> float:
        """What has waited long enough ends, once an attempt has failed; seconds to the next."""
        with self.core.lock:
            now = time.monotonic()
            tried = now if self._failed else now - RETRY_MAX_S
            soonest = self.core.give_up(tried, out_of_reach(self._reason))
            if not self.core.busy:
                self._outage_ends = None
            return math.inf if soonest is None else max(soonest - now, LOOK_S)

    def _read_once(self, request: Request) -> None:
        if self._closed:
            with self.core.lock:
                self.core.fail(_closed())
        elif not self._connected:
            self._connect_again(request)
        else:
            self._read_answer(request)
            return
        self._stop_reading()

    # -- the connection

    def _connect(self, timeout: float) -> None:
        """Until the session is welcomed; raises what is in the way."""
        deadline = time.monotonic() + timeout
        core = self.core
        data: bytes | memoryview = self._link.open(timeout)
        try:
            with core.lock:
                core.begin()
                self._link.write(core.take_outgoing())
            while not self._welcomed(data):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ServerUnreachable("the queue manager did not answer in time")
                data = self._link.read(left)
        except BaseException as error:
            with core.lock:
                core.lost()
            self._link.disconnect()
            if isinstance(error, RemoteProtocolError | OSError):
                raise as_connection_error(error) from None
            raise

    def _welcomed(self, data: bytes | memoryview) -> bool:
        core = self.core
        with core.lock:
            core.receive(data)
            if core.open:
                self._connected = True
                self._flush()
            return core.open

    def _connect_again(self, request: Request) -> None:
        """Tries until the time for it is over; then everything that waits ends."""
        pause, manager = RETRY_FIRST_S, self.core.computer
        if self._outage_ends is None:
            self._outage_ends = time.monotonic() + self._reconnect
            self._failed = False
            if not self._closed:
                log_lost(manager, self._reason, self._reconnect)
        while not self._closed and self._fruitless < FRUITLESS_MAX:
            if (left := self._outage_left()) <= 0:
                break
            try:
                soonest = self._give_up_overdue()
                self._connect(max(RETRY_MAX_S, min(self._timeout, left, soonest)))
                log_restored(manager, self._reconnect - self._outage_left())
                self._outage_ends = None
                return
            except (OSError, QueueError) as error:
                self._reason, self._failed = error, True
                log_attempt(manager, error)
                if not worth_retrying(error):
                    break
            soonest = self._give_up_overdue()
            if request.done:
                return  # another waiting thread goes on
            time.sleep(min(spread(pause), soonest, self._outage_left()))
            pause = min(2 * pause, RETRY_MAX_S)
        if not self._closed:
            log_given_up(manager, self._reason)
        with self.core.lock:
            self._fruitless, self._outage_ends = 0, None
            self.core.fail(self._reason)

    def _outage_left(self) -> float:
        ends = self._outage_ends
        return self._reconnect if ends is None else max(0.0, ends - time.monotonic())

    def _lost(self, error: Exception) -> None:
        with self.core.lock:
            if self._connected:
                self._connected = False
                self._fruitless = 0 if self.core.answers else self._fruitless + 1
                self._reason = lost_connection(error)
                self.core.lost()
                self._link.disconnect()
                self._link.wake()  # who reads: the system does not report what we closed

    def close(self) -> None:
        """Ends the session; who waits gets an error."""
        if self._forked:
            return
        with self.core.lock:
            if self._closed:
                return
            self._closed = True
            self._connected = False
            self.core.fail(_closed())
            self._link.wake()
            while self._others_are_reading():
                wait_on(self._changed, None)
            self._link.close()

    def forked(self) -> None:
        """Begin again in a child; locks may be held by threads that it does not have."""
        self._forked = True
        self._may_connect = self._link.forked()
        self.core.inherit(os.urandom(16))
        self._changed = threading.Condition(self.core.lock)
        self._child = threading.Lock()
        self._reader, self._idle = 0, set()
        self._connected, self._fruitless, self._outage_ends = False, 0, None

    def _begin_in_child(self) -> None:
        """Connect for the first call of a child."""
        with self._child:
            if self._forked:
                if not self._may_connect:
                    raise of_the_parent()
                if not self._closed:
                    self._connect(self._timeout)
                self._forked = False


def wait_on(changed: threading.Condition, seconds: float | None) -> bool:
    """Its `wait`. Only with its lock, which is held again afterwards, also after Ctrl-C."""
    try:
        return changed.wait(seconds)
    except BaseException:
        with suppress(RuntimeError):  # Ctrl-C came when it had let go of the lock
            changed.release()
        changed.acquire()
        raise


def spread(pause: float) -> float:
    """About this long: clients that lost one server together do not come back all at once."""
    return pause * (0.5 + random.random() / 2)


def _closed() -> SessionEnded:
    return SessionEnded("this session has been closed")
