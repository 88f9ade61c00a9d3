"""Sockets and addresses for everything that listens or connects over TCP."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress
from threading import Thread
from typing import Any, Final

LOCAL: Final = "local"  # the address of a peer on a Unix socket
GONE: Final = "unknown"  # the address of a peer that has left already
# A peer that vanished is noticed within a minute, also where nothing is to be sent.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_NOT_HERE: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
# Also a name that is none for the resolver, and a system that has no thread for it: the link must
# get every failure, or it would wait for ever.
UNREACHABLE: Final = (OSError, ValueError, RuntimeError)


def address_of(transport: asyncio.Transport) -> str:
    """The peer's address; an IPv4 one that came over IPv6 is an IPv4 one."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]).removeprefix("::ffff:") if peer else GONE


def let_go(transport: asyncio.Transport) -> None:
    """Make the TLS of a lost connection forget its protocol.

    It keeps methods of the protocol, which has the transport: a circle with 256 KiB of buffer.
    """
    if transport.get_extra_info("sslcontext") is not None:
        transport.set_protocol(_NOBODY)


_NOBODY: Final = asyncio.BufferedProtocol()


def keep_alive(connection: Any) -> None:
    """Has the system look whether the peer of a socket is still there."""
    with suppress(OSError):  # it may be gone already
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def look_up(host: str) -> list[str]:
    """The addresses of a host. The system may take long; a stop does not wait for it."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def tell(addresses: list[str], error: Exception | None) -> None:
        if found.done():
            return
        if error is None:
            found.set_result(addresses)
        else:
            found.set_exception(error)

    def run() -> None:
        addresses: list[str] = []
        failure: Exception | None = None
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = [str(entry[4][0]) for entry in entries]
        except Exception as error:  # the loop must get every failure
            failure = error
        with suppress(RuntimeError):  # the loop may be gone
            loop.call_soon_threadsafe(tell, addresses, failure)

    Thread(target=run, name="posthouse-resolver", daemon=True).start()
    return await found


def words_of(error: Exception) -> str:
    """The reason that the system gives, without numbers."""
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error)


def address_of_peer(connection: socket.socket) -> str:
    """Who is at the other end; empty where the peer has left already, `local` on this machine."""
    if connection.family == socket.AF_UNIX:
        return LOCAL
    try:
        return str(connection.getpeername()[0]).removeprefix("::ffff:")
    except OSError:
        return ""


def bound_sockets(host: str, port: int, kind: int = socket.SOCK_STREAM) -> list[socket.socket]:
    """Sockets bound to an address; on `::` one for both families, as MSMQ does.

    Of the addresses of a name those count that this machine has.
    """
    both = host == "::" and socket.has_dualstack_ipv6()
    found = dict.fromkeys(
        (family, where)
        for family, _, _, _, where in socket.getaddrinfo(
            host, port, type=kind, flags=socket.AI_PASSIVE
        )
    )
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for family, where in found:
        try:
            sockets.append(_bound(family, kind, where, v6_only=not both))
        except OSError as error:
            missing = error
            if error.errno not in _NOT_HERE:
                break
    if missing is not None and (not sockets or missing.errno not in _NOT_HERE):
        for one in sockets:
            one.close()
        raise missing
    return sockets


def _bound(family: int, kind: int, where: Any, *, v6_only: bool) -> socket.socket:
    one = socket.socket(family, kind)
    try:
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6_only)
        if kind == socket.SOCK_STREAM:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(where)
    except OSError:
        one.close()
        raise
    return one


def shown_address(address: tuple[Any, ...]) -> str:
    """A socket's address as `address:port`."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{host}:{address[1]}"
