"""The address of a machine in the directory: a host, perhaps with the port of its sessions."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.text import excerpt

PORT_MAX = 65_535
HOST_LENGTH_MAX = 255


class Address(NamedTuple):
    """A host by name or by address; without a port the standard one is meant."""

    host: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """`host`, `host:port`, `[IPv6]:port`, or an IPv6 address as it is."""
        host, port = text, None
        if text.startswith("["):
            host, _, behind = text[1:].partition("]")
            if behind:
                port = _port(text, behind.removeprefix(":") if behind[0] == ":" else "")
        elif text.count(":") == 1:
            host, _, behind = text.partition(":")
            port = _port(text, behind)
        if not _is_host(host) or (text.startswith("[") and ":" not in host):
            raise _refused(text)
        return cls(host, port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port is not None else self.host
        return host if self.port is None else f"{host}:{self.port}"


def _refused(text: str) -> IllegalPropertyValue:
    return IllegalPropertyValue(
        f"{excerpt(text)} is not an address",
        "Write a host or host:port, an IPv6 address in brackets.",
    )


def _port(text: str, digits: str) -> int:
    known = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(PORT_MAX))
    if not known or not 0 < int(digits) <= PORT_MAX:
        raise _refused(text)
    return int(digits)


def _is_host(host: str) -> bool:
    if len(host) > HOST_LENGTH_MAX:
        return False
    try:
        ip_address(host)
    except ValueError:
        return _is_name(host)
    _, percent, zone = host.partition("%")  # of IPv6, which may be any text
    return not percent or _is_name(zone)


def _is_name(text: str) -> bool:
    letters = text.replace("-", "").replace("_", "").replace(".", "")
    return letters.isalnum() and letters.isascii()
