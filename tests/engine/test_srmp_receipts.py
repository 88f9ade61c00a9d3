"""Receipts that we send: delivery, commitment and final stream receipts.

[MC-MQSRM] 3.1.1.1.2.3, 3.1.1.1.2.6, 3.1.1.3-4, 3.1.5.1.6.2, 3.1.7.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from posthouse.directory import objects
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.errors import InvalidParameter
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import MessageId
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_RECEIVE_REJECTED,
    NACK_RECEIVE_TIMEOUT,
)
from posthouse.security.sids import EVERYONE
from posthouse.wire.srmp.message import SrmpMessage
from tests.engine.letters import DEAD_LETTERS, DEAD_TRANSACTIONAL, FAR_GUID
from tests.engine.rig import MOVE, RECEIVE
from tests.engine.web import (
    ADMIN,
    FAR,
    ORDERS,
    RECEIPTS,
    RECEIPTS_NAME,
    SEQUENCE,
    WebRig,
    stream_id,
)

OTHER_ADMIN = f"http://{FAR}/msmq/private$/delivered"
BOTH = {
    "delivery_receipt_to": ADMIN,
    "commitment_receipt_to": ADMIN,
    "positive_only": True,
    "negative_only": True,
}
NEGATIVE_ENDS = [
    (NACK_QUEUE_PURGED, lambda rig, name: rig.purge(name)),
    (NACK_QUEUE_DELETED, lambda rig, name: rig.delete(name)),
    (NACK_RECEIVE_REJECTED, lambda rig, name: rig.reject(name)),
]
End = Callable[[WebRig, str], None]


class LapsingRig(WebRig):
    """A rig whose messages can expire.

    A time to be received has no element, but a queue manager in between may have one.
    """

    def expire_all(self, name: str) -> None:
        queue = self.queue(name)
        for read in self.reads(name):
            row = self.manager.messages.find_row(read.number)
            assert row is not None
            expire = partial(self.manager.messages.outcomes.expire, queue, read.number, row)
            self.run(lambda m, expire=expire: expire())


@pytest.fixture
def rig() -> WebRig:
    return WebRig(send_insecure_nacks=True)


def on_the_wire(rig: WebRig, url: str = ADMIN) -> list[SrmpMessage]:
    """The receipts for an address as their receiver reads them."""
    return [rig.request(packet)[1] for packet in rig.answers(url)]


# -- delivery receipts (3.1.5.1.6.2)


@pytest.mark.spec("MC-MQSRM 2.2.5.2.2/2")
@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.6.2/2",
    "MC-MQSRM 3.1.5.1.6.2/3",
    "MC-MQSRM 3.1.5.1.6.2/4",
    "MC-MQSRM 3.1.5.1.6.2/5",
    "MC-MQSRM 3.1.1.3.1/1",
    "MC-MQSRM 3.1.1.1.2.2/1",
)
def test_a_message_that_was_taken_is_receipted(rig: WebRig) -> None:
    message = rig.message(delivery_receipt_to=ADMIN)
    assert rig.post(message, body=b"x") == [200]
    assert rig.post(message, body=b"x") == [200]  # a duplicate has none
    assert rig.post(rig.message(f"{ORDERS}x", delivery_receipt_to=ADMIN)) == [400]
    (packet,) = rig.answers()
    assert packet.message_class == ACK_REACH_QUEUE
    request, receipt = rig.request(packet)
    assert request.url == receipt.to == ADMIN
    assert dict(request.fields)["Content-Type"].startswith("text/xml")
    assert (receipt.action, receipt.message_class) == ("MSMQ:order", ACK_REACH_QUEUE)
    assert receipt.delivery_receipt == (rig.utc, MessageId(FAR_GUID, message.ordinal))
    assert receipt.correlation == MessageId(FAR_GUID, message.ordinal).pack()
    assert (receipt.source_guid, receipt.ordinal) == (rig.guid, packet.identifier.ordinal)
    assert receipt.delivery_receipt_to == receipt.commitment_receipt_to == ""


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.2/4")
def test_a_message_without_msmq_is_receipted_by_the_null_identifier(rig: WebRig) -> None:
    """Decision 64: 1@NULL."""
    message = SrmpMessage(
        action="hello", to=ORDERS, id="x", sent_at=rig.utc, delivery_receipt_to=ADMIN
    )
    assert rig.post(message) == [200]
    (receipt,) = on_the_wire(rig)
    assert receipt.delivery_receipt is not None
    assert receipt.delivery_receipt.id == MessageId(NULL_GUID, 1)
    assert receipt.action == "MSMQ:"


@pytest.mark.spec("MC-MQSRM 2.2.5.2.1/5")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.2/1", "MC-MQSRM 3.1.1.3.1/1")
@pytest.mark.parametrize("stream", [False, True])
def test_the_receipt_is_part_of_the_step_that_stores_the_message(rig: WebRig, stream: bool) -> None:
    before = len(rig.store.log)
    asks = {"delivery_receipt_to": ADMIN}
    message = rig.streamed(1, **asks) if stream else rig.message(**asks)
    assert rig.post(message) == [200]
    assert rig.store.synced == len(rig.store.log) > before
    for length in range(before, len(rig.store.log)):
        cut = WebRig()
        cut.restart(rig.store.log[:length])
        assert cut.bodies("streamed" if stream else "orders") == []
        assert cut.answers() == []
        assert cut.known() == []


@pytest.mark.spec("MC-MQSRM 2.2.5.5/5")
def test_the_two_receipts_may_have_addresses_of_their_own(rig: WebRig) -> None:
    asks = BOTH | {"delivery_receipt_to": OTHER_ADMIN}
    assert rig.post(rig.message(**asks)) == [200]
    assert [m.message_class for m in on_the_wire(rig, OTHER_ADMIN)] == [ACK_REACH_QUEUE]
    assert on_the_wire(rig) == []
    rig.receive("orders")
    assert [m.message_class for m in on_the_wire(rig)] == [ACK_RECEIVE]
    assert len(on_the_wire(rig, OTHER_ADMIN)) == 1


@pytest.mark.spec("MC-MQSRM 2.2.5.2.2/5")
def test_receipts_ask_for_no_receipts(rig: WebRig) -> None:
    rig.create("admin")
    asks = BOTH | {"correlation": b"c" * 20}
    receipt = rig.delivery_receipt(
        "http://alpha/msmq/private$/admin", MessageId(rig.guid, 1), **asks
    )
    assert rig.post(receipt) == [200]
    rig.receive("admin")
    assert rig.answers() == []


# -- commitment receipts (3.1.7.3.1)


@pytest.mark.spec("MC-MQSRM 2.2.5.2.3/2", "MC-MQSRM 2.2.5.2.3/5")
@pytest.mark.spec(
    "MC-MQSRM 3.1.7.3.1/1",
    "MC-MQSRM 3.1.7.3.1/4",
    "MC-MQSRM 3.1.7.3.1/5",
    "MC-MQSRM 3.1.1.4.1/1",
    "MC-MQSRM 3.1.1.1.2.3/1",
    "MC-MQSRM 3.1.7.3/2",
)
@pytest.mark.parametrize("restart", [False, True])
def test_a_received_message_is_committed(rig: WebRig, restart: bool) -> None:
    message = rig.message(**BOTH)
    assert rig.post(message, body=b"x") == [200]
    if restart:
        rig.restart()
    rig.advance(7)
    rig.receive("orders")
    delivered, committed = on_the_wire(rig)
    assert delivered.message_class == ACK_REACH_QUEUE
    assert committed.commitment_receipt is not None
    assert committed.commitment_receipt.decision == "positive"
    assert committed.commitment_receipt.decided_at == rig.utc
    assert committed.commitment_receipt.id == MessageId(FAR_GUID, message.ordinal)
    assert (committed.to, committed.message_class) == (ADMIN, ACK_RECEIVE)
    assert committed.action == "MSMQ:order"
    assert rig.post(message, body=b"x") == [200]  # a duplicate has none
    rig.advance(1)
    assert (len(rig.answers()), rig.messages("orders")) == (2, [])
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 2.2.5.2.3/3", "MC-MQSRM 2.2.5.2.3/5")
@pytest.mark.spec("MC-MQSRM 3.1.7.3.1/2", "MC-MQSRM 3.1.7.3.1/5", "MC-MQSRM 3.1.1.1.2.3/1")
@pytest.mark.parametrize(
    ("code", "end"),
    [*NEGATIVE_ENDS, (NACK_RECEIVE_TIMEOUT, lambda rig, name: rig.expire_all(name))],
)
def test_a_message_that_is_lost_is_told_so(code: int, end: End) -> None:
    rig = LapsingRig(send_insecure_nacks=True)
    asks = BOTH | {"delivery_receipt_to": ""}
    assert rig.post(rig.message(**asks), body=b"secret") == [200]
    end(rig, "orders")
    (packet,) = rig.answers()
    assert packet.body == b""  # decision 64: a receipt is text alone
    (receipt,) = on_the_wire(rig)
    assert receipt.commitment_receipt is not None
    assert (receipt.commitment_receipt.decision, receipt.message_class) == ("negative", code)
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 2.2.5.2.3/4", "MC-MQSRM 2.2.5.4/1")
@pytest.mark.spec("MC-MQSRM 3.1.7.3.1/1", "MC-MQSRM 3.1.7.3.1/2", "MC-MQSRM 3.1.7.3.1/3")
@pytest.mark.parametrize(
    ("asked", "received", "purged"),
    [({}, 0, 0), ({"positive_only": True}, 1, 0), ({"negative_only": True}, 0, 1)],
)
@pytest.mark.parametrize("told", [True, False])
def test_only_what_was_asked_for_is_sent(
    asked: dict[str, Any], received: int, purged: int, told: bool
) -> None:
    rig = WebRig(send_insecure_nacks=told)
    asks = {"commitment_receipt_to": ADMIN} | asked
    rig.post(rig.message(**asks), rig.message(**asks))
    rig.receive("orders")
    assert len(rig.answers()) == received
    rig.purge("orders")
    assert len(rig.answers()) == received + (purged if told else 0)


@pytest.mark.spec("MC-MQSRM 3.1.7.3.1/3")
def test_a_move_is_no_end(rig: WebRig) -> None:
    rig.post(rig.message(commitment_receipt_to=ADMIN, positive_only=True, negative_only=True))
    source, target = rig.open("orders", RECEIVE), rig.open("orders;poison", MOVE)
    (read,) = rig.reads("orders")
    rig.run(lambda m: m.messages.move_message(source, read.lookup_id, target))
    assert rig.answers() == []


@pytest.mark.spec("MC-MQSRM 3.1.7.3/1")
@pytest.mark.parametrize("end", ["purged", "expired", "delivered"])
def test_what_only_passes_through_gets_its_receipts_at_its_destination(end: str) -> None:
    rig = WebRig(routing_server=True, srmp_forwarding=True, send_insecure_nacks=True)
    asks = {"commitment_receipt_to": ADMIN, "positive_only": True, "negative_only": True}
    away = "http://bravo.example/msmq/private$/orders"
    late = {"reach_by": rig.utc + 10, "dead_letter": True}
    messages = [rig.message(away, **asks, **late), rig.streamed(1, to=away, **asks, **late)]
    assert rig.post(*messages) == [200, 200]
    queue = rig.away(f"DIRECT={away}")
    if end == "expired":
        rig.advance(12)
    rig.take(f"DIRECT={away}")
    if end == "purged":
        rig.run(lambda m: m.messages.moving.purge(queue))
    if end == "delivered":
        numbers = [number for _, number in queue.state.order.forward()]
        assert queue.outgoing is not None
        sender = queue.outgoing.sender
        assert sender is not None
        rig.run(lambda m: sender.acknowledged(numbers))
    rig.advance(1)
    assert rig.answers() == []
    assert rig.receipts() == []


def test_strangers_are_not_told_what_became_of_their_messages() -> None:
    """Decisions 8 and 80."""
    rig = WebRig()
    rig.post(rig.message(commitment_receipt_to=ADMIN, negative_only=True))
    rig.purge("orders")
    assert rig.answers() == []


# -- dead letters at the receiver (3.1.7.3.2)


@pytest.mark.spec("MC-MQSRM 3.1.7.3.2/1", "MC-MQSRM 3.1.1.1.2.3/1", "MC-MQSRM 3.1.5.2.1.1/1")
@pytest.mark.parametrize(
    ("end", "reason"), [("purge", NACK_QUEUE_PURGED), ("expire_all", NACK_RECEIVE_TIMEOUT)]
)
def test_a_purged_or_expired_message_becomes_a_dead_letter_here(end: str, reason: int) -> None:
    rig = LapsingRig(send_insecure_nacks=True)
    rig.post(rig.message(dead_letter=True, commitment_receipt_to=ADMIN), body=b"x")
    rig.post(rig.message(), body=b"y")
    getattr(rig, end)("orders")
    assert rig.messages("orders") == []
    (letter,) = rig.messages(DEAD_LETTERS)
    assert (letter.body, letter.identifier) == (b"x", MessageId(FAR_GUID, 1))
    assert rig.reasons(DEAD_LETTERS) == [reason]
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.7.3.2/2")
@pytest.mark.parametrize(("code", "end"), NEGATIVE_ENDS[1:])
def test_a_deleted_queue_and_a_rejection_leave_no_dead_letter(
    rig: WebRig, code: int, end: End
) -> None:
    rig.post(rig.message(dead_letter=True), body=b"x")
    end(rig, "orders")
    assert rig.bodies(DEAD_LETTERS) == []
    rig.check_books()


# -- final stream receipts (3.1.7.3.3)


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.3.3/1",
    "MC-MQSRM 3.1.7.3.3/2",
    "MC-MQSRM 3.1.7.3.3/4",
    "MC-MQSRM 3.1.7.3.3/5",
    "MC-MQSRM 3.1.1.3.3/1",
    "MC-MQSRM 3.1.1.3.3/3",
)
@pytest.mark.parametrize("restart", [False, True])
def test_a_received_stream_message_is_finally_receipted(rig: WebRig, restart: bool) -> None:
    first, second = rig.streamed(1, dead_letter=True), rig.streamed(2, dead_letter=True)
    assert rig.post(first, second) == [200, 200]
    rig.advance(1)
    rig.receive("streamed")  # the first message is gone
    if restart:
        rig.restart()
    rig.advance(9)
    rig.receive("streamed")
    final = on_the_wire(rig, RECEIPTS)[-1]
    assert (final.to, final.message_class, final.action) == (RECEIPTS, ACK_RECEIVE, "MSMQ:order")
    assert final.stream_receipt is not None
    assert final.stream_receipt.stream_id == stream_id(FAR_GUID, SEQUENCE)
    assert final.stream_receipt.last_ordinal == 2
    assert final.commitment_receipt == (rig.utc, "positive", MessageId(FAR_GUID, second.ordinal))
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.7.3.3/1", "MC-MQSRM 3.1.1.3.3/2", "MC-MQSRM 3.1.1.1.2.6/1")
def test_without_dead_letter_there_is_no_final_receipt(rig: WebRig) -> None:
    asks = {"commitment_receipt_to": ADMIN, "positive_only": True}
    assert rig.post(rig.streamed(1, **asks)) == [200]
    rig.advance(1)
    rig.receive("streamed")
    assert [receipt.final for receipt in rig.receipts()] == [False]
    assert len(rig.answers()) == 1


@pytest.mark.spec("MC-MQSRM 3.1.7.3.3/2", "MC-MQSRM 3.1.1.1.2.6/1", "MC-MQSRM 3.1.5.2.1.2/1")
@pytest.mark.parametrize(("code", "end"), NEGATIVE_ENDS)
@pytest.mark.parametrize("settings", [{}, {"send_insecure_nacks": True}], ids=["off", "on"])
def test_a_lost_stream_message_is_dead_lettered_by_its_sender(
    settings: dict[str, Any], code: int, end: End
) -> None:
    rig = WebRig(**settings)  # a final receipt belongs to the stream, decision 8 or not
    asks = {"commitment_receipt_to": ADMIN, "negative_only": True, "dead_letter": True}
    assert rig.post(rig.streamed(1, **asks)) == [200]
    end(rig, "streamed")
    final = on_the_wire(rig, RECEIPTS)[-1]
    assert final.commitment_receipt is not None
    assert (final.commitment_receipt.decision, final.message_class) == ("negative", code)
    assert rig.bodies(DEAD_TRANSACTIONAL) == []
    assert len(rig.answers()) == len(settings)
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.7.3.3/5")
def test_the_final_receipt_of_an_older_stream_goes_to_its_sender_too(rig: WebRig) -> None:
    assert rig.post(rig.streamed(1, dead_letter=True)) == [200]
    assert rig.post(rig.streamed(1, sequence=SEQUENCE + 1)) == [200]
    rig.receive("streamed")
    (final,) = [receipt for receipt in rig.receipts() if receipt.final]
    assert final.stream_id == stream_id(FAR_GUID, SEQUENCE)


@pytest.mark.spec("MC-MQSRM 3.1.7.3.3/3")
def test_other_ends_bring_no_final_receipt(rig: WebRig) -> None:
    assert rig.post(rig.streamed(1, dead_letter=True)) == [200]
    (read,) = rig.reads("streamed")
    queue = rig.queue("streamed")
    row = rig.manager.messages.find_row(read.number)
    assert row is not None
    rig.run(lambda m: m.messages.outcomes.delete(queue, read.number, row, 0x8004))
    assert rig.receipts() == []


@pytest.mark.spec("MC-MQSRM 3.1.1.4.3/1")
def test_a_stream_message_may_have_all_receipts_each_by_itself(rig: WebRig) -> None:
    assert rig.post(rig.streamed(1, dead_letter=True, **BOTH)) == [200]
    assert [m.message_class for m in on_the_wire(rig)] == [ACK_REACH_QUEUE]
    rig.advance(1)
    assert [receipt.final for receipt in rig.receipts()] == [False]
    rig.receive("streamed")
    assert [m.message_class for m in on_the_wire(rig)] == [ACK_REACH_QUEUE, ACK_RECEIVE]
    assert [receipt.final for receipt in rig.receipts()] == [False, True]
    rig.check_books()


# -- where receipts may go (decisions 9 and 83)


@pytest.mark.spec("MC-MQSRM 2.2.5.2.2/3", "MC-MQSRM 2.2.5.3.4/4")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.2/3")
@pytest.mark.parametrize(
    ("url", "goes_to"),
    [
        (f"http://{FAR}/msmq/private$/a", f"http://{FAR}/msmq/private$/a"),
        (f"http://{FAR}:8080/msmq/private$/a", f"http://{FAR}:8080/msmq/private$/a"),
        ("http://farhost:8080/msmq/private$/a", f"http://{FAR}:8080/msmq/private$/a"),
        ("http://192.0.2.8/msmq/private$/a", None),  # somebody else
        ("http://127.0.0.1:8080/msmq/private$/a", None),  # this machine, another door
        ("http://169.254.169.254/msmq/private$/a", None),
        ("http://localhost:8080/msmq/private$/a", None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_receipts_go_to_the_peer_and_to_nobody_else(
    rig: WebRig, url: str, goes_to: str | None, stream: bool
) -> None:
    message = rig.streamed(1, receipts_to=url) if stream else rig.message(delivery_receipt_to=url)
    assert rig.post(message) == [200]
    rig.advance(1)
    outgoing = [q.name.lower() for q in rig.manager.queues.outgoing_queues()]
    assert outgoing == ([] if goes_to is None else [f"direct={goes_to}"])
    assert all(q.definition.made_for for q in rig.manager.queues.outgoing_queues())
    assert rig.manager.machine.refusals["target_not_allowed"] == (goes_to is None)


def test_a_machine_has_one_port_for_its_receipts(rig: WebRig) -> None:
    def asking(port: int, guid: bytes = FAR_GUID) -> None:
        url = f"http://{FAR}:{port}/msmq/private$/a"
        assert rig.post(rig.message(delivery_receipt_to=url, source_guid=guid)) == [200]

    asking(8080)
    asking(8081)
    asking(8080)
    asking(9090, b"another machine!")
    ports = sorted(q.name.split(":")[2][:4] for q in rig.manager.queues.outgoing_queues())
    assert ports == ["8080", "9090"]
    rig.advance(3601)
    asking(8081)
    assert len(rig.manager.queues.outgoing_queues()) == 3


def test_a_peer_may_name_so_many_queues_for_receipts_in_an_hour() -> None:
    rig = WebRig(targets_per_peer=1)
    urls = [f"http://{FAR}/msmq/private$/q{number}" for number in range(30)]
    for url in urls:
        assert rig.post(rig.message(delivery_receipt_to=url)) == [200]
    named = [url for url in urls if rig.answers(url)]
    assert 0 < len(named) <= 10
    assert len(rig.manager.queues.outgoing_queues()) == len(named)
    assert rig.post(rig.message(delivery_receipt_to=named[0])) == [200]
    assert len(rig.answers(named[0])) == 2
    rig.advance(3600)
    assert rig.post(rig.message(delivery_receipt_to=urls[-1])) == [200]
    assert rig.answers(urls[-1])


@pytest.mark.spec("MC-MQSRM 2.2.5.2.2/4", "MC-MQSRM 2.2.5.3.4/4")
def test_on_one_machine_any_port_will_do(rig: WebRig) -> None:
    local = Peer(b"", "127.0.0.1")
    rig.manager.transfer.forbid_port(8816)
    for port in (8080, 8081, 8816):
        url = f"http://127.0.0.1:{port}/msmq/private$/a"
        assert rig.post(rig.message(delivery_receipt_to=url), peer=local) == [200]
    names = [q.name for q in rig.manager.queues.outgoing_queues()]
    assert len(names) == 2
    assert not any("8816" in name for name in names)  # decision 11: never our own admin port


def test_the_operator_may_allow_more() -> None:
    rig = WebRig(allowed_targets=("desk.example:8080",))
    for url in ("http://desk.example:8080/msmq/q", "http://desk.example/msmq/q"):
        assert rig.post(rig.message(delivery_receipt_to=url)) == [200]
    (queue,) = [q for q in rig.manager.queues.outgoing_queues() if "desk" in q.name]
    assert ":8080/" in queue.name


VICTIM = "http://bravo:8080/msmq/private$/order_queue$"


@pytest.mark.parametrize(
    ("addresses", "settings", "led_to"),
    [
        (None, {"allowed_targets": ("bravo:8080",)}, FAR),
        (None, {"allowed_targets": ("*",)}, FAR),
        (("192.0.2.50",), {}, FAR),
        (("192.0.2.50", FAR), {}, "bravo"),
        ((), {}, "bravo"),  # a machine that the directory knows by its name alone
        (None, {"srmp_receipts_elsewhere": {FAR: "bravo:8080"}}, "bravo"),
        (None, {"srmp_receipts_elsewhere": {FAR: "bravo"}}, FAR),
        (None, {"srmp_receipts_elsewhere": {"192.0.2.50": "bravo:8080"}}, FAR),
    ],
)
def test_stream_receipts_go_to_who_sends_the_stream(
    addresses: tuple[str, ...] | None, settings: dict[str, Any], led_to: str
) -> None:
    """Somebody names the address of the machine in whose stream it sends."""
    rig = WebRig(**settings)
    if addresses is not None:
        entry = objects.QueueManager(
            identifier=FAR_GUID, computer_name="BRAVO", addresses=addresses
        )
        service, clock = rig.manager.directory.service, rig.clock
        rig.run(lambda m: service.create_directory_object(entry, clock.now_ms, clock.utc_seconds))
    assert rig.post(rig.streamed(1, receipts_to=VICTIM)) == [200]
    rig.advance(1)
    there = f"DIRECT={VICTIM.replace('bravo', led_to)}"
    assert [receipt.last_ordinal for receipt in rig.receipts(there)] == [1]
    assert len(rig.manager.queues.outgoing_queues()) == 1


def test_receipts_go_elsewhere_for_addresses_only() -> None:
    with pytest.raises(InvalidParameter, match=r"'sender\.example', which is not an address"):
        WebRig(srmp_receipts_elsewhere={"sender.example": "bravo"})


def test_the_name_of_another_machine_leads_no_stream_receipts_there(rig: WebRig) -> None:
    entry = objects.QueueManager(identifier=b"another machine!", computer_name="BRAVO")
    service, clock = rig.manager.directory.service, rig.clock
    rig.run(lambda m: service.create_directory_object(entry, clock.now_ms, clock.utc_seconds))
    assert rig.post(rig.streamed(1, receipts_to=VICTIM)) == [200]
    rig.advance(1)
    assert rig.receipts(f"DIRECT={VICTIM.replace('bravo', FAR)}")
    assert not rig.receipts(f"DIRECT={VICTIM}")


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.2/3")
def test_a_receipt_queue_of_ours_is_written_to_like_by_anybody(rig: WebRig) -> None:
    rig.create("mine")
    url = "http://alpha/msmq/private$/mine"
    assert rig.post(rig.message(delivery_receipt_to=url)) == [200]
    assert rig.classes("mine") == [ACK_REACH_QUEUE]
    rig.set_security("mine", rig.security("mine").revoke(EVERYONE).pack())
    assert rig.post(rig.message(delivery_receipt_to=url)) == [200]
    assert len(rig.classes("mine")) == 1


def test_expired_messages_bring_a_negative_receipt() -> None:
    rig = LapsingRig(send_insecure_nacks=True)
    asks = {"commitment_receipt_to": ADMIN, "negative_only": True}
    assert rig.post(rig.message(**asks)) == [200]
    rig.expire_all("orders")
    (receipt,) = on_the_wire(rig)
    assert receipt.message_class == NACK_RECEIVE_TIMEOUT
    assert rig.waiting(RECEIPTS_NAME) == []
    assert rig.messages("orders") == []


@pytest.mark.spec("MC-MQSRM 2.2.5.2.3/6")
@pytest.mark.parametrize("host", ["192.0.2.8", "127.0.0.1:8080", "169.254.169.254"])
def test_commitment_receipts_go_to_nobody_else_either(rig: WebRig, host: str) -> None:
    url = f"http://{host}/msmq/private$/a"
    asks = {"commitment_receipt_to": url, "positive_only": True}
    assert rig.post(rig.message(**asks)) == [200]
    rig.receive("orders")
    assert rig.manager.queues.outgoing_queues() == []
    assert rig.manager.machine.refusals["target_not_allowed"] == 1
