"""Connections that their peer resets after the system has made them, before the loop reports it."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import pytest

HOST = "127.0.0.1"
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER


def reset_connection() -> socket.socket:
    """A socket that was connected; its peer has reset it."""
    with socket.create_server((HOST, 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        theirs.close()
    ours.setblocking(False)
    return ours


def reset_first(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first connection that the loop opens is reset; returns the ports that are asked for."""
    loop, ports = asyncio.get_running_loop(), list[int]()
    open_it = loop.create_connection

    async def create_connection(make: Any, host: str, port: int, **more: Any) -> Any:
        ports.append(port)
        if len(ports) == 1:
            return await open_it(make, sock=reset_connection())
        return await open_it(make, host, port, **more)

    monkeypatch.setattr(loop, "create_connection", create_connection)
    return ports
