"""Reads and changes the security of a packet."""

from __future__ import annotations

from posthouse.wire.packet.optional_headers import Security
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.protection import with_protection


def security_of(packet: bytes) -> Security:
    security = Packet(packet).security
    assert security is not None
    return security


def changed(packet: bytes, body: bytes | None = None, **fields: object) -> bytes:
    """The packet with other items in its SecurityHeader."""
    view = Packet(packet)
    assert view.security is not None
    assert view.properties is not None
    security = view.security._replace(**fields)  # type: ignore[arg-type]
    return with_protection(packet, view.summary, security, view.properties, body)


def with_flags(packet: bytes, **flags: int) -> bytes:
    return changed(packet, flags=security_of(packet).flags.replace(**flags))
