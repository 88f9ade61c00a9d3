"""Signed and encrypted messages from one queue manager to another."""

from __future__ import annotations

import random
from typing import Unpack

import pytest

from posthouse.client.packets import PacketMaker
from posthouse.client.packets import options as packet_options
from posthouse.client.send_options import SendOptions
from posthouse.engine.ledger.records import FLAG_AUTHENTICATED
from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.model.guids import format_guid
from posthouse.model.message_values import AES_PROVIDER, ENHANCED_PROVIDER
from posthouse.model.names import PrivateName
from posthouse.security.descriptors import unpack_descriptor
from posthouse.security.rights import parse_rights
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize_all
from tests.engine.rig import RECEIVE, SEND, Rig
from tests.security.key_ring import certificate, private_key

SECRET = b"<order customer='7'/>"


class Beta(Rig):
    """Another queue manager than ALPHA, with an identifier of its own."""

    def _boot(self, state: State) -> None:
        self.random = random.Random(2)
        super()._boot(state)


class Pair:
    """ALPHA, where maria sends; BETA, with a queue for signed and encrypted messages."""

    def __init__(self) -> None:
        self.alpha, self.beta = Rig(), Beta(computer_name="BETA")
        for rig in (self.alpha, self.beta):
            rig.manager.certificates.key_file = lambda: b"s" * 32
        self.sid = self.alpha.run(lambda m: m.accounts.add("maria")).sid
        self.alpha.run(
            lambda m: m.certificates.register(self.sid, certificate("alice"), private_key("alice"))
        )
        self._publish()
        self._make_queue()

    def _publish(self) -> None:
        keys = {AES_PROVIDER: private_key("alpha"), ENHANCED_PROVIDER: private_key("beta")}
        own = self.beta.run(lambda m: m.certificates.publish(keys, certificate("alpha"), {}))
        self.alpha.run(
            lambda m: m.certificates.trust(own.guid, own.name, own.certificate, own.public_keys)
        )

    def _make_queue(self) -> None:
        queue = self.beta.create("orders", authentication=True, privacy_level=2)
        granted = unpack_descriptor(queue.definition.security).grant(self.sid, parse_rights("send"))
        self.beta.run(
            lambda m: m.queues.set_queue_security(
                r".\private$\orders", self.beta.admin, granted.pack()
            )
        )
        self.name = str(PrivateName(self.beta.manager.machine.identifier, queue.number))

    def trust_maria(self) -> None:
        self.beta.run(lambda m: m.certificates.register(self.sid, certificate("alice")))

    def send(self, **options: Unpack[SendOptions]) -> list[bytes]:
        """One message; what of it goes on the wire."""
        caller = self.alpha.manager.accounts.caller("maria")
        descriptor = self.alpha.run(lambda m: m.queues.open_queue(self.name, SEND, caller))
        maker = PacketMaker(self.name, "ALPHA", protection=True)
        packet = maker.packet(SECRET, packet_options(options), False)
        self.alpha.run(lambda m: m.messages.send_packets(descriptor, [packet]))
        queue = descriptor.target()

        def take(manager: QueueManager) -> list[bytes]:
            sender = manager.transfer.begin_sending(queue.number)
            return [outbound.packet for outbound in sender.take(1, 1 << 20)]

        return self.alpha.run(take)

    def send_one(self, **options: Unpack[SendOptions]) -> bytes:
        (wire,) = self.send(**options)
        return wire

    def receive(self, packet: bytes) -> Verdict:
        peer = Peer(self.alpha.manager.machine.identifier, "192.0.2.7")
        return self.beta.run(
            lambda m: m.transfer.receive_packets(peer, [packet], summarize_all([packet]))
        )

    @property
    def count(self) -> int:
        return self.beta.queue("orders").state.count


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.mark.spec("MS-MQQB 3.1.7.1.4/1", "MS-MQQB 3.1.7.1.5/1", "MS-MQQB 3.1.5.8.3/19")
def test_signed_and_encrypted_message_arrives_clear_and_proven(pair: Pair) -> None:
    pair.trust_maria()
    wire = pair.send_one(sign=True, encrypt=True)
    assert SECRET not in wire
    assert pair.receive(wire).dealt_with == 1
    reader = pair.beta.run(
        lambda m: m.queues.open_queue(r".\private$\orders", RECEIVE, pair.beta.admin)
    )
    (number,) = pair.beta.queue("orders").state.order.available({}, 1)
    row = pair.beta.manager.messages.find_row(number)
    assert row is not None
    assert row.flags & FLAG_AUTHENTICATED
    view = Packet(bytes(pair.beta.receive(reader).packet))
    assert view.body == SECRET
    assert view.security is not None
    assert view.security.flags.authenticated
    assert view.security.sender_id == pair.sid


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/15")
def test_sender_whose_certificate_is_not_known_there_is_refused(pair: Pair) -> None:
    assert pair.receive(pair.send_one(sign=True, encrypt=True)).dealt_with == 1
    assert pair.count == 0


def test_queue_that_wants_both_takes_neither_alone(pair: Pair) -> None:
    pair.trust_maria()
    for packet in (pair.send_one(sign=True), pair.send_one(encrypt=True)):
        pair.receive(packet)
    assert pair.count == 0


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/23")
def test_receiver_with_other_keys_cannot_read_it(pair: Pair) -> None:
    pair.trust_maria()
    wire = pair.send_one(sign=True, encrypt=True)
    others = {AES_PROVIDER: private_key("gamma")}
    pair.beta.run(lambda m: m.certificates.publish(others, certificate("gamma"), {}))
    pair.receive(wire)
    assert pair.count == 0


@pytest.mark.spec("MS-MQQB 3.1.7.1.5.1/1")
def test_message_that_cannot_be_encrypted_does_not_go_out(pair: Pair) -> None:
    guid = pair.beta.manager.machine.identifier
    machine = pair.alpha.manager.certificates.machine(guid)
    assert machine is not None
    pair.alpha.run(lambda m: m.certificates.distrust(machine))
    assert pair.send(encrypt=True) == []
    assert not any(queue.state.count for queue in pair.alpha.manager.queues.outgoing_queues())


def test_traced_and_encrypted_message_is_reported_like_any_other(pair: Pair) -> None:
    pair.trust_maria()
    reports = format_guid(pair.alpha.create(".\\reports").definition.identifier)
    pair.receive(pair.send_one(sign=True, encrypt=True, trace=f"PUBLIC={reports}"))
    assert pair.count == 1
    assert len(pair.alpha.messages(".\\reports")) == 1
