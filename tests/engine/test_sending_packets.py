"""Packets that clients built: stamped, taken as a batch, never trusted."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.records import (
    EXPRESS,
    MESSAGE,
    WANT_DEAD_LETTER,
    WANT_FINAL_ACK,
    WANT_JOURNAL,
)
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import (
    ComputerDoesNotSupportEncryption,
    MachineQuotaExceeded,
    QueueError,
    QueueQuotaExceeded,
    RemoteProtocolError,
)
from posthouse.model.message import (
    ACK_FULL_RECEIVE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    DeliveryGuarantee,
    MessageId,
)
from posthouse.wire.packet.packet import Packet, summarize
from tests.engine.paper import Paper
from tests.engine.rig import RECEIVE, SEND, START_UTC, Rig
from tests.engine.sends import PEER, arrives, packet_of, transactional_packet


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("orders")
    return rig


@pytest.fixture
def out(rig: Rig) -> OpenQueueDescriptor:
    """The queue open for sending, with the first block of every counter reserved."""
    descriptor = rig.open("orders")
    rig.send(descriptor)
    rig.receive("orders")
    return descriptor


def test_packets_are_stamped_with_our_identity_and_time(rig: Rig) -> None:
    out = rig.open("orders")
    packets = [
        packet_of(body=b"1", source_machine_identifier=PEER, identifier=MessageId(PEER, 1)),
        packet_of(body=b"2", sent_time=5, acknowledgements_requested=ACK_POS_RECEIVE),
    ]
    ordinals = rig.run(lambda m: m.messages.send_packets(out, packets))
    messages = rig.messages("orders")
    assert [m.identifier for m in messages] == [
        MessageId(rig.manager.machine.identifier, o) for o in ordinals
    ]
    assert [m.sent_time for m in messages] == [START_UTC] * 2
    assert [m.body for m in messages] == [b"1", b"2"]
    assert len(set(ordinals)) == 2


def send_all(manager: QueueManager, *, out: OpenQueueDescriptor, packets: list[bytes]) -> list[int]:
    return manager.messages.send_packets(out, packets)


@pytest.mark.parametrize("recoverable", [True, False])
def test_the_short_way_for_plain_packets_comes_to_the_same(recoverable: bool) -> None:
    delivery = DeliveryGuarantee(int(recoverable))
    packets = [
        packet_of(body=bytes(n), priority=n, message_class=n, delivery_guarantee=delivery)
        for n in range(8)
    ]
    records = []
    for settings in ({}, {"machine_quota_kib": 1000}):
        rig = Rig(**settings)
        rig.create("orders")
        out, reader = rig.open("orders"), rig.open("orders", RECEIVE)
        rig.wait(reader)
        effects = rig.decide(partial(send_all, out=out, packets=packets))
        assert len(effects.wakes) == 1
        records.append(effects.records)
    assert records[0] == records[1]
    kinds = [record[0] for record in records[0]]
    assert kinds.count(MESSAGE if recoverable else EXPRESS) == 8


def test_one_refused_packet_refuses_the_batch(rig: Rig, out: OpenQueueDescriptor) -> None:
    rig.create("small", quota_kib=1)
    small = rig.open("small")
    with rig.refused(QueueQuotaExceeded.code):
        rig.run(lambda m: m.messages.send_packets(small, [packet_of(body=bytes(300))] * 3))
    rig.run(lambda m: m.messages.send_packets(small, [packet_of(body=bytes(300))] * 2))
    before = rig.manager.ledger.state.dump()
    with pytest.raises(RemoteProtocolError):
        rig.run(lambda m: m.messages.send_packets(out, [packet_of(), b"garbage"]))
    with pytest.raises(RemoteProtocolError):
        rig.run(lambda m: m.messages.send_packets(out, [packet_of(), packet_of() + b"behind"]))
    assert rig.manager.ledger.state.dump() == before


def test_an_enqueue_tells_the_number_of_its_message(rig: Rig) -> None:
    queue, tx = rig.create("strict", transactional=True), rig.begin()
    number = rig.run(
        lambda m: m.messages.sending.enqueue(queue, transactional_packet(), transaction=tx)
    )
    assert [operation.number for operation in tx.operations] == [number]
    number = arrives(rig, rig.queue("orders"), packet_of())
    assert [read.number for read in rig.reads("orders")] == [number]


def test_packets_go_to_one_queue_not_to_a_list(rig: Rig) -> None:
    rig.create("other")
    out = rig.open(r"DIRECT=OS:ALPHA\private$\orders,DIRECT=OS:ALPHA\private$\other")
    with rig.refused(0xC00E0020, "not to a list"):
        rig.run(lambda m: m.messages.send_packets(out, [packet_of()]))


@pytest.mark.parametrize("asks", [{}, {"negative_journaling_requested": True}])
@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("bare", [True, False])  # without a SecurityHeader, or with one
def test_a_packet_that_cannot_be_encrypted_is_refused_at_once(
    rig: Rig, asks: dict[str, Any], others: int, bare: bool
) -> None:
    """Whatever else it asks for, and whatever is sent with it."""
    far = r"DIRECT=OS:BETA\private$\orders"
    clear = packet_of(destination_queue_format_name=far, **asks)
    level_at = summarize(clear).properties_at + 40
    by_hand = clear[:level_at] + b"\x01\x00\x00\x00" + clear[level_at + 4 :]
    made = packet_of(destination_queue_format_name=far, privacy_level=1, **asks)
    secret = by_hand if bare else made
    outgoing = rig.open(far)
    packets = [clear] * others + [secret]
    with rig.refused(ComputerDoesNotSupportEncryption.code, "whose key"):
        rig.run(lambda m: m.messages.send_packets(outgoing, packets))
    assert len(rig.run(lambda m: m.messages.send_packets(outgoing, [clear] * 2))) == 2
    assert outgoing.target().state.count == 2


@pytest.mark.parametrize("asks", [{}, {"acknowledgements_requested": ACK_FULL_RECEIVE}])
def test_a_quota_counts_all_messages_of_a_batch_for_another_machine(asks: dict[str, Any]) -> None:
    """Also where each is given an administration queue that can be answered, one by one."""
    rig, far = Rig(machine_quota_kib=4), r"DIRECT=OS:BETA\private$\orders"
    rig.create("admin")
    admin = r"DIRECT=OS:ALPHA\private$\admin"
    packets = [
        packet_of(
            body=bytes(1000),
            destination_queue_format_name=far,
            administration_queue_format_name=admin,
            **asks,
        )
    ] * 10
    outgoing = rig.open(far)
    with rig.refused(MachineQuotaExceeded.code, "4 KiB"):
        rig.run(lambda m: m.messages.send_packets(outgoing, packets))
    assert outgoing.target().state.count == 0
    rig.run(lambda m: m.messages.send_packets(outgoing, packets[:2]))
    assert outgoing.target().state.count == 2


def test_names_that_cannot_be_acknowledged_to_are_refused_before_anything_changes(
    rig: Rig, out: OpenQueueDescriptor
) -> None:
    admin = r"DIRECT=OS:ALPHA\private$\admin"
    good = packet_of(
        administration_queue_format_name=admin, acknowledgements_requested=ACK_POS_ARRIVAL
    )
    bad = good.replace("OS:ALPHA\\private$\\admin".encode("utf-16-le"), b"\xff\xd8" * 22)
    assert bad != good
    with pytest.raises(RemoteProtocolError):
        Packet(bad).names  # noqa: B018
    before = rig.manager.ledger.state.dump()
    with pytest.raises(RemoteProtocolError):
        rig.run(lambda m: m.messages.send_packets(out, [good, bad]))
    with pytest.raises(RemoteProtocolError):
        arrives(rig, rig.queue("orders"), bad)
    assert rig.manager.ledger.state.dump() == before


def test_what_a_peer_asks_for_is_read_from_its_packet(rig: Rig) -> None:
    queue = rig.create("strict", transactional=True)
    connector = {"connector_queue_manager_identifier": PEER}
    wants = []
    for final_ack in (True, False):
        packet = transactional_packet(final_ack_required=final_ack, **connector)
        number = arrives(rig, queue, packet)
        wants.append(rig.manager.messages.row(number).wants)
    packet = transactional_packet(
        acknowledgements_requested=ACK_FULL_RECEIVE,
        positive_journaling_requested=True,
        negative_journaling_requested=True,
    )
    wants.append(rig.manager.messages.row(arrives(rig, queue, packet)).wants)
    asked = ACK_FULL_RECEIVE | WANT_JOURNAL | WANT_DEAD_LETTER
    assert wants == [WANT_FINAL_ACK, 0, asked]


HOSTILE = packet_of(
    body=b"body",
    label="label",
    extension=b"ext",
    administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
    response_queue_format_name="PUBLIC=11111111-2222-3333-4444-555555555555",
    acknowledgements_requested=ACK_FULL_RECEIVE | ACK_POS_ARRIVAL,
    negative_journaling_requested=True,
    positive_journaling_requested=True,
    time_to_be_received=5,
    destination_multi_queue_format_name=(r"DIRECT=OS:ALPHA\private$\orders",),
)


@given(st.lists(st.tuples(st.integers(0, len(HOSTILE) - 1), st.integers(0, 255)), max_size=4))
def test_no_packet_brings_the_engine_out_of_step_with_its_log(
    changes: list[tuple[int, int]],
) -> None:
    """Whatever a client sends is taken or refused, and can later be received or expire."""
    packet = bytearray(HOSTILE)
    for at, value in changes:
        packet[at] = value
    paper = Paper()
    for name in ("orders", "admin"):
        paper.create(rf".\private$\{name}", journaling=True)
    out = paper.open(r".\private$\orders", SEND)
    source = paper.open(r".\private$\orders", RECEIVE)
    with suppress(RemoteProtocolError, QueueError):
        paper.run(lambda m: m.messages.send_packets(out, [bytes(packet)] * 2))
    paper.check()
    with suppress(QueueError):
        paper.run(lambda m: m.messages.dequeue_message(source, timeout_ms=0))
    paper.check()
    paper.clock.advance(10_000)
    paper.run(lambda m: m.queues.purge_queue(source))
    paper.check()
    paper.cut(len(paper.log)).check()
