"""Between SRMP and PGM: messages as units, units as arrivals ([MC-MQSRM] 2.1.2)."""

from __future__ import annotations

from collections.abc import Callable

from posthouse.engine.manager import QueueManager
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.srmp.runs import SrmpArrival
from posthouse.model.guids import NULL_GUID
from posthouse.model.names import MulticastName
from posthouse.protocols.pgm.session import MulticastPlace
from posthouse.protocols.pgm.units import read_unit, write_unit
from posthouse.wire.packet.glance import glance
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.mime_parts import read_parts
from posthouse.wire.srmp.serialize import SrmpContext, srmp_of


def write_message(place: MulticastPlace, packet: bytes) -> bytes:
    """A message as an application data unit, with a head as if it went over HTTP (note 2)."""
    context = SrmpContext(receipts_to="", destination=MulticastName(*place))
    request = srmp_of(packet, glance(packet), context)
    return write_unit(str(place), request.fields, request.payload)


def take_in(place: MulticastPlace, source: str, unit: bytes) -> Callable[[QueueManager], object]:
    """A unit, read; RemoteProtocolError if it is not an SRMP message."""
    head, content_type, payload = read_unit(unit)
    parts = read_parts(content_type, payload)
    arrival = SrmpArrival(Peer(NULL_GUID, source), read_envelope(parts.envelope), parts, head)
    return lambda manager: manager.transfer.receive_multicast(str(place), [arrival])
