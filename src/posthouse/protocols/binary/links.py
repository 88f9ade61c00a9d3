"""All links: which outgoing queue goes where, and when to connect ([MS-MQQB] 3.1.5.2, 3.1.7.12-14).

One link for each destination; names with the same host and port share it. Sessions are never
merged: what is owed to a queue manager may travel on any session with it (decision 40), the rest on
the session that its link opened.
"""

from __future__ import annotations

from collections.abc import Callable

from posthouse.engine.queues.queue import HELD, OutgoingQueueState, Queue
from posthouse.engine.settings import host_key
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.guids import NULL_GUID
from posthouse.model.names import parse_format_name
from posthouse.model.next_hops import NextHop as HopText
from posthouse.protocols.binary.caller_links import CallerLinks
from posthouse.protocols.binary.link import BinaryLink
from posthouse.protocols.binary.link_states import BinaryLinkEvent, BinaryLinkState
from posthouse.protocols.binary.network import BinaryNetwork
from posthouse.protocols.binary.next_hop_lookup import (
    Destination,
    NextHop,
    Unresolved,
    candidates_or_none,
    is_elsewhere,
    is_handled,
    may_be_at,
    resolvable,
    routed_or_none,
)
from posthouse.protocols.binary.ping import Pinger
from posthouse.protocols.binary.session import BinarySession, BinaryTransport
from posthouse.protocols.binary.session_setup import Establishing
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.outgoing_reports import Reports
from posthouse.protocols.timers import Timers

_STATE = OutgoingQueueState
_DOUBLINGS_MAX = 32
_STOPPED = Unresolved(ConnectionStatus.UNKNOWN_FAILURE, "the queue manager has stopped")

MakeSession = Callable[[BinaryLink, BinaryTransport, NextHop], BinarySession]
Tell = Callable[..., None]
Carrier = Callable[[bytes, int], BinarySession | None]
"""The open session on which what is owed to a queue manager travels, for an outgoing queue."""


