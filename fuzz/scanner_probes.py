"""What public scanners send to port 1801, and what malformed packets for it look like.

`GREETINGS` come on a fresh connection: the probes that nmap and masscan try on any port, those of
other protocols that knock here by mistake, and the EstablishConnection that internet-wide surveys
of MSMQ send (as the SANS Internet Storm Center has published it, June 2024). `MESSAGES` come on an
open session: packets with a size or an offset that leads out of them, one header each, as the
advisories on MSMQ describe the fields (CVE-2023-21554 "QueueJumper", CVE-2023-21769,
CVE-2023-28302, CVE-2024-30080). They are written from the layout of the headers: each has the wrong
number and nothing after it.
"""

import struct

from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.wire.binary.internal import ESTABLISH_CONNECTION_SIZE, establish_connection
from posthouse.wire.packet.headers import (
    COMPOUND_MESSAGE,
    COMPOUND_MESSAGE_HEADER,
    SRMP_ENVELOPE,
    SRMP_ENVELOPE_HEADER,
    BaseFlags,
    UserFlags,
)
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.patch import BASE_FLAGS_AT, PACKET_SIZE_AT, USER_FLAGS_AT

U8, U16, U32 = (struct.Struct(form) for form in ("<B", "<H", "<I"))
STRANGER = b"\x77" * 16
TARGET = "DIRECT=TCP:127.0.0.1\\private$\\orders"
NAMES_AT = 64  # of the UserHeader
FAR = 0xFFFF_FFFF

# A ConnectionParameters, a SessionAck and a UserMessage before there is a session, and so on: the
# states of a session have tests of their own. These are probes of programs that do not speak the
# protocol.
GREETINGS: dict[str, bytes] = {
    "nmap GenericLines": b"\r\n\r\n",
    "nmap GetRequest": b"GET / HTTP/1.0\r\n\r\n",
    "nmap HTTPOptions": b"OPTIONS / HTTP/1.0\r\n\r\n",
    "nmap RTSPRequest": b"OPTIONS / RTSP/1.0\r\n\r\n",
    "nmap Help": b"HELP\r\n",
    "nmap FourOhFourRequest": b"GET /nice%20ports%2C/Tri%6Eity.txt%2ebak HTTP/1.0\r\n\r\n",
    "nmap LPDString": b"\x01default\n",
    "nmap RPCCheck": bytes.fromhex(
        "80000028 72fe1d13 00000000 00000002 000186a0 0001977c" + "00" * 20
    ),
    "nmap DNSVersionBindReqTCP": bytes.fromhex("001e 0006 0100 0001 0000 0000 0000")
    + b"\x07version\x04bind\x00\x00\x10\x00\x03",
    "nmap SMBProgNeg": bytes.fromhex("000000a4 ff534d42 72000000 00080140") + bytes(148),
    "nmap TerminalServer": bytes.fromhex("0300000b 06e00000 00000000"),
    "nmap SIPOptions": b"OPTIONS sip:nm SIP/2.0\r\nVia: SIP/2.0/TCP nm;branch=foo\r\n\r\n",
    "nmap LDAPBindReq": bytes.fromhex("300c0201 01600702 01020400 8000"),
    "nmap JavaRMI": b"JRMI\x00\x02K",
    "masscan GET": b"GET / HTTP/1.0\r\nUser-Agent: masscan/1.3\r\nAccept: */*\r\n\r\n",
    "TLS ClientHello": bytes.fromhex("160301002f 0100002b 0303")
    + bytes(range(32))
    + bytes.fromhex("00 0004 1301 002f 0100"),
    "DCE/RPC bind": bytes.fromhex("05000b03 10000000 48000000 01000000 b810b810 00000000 01000000")
    + bytes(44),
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "survey of MSMQ": bytes.fromhex(
        "10c00b00 4c494f52 3c020000 ffffffff 00000200 d1587355 50919595 4997b6e6 11ea26c6"
        "0789cd43 4c39118f 44459078 909ea0fc 4ecade1d 10030000"
    ).ljust(ESTABLISH_CONNECTION_SIZE, b"\0"),
    "survey that gives no GUID": establish_connection(bytes(16), time_stamp=1),
    "base header of no size": bytes.fromhex("10c00b00 4c494f52 00000000 ffffffff") + bytes(4),
    "base header of all sizes": bytes.fromhex("10c00b00 4c494f52 ffffffff ffffffff") + bytes(4),
    "base header of another version": bytes.fromhex("11c00b00 4c494f52 3c020000 ffffffff"),
    "user message before the handshake": serialize(
        Message(label="early", destination_queue_format_name=TARGET)
    ),
}


def sample(*, sequenced: bool = False, signed: bool = False, listed: bool = False) -> bytes:
    """A message without fault, with the headers that the faults below need."""
    message = Message(
        label="probe",
        body=b"0123456789abcdef",
        identifier=MessageId(STRANGER, 1),
        source_machine_identifier=STRANGER,
        sent_time=1_600_000_000,
        time_to_reach_queue=FAR,
        destination_queue_format_name=TARGET,
        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
    )
    if sequenced:
        message.transactional_message_sequence_identifier = TxSequenceId(1_600_000_000, 1)
        message.transaction_sequence_number = 1
        message.priority = 0
    if signed:
        message.sender_identifier = b"\x01\x01" + bytes(5) + b"\x05\x12" + bytes(3)
    if listed:
        message.destination_multi_queue_format_name = (TARGET, TARGET)
    return serialize(message)


