"""Connects SRMP and PGM: messages as data units, data units as arrivals ([MC-MQSRM] 2.1.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from posthouse.engine.manager import QueueManager
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival
from posthouse.model.errors import MalformedPacket
from posthouse.model.guids import NULL_GUID
from posthouse.model.names import MulticastName
from posthouse.protocols.pgm.session import MulticastPlace
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.mime_parts import read_parts
from posthouse.wire.srmp.serialize import SrmpContext, srmp_of

HEAD_MAX = 16 << 10
BOUNDARY_MAX = 70  # RFC 2046 5.1.1
_END = b"\r\n\r\n"


class ReceivedUnit(NamedTuple):
    """A received unit, split; the content type is what the payload itself shows."""

    head: bytes
    content_type: str
    payload: bytes


def write_unit(target: str, fields: list[tuple[str, str]], payload: bytes) -> bytes:
    """A message with its head, as 4.5 shows it; `target` is the group and port."""
    first, *others = fields
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {target}",
        f"{first[0]}: {first[1]}",
        f"Content-Length: {len(payload)}",
        *(f"{name}: {value}" for name, value in others),
    ]
    return "\r\n".join(lines).encode("utf-8") + _END + payload


def read_unit(unit: bytes) -> ReceivedUnit:
    """Skips the head: nothing is decided by it (note 2 of [MC-MQSRM]).

    The boundary of the parts is the one that the payload begins with.
    """
    end = unit.find(_END, 0, HEAD_MAX)
    if end < 0:
        raise MalformedPacket("a multicast message without the end of its HTTP head")
    head, payload = unit[: end + len(_END)], unit[end + len(_END) :]
    return ReceivedUnit(head, _content_type(payload), payload)


def _content_type(payload: bytes) -> str:
    if not payload.startswith(b"--"):
        return "text/xml"
    line_end = payload.find(b"\r\n", 0, BOUNDARY_MAX + 4)
    if line_end < 0:
        raise MalformedPacket("a multicast message whose first part has no boundary")
    try:
        boundary = payload[2:line_end].decode("ascii")
    except UnicodeDecodeError:
        raise MalformedPacket("a boundary that is not ASCII") from None
    if not boundary or '"' in boundary or "\\" in boundary:
        raise MalformedPacket("a boundary that cannot be one")
    return f'multipart/related; boundary="{boundary}"; type=text/xml'


def write_message(place: MulticastPlace, packet: bytes) -> bytes:
    """A message as an application data unit, with a head as if it went over HTTP (note 2)."""
    context = SrmpContext(receipts_to="", destination=MulticastName(*place))
    request = srmp_of(packet, summarize(packet), context)
    return write_unit(str(place), request.fields, request.payload)


def take_in(place: MulticastPlace, source: str, unit: bytes) -> Callable[[QueueManager], object]:
    """A unit, read; RemoteProtocolError if it is not an SRMP message."""
    head, content_type, payload = read_unit(unit)
    parts = read_parts(content_type, payload)
    arrival = SrmpArrival(Peer(NULL_GUID, source), read_envelope(parts.envelope), parts, head)
    return lambda manager: manager.transfer.receive_multicast(str(place), [arrival])
