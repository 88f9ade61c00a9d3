"""What comes in over HTTP: statuses, order, batches, limits of time ([MC-MQSRM] 2.1.1, 3.1.5.1)."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from posthouse.protocols.srmp.settings import SrmpSettings
from tests.protocols.srmp.memory_web import Machine, Visitor, Web
from tests.support.srmp_posts import ENVELOPE, GUID, TO, post

PATH = "ALPHA\\private$\\q"


def statuses(data: bytes) -> list[int]:
    """The statuses of responses."""
    found = []
    while data:
        assert data.startswith(b"HTTP/1.1 "), data
        found.append(int(data[9:12]))
        head, _, rest = data.partition(b"\r\n\r\n")
        length = [int(x[16:]) for x in head.split(b"\r\n") if x.startswith(b"Content-Length: ")]
        data = rest[length[0] if length else 0 :]
    return found


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def alpha(web: Web) -> Machine:
    made = web.machine("ALPHA", "10.0.0.1")
    made.create(PATH)
    return made


@pytest.fixture
def visitor(web: Web, alpha: Machine) -> Visitor:
    return Visitor(web, alpha)


@pytest.mark.spec("MC-MQSRM 2.1.1/1", "MC-MQSRM 2.1.1/2")
def test_a_posted_message_is_in_its_queue_and_answered_200(
    alpha: Machine, visitor: Visitor
) -> None:
    date = formatdate(visitor.web.clock.utc_seconds, usegmt=True).encode()
    expected = b"HTTP/1.1 200 OK\r\nDate: " + date + b"\r\nContent-Length: 0\r\n\r\n"
    assert visitor.say(post()) == expected
    assert len(alpha.bodies(PATH)) == 1
    assert not visitor.is_closed


@pytest.mark.spec("MC-MQSRM 3.1.5.1.2/1", "MC-MQSRM 3.1.5.1.2/2")
@pytest.mark.parametrize(
    "wrong",
    [
        post().replace(b"</se:Envelope>", b"</se:Envelopf>"),
        post().replace(b"text/xml", b"image/gif"),
        post().replace(b"<action>", b"<actoin>"),
    ],
)
def test_a_malformed_message_is_answered_400_and_leaves_nothing(
    alpha: Machine, visitor: Visitor, wrong: bytes
) -> None:
    assert statuses(visitor.say(wrong)) == [400]
    assert alpha.bodies(PATH) == []
    assert statuses(visitor.say(post())) == [200]


RECEIPT = (
    ENVELOPE.format(to=TO, number=1, guid=GUID)
    .replace("<Class>0<", "<Class>2<")
    .replace(
        '<Msmq xmlns="msmq',
        "<deliveryReceipt><receivedAt>20231114T221320</receivedAt>"
        f'<id>uuid:7@{GUID}</id></deliveryReceipt><Msmq xmlns="msmq',
    )
)
ATTACHED = (
    f"--MSMQ - SOAP boundary, 7\r\nContent-Type: text/xml; charset=UTF-8\r\n"
    f"Content-Length: {len(RECEIPT)}\r\n\r\n{RECEIPT}\r\n--MSMQ - SOAP boundary, 7\r\n"
    "Content-Type: application/octet-stream\r\nContent-Length: 3\r\n"
    f"Content-Id: body@{GUID}\r\n\r\n"
    "abc\r\n--MSMQ - SOAP boundary, 7--\r\n"
)


def posted(payload: str, content_type: str) -> bytes:
    lines = ["POST /msmq/private$/q HTTP/1.1", "Host: 10.0.0.1", f"Content-Type: {content_type}"]
    return "\r\n".join([*lines, f"Content-Length: {len(payload)}", "", payload]).encode()


def test_a_receipt_with_an_attachment_is_refused(alpha: Machine, visitor: Visitor) -> None:
    multipart = 'multipart/related; boundary="MSMQ - SOAP boundary, 7"; type="text/xml"'
    assert statuses(visitor.say(posted(ATTACHED, multipart))) == [400]
    assert alpha.bodies(PATH) == []
    message = ATTACHED.replace(RECEIPT, ENVELOPE.format(to=TO, number=1, guid=GUID)).replace(
        f"Content-Length: {len(RECEIPT)}",
        f"Content-Length: {len(ENVELOPE.format(to=TO, number=1, guid=GUID))}",
    )
    assert statuses(visitor.say(posted(message, multipart))) == [200]
    assert alpha.bodies(PATH) == [b"abc"], "what was wrong was the receipt's attachment"


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/2", "MC-MQSRM 3.1.5.1.3/8", "MC-MQSRM 3.1.5.1.3/11")
@pytest.mark.parametrize(
    "to", ["http://10.0.0.1/msmq/private$/nobody", "http://10.0.0.2/msmq/private$/q"]
)
def test_a_message_for_no_queue_of_ours_is_answered_400(visitor: Visitor, to: str) -> None:
    answer = visitor.say(post(1, to))
    assert statuses(answer) == [400]
    assert b"text/plain" in answer


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/10")
def test_a_message_without_stream_for_a_transactional_queue_is_answered_400(
    alpha: Machine, visitor: Visitor
) -> None:
    alpha.create("ALPHA\\private$\\tx", transactional=True)
    assert statuses(visitor.say(post(1, "http://10.0.0.1/msmq/private$/tx"))) == [400]
    assert alpha.bodies("ALPHA\\private$\\tx") == []


@pytest.mark.spec("MC-MQSRM 3.1.5.1.12/8")
def test_a_queue_that_is_full_is_answered_500(alpha: Machine, visitor: Visitor) -> None:
    alpha.create("ALPHA\\private$\\full", quota_kib=1)
    to = "http://10.0.0.1/msmq/private$/full"
    assert statuses(visitor.say(post(1, to))) == [500]
    assert not visitor.is_closed


@pytest.mark.spec("MC-MQSRM 2.1.1/6")
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "TRACE", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_answered_405(alpha: Machine, visitor: Visitor, method: str) -> None:
    answer = visitor.say(f"{method} /msmq/private$/q HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert statuses(answer) == [405]
    assert b"\r\nAllow: POST\r\n" in answer
    assert statuses(visitor.say(post())) == [200]
    assert len(alpha.bodies(PATH)) == 1


@pytest.mark.spec("MC-MQSRM 2.1.1/6")
def test_another_method_with_a_body_ends_the_connection(alpha: Machine, visitor: Visitor) -> None:
    wrong = post().replace(b"POST", b"PUT")
    assert statuses(visitor.say(wrong)) == [405]
    assert visitor.is_closed
    assert alpha.bodies(PATH) == []


def test_nothing_but_queues_is_here(visitor: Visitor) -> None:
    assert statuses(visitor.say(post(target="/index.html"))) == [404]
    assert statuses(visitor.say(post(target="/MSMQ/private%24/q"))) == [200]


@pytest.mark.spec("MC-MQSRM 2.1.1/7")
def test_what_could_hide_a_second_request_is_answered_400_and_closed(
    alpha: Machine, visitor: Visitor
) -> None:
    wrong = post(1, TO, "Transfer-Encoding: chunked")
    assert statuses(visitor.say(wrong + post(2))) == [400]
    assert visitor.is_closed
    assert alpha.bodies(PATH) == []


def test_requests_are_answered_in_their_order(visitor: Visitor) -> None:
    nobody = "http://10.0.0.1/msmq/private$/nobody"
    get = b"GET /msmq/q HTTP/1.1\r\nHost: a\r\n\r\n"
    data = post(1) + get + post(2, nobody) + post(3) + get
    assert statuses(visitor.say(data)) == [200, 405, 400, 200, 405]


def test_requests_of_all_connections_are_one_call(web: Web, alpha: Machine) -> None:
    visitors = [Visitor(web, alpha, f"10.0.1.{i}") for i in range(8)]
    before = alpha.desk.calls
    for number, visitor in enumerate(visitors, 1):
        visitor.theirs.take(post(number))
    web.run()
    assert alpha.desk.calls == before + 1
    assert [statuses(visitor.got) for visitor in visitors] == [[200]] * 8
    assert len(alpha.bodies(PATH)) == 8


@pytest.mark.spec("MC-MQSRM 2.2.5.2.1/4")
def test_a_response_waits_for_the_sync(web: Web, alpha: Machine, visitor: Visitor) -> None:
    visitor.theirs.take(post())
    web.events.popleft()()  # the requests of this round are decided
    alpha.desk.turning = False
    alpha.driver.end_turn()
    alpha.driver.release()
    assert visitor.theirs.sent == b""
    alpha.driver.sync()
    alpha.driver.release()
    web.run()
    assert statuses(visitor.got) == [200]


def test_a_connection_stays_unless_told_otherwise(web: Web, alpha: Machine) -> None:
    visitor = Visitor(web, alpha)
    answer = visitor.say(post(1, TO, "Connection: close") + post(2))
    assert statuses(answer) == [200]
    assert b"Connection: close" in answer
    assert visitor.is_closed
    assert len(alpha.bodies(PATH)) == 1


def test_http_1_0_is_spoken(web: Web, alpha: Machine) -> None:
    old = post().replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"Host: 10.0.0.1\r\n", b"")
    visitor = Visitor(web, alpha)
    assert statuses(visitor.say(old)) == [200]
    assert visitor.is_closed
    visitor = Visitor(web, alpha)
    answer = visitor.say(old.replace(b"\r\n", b"\r\nConnection: Keep-Alive\r\n", 1))
    assert b"Connection: keep-alive" in answer
    assert not visitor.is_closed


def test_a_peer_that_asks_first_is_told_to_go_on(visitor: Visitor) -> None:
    data = post(1, TO, "Expect: 100-continue")
    head, end, body = data.partition(b"\r\n\r\n")
    assert visitor.say(head + end) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert statuses(visitor.say(body)) == [200]
    assert statuses(visitor.say(data)) == [200]  # it did not wait


def test_a_peer_that_asks_first_is_not_told_to_go_on_in_vain(visitor: Visitor) -> None:
    head = b"POST /msmq/q HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
    assert statuses(visitor.say(head + b"Content-Length: 99999999\r\n\r\n")) == [400]
    assert visitor.is_closed


def test_to_go_on_comes_behind_earlier_responses(visitor: Visitor) -> None:
    head, end, body = post(2, TO, "Expect: 100-continue").partition(b"\r\n\r\n")
    assert statuses(visitor.say(post(1) + head + end)) == [200, 100]
    assert statuses(visitor.say(body)) == [200]


@pytest.mark.spec("MC-MQSRM 2.1.1/8")
def test_a_silent_connection_is_closed_in_time(web: Web, visitor: Visitor) -> None:
    web.advance(119_000)
    assert not visitor.is_closed
    web.advance(31_000)
    assert visitor.is_closed
    assert visitor.got == b""


@pytest.mark.spec("MC-MQSRM 2.1.1/8")
def test_a_slow_request_is_closed_in_time(web: Web, alpha: Machine, visitor: Visitor) -> None:
    for byte in post()[:120]:
        visitor.cable.send([bytes([byte])])
        web.advance(1_250)
    assert visitor.is_closed
    assert statuses(visitor.got) == [408]
    assert alpha.bodies(PATH) == []
    assert not alpha.protocol.connections


def test_a_busy_connection_stays(web: Web, alpha: Machine, visitor: Visitor) -> None:
    for number in range(1, 6):
        web.advance(100_000)
        assert statuses(visitor.say(post(number))) == [200]
    assert len(alpha.bodies(PATH)) == 5


def test_one_connection_is_read_no_faster_than_it_is_answered(web: Web) -> None:
    alpha = web.machine("ALPHA", "10.0.0.1", settings=SrmpSettings(pending_max=4))
    alpha.create(PATH)
    visitor = Visitor(web, alpha)
    visitor.theirs.take(b"".join(post(number) for number in range(1, 5)))
    assert visitor.theirs.paused
    web.run()
    assert not visitor.theirs.paused
    assert statuses(visitor.got) == [200] * 4


def test_an_offline_or_stopping_queue_manager_says_so(web: Web, alpha: Machine) -> None:
    visitor = Visitor(web, alpha)
    alpha.call(lambda manager: manager.transfer.take_offline())
    assert statuses(visitor.say(post())) == [503]
    assert visitor.is_closed
    assert alpha.bodies(PATH) == []


def test_a_stop_answers_what_has_come_and_closes(web: Web, alpha: Machine) -> None:
    idle, busy = Visitor(web, alpha), Visitor(web, alpha)
    busy.theirs.take(post())
    alpha.protocol.stop()
    web.run()
    assert idle.is_closed
    assert statuses(busy.got) == [200]
    assert busy.is_closed
    assert not alpha.protocol.connections


def test_an_answer_for_somebody_who_has_gone_is_dropped(web: Web, alpha: Machine) -> None:
    visitor = Visitor(web, alpha)
    visitor.theirs.take(post())
    visitor.theirs.lose()
    web.run()
    assert len(alpha.bodies(PATH)) == 1
    assert not alpha.protocol.connections


def test_a_reverse_proxy_tells_for_whom_it_speaks(web: Web) -> None:
    settings = SrmpSettings(reverse_proxies=("10.0.0.7",))
    alpha = web.machine("ALPHA", "10.0.0.1", settings=settings)
    asked: list[str] = []
    peer_at = alpha.protocol.peer_at
    alpha.protocol.peer_at = lambda address: (asked.append(address), peer_at(address))[1]  # type: ignore[method-assign]
    for address, told in (("10.0.0.7", "1.2.3.4, 5.6.7.8"), ("10.0.0.8", "1.2.3.4")):
        Visitor(web, alpha, address).say(post(1, TO, f"X-Forwarded-For: {told}"))
    assert asked == ["10.0.0.7", "5.6.7.8", "10.0.0.8"]


def test_what_happened_is_counted(web: Web, alpha: Machine, visitor: Visitor) -> None:
    visitor.say(post(1) + post(2, "http://10.0.0.1/msmq/private$/nobody"))
    figures = alpha.protocol.figures()
    assert figures.requests == {"200": 1, "400": 1}
    assert figures.traffic["messages_in"] == 1
    assert figures.connections == 1


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("fields", "extension"),
    [
        ([f"traceparent: {PARENT}"], b'{"traceparent":"%b"}' % PARENT.encode()),
        (
            [f"Traceparent: {PARENT}", "tracestate: a=1", "tracestate: b=2"],
            b'{"traceparent":"%b","tracestate":"a=1, b=2"}' % PARENT.encode(),
        ),
        ([f"traceparent: {PARENT}", "tracestate: \x80"], b'{"traceparent":"%b"}' % PARENT.encode()),
        ([f"traceparent: {PARENT}", f"traceparent: {PARENT}"], b""),
        ([f"traceparent: {PARENT.upper()}"], b""),
        ([], b""),
    ],
)
def test_the_trace_context_of_a_request_goes_into_the_extension(
    alpha: Machine, visitor: Visitor, fields: list[str], extension: bytes
) -> None:
    """Where that is empty; what is not a context is passed over."""
    assert statuses(visitor.say(post(1, TO, *fields))) == [200]
    assert alpha.extensions(PATH) == [extension]
