"""The ports of the listeners: as the documents have them, out of the privileged range, or any."""

from __future__ import annotations

from enum import StrEnum

STANDARD_PORTS = {
    "binary": 1801,
    "ping": 3527,
    "rpc": 2103,
    "epm": 135,
    "http": 80,
    "https": 443,
    "ncp": 524,
    "admin": 8816,
}
PRIVILEGED_MAX = 1023
USER_OFFSET = 10_000


class PortSet(StrEnum):
    """What `--ports` chooses from."""

    STANDARD = "standard"
    USER = "user"
    EPHEMERAL = "ephemeral"


def port_of(endpoint: str, ports: PortSet) -> int:
    """The port of an endpoint; 0 where the system is to choose."""
    standard = STANDARD_PORTS[endpoint]
    if ports is PortSet.EPHEMERAL:
        return 0
    if ports is PortSet.USER and standard <= PRIVILEGED_MAX:
        return standard + USER_OFFSET
    return standard


def own_ports(ports: PortSet) -> frozenset[int]:
    """Ports that mean this queue manager in a direct name that carries one."""
    return frozenset(port_of(name, ports) for name in ("binary", "http", "https")) - {0}
