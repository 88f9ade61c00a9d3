"""The binary protocol of one queue manager: all its sessions, links and timers ([MS-MQQB] 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple
from weakref import ref

from posthouse.engine.ledger.effects import Event
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import ORDER_QUEUE, Queue
from posthouse.engine.settings import host_key
from posthouse.engine.transfer.protocol_interface import QUIET_MS, Peer
from posthouse.model.bounded_tables import Bounded
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.names import DirectName, PrivateName, parse_format_name
from posthouse.protocols.binary.close_reasons import OWN_GUID, SILENT
from posthouse.protocols.binary.link import BinaryLink
from posthouse.protocols.binary.links import BinaryLinks
from posthouse.protocols.binary.network import BinaryNetwork
from posthouse.protocols.binary.next_hop_lookup import (
    Destination,
    NextHop,
    as_address,
    reached_at,
    resolvable,
)
from posthouse.protocols.binary.order_acks import OrderAckTimers
from posthouse.protocols.binary.peer_addresses import LOOK_UP_MS, Whereabouts
from posthouse.protocols.binary.ping import Pinger
from posthouse.protocols.binary.session import BinarySession, BinaryTransport, Role
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.timers import Timers

CLONES_MAX = 100
CALLERS_MAX = 10_000  # addresses of queue managers that have called, for the time after


class BinaryFigures(NamedTuple):
    """What the metrics show of the protocol."""

    sessions: dict[tuple[str, str], int]  # by role and state
    links: dict[str, int]  # by state
    opened: dict[str, int]  # sessions that were OPEN, so far, by role
    refused: dict[str, int]  # what closed sessions, and sessions not taken, by reason
    traffic: dict[str, int]  # packets, bytes and messages, each in and out, so far
    pings_asked: int
    pings_answered: int


class BinaryProtocol:
    """`Host` of all sessions. Everything it does follows from calls: it has no clock of its own."""

    def __init__(
        self,
        desk: Desk,
        settings: BinarySettings,
        network: BinaryNetwork,
        now: Callable[[], int],
        ping: PingSettings | None = None,
    ) -> None:
        ping = ping or PingSettings()
        self.desk = desk
        self.settings = settings
        self.now = now
        self.stopping = False
        self.on_event: Callable[[Event], None] = lambda event: None  # for the log
        self.timers = Timers(network.wake_at)
        self.pinger = Pinger(
            lambda: desk.manager.machine.identifier,
            network.ping,
            now,
            ping,
            self.timers.arm,
        )
        self.links = BinaryLinks(
            desk,
            settings,
            network,
            now,
            timers=self.timers,
            pinger=self.pinger,
            make_session=self._initiate,
            carrier=self._carrier,
            bound_host=self._bound_host,
            tell=lambda name, **details: self.on_event(Event(name, details)),
        )
        self._whereabouts = Whereabouts(desk, network, self.links.is_hop)
        self.sessions: dict[BinarySession, BinaryLink | None] = {}  # None: others opened it
        self.refusals: Counter[str] = Counter()
        self._order_acks = _OrderAcks(self)
        self._sharing = _Sharing(self)
        self._by_guid: dict[
            bytes, list[BinarySession]
        ] = {}  # the open ones, in the order of opening
        self._admitted: set[BinarySession] = set()  # of those that others opened
        self._opened: Counter[str] = Counter()
        self._ended = [0] * len(_COUNTS)
        self._ack_from = frozenset(map(host_key, settings.ack_from))
        # Addresses that have claimed to be this queue manager; each is in the log once.
        self._clones: Bounded[str, None] = Bounded(CLONES_MAX)
        self._kept: set[BinarySession] = set()  # whose address the engine has been told
        self._senders: dict[bytes, BinarySession] = {}  # who sent in a sequence last, by its GUID
        desk.manager.transfer.follow_connections(self._by_guid.__contains__)

    # -- from the engine

    def start(self) -> None:
        """Queue Manager Started (3.1.4.1): connects for every queue that has messages."""
        queues = self.desk.manager.queues.outgoing_queues()
        self.active([queue.number for queue in queues if queue.state.count])

    def active(self, numbers: Iterable[int]) -> None:
        """Something has changed for these outgoing queues (3.1.7.12-14)."""
        if not self.desk.manager.transfer.connection_active:
            self._close_all("the queue manager is offline")
        self.links.look_at_routes()
        for number in numbers:
            self.links.look(number)

    def retry(self, number: int) -> bool:
        """An operator wants an outgoing queue connected now; False: it has no messages."""
        return self.links.retry_now(number)

    def stop(self) -> None:
        """Queue Manager Stopped (3.1.4.2): every session is closed, without a farewell."""
        self.stopping = True
        self.links.stop()
        self._close_all("the queue manager is stopping")

    def _close_all(self, reason: str) -> None:
        for session in list(self.sessions):
            session.leave(reason)

    # -- from the network

    def accept(self, transport: BinaryTransport, address: str) -> BinarySession:
        """A connection that somebody opened to us (3.1.5.10)."""
        session = self._new_session(transport, Role.ACCEPTOR, address, None)
        session.connected()
        return session

    def tick(self) -> None:
        """The time that the network was asked to wake us at has come."""
        self.timers.run(self.now())

    def next_deadline_ms(self) -> int | None:
        """When something is due; the network has been told."""
        return self.timers.next_deadline_ms()

    def ping_asked(self, datagram: bytes) -> bytes | None:
        """A datagram on the ping port, and its answer (3.1.7.7)."""
        return self.pinger.receive_request(datagram, refused=not self._has_room)

    def ping_answered(self, datagram: bytes, address: str) -> None:
        """A datagram on the port that pings were sent from (3.1.7.8)."""
        self.pinger.receive_response(datagram, address)

    # -- sessions

    def _new_session(
        self,
        transport: BinaryTransport,
        role: Role,
        address: str,
        link: BinaryLink | None,
        server_guid: bytes = NULL_GUID,
    ) -> BinarySession:
        session = BinarySession(
            self.desk,
            self.settings,
            transport,
            self,
            role=role,
            own_guid=self.desk.manager.machine.identifier,
            peer_address=address,
            now=self.now,
            server_guid=server_guid,
            pinged=link is not None and link.pinged,
            direct=link is not None and server_guid == NULL_GUID,
            routing_server=self.desk.manager.machine.settings.queue_manager.routing_server,
        )
        self.sessions[session] = link
        return session

    def _initiate(
        self, link: BinaryLink, transport: BinaryTransport, hop: NextHop
    ) -> BinarySession:
        return self._new_session(transport, Role.INITIATOR, hop.address, link, hop.guid)

    @property
    def _has_room(self) -> bool:
        """Whether one more session would be taken: 3.1.5.3.1, 3.1.7.7."""
        online = self.desk.manager.transfer.connection_active and not self.stopping
        return online and len(self._admitted) < self.settings.sessions_max

    def rearm(self, session: BinarySession) -> None:
        """A session has something to do earlier than it thought."""
        self.timers.arm(session)

    def admits(self, session: BinarySession) -> bool:
        """Decision 74: whether the limits allow a session that others open."""
        if not self._has_room:
            return False
        self._admitted.add(session)
        return True

    def established(self, session: BinarySession) -> None:
        """An initiator has its first answer."""
        link = self.sessions[session]
        if link is not None:
            self.links.greeted(link)

    def opened(self, session: BinarySession) -> None:
        """A session is OPEN, and known by the GUID at its other end (decision 40)."""
        guid, link = session.remote_guid, self.sessions[session]
        self._opened[session.role.value] += 1
        self._by_guid.setdefault(guid, []).append(session)
        self._tell("session_opened", session)
        if link is not None:
            self.links.opened(link, guid)
        else:
            self._remember_caller(guid, session.remote_address)
        session.hold(self.now() + LOOK_UP_MS)  # the answer may come at once
        if not self._whereabouts.look_up(guid, session.remote_address, session.release):
            session.release()
        self.links.peer_came(guid, session.remote_address, self._by_guid[guid])
        self._sharing.came(guid)
        if link is not None:
            self.links.look_at_way(link)

    def _tell(self, name: str, session: BinarySession, **more: object) -> None:
        peer, address = format_guid(session.remote_guid), session.remote_address
        details = {"role": session.role.value, "peer": peer, "address": address}
        self.on_event(Event(name, details | more))

    def _remember_caller(self, guid: bytes, address: str) -> None:
        callers = self.links.callers
        callers.pop(guid, None)
        callers[guid] = address
        if len(callers) > CALLERS_MAX:
            del callers[next(iter(callers))]

    def closed(self, session: BinarySession, reason: str) -> None:
        """A session is gone; its link may open another."""
        link = self.sessions.pop(session)
        if session.was_open:
            self._tell("session_closed", session, reason=reason)
        elif reason == SILENT:
            self.refused(reason)
        elif reason == OWN_GUID and session.remote_address not in self._clones:
            self._clones[session.remote_address] = None
            self._tell("own_guid_claimed", session)
        self._forget(session)
        if link is not None:
            status = _STATUS.CONNECTION_REFUSED if session.refused else _STATUS.UNKNOWN_FAILURE
            if session.refused and link.hop is not None and link.hop.guid != NULL_GUID:
                reason += (
                    f": it takes no more sessions, or what listens on {session.remote_address}"
                    f" is not queue manager {format_guid(link.hop.guid)}"
                )
            self.links.closed(link, status, reason, idle=session.was_idle)
        self.links.session_ended(session)

    def _forget(self, session: BinarySession) -> None:
        self.timers.forget(session)
        self._kept.discard(session)
        self._admitted.discard(session)
        if self._senders.get(session.remote_guid) is session:
            del self._senders[session.remote_guid]
        self._order_acks.forget(session)
        for at, name in enumerate(_COUNTS):
            self._ended[at] += getattr(session, name)
        same = self._by_guid.get(session.remote_guid, [])
        if session in same:
            same.remove(session)
            if not same:
                del self._by_guid[session.remote_guid]

    def sessions_with(self, guid: bytes) -> list[BinarySession]:
        """The open sessions with a queue manager, in the order of their opening."""
        return list(self._by_guid.get(guid, ()))

    def refused(self, reason: str) -> None:
        """Counts what closed a session or kept it from opening."""
        self.refusals[reason] += 1

    # -- which peers may acknowledge

    def _bound_host(self, queue: Queue) -> str:
        return self._whereabouts.bound_host(queue, partial(self.links.look, queue.number))

    def _carrier(self, guid: bytes, number: int) -> BinarySession | None:
        """Decision 40: the session for what is owed to a queue manager.

        One that we opened, else one from the address that is believed to be its own; of several
        the latest, since older ones may be dead. Decision 24: one from another carries nothing.
        """
        found = self._by_guid.get(guid)
        queue = self.desk.manager.queues.get(number)
        if not found or queue is None:
            return None
        if host := self._whereabouts.bound_host(queue):
            there = [session for session in found if session.peer.host == host]
            return there[-1] if there else None
        ours = [session for session in found if self._is_its_own(guid, session)]
        if ours:
            return ours[-1]
        address = self._believed_address(guid, number, found)
        here = [session for session in found if host_key(session.remote_address) == address]
        return here[-1] if here else None

    def _is_its_own(self, guid: bytes, session: BinarySession) -> bool:
        """Whether we opened it, and nothing is known that speaks against the GUID.

        A machine of the directory is where its entry leads: who was called by another name may lie.
        """
        link = self.sessions.get(session)
        if session.role is not Role.INITIATOR or (link is not None and link.is_bound):
            return False
        manager, address = self.desk.manager, session.remote_address
        if manager.transfer.knows_machine(guid):
            return self._whereabouts.is_there(guid, address)
        reached, port = manager.transfer.address_of(guid) or ("", None)
        return port is None or host_key(reached) == host_key(address)

    def _believed_address(self, guid: bytes, number: int, found: list[BinarySession]) -> str:
        """Anybody can claim a GUID. Where we have reached the machine ourselves counts most.

        Else acknowledgments of order go to who sent the messages, and the rest to who came first,
        but only where nothing else is known of the machine.
        """
        manager, first = self.desk.manager, host_key(found[0].remote_address)
        reached, port = reached_at(manager, guid)
        at = host_key(reached)
        name = parse_format_name(manager.queues.numbered(number).definition.format_name)
        if not isinstance(name, PrivateName) or name.number != ORDER_QUEUE:
            if manager.transfer.knows_machine(guid):
                return "" if port is None else at
            return at or first
        if port is not None and any(host_key(each.remote_address) == at for each in found):
            return at
        sender = self._senders.get(guid)
        if manager.transfer.knows_machine(guid):
            there = [s for s in found if self._whereabouts.is_there(guid, s.remote_address)]
            return host_key(there[-1].remote_address) if there else ""
        return first if sender is None else host_key(sender.remote_address)

    def peer_of(self, session: BinarySession) -> Peer:
        """The other end, as the engine has it; the session has this, so this has no session."""
        known = ref(session)

        def may_acknowledge(queue: int) -> bool:
            found = known()
            return found is not None and self._may_acknowledge(found, queue)

        def may_pass_on(source: bytes) -> bool:
            found = known()
            return found is not None and self._may_pass_on(found, source)

        return Peer(session.remote_guid, session.remote_address, may_acknowledge, may_pass_on)

    def _may_acknowledge(self, session: BinarySession, number: int) -> bool:
        """Decision 24: on the session to that destination, or from where its name leads."""
        own = self.sessions.get(session)
        if own is not None and number in own.served:
            return True
        if number in self.links.cargo_of(session):
            return True
        if host_key(session.remote_address) in self._ack_from or self._leads_to(number, session):
            return True
        guid, machine = session.remote_guid, self._machine_of(number)
        if machine != guid and not (machine and self._is_router(guid)):
            return False
        return self._is_who_it_says(session)

    def _may_pass_on(self, session: BinarySession, source: bytes) -> bool:
        """Whether acknowledgments that a machine wrote are passed on if they come on this session.

        Machines after us trust us as their router (decision 24), so we trust only the machine that
        wrote them and other routers, each at its own address.
        """
        if host_key(session.remote_address) in self._ack_from:
            return True
        guid = session.remote_guid
        return (guid == source or self._is_router(guid)) and self._is_who_it_says(session)

    def _is_who_it_says(self, session: BinarySession) -> bool:
        guid, address = session.remote_guid, session.remote_address
        there = self._whereabouts.is_there(guid, address)
        if not there and self._whereabouts.is_unsure(guid):
            # Peers send a final acknowledgment only once. Close the session, so that the peer
            # resends it on the next one.
            why = "it acknowledges messages, and the name of its machine cannot be resolved now"
            raise RemoteProtocolError(f"{address}: {why}")
        return there

    def _is_router(self, guid: bytes) -> bool:
        """Whether the directory has it as a machine that routes messages to us."""
        manager = self.desk.manager
        return manager.directory.routes_for_us(guid)

    def _machine_of(self, number: int) -> bytes:
        """The machine of the directory that an outgoing queue leads to; empty if it is none.

        The answers for a queue that is named by its host take other ways than its messages did
        when its machine has gone: then it counts who answered there.
        """
        manager = self.desk.manager
        queue = manager.queues.numbered(number)
        host = self._whereabouts.bound_host(queue)
        found = resolvable(manager, queue.definition.format_name, host)
        if not isinstance(found, Destination):
            return b""
        guid = manager.transfer.info(queue).peer if found.is_direct else found.guid
        return guid if manager.transfer.knows_machine(guid) else b""

    def _leads_to(self, number: int, session: BinarySession) -> bool:
        """Whether the name of an outgoing queue leads to the other end of a session.

        A final acknowledgment is sent only once, so there must be an answer also while the queue
        has no link or its host is not resolved: then a host name leads to where it led before.
        """
        guid, address = session.remote_guid, host_key(session.remote_address)
        link = self.links.link_of(number)
        if link is not None and link.addresses:
            return link.guid in (b"", guid) and address in link.addresses
        manager = self.desk.manager
        queue = manager.queues.numbered(number)
        name = parse_format_name(queue.definition.format_name)
        if isinstance(name, DirectName) and as_address(name.host) is not None:
            return host_key(name.host) == address
        private = name if isinstance(name, PrivateName) else None
        if guid != (private.guid if private else manager.transfer.info(queue).peer):
            return False
        reached, port = reached_at(manager, guid)
        return host_key(reached) == address and (private is not None or port is not None)

    # -- order acknowledgments

    def sequences_touched(
        self, session: BinarySession, sequences: tuple[tuple[int, bytes], ...]
    ) -> None:
        """Schedules the order acknowledgments of transactional messages that are durable now.

        The sender's address is noted, for acknowledgments that are due after it has gone.
        """
        may_answer = self.desk.manager.transfer.may_answer
        self._order_acks.touched(session, tuple(one for one in sequences if may_answer(one[1])))
        self._note_sender(session, sequences)
        if session.role is Role.ACCEPTOR and session not in self._kept:
            self._kept.add(session)
            guid, address = session.remote_guid, session.remote_address
            if self.desk.manager.transfer.address_of(guid) is None:  # anybody can claim a GUID
                self.desk.decide(lambda m: m.transfer.reached(guid, address, None), _nothing)

    def _note_sender(
        self, session: BinarySession, sequences: tuple[tuple[int, bytes], ...]
    ) -> None:
        """Acknowledgments go to the session that the messages came on, whichever others claim the
        GUID.
        """
        guid = session.remote_guid
        if self._senders.get(guid) is not session and guid in [source for _, source in sequences]:
            self._senders[guid] = session
            self.links.peer_came(guid, session.remote_address, self._by_guid[guid])

    # -- what people see

    def figures(self) -> BinaryFigures:
        """The state of everything, and what has been so far."""
        counts = list(self._ended)
        sessions: Counter[tuple[str, str]] = Counter()
        for session in self.sessions:
            sessions[session.role.value, session.state.value] += 1
            for at, name in enumerate(_COUNTS):
                counts[at] += getattr(session, name)
        links = Counter(link.state.value for link in self.links.all())
        return BinaryFigures(
            dict(sessions),
            dict(links),
            dict(self._opened),
            dict(self.refusals),
            dict(zip(_COUNTS, counts, strict=True)),
            self.pinger.asked,
            self.pinger.answered,
        )


_STATUS = ConnectionStatus
_COUNTS = ("packets_in", "packets_out", "bytes_in", "bytes_out", "messages_in", "messages_out")


class _OrderAcks:
    """The Order Ack Send Timers (3.1.2.7) of the whole protocol, as one owner of timers."""

    def __init__(self, protocol: BinaryProtocol) -> None:
        self._protocol = protocol
        self._timers = OrderAckTimers(protocol.settings)

    def touched(self, session: BinarySession, sequences: tuple[tuple[int, bytes], ...]) -> None:
        """Each host has its own timers: who claims the GUID of another delays none of its."""
        host = session.peer.host
        named = [(queue, source, host) for queue, source in sequences]
        self._timers.touched(session, named, self._protocol.now())
        self._protocol.timers.arm(self)

    def forget(self, session: BinarySession) -> None:
        self._timers.forget(session)

    def next_deadline_ms(self) -> int | None:
        return self._timers.next_deadline_ms()

    def tick(self) -> None:
        """Order Ack Send Timer Event (3.1.6.9)."""
        due = self._timers.due(self._protocol.now())
        if due:
            self._protocol.desk.decide(
                lambda manager: [manager.transfer.send_order_ack(*each) for each in due],
                _nothing,
            )


class _Sharing:
    """When a machine that is connected gets copies of what waits for other hosts of it."""

    def __init__(self, protocol: BinaryProtocol) -> None:
        self._protocol = protocol
        self._due: dict[bytes, int] = {}  # by GUID, the earliest first

    def came(self, guid: bytes) -> None:
        """A session is open: its machine may have moved."""
        if guid not in self._due and self._protocol.desk.manager.transfer.may_have_moved(guid):
            settings = self._protocol.settings
            idle_ms = min(settings.cleanup_ms, settings.cleanup_routing_ms)
            self._due[guid] = self._protocol.now() + min(QUIET_MS, idle_ms // 2)
            self._protocol.timers.arm(self)

    def next_deadline_ms(self) -> int | None:
        return next(iter(self._due.values()), None)

    def tick(self) -> None:
        protocol, now_ms = self._protocol, self._protocol.now()
        while self._due and next(iter(self._due.values())) <= now_ms:
            guid = next(iter(self._due))
            del self._due[guid]
            hosts = list(dict.fromkeys(each.peer.host for each in protocol.sessions_with(guid)))
            if hosts:
                protocol.desk.decide(partial(_share, guid, hosts), partial(self._shared, guid))

    def _shared(self, guid: bytes, answer: Answer) -> None:
        if answer.value:
            self.came(guid)


def _share(guid: bytes, hosts: list[str], manager: QueueManager) -> bool:
    return manager.transfer.share_answers(guid, hosts)


def _nothing(answer: Answer) -> None:
    """This answer is not waited for."""
