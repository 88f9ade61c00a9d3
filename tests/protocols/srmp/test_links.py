"""Links: when messages are posted, to whom, and what their answers mean ([MC-MQSRM] 3.1.6-7)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.engine.transfer.settings import RedirectSettings
from posthouse.model.enumerations import ConnectionStatus, QueueAccessType
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.protocols.srmp.http_writer import response
from posthouse.protocols.srmp.link import CAUTION, SrmpLinkState
from posthouse.protocols.srmp.network import Secure
from posthouse.protocols.srmp.settings import SrmpSettings
from tests.protocols.srmp.memory_web import ADMIN, CLOSE, SILENCE, Machine, Site, Web

TO = "DIRECT=HTTP://10.0.0.2/msmq/private$/q"
STATE, STATUS = OutgoingQueueState, ConnectionStatus
DEADLETTER = "ALPHA\\system$;deadletter"
DEADXACT = "ALPHA\\system$;deadxact"


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def site(web: Web) -> Site:
    return web.site("10.0.0.2")


@pytest.fixture
def alpha(web: Web) -> Machine:
    return web.machine("ALPHA", "10.0.0.1")


def state_of(machine: Machine, name: str = TO) -> OutgoingQueueState:
    outgoing = machine.outgoing(name).outgoing
    assert outgoing is not None
    return outgoing.state


def count_of(machine: Machine, name: str = TO) -> int:
    return machine.outgoing(name).state.count


def history_of(machine: Machine, name: str = TO) -> list[int]:
    outgoing = machine.outgoing(name).outgoing
    assert outgoing is not None
    return [attempt.status for attempt in outgoing.connection_history]


# -- what goes out


@pytest.mark.spec(
    "MC-MQSRM 2.1.1/1",
    "MC-MQSRM 2.1.1/4",
    "MC-MQSRM 3.1.1.1.2.1/1",
    "MC-MQSRM 3.1.7.2.5/2",
    "MS-MQDMPR 3.1.7.3.9/4",
)
def test_messages_are_posted_in_order_and_gone_with_200(
    web: Web, alpha: Machine, site: Site
) -> None:
    alpha.send(TO, b"one", b"two", b"three")
    assert site.bodies == [b"one", b"two", b"three"]
    assert web.connects == [("10.0.0.2", 80, None)]
    assert len(site.visits) == 1  # one connection that stays
    assert count_of(alpha) == 0
    head = site.requests[0].head
    assert head.method == b"POST"
    assert head.path == "/msmq/private$/q"
    assert b"\r\nHost: 10.0.0.2\r\n" in head.raw
    assert site.messages()[0].to == "http://10.0.0.2/msmq/private$/q"


@pytest.mark.spec("MC-MQSRM 2.1.1/5")
def test_a_port_in_the_name_is_connected_to(web: Web, alpha: Machine) -> None:
    site = web.site("10.0.0.2", 8080)
    alpha.send("DIRECT=HTTP://10.0.0.2:8080/msmq/q", b"one")
    assert site.bodies == [b"one"]
    assert alpha.outgoing("DIRECT=HTTP://10.0.0.2:8080/msmq/q")
    assert b"\r\nHost: 10.0.0.2:8080\r\n" in site.requests[0].head.raw
    with pytest.raises(AssertionError):
        alpha.outgoing("DIRECT=HTTP://10.0.0.2/msmq/q")


@pytest.mark.spec("MC-MQSRM 2.1.1/3", "MC-MQSRM 2.1.1/4")
def test_https_is_never_sent_in_clear(web: Web, alpha: Machine) -> None:
    web.site("10.0.0.2", 443)
    alpha.send("DIRECT=HTTPS://10.0.0.2/msmq/q", b"one")
    assert web.connects == [("10.0.0.2", 443, Secure("10.0.0.2"))]


@pytest.mark.spec("MC-MQSRM 2.1.1/3")
def test_https_stays_https_when_it_is_redirected_or_goes_by_a_proxy(web: Web) -> None:
    redirect = RedirectSettings(outbound={"https://10.0.0.2/*": "http://10.0.0.3:81"})
    alpha = web.machine("ALPHA", "10.0.0.1", srmp_redirect=redirect)
    alpha.send("DIRECT=HTTPS://10.0.0.2/msmq/q", b"one")
    beta = web.machine(
        "BETA",
        "10.0.0.5",
        settings=SrmpSettings(proxy="http://10.0.0.4:3128", proxy_bypass=(".lan",)),
    )
    beta.send("DIRECT=HTTPS://10.0.0.2/msmq/q", b"one")
    assert web.connects == [
        ("10.0.0.3", 81, Secure("10.0.0.3")),
        ("10.0.0.4", 3128, Secure("10.0.0.2", "10.0.0.2:443")),
    ]


def test_a_proxy_gets_the_whole_url(web: Web) -> None:
    proxy = web.site("10.0.0.4", 3128)
    settings = SrmpSettings(proxy="http://10.0.0.4:3128", proxy_bypass=("10.0.0.6", ".LAN"))
    alpha = web.machine("ALPHA", "10.0.0.1", settings=settings)
    web.names["inner.lan"] = ["10.0.0.6"]
    near = web.site("10.0.0.6")
    alpha.send(TO, b"far")
    alpha.send("DIRECT=HTTP://inner.lan/msmq/q", b"near")
    alpha.send("DIRECT=HTTP://10.0.0.6/msmq/q", b"nearer")
    assert proxy.bodies == [b"far"]
    assert proxy.requests[0].head.raw.startswith(b"POST http://10.0.0.2/msmq/private$/q HTTP/1.1")
    assert near.bodies == [b"near", b"nearer"]
    assert near.requests[0].head.raw.startswith(b"POST /msmq/q HTTP/1.1")


@pytest.mark.spec("MC-MQSRM 3.1.7.7/1", "MC-MQSRM 3.1.1.1.3/3", "MS-MQDMPR 3.1.7.3.9/4")
def test_only_web_names_are_posted(web: Web, alpha: Machine) -> None:
    alpha.send("DIRECT=TCP:10.0.0.2\\private$\\q", b"binary")
    assert web.connects == []
    assert alpha.protocol.links.all() == []


def test_names_are_escaped_in_the_request_line(alpha: Machine, site: Site) -> None:
    alpha.send("DIRECT=HTTP://10.0.0.2/msmq/my#queue%ä", b"one")
    assert site.requests[0].head.path == "/msmq/my#queue%ä"
    assert b"POST /msmq/my%23queue%25%C3%A4 HTTP/1.1\r\n" in site.requests[0].head.raw


# -- connections


@pytest.mark.spec("MC-MQSRM 3.1.7.9/1")
def test_states_tell_how_far_a_connection_is(web: Web, alpha: Machine, site: Site) -> None:
    states: list[OutgoingQueueState] = []
    connect = alpha._connect

    def look(*arguments: Any) -> None:
        states.append(state_of(alpha))
        connect(*arguments)

    alpha._connect = look  # type: ignore[method-assign]
    alpha.send(TO, b"one")
    assert states == [STATE.WAITING]
    assert state_of(alpha) is STATE.CONNECTED
    assert history_of(alpha) == [STATUS.ESTABLISHED]
    outgoing = alpha.outgoing(TO).outgoing
    assert outgoing is not None
    assert outgoing.next_hops == ("IP=10.0.0.2",)
    web.advance(SrmpSettings().cleanup_ms - 1)
    assert not site.visits[0].is_over
    web.advance(1)
    assert site.visits[0].is_over, "the session cleanup timer runs from there"
    assert state_of(alpha) is STATE.DISCONNECTED


@pytest.mark.spec(
    "MC-MQSRM 3.1.2.4/1",
    "MC-MQSRM 3.1.6.4/1",
    "MC-MQSRM 3.1.6.4/2",
    "MC-MQSRM 3.1.7.7/4",
    "MC-MQSRM 3.1.7.9/1",
)
def test_an_idle_connection_is_closed_and_the_next_message_opens_another(
    web: Web, alpha: Machine, site: Site
) -> None:
    alpha.send(TO, b"one")
    web.advance(299_000)
    assert not site.visits[0].is_over
    web.advance(2_000)
    assert site.visits[0].is_over
    assert state_of(alpha) is STATE.DISCONNECTED
    assert alpha.protocol.links.all() == []
    alpha.send(TO, b"two")
    assert site.bodies == [b"one", b"two"]
    assert len(site.visits) == 2


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/10")
def test_each_answer_starts_the_cleanup_timer_anew(web: Web, alpha: Machine, site: Site) -> None:
    site.say(200, 400, 200)
    for body in (b"one", b"two", b"three"):
        alpha.send(TO, body)
        web.advance(200_000)
    assert len(site.visits) == 1
    web.advance(101_000)
    assert site.visits[0].is_over


@pytest.mark.spec("MC-MQSRM 3.1.7.1/1")
def test_a_connection_that_a_peer_closed_for_idleness_is_renewed_at_once(
    web: Web, alpha: Machine, site: Site
) -> None:
    site.answers = [response(200), CLOSE, response(200)]
    alpha.send(TO, b"one")
    alpha.send(TO, b"two")  # the peer closes just then
    assert site.bodies == [b"one", b"two", b"two"]
    assert count_of(alpha) == 0
    assert alpha.said == []


def test_an_idle_connection_that_is_closed_by_the_peer_is_no_failure(
    web: Web, alpha: Machine, site: Site
) -> None:
    alpha.send(TO, b"one")
    site.visits[0].transport.close()
    web.run()
    assert state_of(alpha) is STATE.DISCONNECTED
    assert alpha.protocol.links.all() == []
    alpha.send(TO, b"two")
    assert site.bodies == [b"one", b"two"]


def test_a_peer_that_closes_after_each_answer_gets_all(alpha: Machine, site: Site) -> None:
    site.answers = [response(200, keep=False)]
    alpha.send(TO, b"one", b"two", b"three")
    assert site.bodies == [b"one", b"two", b"three"]
    assert len(site.visits) == 3


def test_all_addresses_of_a_host_are_tried(web: Web, alpha: Machine) -> None:
    web.names["beta"] = ["10.0.0.3", "fe80::1", "10.0.0.2"]
    site = web.site("10.0.0.2")
    alpha.send("DIRECT=HTTP://beta/msmq/q", b"one")
    assert [address for address, _, _ in web.connects] == ["10.0.0.3", "fe80::1", "10.0.0.2"]
    assert site.bodies == [b"one"]


# -- what answers mean (decision 66)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/3")
def test_every_2xx_is_a_success(alpha: Machine, site: Site) -> None:
    site.say(202)
    alpha.send(TO, b"one")
    assert count_of(alpha) == 0


@pytest.mark.spec(
    "MC-MQSRM 3.1.2.1/2",
    "MC-MQSRM 3.1.2.1/3",
    "MC-MQSRM 3.1.6.1/2",
    "MC-MQSRM 3.1.7.2.5/7",
    "MC-MQSRM 3.1.7.2.5/12",
)
@pytest.mark.parametrize(
    "answer",
    [response(500), response(503), CLOSE, b"SMTP is spoken here\r\n\r\n", SILENCE],
    ids=["500", "503", "closed", "garbage", "silence"],
)
def test_what_failed_stays_and_is_sent_again(
    web: Web, alpha: Machine, site: Site, answer: bytes
) -> None:
    site.answers = [answer, response(200)]
    alpha.send(TO, b"one", b"two")
    web.advance(60_000 if answer == SILENCE else 0)
    assert count_of(alpha) == 2
    assert state_of(alpha) is STATE.DISCONNECTED
    assert site.visits[0].is_over or answer == CLOSE
    web.advance(19_999)
    assert len(site.requests) == 1
    web.advance(1)
    assert site.bodies == [b"one", b"one", b"two"]
    assert count_of(alpha) == 0
    assert state_of(alpha) is STATE.CONNECTED


@pytest.mark.spec("MC-MQSRM 2.2.5.2.1/3")
@pytest.mark.parametrize("connected", [False, True])
def test_no_octet_of_a_durable_message_leaves_before_its_sync(
    web: Web, alpha: Machine, site: Site, connected: bool
) -> None:
    if connected:
        alpha.send(TO, b"first")
    before = len(site.requests)

    def send(manager: QueueManager) -> None:
        opened = manager.queues.open_queue(TO, QueueAccessType.SEND, ADMIN)
        message = Message(body=b"one", delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
        manager.messages.enqueue_message_to_an_open_queue(opened, message)

    alpha.driver.begin_turn()
    alpha.driver.decide(send, lambda answer: None)
    alpha.driver.end_turn()
    alpha.driver.release()
    web.run()
    assert alpha.store.synced < alpha.store.appended
    assert len(site.requests) == before
    alpha.driver.sync()
    alpha.driver.release()
    web.run()
    assert site.bodies[before:] == [b"one"]


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/8", "MC-MQSRM 3.1.7.2.5/9")
@pytest.mark.parametrize("status", [301, 302, 307, 401, 403, 404, 413, 429])
def test_other_answers_are_shown_and_tried_again(
    web: Web, alpha: Machine, site: Site, status: int
) -> None:
    elsewhere = web.site("10.0.0.3")
    moved = response(status).replace(b"\r\n", b"\r\nLocation: http://10.0.0.3/msmq/q\r\n", 1)
    site.answers = [moved, response(200)]
    alpha.send(TO, b"one")
    outgoing = alpha.outgoing(TO).outgoing
    assert outgoing is not None
    assert str(status) in outgoing.last_error
    assert outgoing.retry_time
    assert history_of(alpha) == [STATUS.ESTABLISHED, STATUS.CONNECTION_REFUSED]
    assert alpha.said[0][0] == "peer_not_reached"
    web.advance(20_000)
    assert count_of(alpha) == 0
    assert outgoing.last_error == ""
    assert elsewhere.requests == []


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/5", "MC-MQSRM 3.1.1.1.2.1/3")
def test_what_is_refused_with_400_is_gone_or_a_dead_letter(alpha: Machine, site: Site) -> None:
    site.say(400, 400, 200)
    alpha.send(TO, b"lost")
    alpha.send(TO, b"dead", negative_journaling_requested=True)
    alpha.send(TO, b"good")
    assert site.bodies == [b"lost", b"dead", b"good"]
    assert count_of(alpha) == 0
    assert alpha.bodies(DEADLETTER) == [b"dead"]


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/6")
def test_a_stream_goes_on_anew_behind_a_400(web: Web, alpha: Machine, site: Site) -> None:
    site.say(200, 400, 200)
    alpha.send_in_transaction(TO, b"one", negative_journaling_requested=True)
    alpha.send_in_transaction(TO, b"bad", negative_journaling_requested=True)
    alpha.send_in_transaction(TO, b"three", negative_journaling_requested=True)
    web.advance(0)
    assert alpha.bodies(DEADXACT) == [b"bad"]
    first, bad, *again = site.messages()
    assert first.stream is not None
    assert bad.stream is not None
    last = again[-1].stream
    assert last is not None
    assert site.bodies[-1] == b"three"
    assert bad.stream.stream_id == first.stream.stream_id
    assert last.stream_id != first.stream.stream_id


@pytest.mark.spec("MC-MQSRM 3.1.1.1.2.1/2", "MC-MQSRM 3.1.6.1/4", "MC-MQSRM 3.1.3.1/5")
def test_pauses_grow_while_nothing_works(web: Web, alpha: Machine) -> None:
    alpha.send(TO, b"one")
    assert history_of(alpha) == [STATUS.CONNECTION_REFUSED]
    at = [0]
    for _ in range(7):
        before = len(web.connects)
        while len(web.connects) == before:
            web.advance(1_000)
        at.append(web.clock.now_ms // 1000)
    pauses = [after - before for before, after in pairwise(at)]
    assert pauses == [20, 40, 80, 160, 300, 300, 300]


@pytest.mark.spec("MC-MQSRM 3.1.2/1", "MC-MQSRM 3.1.3.1/5")
def test_the_pause_is_a_setting(web: Web) -> None:
    settings = SrmpSettings(retransmission_ms=1_000, round_trip_ms=500)
    alpha = web.machine("ALPHA", "10.0.0.1", settings=settings)
    alpha.send(TO, b"one")
    web.advance(1_499)
    assert len(web.connects) == 1
    web.advance(1)
    assert len(web.connects) == 2


@pytest.mark.spec("MC-MQSRM 3.1.2/1", "MC-MQSRM 3.1.3.1/4")
def test_every_timer_has_the_documents_value() -> None:
    settings, second, minute = SrmpSettings(), 1_000, 60_000
    assert settings.retransmission_ms == 20 * second
    assert settings.cleanup_ms == 300 * second
    expected = [30 * second] * 3 + [5 * minute] * 3 + [30 * minute] * 3 + [360 * minute]
    assert list(settings.resend_ms) == expected


@pytest.mark.spec("MC-MQSRM 3.1.6.1/1", "MC-MQSRM 3.1.6.1/3")
def test_each_queue_is_tried_again_by_itself_and_in_order(web: Web, alpha: Machine) -> None:
    other = "DIRECT=HTTP://10.0.0.3/msmq/q"
    alpha.send(TO, b"a1", b"a2")
    alpha.send(other, b"b1", b"b2")
    first, second = web.site("10.0.0.2"), web.site("10.0.0.3")
    web.advance(20_000)
    assert first.bodies == [b"a1", b"a2"]
    assert second.bodies == [b"b1", b"b2"]


@pytest.mark.spec("MC-MQSRM 3.1.7.2.1/1", "MC-MQSRM 3.1.7.2.1/3")
def test_what_has_expired_is_not_sent_again(web: Web, alpha: Machine, site: Site) -> None:
    site.say(500, 200)
    alpha.send(TO, b"short", time_to_reach_queue=10, negative_journaling_requested=True)
    alpha.send(TO, b"long")
    web.advance(20_000)
    assert site.bodies == [b"short", b"long"]
    assert alpha.bodies(DEADLETTER) == [b"short"]


@pytest.mark.spec("MC-MQSRM 3.1.7.2.1/1")
def test_what_expires_while_others_are_sent_is_not_sent(
    web: Web, alpha: Machine, site: Site
) -> None:
    site.answers = [SILENCE, response(200)]
    alpha.send(TO, b"slow", b"short", time_to_reach_queue=10)
    web.advance(30_000)
    site.visits[0].transport.send([response(200)])
    web.run()
    assert site.bodies == [b"slow"]
    assert count_of(alpha) == 0


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/1", "MC-MQSRM 3.1.7.8/1")
def test_one_request_waits_for_its_answer_before_the_next(alpha: Machine, site: Site) -> None:
    site.answers = [SILENCE]
    alpha.send(TO, b"one", b"two")
    assert site.bodies == [b"one"]
    site.answers = [response(200)]
    site.visits[0].transport.send([response(200)])
    alpha.web.run()
    assert site.bodies == [b"one", b"two"]


def test_a_pipeline_is_a_setting(web: Web) -> None:
    site = web.site("10.0.0.2")
    site.answers = [SILENCE]
    alpha = web.machine("ALPHA", "10.0.0.1", settings=SrmpSettings(pipeline=3))
    alpha.send(TO, b"0", b"1", b"2", b"3", b"4")
    assert site.bodies == [b"0"]  # the first answer shows what the peer can do
    answer(web, site, response(200))
    assert site.bodies == [b"0", b"1", b"2", b"3"]
    site.answers = [response(200)]
    answer(web, site, response(200), response(200))
    assert site.bodies == [b"0", b"1", b"2", b"3", b"4"]


def answer(web: Web, site: Site, *responses: bytes) -> None:
    """What the site has not answered yet, on its newest connection."""
    site.visits[-1].transport.send(list(responses))
    web.run()


@pytest.mark.parametrize("ends", ["closed", "announced", "silent"])
def test_a_peer_that_does_not_take_several_requests_gets_one_at_a_time(web: Web, ends: str) -> None:
    """It answers the first of several, and then no more: those are repeated, one by one."""
    site = web.site("10.0.0.2")
    site.answers = [SILENCE]
    alpha = web.machine("ALPHA", "10.0.0.1", settings=SrmpSettings(pipeline=3))
    alpha.send(TO, b"0", b"1", b"2", b"3")
    answer(web, site, response(200))
    assert site.bodies == [b"0", b"1", b"2", b"3"]
    answer(web, site, response(200, keep=ends != "announced"))
    if ends == "closed":
        site.visits[-1].transport.close()
    web.advance(SrmpSettings().response_ms if ends == "silent" else 0)
    assert len(site.visits) == 2
    for number in (b"2", b"3"):
        assert site.bodies[4:][-1] == number
        answer(web, site, response(200))
    assert site.bodies == [b"0", b"1", b"2", b"3", b"2", b"3"]
    assert count_of(alpha) == 0


def test_caution_ends_after_a_while_and_grows_with_each_stumble(web: Web) -> None:
    site = web.site("10.0.0.2")
    site.answers = [response(200), SILENCE]
    alpha = web.machine("ALPHA", "10.0.0.1", settings=SrmpSettings(pipeline=3))
    alpha.send(TO, b"0")
    alpha.send(TO, b"1", b"2", b"3")
    (link,) = alpha.protocol.links.all()
    assert site.bodies == [b"0", b"1", b"2", b"3"]
    site.answers = [response(200)]
    site.visits[-1].transport.close()
    web.run()
    assert count_of(alpha) == 0
    assert (link.stumbles, link.caution) == (1, CAUTION - 3)
    alpha.send(TO, *[b"x"] * (CAUTION - 3))
    assert link.caution == 0
    site.answers = [SILENCE]
    before = len(site.bodies)
    alpha.send(TO, b"4", b"5", b"6", b"7")
    assert site.bodies[before:] == [b"4", b"5", b"6"]  # again several
    link.stumbled()
    assert link.caution == 4 * CAUTION


def test_requests_to_a_proxy_go_one_at_a_time(web: Web) -> None:
    site = web.site("10.0.0.3", port=3128)
    site.answers = [response(200), SILENCE]
    settings = SrmpSettings(pipeline=3, proxy="http://10.0.0.3:3128")
    alpha = web.machine("ALPHA", "10.0.0.1", settings=settings)
    alpha.send(TO, b"0", b"1", b"2")
    assert site.bodies == [b"0", b"1"]


def test_a_peer_that_closes_after_each_answer_never_gets_two(web: Web) -> None:
    site = web.site("10.0.0.2")
    site.answers = [response(200, keep=False)]
    alpha = web.machine("ALPHA", "10.0.0.1", settings=SrmpSettings(pipeline=3))
    alpha.send(TO, *[b"%d" % number for number in range(5)])
    assert site.bodies == [b"%d" % number for number in range(5)]
    assert count_of(alpha) == 0


def test_answers_behind_a_failure_count_and_nothing_more_is_sent(web: Web) -> None:
    site = web.site("10.0.0.2")
    site.answers = [SILENCE]
    alpha = web.machine("ALPHA", "10.0.0.1", settings=SrmpSettings(pipeline=3))
    alpha.send(TO, b"0")
    answer(web, site, response(200))
    alpha.send(TO, b"1", b"2", b"3", b"4", b"5")
    site.answers = [response(200)]
    site.visits[0].transport.send([response(500)])
    web.run()
    assert not site.visits[0].is_over
    assert site.bodies == [b"0", b"1", b"2", b"3"]
    site.visits[0].transport.send([response(200), response(503)])
    web.run()
    assert site.visits[0].is_over
    outgoing = alpha.outgoing(TO).outgoing
    assert outgoing is not None
    assert outgoing.last_error == "the answer was 500 Internal Server Error"
    web.advance(20_000)
    assert site.bodies[4:] == [b"1", b"3", b"4", b"5"]
    assert count_of(alpha) == 0


@pytest.mark.parametrize("ends", ["closed", "silent", "last"])
def test_a_failure_with_nothing_behind_it_is_one_all_the_same(web: Web, ends: str) -> None:
    site = web.site("10.0.0.2")
    site.answers = [SILENCE]
    alpha = web.machine("ALPHA", "10.0.0.1", settings=SrmpSettings(pipeline=3))
    alpha.send(TO, b"0")
    answer(web, site, response(200))
    alpha.send(TO, b"1", b"2")
    site.answers = [response(200)]
    site.visits[0].transport.send([response(500, keep=ends != "last")])
    web.run()
    if ends == "closed":
        site.visits[0].transport.close()
    web.advance(SrmpSettings().response_ms if ends == "silent" else 0)
    assert history_of(alpha)[-1] == STATUS.CONNECTION_REFUSED
    assert site.bodies == [b"0", b"1", b"2"]
    web.advance(20_000)
    assert site.bodies == [b"0", b"1", b"2", b"1", b"2"]


def test_an_answer_to_nothing_ends_the_connection(web: Web, alpha: Machine, site: Site) -> None:
    alpha.send(TO, b"one")
    site.visits[0].transport.send([response(200)])
    web.run()
    assert site.visits[0].is_over


# -- operators


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.4/1", "MC-MQSRM 3.1.7.4/2", "MC-MQSRM 3.1.7.7/2", "MS-MQDMPR 3.1.1.3/5"
)
def test_a_paused_queue_sends_nothing(web: Web, alpha: Machine, site: Site) -> None:
    alpha.send(TO, b"one")
    queue = alpha.outgoing(TO)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    assert site.visits[0].is_over
    alpha.send(TO, b"two")
    web.advance(3_600_000)
    assert site.bodies == [b"one"]
    assert state_of(alpha) is STATE.ON_HOLD


@pytest.mark.spec("MC-MQSRM 3.1.7.4/1")
def test_a_pause_stops_the_timers(web: Web, alpha: Machine) -> None:
    alpha.send(TO, b"one")
    queue = alpha.outgoing(TO)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    web.advance(3_600_000)
    assert len(web.connects) == 1


@pytest.mark.spec("MC-MQSRM 3.1.7.5/1")
def test_a_resumed_queue_sends_all_in_order(web: Web, alpha: Machine, site: Site) -> None:
    alpha.send(TO, b"one")
    queue = alpha.outgoing(TO)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    alpha.send(TO, b"two", b"three")
    alpha.call(lambda manager: manager.transfer.resume_queue(queue))
    assert site.bodies == [b"one", b"two", b"three"]
    assert state_of(alpha) is STATE.CONNECTED


def test_an_operator_need_not_wait(web: Web, alpha: Machine) -> None:
    alpha.send(TO, b"one")
    site, queue = web.site("10.0.0.2"), alpha.outgoing(TO)
    alpha.call(lambda manager: manager.transfer.retry(queue))
    assert site.bodies == [b"one"]


def test_nothing_is_sent_offline(web: Web, alpha: Machine, site: Site) -> None:
    alpha.call(lambda manager: manager.transfer.take_offline())
    alpha.send(TO, b"one")
    assert site.requests == []
    assert web.connects == []
    alpha.call(lambda manager: manager.transfer.bring_online())
    assert site.bodies == [b"one"]


def test_a_queue_whose_last_message_expired_is_let_go(web: Web, alpha: Machine) -> None:
    alpha.send(TO, b"one", time_to_reach_queue=10)
    assert len(alpha.protocol.links.all()) == 1
    web.advance(30_000)
    assert count_of(alpha) == 0
    assert alpha.protocol.links.all() == []


def test_a_stop_closes_every_connection(web: Web, alpha: Machine, site: Site) -> None:
    alpha.send(TO, b"one")
    alpha.protocol.stop()
    web.run()
    assert site.visits[0].is_over
    web.advance(1_000_000)
    assert len(web.connects) == 1


# -- restarts


@pytest.mark.spec("MC-MQSRM 3.1.3.1/2", "MC-MQSRM 3.1.1.1.3/2")
def test_what_waits_is_sent_after_a_restart_under_the_same_identifier(
    web: Web, alpha: Machine
) -> None:
    site = web.site("10.0.0.2")
    site.answers = [SILENCE]
    alpha.send(TO, b"one")
    site.answers = [response(200)]
    alpha.restart()
    alpha.send(TO, b"two")
    first, again, second = site.messages()
    names = [(each.source_guid, each.ordinal) for each in (first, again, second)]
    assert names[0] == names[1] != names[2]
    assert first.sent_at == again.sent_at


# -- redirections


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.9/3", "MC-MQSRM 3.1.7.9/4", "MC-MQSRM 3.1.7.9/5", "MC-MQSRM 3.1.1.1.10.1/1"
)
def test_a_redirection_changes_the_host_and_nothing_else(web: Web) -> None:
    redirect = RedirectSettings(
        outbound={"http://10.0.0.2/*": "http://10.0.0.3:81"},
        outbound_exceptions=("http://10.0.0.2/msmq/private$/not*",),
    )
    alpha = web.machine("ALPHA", "10.0.0.1", srmp_redirect=redirect)
    own, other = web.site("10.0.0.2"), web.site("10.0.0.3", 81)
    alpha.send(TO, b"one")
    alpha.send("DIRECT=HTTP://10.0.0.2/msmq/private$/not_this", b"two")
    assert other.bodies == [b"one"]
    assert other.messages()[0].to == "http://10.0.0.2/msmq/private$/q"
    assert own.bodies == [b"two"]


@pytest.mark.spec("MC-MQSRM 3.1.7.9/6")
def test_a_redirection_never_leads_to_a_link_local_address(web: Web) -> None:
    redirect = RedirectSettings(outbound={"http://10.0.0.2/*": "http://cloud"})
    alpha = web.machine("ALPHA", "10.0.0.1", srmp_redirect=redirect)
    web.names["cloud"] = ["169.254.169.254"]
    alpha.send(TO, b"one")
    assert web.connects == []
    assert history_of(alpha) == [STATUS.DNS_FAILURE]


def test_who_forwards_for_strangers_connects_to_no_link_local_address(web: Web) -> None:
    alpha = web.machine("ALPHA", "10.0.0.1", srmp_forwarding=True)
    web.names["2852039166"] = ["169.254.169.254"]  # as resolvers read it
    alpha.send("DIRECT=HTTP://2852039166/msmq/q", b"one")
    assert web.connects == []


@pytest.mark.spec("MC-MQSRM 3.1.7.9/6")
def test_a_redirection_never_leads_to_our_admin_port(web: Web) -> None:
    redirect = RedirectSettings(outbound={"http://10.0.0.2/*": "http://10.0.0.1:8816"})
    alpha = web.machine("ALPHA", "10.0.0.1", srmp_redirect=redirect)
    alpha.call(lambda manager: manager.transfer.forbid_port(8816))
    alpha.send(TO, b"one")
    assert ("10.0.0.1", 8816, None) not in web.connects


def test_figures_tell_of_links(web: Web, alpha: Machine, site: Site) -> None:
    site.say(200, 500)
    alpha.send(TO, b"one")
    alpha.send(TO, b"two")
    figures = alpha.protocol.figures()
    assert figures.posts == {"200": 1, "500": 1}
    assert figures.links == {SrmpLinkState.WAITING.value: 1}
    assert figures.traffic["messages_out"] == 2
    assert figures.traffic["bytes_out"] > 500


@pytest.mark.spec("MC-MQSRM 3.1.7.4/2")
def test_a_connection_that_comes_after_a_pause_is_not_used(
    web: Web, alpha: Machine, site: Site
) -> None:
    web.names["beta"] = ["10.0.0.2"]
    name = "DIRECT=HTTP://beta/msmq/q"
    connect, begun = alpha._connect, []
    alpha._connect = lambda *arguments: begun.append(arguments)  # type: ignore[method-assign]
    alpha.send(name, b"one")
    queue = alpha.outgoing(name)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    connect(*begun[0])
    web.run()
    assert site.requests == []
    assert state_of(alpha, name) is STATE.ON_HOLD


# -- clocks


@pytest.mark.parametrize(
    ("ahead", "known"), [(30 * 86_400, [("10.0.0.2", -30 * 86_400)]), (30, []), (-86_400, [])]
)
def test_the_date_of_answers_shows_that_our_clock_is_behind(
    web: Web, alpha: Machine, site: Site, ahead: int, known: list[tuple[str, int]]
) -> None:
    site.answers = [response(200, utc=web.clock.utc_seconds + ahead)]
    alpha.send(TO, b"one")
    assert count_of(alpha) == 0
    found = alpha.call(lambda m: m.transfer.clocks_that_differ())
    assert [(one.address, one.behind_s) for one in found] == known
