"""Streams between two queue managers, and whose receipts count ([MC-MQSRM] 3.1.2.2, 3.1.6.2)."""

from __future__ import annotations

import pytest

from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.engine.transfer.settings import RedirectSettings
from posthouse.model.guids import format_guid
from posthouse.model.message import Message, MessageId, TxSequenceId
from posthouse.protocols.srmp.link import SrmpLinkState
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.sim.forgery import posted
from posthouse.wire.packet.serialize import serialize
from posthouse.wire.srmp.message import FOREVER, SrmpMessage, StreamReceipt
from tests.engine.letters import FAR_GUID
from tests.engine.web import arrival_of
from tests.protocols.srmp.memory_web import SILENCE, Machine, Site, Visitor, Web

TO = "DIRECT=HTTP://10.0.0.2/msmq/private$/tx"
NAMED = "DIRECT=HTTP://beta/msmq/private$/tx"
TX = "BETA\\private$\\tx"


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def alpha(web: Web) -> Machine:
    return web.machine("ALPHA", "10.0.0.1")


@pytest.fixture
def beta(web: Web) -> Machine:
    made = web.machine("BETA", "10.0.0.2")
    made.create(TX, transactional=True)
    return made


def count_of(machine: Machine, name: str = TO) -> int:
    return machine.outgoing(name).state.count


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/4", "MC-MQSRM 3.1.1.1.2.4/1", "MC-MQSRM 3.1.1.4.2/1")
def test_a_stream_message_stays_until_its_receipt(web: Web, alpha: Machine, beta: Machine) -> None:
    alpha.send_in_transaction(TO, b"one", b"two")
    assert beta.bodies(TX) == [b"one", b"two"]
    assert count_of(alpha) == 2
    web.advance(600)
    assert count_of(alpha) == 0
    assert alpha.protocol.figures().requests == {"200": 1}


@pytest.mark.spec("MC-MQSRM 3.1.7.2.3/13")
@pytest.mark.spec(
    "MC-MQSRM 3.1.2.2/1", "MC-MQSRM 3.1.3.2/2", "MC-MQSRM 3.1.7.2.3/13", "MS-MQDMPR 3.1.1.4/3"
)
def test_the_receipt_wait_timer_runs_from_the_first_message_on(web: Web, alpha: Machine) -> None:
    web.site("10.0.0.2")
    alpha.send(TO, b"no stream")
    (link,) = alpha.protocol.links.all()
    assert link.sending.resend_at_ms > web.clock.now_ms + 1_000_000_000
    alpha.send_in_transaction(TO, b"one")
    assert link.sending.resend_at_ms == web.clock.now_ms + 30_000
    report = alpha.manager.transfer.report(alpha.outgoing(TO))
    assert report.resend_interval_s == 30
    assert report.resend_time == web.clock.utc_seconds + 30


