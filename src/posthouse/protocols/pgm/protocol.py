"""PGM of one queue manager: its sources, its groups, its timers ([MC-MQSRM] 2.1.2-2.1.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from posthouse.engine.ledger.effects import Event
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.errors import RemoteProtocolError, ServiceNotAvailable
from posthouse.model.names import MulticastName, parse_format_name
from posthouse.model.properties import parse_multicast_address
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.outgoing_reports import Reports
from posthouse.protocols.pgm.outgoing_feed import Feed, Write
from posthouse.protocols.pgm.receiver import Chance, PgmReceiver
from posthouse.protocols.pgm.session import MulticastPlace, PgmTimer, Reception
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.pgm.source import PgmSession, Source
from posthouse.protocols.pgm.transmit_window import Kept
from posthouse.protocols.timers import Timers
from posthouse.wire.pgm.packets import Tsi, read_pgm


class PgmNetwork(Protocol):
    """Datagrams may get lost, so sending never fails; opening may, with OSError."""

    def open_source(self, group: str) -> str:
        """Sending to a group begins; returns our own address there, on which NAKs are awaited."""
        ...

    def join(self, group: str) -> None:
        """What is sent to the group comes to `PgmProtocol.receive` from now on."""
        ...

    def leave(self, group: str) -> None:
        """Leaves a multicast group."""
        ...

    def multicast(self, group: str, kind: int, packet: bytes) -> None:
        """Sends a packet of this type to a group; some bear the router alert option (4)."""
        ...

    def multicast_near(self, group: str, packet: bytes) -> None:
        """Sends a packet to a group with a TTL of 1 (6.3)."""
        ...

    def unicast(self, address: str, packet: bytes) -> None:
        """Sends a packet to one computer."""
        ...

    def pause(self) -> None:
        """Nothing is read until `resume`; what comes too much meanwhile gets lost."""
        ...

    def resume(self) -> None:
        """There is room again."""
        ...

    def wake_at(self, when_ms: int) -> None:
        """`PgmProtocol.tick` is to be called then; only ever earlier than asked before, or after a
        tick."""
        ...


PORTS = 1, 0xFFFF  # of our sessions
_DOUBLINGS_MAX = 32

TakeIn = Callable[[MulticastPlace, str, bytes], Callable[[QueueManager], object]]
"""Reads an application data unit of a source, and gives the call that has the engine take it in."""


class PgmFigures(NamedTuple):
    """What the metrics show of PGM."""

    sources: int
    groups: int
    sessions: int  # of others, not ended
    sent: dict[str, int]
    received: dict[str, int]


class PgmProtocol:
    """Everything it does follows from calls: it has no clock, socket or chance of its own."""

    def __init__(
        self,
        desk: Desk,
        settings: PgmSettings,
        network: PgmNetwork,
        now: Callable[[], int],
        *,
        chance: Chance,
        gsi: bytes,
        write: Write,
        take_in: TakeIn,
    ) -> None:
        self.desk = desk
        self.settings = settings
        self.now = now
        self.stopping = False
        self.on_event: Callable[[Event], None] = lambda event: None  # for the log
        self.counts: Counter[str] = Counter()
        self.timers = Timers(network.wake_at)
        self.reception = Reception(settings, self, self.timers, chance, now)
        self.sources: dict[Tsi, Source] = {}
        self.feeds: dict[int, Feed] = {}
        self._network = network
        self._chance = chance
        self._gsi = gsi
        self._write = write
        self._take_in = take_in
        self._reports = Reports(desk)
        self._timed: dict[Source, PgmTimer] = {}
        self._owner: dict[Source, Feed] = {}
        self._joining = _Joining(self._join_due)
        self._joined: set[str] = set()
        self._kept = Kept(settings.window_total)
        self._unsynced = 0

    # -- from the engine

    def start(self) -> None:
        """Queue Manager Started: listens for its queues, and sends what waits."""
        self._look_at_groups()
        queues = self.desk.manager.queues.outgoing_queues()
        self.active([queue.number for queue in queues if queue.state.count])

    def active(self, numbers: Iterable[int]) -> None:
        """Something has changed for these queues: messages, states, multicast addresses."""
        if self.stopping:
            return
        local = False
        for number in numbers:
            queue = self.desk.manager.queues.get(number)
            if queue is not None and queue.outgoing is not None:
                self._look_at(number, queue.definition.format_name)
            else:
                local = True
                if number in self.feeds:
                    self.feeds.pop(number).finish()
        if local:
            self._look_at_groups()

    def _look_at(self, number: int, format_name: str) -> None:
        feed = self.feeds.get(number)
        if feed is None:
            name = parse_format_name(format_name)
            if not isinstance(name, MulticastName):
                return
            feed = self.feeds[number] = Feed(
                number,
                MulticastPlace(name.address, name.port),
                self.desk,
                self.settings,
                self,
                self._write,
                self.now,
            )
        feed.retry_at_ms = None
        feed.look()
        self._forget_if_done(feed)

    def _forget_if_done(self, feed: Feed) -> None:
        if not feed.is_busy and feed.retry_at_ms is None:
            self.feeds.pop(feed.number, None)

    # -- groups

    def _look_at_groups(self) -> None:
        """Joins and leaves by the multicast addresses of the queues."""
        wanted = set() if self.stopping else self._wanted()
        for place in self.reception.places - wanted:
            self.reception.leave(place)
        for place in wanted:
            self.reception.listen(place)
        groups = {place.group for place in wanted}
        for group in self._joined - groups:
            self._joined.discard(group)
            self._network.leave(group)
        for group in sorted(groups - self._joined):
            self._join(group)

    def _wanted(self) -> set[MulticastPlace]:
        found: set[MulticastPlace] = set()
        for address in self.desk.manager.queues.multicast_addresses():
            name = parse_multicast_address(address)
            found.add(MulticastPlace(name.address, name.port))
        return found

    def _join(self, group: str) -> None:
        try:
            self._network.join(group)
        except OSError as error:
            in_ms = self.settings.retry_ms
            self.tell(
                "group_not_joined", group=group, cause=error.strerror or error, retry_s=in_ms / 1000
            )
            self._joining.at_ms = self.now() + in_ms
            self.timers.arm(self._joining)
        else:
            self._joined.add(group)
            self.tell("group_joined", group=group)

    def _join_due(self) -> None:
        if self._joining.at_ms is not None and self.now() >= self._joining.at_ms:
            self._joining.at_ms = None
            self._look_at_groups()

    # -- sources

    def open_source(self, feed: Feed) -> Source | None:
        """3.1.7.9: a PGM session to the address and port of the format name."""
        try:
            address = self._network.open_source(feed.place.group)
        except OSError as error:
            self._not_opened(feed, str(error.strerror or error))
            return None
        feed.failures, feed.retry_at_ms = 0, None
        session = PgmSession(self._new_tsi(), *feed.place, address)
        source = Source(
            session,
            self.settings,
            lambda kind, packet: self._network.multicast(session.group, kind, packet),
            feed.sent,
            first_sequence=self._chance(0, 0xFFFF_FFFF),
            now_ms=self.now(),
            kept=self._kept,
        )
        self.sources[session.tsi] = source
        self._owner[source] = feed
        self._timed[source] = PgmTimer(
            lambda: self._tick(source), lambda: self._deadline_ms(source)
        )
        self.counts["sources"] += 1
        self._reports.next_hops([feed.number], [feed.place])
        self._reports.history([feed.number], ConnectionStatus.ESTABLISHED, feed.place)
        self._reports.retry([feed.number], None, "")
        self.tell("multicast_began", to=feed.place, session=session.tsi, address=address)
        return source

    def _new_tsi(self) -> Tsi:
        while True:
            tsi = Tsi(self._gsi, self._chance(*PORTS))
            if tsi not in self.sources:
                return tsi

    def _not_opened(self, feed: Feed, words: str) -> None:
        feed.failures += 1
        doublings = min(feed.failures - 1, _DOUBLINGS_MAX)
        in_ms = min(self.settings.retry_ms << doublings, self.settings.retry_max_ms)
        feed.retry_at_ms = self.now() + in_ms
        self._reports.state([feed.number], OutgoingQueueState.DISCONNECTED)
        self._reports.history([feed.number], ConnectionStatus.SOCKET_CONNECT_FAILURE, feed.place)
        self._reports.retry([feed.number], in_ms, words)
        self.tell("peer_not_reached", to=feed.place, cause=words, retry_s=in_ms / 1000)
        self.timers.arm(_Retry(self, feed))

    def close_source(self, source: Source) -> None:
        """Graceful: OPT_FIN, and repairs until the window has passed."""
        source.finish(self.now())
        self.changed(source)

    def changed(self, source: Source) -> None:
        """Sends what may be sent."""
        source.tick(self.now())
        self._after(source)

    def _tick(self, source: Source) -> None:
        source.tick(self.now())
        feed = self._owner.get(source)
        idle = source.is_idle and self.now() >= source.last_unit_ms + self.settings.idle_ms
        if feed is not None and feed.source is source and idle:
            feed.finish()
            self._forget_if_done(feed)
        self._after(source)

    def _after(self, source: Source) -> None:
        if source.ended:
            self._drop(source)
        elif source in self._timed:
            self.timers.arm(self._timed[source])

    def _deadline_ms(self, source: Source) -> int | None:
        due = source.next_deadline_ms(self.now())
        feed = self._owner.get(source)
        if source not in self._timed:
            return None
        if due is None or feed is None or feed.source is not source:
            return due
        return min(due, source.last_unit_ms + self.settings.idle_ms) if source.is_idle else due

    def _drop(self, source: Source) -> None:
        timed = self._timed.pop(source, None)
        if timed is None:
            return
        self.timers.forget(timed)
        self._owner.pop(source, None)
        self.sources.pop(source.session.tsi, None)
        self.counts.update({f"past_{name}": n for name, n in source.counts.items()})
        self.tell("multicast_ended", session=source.session.tsi)

    # -- from the network

    def receive(self, datagram: bytes, sender: str, group: str | None) -> None:
        """A datagram that was sent to a group, or to us."""
        try:
            packet = read_pgm(datagram)
        except RemoteProtocolError:
            self.counts["malformed"] += 1
            return
        if group is not None:
            self.reception.receive(group, packet, sender)
            return
        source = self.sources.get(packet.tsi)
        if source is None or packet.port != source.session.port:
            self.counts["strays"] += 1
            return
        source.receive(packet, self.now())
        self._after(source)

    def tick(self) -> None:
        """The time that the network was asked to wake us at has come."""
        self.timers.run(self.now())

    # -- Audience

    def unit_came(self, place: MulticastPlace, source: str, unit: bytes) -> None:
        """3.1.5: a message for each queue that has this address; no answer is sent."""
        size = len(unit)
        try:
            call = self._take_in(place, source, unit)
            self.desk.decide(call, lambda answer: self._safe(size, answer))
        except RemoteProtocolError:
            self.counts["units_malformed"] += 1
            return
        except ServiceNotAvailable:
            return
        self._unsynced += size
        if self._unsynced > self.settings.receive_ahead >= self._unsynced - size:
            self._network.pause()

    def _safe(self, size: int, answer: Answer) -> None:
        before, self._unsynced = self._unsynced, self._unsynced - size
        if self._unsynced <= self.settings.receive_ahead < before:
            self._network.resume()
        if answer.error is not None:
            self.counts["units_refused"] += 1

    def packets_lost(self, place: MulticastPlace, receiver: PgmReceiver, count: int) -> None:
        """Unrecoverable data loss is told, not hidden (RFC 3208 6.3)."""
        self.tell(
            "multicast_lost",
            group=place,
            source=receiver.source,
            session=receiver.tsi,
            packets=count,
        )

    def send_nak(self, group: str, path: str, packet: bytes) -> None:
        """6.3, [MC-MQSRM] note 3: to the last hop, and a copy to the neighbours, always."""
        self._network.unicast(path, packet)
        self._network.multicast_near(group, packet)

    # -- the stop

    def stop(self) -> None:
        """Sessions are finished; what has begun goes out while the network is there."""
        self.stopping = True
        for feed in list(self.feeds.values()):
            feed.finish()
        self.feeds.clear()
        self._look_at_groups()

    @property
    def is_sending(self) -> bool:
        """Whether something that has begun is not out yet, or asked for again."""
        return any(not source.is_idle for source in self.sources.values())

    def abandon(self) -> None:
        """The time is up: what is not out is cancelled."""
        for source in list(self.sources.values()):
            if source.unsent_bytes:
                source.cancel()
            self._drop(source)

    def tell(self, name: str, **details: object) -> None:
        """Something for the log."""
        self.on_event(Event(name, details))

    # -- looking

    def figures(self) -> PgmFigures:
        """What the metrics show."""
        sent = Counter({name: self.counts[f"past_{name}"] for name in _SENT})
        for source in self.sources.values():
            sent.update({name: source.counts[name] for name in _SENT})
        received = {name: self.reception.count(name) for name in _RECEIVED}
        received |= {name: self.reception.counts[name] for name in _REFUSED}
        received |= {name: self.counts[name] for name in _MALFORMED}
        live = [one for one in self.reception.receivers if not one.ended]
        return PgmFigures(len(self.sources), len(self._joined), len(live), dict(sent), received)


_SENT = ("data", "repairs", "spms", "confirmations", "bytes", "naks", "naks_outside")
_RECEIVED = ("units", "repaired", "duplicates", "beyond", "lost", "naks")
_MALFORMED = ("malformed", "units_malformed", "units_refused", "strays")
_REFUSED = ("foreign", "ignored", "sessions_refused")


class _Retry:
    """An outgoing queue that waits for its group to be reachable."""

    def __init__(self, protocol: PgmProtocol, feed: Feed) -> None:
        self._protocol = protocol
        self._feed = feed
        self._at_ms = feed.retry_at_ms

    def tick(self) -> None:
        """Tries again, unless that was done."""
        feed = self._feed
        if self._at_ms is not None and feed.retry_at_ms == self._at_ms <= self._protocol.now():
            feed.retry_at_ms = self._at_ms = None
            feed.look()

    def next_deadline_ms(self) -> int | None:
        """When that is."""
        return self._at_ms if self._feed.retry_at_ms == self._at_ms else None


class _Joining:
    """The timer of groups that could not be joined."""

    def __init__(self, due: Callable[[], None]) -> None:
        self.at_ms: int | None = None
        self._due = due

    def tick(self) -> None:
        """Tries again."""
        self._due()

    def next_deadline_ms(self) -> int | None:
        """When that is."""
        return self.at_ms
