"""How many servers have passed a message on over HTTP: the Via field (RFC 9110 7.6.3).

SRMP has no hop count, and servers that pass messages on can be led in a circle.
"""

from __future__ import annotations

_ENTRY = "1.1 posthouse"


def via_of(hops: int) -> str:
    """The field of a message that so many have passed on."""
    return ", ".join([_ENTRY] * hops)


def hops_in(head: bytes) -> int:
    """How many have passed on the request with this head, proxies among them."""
    hops = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"via":
            hops += sum(bool(entry.strip()) for entry in value.split(b","))
    return hops
