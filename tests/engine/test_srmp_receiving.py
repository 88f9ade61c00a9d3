"""Messages that come over HTTP: where they go, what is refused, what is ignored.

[MC-MQSRM] 3.1.5.1.2-5, 3.1.5.1.11-12.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, FLAG_REMOTE
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival, SrmpVerdict
from posthouse.model.errors import MalformedPacket
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import MessageId
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    NACK_PURGED,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_RECEIVE_TIMEOUT,
)
from posthouse.model.names import PathName
from posthouse.model.properties import QueueProperties
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import ANONYMOUS, EVERYONE
from posthouse.wire.packet.headers import HOP_COUNT_MAX
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import CommitmentReceipt, SrmpMessage
from posthouse.wire.srmp.mime_parts import read_parts, write_parts
from posthouse.wire.srmp.writer import write_envelope
from tests.engine.letters import ALICE, FAR_GUID
from tests.engine.rig import RECEIVE
from tests.engine.web import ORDERS, PEER, STRANGER, STREAMED, WebRig, arrival_of, head_of

ADMIN_QUEUE = "http://alpha/msmq/private$/admin"
ORIGINAL = MessageId(b"o" * 16, 77)


@pytest.fixture
def rig() -> WebRig:
    return WebRig()


def refused(rig: WebRig, message: SrmpMessage, status: int = 400) -> None:
    """The message gets this status, and nothing of the store changes."""
    before = rig.manager.ledger.state.dump()
    assert rig.post(message, body=b"x") == [status]
    assert rig.manager.ledger.state.dump() == before


# -- a message that is taken


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.12/9",
    "MC-MQSRM 3.1.5.1.6/1",
    "MC-MQSRM 3.1.5.1.5/2",
    "MC-MQSRM 3.1.1.1.2.2/1",
)
def test_a_message_is_in_its_queue_once_with_all_it_has(rig: WebRig) -> None:
    message = rig.message(priority=6, application_tag=42, body_type=8, correlation=b"c" * 20)
    assert rig.post(message, body=b"hello") == [200]
    (found,) = rig.messages("orders")
    assert (found.body, found.label, found.priority) == (b"hello", "order", 6)
    assert (found.application_tag, found.body_type) == (42, 8)
    assert found.correlation_identifier.pack() == b"c" * 20
    assert found.identifier == MessageId(FAR_GUID, message.ordinal)
    (read,) = rig.reads("orders")
    assert read.flags & FLAG_REMOTE
    assert not read.flags & FLAG_AUTHENTICATED
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/53", "MC-MQSRM 3.1.5.1.1/1", "MC-MQSRM 3.1.5.1.1/2")
def test_readers_are_shown_what_came_over_http(rig: WebRig) -> None:
    message = rig.message()
    envelope = write_envelope(message)
    content_type, payload = write_parts(envelope, b"body", b"", guid=FAR_GUID, number=1)
    parts = read_parts(content_type, payload)
    arrival = SrmpArrival(PEER, read_envelope(parts.envelope), parts, head_of(content_type))
    rig.run(lambda m: m.transfer.receive_srmp([arrival]))
    (found,) = rig.messages("orders")
    assert found.soap_compound_message == head_of(content_type) + payload
    assert found.soap_envelope == envelope.decode()
    assert found.soap_header.startswith("<se:Header>")
    assert found.soap_header in found.soap_envelope
    assert found.soap_body == "<se:Body></se:Body>"
    assert (found.body, found.label) == (b"body", "order")


@pytest.mark.spec("MC-MQSRM 3.1.5.1.5/12", "MC-MQSRM 3.1.5.1.11/1")
def test_messages_of_strangers_without_msmq_are_never_duplicates(rig: WebRig) -> None:
    plain = SrmpMessage(
        action="MSMQ:hello", to=ORDERS, id="uuid:1@anything", sent_at=rig.utc, durable=True
    )
    for body in (b"one", b"two", b"three"):
        assert rig.post(plain, body=body) == [200]
    assert rig.bodies("orders") == [b"one", b"two", b"three"]
    assert not rig.manager.transfer.receiving.history.knows(NULL_GUID, 1)
    assert {m.identifier for m in rig.messages("orders")} == {MessageId(NULL_GUID, 1)}


# -- malformed (3.1.5.1.2)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.2/1", "MC-MQSRM 3.1.5.1.2/2")
def test_what_fits_into_no_message_is_refused_and_leaves_no_trace(rig: WebRig) -> None:
    refused(rig, rig.message(action="MSMQ:" + "x" * 250))
    refused(rig, rig.streamed(1, action="MSMQ:" + "x" * 250))
    assert rig.known() == []
    with pytest.raises(MalformedPacket):
        read_envelope(b"<no-envelope/>")


# -- where it goes (3.1.5.1.3)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/2", "MC-MQSRM 3.1.1.1.7/2", "MC-MQSRM 3.1.1.1.7/1")
@pytest.mark.parametrize(
    "settings", [{}, {"routing_server": True}, {"srmp_forwarding": True}], ids=str
)
def test_a_message_for_another_host_is_refused(settings: dict[str, Any]) -> None:
    rig = WebRig(**settings)
    refused(rig, rig.message("http://bravo.example/msmq/private$/orders"))


FORWARDING = {"routing_server": True, "srmp_forwarding": True}


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/3", "MC-MQSRM 3.1.1.1.7/1")
def test_a_store_and_forward_server_passes_messages_on() -> None:
    rig = WebRig(**FORWARDING)
    away = "http://bravo.example/msmq/private$/orders"
    assert rig.post(rig.message(away, ordinal=9), body=b"passes") == [200]
    assert rig.post(rig.message(away, ordinal=9), body=b"passes") == [200]  # a duplicate
    (packet,) = rig.waiting(f"DIRECT={away}")
    assert packet.body == b"passes"
    request, message = rig.request(packet)
    assert (request.url, message.to) == (away, away)
    assert (message.source_guid, message.ordinal) == (FAR_GUID, 9)
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/3")
def test_a_forwarded_stream_keeps_its_name_and_its_receipt_address() -> None:
    rig = WebRig(**FORWARDING)
    away = "http://bravo.example/msmq/private$/orders"
    assert rig.post(rig.streamed(1, to=away), rig.streamed(2, to=away)) == [200, 200]
    first, second = [rig.request(packet)[1] for packet in rig.waiting(f"DIRECT={away}")]
    assert first.stream == rig.streamed(1).stream
    assert second.stream == rig.streamed(2).stream
    assert rig.receipts() == []  # its destination sends them


@pytest.mark.parametrize("kind", ["durable", "stream", "anonymous"])
def test_a_message_that_is_passed_on_in_a_circle_comes_to_an_end(kind: str) -> None:
    """Two servers are led to each other: here both are the same."""
    rig, away = WebRig(**FORWARDING), "http://bravo.example/msmq/private$/orders"
    message = rig.message(away, ordinal=9)
    if kind == "stream":
        message = rig.streamed(1, to=away)
    elif kind == "anonymous":
        message = rig.message(away, ordinal=1, source_guid=bytes(16), has_msmq=False)
    arrival, rounds = arrival_of(message), 0

    def verdict() -> SrmpVerdict:
        return rig.run(lambda m: m.transfer.receive_srmp([arrival]))[0]

    while verdict().status == 200:
        rounds += 1
        packet = rig.waiting(f"DIRECT={away}")[-1]
        fields = dict(rig.request(packet)[0].fields)
        assert len(fields["Via"].split(",")) == rounds
        first, _, rest = arrival_of(message).head.partition(b"\r\n")
        via = f"\r\nVia: {fields['Via']}\r\n".encode()
        arrival = arrival._replace(head=first + via + rest)
    assert rounds == HOP_COUNT_MAX
    assert "circle" in verdict().why
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 2.2.4.2/6")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/4")
@pytest.mark.parametrize(
    "to",
    [
        "http://bravo.example/msmq/private$/orders;journal",
        "http://bravo.example/elsewhere",
        "http://169.254.169.254/msmq/private$/orders",
        "http://alpha:8080/msmq/private$/orders",  # decision 61: our address, another port
    ],
)
def test_what_cannot_be_opened_is_not_forwarded(to: str) -> None:
    rig = WebRig(**FORWARDING)
    refused(rig, rig.message(to))


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/8", "MC-MQSRM 3.1.5.1.3/11")
@pytest.mark.parametrize(
    "queue", ["nowhere", "orders;journal", "order_queue$", "orders;poison", "../orders"]
)
def test_a_queue_that_is_not_there_is_refused(rig: WebRig, queue: str) -> None:
    refused(rig, rig.message(f"http://alpha/msmq/private$/{queue}"))


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/9", "MC-MQSRM 3.1.5.1.3/10", "MC-MQSRM 3.1.5.1.3/11")
def test_streams_go_to_transactional_queues_and_nothing_else_does(rig: WebRig) -> None:
    refused(rig, rig.streamed(1, to=ORDERS))
    refused(rig, rig.message(STREAMED))


@pytest.mark.spec("MC-MQSRM 2.2.4.2/5")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.4/2")
@pytest.mark.parametrize(
    "to",
    [
        "HTTP://ALPHA/MSMQ/PRIVATE$/ORDERS",
        "https://alpha.example.com/msmq/private$/orders",
        "http://127.0.0.1:80/msmq/private$/orders",
        "http://localhost/msmq/private%24/or%64ers",
    ],
)
def test_own_names_are_known_in_every_spelling(rig: WebRig, to: str) -> None:
    assert rig.post(rig.message(to), body=b"x") == [200]
    assert rig.bodies("orders") == [b"x"]


# -- expiry (3.1.5.1.4)


@pytest.mark.spec("MC-MQSRM 2.2.5.1.1/2")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.4/1")
@pytest.mark.parametrize(("reach_by", "expected"), [(-1, []), (0, [b"x"]), (1, [b"x"])])
def test_a_message_whose_time_is_over_is_discarded_with_200(
    rig: WebRig, reach_by: int, expected: list[bytes]
) -> None:
    asks = {"delivery_receipt_to": "http://192.0.2.7/msmq/private$/admin"}
    message = rig.message(reach_by=rig.utc + reach_by, sent_at=rig.utc - 60, **asks)
    assert rig.post(message, body=b"x") == [200]
    assert rig.bodies("orders") == expected
    assert len(rig.answers()) == len(expected)
    assert rig.manager.machine.refusals["expired_on_arrival"] == 1 - len(expected)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.4/1", "MC-MQSRM 3.1.5.1/1")
def test_ttrq_beats_expires_at_and_the_destination_is_looked_at_first(rig: WebRig) -> None:
    late = {"sent_at": rig.utc - 60, "reach_by": rig.utc - 1}
    assert rig.post(rig.message(expires_at=rig.utc + 60, **late)) == [200]
    assert rig.bodies("orders") == []
    assert rig.post(rig.message("http://alpha/msmq/private$/nowhere", **late)) == [400]
    assert rig.post(rig.message(ordinal=5, message_class=0x1234, **late)) == [200]
    assert (
        rig.manager.machine.refusals["srmp_message_ignored"] == 0
    )  # its time was looked at before


# -- kinds (3.1.5.1.5)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.5/1")
def test_a_message_of_no_known_kind_is_ignored_with_200(rig: WebRig) -> None:
    before = rig.manager.ledger.state.dump()
    assert rig.post(rig.message(message_class=0x1234)) == [200]
    assert rig.manager.ledger.state.dump() == before


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.5/3",
    "MC-MQSRM 3.1.5.1.7/1",
    "MC-MQSRM 3.1.1.3.1/2",
    "MC-MQSRM 3.1.5.1.5/9",
    "MC-MQSRM 3.1.5.1.5/10",
    "MC-MQSRM 3.1.5.1.10/1",
    "MC-MQSRM 3.1.1.3.4/1",
)
@pytest.mark.parametrize(
    "code",
    [
        *(ACK_REACH_QUEUE, ACK_RECEIVE, NACK_PURGED, NACK_QUEUE_DELETED),
        *(NACK_QUEUE_PURGED, NACK_RECEIVE_TIMEOUT),
    ],
)
def test_receipts_come_into_the_administration_queue_whatever_they_are_about(
    rig: WebRig, code: int
) -> None:
    rig.create("admin")
    if code == ACK_REACH_QUEUE:
        receipt = rig.delivery_receipt(ADMIN_QUEUE, ORIGINAL, correlation=ORIGINAL.pack())
    else:
        decision = "positive" if code == ACK_RECEIVE else "negative"
        receipt = rig.message(
            ADMIN_QUEUE,
            message_class=code,
            correlation=ORIGINAL.pack(),
            commitment_receipt=CommitmentReceipt(rig.utc, decision, ORIGINAL),
        )
    assert rig.post(receipt) == [200]
    assert rig.post(receipt) == [200]  # once more: known by its identifier
    (found,) = rig.messages("admin")
    assert found.message_class == code
    assert found.correlation_identifier == ORIGINAL
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.5/11")
@pytest.mark.parametrize(
    ("code", "decision"),
    [(ACK_RECEIVE, "negative"), (NACK_PURGED, "positive"), (0x8003, "negative")],
)
def test_a_commitment_receipt_that_contradicts_itself_is_not_delivered(
    rig: WebRig, code: int, decision: str
) -> None:
    rig.create("admin")
    committed = CommitmentReceipt(rig.utc, decision, ORIGINAL)
    message = rig.message(ADMIN_QUEUE, message_class=code, commitment_receipt=committed)
    assert rig.post(message) == [200]
    assert rig.messages("admin") == []


# -- duplicates (3.1.5.1.11)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.11/2", "MC-MQSRM 3.1.1.1.5/4", "MC-MQSRM 3.1.4.1/1")
def test_a_message_that_came_before_is_answered_200_and_discarded(rig: WebRig) -> None:
    message = rig.message()
    assert rig.post(message, message, body=b"x") == [200, 200]
    assert rig.post(message, body=b"x") == [200]
    rig.restart()
    assert rig.post(message, body=b"x") == [200]
    assert rig.bodies("orders") == [b"x"]
    rig.advance(31 * 60)
    assert rig.post(message, body=b"x") == [200]  # the history goes back half an hour
    assert rig.bodies("orders") == [b"x", b"x"]
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.11/2")
@pytest.mark.parametrize("durable", [True, False])
def test_who_repeats_a_message_slowly_does_not_outlive_its_entry(
    rig: WebRig, durable: bool
) -> None:
    message = rig.message(durable=durable)
    for _ in range(6):
        assert rig.post(message, body=b"x") == [200]
        rig.advance(25 * 60)
    assert rig.bodies("orders") == [b"x"]


@pytest.mark.spec("MC-MQSRM 3.1.1.1.5/4")
def test_the_history_holds_so_many_identifiers() -> None:
    rig = WebRig(message_history_max=10)
    first = rig.message()
    rig.post(first, *[rig.message() for _ in range(10)])
    assert rig.post(first) == [200]
    assert len(rig.bodies("orders")) == 12


def test_identifiers_belong_to_their_senders(rig: WebRig) -> None:
    assert rig.post(rig.message(ordinal=4), rig.message(ordinal=4, source_guid=b"g" * 16)) == [
        *(200, 200)
    ]
    assert len(rig.messages("orders")) == 2


def test_copies_of_one_message_to_two_queues_are_two_messages(rig: WebRig) -> None:
    rig.create("others")
    others = "http://alpha/msmq/private$/others"
    lists = {"destination_mqf": (ORDERS, others), "ordinal": 4}
    one, two = rig.message(ORDERS, **lists), rig.message(others, **lists)
    assert rig.post(one, two, one, two, body=b"x") == [200] * 4
    assert rig.bodies("orders") == rig.bodies("others") == [b"x"]


@pytest.mark.spec("MC-MQSRM 3.1.5.1.11/3", "MC-MQSRM 3.1.5.1.12/8", "MC-MQSRM 3.1.5.1.6/2")
@pytest.mark.parametrize("settings", [{}, {"machine_quota_kib": 6}], ids=["queue", "machine"])
def test_a_full_queue_is_500_and_the_retry_passes_later(settings: dict[str, Any]) -> None:
    rig = WebRig(**settings)
    for name in ("orders", "streamed"):
        rig.set(name, quota_kib=0xFFFFFFFF if settings else 6)
    message, stream = rig.message(), rig.streamed(1)
    big = b"x" * 6500
    assert rig.post(message, stream, body=big) == [500, 500]
    assert rig.bodies("orders") == rig.bodies("streamed") == []
    assert rig.known() == []
    assert not rig.manager.transfer.receiving.history.knows(FAR_GUID, message.ordinal)
    assert rig.post(message, body=b"small") == [200]
    assert rig.bodies("orders") == [b"small"]
    rig.check_books()


def test_flow_control_refuses_for_the_moment(rig: WebRig) -> None:
    rig.run(lambda m: m.machine.begin_flow_control("memory"))
    refused(rig, rig.message(), 500)
    rig.run(lambda m: m.machine.end_flow_control("memory"))
    assert rig.post(rig.message()) == [200]


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/3")
@pytest.mark.parametrize("streamed", [False, True])
def test_the_arrival_time_is_that_of_the_receipt_whatever_the_sender_wrote(
    rig: WebRig, streamed: bool
) -> None:
    came = []
    for number in (1, 2, 3):
        came.append(rig.utc)
        sent = rig.utc - 1_000 * number
        message = rig.streamed(number, sent_at=sent) if streamed else rig.message(sent_at=sent)
        assert rig.post(message) == [200]
        rig.advance(7)
    name = "streamed" if streamed else "orders"
    assert [read.arrived for read in rig.reads(name)] == came
    rig.restart()
    assert [read.arrived for read in rig.reads(name)] == came


# -- access (3.1.5.1.12)


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.12/1",
    "MC-MQSRM 3.1.5.1.12/4",
    "MC-MQSRM 3.1.5.1.12/7",
    "MC-MQSRM 3.1.5.1.3/11",
)
def test_without_the_right_to_send_for_everyone_it_is_refused(rig: WebRig) -> None:
    for name in ("orders", "streamed"):
        rig.set_security(name, rig.security(name).revoke(EVERYONE).pack())
        rig.grant(name, ALICE, WRITE_MESSAGE)
    refused(rig, rig.message())
    refused(rig, rig.streamed(1))
    assert rig.manager.machine.refusals["MQ_ERROR_ACCESS_DENIED"] == 2
    assert rig.known() == []


@pytest.mark.spec("MC-MQSRM 3.1.5.1.12/5", "MC-MQSRM 3.1.5.1.6.1/1")
def test_a_queue_that_denies_anonymous_or_wants_signatures_refuses(rig: WebRig) -> None:
    rig.deny("orders", ANONYMOUS, WRITE_MESSAGE)
    refused(rig, rig.message())
    rig.create("signed", authentication=True)
    refused(rig, rig.message("http://alpha/msmq/private$/signed"))


class PublicRig(WebRig):
    """A rig with a public queue."""

    def __init__(self) -> None:
        super().__init__()
        path = PathName.parse(r"ALPHA\public")
        self.run(lambda m: m.queues.create_queue(path, QueueProperties(), self.admin))
        self.public = "http://alpha/msmq/public"


@pytest.mark.spec("MC-MQSRM 2.3/1")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.12/2")
def test_the_directory_says_who_may_send_to_a_public_queue() -> None:
    rig = PublicRig()
    assert rig.post(rig.message(rig.public)) == [200]
    narrow = rig.security(r".\public").revoke(EVERYONE).pack()
    directory = rig.manager.directory
    value = directory.queues.object_of(replace(rig.queue(r".\public").definition, security=narrow))
    rig.run(
        lambda m: directory.service.write_directory(value, rig.clock.now_ms, rig.utc, ("security",))
    )
    assert rig.post(rig.message(rig.public)) == [400]


@pytest.mark.spec("MC-MQSRM 3.1.5.1.12/3")
def test_without_the_word_of_the_directory_a_public_queue_makes_senders_wait() -> None:
    rig = PublicRig()
    definition = rig.queue(r".\public").definition
    rig.run(lambda m: m.directory.queues.withdraw(definition, m.ledger.effects.change))
    assert rig.post(rig.message(rig.public)) == [500]
    assert rig.messages(r".\public") == []


# -- many at once


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6/2")
def test_messages_of_one_turn_are_judged_one_by_one(rig: WebRig) -> None:
    messages = [
        rig.message(),
        rig.message("http://alpha/msmq/private$/nowhere"),
        rig.streamed(1),
        rig.streamed(3),
        rig.streamed(2),
        rig.message(message_class=0x1234),
    ]
    assert rig.post(*messages, body=b"x") == [200, 400, 200, 200, 200, 200]
    assert rig.bodies("orders") == [b"x"]
    assert [m.transaction_sequence_number for m in rig.messages("streamed")] == [1, 2]
    rig.check_books()


def test_an_empty_turn_is_one_too(rig: WebRig) -> None:
    assert rig.run(lambda m: m.transfer.receive_srmp([])) == []


def test_a_reader_that_waits_gets_a_message_when_it_is_whole(rig: WebRig) -> None:
    descriptor = rig.open("orders", RECEIVE)
    answers = rig.wait(descriptor, timeout_ms=1000)
    arrivals = [arrival_of(rig.message(), b"x")]
    rig.run(lambda m: m.transfer.receive_srmp(arrivals))
    assert len(answers) == 1


def test_identifiers_that_a_stranger_has_used_first_are_still_their_owners(rig: WebRig) -> None:
    """Finding F3 over HTTP."""
    for ordinal in (7, 8):
        assert rig.post(rig.message(ordinal=ordinal), body=b"evil", peer=STRANGER) == [200]
    real = [arrival_of(rig.message(ordinal=ordinal), b"%d" % ordinal) for ordinal in (7, 8, 9)]
    assert [verdict.status for verdict in rig.run(lambda m: m.transfer.receive_srmp(real))] == [
        200
    ] * 3
    rig.restart()
    rig.run(lambda m: m.transfer.receive_srmp(real))
    assert rig.bodies("orders") == [b"evil", b"evil", b"7", b"8", b"9"]
    assert rig.manager.transfer.receiving.history.known_of(FAR_GUID)[9].host == PEER.host
