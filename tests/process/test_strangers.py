"""What anybody who connects to a real server may name and prove: names for answers, signatures,
and the certificates and keys that those are checked with."""

from __future__ import annotations

import itertools
import json
import socket
import time
import uuid
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse.client.binary.sender import BinarySender
from posthouse.client.binary.session import SenderSession
from posthouse.model.errors import QueueError
from posthouse.model.guids import format_guid, parse_guid
from posthouse.model.message import ACK_POS_ARRIVAL, Message
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.security.message_security import MessageSecurity
from posthouse.security.sids import make_sid, parse_sid
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.patch import stamp
from posthouse.wire.srmp.serialize import SrmpContext, srmp_of
from tests.process.offices import Office, outgoing, wait_until
from tests.process.serving import Serving
from tests.security.key_ring import MemoryRing, certificate
from tests.support.packet_security import changed, with_flags

MACHINE = """
allowed_targets = ["10.9.0.0/16", "far.example", "far.example:1801", "[fe80::7]:1801"]
targets_per_peer = 4
"""
ORDERS, ADMIN, LETTERS = (
    rf"DIRECT=OS:ALPHA\private$\{name}" for name in ("orders", "admin", "letters")
)
KNOWN, ELSEWHERE, PLACED, NOWHERE, AWAY = (str(uuid.uuid4()) for _ in range(5))

POSTED = "DIRECT=HTTP://ALPHA/msmq/private$/orders"
ORDINALS = itertools.count(1_000, 1_000)  # a message is new once


