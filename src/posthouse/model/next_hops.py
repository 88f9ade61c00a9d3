"""Next-hop address strings of outgoing queues ([MS-MQMQ] 2.3.12.12)."""

import re
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.guids import format_guid, parse_guid
from posthouse.model.text import excerpt


class NextHopKind(StrEnum):
    """What a next hop is given by."""

    IP = "IP"
    IPV6 = "IPv6"
    FOREIGN = "FOREIGN"


class NextHop(NamedTuple):
    """An address that messages of an outgoing queue may be handed to."""

    kind: NextHopKind
    address: str

    @classmethod
    def parse(cls, text: str) -> "NextHop":
        """Read `IP=`, `IPv6=` or `FOREIGN=` with its address."""
        word, equals, address = text.partition("=")
        kind = _KINDS.get(word.upper()) if word.isascii() else None
        if not equals or kind is None:
            raise IllegalPropertyValue(
                f"{excerpt(text)} is not IP=, IPv6= or FOREIGN= and an address"
            )
        return cls(kind, _canonical(kind, address))

    @classmethod
    def of_ip(cls, address: str) -> "NextHop":
        """The next hop at an IPv4 or IPv6 address."""
        kind = NextHopKind.IPV6 if ":" in address else NextHopKind.IP
        return cls(kind, _canonical(kind, address))

    def __str__(self) -> str:
        return f"{self.kind}={self.address}"


_ZONE = re.compile(r"[0-9A-Za-z._~-]*")  # RFC 6874; `ipaddress` takes anything
_KINDS = {kind.upper(): kind for kind in NextHopKind}


def _canonical(kind: NextHopKind, address: str) -> str:
    if kind is NextHopKind.FOREIGN:
        return format_guid(parse_guid(address))
    try:
        found = IPv4Address(address) if kind is NextHopKind.IP else IPv6Address(address)
    except AddressValueError:
        raise IllegalPropertyValue(f"{excerpt(address)} is not an address of {kind}") from None
    if isinstance(found, IPv6Address) and not _ZONE.fullmatch(found.scope_id or ""):
        raise IllegalPropertyValue(f"{excerpt(address)} has no interface after its percent sign")
    return str(found)
