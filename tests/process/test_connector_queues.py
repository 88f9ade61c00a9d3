"""The connector queues of a real server: what comes into them, when, and what stays outside."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from posthouse.client.binary.sender import BinarySender
from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.model.guids import parse_guid
from posthouse.model.message import DeliveryGuarantee, Message, TxSequenceId
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.packet.message import serialize
from tests.connector.foreign_site import LEDGER, ORDERS, SITE, SYSTEM, document
from tests.engine.foreign import addressed
from tests.process.offices import Office, outgoing, wait_until

ROUTING = "routing_server = true"
CONNECTOR, XACTONLY = f"CONNECTOR={SITE}", f"CONNECTOR={SITE};xactonly"
DEAD, DEAD_TRANSACTIONAL = r".\system$;deadletter", r".\system$;deadxact"
JOURNAL = r".\system$;journal"


class Resender(BinarySender):
    """A machine that may lose the answer to what it sent last."""

    def _stamped(self, packets: list[bytes]) -> list[Outbound]:
        self.sent = super()._stamped(packets)
        return self.sent

    def send_again(self) -> None:
        """What it sent last, on a new session: the answer was lost with the old one."""
        self._disconnect()
        self._unacknowledged.update((message.number, message) for message in self.sent)
        self._finish()


class Harbour:
    """ALPHA, which may be the connector server, and somebody else who sends."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.alpha = Office(folder / "ALPHA", "ALPHA", running, machine=ROUTING)
        self.qm = self.alpha.qm
        self.senders: list[Resender] = []
        self.sender = self.new_sender()

    def new_sender(self) -> Resender:
        """A machine that `belong` enters in the directory: routers pass on its sequences."""
        self.senders.append(Resender("127.0.0.1", self.alpha.port, 60, BinarySettings()))
        return self.senders[-1]

    def belong(self, *sites: str) -> None:
        """ALPHA is in these sites from now on; in Streams as its connector server."""
        found = document(self.qm.guid, "ALPHA")
        found["machines"][0]["sites"] = list(sites)
        found["machines"] += [
            {
                "name": f"SENDER{number}",
                "guid": str(uuid.UUID(bytes_le=sender.guid)),
                "sites": ["Home"],
                "addresses": ["127.0.0.1"],
            }
            for number, sender in enumerate(self.senders)
        ]
        self.qm.call("POST", "/directory", {"document": found})

    def bodies(self, name: str) -> list[bytes]:
        return [message.body for message in self.qm.queue(name).browse()]

    def take(self, name: str) -> list[bytes]:
        """Empties a connector queue."""
        queue = self.qm.queue(name)
        found = [queue.receive(0).body for _ in range(queue.count())]
        queue.close()
        return found

    def unsent(self, name: str) -> int:
        return self.counts().get(name, 0)

    def shows(self, name: str, *bodies: bytes) -> None:
        wait_until(lambda: self.bodies(name) == [*bodies], lambda: self.bodies(name))

    def counts(self) -> dict[str, int]:
        """Messages that wait for a way, by their queues."""
        return {queue.format_name: queue.messages for queue in outgoing(self.qm)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    with ExitStack() as stack:
        yield Harbour(tmp_path_factory.mktemp("harbour"), stack)


@pytest.fixture
def harbour(running: Harbour) -> Iterator[Harbour]:
    """At first ALPHA does not know that it is the connector server; in the end all is empty."""
    running.belong("Home")
    yield running
    assert running.qm.books().balanced


def arriving(body: bytes, to: str = ORDERS, **attributes: Any) -> bytes:
    """A packet that somebody else has sent to a queue of the foreign system."""
    message = Message(
        destination_queue_format_name=to,
        body=body,
        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
        **attributes,
    )
    return addressed(serialize(message), parse_guid(SYSTEM))


def in_order(number: int) -> bytes:
    return arriving(
        b"%d" % number,
        LEDGER,
        transaction_identifier=1,
        transactional_message_sequence_identifier=TxSequenceId(5, 1),
        transaction_sequence_number=number,
        transaction_previous_sequence_number=number - 1,
    )


def test_what_waited_for_its_way_comes_in_once_and_in_order(harbour: Harbour) -> None:
    qm, ledger = harbour.qm, harbour.qm.queue(LEDGER)
    qm.queue(ORDERS).send(b"ours", recoverable=True, journal=True)
    qm.queue(rf"PRIVATE={SYSTEM}\21").send(b"private", recoverable=True)
    qm.queue(r"DIRECT=OS:no-such-host-here\private$\x").send(b"not for any connector")
    for body in (b"one", b"two"):
        ledger.send(body, transactional=True)
    harbour.sender.send([arriving(b"theirs")])
    harbour.sender.send(map(in_order, (1, 2)))
    assert harbour.unsent(ORDERS) == 2
    harbour.belong("Home", "Streams")
    harbour.shows(CONNECTOR, b"ours", b"theirs", b"private")
    harbour.shows(XACTONLY, b"one", b"two", b"1", b"2")
    assert harbour.bodies(JOURNAL) == [b"ours"]
    harbour.take(CONNECTOR)
    assert harbour.take(XACTONLY) == [b"one", b"two", b"1", b"2"]


def test_a_copy_that_was_held_up_comes_in_no_second_time(harbour: Harbour) -> None:
    qm, sender = harbour.qm, harbour.new_sender()
    harbour.belong("Home")
    sender.send([arriving(b"once"), in_order(1)])
    second = int(time.time())
    for name in (ORDERS, LEDGER):
        qm.call("POST", path_of(name, "pause"))
    harbour.belong("Home", "Streams")
    assert harbour.bodies(CONNECTOR) == harbour.bodies(XACTONLY) == []
    # A copy is the same in every byte, also in the second that it was first sent in.
    wait_until(lambda: int(time.time()) > second, lambda: second)
    sender.send_again()
    harbour.shows(CONNECTOR, b"once")
    harbour.shows(XACTONLY, b"1")
    for name in (ORDERS, LEDGER):
        qm.call("POST", path_of(name, "resume"))
    wait_until(lambda: not harbour.unsent(ORDERS) + harbour.unsent(LEDGER), harbour.counts)
    assert (harbour.take(CONNECTOR), harbour.take(XACTONLY)) == ([b"once"], [b"1"])


def path_of(name: str, verb: str) -> str:
    return f"/queues/{name}/{verb}"


def test_what_finds_no_room_waits_for_it(harbour: Harbour) -> None:
    harbour.belong("Home", "Streams")
    connector, orders = harbour.qm.queue(CONNECTOR), harbour.qm.queue(ORDERS)
    connector.set(quota_kib=1)
    for body in (bytes(500), bytes(600)):
        orders.send(body, recoverable=True)
    assert (len(harbour.bodies(CONNECTOR)), harbour.unsent(ORDERS)) == (1, 1)
    assert harbour.take(CONNECTOR) == [bytes(500)]
    harbour.shows(CONNECTOR, bytes(600))
    harbour.take(CONNECTOR)
    orders.send(bytes(600), recoverable=True)
    orders.send(bytes(500), recoverable=True)
    harbour.belong("Home")  # nobody waits for room any more
    harbour.belong("Home", "Streams")
    harbour.take(CONNECTOR)
    harbour.shows(CONNECTOR, bytes(500))
    connector.set(quota_kib=1 << 30)
    harbour.take(CONNECTOR)


def test_very_many_come_in_several_turns(harbour: Harbour) -> None:
    orders = harbour.qm.queue(ORDERS)
    bodies = [b"%d" % number + bytes(4_000_000) for number in range(6)]
    for body in bodies:
        orders.send(body, admin_queue=r".\private$\nobody", ack="neg-receive")
    harbour.belong("Home", "Streams")
    wait_until(lambda: not harbour.unsent(ORDERS), harbour.counts)
    assert [body[:1] for body in harbour.take(CONNECTOR)] == [body[:1] for body in bodies]


def test_queues_of_the_wrong_kind_and_no_queues_are_refused(harbour: Harbour) -> None:
    harbour.belong("Home", "Streams")
    qm = harbour.qm
    qm.queue(LEDGER).send(b"plain", dead_letter=True)
    qm.queue(ORDERS).send(b"sequence", transactional=True, dead_letter=True)
    harbour.shows(DEAD, b"plain")
    harbour.shows(DEAD_TRANSACTIONAL, b"sequence")
    harbour.take(DEAD)
    harbour.take(DEAD_TRANSACTIONAL)
    before = refused(harbour)
    names = f"PUBLIC={uuid.uuid4()}", f"PRIVATE={SYSTEM}\\4", r"DIRECT=OS:REDIS\private$\x"
    harbour.sender.send(arriving(b"x", name) for name in names)
    assert refused(harbour) == before + len(names)


def refused(harbour: Harbour) -> int:
    found = harbour.qm.call("GET", "/status")["refusals"]
    return sum(one["count"] for one in found if one["name"] == "nack-bad-dest-queue")


def test_they_go_when_nobody_needs_them(harbour: Harbour) -> None:
    harbour.belong("Home", "Streams")
    qm, reader = harbour.qm, harbour.qm.queue(XACTONLY)
    qm.queue(ORDERS).send(b"kept", recoverable=True)
    assert list(reader.browse()) == []
    assert connectors(harbour) == [CONNECTOR.lower(), XACTONLY.lower()]
    harbour.belong("Home")
    assert "no longer a connector server" in qm.queue(CONNECTOR).properties().reason
    reader.close()
    assert connectors(harbour) == [CONNECTOR.lower()]
    assert harbour.take(CONNECTOR) == [b"kept"]
    wait_until(lambda: not connectors(harbour), lambda: connectors(harbour))


def connectors(harbour: Harbour) -> list[str]:
    names = [queue.format_name for queue in harbour.qm.queues(system=True)]
    return [name.lower() for name in names if name.startswith("CONNECTOR")]


def test_a_damaged_message_stays_where_it_is(harbour: Harbour) -> None:
    orders = harbour.qm.queue(ORDERS)
    orders.send(b"will be damaged", recoverable=True)
    orders.send(b"sound", recoverable=True)
    for segment in (harbour.alpha.server.home / "store").glob("*.log"):
        at = segment.read_bytes().find(b"will be damaged")
        if at >= 0:
            with segment.open("r+b") as file:
                file.seek(at)
                file.write(b"WILL")
    harbour.belong("Home", "Streams")
    harbour.shows(CONNECTOR, b"sound")
    assert harbour.unsent(ORDERS) == 1
    harbour.take(CONNECTOR)
    harbour.qm.call("POST", path_of(ORDERS, "purge"))


def test_what_is_under_way_to_another_connector_server_stays_there(
    harbour: Harbour, tmp_path: Path
) -> None:
    """A message that the other one may have, or surely has, comes in nowhere else."""
    with ExitStack() as stack:
        beta = Office(tmp_path / "BETA", "BETA", stack, machine=ROUTING)
        both = document(beta.qm.guid, "BETA")
        both["machines"][0]["addresses"] = [f"127.0.0.1:{beta.port}"]
        for office in (harbour.alpha, beta):
            office.qm.call("POST", "/directory", {"document": both})
        qm = harbour.qm
        qm.queue(LEDGER).send(b"arrived", transactional=True, dead_letter=True)
        wait_until(lambda: beta.qm.queue(XACTONLY).count() == 1, harbour.counts)
        qm.queue(ORDERS).send(b"first", recoverable=True)
        wait_until(lambda: not harbour.unsent(ORDERS), harbour.counts)
        os.kill(beta.server.pid, signal.SIGSTOP)
        qm.queue(ORDERS).send(b"under way", recoverable=True)
        wait_until(lambda: in_flight(harbour) == 1, harbour.counts)
        both["machines"][0]["sites"] = ["Home"]
        qm.call("POST", "/directory", {"document": both})
        harbour.belong("Home", "Streams")
        assert harbour.bodies(CONNECTOR) == harbour.bodies(XACTONLY) == []
        os.kill(beta.server.pid, signal.SIGCONT)
        wait_until(lambda: not harbour.unsent(ORDERS), harbour.counts)
        assert harbour.bodies(CONNECTOR) == harbour.bodies(XACTONLY) == []
        beta.qm.queue(XACTONLY).receive(0)
        wait_until(lambda: not harbour.unsent(LEDGER), harbour.counts)


def in_flight(harbour: Harbour) -> int:
    (queue,) = [one for one in outgoing(harbour.qm) if one.format_name == ORDERS]
    assert queue.outgoing is not None
    return queue.outgoing.unacknowledged
