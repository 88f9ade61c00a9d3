"""A rig that gets messages over HTTP, as a door hands them in, and looks at what goes back."""

from __future__ import annotations

from typing import Any

from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.sequence_values import IncomingTransactionalTransferInfo
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival, SrmpVerdict
from posthouse.model.guids import format_guid
from posthouse.model.names import parse_format_name
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import (
    FOREVER,
    CommitmentReceipt,
    DeliveryReceipt,
    SrmpMessage,
    Stream,
    StreamReceipt,
)
from posthouse.wire.srmp.mime_parts import read_parts, write_parts
from posthouse.wire.srmp.receipts import StreamReceipt as Receipt
from posthouse.wire.srmp.receipts import read_stream_receipt
from posthouse.wire.srmp.repeated_messages import MessageReader
from posthouse.wire.srmp.serialize import SrmpContext, SrmpRequest, srmp_of
from posthouse.wire.srmp.writer import write_envelope
from tests.engine.letters import FAR_GUID, PostRig

FAR = "192.0.2.7"
PEER = Peer(b"", FAR)
STRANGER = Peer(b"", "203.0.113.9", lambda queue: False)
ORDERS = "http://alpha/msmq/private$/orders"
STREAMED = "http://alpha/msmq/private$/streamed"
RECEIPTS = f"http://{FAR}/msmq/private$/order_queue$"
RECEIPTS_NAME = f"DIRECT={RECEIPTS}"
ADMIN = f"http://{FAR}/msmq/private$/admin"
OUR_RECEIPTS = "http://alpha/msmq/private$/order_queue$"
AWAY = "DIRECT=HTTP://far.example/msmq/private$/inbox"
REQUEST = "POST /msmq/private$/orders HTTP/1.1\r\nHost: alpha\r\n"
SEQUENCE = 5 << 32 | 1


def stream_id(guid: bytes, sequence_id: int) -> str:
    return f"uid:{format_guid(guid)}\\{sequence_id}"


def head_of(content_type: str) -> bytes:
    return f"{REQUEST}Content-Type: {content_type}\r\n\r\n".encode()


def arrival_of(
    message: SrmpMessage,
    body: bytes = b"",
    peer: Peer = PEER,
    reader: MessageReader | None = None,
) -> SrmpArrival:
    """A message as the door reads it from the wire, on a connection of its own or on this one."""
    content_type, payload = write_parts(write_envelope(message), body, guid=FAR_GUID, number=1)
    head = head_of(content_type)
    read = (reader or MessageReader()).read(head, content_type, payload)
    return SrmpArrival(peer, read.message, read.parts, head, read.template)


