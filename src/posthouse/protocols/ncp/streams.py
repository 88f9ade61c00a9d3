"""NCP over TCP (qms-facts 1.2): one service connection at a time on each TCP connection."""

from __future__ import annotations

from typing import Protocol

from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.ncp.session import NcpEndpoint, ServiceConnection, refuse_connection
from posthouse.wire.ncp.framing import (
    CREATE_CONNECTION,
    DESTROY_CONNECTION,
    Request,
    Stream,
    frame_reply,
    read_request,
)


class NcpTransport(Protocol):
    """The TCP connection under a session."""

    @property
    def writable(self) -> bool:
        """False: the client does not read what it is sent."""
        ...

    def send(self, data: bytes) -> None:
        """Sends, or keeps what the client does not take now."""
        ...

    def close(self) -> None:
        """Ends it; `StreamSession.lost` follows."""
        ...

    def counted(self) -> None:
        """What the session holds has changed."""
        ...


class StreamSession:
    """One TCP connection of a client."""

    def __init__(self, protocol: NcpEndpoint, transport: NcpTransport, address: str) -> None:
        self._protocol = protocol
        self._transport = transport
        self._address = address
        self._stream = Stream(size_max=protocol.settings.request_max)
        self._service: ServiceConnection | None = None
        self._running = 0  # requests that wait for their answers
        self._unsynced = 0
        self._closed = False
        self._heard_ms = self._begun_ms = protocol.now()
        protocol.timers.arm(self)

    @property
    def is_proven(self) -> bool:
        """Whether it has a service connection."""
        return self._service is not None

    @property
    def held_bytes(self) -> int:
        """Bytes of requests that are not looked at yet."""
        return self._stream.held_bytes

    @property
    def announced_bytes(self) -> int:
        """The size of the request in front, as it is announced."""
        return self._stream.announced_bytes

    @property
    def unsynced_bytes(self) -> int:
        """Bytes of requests whose answers wait."""
        return self._unsynced

    # -- from the transport

    def receive(self, data: bytes) -> None:
        """Bytes of the client."""
        if not self._stream.held_bytes:
            self._begun_ms = self._protocol.now()
        self._heard_ms = self._protocol.now()
        self._stream.add(data)
        self.pump()
        self._protocol.timers.arm(self)

    def pump(self) -> None:
        """Takes requests as long as their answers can go; the rest waits where it is."""
        try:
            while self._takes_more() and (message := self._stream.take()) is not None:
                self._begun_ms = self._protocol.now()
                self._take(read_request(message), len(message))
        except RemoteProtocolError as error:
            self._protocol.malformed(str(error))
            self.close()

    def _takes_more(self) -> bool:
        has_room = self._running < self._protocol.settings.calls_max
        return has_room and self._transport.writable and not self._closed

    def lost(self) -> None:
        """The TCP connection is gone."""
        self._closed = True
        self._protocol.timers.forget(self)
        if self._service is not None:
            self._service.end()

    def close(self) -> None:
        """Ends the TCP connection."""
        if not self._closed:
            self._closed = True
            self._transport.close()

    # -- requests

    def _take(self, request: Request, size: int) -> None:
        send = self._sender(size)
        service = self._service
        if request.kind == CREATE_CONNECTION:
            if service is not None:
                service.end()
            self._service = ServiceConnection(self._protocol, self._address, datagrams=False)
            self._service.create(request, send)
        elif service is None or not service.is_of(request.connection):
            refuse_connection(self._protocol, request, send)
        elif request.kind == DESTROY_CONNECTION:
            service.destroy(request, send)
        else:
            service.answer(request, send)

    def _sender(self, size: int) -> _Sender:
        self._running += 1
        self._unsynced += size
        return _Sender(self, size)

    def answered(self, message: bytes, size: int) -> None:
        """A reply may go."""
        self._running -= 1
        self._unsynced -= size
        if self._closed:
            return
        self._transport.send(frame_reply(message))
        if self._stream.held_bytes:
            self.pump()
        self._transport.counted()

    # -- timers

    def next_deadline_ms(self) -> int | None:
        """When the client has to have done something."""
        if self._closed:
            return None
        settings = self._protocol.settings
        service = self._service
        due = []
        if self._stream.held_bytes:
            due.append(self._begun_ms + settings.unfinished_ms)
        if service is None or service.ended:
            due.append(self._heard_ms + settings.create_ms)
        elif not service.is_logged_in:
            due.append(self._heard_ms + settings.login_ms)
        return min(due, default=None)

    def tick(self) -> None:
        """Closes what takes too long."""
        due_ms = self.next_deadline_ms()
        if due_ms is None or self._protocol.now() < due_ms:
            return
        if self._running:  # it is we who take long
            self._begun_ms = self._heard_ms = self._protocol.now()
            return
        self._protocol.refused("idle" if not self._stream.held_bytes else "slow")
        self.close()


class _Sender:
    """Where the reply to one request goes."""

    __slots__ = ("_session", "_size")

    def __init__(self, session: StreamSession, size: int) -> None:
        self._session = session
        self._size = size

    def __call__(self, message: bytes) -> None:
        self._session.answered(message, self._size)
