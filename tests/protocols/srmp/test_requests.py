"""Messages as requests: what a user has signed is signed over HTTP too ([MC-MQSRM] 2.2.7)."""

from __future__ import annotations

import pytest

from posthouse.client.packets import PacketMaker
from posthouse.client.packets import options as packet_options
from posthouse.engine.manager import QueueManager
from posthouse.model.enumerations import QueueAccessType
from tests.protocols.srmp.memory_web import Machine, Visitor, Web
from tests.security.key_ring import certificate, private_key

TO = "DIRECT=HTTP://10.0.0.2/msmq/private$/q"


def user_of(machine: Machine) -> bytes:
    """A user who has a certificate with its key here."""
    machine.manager.certificates.key_file = lambda: b"s" * 32
    sid: bytes = machine.call(lambda m: m.accounts.add("maria")).sid
    machine.call(lambda m: m.certificates.register(sid, certificate("alice"), private_key("alice")))
    return sid


def send_as_maria(machine: Machine, *, sign: bool) -> None:
    packet = PacketMaker(TO, "alpha", protection=True).packet(
        b"<order/>", packet_options({"sign": sign, "recoverable": True}), False
    )

    def run(manager: QueueManager) -> None:
        opened = manager.queues.open_queue(
            TO, QueueAccessType.SEND, manager.accounts.caller("maria")
        )
        manager.messages.send_packets(opened, [packet])
        manager.queues.close_queue(opened)

    machine.call(run)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/26")
def test_a_signed_message_is_signed_over_http_too() -> None:
    web = Web()
    alpha, site = web.machine("ALPHA", "10.0.0.1"), web.site("10.0.0.2")
    user_of(alpha)
    send_as_maria(alpha, sign=False)
    send_as_maria(alpha, sign=True)
    plain, signed = site.messages()
    assert plain.signature is None
    assert signed.signature is not None


def test_a_signed_message_is_taken_by_who_knows_the_certificate() -> None:
    web = Web()
    alpha, beta = web.machine("ALPHA", "10.0.0.1"), web.machine("BETA", "10.0.0.2")
    beta.create("BETA\\private$\\q")
    sid = user_of(alpha)
    beta.call(lambda m: m.certificates.register(sid, certificate("alice")))
    send_as_maria(alpha, sign=True)
    assert beta.bodies("BETA\\private$\\q") == [b"<order/>"]
    assert alpha.outgoing(TO).state.count == 0


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_trace_context_of_a_message_is_a_header_of_its_request() -> None:
    """What is not a context stays in the extension alone."""
    web = Web()
    alpha, site = web.machine("ALPHA", "10.0.0.1"), web.site("10.0.0.2")
    good = b'{"traceparent":"%b","tracestate":"a=1"}' % PARENT.encode()
    for extension in (good, b'{"traceparent":"00-X\\r\\nEvil: 1"}', b"other"):
        alpha.send(TO, b"<order/>", extension=extension)
    heads = [request.head.raw for request in site.requests]
    assert [head.count(b"\r\ntraceparent: " + PARENT.encode()) for head in heads] == [1, 0, 0]
    assert [head.count(b"tracestate: a=1\r\n") for head in heads] == [1, 0, 0]
    assert not any(b"Evil" in head for head in heads)


def test_a_signed_message_gets_no_context_of_its_request() -> None:
    """What its sender has signed stays as it is."""
    web = Web()
    alpha, site = web.machine("ALPHA", "10.0.0.1"), web.site("10.0.0.2")
    sid = user_of(alpha)
    send_as_maria(alpha, sign=True)
    (request,) = site.requests
    elsewhere = Web()
    beta = elsewhere.machine("BETA", "10.0.0.2")
    beta.create("BETA\\private$\\q")
    beta.call(lambda m: m.certificates.register(sid, certificate("alice")))
    head = request.head.raw.removesuffix(b"\r\n") + b"traceparent: %b\r\n\r\n" % PARENT.encode()
    assert Visitor(elsewhere, beta).say(head + request.body).startswith(b"HTTP/1.1 200 ")
    assert beta.extensions("BETA\\private$\\q") == [b""]