class WebRig(PostRig):
    """A rig with a queue `orders`, a transactional one `streamed`, and a peer at 192.0.2.7."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.create("orders")
        self.create("streamed", transactional=True)
        self.ordinal = 0
        self.reader = MessageReader()

    @property
    def utc(self) -> int:
        return self.clock.utc_seconds

    # -- messages of the peer

    def message(self, to: str = ORDERS, **elements: Any) -> SrmpMessage:
        """A durable message of the peer's; each has a new index unless one is given."""
        if "ordinal" not in elements:
            self.ordinal += 1
            elements["ordinal"] = self.ordinal
        elements = {
            "action": "MSMQ:order",
            "durable": True,
            "sent_at": self.utc,
            "has_msmq": True,
            "source_guid": FAR_GUID,
            "reach_by": FOREVER,
        } | elements
        guid, ordinal = elements["source_guid"], elements["ordinal"]
        return SrmpMessage(to=to, id=f"uuid:{ordinal}@{format_guid(guid)}", **elements)

    def streamed(
        self,
        current: int,
        previous: int | None = None,
        *,
        sequence: int = SEQUENCE,
        guid: bytes = FAR_GUID,
        receipts_to: str | None = RECEIPTS,
        to: str = STREAMED,
        **elements: Any,
    ) -> SrmpMessage:
        """A message of a stream; the first of it has a start."""
        previous = current - 1 if previous is None else previous
        start = receipts_to if previous == 0 else None
        stream = Stream(stream_id(guid, sequence), guid, sequence, current, previous, start)
        return self.message(to, stream=stream, **elements)

    def post(self, *messages: SrmpMessage, body: bytes = b"", peer: Peer = PEER) -> list[int]:
        """The messages arrive in one turn; the status of each, once that is synced."""
        return [verdict.status for verdict in self.verdicts(*messages, body=body, peer=peer)]

    def verdicts(
        self, *messages: SrmpMessage, body: bytes = b"", peer: Peer = PEER
    ) -> list[SrmpVerdict]:
        arrivals = [arrival_of(message, body, peer, self.reader) for message in messages]
        return self.run(lambda m: m.transfer.receive_srmp(arrivals))

    def post_stream(self, *numbers: int, **elements: Any) -> None:
        """Messages of one stream, one after the other; all are taken."""
        for number in numbers:
            body = str(number).encode()
            assert self.post(self.streamed(number, **elements), body=body) == [200]

    def known(self, name: str = "streamed") -> list[IncomingTransactionalTransferInfo]:
        """What is known of streams into a queue."""
        return self.manager.transfer.incoming_of(self.queue(name))

    # -- receipts of the peer's

    def stream_receipt(self, number: int, sequence: int, **elements: Any) -> SrmpMessage:
        """A stream receipt for messages of ours."""
        guid = elements.pop("stream_guid", self.guid)
        receipt = StreamReceipt(stream_id(guid, sequence), guid, sequence, number)
        elements = {"message_class": 0xFF, "action": "MSMQ:QM Ordering Ack"} | elements
        to = elements.pop("to", OUR_RECEIPTS)
        return self.message(to, durable=False, stream_receipt=receipt, **elements)

    def final_receipt(
        self, number: int, sequence: int, identifier: Any, code: int = 0x4000, **elements: Any
    ) -> SrmpMessage:
        """A final stream receipt for a message of ours."""
        decision = elements.pop("decision", "positive" if code == 0x4000 else "negative")
        committed = CommitmentReceipt(self.utc, decision, identifier)
        return self.stream_receipt(
            number, sequence, message_class=code, commitment_receipt=committed, **elements
        )

    def delivery_receipt(self, to: str, identifier: Any, **elements: Any) -> SrmpMessage:
        receipt = DeliveryReceipt(self.utc, identifier)
        elements = {"message_class": 2} | elements
        return self.message(to, delivery_receipt=receipt, **elements)

    # -- what goes out

    def away(self, name: str = AWAY) -> Queue:
        queue = self.manager.queues.find_outgoing(parse_format_name(name))
        assert queue is not None
        return queue

    def waiting(self, name: str) -> list[Packet]:
        """The packets of an outgoing queue; none where there is no such queue."""
        queue = self.manager.queues.find_outgoing(parse_format_name(name))
        numbers = [] if queue is None else [n for _, n in queue.state.order.forward()]
        return [Packet(self.store.read(number)) for number in numbers]

    def receipts(self, name: str = RECEIPTS_NAME) -> list[Receipt]:
        """The stream receipts that wait for the peer."""
        found = [read_stream_receipt(packet.data) for packet in self.waiting(name)]
        return [receipt for receipt in found if receipt is not None]

    def collect(self, name: str = RECEIPTS_NAME) -> list[int]:
        """The peer takes its stream receipts: how far they go."""
        receipts = self.receipts(name)
        if receipts:
            self.take(name)
            queue = self.away(name)
            numbers = [number for _, number in queue.state.order.forward()]
            sender = queue.outgoing.sender if queue.outgoing else None
            assert sender is not None
            self.run(lambda m: sender.acknowledged(numbers))
        return [receipt.last_ordinal for receipt in receipts]

    def answers(self, url: str = ADMIN) -> list[Packet]:
        """The receipts that wait for an administration queue of the peer's."""
        return self.waiting(f"DIRECT={url}")

    def request(self, packet: Packet) -> tuple[SrmpRequest, SrmpMessage]:
        """A packet as it goes on the wire, and what its receiver reads."""
        context = SrmpContext(receipts_to=OUR_RECEIPTS)
        request = srmp_of(packet.data, summarize(packet.data), context)
        content_type = dict(request.fields)["Content-Type"]
        return request, read_envelope(read_parts(content_type, request.payload).envelope)

    def take(self, name: str = AWAY, count: int = 100) -> list[Packet]:
        """What a session sends next of an outgoing queue."""
        queue = self.away(name)
        assert queue.outgoing is not None
        sender = queue.outgoing.sender
        if sender is None:
            sender = self.run(lambda m: m.transfer.begin_sending(queue.number))
        taken = self.run(lambda m: sender.take(count, 1 << 20))
        return [Packet(outbound.packet) for outbound in taken]