def changed(packet: bytes, *fields: tuple[int, struct.Struct, int]) -> bytes:
    """A packet with other numbers at some offsets."""
    whole = bytearray(packet)
    for at, form, number in fields:
        form.pack_into(whole, at, number)
    return bytes(whole)


def flagged(packet: bytes, **flags: int) -> bytes:
    """A packet whose UserHeader promises more headers than there are."""
    seen = summarize(packet)
    return changed(packet, (USER_FLAGS_AT, U32, UserFlags(seen.user_flags).replace(**flags)))


def over_http(length: int, size: int, body_size: int, offset: int, text: bytes = b"") -> bytes:
    """A message flagged as sent over HTTP, with the two headers of SRMP after its body."""
    packet = flagged(sample(), over_http=1)
    headers = SRMP_ENVELOPE_HEADER.codec.pack(SRMP_ENVELOPE, 0, length) + text
    headers += bytes(-len(headers) % 4)
    headers += COMPOUND_MESSAGE_HEADER.codec.pack(COMPOUND_MESSAGE, 0, size, body_size, offset)
    whole = packet + headers
    return changed(whole, (PACKET_SIZE_AT, U32, len(whole)))


def _messages() -> dict[str, bytes]:
    plain, sequenced, signed = sample(), sample(sequenced=True), sample(signed=True)
    listed, seen, signed_seen = sample(listed=True), summarize(plain), summarize(signed)
    properties, size = seen.properties_at, len(plain)
    base = BaseFlags(seen.base_flags)
    return {
        "packet that ends inside its UserHeader": _cut(plain, NAMES_AT - 4),
        "packet that ends inside its properties": _cut(plain, properties + 8),
        "queue name longer than the packet": changed(plain, (NAMES_AT, U16, 0xFFFE)),
        "queue name of odd length": changed(plain, (NAMES_AT, U16, 0x0031)),
        "queue name of unknown type": flagged(plain, destination_type=1),
        "administration queue that is not there": flagged(plain, administration_type=7),
        "response queue that is not there": flagged(plain, response_type=7),
        "connector type that is not there": _cut(flagged(plain, connector_type=1), size),
        "label longer than the packet": changed(plain, (properties + 1, U8, 0xFF)),
        "body longer than the packet": changed(plain, (properties + 32, U32, FAR)),
        "body that ends after its packet": changed(plain, (properties + 32, U32, size)),
        "extension longer than the packet": changed(plain, (properties + 52, U32, FAR)),
        "sizes that add up to little": changed(
            plain, (properties + 32, U32, 0x8000_0010), (properties + 52, U32, 0x8000_0000)
        ),
        "sender longer than the packet": _security(signed, signed_seen, 2, U16, 0xFFFF),
        "key longer than the packet": _security(signed, signed_seen, 4, U16, 0xFFFF),
        "signature longer than the packet": _security(signed, signed_seen, 6, U16, 0xFFFF),
        "certificate longer than the packet": _security(signed, signed_seen, 8, U32, FAR),
        "provider longer than the packet": _security(signed, signed_seen, 12, U32, FAR),
        "transaction header that is not there": _cut(
            flagged(plain, transaction_header=1), seen.label_at
        ),
        "connector GUID that is not there": changed(
            _cut(sequenced, summarize(sequenced).properties_at + 4),
            (summarize(sequenced).transaction_at, U32, 1),
        ),
        "debug header that is not there": changed(
            plain, (BASE_FLAGS_AT, U16, base.replace(debug_header=1))
        ),
        "SOAP header that is not there": flagged(plain, soap_header=1),
        "list of queues that is not there": flagged(plain, multi_queue_header=1),
        "list of queues of no size": _listed(listed, 0, 0),
        "list of queues longer than the packet": _listed(listed, 0, FAR),
        "list of more queues than fit": _listed(listed, 8, FAR),
        "over HTTP, headers not there": flagged(plain, over_http=1),
        "over HTTP, envelope longer than the packet": over_http(FAR, 0, 0, 0),
        "over HTTP, envelope without end": over_http(2, 0, 0, 0, "<a".encode("utf-16-le")),
        "over HTTP, compound message longer than the packet": over_http(1, FAR, 0, 0, bytes(2)),
        "over HTTP, body after the compound message": over_http(1, 0, 16, 0x7FFF_FFFF, bytes(2)),
        "over HTTP, body that wraps around": over_http(1, 0, 0x10, FAR - 8, bytes(2)),
    }


def _cut(packet: bytes, size: int) -> bytes:
    """A packet cut to `size` bytes, with its PacketSize set to that."""
    return changed(packet[:size], (PACKET_SIZE_AT, U32, size))


def _security(
    packet: bytes, seen: PacketSummary, at: int, form: struct.Struct, number: int
) -> bytes:
    return changed(packet, (seen.security_at + at, form, number))


def _listed(packet: bytes, at: int, number: int) -> bytes:
    """A MultiQueueFormatHeader, which begins after the body, with another number."""
    seen = summarize(packet)
    begin = (seen.body_at + seen.body_size + 3) & ~3
    return changed(packet, (begin + at, U32, number))


MESSAGES = _messages()
SEEDS = [*GREETINGS.values(), *MESSAGES.values()]
