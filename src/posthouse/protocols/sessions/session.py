"""A client session as its requests have it: what is open on it, its calls, frames out."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Cursor
from posthouse.engine.sessions.resumable import NamedSession
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import InvalidHandle, QueueError, TransactionSequence
from posthouse.protocols.engine_calls import Answer, Desk, Release
from posthouse.protocols.sessions.handles import (
    Handles,
    SessionLimits,
    queue_handles,
    transaction_handles,
)
from posthouse.security.access import Caller
from posthouse.wire.frames import frames
from posthouse.wire.frames.frames import Frame, Splitter

Finish = Callable[[int, bytes], None]  # status and body of a response
Api = Callable[[Caller, str, str, str, bytes, Finish], None]
"""The management interface: caller, role, method, path, body, and what to do with the response."""
Encode = Callable[[int, Answer], bytes | list[bytes]]
LARGE_FRAME: Final = 64 << 10


def nothing() -> None:
    """Does nothing."""


def _at_once(call: Callable[[], None]) -> None:
    call()


Audited = Callable[[str, dict[str, str], Callable[[Release], None], Release], None]
"""Runs an act of an operator: its name, what it is about, what starts it and gets where its answer
goes, and who gets the answer when the audit log has it.
"""


def run(
    act: str, about: dict[str, str], start: Callable[[Release], None], release: Release
) -> None:
    """Without an audit log."""
    start(release)


class DeferredRead(Protocol):
    """A read that is begun when there is memory for its answer."""

    def decide(self) -> None:
        """Decides it, or leaves it for later once more."""
        ...


class WaitingRead(Protocol):
    """A read that waits for a message."""

    def cancel(self, manager: QueueManager) -> None:
        """The client no longer wants to wait."""
        ...


class OpenSession(ABC):
    """One connection of one client.

    `send` gets whole frames to be written; `soon` is how to call something once after all that
    happens now, so that the answers of one sync are one write. `close` ends the connection when
    what was sent is written; `pause` stops (True) and goes on (False) with reading it. `room` is
    how many bytes of messages may be read for the client now; beyond that `has_room` is asked with
    the size of the first message. False: not before `go_on`. `counted` is called when
    `unsent_bytes` has changed. `audited` runs a call that the audit log has to have.
    """

    def __init__(
        self,
        desk: Desk,
        caller: Caller,
        role: str,
        send: Callable[[list[bytes]], None],
        *,
        api: Api | None = None,
        limits: SessionLimits | None = None,
        soon: Callable[[Callable[[], None]], None] = _at_once,
        close: Callable[[], None] = nothing,
        pause: Callable[[bool], None] = lambda paused: None,
        room: Callable[[], int] = lambda: sys.maxsize,
        has_room: Callable[[int], bool] = lambda size: True,
        counted: Callable[[], None] = nothing,
        audited: Audited = run,
        software: str = "posthouse",
    ) -> None:
        self.desk = desk
        self.caller = caller
        self.role = role
        self.limits = limits = limits or SessionLimits()
        self.closed = False
        self.requests = 0  # outstanding, beside waiting reads
        self.request_bytes = 0
        self.answer_bytes = 0  # of messages that were read, until their answers are let out
        self.named: NamedSession | None = None
        start = int.from_bytes(desk.manager.machine.random_bytes(4), "little")
        self.queues = queue_handles(start, limits)
        self.transactions = transaction_handles(start, limits)
        self.cursors: Handles[Cursor] = Handles("cursor", start, limits.handles_max, InvalidHandle)
        self.waits: dict[int, WaitingRead] = {}  # by request number
        self._send = send
        self.api = api
        self._soon = soon
        self._close = close
        self._pause = pause
        self._room = room
        self._has_room = has_room
        self._counted = counted
        self._audited = audited
        self._deferred: deque[DeferredRead] = deque()  # until there is memory for their answers
        self._software = software
        self._greeted = False
        self.splitter = Splitter(limits.frame_size_max, takes=frames.SEND)
        self._backlog: deque[Frame] = deque()  # frames that came while there was too much to do
        self._held = False  # the connection cannot take more answers at the moment
        self._unread = 0  # bytes of answers that came nevertheless
        self._paused = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._is_counted = False  # some of the unsent bytes may be on somebody's account

    @abstractmethod
    def receive(self, data: bytes | memoryview) -> None:
        """Bytes of the client, cut anywhere, in a buffer that may be used again afterwards."""

    @abstractmethod
    def lost(self) -> None:
        """The connection is gone: transactions abort, messages that were not ended are back."""

    # -- memory for answers

    def is_deferred(self, read: DeferredRead, size: Callable[[], int]) -> bool:
        """Whether a read, and all after it, is begun later: when there is memory for the answer.

        The size of its first message is asked for only where there is not plenty.
        """
        if self.closed:
            return True
        if not (self._held or self._deferred) and self._may_fetch(size):
            return False
        self._deferred.append(read)
        return True

    def _may_fetch(self, size: Callable[[], int]) -> bool:
        plenty = self.desk.manager.machine.settings.step_bytes
        return self._room() >= plenty or self._has_room(size())

    @property
    def answer_room(self) -> int:
        """Bytes of messages that one answer may have at most, beyond its first message."""
        return self._room()

    @property
    def unsent_bytes(self) -> int:
        """Of messages that were read, and of frames that are not handed over yet."""
        return self.answer_bytes + self._out_bytes

    def add_answer(self, size: int) -> None:
        """Messages were read for an answer, or that is let out."""
        self.answer_bytes += size
        self._is_counted = True
        self._counted()

    def go_on(self) -> None:
        """There may be memory again, or the client reads again."""
        deferred, self._deferred = self._deferred, deque()
        while deferred and not self._deferred:
            deferred.popleft().decide()
        self._deferred.extend(deferred)

    # -- out

    def decide(
        self,
        request: int,
        call: Callable[[QueueManager], object],
        encode: Encode,
        size: int = 0,
    ) -> None:
        """Runs a call on the engine; its answer goes out when it is durable."""
        self.requests += 1
        self.request_bytes += size
        self.desk.decide(call, partial(self.answered, request, encode, size))

    def act(
        self,
        request: int,
        name: str,
        about: dict[str, str],
        call: Callable[[QueueManager], object],
        encode: Encode,
    ) -> None:
        """Runs a call that is an act of an operator."""
        self.requests += 1
        self._audited(
            name,
            about,
            lambda release: self.desk.decide(call, release),
            partial(self.answered, request, encode, 0),
        )

    def answered(self, request: int, encode: Encode, size: int, answer: Answer) -> None:
        """The answer to an outstanding request goes out."""
        self.settle(size)
        if answer.error is not None:
            self.refuse(request, answer.error)
        else:
            self.write(encode(request, answer))
        if self._backlog:
            self.receive(b"")

    def settle(self, size: int = 0) -> None:
        """A request is no longer outstanding."""
        self.requests -= 1
        self.request_bytes -= size

    def refuse(self, request: int, error: QueueError) -> None:
        """An ERROR frame."""
        self.write(frames.encode(request, frames.refusal(error)))

    def write(self, frame: bytes | list[bytes]) -> None:
        """Puts a frame, whole or in parts, on its way, together with all others of now."""
        if self.closed:
            return
        first = not self._out
        if type(frame) is list:  # no call, as `isinstance` is one
            size = sum(map(len, frame))
            self._out += frame
        else:
            size = len(frame)
            self._out.append(frame)  # type: ignore[arg-type]
        self._out_bytes += size
        if size > LARGE_FRAME:
            self._is_counted = True
            self._counted()  # before others of this round are written
        if self._held:
            self._unread += size
            if self._unread > self.limits.unread_bytes_max:
                self._give_up()
        if first and self._out:
            self._soon(self.flush)

    def _give_up(self) -> None:
        """Waits were served, and the client does not read: what it was to get is others' now."""
        self.desk.manager.machine.refusals["session_unread"] += 1
        self.lost()
        self._close()

    def flush(self) -> None:
        """Hands over what is to be written."""
        out, self._out, self._out_bytes = self._out, [], 0
        if out:
            self._send(out)
            if self._is_counted:
                self._is_counted = bool(self.answer_bytes)
                self._counted()

    # -- transactions

    def transaction(self, manager: QueueManager, handle: int) -> Transaction | None:
        """The transaction of a handle; 0 stands for none."""
        return self.own_transaction(manager, handle) if handle else None

    def own_transaction(self, manager: QueueManager, handle: int) -> Transaction:
        """The transaction of a handle, unless it has ended: another may have its identifier."""
        transaction = self.transactions.get(handle)
        if manager.transactions.find(transaction.identifier) is not transaction:
            raise TransactionSequence("the transaction has ended")
        return transaction
