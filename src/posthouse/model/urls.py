"""Hosts of URLs."""

from __future__ import annotations


def host_of(url: str) -> tuple[str, int | None] | None:
    """Host and port of a URL, also of one that names no queue; None where there is none."""
    _, separator, rest = url.partition("://")
    address = rest.partition("/")[0]
    host, port = address, ""
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
    if not separator or not host or "@" in host or not (port == "" or port.isdecimal()):
        return None
    return host, int(port) if port else None
