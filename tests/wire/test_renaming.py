"""Packets whose administration queue is named in another way ([MS-MQMQ] 2.2.19.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.message import Message, TxSequenceId
from posthouse.model.names import PrivateName
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.renaming import with_private_administration

OWN, OTHER = bytes(range(16)), bytes(range(16, 32))
NAMES = [
    "",
    r"DIRECT=OS:ALPHA\private$\a",
    r"DIRECT=TCP:192.0.2.7\private$\answers-here",
    str(PrivateName(OTHER, 7)),
    "PUBLIC=" + "1" * 8 + "-1111-1111-1111-111111111111",
]
names = st.sampled_from(NAMES)


@given(names, st.sampled_from(NAMES[1:]), names, st.binary(max_size=9), st.text(max_size=5))
def test_only_the_administration_queue_changes(
    administration: str, destination: str, response: str, body: bytes, label: str
) -> None:
    label = label.encode("ascii", "ignore").decode().replace("\0", "")
    message = Message(
        destination_queue_format_name=destination,
        administration_queue_format_name=administration,
        response_queue_format_name=response,
        body=body,
        label=label,
        acknowledgements_requested=5,
    )
    packet = serialize(message)
    renamed = with_private_administration(packet, summarize(packet), OWN, 0x99)
    Packet(renamed).check()
    assert len(renamed) == summarize(renamed).packet_size
    found = deserialize(renamed)
    assert found.administration_queue_format_name == str(PrivateName(OWN, 0x99))
    assert (found.body, found.label) == (body, label)
    assert found.destination_queue_format_name == destination
    if response and response != administration:
        assert found.response_queue_format_name == response


@pytest.mark.parametrize("direct", [True, False])
def test_a_transactional_packet_with_a_list_stays_whole(direct: bool) -> None:
    first = NAMES[1] if direct else NAMES[3]
    message = Message(
        destination_queue_format_name=first,
        destination_multi_queue_format_name=(first, NAMES[2]),
        administration_queue_format_name=NAMES[2],
        transactional_message_sequence_identifier=TxSequenceId(1, 2),
        transaction_sequence_number=7,
        delivery_guarantee=1,
        tracing_requested=True,
        tracing_queue_identifier=OTHER,
    )
    packet = serialize(message)
    renamed = with_private_administration(packet, summarize(packet), OWN, 1)
    before, after = Packet(packet), Packet(renamed)
    after.check()
    assert after.transaction == before.transaction
    assert after.multi_queue == before.multi_queue
    assert after.tracing_queue == OTHER
