"""Where the headers after the body are: Debug, the two of SRMP, Soap, MultiQueueFormat, Session.

[MS-MQMQ] 2.2.20 gives their order, [MS-MQRR] 2.2.5.1 that of a message that came over HTTP.
"""

from typing import NamedTuple

from posthouse.model.errors import MalformedPacket
from posthouse.wire.layout import Reader
from posthouse.wire.packet.headers import (
    COMPOUND_MESSAGE_HEADER,
    DEBUG_HEADER,
    MQF_ADDRESS_HEADER,
    MQF_SIGNATURE_HEADER,
    SESSION_HEADER,
    SOAP_SECTION,
    SRMP_ENVELOPE_HEADER,
    BaseFlags,
    UserFlags,
)

BASE_TAIL = int(BaseFlags.of(debug_header=1, session_header=1))
USER_TAIL = int(UserFlags.of(soap_header=1, multi_queue_header=1, over_http=1))


class Tail(NamedTuple):
    """Offsets of the headers after the body, 0 for an absent one."""

    debug_at: int
    soap_at: int
    multi_queue_at: int
    session_at: int
    end: int  # of the last known header inside PacketSize
    envelope_at: int = 0
    compound_at: int = 0


def locate_tail(data: bytes, body_end: int, packet_size: int, base: int, user: int) -> Tail:
    """Steps over the headers after a body that ends there, given the two flags words.

    Bytes between the last known header and PacketSize belong to no header: other peers send some.
    """
    reader = Reader(data, body_end, packet_size)
    if not (base & BASE_TAIL or user & USER_TAIL):
        reader.align()
        return Tail(0, 0, 0, 0, reader.at)
    base_flags, user_flags = BaseFlags(base), UserFlags(user)
    debug_at = skip_debug(reader) if base_flags.debug_header else 0
    envelope_at, compound_at = skip_srmp(reader) if user_flags.over_http else (0, 0)
    soap_at = skip_soap(reader) if user_flags.soap_header else 0
    multi_queue_at = skip_multi_queue(reader) if user_flags.multi_queue_header else 0
    session_at = _skip_session(reader) if base_flags.session_header else 0
    reader.align()
    offsets = debug_at, soap_at, multi_queue_at, session_at, reader.at
    return Tail(*offsets, envelope_at, compound_at)


def skip_debug(reader: Reader) -> int:
    """Steps over a DebugHeader, [MS-MQMQ] 2.2.20.8."""
    reader.align()
    start = reader.at
    if reader.read(DEBUG_HEADER).flags.queue_type == 1:
        reader.skip(16)
    return start


def skip_srmp(reader: Reader) -> tuple[int, int]:
    """Steps over SRMPEnvelopeHeader and CompoundMessageHeader, [MS-MQRR] 2.2.5.1.2."""
    reader.align()
    envelope_at = reader.at
    reader.skip(2 * reader.read(SRMP_ENVELOPE_HEADER).data_length)
    reader.align()
    compound_at = reader.at
    reader.skip(reader.read(COMPOUND_MESSAGE_HEADER).http_body_size)
    return envelope_at, compound_at


def skip_soap(reader: Reader) -> int:
    """Steps over the two sections of a SoapHeader, [MS-MQMQ] 2.2.20.7."""
    reader.align()
    start = reader.at
    for _ in range(2):
        reader.align()
        reader.skip(2 * reader.read(SOAP_SECTION).data_length)
    return start


def skip_multi_queue(reader: Reader) -> int:
    """Steps over the four parts of a MultiQueueFormatHeader, [MS-MQMQ] 2.2.20.1."""
    reader.align()
    start = reader.at
    for _ in range(3):
        reader.align()
        header = reader.read(MQF_ADDRESS_HEADER)
        if header.header_size < MQF_ADDRESS_HEADER.size:
            raise MalformedPacket(f"MQFAddressHeader of {header.header_size} bytes")
        reader.skip(header.header_size - MQF_ADDRESS_HEADER.size)
    reader.align()
    reader.skip(reader.read(MQF_SIGNATURE_HEADER).size)
    return start


def _skip_session(reader: Reader) -> int:
    """Finds the SessionHeader after PacketSize or inside it; 0 if it has not arrived yet.

    Decision 27: the documents disagree on which it is, so both are accepted.
    """
    if len(reader.data) >= reader.end + SESSION_HEADER.size:
        return reader.end
    reader.align()
    return reader.skip(SESSION_HEADER.size) if reader.remaining >= SESSION_HEADER.size else 0
