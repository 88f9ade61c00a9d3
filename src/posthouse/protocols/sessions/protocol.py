"""A client session: frames in, calls on the engine, frames out (docs/ways.md).

It has no sockets and no event loop: the owner of the connection hands in bytes in any pieces and
writes what comes out. Every answer waits until it is durable, so answers may overtake one another.
A client that named its session can repeat its last requests after the connection broke.
"""

from __future__ import annotations

from contextlib import suppress

from posthouse.engine.manager import QueueManager
from posthouse.engine.sessions.resumable import NAME_SIZE, UNANSWERED_MAX
from posthouse.model.errors import (
    InvalidParameter,
    OperationCancelled,
    QueueError,
    RemoteProtocolError,
    ServiceNotAvailable,
)
from posthouse.protocols.engine_calls import Answer
from posthouse.protocols.sessions.requests import HANDLERS
from posthouse.protocols.sessions.session import OpenSession, nothing, run
from posthouse.wire.frames import frames, payloads
from posthouse.wire.frames.frames import Splitter


def _drop(value: object) -> None:
    pass


def _no_room() -> int:
    return 0


def _has_none(size: int) -> bool:
    return False


class ClientSession(OpenSession):
    """One connection of one client: frames in, from the greeting to the end."""

    # -- in

    def receive(self, data: bytes | memoryview) -> None:
        """Bytes of the client, cut anywhere, in a buffer that may be used again afterwards."""
        if self.closed:
            return
        backlog = self._backlog
        backlog.extend(self.splitter.feed(data))
        self._work()
        broken = self.splitter.broken
        if broken is not None and not self.closed and not backlog:
            self._fail(broken)

    @property
    def announced_bytes(self) -> int:
        """The size of a frame that is not whole yet, as far as it is known."""
        return self.splitter.announced

    def hold(self, held: bool) -> None:
        """The connection is full (True): nothing more is begun until it has room again."""
        self._held = held
        self._unread = 0
        if not held and self._deferred:
            self.go_on()
        self.receive(b"")

    def _work(self) -> None:
        """Begins requests until there are none, or too many."""
        backlog, limits = self._backlog, self.limits
        while backlog and not self.closed:
            if (
                self._held
                or self.requests >= limits.requests_max
                or self.request_bytes + self.answer_bytes >= limits.request_bytes_max
            ):
                break
            kind, request, payload = backlog.popleft()
            try:
                if not request:
                    raise RemoteProtocolError("a request has no number")
                if self._greeted is (kind == frames.HELLO):
                    raise RemoteProtocolError(
                        "HELLO is the first frame of a session, and only that"
                    )
                if kind == frames.HELLO:
                    self._hello(request, payload)
                elif (handler := HANDLERS.get(kind)) is not None:
                    handler(self, request, payload)
                else:
                    raise RemoteProtocolError(f"there is no request of kind 0x{kind:02X}")
            except RemoteProtocolError as error:
                self._fail(error)
        paused = (bool(backlog) or self._held) and not self.closed
        if paused is not self._paused:
            self._paused = paused
            self._pause(paused)

    @property
    def paused(self) -> bool:
        """Whether nothing more is to be read."""
        return self._paused

    # -- the end

    def _fail(self, error: RemoteProtocolError) -> None:
        """The client broke the protocol: it is told once, counted, and the session ends."""
        self.desk.manager.machine.refusals["session_frame"] += 1
        self.end(InvalidParameter(str(error), "Close, and speak the protocol of this version."))

    def end(self, error: QueueError) -> None:
        """Ends the session from this side: the client is told why, then the connection closes."""
        if not self.closed:
            self.refuse(0, error)
            self.flush()
            self.lost()
            self._close()

    def lost(self) -> None:
        """The connection is gone: transactions abort, messages that were not ended are back."""
        if not self.closed:
            self._shut()
            with suppress(ServiceNotAvailable):  # it has stopped, and all this went with it
                self.desk.decide(self._leave, lambda answer: None)

    def _shut(self) -> None:
        """Stops all input and output."""
        self.closed = True
        self.splitter = Splitter(self.limits.frame_size_max)  # half a frame is of no use
        self._backlog.clear()
        self._deferred.clear()
        self._out.clear()
        self._out_bytes = 0
        self.waits.clear()

    def detach(self) -> None:
        """Lets go of the connection: or both would stay, with all their buffers, as a circle.

        Open queues, whose owner it is, are let go of for the same reason.
        """
        self._send, self._soon, self._pause, self._counted = _drop, _drop, _drop, nothing
        self._close, self._has_room, self.api = nothing, _has_none, None
        self._room, self._audited = _no_room, run
        for handles in (self.queues, self.transactions, self.cursors):
            handles.clear()

    def _leave(self, manager: QueueManager) -> None:
        if self.named is not None:
            manager.sessions.detach(self.named, self)
        manager.end_session(self)

    # -- the beginning

    def _hello(self, request: int, payload: bytes) -> None:
        hello = frames.decode_payload(frames.HELLO, payload)
        assert isinstance(hello, payloads.Hello)
        if hello.version != payloads.VERSION:
            raise RemoteProtocolError(
                f"the client speaks version {hello.version}, this is version {payloads.VERSION}"
            )
        name = hello.session
        if len(name) not in (0, NAME_SIZE):
            raise RemoteProtocolError("a session name has 16 bytes, or none")
        self._greeted = True
        self.decide(request, lambda manager: self._take_name(manager, name), self._welcome)

    def _take_name(self, manager: QueueManager, name: bytes) -> None:
        """Goes on with a name; what an older connection had under it is free from here on."""
        if not name:
            return
        try:
            self.named, previous = manager.sessions.attach(name, self.caller.sid, self)
        except QueueError:
            self._greeted = False
            raise
        if isinstance(previous, ClientSession):
            previous._replaced()
            manager.end_session(previous)

    def _replaced(self) -> None:
        self.refuse(0, OperationCancelled("the session goes on in another connection"))
        self.flush()
        self._shut()
        self._close()

    def _welcome(self, request: int, answer: Answer) -> bytes:
        manager, limits = self.desk.manager, self.limits
        return frames.encode(
            request,
            payloads.Welcome(
                payloads.REVISION,
                self._software,
                manager.machine.settings.computer_name,
                manager.machine.identifier,
                limits.frame_size_max,
                limits.requests_max,
                limits.waits_max,
                limits.batch_max,
                UNANSWERED_MAX,
            ),
        )
