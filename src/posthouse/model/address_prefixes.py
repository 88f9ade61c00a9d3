"""Network prefixes that count as one address, for limits per address on strangers."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address


@lru_cache(4096)
def source_of(address: str) -> str:
    """What is counted as one address: of IPv6 the network of 64 bits that one host has.

    An IPv4 address that came over IPv6 is an IPv4 one.
    """
    if ":" not in address:
        return address
    try:
        found = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"
