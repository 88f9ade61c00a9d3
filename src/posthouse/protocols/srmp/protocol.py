"""SRMP over HTTP of one queue manager: all its connections, links and timers ([MC-MQSRM] 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from posthouse.engine.ledger.effects import Event
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import host_key
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival, SrmpVerdict
from posthouse.model.errors import ServiceNotAvailable
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.srmp.connection import ResponseSlot, SrmpConnection
from posthouse.protocols.srmp.links import SrmpLinks
from posthouse.protocols.srmp.network import SrmpNetwork, SrmpTransport
from posthouse.protocols.srmp.requests import RequestMaker
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.protocols.timers import Timers

BATCH_MAX = 256  # requests that the engine looks at in one call


class SrmpFigures(NamedTuple):
    """What the metrics show of the protocol."""

    connections: int  # that others have open
    links: dict[str, int]  # by state
    requests: dict[str, int]  # by what they were answered, so far
    posts: dict[str, int]  # of ours, by what they were answered
    refused: dict[str, int]  # connections not taken or broken off, by reason
    traffic: dict[str, int]  # bytes and messages, each in and out, so far


class SrmpProtocol:
    """`Host` of all connections. Everything it does follows from calls: it has no clock."""

    def __init__(
        self, desk: Desk, settings: SrmpSettings, network: SrmpNetwork, now: Callable[[], int]
    ) -> None:
        self.desk = desk
        self.settings = settings
        self.now = now
        self.stopping = False
        self.on_event: Callable[[Event], None] = lambda event: None  # for the log
        self.timers = Timers(network.wake_at)
        self.requests = RequestMaker(desk, settings)
        self.links = SrmpLinks(
            desk,
            settings,
            network,
            now,
            timers=self.timers,
            requests=self.requests,
            tell=lambda name, **details: self.on_event(Event(name, details)),
        )
        self.connections: dict[SrmpConnection, None] = {}
        self.refusals: Counter[str] = Counter()
        self._network = network
        self._answers: Counter[int] = Counter()
        self._arrivals: list[tuple[ResponseSlot, SrmpArrival]] = []
        self.unsynced_bytes = 0  # of requests that wait for their sync, on all connections
        self._received = self._received_bytes = 0
        self._receipts_from = frozenset(map(host_key, settings.receipts_from))

    # -- from the engine

    def start(self) -> None:
        """Queue Manager Started (3.1.4.1): connects for every queue that has messages."""
        queues = self.desk.manager.queues.outgoing_queues()
        self.active([queue.number for queue in queues if queue.state.count])

    def active(self, numbers: Iterable[int]) -> None:
        """Something has changed for these outgoing queues (3.1.7.4-7)."""
        if not self.stopping:
            for number in numbers:
                self.links.look(number)

    def retry(self, number: int) -> bool:
        """An operator wants an outgoing queue connected now; False: it has no messages."""
        return self.links.retry_now(number)

    def stop(self) -> None:
        """Every connection ends, those with requests when they are answered."""
        self.stopping = True
        self.links.stop()
        for connection in list(self.connections):
            connection.finish()

    # -- from the network

    def listens(self, scheme: str, address: str, port: int) -> None:
        """A listener is open: `http` or `https`."""
        self.requests.listens(scheme, address, port)

    def accept(self, transport: SrmpTransport, address: str) -> SrmpConnection:
        """A connection that somebody opened to us."""
        connection = SrmpConnection(self.settings, transport, self, address, self.now)
        self.connections[connection] = None
        self.timers.arm(connection)
        return connection

    def tick(self) -> None:
        """The time that the network was asked to wake us at has come."""
        self.timers.run(self.now())

    def next_deadline_ms(self) -> int | None:
        """When something is due; the network has been told."""
        return self.timers.next_deadline_ms()

    def refused(self, reason: str) -> None:
        """Counts what closed a connection or kept it from opening."""
        self.refusals[reason] += 1

    # -- Host of connections

    @property
    def refuses(self) -> str:
        """Why no request is taken now."""
        if self.stopping:
            return "the queue manager is stopping"
        if not self.desk.manager.transfer.connection_active:
            return "the queue manager is offline"
        return ""

    @property
    def utc(self) -> int:
        """The second of the engine's clock."""
        return self.desk.manager.machine.utc

    def hand_in(self, slot: ResponseSlot, arrival: SrmpArrival) -> None:
        """Gathers the requests of all connections that come at once."""
        if not self._arrivals:
            self._network.soon(self._decide)
        self._arrivals.append((slot, arrival))
        self.unsynced_bytes += slot.size

    def _decide(self) -> None:
        """SRMP Message Received (3.1.5.1) for all of them."""
        arrivals, self._arrivals = self._arrivals, []
        for at in range(0, len(arrivals), BATCH_MAX):
            some = arrivals[at : at + BATCH_MAX]
            slots, messages = [slot for slot, _ in some], [message for _, message in some]
            try:
                self.desk.decide(partial(_receive, messages), partial(self._decided, slots))
            except ServiceNotAvailable as error:
                self._decided(slots, Answer(None, error, ()))

    def _decided(self, slots: list[ResponseSlot], answer: Answer) -> None:
        verdicts = answer.value
        if not isinstance(verdicts, list):
            why = "the queue manager cannot take it" if answer.error is None else str(answer.error)
            verdicts = [SrmpVerdict(500, why)] * len(slots)
        utc, is_over = self.utc, bool(self.refuses)
        for slot, (status, why) in zip(slots, verdicts, strict=True):
            if status == 200:
                self._received += 1
            self._received_bytes += slot.size
            self.unsynced_bytes -= slot.size
            slot.connection.answered(slot, status, why, utc, is_over=is_over)

    def answered(self, status: int) -> None:
        """Counts a response."""
        self._answers[status] += 1

    def peer_at(self, address: str) -> Peer:
        """The other end as a `Peer` of the engine."""
        return Peer(b"", address, partial(self._may_acknowledge, address))

    def _may_acknowledge(self, address: str, number: int) -> bool | None:
        """Decision 24: from where the name of the queue leads to, or whom the operator trusts."""
        if host_key(address) in self._receipts_from:
            return True
        return self.links.may_acknowledge(number, address)

    def rearm(self, connection: SrmpConnection) -> None:
        """A connection has something to do earlier than it thought."""
        self.timers.arm(connection)

    def closed(self, connection: SrmpConnection) -> None:
        """A connection is gone."""
        self.connections.pop(connection, None)
        self.timers.forget(connection)

    # -- what people see

    def figures(self) -> SrmpFigures:
        """The state of everything, and what has been so far."""
        links = self.links
        return SrmpFigures(
            len(self.connections),
            dict(Counter(link.state.value for link in links.all())),
            {str(status): count for status, count in self._answers.items()},
            {str(status): count for status, count in links.statuses.items()},
            dict(self.refusals),
            {
                "bytes_in": self._received_bytes,
                "bytes_out": links.sent_bytes,
                "messages_in": self._received,
                "messages_out": links.sent,
            },
        )


def _receive(arrivals: list[SrmpArrival], manager: QueueManager) -> list[SrmpVerdict]:
    return manager.transfer.receive_srmp(arrivals)
