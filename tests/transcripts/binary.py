"""Conversations of the binary protocol ([MS-MQQB]): two queue managers on a network in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from posthouse.model.guids import format_guid
from posthouse.model.message import ACK_NEG_ARRIVAL, ACK_POS_RECEIVE
from posthouse.wire.binary.internal import connection_parameters, establish_connection
from tests.protocols.binary.memory_net import Cable, Machine, Net
from tests.transcripts.recorder import Recorder

ORDERS, LEDGER = r"DIRECT=OS:BETA\private$\orders", r"DIRECT=OS:BETA\private$\ledger"
ANSWERS = r"DIRECT=OS:ALPHA\private$\answers"


class Pair:
    """ALPHA and BETA, and every packet between them."""

    def __init__(self, title: str, **settings: bool) -> None:
        self.net = net = Net()
        self.alpha = net.machine("ALPHA", "192.0.2.1")
        self.beta = net.machine("BETA", "192.0.2.2", **settings)
        self.beta.create(r".\private$\orders")
        self.beta.create(r".\private$\ledger", transactional=True)
        self.alpha.create(r".\private$\answers")
        self.script = Recorder(lambda: net.clock.now_ms, title)
        for machine in (self.alpha, self.beta):
            self.script.name(machine.name, format_guid(machine.manager.machine.identifier))

    @contextmanager
    def heard(self) -> Iterator[None]:
        """What is sent and closed goes into the script."""
        send, close, script = Cable.send, Cable.close, self.script

        def tapped_send(cable: Cable, parts: list[bytes]) -> None:
            script.packets(_way(cable), b"".join(parts))
            send(cable, parts)

        def tapped_close(cable: Cable) -> None:
            if not cable.closed:
                script.line(_way(cable), "(closes the connection)")
            close(cable)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cable, "send", tapped_send)
            patch.setattr(Cable, "close", tapped_close)
            yield


def _way(cable: Cable) -> str:
    assert cable.other is not None
    return f"{cable.owner.name} -> {cable.other.owner.name}"


def recoverable() -> str:
    """A session is opened, and a recoverable message is acknowledged when it is on disk."""
    pair = Pair("Binary protocol: a recoverable message and its session acknowledgment")
    script = pair.script
    with pair.heard():
        script.note("ALPHA connects. Each side names itself, then its window and its timers.")
        script.note("The message follows at once. BETA acknowledges it when it is on disk.")
        pair.alpha.send(ORDERS, b"two hundred cups", label="order 4711")
        pair.net.advance(1_000)
        script.note("The next message needs no handshake. An express message is acknowledged too.")
        pair.alpha.send(ORDERS, b"one spoon", express=True, label="order 4712")
        pair.net.advance(30_000)
    assert pair.beta.bodies(r"BETA\private$\orders") == [b"two hundred cups", b"one spoon"]
    assert pair.alpha.outgoing(ORDERS).state.count == 0
    return script.text()


def transactional() -> str:
    """Places in a sequence, order acknowledgment, and final acknowledgment after the receive."""
    pair = Pair("Binary protocol: transactional messages, in order, with final acknowledgments")
    script = pair.script
    wanted = {"positive_journaling_requested": True, "acknowledgements_requested": ACK_POS_RECEIVE}
    with pair.heard():
        script.note("A commit gives both messages their numbers in the sequence.")
        pair.alpha.send_in_transaction(
            LEDGER, b"debit", b"credit", administration_queue_format_name=ANSWERS, **wanted
        )
        script.note("SessionAck: they are on disk. OrderAck: the sequence has come this far.")
        pair.net.advance(2_000)
        assert pair.alpha.outgoing(LEDGER).state.count == 2
        script.note("An application receives the first one: its sender has asked to be told.")
        pair.beta.receive(r"BETA\private$\ledger")
        pair.net.advance(2_000)
        script.note("It receives the second one.")
        pair.beta.receive(r"BETA\private$\ledger")
        pair.net.advance(2_000)
    assert pair.alpha.outgoing(LEDGER).state.count == 0
    return script.text()


def refused() -> str:
    """What closes a session, and a message that its queue does not take."""
    pair = Pair(
        send_insecure_nacks=True,
        title="Binary protocol: a refused message, a session for another machine, a bad peer",
    )
    script = pair.script
    with pair.heard():
        script.note("BETA has no such queue: the sender gets a negative acknowledgment.")
        pair.alpha.send(
            r"DIRECT=OS:BETA\private$\nowhere",
            b"lost?",
            acknowledgements_requested=ACK_NEG_ARRIVAL,
            administration_queue_format_name=ANSWERS,
        )
        pair.net.advance(1_000)
        script.note("A peer that wants another machine is refused in the answer.")
        stranger = _stranger(pair)
        stranger.send([establish_connection(bytes(range(16)), bytes(range(16, 32)), time_stamp=1)])
        pair.net.run()
        script.note("A peer that leaves out the handshake is cut off.")
        stranger = _stranger(pair)
        stranger.send([connection_parameters(500, 20_000, 64)])
        pair.net.run()
    assert len(pair.alpha.bodies(r"ALPHA\private$\answers")) == 1
    return script.text()


def _stranger(pair: Pair) -> Cable:
    """A connection of somebody else to BETA."""
    owner = Machine(pair.net, "PEER", "192.0.2.9", 1801)
    mine, theirs = Cable(pair.net, owner, "192.0.2.2"), Cable(pair.net, pair.beta, "192.0.2.9")
    mine.other, theirs.other = theirs, mine
    theirs.session = pair.beta.protocol.accept(theirs, "192.0.2.9")
    return mine


CONVERSATIONS = {"recoverable": recoverable, "transactional": transactional, "refused": refused}