class BinaryLinks:
    """The links, and the outgoing queues on them or on sessions that were there anyway."""

    def __init__(
        self,
        desk: Desk,
        settings: BinarySettings,
        network: BinaryNetwork,
        now: Callable[[], int],
        *,
        timers: Timers,
        pinger: Pinger,
        make_session: MakeSession,
        carrier: Carrier,
        bound_host: Callable[[Queue], str],
        tell: Tell = lambda name, **details: None,
    ) -> None:
        self.desk = desk
        self.settings = settings
        self.callers: dict[bytes, str] = {}  # where queue managers have last called from
        self.stopped = False
        self._now = now
        self._timers = timers
        self._make_session = make_session
        self._carrier = carrier
        self._bound_host = bound_host  # the only one that may have what is for a queue
        self._tell = tell
        self._reports = Reports(desk)
        self._establishing = Establishing(
            *(self._reports, network, pinger, self),
            direct_attempts=settings.direct_attempts,
            caller_of=lambda guid: self.callers.get(guid, ""),
        )
        self._links: dict[object, BinaryLink] = {}
        self._of_queue: dict[int, BinaryLink] = {}
        # By GUIDs and addresses of the far end; in order, so that simulations repeat themselves.
        self._by_peer: dict[bytes | str, dict[BinaryLink, None]] = {}
        self._routes_seen = 0, 0  # versions of the directory, when routes were looked at last
        self._callers = CallerLinks(self._reports, self.callers, settings.links_per_caller)
        self._carried: dict[int, BinarySession] = {}
        self._cargo: dict[BinarySession, set[int]] = {}

    # -- which queue is where

    def all(self) -> list[BinaryLink]:
        """Every link, to look at."""
        return list(self._links.values())

    def link_of(self, number: int) -> BinaryLink | None:
        """The link that an outgoing queue is on."""
        return self._of_queue.get(number)

    def look(self, number: int) -> None:
        """Something has changed for an outgoing queue: its messages, its state, or its peer."""
        queue = self._queue(number)
        if queue is None or not self._may_send(queue):
            self._leave(number)
            return
        session, link = self.session_of(number), self._of_queue.get(number)
        if session is not None:
            session.attach(number)
        elif link is None and self._has_reason(queue):
            self._join(queue)
        elif link is not None and not queue.state.count:
            if link.is_resting:  # what it waited for has come
                self._reports.retry([number], None, "")
            self._leave(number)
        elif link is not None and (self._is_due(queue, link) or self._has_new(queue, link)):
            self.retry_now(number)

    def _is_due(self, queue: Queue, link: BinaryLink) -> bool:
        """An operator may have brought the time of the next attempt forward."""
        assert queue.outgoing is not None
        due = 0 < queue.outgoing.retry_time <= self.desk.manager.machine.utc
        return due and link.state is BinaryLinkState.WAITING_RECONNECT

    def _has_new(self, queue: Queue, link: BinaryLink) -> bool:
        """Whether messages came while all others only wait for answers."""
        mark, messages = link.rests_since, self.desk.manager.messages
        return mark is not None and any(True for _ in messages.after(queue, mark))

    def session_of(self, number: int) -> BinarySession | None:
        """The session that has the messages of an outgoing queue, open or not."""
        link = self._of_queue.get(number)
        return self._carried.get(number) or (None if link is None else link.session)

    def _queue(self, number: int) -> Queue | None:
        """3.1.7.12: an outgoing queue of this protocol; None for any other."""
        queue = self.desk.manager.queues.get(number)
        if queue is None or queue.deleted or queue.outgoing is None:
            return None
        return queue if is_handled(parse_format_name(queue.definition.format_name)) else None

    def _may_send(self, queue: Queue) -> bool:
        """3.1.7.12: neither OnHold nor Locked; and the machine is online."""
        assert queue.outgoing is not None
        online = self.desk.manager.transfer.connection_active and not self.stopped
        return online and queue.outgoing.state not in HELD

    def _needs_session(self, queue: Queue) -> bool:
        """Whether it has more than messages that only wait for their acknowledgments."""
        return queue.state.count > self._arrived(queue)

    def _awaits_final(self, queue: Queue) -> bool:
        return self._arrived(queue) > 0

    def _arrived(self, queue: Queue) -> int:
        """Asked in a turn, for it may have to count them while others send."""
        return self._reports.ask(lambda manager: manager.transfer.arrived(queue), 0)

    def _has_reason(self, queue: Queue) -> bool:
        return self._needs_session(queue) or self._awaits_final(queue)

    def _join(self, queue: Queue) -> None:
        """Puts a queue where its messages go, and connects unless that has begun."""
        found = self._destination(queue)
        if isinstance(found, Destination):
            session = None if found.is_direct else self._session_towards(found, queue.number)
            if session is not None:
                self._carry(queue.number, session)
                return
            if found.key not in self._links and not self._callers.may_link(found, queue):
                self._await(queue.number, found.guid)
                return
            link = self._enter(queue.number, found.key, found)
        else:
            link = self._enter(queue.number, queue.definition.format_name, None)
        if link.state is BinaryLinkState.IDLE:
            self._begin(link, by_timer=False)
        elif link.session is not None:
            self._reports.state([queue.number], _state_on(link))
            self._reports.next_hops([queue.number], link.hops)
            self._attach(link, queue.number, link.session)
        elif link.is_resting and self._needs_session(queue):
            self._begin(link, by_timer=True)
        else:
            self._tell_pause(queue.number, link)

    def _await(self, number: int, guid: bytes) -> None:
        """A queue waits, without link and timer, until its machine opens a session."""
        self._leave(number)
        self._reports.state([number], _STATE.NEED_VALIDATION)
        self._reports.retry([number], None, "it waits for its queue manager to open a session")
        self._callers.wait(number, guid)

    def _tell_pause(self, number: int, link: BinaryLink) -> None:
        """A queue waits as the others of its link do."""
        if link.state is BinaryLinkState.WAITING_RECONNECT and link.retry_at_ms is not None:
            pause_ms = max(link.retry_at_ms - self._now(), 0)
            self._reports.retry([number], pause_ms, link.last_error)

    def _session_towards(self, destination: Destination, number: int) -> BinarySession | None:
        """A session that is there anyway: with the queue manager itself, or with a next hop."""
        guid = destination.guid
        session = self._carrier(guid, number)
        if session is None and not destination.host:
            hops = self._reports.ask(lambda manager: routed_or_none(manager, guid), ())
            found = (self._carrier(hop, number) for hop in hops)
            session = next((each for each in found if each is not None), None)
        return session

    def _destination(self, queue: Queue) -> Destination | Unresolved:
        name, host = queue.definition.format_name, self._bound_host(queue)
        return self._reports.ask(lambda manager: resolvable(manager, name, host), _STOPPED)

    def _enter(self, number: int, key: object, destination: Destination | None) -> BinaryLink:
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = BinaryLink(key, destination, self._retry_due)
        if self._of_queue.get(number) is not link:
            self._leave(number)
        self._of_queue[number] = link
        link.queues[number] = None
        return link

    def _attach(self, link: BinaryLink, number: int, session: BinarySession) -> None:
        link.served.add(number)
        session.attach(number)

    def _leave(self, number: int) -> None:
        """A queue has nothing to send, or may not, or goes another way."""
        self._callers.stop_waiting(number)
        session = self._carried.pop(number, None)
        if session is not None:
            self._cargo[session].discard(number)
            session.detach(number)
        link = self._of_queue.pop(number, None)
        if link is not None:
            del link.queues[number]
            if link.session is not None:
                link.session.detach(number)
            if not link.queues:
                self._drop(link)

    def _drop(self, link: BinaryLink) -> None:
        """No queue needs the link now. A session that is open ends when it has been idle."""
        if link.session is None:
            link.attempt += 1
            link.happened(BinaryLinkEvent.END)
            self._timers.forget(link)
            self._links.pop(link.key, None)
            self._callers.left(link.key)
            self._forget_peers(link)

    def _know_peers(self, link: BinaryLink) -> None:
        """The machine with this GUID or these addresses is probably there again."""
        self._forget_peers(link)
        link.peers = {*link.addresses}
        if link.guid:
            link.peers.add(link.guid)
        for peer in link.peers:
            self._by_peer.setdefault(peer, {})[link] = None

    def _forget_peers(self, link: BinaryLink) -> None:
        for peer in link.peers:
            del self._by_peer[peer][link]
            if not self._by_peer[peer]:
                del self._by_peer[peer]
        link.peers = set()

    def is_hop(self, guid: bytes, address: str) -> bool:
        """Whether a link leads, or has led, to this queue manager at this address."""
        return any(link.leads_to(guid, address) for link in self._links.values())

    # -- routes

    def look_at_routes(self) -> None:
        """The directory has changed: what would go another way by now does so."""
        seen = self.desk.manager.directory.versions
        if seen == self._routes_seen:
            return
        self._routes_seen = seen
        for number in self._callers.all_waiting():
            self.look(number)
        for number, session in list(self._carried.items()):
            if self._is_astray(number, session):
                self._leave(number)
                self.look(number)
        for link in self.all():
            waited = link.state is BinaryLinkState.WAITING_RECONNECT
            if not self._turn_back(link) and waited and self._has_new_way(link):
                self._begin(link, by_timer=True)

    def _turn_back(self, link: BinaryLink) -> bool:
        """Ends a session that leads elsewhere than its messages go by now; True: there was one."""
        old = link.session
        if old is None or not any(self._is_astray(number, old) for number in link.queues):
            return False
        old.leave("the directory has another route now")
        if link.state is BinaryLinkState.WAITING_RECONNECT:
            self._begin(link, by_timer=True)
        return True

    def look_at_way(self, link: BinaryLink) -> None:
        """A session is open to where the directory has led; perhaps that changed meanwhile."""
        if link.routes_seen != self._routes_seen:
            self._turn_back(link)

    def _has_new_way(self, link: BinaryLink) -> bool:
        """Whether there is somebody to try that there was not when the timer began."""
        destination = link.destination
        if destination is None:
            queues = [queue for number in link.queues if (queue := self._queue(number))]
            return any(isinstance(self._destination(queue), Destination) for queue in queues)
        if destination.host:
            return False
        found = self._reports.ask(lambda m: candidates_or_none(m, destination.guid), [])
        return bool(found) and (link.has_no_way or not link.has_tried(found))

    def _is_astray(self, number: int, session: BinarySession) -> bool:
        """Whether a session leads neither to the machine that a queue is on, nor towards it.

        One to where that machine, or the hop, has been before leads nowhere.
        """
        queue = self._queue(number)
        found = None if queue is None else self._destination(queue)
        if not isinstance(found, Destination) or found.is_direct or not session.is_open:
            return False
        guid, there, address = found.guid, session.remote_guid, session.remote_address
        if found.host:
            return host_key(found.host) != session.peer.host
        hops = self._reports.ask(lambda manager: routed_or_none(manager, guid), ())
        if hops and there not in (guid, *hops):
            return True
        return self._reports.ask(lambda manager: is_elsewhere(manager, there, address), False)

    # -- sessions that are there anyway (decision 40)

    def _carry(self, number: int, session: BinarySession) -> None:
        self._leave(number)
        self._carried[number] = session
        self._cargo.setdefault(session, set()).add(number)
        self._reports.state([number], _STATE.CONNECTED)
        self._reports.next_hops([number], [HopText.of_ip(session.remote_address)])
        session.attach(number)

    def peer_came(self, guid: bytes, address: str, sessions: list[BinarySession]) -> None:
        """A session with a queue manager is open: what waits for it no longer needs a timer.

        What travels on an older one moves to the new one, for the older may be dead.
        """
        keys = [Destination(at, None, guid).key for at in ("", address.partition("%")[0])]
        links = [link for key in keys if (link := self._links.get(key)) is not None]
        waiting = [number for link in links if link.session is None for number in link.queues]
        waiting += self._callers.awaited(guid)
        cargo = [number for session in sessions for number in self._cargo.get(session, ())]
        for number in waiting + cargo:
            session = self._carrier(guid, number)
            if session is not None and session is not self._carried.get(number):
                self._carry(number, session)
        known = self._by_peer.get(guid, {}) | self._by_peer.get(host_key(address), {})
        for link in [*links, *known]:
            if link.state is BinaryLinkState.WAITING_RECONNECT:
                self._begin(link, by_timer=True)

    def session_ended(self, session: BinarySession) -> None:
        """What travelled on a session because it was there looks for another way."""
        for number in self._cargo.pop(session, ()):
            del self._carried[number]
            self._reports.state([number], _STATE.DISCONNECTED)
            if not self._rest_alone(number, idle=session.was_idle):
                self.look(number)

    def _rest_alone(self, number: int, *, idle: bool) -> bool:
        """A queue of which everything was sent needs no session of its own at once."""
        queue = self._queue(number)
        if queue is None or not self._may_send(queue) or not self._has_reason(queue):
            return False
        found = self._destination(queue)
        unsent = self._needs_session(queue) and (not idle or queue.locked > 0)
        if unsent or not isinstance(found, Destination):
            return False
        others = self._links.get(found.key)
        if others is not None and not others.is_resting:
            return False
        link = self._enter(number, found.key, found)
        if others is not None:
            self._tell_pause(number, link)
        elif self._needs_session(queue):
            self._rest(link)
        else:
            self._wait(link, self.settings.final_ack_look_ms, "", rests=True)
        return True

    def cargo_of(self, session: BinarySession) -> set[int]:
        """The outgoing queues that travel on a session because it is there."""
        return self._cargo.get(session, set())

    # -- connecting

    def _begin(self, link: BinaryLink, *, by_timer: bool) -> None:
        """Establish a Protocol Session (3.1.5.2) from its beginning."""
        self._move_strays(link)
        if by_timer:
            self._share_session(link)
        if not link.queues:
            return
        if link.destination is not None:
            link.routes_seen = self._routes_seen
            self._establishing.resolve(link, by_timer=by_timer)
            return
        link.attempt += 1
        (number,) = link.queues  # a name of its own
        queue = self._queue(number)
        found = _STOPPED if queue is None else self._destination(queue)
        assert isinstance(found, Unresolved)
        self.failed(link, found.status, found.words, _STATE.NEED_VALIDATION)

    def _move_strays(self, link: BinaryLink) -> None:
        """The directory may show now where a name leads, or lead it elsewhere."""
        for number in list(link.queues):
            queue = self._queue(number)
            if queue is None or not self._may_send(queue):
                self._leave(number)
                continue
            found = self._destination(queue)
            key = found.key if isinstance(found, Destination) else queue.definition.format_name
            if key != link.key:
                self._leave(number)
                self._join(queue)

    def _share_session(self, link: BinaryLink) -> None:
        """Another link may have reached the same next hop: one session serves all of them."""
        destination = link.destination
        if destination is None or destination.is_direct:
            return
        for number in list(link.queues):
            session = self._session_towards(destination, number)
            if session is not None:
                self._carry(number, session)

    def connected(
        self, link: BinaryLink, hop: NextHop, transport: BinaryTransport
    ) -> BinarySession:
        """Sending an EstablishConnection Request Packet (3.1.5.2.3)."""
        link.happened(BinaryLinkEvent.CONNECTED)
        link.session = session = self._make_session(link, transport, hop)
        for number in link.queues:
            self._attach(link, number, session)
        session.connected()
        self._reports.history(link.queues, ConnectionStatus.IN_PROCESS, link.hop)
        return session

    def greeted(self, link: BinaryLink) -> None:
        """The peer has answered (3.1.5.3.2)."""
        self._reports.history(link.queues, ConnectionStatus.ESTABLISH_PACKET_RECEIVED, link.hop)

    def opened(self, link: BinaryLink, guid: bytes) -> None:
        """The session is OPEN (3.1.5.4.2): NextHops is the hop in use, and the queues connected."""
        hop = link.hop
        assert hop is not None
        link.happened(BinaryLinkEvent.OPENED)
        link.opened_at_ms = self._now()
        link.last_error = ""
        link.guid = guid
        link.hops, link.at = [hop], 0
        claimed = hop.guid == NULL_GUID  # only the peer itself states its GUID
        believed = not claimed or self._reports.ask(lambda m: may_be_at(m, guid, hop), False)
        if believed and not link.is_bound:
            self._reports.ask(
                lambda m: m.transfer.reached(guid, hop.address, hop.port, claimed=claimed), None
            )
        self._reports.next_hops(link.queues, [hop])
        self._reports.history(link.queues, ConnectionStatus.ESTABLISHED, link.hop)
        self._reports.retry(link.queues, None, link.last_error)
        self._reports.state(link.queues, _STATE.CONNECTED)

    def closed(
        self, link: BinaryLink, status: ConnectionStatus, reason: str, *, idle: bool = False
    ) -> None:
        """Closing a Session (3.1.5.9): if messages wait, it is opened again after a while.

        `idle`: nothing was left to send or to wait for.
        """
        was_open = link.state is BinaryLinkState.OPEN
        link.session = None
        link.served.clear()
        self._reports.state(link.queues, _STATE.DISCONNECTING)
        if not was_open:
            self.failed(link, status, reason, _STATE.DISCONNECTED)
            return
        if self._now() - link.opened_at_ms >= self._pause_ms(link.failures + 1):
            link.failures = 0  # it worked for a while
        link.hops, link.at = [], 0
        self._reports.state(link.queues, _STATE.DISCONNECTED)
        queues = self._senders(link)
        if idle and any(map(self._needs_session, queues)) and not any(q.locked for q in queues):
            self._rest(link)
        else:
            self._wait_or_end(link, reason)

    def failed(
        self, link: BinaryLink, status: ConnectionStatus, words: str, state: OutgoingQueueState
    ) -> None:
        """3.1.5.2: each failure is in the history; the timer states when to go on."""
        self._reports.state(link.queues, state)
        self._reports.history(link.queues, status, link.hop)
        hop = link.hop
        if hop is not None and hop.guid != NULL_GUID:
            self._reports.ask(lambda m: m.transfer.missed(hop.guid, hop.address), None)
        self._wait_or_end(link, words)

    # -- the Session Retry Connect Timer (3.1.2.3)

    def _wait_or_end(self, link: BinaryLink, words: str) -> None:
        link.attempt += 1
        queues = self._senders(link)
        if any(map(self._needs_session, queues)):
            pause_ms = self._pause_before_next(link)
            self._wait(link, pause_ms, words)
            to = link.key if link.destination is None else link.destination
            self._tell("peer_not_reached", to=to, cause=words, retry_s=pause_ms / 1000)
        elif any(map(self._awaits_final, queues)):
            self._wait(link, self.settings.final_ack_look_ms, "", rests=True)
        else:
            self._end(link)

    def _rest(self, link: BinaryLink) -> None:
        """Pauses a link whose messages are all sent and whose order acknowledgments have not come.

        Acknowledgments may need this link's place at the peer (`sessions_max`), so it pauses for as
        long as it was idle. New messages do not wait for that.
        """
        link.attempt += 1
        router = self.desk.manager.machine.settings.queue_manager.routing_server
        pause_ms = self.settings.cleanup_routing_ms if router else self.settings.cleanup_ms
        self._wait(link, pause_ms, "what was sent is not acknowledged yet", rests=True)

    def _wait(self, link: BinaryLink, pause_ms: int, words: str, *, rests: bool = False) -> None:
        link.rests_since = self.desk.manager.machine.next_lookup_id - 1 if rests else None
        link.last_error = words
        link.happened(BinaryLinkEvent.WAIT)
        link.retry_at_ms = self._now() + pause_ms
        self._timers.arm(link)
        self._know_peers(link)
        self._reports.retry(link.queues, pause_ms, link.last_error)

    def _pause_before_next(self, link: BinaryLink) -> int:
        if link.has_further_hop:
            return self.settings.next_hop_ms
        link.failures += 1
        return self._pause_ms(link.failures)

    def _senders(self, link: BinaryLink) -> list[Queue]:
        found = [queue for number in link.queues if (queue := self._queue(number)) is not None]
        return [queue for queue in found if self._may_send(queue)]

    def _pause_ms(self, failures: int) -> int:
        """Adaptive: it doubles with each failure in a row."""
        first = self.settings.first_retry_ms
        most = max(self.settings.retry_connect_max_ms, first)
        return min(first << min(failures - 1, _DOUBLINGS_MAX), most)

    def _end(self, link: BinaryLink) -> None:
        """No messages wait: nothing is left to do, for this link and its queues."""
        for number in list(link.queues):
            self._leave(number)
        self._drop(link)

    def _retry_due(self, link: BinaryLink) -> None:
        """Session Retry Connect Timer Event (3.1.6.1)."""
        due = link.retry_at_ms is not None and link.retry_at_ms <= self._now()
        if link.state is not BinaryLinkState.WAITING_RECONNECT or not due:
            return
        if not any(map(self._has_reason, self._senders(link))):
            self._end(link)
        elif link.has_further_hop:
            self._establishing.next_hop(link)
        else:
            self._begin(link, by_timer=True)

    def retry_now(self, number: int) -> bool:
        """An operator asks: connects without waiting for the timer. False: nothing waits."""
        link = self._of_queue.get(number)
        if link is not None and link.state is BinaryLinkState.WAITING_RECONNECT:
            self._begin(link, by_timer=True)
        elif link is None:
            self.look(number)
        return number in self._of_queue or number in self._carried

    def stop(self) -> None:
        """Nothing more is begun; sessions are closed by their owner."""
        self.stopped = True
        for link in self.all():
            if link.session is None:
                self._end(link)


def _state_on(link: BinaryLink) -> OutgoingQueueState:
    return _STATE.CONNECTED if link.state is BinaryLinkState.OPEN else _STATE.WAITING
