"""Two queue managers over HTTP as bad as it gets: lost answers, reordering, duplicates, restarts.

What was sent in streams arrives exactly once and in order; durable messages arrive, and once; books
balance. The network is this file: it has every request that was ever posted, and may deliver any of
them again at any time.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival
from posthouse.model.names import parse_format_name
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.mime_parts import read_parts
from posthouse.wire.srmp.serialize import SrmpContext, srmp_of
from tests.engine.letters import DEAD_TRANSACTIONAL, JOURNAL
from tests.engine.web import WebRig, head_of

HOSTS = ("192.0.2.1", "192.0.2.2")
TX = f"DIRECT=HTTP://{HOSTS[1]}/msmq/private$/streamed"
PLAIN = f"DIRECT=HTTP://{HOSTS[1]}/msmq/private$/orders"


class Office(WebRig):
    """One of the two; its requests are kept."""

    def __init__(self, at: int) -> None:
        super().__init__(computer_name=f"OFFICE{at}", addresses=(HOSTS[at],))
        self.host = HOSTS[at]
        self.context = SrmpContext(
            receipts_to=f"http://{self.host}/msmq/private$/order_queue$",
        )

    def sender_of(self, queue: Queue) -> OutgoingCursor:
        assert queue.outgoing is not None
        if queue.outgoing.sender is None:
            return self.run(lambda m: m.transfer.begin_sending(queue.number))
        return queue.outgoing.sender

    def next_request(self) -> tuple[Queue, int, SrmpArrival] | None:
        """What is posted next, of any outgoing queue."""
        for queue in self.manager.queues.outgoing_queues():
            sender = self.sender_of(queue)
            taken = self.run(lambda m, s=sender: s.take(1, 1 << 20))  # type: ignore[misc]
            if taken:
                packet = taken[0].packet
                request = srmp_of(packet, summarize(packet), self.context)
                content_type = dict(request.fields)["Content-Type"]
                parts = read_parts(content_type, request.payload)
                head, message = head_of(content_type), read_envelope(parts.envelope)
                arrival = SrmpArrival(Peer(b"", self.host), message, parts, head)
                return queue, taken[0].number, arrival
        return None

    def post_to(self, there: Office) -> bool:
        """One request that arrives and is answered; False where there is none."""
        found = self.next_request()
        if found is None:
            return False
        queue, number, arrival = found
        assert there.accept(arrival) == 200
        sender = self.sender_of(queue)
        self.run(lambda m: sender.acknowledged([number]))
        return True

    def accept(self, arrival: SrmpArrival) -> int:
        (verdict,) = self.run(lambda m: m.transfer.receive_srmp([arrival]))
        return verdict.status

    def hang_up(self) -> None:
        for queue in self.manager.queues.outgoing_queues():
            if queue.outgoing is not None and queue.outgoing.sender is not None:
                sender = queue.outgoing.sender
                self.run(lambda m, s=sender: s.end())  # type: ignore[misc]

    def resend(self) -> None:
        for queue in self.manager.queues.outgoing_queues():
            sender = self.sender_of(queue)
            self.run(lambda m, s=sender: s.resend())  # type: ignore[misc]


class TwoOffices(RuleBasedStateMachine):
    """ALPHA sends to BRAVO; everything may go wrong on the way, in both directions."""

    @initialize()
    def open(self) -> None:
        self.offices = Office(0), Office(1)
        self.sent: list[bytes] = []
        self.plain: list[bytes] = []
        self.past: list[tuple[int, SrmpArrival]] = []  # every request that was ever posted
        self.transactions = 0
        self.received: list[bytes] = []

    # -- what applications do

    @rule(count=st.integers(1, 3), kept=st.sampled_from(["", "journal", "dead"]))
    def send_stream(self, count: int, kept: str) -> None:
        alpha = self.offices[0]
        self.transactions += 1
        transaction = alpha.begin(f"t{self.transactions}")
        options: dict[str, Any] = {
            "positive_journaling_requested": kept == "journal",
            "negative_journaling_requested": kept == "dead",
        }
        for _ in range(count):
            body = b"%d" % len(self.sent)
            alpha.send(TX, body, tx=transaction, **options)
            self.sent.append(body)
        alpha.commit(transaction)

    @rule()
    def send_durable(self) -> None:
        body = b"p%d" % len(self.plain)
        self.offices[0].send(PLAIN, body)
        self.plain.append(body)

    @precondition(lambda self: self.offices[1].bodies("streamed"))
    @rule()
    def receive(self) -> None:
        delivery = self.offices[1].receive("streamed")
        self.received.append(_body(delivery.packet))

    # -- what the network does

    @rule(at=st.sampled_from([0, 0, 0, 1]), fate=st.sampled_from(["ok", "ok", "lost", "silent"]))
    def post(self, at: int, fate: str) -> None:
        """One request: it arrives and is answered, or is lost, or its answer is."""
        here, there = self.offices[at], self.offices[1 - at]
        found = here.next_request()
        if found is None:
            return
        queue, number, arrival = found
        self.past.append((1 - at, arrival))
        status = 0 if fate == "lost" else there.accept(arrival)
        assert status in (0, 200), status
        if fate == "ok":
            sender = here.sender_of(queue)
            here.run(lambda m: sender.acknowledged([number]))
        else:
            here.hang_up()

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """An old request arrives once more."""
        at, arrival = data.draw(st.sampled_from(self.past))
        assert self.offices[at].accept(arrival) == 200

    @rule(at=st.sampled_from([0, 1]))
    def crash(self, at: int) -> None:
        self.offices[at].restart()

    @rule(at=st.sampled_from([0, 1]))
    def resend(self, at: int) -> None:
        self.offices[at].resend()

    @rule(seconds=st.sampled_from([0.1, 0.5, 2, 11]))
    def wait(self, seconds: float) -> None:
        for office in self.offices:
            office.advance(seconds)

    # -- what must hold

    @invariant()
    def streams_arrive_once_and_in_order(self) -> None:
        if not hasattr(self, "offices"):
            return
        arrived = self.received + self.offices[1].bodies("streamed")
        assert arrived == self.sent[: len(arrived)]

    @invariant()
    def durable_messages_arrive_once(self) -> None:
        if hasattr(self, "offices"):
            found = self.offices[1].bodies("orders")
            assert len(set(found)) == len(found)

    def teardown(self) -> None:
        """The network mends: all of it arrives, is acknowledged, and nothing is left over."""
        if not hasattr(self, "offices"):
            return
        for _ in range(60):
            for office in self.offices:
                office.resend()
                office.advance(1)
            for at in (0, 1):
                while self.offices[at].post_to(self.offices[1 - at]):
                    pass
            if not self._waiting():
                break
        arrived = self.received + self.offices[1].bodies("streamed")
        assert arrived == self.sent
        assert sorted(self.offices[1].bodies("orders")) == sorted(self.plain)
        for office in self.offices:
            office.check_books()
        assert self.offices[0].bodies(DEAD_TRANSACTIONAL) == []
        assert set(self.offices[0].bodies(JOURNAL)) <= set(self.sent)
        assert self._waiting() == 0

    def _waiting(self) -> int:
        alpha = self.offices[0]
        streams = alpha.manager.queues.find_outgoing(parse_format_name(TX))
        unfinished = 0 if streams is None else alpha.manager.transfer.report(streams).no_ack_count
        plain = alpha.manager.queues.find_outgoing(parse_format_name(PLAIN))
        return unfinished + (0 if plain is None else plain.state.count)


def _body(packet: bytes) -> bytes:
    seen = summarize(packet)
    return packet[seen.body_at : seen.body_at + seen.body_size]


TwoOffices.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestTwoOffices = TwoOffices.TestCase
