"""Ports that are written down somewhere, so that a test can use no others.

Two runs on one machine take turns: whoever has them holds a Unix socket in the abstract namespace,
which belongs to the same network as the ports and goes with its process.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 300.0
POLL_S = 0.1


@contextmanager
def fixed_ports(*ports: int, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """These TCP ports of 127.0.0.1, once another run has done with them."""
    name = f"\0posthouse tests: ports {ports}"
    with socket.socket(socket.AF_UNIX) as turn:
        until = time.monotonic() + patience_s
        while not _can_bind(turn, name):
            assert time.monotonic() < until, f"another test run uses the ports {ports}"
            time.sleep(POLL_S)
        while taken := [port for port in ports if not _is_free(port)]:
            assert time.monotonic() < until, f"another program listens on the ports {taken}"
            time.sleep(POLL_S)
        yield


def _can_bind(one: socket.socket, address: str | tuple[str, int]) -> bool:
    try:
        one.bind(address)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        return _can_bind(probe, ("127.0.0.1", port))
