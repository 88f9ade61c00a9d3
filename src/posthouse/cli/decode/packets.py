"""Packets of binary sessions as headers with named fields, for `posthouse decode`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from posthouse.model.guids import format_guid
from posthouse.model.message_classes import class_name
from posthouse.model.names import FormatName
from posthouse.wire.binary.internal import (
    ConnectionParameters,
    EstablishConnection,
    SessionAck,
    read_connection_parameters,
    read_establish_connection,
    read_session_ack,
)
from posthouse.wire.binary.order_acks import read_final_ack, read_order_ack
from posthouse.wire.binary.ping import read_ping
from posthouse.wire.binary.stream import PacketKind, packet_kind
from posthouse.wire.layout import Flags, bits
from posthouse.wire.packet.headers import INFINITE
from posthouse.wire.packet.packet import Packet
from posthouse.wire.srmp.stored_messages import stored_parts

GUIDS = {
    "source_queue_manager",
    "queue_manager_address",
    "queue_manager",
    "client_guid",
    "server_guid",
    "connector_type",
    "connector_guid",
    "queue",
}
DURATIONS = {"time_to_reach_queue", "time_to_be_received"}

BASE = ("MS-MQMQ 2.2.19.1", "BaseHeader")
INTERNAL = ("MS-MQQB 2.2.1", "InternalHeader")
SESSION = ("MS-MQMQ 2.2.20.4", "SessionHeader")

Internal = EstablishConnection | ConnectionParameters | SessionAck


class Header(NamedTuple):
    """One header of a packet: where the document describes it, and its fields."""

    section: str
    name: str
    fields: dict[str, Any]


class View(NamedTuple):
    """One packet: what it is called, where the document describes it, and its headers."""

    kind: str
    section: str
    headers: list[Header]


def view_ping(datagram: bytes) -> View:
    """A ping datagram."""
    header = Header("MS-MQQB 2.2.7", "Ping", plain(read_ping(datagram)))
    return View("Ping", "MS-MQQB 2.2.7", [header])


def view_packet(data: bytes) -> View:
    """A packet of a session; `RemoteProtocolError` if any part of it breaks its document."""
    kind = packet_kind(data)
    section, read = READERS[kind]
    return View(kind.value, section, list(read(data)))


def _establish_connection(data: bytes) -> Iterator[Header]:
    return _internal(
        read_establish_connection(data), ("MS-MQQB 2.2.3.1", "EstablishConnectionHeader")
    )


def _connection_parameters(data: bytes) -> Iterator[Header]:
    return _internal(
        read_connection_parameters(data), ("MS-MQQB 2.2.2.1", "ConnectionParametersHeader")
    )


def _session_ack(data: bytes) -> Iterator[Header]:
    return _internal(read_session_ack(data), SESSION)


def _internal(packet: Internal, header: tuple[str, str]) -> Iterator[Header]:
    yield Header(*BASE, plain(packet.base))
    yield Header(*INTERNAL, plain(packet.internal))
    yield Header(*header, plain(packet.header))


def _order_ack(data: bytes) -> Iterator[Header]:
    yield from _user_message(data)
    yield Header("MS-MQQB 2.2.4.1", "OrderAck Body", plain(read_order_ack(data)))


def _final_ack(data: bytes) -> Iterator[Header]:
    yield from _user_message(data)
    yield Header("MS-MQQB 2.2.5.1", "FinalAck Body", plain(read_final_ack(data)))


def _user_message(data: bytes) -> Iterator[Header]:
    """Every header the message has, in its order."""
    packet = Packet(data)
    packet.check()
    yield Header(*BASE, plain(packet.base))
    fields = plain(packet.user) | plain(packet.names)
    del fields["texts"]  # the names once more
    yield Header("MS-MQMQ 2.2.19.2", "UserHeader", fields)
    if packet.transaction:
        fields = plain(packet.transaction) | fields_of(packet, "connector_guid")
        yield Header("MS-MQMQ 2.2.20.5", "TransactionHeader", fields)
    if packet.security:
        yield Header("MS-MQMQ 2.2.20.6", "SecurityHeader", plain(packet.security))
    if packet.properties:
        fields = plain(packet.properties) | {"class": class_name(packet.message_class)}
        fields |= fields_of(packet, "label", "extension", "body")
        yield Header("MS-MQMQ 2.2.19.3", "MessagePropertiesHeader", fields)
    yield from _behind_the_body(packet)


def _behind_the_body(packet: Packet) -> Iterator[Header]:
    if packet.tail.debug_at:
        queue = show(packet.tracing_queue, "queue")
        yield Header("MS-MQMQ 2.2.20.8", "DebugHeader", {"queue": queue})
    if packet.tail.compound_at:
        yield from _over_http(packet)
    if packet.soap:
        yield Header("MS-MQMQ 2.2.20.7", "SoapHeader", plain(packet.soap))
    if packet.multi_queue:
        yield Header("MS-MQMQ 2.2.20.1", "MultiQueueFormatHeader", plain(packet.multi_queue))
    if packet.session:
        yield Header(*SESSION, plain(packet.session))


def _over_http(packet: Packet) -> Iterator[Header]:
    """What a message that came over HTTP has of it."""
    envelope, compound, offset, size = stored_parts(packet.data, packet.summary)
    text = show(envelope)
    yield Header("MS-MQRR 2.2.5.1.2.1", "SRMPEnvelopeHeader", {"envelope": text})
    fields = {"message_body_offset": offset, "message_body_size": size, "data": compound}
    yield Header("MS-MQRR 2.2.5.1.2.2", "CompoundMessageHeader", fields)


READERS: dict[PacketKind, tuple[str, Callable[[bytes], Iterator[Header]]]] = {
    PacketKind.ESTABLISH_CONNECTION: ("MS-MQQB 2.2.3", _establish_connection),
    PacketKind.CONNECTION_PARAMETERS: ("MS-MQQB 2.2.2", _connection_parameters),
    PacketKind.SESSION_ACK: ("MS-MQQB 2.2.6", _session_ack),
    PacketKind.ORDER_ACK: ("MS-MQQB 2.2.4", _order_ack),
    PacketKind.FINAL_ACK: ("MS-MQQB 2.2.5", _final_ack),
    PacketKind.USER_MESSAGE: ("MS-MQMQ 2.2.20", _user_message),
}


def fields_of(packet: Packet, *names: str) -> dict[str, Any]:
    """Values that the packet itself has."""
    return {name: show(getattr(packet, name), name) for name in names}


def plain(record: Any) -> dict[str, Any]:
    """A structure as values that JSON and people can read; flags by their names."""
    return {name: show(value, name) for name, value in record._asdict().items()}


def show(value: Any, name: str = "") -> Any:
    """One value: flags, GUIDs, names and times in their usual form, other bytes as they are."""
    if isinstance(value, Flags):
        return {field: getattr(value, field) for field in flag_names(type(value))}
    if isinstance(value, FormatName):
        return str(value)
    if isinstance(value, str):  # half a surrogate pair fits into no output
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, tuple):
        return plain(value) if hasattr(value, "_fields") else [show(item) for item in value]
    if name in GUIDS:
        return format_guid(value)
    if name == "sent_time":
        return datetime.fromtimestamp(value, UTC).isoformat()
    if name in DURATIONS and value == INFINITE:
        return "infinite"
    return value


def flag_names(kind: type[Flags]) -> list[str]:
    """The bits of a flags word by name, lowest first."""
    return [name for name, value in vars(kind).items() if isinstance(value, bits)]