class Street:
    """ALPHA, and somebody who connects to it."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.alpha = Office(folder / "ALPHA", "ALPHA", running, machine=MACHINE)
        self.qm = self.alpha.qm
        self.alpha.create("orders", "admin", "letters")
        self.public = self.qm.create_queue(r".\public").properties().guid_name
        document = {
            "machines": [
                {"name": "BETA", "guid": KNOWN},
                router("NORA", PLACED, "no-such-host-here", "localhost"),
                router("NED", NOWHERE, "no-such-host-here"),
                router("MIKE", AWAY, "10.7.7.7"),
            ],
            "queues": [{"path": r"BETA\answers", "guid": ELSEWHERE}],
            "users": [{"sid": "S-1-5-21-7-7-7-7", "certificates": [text(certificate("eve"))]}],
        }
        self.qm.call("POST", "/directory", {"document": document})

    def stranger(self) -> BinarySender:
        return BinarySender("127.0.0.1", self.alpha.port, 60, BinarySettings())

    def refusals(self, name: str) -> int:
        found = self.qm.call("GET", "/status")["refusals"]
        return sum(one["count"] for one in found if one["name"] == name)

    def log(self) -> str:
        return (self.alpha.server.home / "logs" / "posthouse.log").read_text()


def router(name: str, guid: str, *addresses: str) -> dict[str, Any]:
    return {"name": name, "guid": guid, "addresses": [*addresses], "routing_server": True}


class Router(BinarySender):
    """Somebody who calls themselves a machine of the directory, and brings what another wrote."""

    def __init__(self, port: int, guid: str) -> None:
        super().__init__("127.0.0.1", port, 60, BinarySettings())
        self.guid = parse_guid(guid)
        self._session = SenderSession(self._settings, self.guid, self._waiting)
        self.connect()
        self.guid = parse_guid(KNOWN)
        self._ordinal = next(ORDINALS)


def opened(street: Street, token: str) -> posthouse.QueueManagerClient:
    """The client of a user."""
    ready = json.loads((street.alpha.server.home.parent / "ready.json").read_text())
    return posthouse.connect(url=f"http://{ready['endpoints']['admin']}", token=token)


def text(data: bytes) -> str:
    return b64encode(data).decode()


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    with ExitStack() as running:
        yield Street(tmp_path_factory.mktemp("street"), running)


# -- names for answers


def asking(administration: str) -> bytes:
    """A message whose sender wants to hear that it arrived."""
    return serialize(
        Message(
            destination_queue_format_name=ORDERS,
            administration_queue_format_name=administration,
            acknowledgements_requested=ACK_POS_ARRIVAL,
        )
    )


def direct(host: str) -> str:
    return f"DIRECT={'TCP' if host[0].isdigit() else 'OS'}:{host}\\private$\\answers"


def test_answers_go_where_names_of_strangers_may_lead(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = street.stranger()
    own, ours = format_guid(sender.guid), street.qm.guid
    allowed = [
        ADMIN,
        *map(direct, ("10.9.1.1", "far.example", "far.example:1801", "no-such-host-here")),
        direct("127.0.0.1:9"),  # who is on this computer themselves may name it
        *(f"PRIVATE={guid}\\5" for guid in (ours, own, KNOWN)),
        *(street.public, f"PUBLIC={ELSEWHERE}"),
    ]
    refused = [
        *map(direct, ("10.8.1.1", "10.8.1.1:1801", "far.example:9", "near.example:1801")),
        *(f"PRIVATE={uuid.uuid4()}\\5", f"PUBLIC={uuid.uuid4()}"),
    ]
    refused.append("")
    before = street.refusals("target_not_allowed")
    sender.send(map(asking, allowed))
    assert street.refusals("target_not_allowed") == before
    sender.send(map(asking, refused))
    assert street.refusals("target_not_allowed") == before + len(refused)
    sender.send(asking(direct(f"10.9.2.{last}")) for last in range(9))  # only this many in an hour
    assert street.refusals("target_not_allowed") > before + len(refused)
    connect = partial(socket.create_connection, source_address=("127.0.0.2", 0))
    monkeypatch.setattr(socket, "create_connection", connect)
    street.stranger().send(
        [asking(direct("127.0.0.2"))]
    )  # their own address, whoever else is there
    names = {queue.format_name for queue in outgoing(street.qm)}
    assert direct("127.0.0.2") in names
    assert {direct("10.9.1.1"), f"PUBLIC={ELSEWHERE}"} <= names
    assert street.qm.queue(ADMIN).receive(60).class_name == "ack-reach-queue"


def test_what_a_router_in_its_place_brings_counts_for_who_wrote_it(street: Street) -> None:
    street.stranger().send(asking(direct(f"10.9.3.{last}")) for last in range(9))
    before = street.refusals("target_not_allowed")
    Router(street.alpha.port, PLACED).send([asking(direct("10.9.4.1"))])
    assert street.refusals("target_not_allowed") == before
    for guid in (NOWHERE, AWAY):
        Router(street.alpha.port, guid).send([asking(direct("10.9.4.2"))])
    assert street.refusals("target_not_allowed") == before + 2


def test_what_is_no_network_is_no_setting(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("[queue_manager]\nallowed_targets = ['10.9.0.0/99']\n")
    with Serving(tmp_path, "--config", str(tmp_path / "wrong.toml")) as serving:
        assert serving.wait() != 0
        assert "10.9.0.0/99" in serving.errors.read_text()


class Poster:
    """Somebody who posts messages over HTTP, and says where their receipts are to go."""

    def __init__(self, street: Street) -> None:
        ready = json.loads((street.alpha.server.home.parent / "ready.json").read_text())
        self._connection = HTTPConnection(ready["endpoints"]["http"], timeout=60)
        self._street, self._guid, self._count = street, uuid.uuid4().bytes, itertools.count(1)

    def is_allowed(self, place: str) -> bool:
        """Whether receipts of a message may go to a queue there."""
        before, number = self._street.refusals("target_not_allowed"), next(self._count)
        packet = serialize(
            Message(
                destination_queue_format_name=POSTED,
                administration_queue_format_name=f"DIRECT=HTTP://{place}",
                acknowledgements_requested=ACK_POS_ARRIVAL,
            )
        )
        now = int(time.time())
        packet = stamp(packet, source_guid=self._guid, ordinal=number, sent_time=now)
        made = srmp_of(packet, summarize(packet), SrmpContext(""))
        self._connection.request("POST", "/msmq/private$/orders", made.payload, dict(made.fields))
        answer = self._connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
        return self._street.refusals("target_not_allowed") == before


def test_receipts_go_where_urls_of_strangers_may_lead(tmp_path: Path) -> None:
    with ExitStack() as running:
        poster, queue = Poster(Street(tmp_path, running)), "/msmq/private$/answers"
        for host in ("ALPHA", "far.example", "localhost:9", "BETA", "whoever:8080"):
            assert poster.is_allowed(host + queue), host
        for host in ("169.254.7.7", "10.8.1.1"):
            assert not poster.is_allowed(host + queue), host
        asked = [poster.is_allowed(f"localhost:9{queue}{number}") for number in range(50)]
        assert 0 < asked.count(True) < 50  # each is an outgoing queue here: only this many
        assert not poster.is_allowed("whoever:8081" + queue)


# -- signatures


class Hand:
    """Signs as several people and machines do."""

    def __init__(self, sender: BinarySender) -> None:
        self.sender = sender
        self._ring = MemoryRing()

    def write(self, who: str, sid: bytes = b"", *, kind: int = 1) -> None:
        """Sends a message that somebody has signed; 2 is the kind of a queue manager."""
        self._ring.users = {sid: [who]}
        packet = serialize(Message(destination_queue_format_name=LETTERS, label=who))
        packet = stamp(packet, source_guid=self.sender.guid, ordinal=0, sent_time=0)
        packet = MessageSecurity(self._ring, bytes).sign(packet, sid)
        if kind != 1:
            sender = self.sender.guid if kind else b""
            packet = with_flags(changed(packet, sender_id=sender), sender_id_type=kind)
        self.sender.send([packet])


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/11", clause="certificate")
@pytest.mark.spec("MS-MQQB 3.1.5.8.3/15")
def test_a_signature_proves_who_sent_a_message(street: Street) -> None:
    qm, sender = street.qm, street.stranger()
    hand, letters = Hand(sender), qm.queue(LETTERS)
    sid = qm.call("POST", "/users", {"name": "ada"})["sid"]
    qm.call("POST", "/users/ada/certificates", {"file": text(certificate("ada"))})
    bob = "S-1-5-21-1-2-3-1001"
    qm.call("POST", "/trust", {"sid": bob, "certificate": text(certificate("bob"))})
    machine = {"guid": format_guid(sender.guid), "name": "GAMMA"}
    qm.call("POST", "/trust", {**machine, "certificate": text(certificate("gamma"))})
    hand.write("ada", parse_sid(sid))
    hand.write("bob", parse_sid(bob))
    hand.write("gamma", kind=2)
    hand.write("bob", kind=0)  # somebody has registered it
    hand.write("eve", kind=0)  # the directory has her certificate
    came = [letters.receive(60) for _ in range(5)]
    assert [(one.label, one.authenticated) for one in came] == [
        (name, True) for name in ("ada", "bob", "gamma", "bob", "eve")
    ]
    assert [one.sender for one in came[:2]] == [sid, bob]
    hand.write("eve", parse_sid(sid))  # her own key and certificate, under the name of another
    assert street.refusals("nack-bad-signature") == 1
    qm.call("PATCH", "/users/ada", {"disabled": True})
    hand.write("ada", parse_sid(sid))
    assert street.refusals("nack-access-denied") == 1
    qm.call("DELETE", "/users/ada")  # and her certificate with her
    hand.write("ada", parse_sid(sid))
    qm.call("DELETE", f"/certificates/{machine['guid']}")
    hand.write("gamma", kind=2)
    hand.write("nobody", kind=0)
    assert street.refusals("nack-bad-signature") == 3
    assert [(one.label, one.authenticated) for one in letters.browse()] == [("nobody", False)]


def test_who_signs_nothing_is_nobody_or_says_who_he_is(street: Street) -> None:
    sender, orders = street.stranger(), street.qm.queue(r".\private$\orders")
    for kind, name in ((0, b""), (1, make_sid(5, 21, 1, 2, 3, 1002))):
        sender.send(
            [
                serialize(
                    Message(
                        destination_queue_format_name=ORDERS,
                        label=f"claim {kind}",
                        sender_identifier_type=kind,
                        sender_identifier=name,
                    )
                )
            ]
        )
    labels = {message.label: message.authenticated for message in orders.browse()}
    assert labels["claim 0"] is labels["claim 1"] is False


# -- certificates and keys of an operator


def refused(street: Street, method: str, path: str, body: dict[str, object]) -> str:
    with pytest.raises(QueueError) as error:
        street.qm.call(method, path, body)
    return str(error.value)


def test_keys_are_made_once_and_trusted_until_they_are_removed(street: Street) -> None:
    qm = street.qm
    qm.call("POST", "/certificates", {"bits": 1024})
    assert "already" in refused(street, "POST", "/certificates", {"bits": 1024})
    qm.call("POST", "/certificates", {"bits": 1024, "replace": True})
    own = qm.call("GET", "/machine-keys")
    assert "itself" in refused(street, "POST", "/trust", own)
    other = {**own, "guid": KNOWN, "name": "BETA"}
    qm.call("POST", "/trust", other)
    qm.call("POST", "/users", {"name": "carol"})
    mine = {"user": "carol", "bits": 1024}
    made = qm.call("POST", "/certificates", mine)
    assert "internal certificate" in refused(street, "POST", "/certificates", mine)
    path, again = "/users/carol/certificates", {"file": made["certificate"]}
    assert "registered" in refused(street, "POST", path, again)
    listed = qm.call("GET", "/certificates")["certificates"]
    owners = {(one["kind"], one["owner"]) for one in listed}
    assert {("machine", "ALPHA"), ("machine", "BETA"), ("user", "carol")} <= owners
    street.alpha.restart()
    assert qm.call("GET", "/certificates")["certificates"] == listed
    for identifier in (KNOWN, made["id"]):
        qm.call("DELETE", f"/certificates/{identifier}")


def test_private_keys_are_lost_with_the_key_file(street: Street) -> None:
    qm = street.qm
    qm.call("POST", "/users", {"name": "dave"})
    qm.call("POST", "/certificates", {"user": "dave", "bits": 1024})
    token = {"user": "dave", "role": "operate"}
    with opened(street, qm.call("POST", "/tokens", token)["token"]) as client:
        client.queue(ORDERS).send(b"signed", sign=True)
    street.alpha.server.kill()
    seal = street.alpha.server.home / "keys" / "seal.key"
    seal.write_bytes(bytes(reversed(seal.read_bytes())))
    street.alpha.server.start()
    with (
        opened(street, qm.call("POST", "/tokens", token)["token"]) as client,
        pytest.raises(QueueError, match="no certificate"),
    ):
        client.queue(ORDERS).send(b"signed", sign=True)
    wait_until(lambda: "private_key_unreadable" in street.log(), street.log)
