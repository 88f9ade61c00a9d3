"""Conversations of SRMP over HTTP ([MC-MQSRM]): queue managers on a network in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from posthouse.model.guids import format_guid
from posthouse.model.message import ACK_POS_ARRIVAL, ACK_POS_RECEIVE
from posthouse.protocols.srmp.settings import SrmpSettings
from tests.protocols.srmp.memory_web import Cable, Visitor, Web
from tests.transcripts.recorder import Recorder

ORDERS = "DIRECT=HTTP://beta/msmq/private$/orders"
LEDGER = "DIRECT=HTTP://beta/msmq/private$/ledger"
ANSWERS = "DIRECT=HTTP://alpha/msmq/private$/answers"
PEER = "192.0.2.9"


class Pair:
    """ALPHA and BETA, and every HTTP message between them."""

    def __init__(self, title: str) -> None:
        self.web = web = Web()
        self.alpha = web.machine("ALPHA", "192.0.2.1")
        self.beta = web.machine("BETA", "192.0.2.2", settings=SrmpSettings())
        self.beta.create(r".\private$\orders")
        self.beta.create(r".\private$\ledger", transactional=True)
        self.alpha.create(r".\private$\answers")
        self.names = {"192.0.2.1": "ALPHA", "192.0.2.2": "BETA", PEER: "PEER"}
        self.script = Recorder(lambda: web.clock.now_ms, title)
        for machine in (self.alpha, self.beta):
            self.script.name(machine.name, format_guid(machine.manager.machine.identifier))

    @contextmanager
    def heard(self) -> Iterator[None]:
        """What is sent and closed goes into the script."""
        send, close, script = Cable.send, Cable.close, self.script

        def way(cable: Cable) -> str:
            assert cable.other is not None
            return f"{self.names[cable.local_address]} -> {self.names[cable.other.local_address]}"

        def tapped_send(cable: Cable, parts: list[bytes]) -> None:
            data = b"".join(parts)
            head, _, text = data.partition(b"\r\n\r\n")
            reason = {"text": text.strip()} if b" 400 " in head[:20] else {}
            script.packets(way(cable), data, **reason)
            send(cable, parts)

        def tapped_close(cable: Cable) -> None:
            if not cable.closed:
                script.line(way(cable), "(closes the connection)")
            close(cable)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cable, "send", tapped_send)
            patch.setattr(Cable, "close", tapped_close)
            yield


def post() -> str:
    """One message, and the receipts that its sender asked for."""
    pair = Pair("SRMP: a posted message, its delivery receipt and its commitment receipt")
    with pair.heard():
        pair.script.note("200 is the answer when the message is on disk. A receipt is a message.")
        pair.alpha.send(
            ORDERS,
            b"two hundred cups",
            label="order 4711",
            administration_queue_format_name=ANSWERS,
            acknowledgements_requested=ACK_POS_ARRIVAL | ACK_POS_RECEIVE,
        )
        pair.web.advance(1_000)
        pair.script.note("An application receives it.")
        pair.beta.receive(r"BETA\private$\orders")
        pair.web.advance(1_000)
    assert len(pair.alpha.bodies(r"ALPHA\private$\answers")) == 2
    return pair.script.text()


def stream() -> str:
    """Transactional messages: a stream with numbers, and its receipt."""
    pair = Pair("SRMP: transactional messages are a stream; its receipt ends them at the sender")
    with pair.heard():
        pair.script.note("A commit of two messages. 200 does not end them: the receipt does.")
        pair.alpha.send_in_transaction(LEDGER, b"debit", b"credit")
        assert pair.alpha.outgoing(LEDGER).state.count == 2
        pair.script.note("Half a second after the last one.")
        pair.web.advance(1_000)
    assert pair.alpha.outgoing(LEDGER).state.count == 0
    assert pair.beta.bodies(r"BETA\private$\ledger") == [b"debit", b"credit"]
    return pair.script.text()


def refused() -> str:
    """What is answered with 400, and what with 405."""
    pair = Pair("SRMP: messages that are refused")
    with pair.heard():
        pair.script.note("BETA has no such queue. ALPHA does not send it again.")
        pair.alpha.send("DIRECT=HTTP://beta/msmq/private$/nowhere", b"lost?", label="order 4713")
        pair.web.advance(1_000)
        pair.script.note("A ledger takes no message outside a transaction.")
        pair.alpha.send(LEDGER, b"debit")
        pair.web.advance(1_000)
        pair.script.note("Two lengths: what two readers could understand differently is refused.")
        visitor = Visitor(pair.web, pair.beta, PEER)
        head = b"POST /msmq/private$/orders HTTP/1.1\r\nHost: beta\r\n"
        pair.script.line("PEER -> BETA", "HTTP request", content_length="5, then 6")
        visitor.theirs.take(head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345")
        pair.web.run()
    assert pair.alpha.outgoing(LEDGER).state.count == 0
    return pair.script.text()


CONVERSATIONS = {"post": post, "stream": stream, "refused": refused}
