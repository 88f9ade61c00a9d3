"""All links: which outgoing queue is posted where, and when ([MC-MQSRM] 3.1.6.1, 3.1.7).

A connection belongs to one outgoing queue, as the document has it. After a failure the sender ends,
so that everything waits again, and the retransmission timer restarts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import HELD, OutgoingQueueState, Queue
from posthouse.engine.settings import host_key
from posthouse.engine.transfer.srmp.web_names import is_link_local
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.names import DirectName, parse_format_name
from posthouse.model.next_hops import NextHop
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.outgoing_reports import Reports
from posthouse.protocols.sending_queue import NEVER
from posthouse.protocols.srmp.destinations import (
    as_address,
    destination_of,
    is_handled,
    usable_addresses,
)
from posthouse.protocols.srmp.http_head import ResponseHead
from posthouse.protocols.srmp.link import LinkAttempt, SrmpLink
from posthouse.protocols.srmp.link_states import SrmpLinkEvent, SrmpLinkState
from posthouse.protocols.srmp.network import SrmpNetwork, SrmpTransport
from posthouse.protocols.srmp.outgoing_connection import Exchange, Posted
from posthouse.protocols.srmp.requests import RequestMaker, Unsendable
from posthouse.protocols.srmp.sending import TakenPosts
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.protocols.timers import Timers

_STATE = OutgoingQueueState
_STATUS = ConnectionStatus
_DOUBLINGS_MAX = 32
LEARNED_MS = 60_000  # addresses of a host name are believed for this long when others come
FRESH_MS = 1_000  # what was taken longer ago is looked at again: it may have expired

Tell = Callable[..., None]


class SrmpLinks:
    """The links, by the numbers of their outgoing queues."""

    def __init__(
        self,
        desk: Desk,
        settings: SrmpSettings,
        network: SrmpNetwork,
        now: Callable[[], int],
        *,
        timers: Timers,
        requests: RequestMaker,
        tell: Tell = lambda name, **details: None,
    ) -> None:
        self.desk = desk
        self.settings = settings
        self.stopped = False
        self.statuses: Counter[int] = Counter()  # of responses to us
        self.sent = self.sent_bytes = 0
        self._network = network
        self._now = now
        self._timers = timers
        self._requests = requests
        self._tell = tell
        self._reports = Reports(desk)
        self._links: dict[int, SrmpLink] = {}

    # -- which queue has one

    def all(self) -> list[SrmpLink]:
        """Every link, to look at."""
        return list(self._links.values())

    def look(self, number: int) -> None:
        """Something has changed for an outgoing queue: its messages, or its state (3.1.7.7)."""
        queue, link = self._queue(number), self._links.get(number)
        if queue is None:
            if link is not None:
                self._rest(link)
                self._drop(link)
            return
        if link is None:
            if not queue.state.count:
                return
            link = self._add(queue)
        if not self._may_send(queue):
            self._rest(link)
        elif queue.state.count:
            self._go_on(link, queue)
        self._drop_if_done(link, queue)

    def _go_on(self, link: SrmpLink, queue: Queue) -> None:
        link.ready = True
        self._timers.arm(link)  # a pause has stopped them, also that of reminders
        if link.state is SrmpLinkState.OPEN:
            self.pump(link)
        elif link.state is SrmpLinkState.IDLE:
            if link.fetched or self._has_reason(queue):
                self._begin(link)
        elif link.state is SrmpLinkState.WAITING and self._is_due(queue):
            self._begin(link)

    def _queue(self, number: int) -> Queue | None:
        """An outgoing queue of this protocol; None for any other."""
        queue = self.desk.manager.queues.get(number)
        if queue is None or queue.deleted or queue.outgoing is None:
            return None
        return queue if is_handled(parse_format_name(queue.definition.format_name)) else None

    def _add(self, queue: Queue) -> SrmpLink:
        name = parse_format_name(queue.definition.format_name)
        assert isinstance(name, DirectName)
        link = self._links[queue.number] = SrmpLink(queue.number, name, self.settings, self)
        self._learn_addresses(link)
        link.sending.remind_later(self._now(), is_new=True)
        self._timers.arm(link)
        return link

    def _may_send(self, queue: Queue) -> bool:
        """3.1.7.7: not OnHold; and the machine is online."""
        assert queue.outgoing is not None
        online = self.desk.manager.transfer.connection_active and not self.stopped
        return online and queue.outgoing.state not in HELD

    def _has_reason(self, queue: Queue) -> bool:
        """Whether it has more than messages that wait for receipts only."""
        waiting = self._reports.ask(lambda manager: manager.transfer.unacknowledged(queue), 0)
        return queue.state.count > waiting

    def _is_due(self, queue: Queue) -> bool:
        """An operator may have brought the time of the next attempt forward."""
        assert queue.outgoing is not None
        return 0 < queue.outgoing.retry_time <= self.desk.manager.machine.utc

    def retry_now(self, number: int) -> bool:
        """An operator asks: connects without waiting for the timer. False: nothing waits."""
        link = self._links.get(number)
        if link is not None and link.state is SrmpLinkState.WAITING:
            self._begin(link)
        elif link is None:
            self.look(number)
        return number in self._links

    def _rest(self, link: SrmpLink) -> None:
        """Pause Queue (3.1.7.4): timers are off, the connection is closed, nothing is sent."""
        self._close(link)
        self._end_sending(link)
        if link.state is not SrmpLinkState.IDLE:
            link.attempt += 1
            self._reports.state([link.number], _STATE.DISCONNECTED)
        link.happened(SrmpLinkEvent.REST)
        link.retry_at_ms = NEVER
        self._timers.forget(link)

    def _drop_if_done(self, link: SrmpLink, queue: Queue) -> None:
        if not queue.state.count and link.exchange is None:
            self._rest(link)
            self._drop(link)

    def _drop(self, link: SrmpLink) -> None:
        link.attempt += 1
        self._timers.forget(link)
        self._links.pop(link.number, None)

    def stop(self) -> None:
        """Begins nothing new and closes every connection."""
        self.stopped = True
        for link in self.all():
            self._close(link)
            link.attempt += 1
            self._timers.forget(link)

    # -- who may acknowledge (decision 24)

    def may_acknowledge(self, number: int, address: str) -> bool | None:
        """Whether stream receipts for a queue count from this address: the queue's name must lead
        there.

        None: not known yet, ask again. A final receipt is sent only once, so it must not be
        dropped.
        """
        queue, link = self._queue(number), self._links.get(number)
        if queue is None or not queue.state.count:
            return False
        if link is None:
            link = self._add(queue)
        known = host_key(address)
        if known in link.addresses or known in link.own_addresses:
            return True
        if as_address(link.name.host) is not None:
            return False
        if self._now() - link.learned_at_ms < LEARNED_MS and link.own_addresses:
            return False
        self._learn_addresses(link)
        return None

    def _learn_addresses(self, link: SrmpLink) -> None:
        """Receipts may come while nothing is sent, or while a proxy does that for us."""
        address = as_address(link.name.host)
        if address is not None:
            link.own_addresses = frozenset({host_key(address)})
        elif not link.is_learning:
            link.is_learning = True
            self._network.resolve(link.name.host, partial(self._learned, link))

    def _learned(self, link: SrmpLink, addresses: list[str], fault: str) -> None:
        link.is_learning = False
        if addresses:
            link.own_addresses = frozenset(map(host_key, addresses))
            link.learned_at_ms = self._now()

    # -- connecting: Establish Transport Connection (3.1.7.9)

    def _begin(self, link: SrmpLink) -> None:
        link.attempt += 1
        link.happened(SrmpLinkEvent.BEGIN)
        link.retry_at_ms = NEVER
        self._reports.state([link.number], _STATE.WAITING)
        found = self._reports.ask(
            lambda manager: destination_of(manager, link.name, self.settings), None
        )
        if found is None:
            return  # the engine has ended
        link.destination, link.hops, link.at = found, [], 0
        address = as_address(found.host)
        if address is not None:
            self._resolved(link, link.attempt, [address], "")
        else:
            self._network.resolve(found.host, partial(self._resolved, link, link.attempt))

    def _resolved(self, link: SrmpLink, attempt: int, addresses: list[str], fault: str) -> None:
        destination = link.destination
        if link.attempt != attempt or destination is None:
            return
        usable = usable_addresses(addresses)
        forwards = self.desk.manager.machine.settings.srmp.forwarding  # names of strangers, that is
        if destination.is_redirected or forwards:  # decision 11; the name may lead there by now
            usable = [address for address in usable if not is_link_local(address)]
        if not usable:
            words = fault or f"{destination.host} has no address"
            self._fail(link, _STATUS.DNS_FAILURE, words)
            return
        link.hops = usable
        link.addresses = frozenset(map(host_key, usable))
        self._reports.next_hops([link.number], map(NextHop.of_ip, usable))
        self._connect(link)

    def _connect(self, link: SrmpLink) -> None:
        destination, hop = link.destination, link.hop
        assert destination is not None
        assert hop is not None
        link.happened(SrmpLinkEvent.CONNECT)
        link.attempt += 1
        attempt = LinkAttempt(self, link)
        self._network.connect(hop, destination.port, destination.secure, attempt)

    def not_connected(self, link: SrmpLink, status: ConnectionStatus, words: str) -> None:
        """There is no connection; the next address is tried at once."""
        if link.at + 1 < len(link.hops):
            self._history(link, status)
            link.at += 1
            self._connect(link)
        else:
            self._fail(link, status, words)

    def connected(self, link: SrmpLink, transport: SrmpTransport) -> Exchange:
        """3.1.7.9: the queue is Connected, and the Session Cleanup Timer runs."""
        link.happened(SrmpLinkEvent.CONNECTED)
        link.exchange = Exchange(self.settings, transport, link, self._now, self._pipeline(link))
        link.ready = True
        hop = link.hop
        assert hop is not None
        self._reports.next_hops([link.number], [NextHop.of_ip(hop)])
        self._history(link, _STATUS.ESTABLISHED)
        self._reports.state([link.number], _STATE.CONNECTED)
        self._network.soon(partial(self.pump, link))
        self._timers.arm(link)
        return link.exchange

    def _pipeline(self, link: SrmpLink) -> int:
        """How many requests may be on their way; one where a proxy, or the past, makes cautious."""
        assert link.destination is not None
        return 1 if link.caution or link.destination.to_proxy else self.settings.pipeline

    def _history(self, link: SrmpLink, status: ConnectionStatus) -> None:
        hop = None if link.hop is None else NextHop.of_ip(link.hop)
        self._reports.history([link.number], status, hop)

    # -- sending: Send User Message (3.1.7.2, 3.1.7.8)

    def pump(self, link: SrmpLink) -> None:
        """Posts what the connection takes, and has more ready."""
        exchange = link.exchange
        if exchange is None or self.stopped:
            return
        if link.fetched and self._now() - link.fetched_at_ms > FRESH_MS:
            link.fetched.clear()
            link.sending.begins_anew = link.ready = True
        while link.fetched and exchange.has_room:
            self._post(link, exchange)
        if link.ready and not link.fetched and not link.is_taking and not exchange.is_closed:
            link.ready, link.is_taking = False, True
            self.desk.decide(
                lambda manager: link.sending.take(manager, self._now()), partial(self._taken, link)
            )

    def _taken(self, link: SrmpLink, answer: Answer) -> None:
        link.is_taking = False
        taken = answer.value
        if not isinstance(taken, TakenPosts) or taken.sender is not link.sending.sender:
            return  # it was ended meanwhile, or its queue is gone
        link.fetched.extend(taken.messages)
        link.fetched_at_ms = self._now()
        link.ready = link.ready or taken.has_more
        self._timers.arm(link)
        if link.exchange is None and link.fetched and not self.stopped:
            self.look(link.number)  # it was closed for idleness while they were being taken
        else:
            self.pump(link)

    def _post(self, link: SrmpLink, exchange: Exchange) -> None:
        message = link.fetched.popleft()
        assert link.destination is not None
        try:
            parts = self._requests.make(
                message.packet, link.name, link.destination, exchange.local_address
            )
        except Unsendable as fault:
            self._tell("message_not_sent", to=str(link.name), cause=str(fault))
            self._refused(link, message.number, message.transactional)
            return
        link.sending.remind_later(self._now())
        self.sent += 1
        self.sent_bytes += sum(map(len, parts))
        exchange.post(message.number, message.transactional, parts)
        self._timers.arm(link)

    def answered(self, link: SrmpLink, posted: Posted, head: ResponseHead) -> None:
        """3.1.7.2.5, decision 66: what became of a message by the status of its response.

        Requests after one that failed have answers of their own, and are not sent again in vain.
        """
        exchange = link.exchange
        assert exchange is not None
        self.statuses[head.status] += 1
        if link.caution:
            link.caution -= 1
            exchange.pipeline = self._pipeline(link)
        if 200 <= head.status < 300:
            self._succeeded(link)
            self._decide(lambda manager: self._acknowledged(manager, link, posted, head))
        elif head.status == 400:
            self._succeeded(link)
            self._refused(link, posted.number, posted.transactional)
        else:
            status = f"{head.status} {head.reason}".strip()
            exchange.refusal = exchange.refusal or f"the answer was {status}"
        if exchange.refusal and not exchange.in_flight:
            self._fail(link, _STATUS.CONNECTION_REFUSED, exchange.refusal)

    def _acknowledged(
        self, manager: QueueManager, link: SrmpLink, posted: Posted, head: ResponseHead
    ) -> None:
        link.sending.acknowledged([posted.number])
        if head.date:
            manager.transfer.clock_seen(link.hop or "", head.date)

    def _succeeded(self, link: SrmpLink) -> None:
        if link.failures or link.last_error:
            link.failures, link.last_error = 0, ""
            self._reports.retry([link.number], None, "")

    def _refused(self, link: SrmpLink, message: int, transactional: bool) -> None:
        """400: dead-lettered where that was asked for; a stream begins again (decision 82)."""
        self._decide(lambda manager: manager.transfer.refused_by_peer(link.number, message))
        if transactional:  # what follows it has another place now, and is taken again
            link.fetched = deque(each for each in link.fetched if not each.transactional)
            link.ready = True

    def _decide(self, call: Callable[[QueueManager], None]) -> None:
        self._reports.ask(call, None)

    # -- the end of a connection, and the Retransmission Timer (3.1.6.1)

    def ended(self, link: SrmpLink, exchange: Exchange, words: str) -> None:
        """Session cleanup (3.1.6.4), a peer that closed what was idle, or a failure (3.1.7.1)."""
        if link.exchange is not exchange:
            return
        link.exchange = None
        if exchange.has_stumbled:
            link.stumbled()
        if exchange.refusal:
            self._fail(link, _STATUS.CONNECTION_REFUSED, exchange.refusal)
            return
        lost = bool(exchange.in_flight)
        if words and not (lost and exchange.answers):
            self._fail(link, _STATUS.UNKNOWN_FAILURE, words)
            return
        if lost:  # it was idle, and closed while our request was on its way: not a failure
            self._end_sending(link)
        link.happened(SrmpLinkEvent.CLOSED)
        self._reports.state([link.number], _STATE.DISCONNECTED)
        if lost or link.fetched:
            self._begin(link)
        else:
            self._network.soon(partial(self.look, link.number))

    def _fail(self, link: SrmpLink, status: ConnectionStatus, words: str) -> None:
        """Decision 32: Disconnected, and once more after a while, which grows."""
        self._close(link)
        self._end_sending(link)
        link.attempt += 1
        link.failures += 1
        pause_ms = self._pause_ms(link.failures)
        link.happened(SrmpLinkEvent.FAIL)
        link.last_error = words
        link.retry_at_ms = self._now() + pause_ms
        self._history(link, status)
        self._reports.state([link.number], _STATE.DISCONNECTED)
        self._reports.retry([link.number], pause_ms, words)
        self._timers.arm(link)
        self._tell("peer_not_reached", to=str(link.name), cause=words, retry_s=pause_ms / 1000)

    def _pause_ms(self, failures: int) -> int:
        settings = self.settings
        first = settings.retransmission_ms + settings.round_trip_ms
        most = max(settings.retransmission_max_ms, first)
        return min(first << min(failures - 1, _DOUBLINGS_MAX), most)

    def _close(self, link: SrmpLink) -> None:
        exchange, link.exchange = link.exchange, None
        if exchange is not None:
            exchange.leave()

    def _end_sending(self, link: SrmpLink) -> None:
        link.fetched.clear()
        if link.sending.sender is not None:
            self._decide(lambda manager: link.sending.end())

    def due(self, link: SrmpLink) -> None:
        """Retransmission Timer (3.1.6.1), Stream Receipt Wait Timer (3.1.6.2), and reminders."""
        now_ms = self._now()
        if link.state is SrmpLinkState.WAITING and link.retry_at_ms <= now_ms:
            self._retransmit(link)
        if link.sending.resend_at_ms <= now_ms:
            self.desk.decide(
                lambda manager: link.sending.expire(manager.machine.utc, now_ms),
                partial(self._resend, link),
            )
        if link.sending.remind_at_ms <= now_ms:
            link.sending.remind_later(now_ms)
            queue = self._queue(link.number)
            if queue is not None and self._may_send(queue):
                self.desk.decide(link.sending.remind, partial(self._resend, link))

    def _retransmit(self, link: SrmpLink) -> None:
        queue = self._queue(link.number)
        if queue is None or not self._may_send(queue) or not queue.state.count:
            link.happened(SrmpLinkEvent.REST)
            self.look(link.number)
        else:
            self._begin(link)

    def _resend(self, link: SrmpLink, answer: Answer) -> None:
        self._timers.arm(link)
        if answer.value is not True or self._links.get(link.number) is not link:
            return
        link.ready = True
        if link.state is SrmpLinkState.OPEN:
            self.pump(link)
        elif link.state is SrmpLinkState.IDLE:
            self._begin(link)
