"""NCP over UDP (qms-facts 1.3): connections bound to their peers, kept replies, the watchdog."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from posthouse.model.errors import RemoteProtocolError
from posthouse.net.connections import Admission
from posthouse.protocols.ncp.session import NcpEndpoint, ServiceConnection, refuse_connection
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.wire.ncp.framing import (
    ALIVE,
    CREATE_CONNECTION,
    DESTROY_CONNECTION,
    WORKING,
    Reply,
    Request,
    is_watchdog,
    read_request,
    read_watchdog,
    write_reply,
    write_watchdog,
)


class Watchdog:
    """The clock of one connection. Everything that comes from its client winds it up."""

    def __init__(self, settings: NcpSettings, now_ms: int) -> None:
        self._settings = settings
        self._heard_ms = now_ms
        self._asked = 0

    def heard(self, now_ms: int) -> None:
        """The client is there."""
        self._heard_ms = now_ms
        self._asked = 0

    def deadline_ms(self, *, is_logged_in: bool) -> int:
        """When `is_due` may be true; connections without a login end sooner, and unasked."""
        settings = self._settings
        if not is_logged_in:
            return self._heard_ms + settings.login_ms
        asked_for_ms = self._asked * settings.watchdog_interval_ms
        return self._heard_ms + settings.watchdog_delay_ms + asked_for_ms

    def asks(self, now_ms: int, *, is_logged_in: bool) -> bool | None:
        """At its deadline: whether to ask the client; False: it is lost; None: not yet."""
        if now_ms < self.deadline_ms(is_logged_in=is_logged_in):
            return None
        if not is_logged_in or self._asked >= self._settings.watchdog_count:
            return False
        self._asked += 1
        return True


Peer = tuple[str, int]
"""Address and port of a client."""

SendTo = Callable[[bytes, Peer], None]

ENDED_KEPT: Final = 1024  # connections whose last reply can be asked for again
BEHIND: Final = 0x80  # a sequence number this far ahead is an old one: a datagram came late


class DatagramConnection:
    """One client: its service connection and the last thing it was told."""

    def __init__(self, datagrams: Datagrams, peer: Peer, admission: Admission) -> None:
        self.peer = peer
        self.admission = admission
        self._datagrams = datagrams
        self._protocol = datagrams.protocol
        self.service = ServiceConnection(self._protocol, peer[0], datagrams=True)
        self._watchdog = Watchdog(self._protocol.settings, self._protocol.now())
        self._sequence = -1  # of the last request; -1: there was none since 0x1111
        self._kept = b""  # its reply; empty: it is still running

    # -- requests

    def create(self, request: Request) -> None:
        """0x1111, or its repeat."""
        self.service.create(request, self._answered)
        self._protocol.timers.arm(self)

    @property
    def is_answering(self) -> bool:
        """Whether its last request is still running."""
        return not self._kept

    @property
    def is_new(self) -> bool:
        """Whether nothing has been asked on it yet, so that another 0x1111 is a repeat."""
        return self._sequence < 0 and not self.service.ended

    def repeat(self, request: Request) -> None:
        """Sends the kept reply again, or a "working" reply while the request runs."""
        if self._kept:
            self._protocol.repeated += 1
            self._datagrams.send(self._kept, self.peer)
        else:
            self._protocol.working += 1
            working = Reply(WORKING, request.sequence, request.connection, request.task)
            self._datagrams.send(write_reply(working), self.peer)

    def take(self, request: Request) -> None:
        """A request: a new one, the last one again, or one that came much too late."""
        self.heard()
        ahead = (request.sequence - self._sequence) & 0xFF if self._sequence >= 0 else 1
        if ahead == 0:
            self.repeat(request)
        elif ahead >= BEHIND or not self._kept:
            self._protocol.refused("out of sequence")  # the client sends it again if it matters
        else:
            self._sequence, self._kept = request.sequence, b""
            self._run(request)

    def _run(self, request: Request) -> None:
        if request.kind == DESTROY_CONNECTION:
            self.service.destroy(request, self._answered)
        else:
            self.service.answer(request, self._answered)

    def _answered(self, message: bytes) -> None:
        if not self._datagrams.knows(self):
            return  # somebody else may have its peer by now
        self._kept = message
        if self.service.ended:
            self._datagrams.over(self, message)
        elif self.service.station is None:
            self._datagrams.drop(self)  # there are too many
        else:
            self._protocol.timers.arm(self)  # a login changes what is waited for
        self._datagrams.send(message, self.peer)

    # -- the watchdog

    def heard(self) -> None:
        """The client is there."""
        self._watchdog.heard(self._protocol.now())
        self._protocol.timers.arm(self)

    def next_deadline_ms(self) -> int | None:
        """When the watchdog barks."""
        if self.service.ended:
            return None
        return self._watchdog.deadline_ms(is_logged_in=self.service.is_logged_in)

    def tick(self) -> None:
        """Asks a silent client, or gives it up."""
        now_ms, is_logged_in = self._protocol.now(), self.service.is_logged_in
        asks = self._watchdog.asks(now_ms, is_logged_in=is_logged_in)
        if asks:
            self._protocol.polled += 1
            self._datagrams.send(write_watchdog(self.service.number), self.peer)
        elif asks is not None and not self.service.ended:
            self._protocol.refused("silent")
            self._datagrams.drop(self)


class Datagrams:
    """All clients on UDP, by their addresses and ports."""

    def __init__(self, protocol: NcpEndpoint, send: SendTo) -> None:
        self.protocol = protocol
        self.send = send
        self._peers: dict[Peer, DatagramConnection] = {}
        self._ended: OrderedDict[tuple[Peer, int], bytes] = OrderedDict()

    def receive(self, datagram: bytes, peer: Peer) -> None:
        """A datagram; what is none of NCP is dropped."""
        try:
            if is_watchdog(datagram):
                self._alive(datagram, peer)
            else:
                self._take(read_request(datagram), peer)
        except RemoteProtocolError as error:
            self.protocol.malformed(str(error))

    def _alive(self, datagram: bytes, peer: Peer) -> None:
        number, signature = read_watchdog(datagram)
        found = self._peers.get(peer)
        if found is not None and (number, signature) == (found.service.number, ALIVE):
            found.heard()

    def _take(self, request: Request, peer: Peer) -> None:
        found = self._peers.get(peer)
        if request.kind == CREATE_CONNECTION:
            self._create(request, peer, found)
        elif found is not None and found.service.number == request.connection:
            found.take(request)
        else:
            self._refuse(request, peer)

    def _create(self, request: Request, peer: Peer, found: DatagramConnection | None) -> None:
        """A second 0x1111 is a repeat, or somebody new at the same port: they inherit nothing."""
        if found is not None:
            if found.is_new:
                found.repeat(request)
                return
            self.drop(found)
        admission = self.protocol.admit(peer[0])
        if admission is not None:
            admission.prove()
            made = self._peers[peer] = DatagramConnection(self, peer, admission)
            made.create(request)

    def _refuse(self, request: Request, peer: Peer) -> None:
        kept = self._ended.get((peer, request.connection))
        if kept is not None and kept[2] == request.sequence:
            self.protocol.repeated += 1
            self.send(kept, peer)
            return
        self.protocol.refused("unknown connection")
        refuse_connection(self.protocol, request, lambda message: self.send(message, peer))

    # -- the end

    def knows(self, connection: DatagramConnection) -> bool:
        """Whether it is still the one of its peer."""
        return self._peers.get(connection.peer) is connection

    def over(self, connection: DatagramConnection, reply: bytes) -> None:
        """A client ended its connection, and may not have heard that it is over."""
        self._ended[connection.peer, connection.service.number] = reply
        if len(self._ended) > ENDED_KEPT:
            self._ended.popitem(last=False)
        self._forget(connection)

    def drop(self, connection: DatagramConnection) -> None:
        """A client is lost."""
        connection.service.end()
        self._forget(connection)

    def _forget(self, connection: DatagramConnection) -> None:
        if self.knows(connection):
            del self._peers[connection.peer]
            self.protocol.timers.forget(connection)
            connection.admission.leave()

    @property
    def is_answering(self) -> bool:
        """Whether requests wait for their answers."""
        return any(connection.is_answering for connection in self._peers.values())

    def stop(self) -> None:
        """No request is served after this."""
        for connection in list(self._peers.values()):
            self.drop(connection)
