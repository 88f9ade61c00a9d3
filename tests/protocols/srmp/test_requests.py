"""Messages as requests: what a user has signed is signed over HTTP too ([MC-MQSRM] 2.2.7)."""

from __future__ import annotations

import pytest

from posthouse.client.packets import PacketMaker
from posthouse.client.packets import options as packet_options
from posthouse.engine.manager import QueueManager
from posthouse.model.enumerations import QueueAccessType
from tests.protocols.srmp.memory_web import Machine, Web
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
