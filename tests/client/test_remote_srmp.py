"""Messages that came over HTTP, read by remote readers ([MS-MQRR] 2.2.5.1.2, 2.2.6-7)."""

from __future__ import annotations

import struct

import pytest

from posthouse.client.remote.messages import CutMessage, rebuilt
from posthouse.engine.transfer.remote_reads import Particulars
from posthouse.model.message import Message, TxSequenceId
from posthouse.protocols.remote_read.sections import (
    FULL_PACKET,
    SRMP_FIRST,
    SRMP_SECOND,
    sections,
)
from posthouse.protocols.remote_read.stubs import Received
from posthouse.wire.packet.headers import OVER_HTTP
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.remote_read import read_packet
from posthouse.wire.srmp.stored_messages import stored_parts
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
    "MS-MQRR 2.2.5.1/2",
)
@pytest.mark.parametrize("body", [b"", b"x", BODY])
def test_a_reader_gets_the_documents_form(body: bytes) -> None:
    packet = stored(body)
    ((kind, alloc, data),) = sections(packet, read_of(), NOTHING, 0, ALL)
    assert (kind, alloc) == (FULL_PACKET, len(data))
    assert summarize(data).user_flags & OVER_HTTP
    assert summarize(data).body_size == 0  # it is inside the compound message, and nowhere else
    srmp = read_packet(data).srmp
    assert srmp is not None
    assert srmp.envelope == stored_parts(packet).envelope
    at = srmp.compound_at + 16
    assert data[at : at + srmp.compound_size - 16] == stored_parts(packet).compound
    body_at = at + srmp.message_body_offset
    assert data[body_at : body_at + srmp.message_body_size] == body


@pytest.mark.spec(
    "MS-MQRR 2.2.5.1.2/2",
    "MS-MQRR 2.2.5.1.2.1/2",
    "MS-MQRR 2.2.5.1.2.1/4",
    "MS-MQRR 2.2.5.1.2.1/5",
    "MS-MQRR 2.2.5.1.2.2/2",
    "MS-MQRR 2.2.5.1.2.2/4",
    "MS-MQRR 2.2.5.1.2.2/5",
    "MS-MQRR 2.2.5.1.2.2/6",
    "MS-MQRR 2.2.5.1.2.2/7",
)
@pytest.mark.parametrize("body", [b"", b"x", BODY])
def test_both_headers_have_the_documents_bytes(body: bytes) -> None:
    packet = stored(body)
    ((_, _, data),) = sections(packet, read_of(), NOTHING, ALL, ALL)
    text = stored_parts(packet).envelope
    raw = text.encode("utf-16-le") + b"\0\0"
    at = data.index(raw) - 8
    header_id, _, length = struct.unpack_from("<HHI", data, at)
    assert (header_id, length) == (0x0190, len(text) + 1)  # in characters
    at += (8 + len(raw) + 3) & ~3
    header_id, _, size, body_size, body_offset = struct.unpack_from("<HHIII", data, at)
    assert (header_id, body_size) == (0x01F4, len(body))
    compound = data[at + 16 : at + 16 + size]
    assert compound.startswith(b"POST /msmq/private$/orders HTTP/1.1\r\nHost: alpha\r\n")
    assert compound[body_offset : body_offset + body_size] == body
    end = compound.index(b"\r\n\r\n") + 4
    assert text.encode() in compound[end:]
    assert size == len(stored_parts(packet).compound)


@pytest.mark.spec("MS-MQRR 2.2.5.1/1")
@pytest.mark.parametrize("over_http", [False, True])
def test_headers_come_in_the_documents_order(over_http: bool) -> None:
    """Each header is found by bytes that nothing else in the packet has."""
    if over_http:
        rig = WebRig()
        message = rig.streamed(
            1,
            sequence=0x11223344_55667788,
            destination_mqf=("http://alpha/msmq/private$/streamed", "http://bravo/msmq/b"),
            action="MSMQ:labelled",
        )
        assert rig.post(message, body=b"<the body/>") == [200]
        ((_, number),) = rig.queue("streamed").state.order.forward()
        packet = rig.store.read(number)
    else:
        packet = serialize(
            Message(
                body=b"<the body/>",
                label="labelled",
                transactional_message_sequence_identifier=TxSequenceId(0x11223344, 0x55667788),
                transaction_sequence_number=1,
                sender_identifier=b"the sender",
                sender_identifier_type=1,
                soap_header="soap header",
                soap_body="soap body",
                destination_multi_queue_format_name=(
                    r"DIRECT=OS:alpha\private$\streamed",
                    r"DIRECT=OS:bravo\private$\b",
                ),
            )
        )
    ((_, _, data),) = sections(packet, read_of(), NOTHING, ALL, ALL)
    wide = lambda text: text.encode("utf-16-le")  # noqa: E731
    order = [b"LIOR", struct.pack("<Q", 0x11223344_55667788)]
    order += [] if over_http else [b"the sender"]
    order += [wide("labelled")]
    order += [wide("<se:Envelope"), b"POST /msmq"] if over_http else []
    order += [] if over_http else [wide("soap header"), wide("soap body")]
    order += [wide("bravo")]
    found = [data.rindex(each) if each == order[-1] else data.index(each) for each in order]
    assert found == sorted(found)
    assert not summarize(data).base_flags & 0x10  # a SessionHeader would be the last


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
