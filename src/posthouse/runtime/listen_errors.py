"""Explains why a queue manager does not start: a listener that cannot be opened, above all."""

from __future__ import annotations

import errno
import os
from typing import Final

from posthouse.runtime.ports import PRIVILEGED_MAX, STANDARD_PORTS, PortSet, port_of


class NotStarted(Exception):
    """The queue manager cannot start, and why."""


OWN_ADDRESS: Final = ("admin", "ncp")  # endpoints whose address is a setting of their section


def cannot_listen(endpoint: str, host: str, port: int, error: OSError) -> str:
    """The cause once, and the settings and options that change it; ends without a full stop."""
    at = f"{host}:{port}" if port else host
    if error.errno == errno.EADDRINUSE:
        return (
            f"{endpoint} cannot listen on {at}: another process uses this port. Stop that process "
            f"(`ss -lntup` shows it), or set another port in posthouse.toml ([{endpoint}] port)"
            f"{_choice(endpoint, port)}"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        setting = (
            f"[{endpoint}] listen in posthouse.toml"
            if endpoint in OWN_ADDRESS
            else "--listen, or [queue_manager] listen in posthouse.toml"
        )
        return (
            f"{endpoint} cannot listen on {at}: it is not an address of this machine. Name one "
            f"that is (`ip address` shows them; 0.0.0.0 stands for all): {setting}"
        )
    if error.errno == errno.EACCES and 0 < port <= PRIVILEGED_MAX:
        return (
            f"{endpoint} cannot listen on {at}: ports up to {PRIVILEGED_MAX} are for privileged "
            f"processes. Start with --ports user, or set [{endpoint}] port in posthouse.toml"
        )
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{endpoint} cannot listen on {at}: {reason}"


def _choice(endpoint: str, port: int) -> str:
    """Other ports may be chosen by an option where this one is of a port set."""
    chosen = endpoint in STANDARD_PORTS and port in {port_of(endpoint, one) for one in PortSet}
    return ", or start with --ports ephemeral" if chosen else ""
