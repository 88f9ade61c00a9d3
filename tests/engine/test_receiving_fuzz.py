"""Any bytes that look like a packet give a verdict, and leave the books in order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message import TxSequenceId
from posthouse.model.names import PrivateName
from posthouse.wire.binary.order_acks import FinalAck, OrderAck, Origin, final_ack, order_ack
from posthouse.wire.binary.order_acks import order_queue_of as order_queue
from posthouse.wire.packet.packet_fields import summarize_all
from tests.engine.arrivals import ORDERS, PEER
from tests.engine.letters import FAR_GUID
from tests.support.routing_rig import BEYOND, RoutingRig
from tests.support.sequence_rig import EAST


def seeds(rig: RoutingRig) -> list[bytes]:
    """Packets of every kind."""
    origin = Origin(FAR_GUID, 77, rig.clock.utc_seconds)
    number = rig.queue("orders").number
    return [
        rig.packet(b"plain"),
        rig.asking(b"asks", express=True, label="label", priority=7),
        rig.packet(b"by number", destination_queue_format_name=str(PrivateName(rig.guid, number))),
        rig.transactional(1, 0, destination_queue_format_name=EAST),
        rig.through(b"through"),
        rig.packet(b"claims", sender_identifier=bytes(range(12)), sender_identifier_type=1),
        rig.packet(b"traced", tracing_requested=True, tracing_queue_identifier=FAR_GUID),
        rig.packet(b"list", destination_multi_queue_format_name=(ORDERS, BEYOND)),
        rig.asking(
            b"everything",
            negative_journaling_requested=True,
            positive_journaling_requested=True,
            transactional_message_sequence_identifier=TxSequenceId(1, 1),
            destination_queue_format_name=EAST,
        ),
        order_ack(OrderAck.of(1, 1), order_queue(rig.guid), origin),
        final_ack(FinalAck(1, 1, 0, rig.guid, 1), 0x8000, order_queue(rig.guid), origin),
    ]


SEEDS = 11
MUTATION = st.tuples(st.integers(0, 220), st.integers(0, 255))


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.integers(0, SEEDS - 1), st.lists(MUTATION, max_size=4)),
        min_size=1,
        max_size=4,
    )
)
def test_any_bytes_give_a_verdict(recipe: list[tuple[int, list[tuple[int, int]]]]) -> None:
    rig = RoutingRig(send_insecure_nacks=True)
    rig.create("east", transactional=True)
    known = seeds(rig)
    assert len(known) == SEEDS
    packets = []
    for which, mutations in recipe:
        data = bytearray(known[which])
        for at, value in mutations:
            data[at % len(data)] = value
        try:
            summarize_all([bytes(data)])
        except RemoteProtocolError:
            continue
        packets.append(bytes(data))
    if not packets:
        return
    verdict = rig.take(*packets, peer=PEER)
    assert verdict.close or verdict.dealt_with == len(packets)
    rig.check_books()
    before = {name: rig.bodies(name) for name in ("orders", "east")}
    rig.restart()
    rig.check_books()
    for name, bodies in before.items():
        assert set(rig.bodies(name)) <= set(bodies)
