"""A client's side of one NCP connection, without I/O (qms-facts 1.1-1.4).

One request at a time, as the protocol has it. On UDP a request is sent again, with its sequence
number, until it is answered; the server answers a repeat from memory.
"""

from __future__ import annotations

from typing import Final

from posthouse.client.errors import ClientConnectionError
from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.ncp.framing import (
    ALIVE,
    BAD_CONNECTION,
    CREATE_CONNECTION,
    DESTROY_CONNECTION,
    NO_CONNECTION,
    POLL,
    REPLY_MAGIC,
    REQUEST,
    WORKING,
    Reply,
    Request,
    Stream,
    frame_request,
    is_watchdog,
    read_reply,
    read_watchdog,
    write_request,
    write_watchdog,
)

RETRANSMIT_MS: Final = 3_000  # as ncpfs does
RETRIES: Final = 20
TASK: Final = 1
_TCP_CREATE: Final = bytes.fromhex("01100000") + bytes(15)  # what ncpfs sends; servers ignore it
_UDP_CREATE: Final = b"\0"


class NcpLost(ClientConnectionError):
    """The connection is gone; what was asked and not answered may be done or not."""

    default_remedy = "Check that the queue manager there runs, then connect again."


class NcpConversation:
    """Requests in, bytes out; bytes in, replies out. The time is an argument everywhere."""

    def __init__(
        self,
        *,
        datagrams: bool,
        retransmit_ms: int = RETRANSMIT_MS,
        retries: int = RETRIES,
        task: int = TASK,
    ) -> None:
        self.datagrams = datagrams
        self.connection = NO_CONNECTION
        self.task = task
        self.reply: Reply | None = None  # to the last request, once it has come
        self.repeated = 0  # requests that were sent again
        self._retransmit_ms = retransmit_ms
        self._retries = retries
        self._sequence = 0
        self._asked: Request | None = None
        self._left = 0
        self._due_ms = 0
        self._outgoing: list[bytes] = []
        self._stream = Stream(REPLY_MAGIC)

    # -- requests

    def create(self, now_ms: int) -> None:
        """Asks for a connection (0x1111)."""
        data = _UDP_CREATE if self.datagrams else _TCP_CREATE
        self._ask(Request(CREATE_CONNECTION, 1, NO_CONNECTION, self.task, 0, data), now_ms)

    def ask(self, function: int, data: bytes, now_ms: int) -> None:
        """A request (0x2222); the first one has the sequence number of 0x1111 again."""
        self._sequence = (self._sequence + 1) & 0xFF
        self._ask(
            Request(REQUEST, self._sequence, self.connection, self.task, function, data), now_ms
        )

    def destroy(self, now_ms: int) -> None:
        """Ends the connection (0x5555); a server that does not answer notices it by itself."""
        self._sequence = (self._sequence + 1) & 0xFF
        self._ask(Request(DESTROY_CONNECTION, self._sequence, self.connection, self.task), now_ms)
        self._left = min(self._left, 1)

    def _ask(self, request: Request, now_ms: int) -> None:
        assert self._asked is None, "one request at a time"
        self._asked, self.reply = request, None
        self._left = self._retries
        self._send(now_ms)

    def _send(self, now_ms: int) -> None:
        assert self._asked is not None
        message = write_request(self._asked)
        self._outgoing.append(message if self.datagrams else frame_request(message))
        self._due_ms = now_ms + self._retransmit_ms

    def take_outgoing(self) -> list[bytes]:
        """Datagrams, or bytes of a stream, that are to be sent."""
        taken, self._outgoing = self._outgoing, []
        return taken

    # -- replies

    def receive(self, data: bytes, now_ms: int) -> None:
        """Bytes of the server; `RemoteProtocolError` where a stream makes no sense."""
        if not self.datagrams:
            for message in self._stream.feed(data):
                self._take(read_reply(message), now_ms)
        elif is_watchdog(data):
            self._answer_watchdog(data)
        else:
            self._receive_datagram(data, now_ms)

    def _receive_datagram(self, datagram: bytes, now_ms: int) -> None:
        """What does not answer the request is dropped: anybody may send it."""
        try:
            reply = read_reply(datagram)
        except RemoteProtocolError:
            return
        if self._answers(reply):
            self._take(reply, now_ms)

    def _answers(self, reply: Reply) -> bool:
        asked = self._asked
        if asked is None or reply.sequence != asked.sequence:
            return False
        return asked.kind == CREATE_CONNECTION or reply.connection == asked.connection

    def _take(self, reply: Reply, now_ms: int) -> None:
        asked = self._asked
        if asked is None or not self._answers(reply):
            raise RemoteProtocolError("a reply to something that was not asked")
        if reply.kind == WORKING:
            self._left = self._retries
            self._due_ms = now_ms + self._retransmit_ms
            return
        self._asked = None
        if reply.status & BAD_CONNECTION:
            raise NcpLost(f"the server no longer has connection {self.connection}")
        if asked.kind == CREATE_CONNECTION and not reply.completion:
            self.connection = reply.connection
        self.reply = reply

    def _answer_watchdog(self, datagram: bytes) -> None:
        """Still here (qms-facts 7.3)."""
        try:
            connection, signature = read_watchdog(datagram)
        except RemoteProtocolError:
            return
        if connection == self.connection and signature == POLL:
            self._outgoing.append(write_watchdog(connection, ALIVE))

    # -- time

    def next_deadline_ms(self) -> int | None:
        """When the request is to be sent again; None: TCP does it, or nothing is asked."""
        return self._due_ms if self.datagrams and self._asked is not None else None

    def tick(self, now_ms: int) -> None:
        """Sends again what is due; `NcpLost` after the last time."""
        if self._asked is None or not self.datagrams or now_ms < self._due_ms:
            return
        if not self._left:
            self._asked = None
            raise NcpLost("the server does not answer")
        self._left -= 1
        self.repeated += 1
        self._send(now_ms)
