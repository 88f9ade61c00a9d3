"""What the elements of [MC-MQSRM] 2.2 bring about in the queue manager, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.settings import RedirectSettings
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival
from posthouse.model.message import HashAlgorithm
from posthouse.model.message_classes import ACK_REACH_QUEUE, ACK_RECEIVE, NACK_QUEUE_PURGED
from posthouse.security.xml_signatures import sign
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.mime_parts import read_parts, write_parts
from posthouse.wire.srmp.serialize import SrmpContext, srmp_of
from posthouse.wire.srmp.writer import write_envelope
from tests.engine.letters import FAR_GUID
from tests.engine.web import ADMIN, AWAY, FAR, ORDERS, PEER, WebRig, head_of
from tests.support.xml_signatures import signer
from tests.wire.srmp import example

BODY = b"signed"


@pytest.fixture
def rig() -> WebRig:
    return WebRig(send_insecure_nacks=True)


def classes(rig: WebRig, url: str = ADMIN) -> list[int]:
    return [packet.message_class for packet in rig.answers(url)]


# -- to, 2.2.4.2


@pytest.mark.spec("MC-MQSRM 2.2.4.2/5")
@pytest.mark.parametrize(
    ("host", "status"),
    [("alpha", 200), ("ALPHA", 200), ("localhost", 200), ("127.0.0.1", 200), ("other", 400)],
)
def test_the_host_of_the_destination_is_ours_by_any_of_our_names(
    rig: WebRig, host: str, status: int
) -> None:
    assert rig.post(rig.message(f"http://{host}/msmq/private$/orders"), body=b"x") == [status]
    assert len(rig.messages("orders")) == (status == 200)


@pytest.mark.spec("MC-MQSRM 2.2.4.2/6")
@pytest.mark.parametrize("forwarding", [False, True])
def test_our_own_address_with_another_port_is_neither_ours_nor_anybodys(forwarding: bool) -> None:
    rig = WebRig(routing_server=forwarding, srmp_forwarding=forwarding)
    for host in ("alpha", "127.0.0.1"):
        assert rig.post(rig.message(f"http://{host}:9999/msmq/private$/orders")) == [400]
    assert rig.messages("orders") == []
    assert rig.manager.queues.outgoing_queues() == []


# -- expiresAt, 2.2.5.1.1


@pytest.mark.spec("MC-MQSRM 2.2.5.1.1/2", "MC-MQSRM 2.2.6.17/2")
@pytest.mark.parametrize("with_msmq", [False, True])
def test_an_expired_message_is_discarded_and_brings_no_receipt(
    rig: WebRig, with_msmq: bool
) -> None:
    late = {"sent_at": rig.utc - 60, "expires_at": rig.utc - 1, "delivery_receipt_to": ADMIN}
    message = SrmpMessage(action="MSMQ:", to=ORDERS, id="x", **late)
    if with_msmq:
        message = rig.message(reach_by=rig.utc - 1, **late)
    assert rig.post(message, body=b"x") == [200]
    assert rig.messages("orders") == []
    assert rig.answers() == []
    assert rig.manager.machine.refusals["expired_on_arrival"] == 1


# -- services, 2.2.5.2


@pytest.mark.spec("MC-MQSRM 2.2.5.2.1/5", "MC-MQSRM 2.2.5.2.2/2", "MC-MQSRM 2.2.5.4/1")
def test_a_delivery_receipt_follows_the_message_and_only_where_it_was_asked_for(
    rig: WebRig,
) -> None:
    assert rig.post(rig.message()) == [200]
    assert rig.answers() == []
    before = len(rig.store.log)
    assert rig.post(rig.message(delivery_receipt_to=ADMIN)) == [200]
    assert classes(rig) == [ACK_REACH_QUEUE]
    for length in range(before, len(rig.store.log)):  # never without its message
        cut = WebRig()
        cut.restart(rig.store.log[:length])
        assert len(cut.answers()) <= len(cut.messages("orders")) - 1
    rig.delete("orders")
    assert rig.post(rig.message(delivery_receipt_to=ADMIN)) == [400]
    assert classes(rig) == [ACK_REACH_QUEUE]


@pytest.mark.spec(
    "MC-MQSRM 2.2.5.2.2/3",
    "MC-MQSRM 2.2.5.2.3/6",
    "MC-MQSRM 2.2.5.3.4/4",
)
@pytest.mark.parametrize("kind", ["delivery", "commitment", "stream"])
@pytest.mark.parametrize("host", ["192.0.2.8", "198.51.100.1", "169.254.169.254"])
def test_addresses_from_the_wire_lead_to_the_peer_and_to_no_other(
    rig: WebRig, kind: str, host: str
) -> None:
    url = f"http://{host}/msmq/private$/a"
    _post_asking(rig, kind, url, PEER)
    assert rig.manager.queues.outgoing_queues() == []
    assert rig.manager.machine.refusals["target_not_allowed"] == 1


@pytest.mark.spec("MC-MQSRM 2.2.5.2.2/4", "MC-MQSRM 2.2.5.3.4/4", "MC-MQSRM 2.2.5.2.3/6")
@pytest.mark.parametrize("kind", ["delivery", "commitment", "stream"])
@pytest.mark.parametrize(("peer", "allowed"), [("127.0.0.1", True), (FAR, False)])
def test_loopback_is_for_peers_on_loopback(
    rig: WebRig, kind: str, peer: str, allowed: bool
) -> None:
    _post_asking(rig, kind, "http://127.0.0.1:8080/msmq/private$/a", Peer(b"", peer))
    assert len(rig.manager.queues.outgoing_queues()) == allowed


def _post_asking(rig: WebRig, kind: str, url: str, peer: Peer) -> None:
    """A message that wants a receipt of this kind at this address; all that is due has gone."""
    asks: dict[str, Any] = {f"{kind}_receipt_to": url}
    if kind == "commitment":
        asks["positive_only"] = True
    message = rig.streamed(1, receipts_to=url) if kind == "stream" else rig.message(**asks)
    assert rig.post(message, peer=peer) == [200]
    if kind == "commitment":
        rig.receive("orders")
    rig.advance(1)


@pytest.mark.spec("MC-MQSRM 2.2.5.2.2/5")
def test_a_receipt_asks_for_nothing(rig: WebRig) -> None:
    asks = {"delivery_receipt_to": ADMIN, "commitment_receipt_to": ADMIN, "positive_only": True}
    assert rig.post(rig.message(**asks)) == [200]
    rig.receive("orders")
    for packet in rig.answers():
        receipt = rig.request(packet)[1]
        assert receipt.delivery_receipt_to == receipt.commitment_receipt_to == ""
        assert packet.summary.ack_flags == 0


@pytest.mark.spec(
    "MC-MQSRM 2.2.5.2.3/2",
    "MC-MQSRM 2.2.5.2.3/3",
    "MC-MQSRM 2.2.5.2.3/4",
    "MC-MQSRM 2.2.5.2.3/5",
    "MC-MQSRM 2.2.5.5/5",
)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("purged", [False, True])
def test_a_commitment_receipt_tells_the_outcome_that_was_asked_for(
    rig: WebRig, positive: bool, negative: bool, purged: bool
) -> None:
    asks = {
        "commitment_receipt_to": ADMIN,
        "positive_only": positive,
        "negative_only": negative,
    }
    assert rig.post(rig.message(**asks)) == [200]
    if purged:
        rig.purge("orders")
        assert classes(rig) == [NACK_QUEUE_PURGED] * negative
    else:
        rig.receive("orders")
        assert classes(rig) == [ACK_RECEIVE] * positive
    for packet in rig.answers():
        assert rig.request(packet)[1].to == ADMIN


# -- signatures, 3.1.5.1.6.1


def signed(rig: WebRig, body: bytes = BODY, **elements: Any) -> SrmpArrival:
    """A signed message; the signature is over BODY."""
    message = rig.message(**elements)
    signature = sign(BODY, b"", FAR_GUID, HashAlgorithm.SHA1, signer())
    envelope = write_envelope(message, signature)
    content_type, payload = write_parts(envelope, body, guid=FAR_GUID, number=1)
    parts = read_parts(content_type, payload)
    return SrmpArrival(PEER, read_envelope(parts.envelope), parts, head_of(content_type))


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/1", "MC-MQSRM 3.1.5.1.6.1/14")
def test_a_message_with_a_wrong_signature_is_refused_for_good(rig: WebRig) -> None:
    good, bad = signed(rig), signed(rig, body=b"changed")
    verdicts = rig.run(lambda m: m.transfer.receive_srmp([good, bad]))
    assert [verdict.status for verdict in verdicts] == [200, 400]
    assert rig.bodies("orders") == [BODY]
    assert not rig.messages("orders")[0].sender_identifier


# -- sendReceiptsTo, 3.1.7.2.4


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/17", "MC-MQSRM 3.1.7.2.4/18")
@pytest.mark.parametrize(
    ("entries", "default", "expected"),
    [
        ({}, "", "http://alpha:8080/MSMQ/PRIVATE$/order_queue$"),
        ({"http://far.example/*": "http://gate/r"}, "", "http://gate/r"),
        ({"http://far.example/*": "http://gate/r"}, "http://all/r", "http://gate/r"),
        ({"http://near.example/*": "http://gate/r"}, "http://all/r", "http://all/r"),
    ],
)
def test_the_address_for_stream_receipts_may_be_replaced(
    entries: dict[str, str], default: str, expected: str
) -> None:
    settings = RedirectSettings(receipt_urls=entries, default_receipt_url=default)
    rig = WebRig(srmp_redirect=settings)
    transaction = rig.begin()
    rig.send(AWAY, b"1", tx=transaction)
    rig.commit(transaction)
    (packet,) = rig.take()
    url = "http://far.example/msmq/private$/inbox"
    ours = "http://alpha:8080/MSMQ/PRIVATE$/order_queue$"
    context = SrmpContext(rig.manager.transfer.receipts_to(url, ours))
    request = srmp_of(packet.data, packet.summary, context)
    assert f"<sendReceiptsTo>{expected}</sendReceiptsTo>".encode() in request.payload


# -- the examples of section 4, all the way into queues

EXAMPLES = {
    "simpleq": ("4.1-simple", "1.3.12-example", "4.3-request"),
    "tsimpleq": ("4.4-message-1", "4.4-message-2", "4.4-message-3"),
}


def set_clock(rig: WebRig, utc: int) -> None:
    rig.clock.step_utc(utc - rig.utc)


@pytest.mark.parametrize("queue", EXAMPLES)
def test_the_examples_of_the_document_arrive_in_their_queues(queue: str) -> None:
    rig = WebRig(aliases=("machine2",), allowed_targets=("machine1",))
    rig.create(queue, transactional=queue == "tsimpleq")
    set_clock(rig, 1_181_320_000)  # the 8th of June 2007, before all of them are sent
    peer = Peer(b"", FAR)
    for name in EXAMPLES[queue]:
        head, _, _, parts = example(name)
        arrival = SrmpArrival(peer, read_envelope(parts.envelope), parts, head)
        (verdict,) = rig.run(lambda m, one=arrival: m.transfer.receive_srmp([one]))
        assert verdict.status == 200
    sent = [example(name) for name in EXAMPLES[queue]]
    assert rig.bodies(queue) == [one.parts.body for one in sent]
    found = [message.soap_compound_message for message in rig.messages(queue)]
    assert found == [one.head + one.payload for one in sent]


def test_the_receipts_of_4_3_are_those_that_its_request_brings() -> None:
    rig = WebRig(aliases=("machine2",), allowed_targets=("machine1",))
    rig.create("simpleq")
    set_clock(rig, 1_184_815_494)  # 20070719T032454
    head, _, _, parts = example("4.3-request")
    arrival = SrmpArrival(PEER, read_envelope(parts.envelope), parts, head)
    rig.run(lambda m: m.transfer.receive_srmp([arrival]))
    (packet,) = rig.answers("http://machine1/MSMQ/private$/receipts")
    ours, theirs = rig.request(packet)[1], read_envelope(example("4.3-delivery-receipt").payload)
    assert ours.delivery_receipt == theirs.delivery_receipt
    assert (ours.to, ours.action, ours.via) == (theirs.to, theirs.action, theirs.via)
    assert (ours.message_class, ours.correlation) == (theirs.message_class, theirs.correlation)
    set_clock(rig, 1_184_815_641)  # 20070719T032721
    rig.receive("simpleq")
    (packet,) = rig.answers("http://machine1/MSMQ/private$/deliverydone")
    ours, theirs = rig.request(packet)[1], read_envelope(example("4.3-commitment-receipt").payload)
    assert ours.commitment_receipt == theirs.commitment_receipt
    assert (ours.message_class, ours.action) == (theirs.message_class, theirs.action)
