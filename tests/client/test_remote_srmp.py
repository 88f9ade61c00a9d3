"""Messages that came over HTTP, read by remote readers ([MS-MQRR] 2.2.5.1.2, 2.2.6-7)."""

from __future__ import annotations

import pytest

from posthouse.client.remote_messages import CutMessage, rebuilt
from posthouse.engine.remote_reads import Particulars
from posthouse.protocols.remote_read.sections import (
    FULL_PACKET,
    SRMP_FIRST,
    SRMP_SECOND,
    sections,
)
from posthouse.protocols.remote_read.stubs import Received
from posthouse.wire.glance import glance
from posthouse.wire.headers import OVER_HTTP
from posthouse.wire.message import deserialize
from posthouse.wire.read_packet import read_packet
from posthouse.wire.srmp_stored import stored_parts
from tests.engine.web import WebRig
from tests.protocols.remote_read.packets import read_of

ALL = 0xFFFF_FFFF
BODY = bytes(range(200)) * 3
NOTHING = Particulars()


def stored(body: bytes = BODY) -> bytes:
    """A packet as the engine keeps it."""
    rig = WebRig()
    assert rig.post(rig.message(), body=body) == [200]
    ((_, number),) = rig.queue("orders").state.order.forward()
    return rig.store.read(number)


@pytest.mark.spec(
    "MS-MQRR 2.2.5.1.2/1",
    "MS-MQRR 2.2.5.1.2.1/1",
    "MS-MQRR 2.2.5.1.2.2/1",
    "MS-MQDMPR 3.1.1.12/53",
)
@pytest.mark.parametrize("body", [b"", b"x", BODY])
def test_a_reader_gets_the_documents_form(body: bytes) -> None:
    packet = stored(body)
    ((kind, alloc, data),) = sections(packet, read_of(), NOTHING, 0, ALL)
    assert (kind, alloc) == (FULL_PACKET, len(data))
    assert glance(data).user_flags & OVER_HTTP
    assert glance(data).body_size == 0  # it is inside the compound message, and nowhere else
    srmp = read_packet(data).srmp
    assert srmp is not None
    assert srmp.envelope == stored_parts(packet).envelope
    at = srmp.compound_at + 16
    assert data[at : at + srmp.compound_size - 16] == stored_parts(packet).compound
    body_at = at + srmp.message_body_offset
    assert data[body_at : body_at + srmp.message_body_size] == body


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/53")
@pytest.mark.parametrize("body", [b"", b"x", BODY])
def test_our_client_gets_the_message_as_it_was_stored(body: bytes) -> None:
    packet = stored(body)
    found = sections(packet, read_of(), NOTHING, ALL, ALL)
    message = rebuilt(Received(1, 7, found, 0), "there")
    assert (message.body, message.label) == (body, "order")
    assert stored_parts(message.packet) == stored_parts(packet)
    assert deserialize(message.packet).soap_envelope == stored_parts(packet).envelope


@pytest.mark.parametrize("allowed", [0, 16, 100, 500, 1500, 1800, 2000, 2300])
def test_a_cut_compound_message_gives_as_much_of_the_body_as_came(allowed: int) -> None:
    packet = stored()
    parts = stored_parts(packet)
    whole = 16 + len(parts.compound)
    found = sections(packet, read_of(), NOTHING, 0, allowed)
    if allowed >= whole:
        assert [each[0] for each in found] == [FULL_PACKET]
        return
    assert [each[0] for each in found] == [SRMP_FIRST, SRMP_SECOND]
    message = rebuilt(Received(1, 7, found, 0), "there")
    came = min(max(allowed - 16 - parts.body_offset, 0), len(BODY))
    assert message.body == BODY[:came]
    if allowed < 16:  # then nobody can tell how long the body is
        return
    assert message.body_size == len(BODY)
    assert isinstance(message, CutMessage) == (came < len(BODY))
