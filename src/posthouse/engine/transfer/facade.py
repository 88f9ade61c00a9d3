"""Transfer as protocols between queue managers use it: send, receive, report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from posthouse.engine.machine.facade import MachineFacade
from posthouse.engine.messages.acknowledgments import Acks
from posthouse.engine.queues.queue import ConnectionAttempt, OutgoingQueueState, Queue
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.outgoing_queues import Transfer
from posthouse.engine.transfer.outgoing_sequences import OutgoingTransferInfo
from posthouse.engine.transfer.peer_clocks import ClockDifference, Clocks
from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.engine.transfer.receiving import Receiving
from posthouse.engine.transfer.refused_arrival import RefusedArrival
from posthouse.engine.transfer.sequence_origins import TurnedAway
from posthouse.engine.transfer.sequence_values import (
    IncomingTransactionalTransferInfo,
    OutgoingTransferReport,
    SequenceInfo,
)
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival, SrmpVerdict
from posthouse.engine.transfer.srmp.state import Srmp
from posthouse.model.names import FormatName
from posthouse.wire.packet.packet_fields import PacketSummary

LineageKey = tuple[int, bytes, str, str]


class TransferFacade:
    """Every event between queue managers."""

    def __init__(
        self,
        machine: MachineFacade,
        outgoing: Transfer,
        receiving: Receiving,
        srmp: Srmp,
        acks: Acks,
        clocks: Clocks,
    ) -> None:
        self.machine = machine
        self.outgoing = outgoing
        self.receiving = receiving
        self.srmp = srmp
        self.acks = acks
        self.clocks = clocks

    # -- what comes in

    def receive_packets(
        self, peer: Peer, packets: list[bytes], looks: list[PacketSummary]
    ) -> Verdict:
        """Receiving UserMessage packets ([MS-MQQB] 3.1.5.8), a batch of one session.

        `looks` are what `summarize_alike` saw of them.
        """
        self.machine.require_ready()
        return self.receiving.receive(peer, packets, looks)

    def receive_srmp(self, arrivals: list[SrmpArrival]) -> list[SrmpVerdict]:
        """SRMP Message Received ([MC-MQSRM] 3.1.5.1), all requests of a turn in their order."""
        self.machine.require_ready()
        return self.srmp.receive(arrivals)

    def receive_multicast(self, address: str, arrivals: list[SrmpArrival]) -> None:
        """Takes messages to a multicast address, `A.B.C.D:PORT`; no answer is sent."""
        self.machine.require_ready()
        self.srmp.receive_multicast(address, arrivals)

    def refused_arrivals(self, before: int = 0) -> Iterator[RefusedArrival]:
        """Yield what was refused on arrival, the latest first; `before` goes on after a page."""
        return self.receiving.refused.newest(before)

    def refusals_of(self, source: bytes, ordinal: int) -> list[RefusedArrival]:
        """Return the refusals of a message by its identifier."""
        return self.receiving.refused.of_message(source, ordinal)

    def incoming_of(self, queue: Queue) -> list[IncomingTransactionalTransferInfo]:
        """All sequences into a queue."""
        return self.outgoing.incoming_of(queue)

    def reset(
        self, queue: Queue, source: bytes | None, host: str | None, *, dry_run: bool
    ) -> list[IncomingTransactionalTransferInfo]:
        """An operator's: the next message of these sequences is taken, whatever its place."""
        return self.outgoing.reset(queue, source, host, dry_run=dry_run)

    def turned_away(self) -> Mapping[LineageKey, TurnedAway]:
        """Sequences of which nothing is accepted, by queue, source, name and host."""
        return self.outgoing.lineages.turned_away

    def conflicts(self) -> Mapping[LineageKey, int]:
        """When two hosts last claimed one sequence, by queue, source and both hosts."""
        return self.outgoing.lineages.conflicts

    # -- what goes out

    def next_sequence(self, queue: Queue | None) -> SequenceInfo:
        """The place in a sequence that the next transactional message of a queue gets."""
        return self.outgoing.next_place(queue)

    def sequence_at(self, queue: Queue, lookup_id: int) -> int:
        """The sequence of a numbered message."""
        return self.outgoing.sequences.sequence_at(queue, lookup_id)

    def begin_sending(self, queue_number: int, peer: bytes = b"") -> OutgoingCursor:
        """A session begins to send the messages of an outgoing queue."""
        return self.outgoing.begin_sending(queue_number, peer)

    def info(self, queue: Queue) -> OutgoingTransferInfo:
        """The sequence of an outgoing queue."""
        return self.outgoing.info(queue)

    def report(self, queue: Queue) -> OutgoingTransferReport:
        """The whole OutgoingTransferInfo of an outgoing queue."""
        return self.outgoing.report(queue)

    def unconfirmed_s(self, queue: Queue) -> int:
        """For how long a transactional message that was sent is not acknowledged; 0: none is."""
        return self.outgoing.unconfirmed_s(queue)

    def unacknowledged(self, queue: Queue) -> int:
        """How many messages of an outgoing queue are sent and not acknowledged."""
        return self.outgoing.unacknowledged(queue)

    def arrived(self, queue: Queue) -> int:
        """How many messages have arrived and wait for their final acknowledgments."""
        return self.outgoing.sequences.arrived(queue)

    def unfinished(self, queue: Queue) -> int:
        """How many numbered messages have not arrived."""
        return self.outgoing.sequences.unfinished(queue)

    def begin_again(self, queue: Queue) -> int:
        """An operator's: what has not arrived gets a new sequence. Returns how many messages."""
        return self.outgoing.sequences.begin_again(queue)

    def end_sequences(self) -> None:
        """The next message of each outgoing queue begins a new sequence; others keep theirs."""
        self.outgoing.end_sequences()

    def refused(self, queue: Queue, number: int, message_class: int) -> None:
        """A message cannot be sent."""
        self.outgoing.refused(queue, number, message_class)

    def refused_by_peer(self, queue_number: int, number: int) -> None:
        """A peer does not accept a message."""
        self.outgoing.refused_by_peer(queue_number, number)

    # -- states of outgoing queues

    @property
    def connection_active(self) -> bool:
        """Whether this queue manager talks to others."""
        return self.outgoing.connection_active

    def pause_queue(self, queue: Queue) -> None:
        """Pause Queue (3.1.4.14)."""
        self.outgoing.pause(queue)

    def resume_queue(self, queue: Queue) -> None:
        """Resume Queue (3.1.4.15)."""
        self.outgoing.resume(queue)

    def take_offline(self) -> None:
        """Take Offline (3.1.4.12)."""
        self.outgoing.take_offline()

    def bring_online(self) -> None:
        """Bring Online (3.1.4.13)."""
        self.outgoing.bring_online()

    def retry(self, queue: Queue) -> None:
        """An operator's: connects now."""
        self.outgoing.retry(queue)

    def resend(self, queue: Queue) -> None:
        """Resend Transactional Sequence, an operator's: what is not acknowledged goes once more."""
        self.outgoing.resend(queue)

    def set_state(self, queue: Queue, state: OutgoingQueueState) -> None:
        """The protocol's state of an outgoing queue."""
        self.outgoing.set_state(queue, state)

    def connection_attempted(self, queue: Queue, attempt: ConnectionAttempt) -> None:
        """One more line of the connection history."""
        self.outgoing.connection_attempted(queue, attempt)

    def connection_planned(self, queue: Queue, retry_time: int, last_error: str) -> None:
        """UTC seconds of the next attempt to connect, 0 for none, and why the last one failed."""
        self.outgoing.connection_planned(queue, retry_time, last_error)

    def set_next_hops(self, queue: Queue, next_hops: tuple[str, ...]) -> None:
        """Where the messages of an outgoing queue go next, as administrators see it."""
        self.outgoing.set_next_hops(queue, next_hops)

    def rests_because(self, queue: Queue) -> str:
        """Why messages on their way through this machine do not go on; empty: they do."""
        return self.receiving.forwarding.resting.reason_of(queue)

    # -- acknowledgments

    def send_order_ack(self, queue_number: int, source: bytes, host: str | None = None) -> bool:
        """Sends how far the sequences of a source into a queue have come."""
        return self.outgoing.send_order_ack(queue_number, source, host)

    def may_answer(self, source: bytes) -> bool:
        """Whether order and final acknowledgments to a machine have anywhere to go."""
        return self.acks.may_answer(source)

    def may_have_moved(self, source: bytes) -> bool:
        """Whether acknowledgments for a host of this machine wait, or have waited."""
        return self.acks.shared.may_wait(source)

    def share_answers(self, source: bytes, hosts: list[str]) -> bool:
        """Copies what waits for other hosts of a machine to those that it is at now."""
        return self.acks.shared.share(source, hosts)

    # -- other machines

    def knows_machine(self, guid: bytes) -> bool:
        """Whether a queue manager is in the directory."""
        return self.receiving.targets.knows_machine(guid)

    def owner_of(self, format_name: str) -> bytes:
        """The queue manager of a public queue, by its GUID; empty while that is not known."""
        return self.receiving.targets.owner_of(format_name)

    def address_of(self, guid: bytes) -> tuple[str, int | None] | None:
        """Where a machine was reached last."""
        return self.outgoing.address_of(guid)

    def reached(
        self, guid: bytes, address: str, port: int | None, *, claimed: bool = False
    ) -> None:
        """A machine was reached there, or came from there; None: its port is not known."""
        self.outgoing.reached(guid, address, port, claimed=claimed)

    def missed(self, guid: bytes, address: str) -> None:
        """A machine was not found there."""
        self.outgoing.machines.missed(guid, address)

    def follow_connections(self, is_connected: Callable[[bytes], bool]) -> None:
        """Lets acknowledgments go by whether a session with their machine is open."""
        self.outgoing.is_connected = is_connected

    def clock_seen(self, address: str, their_utc: int) -> None:
        """An answer was written at this second of the other machine's clock."""
        self.clocks.told(address, their_utc)

    def clocks_that_differ(self) -> list[ClockDifference]:
        """Clocks that were off within the last day, the latest first."""
        return self.clocks.differing()

    # -- HTTP

    def url_of(self, name: FormatName, base: str) -> str | None:
        """A queue as other machines name it over HTTP; `base` is `http://host:port` of ours."""
        return self.srmp.url_of(name, base)

    def receipts_to(self, url: str, default: str) -> str:
        """Where receipts for messages to a URL are asked to go."""
        return self.srmp.redirects.receipts_to(url, default)

    def redirected(self, url: str) -> str | None:
        """The URL whose host is connected to instead (3.1.7.9); None: its own."""
        return self.srmp.redirects.outbound(url)

    def forbid_port(self, port: int) -> None:
        """The admin door listens there: nothing of another machine is ever sent to it."""
        self.srmp.redirects.forbid_port(port)
