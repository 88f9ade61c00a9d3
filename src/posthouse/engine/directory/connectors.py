"""Connector queues: messages for foreign systems wait here for their connector.

[MS-MQQB] 1.3.3.1, [MS-MQDMPR] 3.1.1.2 QueueType; docs/connector.md has the rules. A routing server
that belongs to a foreign site has two of them, for transactional messages and for all others. What
other machines send comes in like messages for a queue here (`receiving.py`); what is sent here goes
into an outgoing queue as everywhere, and from there to the connector queue in the same turn.
"""

from __future__ import annotations

from itertools import islice

from posthouse.directory import objects
from posthouse.directory.base import DirectoryOperationResult, equals
from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.order import START
from posthouse.engine.ledger.parts import Accepting, AckSender, Endings, MachineTargets, PacketReads
from posthouse.engine.ledger.records import (
    FLAG_ARRIVED,
    FLAG_REMOTE,
    FLAG_TRANSACTIONAL,
    RECEIVED,
    WANT_JOURNAL,
    Change,
    Row,
)
from posthouse.engine.ledger.rows import DELIVERY
from posthouse.engine.ledger.steps import Allowance
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.naming import is_service_queue
from posthouse.engine.queues.queue import HELD, JOURNAL, Queue, QueueRole
from posthouse.engine.transfer.arrivals import (
    Arriving,
    Notes,
    ReceivedBatch,
    SequencePlace,
    source_of,
)
from posthouse.engine.transfer.message_history import MessageHistory
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.sequence_values import is_numbered
from posthouse.model.bounded_tables import Bounded
from posthouse.model.guids import NULL_GUID
from posthouse.model.message_classes import (
    NACK_BAD_DEST_QUEUE,
    NACK_NOT_TRANSACTIONAL_MESSAGE,
    NACK_NOT_TRANSACTIONAL_QUEUE,
    NORMAL,
)
from posthouse.model.names import (
    ConnectorName,
    FormatName,
    PrivateName,
    PublicName,
    Suffix,
    parse_format_name,
)
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.digest import content_digest
from posthouse.wire.packet.packet_fields import PacketSummary, summarize

MACHINES_MAX = 1024  # that are remembered: anybody can make up an address
LOOK_AGAIN_MS = 1000  # for room in a connector queue that is full
SUFFIXES = (Suffix.NONE, Suffix.XACTONLY)


