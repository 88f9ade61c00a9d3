"""Turns messages into HTTP requests, with the URL for receipts ([MC-MQSRM] 3.1.7.2.4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

from posthouse.engine.transfer.srmp.web_names import url_text
from posthouse.formats.trace_headers import shown_trace
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.names import DirectName, Protocol
from posthouse.model.trace_context import TRACEPARENT, TRACESTATE
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.srmp.destinations import HttpDestination
from posthouse.protocols.srmp.http_writer import request
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.security.message_security import Signer
from posthouse.security.xml_signatures import sign
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.srmp.serialize import ORDER_QUEUE_PATH, SrmpContext, request_target, srmp_of

Sign = Callable[[bytes, bytes, bytes, int], bytes]


class Unsendable(Exception):
    """A message that SRMP has no words for."""


class RequestMaker:
    """Turns packets into HTTP requests, with the address where we listen, for answers."""

    def __init__(self, desk: Desk, settings: SrmpSettings) -> None:
        self._desk = desk
        self._settings = settings
        self._listeners: dict[str, tuple[str, int]] = {}  # by scheme: address and port

    def listens(self, scheme: str, address: str, port: int) -> None:
        """A listener of ours is open."""
        self._listeners[scheme] = address, port

    def make(
        self, packet: bytes, name: DirectName, destination: HttpDestination, local_address: str
    ) -> list[bytes]:
        """The request for a packet that goes to a queue by way of a destination."""
        transfer, url, seen = self._desk.manager.transfer, url_text(name), summarize(packet)
        base = self.base_url(name.protocol is Protocol.HTTPS, local_address)
        try:
            made = srmp_of(
                packet,
                seen,
                SrmpContext(
                    transfer.receipts_to(url, base + ORDER_QUEUE_PATH),
                    lambda each: transfer.url_of(each, base),
                    name,
                    self._signing(packet, seen),
                ),
            )
        except (QueueError, RemoteProtocolError) as fault:
            raise Unsendable(str(fault)) from None
        host, target = request_target(made.url)
        if destination.to_proxy:
            target = f"http://{host}{target}"
        fields = [*made.fields, *_trace_of(packet, seen)] if seen.extension_size else made.fields
        return request(target, host, fields, made.payload)

    def _signing(self, packet: bytes, seen: PacketSummary) -> Sign | None:
        """Signs what was signed here, by the same user in the form of SRMP (2.2.7)."""
        manager = self._desk.manager
        if not seen.security_at or seen.source_guid != manager.machine.identifier:
            return None
        view = Packet(packet, seen)
        if view.security is None or not view.security.signature or view.properties is None:
            return None
        signer = manager.certificates.signer(view.security.sender_id)
        if signer is None:
            return None
        return partial(_sign, view.properties.hash_algorithm, signer)

    def base_url(self, is_secure: bool, local_address: str) -> str:
        """Decision 60: our own URL, as the other end can reach it; over TLS as it is reached."""
        secure = is_secure and "https" in self._listeners
        scheme = "https" if secure or "http" not in self._listeners else "http"
        address, port = self._listeners.get(scheme, ("", 0))
        host = self._settings.receipt_host
        if not host and scheme == "https":
            host = self._desk.manager.machine.settings.qualified_computer_name
        if not host:
            host = local_address if _is_any(address) else address
        shown = f"[{host}]" if ":" in host else host
        return f"{scheme}://{shown}:{port}" if port else f"{scheme}://{shown}"


def _trace_of(packet: bytes, seen: PacketSummary) -> list[tuple[str, str]]:
    """The header fields of the trace context that the message carries."""
    trace = shown_trace(Packet(packet, seen).extension)
    if trace is None:
        return []
    return [
        (name, value)
        for name, value in ((TRACEPARENT, trace.parent), (TRACESTATE, trace.state))
        if value
    ]


def _sign(
    hash_algorithm: int, signer: Signer, body: bytes, extension: bytes, guid: bytes, ordinal: int
) -> bytes:
    return sign(body, extension, guid, hash_algorithm, signer, ordinal)


def _is_any(address: str) -> bool:
    try:
        return ip_address(address).is_unspecified
    except ValueError:
        return True
