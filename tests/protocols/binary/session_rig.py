"""Sessions on real engines: no sockets, turns by hand, bytes carried as the test says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from posthouse.engine.ledger.effects import Event
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.message import DeliveryGuarantee, Message, MessageId
from posthouse.protocols.binary.session import BinarySession, Role
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.security.access import Caller
from posthouse.sim.clock import SimClock
from posthouse.wire.binary.internal import (
    connection_parameters,
    establish_connection,
    read_session_ack,
    session_ack,
)
from posthouse.wire.binary.stream import PacketKind, PacketSplitter, packet_kind
from posthouse.wire.packet.headers import SessionHeader
from posthouse.wire.packet.message import serialize
from tests.engine.rig import START_UTC, Rig
from tests.engine.settings import engine_settings
from tests.protocols.admin.session_rig import TurnDesk
from tests.support.memory_store import MemoryStore

# The timers of the document, and no other; the window that it recommends and Windows has.
SETTINGS = BinarySettings(ack_quiet_ms=0, window=64)
PEER_GUID = bytes(range(1, 17))
OTHER_GUID = bytes(range(17, 33))
ADDRESS = "192.0.2.7"
UPTIME_MS = 10_000_000


class Machine(Rig):
    """A queue manager with a name and a GUID of its own."""

    def __init__(self, name: str = "ALPHA", clock: SimClock | None = None, **settings: Any) -> None:
        self.settings = engine_settings(name, **settings)
        self.clock = clock or SimClock(now_ms=UPTIME_MS, utc_seconds=START_UTC)
        self.random = random.Random(name)
        self.admin = Caller.administrator()
        self.events: list[Event] = []
        self.active: set[int] = set()
        self.deleted: list[Any] = []
        self.store = MemoryStore()
        self._boot(self.store.recover().state)
        self.desk = TurnDesk(self.driver)

    def restart(self) -> None:
        super().restart()
        self.desk = TurnDesk(self.driver)

    @property
    def guid(self) -> bytes:
        return self.manager.machine.identifier


class Line:
    """A transport that keeps what is sent until somebody takes it."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.writable = True
        self.closed = False
        self.reading = True
        self.relieved_of = 0

    def send(self, parts: list[bytes]) -> None:
        assert not self.closed, "nothing is sent behind a close"
        self.sent += b"".join(parts)

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self.reading = False

    def resume(self) -> None:
        self.reading = True

    def later(self, work: Callable[[], None]) -> None:
        """At once."""
        work()

    def relieved(self) -> None:
        self.relieved_of += 1

    def take(self) -> bytes:
        """All that was sent since the last look."""
        data = bytes(self.sent)
        self.sent.clear()
        return data


class Party:
    """A host that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.refusals: list[str] = []
        self.touched: list[tuple[int, bytes]] = []
        self.reason = ""
        self.admitting = True
        self.rearmed = 0
        self.on_opened: Callable[[BinarySession], None] = lambda session: None

    def rearm(self, session: BinarySession) -> None:
        self.rearmed += 1

    def admits(self, session: BinarySession) -> bool:
        return self.admitting

    def established(self, session: BinarySession) -> None:
        self.told.append("established")

    def opened(self, session: BinarySession) -> None:
        self.told.append("opened")
        self.on_opened(session)

    def closed(self, session: BinarySession, reason: str) -> None:
        self.told.append("closed")
        self.reason = reason

    def peer_of(self, session: BinarySession) -> Peer:
        return Peer(session.remote_guid, session.remote_address)

    def sequences_touched(
        self, session: BinarySession, sequences: tuple[tuple[int, bytes], ...]
    ) -> None:
        self.touched += sequences

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)


class End:
    """One end of a session: its machine, its line, its host."""

    def __init__(
        self,
        machine: Machine | None = None,
        role: Role = Role.ACCEPTOR,
        settings: BinarySettings = SETTINGS,
        **options: Any,
    ) -> None:
        self.machine = machine or Machine()
        self.line, self.host = Line(), Party()
        clock = self.machine.clock
        self.session = BinarySession(
            self.machine.desk,
            settings,
            self.line,
            self.host,
            role=role,
            own_guid=self.machine.guid,
            peer_address=ADDRESS,
            now=lambda: clock.now_ms,
            **options,
        )
        self._splitter = PacketSplitter()

    @property
    def bytes_ahead(self) -> int:
        """What was taken ahead of the window."""
        return self.session._fetched.bytes

    # -- the other side, packet by packet

    def start(self) -> End:
        self.session.connected()
        return self

    def open(self, **terms: int) -> End:
        """A session that is OPEN, its handshake done and taken off the line."""
        self.start()
        for packet in self.handshake(**terms):
            self.session.receive(packet)
        self.sent()
        assert self.session.is_open
        return self

    def handshake(
        self, window: int = 64, ack_timeout: int = 20_000, recoverable: int = 500
    ) -> Iterator[bytes]:
        """What an honest peer says until the session is open."""
        own = self.machine.guid
        if self.session.role is Role.ACCEPTOR:
            yield establish_connection(PEER_GUID, time_stamp=77)
        else:
            stamp = self.machine.clock.now_ms & 0xFFFFFFFF
            yield establish_connection(own, PEER_GUID, time_stamp=stamp)
        yield connection_parameters(recoverable, ack_timeout, window)

    def receive(self, *packets: bytes) -> None:
        """One chunk; everything is decided, synced and let out."""
        self.session.receive(b"".join(packets))
        self.settle()

    def settle(self) -> None:
        self.machine.desk.settle()

    def wait(self, milliseconds: int) -> None:
        """Time passes; timers run at their times."""
        clock = self.machine.clock
        end = clock.now_ms + milliseconds
        while True:
            due = self.session.next_deadline_ms()
            if due is None or due > end:
                break
            clock.advance(max(due - clock.now_ms, 0))
            self.session.tick()
            self.settle()
        clock.advance(end - clock.now_ms)

    def sent(self) -> list[bytes]:
        """The packets this end has sent since the last look."""
        return self._splitter.feed(self.line.take())

    def acks(self) -> list[SessionHeader]:
        """The SessionAcks among them; there is nothing else."""
        return [read_session_ack(packet).header for packet in self.sent()]

    def user_messages(self) -> list[bytes]:
        """The UserMessages among them."""
        kinds = (PacketKind.USER_MESSAGE, PacketKind.ORDER_ACK, PacketKind.FINAL_ACK)
        return [packet for packet in self.sent() if packet_kind(packet) in kinds]


def user_message(
    ordinal: int,
    queue: str = "orders",
    *,
    recoverable: bool = True,
    source: bytes = PEER_GUID,
    **attributes: Any,
) -> bytes:
    """A packet as another queue manager sends it."""
    delivery = DeliveryGuarantee.RECOVERABLE if recoverable else DeliveryGuarantee.EXPRESS
    return serialize(
        Message(
            identifier=MessageId(source, ordinal),
            source_machine_identifier=source,
            sent_time=START_UTC,
            destination_queue_format_name=f"DIRECT=OS:ALPHA\\private$\\{queue}",
            delivery_guarantee=delivery,
            body=attributes.pop("body", b"%d" % ordinal),
            **attributes,
        )
    )


def ack(
    upto: int = 0,
    base: int = 0,
    flags: int = 0,
    sent: int = 0,
    recoverable_sent: int = 0,
    window: int = 64,
) -> bytes:
    """A SessionAck of the peer."""
    return session_ack(SessionHeader(upto, base, flags, sent, recoverable_sent, window))