class Connectors:
    """The connector queues of this machine."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        targets: MachineTargets,
        reading: PacketReads,
        outcomes: Endings,
        sending: Accepting,
        transfer: MachineTransfer,
        acks: AckSender,
        directory: DirectoryOfQueues,
        history: MessageHistory,
    ) -> None:
        self._core = core
        self._registry = registry
        self._targets = targets
        self._reading = reading
        self._outcomes = outcomes
        self._sending = sending
        self._transfer = transfer
        self._acks = acks
        self._directory = directory
        self._history = history
        self.sites: dict[bytes, str] = {}  # whose connector server we are, with their names
        self._seen: tuple[int, bool] | None = None
        # By machine, since the last change.
        self._site_of: Bounded[bytes, bytes | None] = Bounded(MACHINES_MAX)
        self._full: set[int] = set()  # outgoing queues whose messages find no room
        self._full_until_ms: int | None = None
        self._unfinished: set[int] = set()

    # -- which there are

    def follow(self) -> None:
        """Queues of sites that this machine belongs to are made, those of others go when empty."""
        service = self._directory.service
        seen = service.version, service.offline
        if seen == self._seen:
            return
        self._seen = seen
        self._site_of.clear()
        sites = service.foreign_sites(self._core.now_ms) if service.integrated else {}
        if sites is None:  # they stay as they were
            known = self._registry.connector_queues()
            sites = self.sites or {_site(queue): queue.definition.label for queue in known}
        if sites != self.sites or self._registry.connector_queues():
            self._keep(sites)

    def _keep(self, sites: dict[bytes, str]) -> None:
        registry, self.sites = self._registry, sites
        for site, name in sites.items():
            for suffix in SUFFIXES:
                registry.provide_connector(ConnectorName(site, suffix), name)
        for queue in registry.connector_queues():
            if _site(queue) not in sites:
                registry.drop_empty_connector(queue)
        if sites:
            active = self._core.effects.active
            active.update(one.number for one in registry.outgoing_queues() if one.state.count)

    def tidy(self, queue: Queue) -> None:
        """It is no longer open: it goes if it was kept for its messages only."""
        if _site(queue) not in self.sites:
            self._registry.drop_empty_connector(queue)

    def state_of(self, queue: Queue) -> str:
        """Why a connector queue is still there although no message comes into it; else nothing."""
        if queue.definition.role is not QueueRole.CONNECTOR or _site(queue) in self.sites:
            return ""
        return "this machine is no longer a connector server of that site"

    # -- which message goes where

    def takes(self, machine: bytes) -> bool:
        """Whether messages for this queue manager go no further than a connector queue here."""
        return bool(self.sites) and self._site(machine) is not None

    def _site(self, machine: bytes) -> bytes | None:
        if machine not in self._site_of:
            now_ms = self._core.now_ms
            self._site_of[machine] = self._directory.service.connector_site(machine, now_ms)
        return self._site_of[machine]

    def queue_for(self, machine: bytes, *, transactional: bool) -> Queue | None:
        """The connector queue for messages to a foreign system that this machine `takes`."""
        site = self._site(machine)
        assert site is not None
        suffix = Suffix.XACTONLY if transactional else Suffix.NONE
        return self._registry.find_local(ConnectorName(site, suffix))

    def foreign_queue(self, guid: bytes) -> tuple[bool, objects.Queue | None]:
        """What the directory has of a public queue, and whether that is certain.

        Others who share it may have entered a queue since we looked: the connector decides.
        """
        found = self._directory.service.known(
            objects.Queue, equals("identifier", guid), self._core.now_ms
        )
        away = found.status is DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
        return not away and self._directory.mirror is None, found.value

    def refusal(self, name: FormatName | None, *, transactional: bool) -> int:
        """The class of a message that cannot be for this queue of a foreign system; else NORMAL.

        Of a public queue the directory states whether there is one, and of which kind.
        """
        if not isinstance(name, PublicName):
            private = isinstance(name, PrivateName) and not is_service_queue(name)
            return NORMAL if private else NACK_BAD_DEST_QUEUE
        certain, found = self.foreign_queue(name.guid)
        if found is None:
            return NACK_BAD_DEST_QUEUE if certain else NORMAL
        if found.transactional is transactional:
            return NORMAL
        return NACK_NOT_TRANSACTIONAL_QUEUE if transactional else NACK_NOT_TRANSACTIONAL_MESSAGE

    def _machine_of(self, name: FormatName) -> bytes:
        """The machine that a name leads to, as far as it is one of the directory."""
        if isinstance(name, PrivateName):
            return name.guid
        if not isinstance(name, PublicName):
            return b""
        return self._targets.owner_of(str(name))

    # -- messages that are sent here

    def run(self) -> None:
        """The end of a turn: what this turn put into outgoing queues goes on from there."""
        core = self._core
        self.follow()
        if not self.sites:
            self._full_until_ms = None
            return
        waiting = self._full if self._is_due() else set()
        numbers = core.effects.active | self._unfinished | waiting
        if waiting:
            self._full_until_ms = None
        allowance = Allowance(core.settings)
        for number in sorted(numbers):
            queue = core.queues.get(number)
            if queue is not None and queue.outgoing is not None and not queue.deleted:
                self._take_over(queue, allowance)

    def _is_due(self) -> bool:
        return self._full_until_ms is not None and self._full_until_ms <= self._core.now_ms

    def next_deadline_ms(self) -> int | None:
        """At once while messages are to be moved; later while they find no room."""
        return self._core.now_ms if self._unfinished else self._full_until_ms

    def _take_over(self, queue: Queue, allowance: Allowance) -> None:
        self._unfinished.discard(queue.number)
        self._full.discard(queue.number)
        outgoing = queue.outgoing
        assert outgoing is not None
        if not queue.state.count or outgoing.state in HELD:
            return
        machine = self._machine_of(parse_format_name(queue.definition.format_name))
        if not machine or not self.takes(machine):
            return
        change, left = Change(), allowance.messages
        ahead = islice(queue.state.order.forward(START), left + 1)
        for _, number in list(ahead):
            if allowance.spent:
                self._unfinished.add(queue.number)
                self._core.deadlines.note(self._core.now_ms)
                break
            if not self._move(queue, number, machine, allowance, change):
                break
        self._core.commit(change)

    def _move(
        self, queue: Queue, number: int, machine: bytes, allowance: Allowance, change: Change
    ) -> bool:
        """One message of an outgoing queue; False: those after it have to wait as well."""
        core, row = self._core, self._core.state.table.get(number)
        assert row is not None
        if number in core.locks or row.flags & FLAG_ARRIVED:
            # Nothing overtakes a message of a sequence that somebody holds.
            held = is_numbered(row.flags) and number not in self._reading.damaged
            return bool(row.flags & FLAG_ARRIVED) or not held
        if self._transfer.is_in_flight(queue, number, row):
            return True  # its session decides
        transactional = bool(row.flags & FLAG_TRANSACTIONAL)
        name = parse_format_name(queue.definition.format_name)
        refused = self.refusal(name, transactional=transactional)
        if refused != NORMAL:
            allowance.spend(row)
            self._outcomes.delete(queue, number, row, refused, change)
            return True
        target = self.queue_for(machine, transactional=transactional)
        assert target is not None
        if not target.has_room_for(row.size):
            self._full.add(queue.number)
            if self._full_until_ms is None:
                self._full_until_ms = core.now_ms + LOOK_AGAIN_MS
                core.deadlines.note(self._full_until_ms)
            return False
        allowance.spend(row)
        packet = core.packet(number)
        if not packet:
            return True  # damaged: it stays where doctors look for it
        seen = summarize(packet)
        if not row.flags & FLAG_REMOTE or self._is_new(target, packet, seen, change):
            self._enter(queue, target, number, row, packet, seen, change)
        else:
            self._outcomes.transferred(queue, number, row, change)
        return True

    def _is_new(self, target: Queue, packet: bytes, seen: PacketSummary, change: Change) -> bool:
        """A message of another machine that came before we knew where it goes.

        Its sender will send it again, so its place in the sequence, or the history, is kept now.
        """
        if seen.transaction_at:
            peer = Peer(NULL_GUID, "")
            place = SequencePlace(
                self._core, self._transfer, peer, "", target, Arriving(packet, seen)
            )
            if place.follows:
                batch = ReceivedBatch(peer)
                batch.change = change
                place.accept(batch)
                for places in batch.places.values():
                    self._transfer.lineages.places.add(places, {}, change)
            self._acks.order(target.number, seen.source_guid)
            return bool(place.follows)
        source = source_of(packet, seen)
        digest = content_digest(packet, seen)
        if self._history.knows(source, seen.ordinal, digest):
            return False
        notes: Notes = {source: {seen.ordinal: digest}}
        recoverable = bool(seen.user_flags & DELIVERY)
        self._history.add(notes if recoverable else {}, {} if recoverable else notes, change)
        return True

    def _enter(
        self,
        queue: Queue,
        target: Queue,
        number: int,
        row: Row,
        packet: bytes,
        seen: PacketSummary,
        change: Change,
    ) -> None:
        core = self._core
        if row.wants & WANT_JOURNAL:
            if not row.flags & FLAG_REMOTE:
                self._sending.copy(core.queues[JOURNAL], row, packet, change)
            row = row._replace(wants=row.wants & ~WANT_JOURNAL)
        self._transfer.sequences.left(queue, (row.flags,))
        core.forget_aliases(number, row)
        moved = row._replace(
            lookup_id=core.lookup_ids.next(),
            queue=target.number,
            expires=self._sending.expiry(target, Batch.of(packet, seen)),
            arrived=core.utc,
            last_move=0,
        )
        core.settle(number, moved, RECEIVED, change)
        core.announce(target, number)


def _site(queue: Queue) -> bytes:
    name = parse_format_name(queue.definition.format_name)
    assert isinstance(name, ConnectorName)
    return name.guid