@pytest.mark.spec("MC-MQSRM 3.1.1.1.6/6")
@pytest.mark.spec(
    "MC-MQSRM 3.1.2.2/2",
    "MC-MQSRM 3.1.6.2/1",
    "MC-MQSRM 3.1.6.2/3",
    "MC-MQSRM 3.1.1.1.6/6",
    "MC-MQSRM 3.1.3.1/4",
)
def test_messages_without_receipt_are_sent_again_in_order_by_the_table(
    web: Web, alpha: Machine
) -> None:
    site = web.site("10.0.0.2")
    alpha.send_in_transaction(TO, b"one", b"two")
    at = []
    for _ in range(11):
        before = len(site.requests)
        while len(site.requests) == before:
            web.advance(10_000)
        at.append(web.clock.now_ms // 1_000)
    waits = [30] * 3 + [300] * 3 + [1_800] * 3 + [21_600] * 2
    assert at == [sum(waits[: i + 1]) for i in range(11)]
    assert site.bodies == [b"one", b"two"] * 12
    streams = {str(message.stream) for message in site.messages()}
    assert len(streams) == 2  # the same places each time


@pytest.mark.spec("MC-MQSRM 3.1.5.1.8.2/7")
def test_a_receipt_takes_the_resend_interval_back_to_the_first(web: Web, alpha: Machine) -> None:
    site = web.site("10.0.0.2")
    alpha.send_in_transaction(TO, b"one", b"two")
    web.advance(3 * 30_000)
    assert site.bodies == [b"one", b"two"] * 4
    (link,) = alpha.protocol.links.all()
    assert link.sending.resend_at_ms == web.clock.now_ms + 300_000  # the fourth entry
    web.advance(100_000)
    stream = site.messages()[0].stream
    assert stream is not None
    receipt = StreamReceipt(stream.stream_id, stream.guid, stream.sequence_id, 1)
    message = SrmpMessage(
        to="http://10.0.0.1/msmq/private$/order_queue$",
        id=f"uuid:1@{format_guid(FAR_GUID)}",
        action="MSMQ:QM Ordering Ack",
        has_msmq=True,
        source_guid=FAR_GUID,
        ordinal=1,
        message_class=0xFF,
        sent_at=web.clock.utc_seconds,
        reach_by=FOREVER,
        stream_receipt=receipt,
    )
    peer = alpha.protocol.peer_at("10.0.0.2")
    arrival = arrival_of(message, peer=peer)
    alpha.call(lambda manager: manager.transfer.receive_srmp([arrival]))
    assert count_of(alpha) == 1
    alpha.send_in_transaction(TO, b"three")
    web.advance(29_999)
    assert site.bodies[8:] == [b"three"]
    web.advance(1)
    assert site.bodies[8:] == [b"three", b"two", b"three"]


@pytest.mark.spec("MC-MQSRM 3.1.6.2/1")
def test_an_idle_connection_is_opened_again_for_them(web: Web, alpha: Machine) -> None:
    settings = SrmpSettings(cleanup_ms=5_000)
    alpha = web.machine("ALPHA", "10.0.0.1", settings=settings)
    site = web.site("10.0.0.2")
    alpha.send_in_transaction(TO, b"one")
    web.advance(6_000)
    assert site.visits[0].is_over
    outgoing = alpha.outgoing(TO).outgoing
    assert outgoing is not None
    assert outgoing.state is OutgoingQueueState.DISCONNECTED
    web.advance(25_000)
    assert site.bodies == [b"one"] * 2
    alpha.send_in_transaction(TO, b"two")
    assert site.bodies == [b"one", b"one", b"two"]


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/11")
def test_a_failure_stops_the_receipt_wait_timer(web: Web, alpha: Machine) -> None:
    site = web.site("10.0.0.2")
    site.say(200, 500, 200)
    alpha.send_in_transaction(TO, b"one")
    alpha.send_in_transaction(TO, b"two")
    (link,) = alpha.protocol.links.all()
    assert link.sending.resend_at_ms > web.clock.now_ms + 1_000_000_000
    web.advance(20_000)
    assert site.bodies == [b"one", b"two", b"one", b"two"]


@pytest.mark.spec("MC-MQSRM 3.1.3.2/1", "MC-MQSRM 3.1.1.1.3/2")
def test_a_stream_goes_on_after_restarts_of_both(web: Web, alpha: Machine, beta: Machine) -> None:
    alpha.send_in_transaction(TO, b"one")
    alpha.restart()
    beta.restart()
    alpha.send_in_transaction(TO, b"two")
    web.advance(40_000)
    assert beta.bodies(TX) == [b"one", b"two"]
    assert count_of(alpha) == 0


def test_a_lost_answer_costs_nothing(web: Web, alpha: Machine, beta: Machine) -> None:
    alpha.send_in_transaction(TO, b"one")
    alpha.cables[-1].other.other = None  # type: ignore[union-attr] # nothing comes back any more
    alpha.send_in_transaction(TO, b"two")
    web.advance(120_000)
    assert beta.bodies(TX) == [b"one", b"two"]
    assert count_of(alpha) == 0


# -- whose receipts count (decision 24)


def test_receipts_count_from_where_the_name_leads(web: Web, alpha: Machine, beta: Machine) -> None:
    alpha.send_in_transaction(NAMED, b"one")
    queue = alpha.outgoing(NAMED).number
    links = alpha.protocol.links
    assert links.may_acknowledge(queue, "10.0.0.2") is True
    assert links.may_acknowledge(queue, "10.0.0.66") is False
    web.advance(600)
    assert count_of(alpha, NAMED) == 0


def test_receipts_from_elsewhere_count_for_nothing(web: Web, alpha: Machine) -> None:
    site = web.site("10.0.0.2")
    alpha.send_in_transaction(TO, b"one")
    assert site.bodies == [b"one"]
    queue = alpha.outgoing(TO).number
    assert alpha.protocol.links.may_acknowledge(queue, "10.0.0.66") is False
    trusting = SrmpSettings(receipts_from=("10.0.0.66",))
    gamma = web.machine("GAMMA", "10.0.0.3", settings=trusting)
    gamma.send_in_transaction(TO, b"one")
    peer = gamma.protocol.peer_at("10.0.0.66")
    assert peer.may_acknowledge(gamma.outgoing(TO).number)


def test_what_is_not_known_yet_is_found_out(web: Web, alpha: Machine) -> None:
    site = web.site("10.0.0.2")
    site.answers = [SILENCE]
    alpha.send_in_transaction(NAMED, b"one")  # the name service is silent
    queue, links = alpha.outgoing(NAMED).number, alpha.protocol.links
    assert links.may_acknowledge(queue, "10.0.0.2") is None
    web.run()
    web.names["beta"] = ["10.0.0.2"]
    assert links.may_acknowledge(queue, "10.0.0.2") is None
    web.run()
    assert links.may_acknowledge(queue, "10.0.0.2") is True


def test_a_host_that_has_moved_is_found_out(web: Web, alpha: Machine) -> None:
    web.names["beta"] = ["10.0.0.2"]
    web.site("10.0.0.2")
    alpha.send_in_transaction(NAMED, b"one")
    queue, links = alpha.outgoing(NAMED).number, alpha.protocol.links
    web.names["beta"] = ["10.0.0.3"]
    assert links.may_acknowledge(queue, "10.0.0.3") is False
    web.clock.advance_to(web.clock.now_ms + 61_000)
    assert links.may_acknowledge(queue, "10.0.0.3") is None
    web.run()
    assert links.may_acknowledge(queue, "10.0.0.3") is True


# -- where receipts are to come to (decision 60)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/16", "MC-MQSRM 2.2.5.3.4/3")
def test_receipts_are_asked_to_where_we_listen(web: Web) -> None:
    def address_of(site: Site) -> str | None:
        stream = site.messages()[-1].stream
        assert stream is not None
        return stream.send_receipts_to

    site = web.site("10.0.0.2")
    alpha = web.machine("ALPHA", "10.0.0.1", 8080)
    alpha.send_in_transaction(TO, b"one")
    assert address_of(site) == "http://10.0.0.1:8080/MSMQ/PRIVATE$/order_queue$"
    beta = web.machine("BETA", "10.0.0.4", settings=SrmpSettings(receipt_host="mail.example"))
    beta.send_in_transaction(TO, b"one")
    assert address_of(site) == "http://mail.example:80/MSMQ/PRIVATE$/order_queue$"
    gamma = web.machine("GAMMA", "10.0.0.5")
    gamma.protocol.listens("http", "0.0.0.0", 8081)  # on all addresses: the one of this connection
    gamma.send_in_transaction(TO, b"one")
    assert address_of(site) == "http://10.0.0.5:8081/MSMQ/PRIVATE$/order_queue$"


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/16")
def test_the_scheme_of_receipts_is_that_of_the_destination(web: Web) -> None:
    alpha = web.machine("ALPHA", "10.0.0.1")
    requests = alpha.protocol.requests
    assert requests.base_url(True, "10.0.0.1") == "http://10.0.0.1:80"
    alpha.protocol.listens("https", "0.0.0.0", 443)
    assert requests.base_url(True, "10.0.0.1") == "https://ALPHA:443"
    assert requests.base_url(False, "10.0.0.1") == "http://10.0.0.1:80"
    alpha.protocol.listens("http", "::", 80)
    assert requests.base_url(False, "fd00::1") == "http://[fd00::1]:80"


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/17", "MC-MQSRM 3.1.7.2.4/18", "MC-MQSRM 3.1.1.1.10.3/1")
def test_addresses_of_receipts_are_replaced_as_the_settings_say(web: Web) -> None:
    redirect = RedirectSettings(
        receipt_urls={"http://10.0.0.2/*": "http://front/msmq/private$/order_queue$"},
        default_receipt_url="http://other/msmq/private$/order_queue$",
    )
    alpha = web.machine("ALPHA", "10.0.0.1", srmp_redirect=redirect)
    near, far = web.site("10.0.0.2"), web.site("10.0.0.3")
    alpha.send_in_transaction(TO, b"one")
    alpha.send_in_transaction("DIRECT=HTTP://10.0.0.3/msmq/tx", b"one")
    streams = [site.messages()[0].stream for site in (near, far)]
    assert [stream.send_receipts_to for stream in streams if stream is not None] == [
        "http://front/msmq/private$/order_queue$",
        "http://other/msmq/private$/order_queue$",
    ]


@pytest.mark.spec("MC-MQSRM 3.1.7.2/1")
def test_what_has_expired_gets_neither_a_request_nor_a_place(web: Web, alpha: Machine) -> None:
    alpha.send_in_transaction(TO, b"late", time_to_reach_queue=5)
    alpha.send_in_transaction(TO, b"good")
    web.clock.advance_to(web.clock.now_ms + 10_000)
    site = web.site("10.0.0.2")
    web.advance(20_000)
    (message,) = site.messages()
    assert site.bodies == [b"good"]
    assert message.stream is not None
    assert message.stream.previous == 0
    assert message.stream.send_receipts_to


def test_what_expires_while_it_waits_for_its_final_receipt_leaves_no_link_behind(
    web: Web, alpha: Machine, beta: Machine
) -> None:
    alpha.send_in_transaction(
        TO,
        b"one",
        time_to_reach_queue=1_000,
        time_to_be_received=1_000,
        negative_journaling_requested=True,
    )
    web.advance(600)
    web.listeners.clear()  # its final receipt never comes
    alpha.restart()
    assert count_of(alpha) == 1
    assert [link.state for link in alpha.protocol.links.all()] == [SrmpLinkState.IDLE]
    web.advance(2_100_000)
    assert count_of(alpha) == 0
    assert alpha.protocol.links.all() == []


def test_a_purge_of_what_waits_for_its_receipt_leaves_no_link_behind(
    web: Web, alpha: Machine
) -> None:
    web.site("10.0.0.2")
    alpha.send_in_transaction(TO, b"one")
    web.advance(3_200_000)  # its connection ended, and the next resend is hours away
    assert [link.state for link in alpha.protocol.links.all()] == [SrmpLinkState.IDLE]
    alpha.call(lambda manager: manager.messages.moving.purge(alpha.outgoing(TO)))
    assert alpha.protocol.links.all() == []


def forged(alpha: Machine, number: int, body: bytes, receipts_to: str) -> bytes:
    """A post in the stream of a machine, to beta."""
    queue = alpha.outgoing(TO)
    sequence_id = alpha.manager.transfer.report(queue).next_sequence.sequence_id
    guid = alpha.manager.machine.identifier
    message = Message(
        body=body,
        identifier=MessageId(guid, 9_000 + number),
        source_machine_identifier=guid,
        sent_time=alpha.web.clock.utc_seconds,
        destination_queue_format_name=TO,
        transactional_message_sequence_identifier=TxSequenceId.from_int(sequence_id),
        transaction_sequence_number=number,
        transaction_previous_sequence_number=number - 1,
        first_in_transaction=True,
        last_in_transaction=True,
    )
    return posted(serialize(message), receipts_to)


def test_a_server_that_forwards_streams_keeps_their_senders_apart(web: Web) -> None:
    """Whom it hands them to believes what it says of where each came from."""
    around = RedirectSettings(outbound={"http://10.0.0.2/*": "http://10.0.0.3/*"})
    alpha = web.machine("ALPHA", "10.0.0.1", srmp_redirect=around)
    gate = web.machine("GATE", "10.0.0.3", routing_server=True, srmp_forwarding=True)
    beta = web.machine("BETA", "10.0.0.2", settings=SrmpSettings(reverse_proxies=("10.0.0.3",)))
    beta.create(TX, transactional=True)
    alpha.send_in_transaction(TO, b"one", b"two")
    web.advance(600)
    assert count_of(alpha) == 0  # the receipt came from beta itself
    visitor = Visitor(web, gate, "10.0.0.66")
    for number in (1, 2, 3, 4):
        visitor.say(forged(alpha, number, b"evil", "http://10.0.0.66/msmq/private$/order_queue$"))
    web.advance(600)
    alpha.send_in_transaction(TO, b"three", b"four")
    web.advance(600)
    assert [body for body in beta.bodies(TX) if body != b"evil"] == [
        b"one",
        b"two",
        b"three",
        b"four",
    ]
    assert beta.bodies(TX).count(b"evil") == 4
    assert count_of(alpha) == 0


def waits(alpha: Machine) -> int:
    """Messages that have arrived and wait for what became of them."""
    return alpha.manager.transfer.arrived(alpha.outgoing(TO))


@pytest.mark.parametrize("begins_at", ["", "10.0.0.11", "10.0.0.12"])
def test_an_idle_sender_that_has_moved_gets_its_final_receipts(
    web: Web, alpha: Machine, beta: Machine, begins_at: str
) -> None:
    """It moves twice, and has nothing more to send from where it is then."""
    alpha.send_in_transaction(TO, b"one", negative_journaling_requested=True)
    web.advance(600)
    for address in ("10.0.0.11", "10.0.0.12"):
        alpha.move(address)
        if address == begins_at:
            alpha.send_in_transaction(TO, b"two")
            web.advance(600)
    assert waits(alpha) == 1
    beta.receive(TX)
    web.advance(600)
    assert waits(alpha) == 1  # the receipt went to where it was before
    web.advance(6 * 3_600_000)
    assert waits(alpha) == 0
    assert count_of(alpha) == 0
    assert beta.bodies(TX) == ([b"two"] if begins_at else [])


@pytest.mark.parametrize("offline", [False, True])
def test_a_sender_that_was_paused_reminds_once_it_is_resumed(
    web: Web, alpha: Machine, beta: Machine, offline: bool
) -> None:
    """Seed 576 of the trials with a stranger: the pause stopped the timer for good."""
    alpha.send_in_transaction(TO, b"one", negative_journaling_requested=True)
    web.advance(600)
    alpha.move("10.0.0.11")
    queue = alpha.outgoing(TO)
    if offline:
        alpha.call(lambda manager: manager.transfer.take_offline())
    else:
        alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    beta.receive(TX)
    web.advance(6 * 3_600_000)
    assert waits(alpha) == 1
    if offline:
        alpha.call(lambda manager: manager.transfer.bring_online())
    else:
        alpha.call(lambda manager: manager.transfer.resume_queue(queue))
    web.advance(6 * 3_600_000)
    assert waits(alpha) == 0


def test_a_reminder_is_never_delivered(web: Web, alpha: Machine, beta: Machine) -> None:
    """The receiver has forgotten what it had accepted, and takes the sender for another."""
    alpha.send_in_transaction(TO, b"one", negative_journaling_requested=True)
    web.advance(600)
    beta.manager.transfer.outgoing.lineages.places._known.clear()
    for address in ("10.0.0.11", "10.0.0.11", "10.0.0.11"):
        alpha.move(address)
        web.advance(60_000)
    assert beta.bodies(TX) == [b"one"]


def test_a_sender_that_waits_for_the_end_of_messages_reminds_rarely(web: Web) -> None:
    alpha, site = web.machine("ALPHA", "10.0.0.1"), web.site("10.0.0.2")
    alpha.send_in_transaction(TO, b"one", b"two", negative_journaling_requested=True)
    (stream, *_) = [message.stream for message in site.messages()]
    assert stream is not None
    alpha.call(lambda m: m.transfer.outgoing.order_acknowledged(stream.sequence_id, 2))
    web.advance(21_600_000 - 1)
    assert site.bodies == [b"one", b"two"]
    web.advance(1)
    assert site.bodies == [b"one", b"two", b"two"]
    assert site.messages()[-1].expires_at <= web.clock.utc_seconds
    alpha.restart()
    web.advance(30_000)
    assert site.bodies[3:] == [b"two"]
