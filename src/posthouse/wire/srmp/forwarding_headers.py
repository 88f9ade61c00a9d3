"""Headers that store-and-forward servers add to messages over HTTP.

Via has an entry for each of them (RFC 9110 7.6.3): SRMP has no hop count, and such servers can be
led in a circle. X-Forwarded-For has the address that a message came from: whom it is passed on to
sees the address of the server only, and many senders share that.
"""

from __future__ import annotations

FORWARDED_FOR = "X-Forwarded-For"
_ENTRY = "1.1 posthouse"


def via_of(hops: int) -> str:
    """The field of a message that this many have passed on."""
    return ", ".join([_ENTRY] * hops)


def hops_in(head: bytes) -> int:
    """How many have passed on the request with this head, proxies among them."""
    return sum(bool(entry.strip()) for entry in _values(head, b"via"))


def with_sender(head: bytes, host: str) -> bytes:
    """A head that names the host that it came from, and no other."""
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    kept = [line for line in lines if _name(line) != FORWARDED_FOR.lower().encode()]
    return b"\r\n".join([*kept, f"{FORWARDED_FOR}: {host}".encode()]) + b"\r\n\r\n"


def sender_in(head: bytes) -> str:
    """The host that a head names; nothing where it names none."""
    values = _values(head, FORWARDED_FOR.lower().encode())
    return values[-1].strip().decode("latin-1") if values else ""


def _name(line: bytes) -> bytes:
    return line.partition(b":")[0].strip().lower()


def _values(head: bytes, name: bytes) -> list[bytes]:
    """The entries of a field, from all its lines."""
    lines = head.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    found = [line.partition(b":")[2] for line in lines if _name(line) == name]
    return [entry for value in found for entry in value.split(b",")]
