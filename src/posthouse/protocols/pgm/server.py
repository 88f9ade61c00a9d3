"""PGM on sockets: raw IP where the system lets us, UDP otherwise ([MC-MQSRM] 2.1.2)."""

from __future__ import annotations

import asyncio
import random
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from ipaddress import AddressValueError, IPv4Address
from typing import Final

from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.pgm.protocol import PgmProtocol
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.pgm.srmp_bridge import take_in, write_message
from posthouse.wire.pgm.packets import IP_PROTOCOL, ROUTER_ALERT

DATAGRAM_MAX: Final = 65_535
READS_MAX: Final = 64  # datagrams of one socket in one round of the loop
BUFFER_SIZE: Final = 4 << 20  # that the system is asked to keep for us
POLL_S: Final = 0.02
IP_MULTICAST_ALL: Final = 49  # of Linux: groups of other programs are not ours
ROUTER_ALERT_OPTION: Final = b"\x94\x04\0\0"  # RFC 2113
ANYWHERE: Final = ("", "0.0.0.0", "::", "::1")
_IP = socket.IPPROTO_IP


class Medium:
    """How packets travel: as IP datagrams of their own protocol, or inside of UDP."""

    def __init__(self, settings: PgmSettings) -> None:
        self.settings = settings
        self.raw = settings.encapsulation == "raw" or (
            settings.encapsulation == "auto" and may_send_raw()
        )

    def __str__(self) -> str:
        return "raw" if self.raw else "udp"

    def socket(self) -> socket.socket:
        """A socket for packets; OSError where raw ones are not allowed."""
        kind = (socket.SOCK_RAW, IP_PROTOCOL) if self.raw else (socket.SOCK_DGRAM, 0)
        made = socket.socket(socket.AF_INET, *kind)
        made.setblocking(False)
        return made

    def multicast_target(self, group: str) -> tuple[str, int]:
        """Where the packets of a group go."""
        return group, 0 if self.raw else self.settings.udp_multicast_port

    def unicast_target(self, address: str) -> tuple[str, int]:
        """Where NAKs go."""
        return address, 0 if self.raw else self.settings.udp_unicast_port

    def payload(self, datagram: bytes) -> bytes:
        """The PGM packet; raw sockets give the IP header with it."""
        return datagram[(datagram[0] & 0x0F) * 4 :] if self.raw and datagram else datagram


def may_send_raw() -> bool:
    """Whether this process may open raw sockets (CAP_NET_RAW)."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, IP_PROTOCOL).close()
    except OSError:
        return False
    return True


class PgmNode:
    """The protocol with its `PgmNetwork`. Sockets are there only for groups that are in use."""

    name = "pgm"

    def __init__(
        self,
        desk: Desk,
        settings: PgmSettings,
        *,
        interface: str = "",
        now: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self.settings = settings
        self.now = now
        self.medium = Medium(settings)
        self.errors = 0  # datagrams that the system did not send
        self._interface = "" if interface in ANYWHERE else _ipv4(interface)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._groups: dict[str, socket.socket] = {}
        self._senders: dict[str, dict[str, socket.socket]] = {}  # by our own address there
        self._own: dict[str, str] = {}  # our own address for a group
        self._listeners: dict[str, socket.socket] = {}  # for NAKs, by our own address
        self._paused = False
        self._closed = False
        self.protocol = PgmProtocol(
            desk,
            settings,
            self,
            now,
            chance=random.Random(secrets.randbits(128)).randint,
            gsi=secrets.token_bytes(6),
            write=write_message,
            take_in=take_in,
        )

    # -- the door

    async def start(self, host: str, port: int) -> str:
        """Joins the groups of all queues; there is no address that clients connect to."""
        self.protocol.start()
        return ""

    async def stop(self, deadline_s: float) -> None:
        """What has begun is sent, and receivers that miss something have a moment to report it."""
        self.protocol.stop()
        begin = self._loop.time()
        linger_s = self.settings.linger_ms / 1000 if self.protocol.sources else 0.0
        while self._loop.time() < begin + deadline_s - POLL_S:
            if self._loop.time() >= begin + linger_s and not self.protocol.is_sending:
                break
            await asyncio.sleep(POLL_S)
        self.protocol.abandon()
        self._close()

    def _close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for opened in [*self._groups.values(), *self._listeners.values()]:
            self._loop.remove_reader(opened)
            opened.close()
        for senders in self._senders.values():
            for opened in senders.values():
                opened.close()

    # -- PgmNetwork: time

    def wake_at(self, when_ms: int) -> None:
        """One timer for everything."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            delay_s = max(when_ms - self.now(), 0) / 1000
            self._timer = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.protocol.tick()

    # -- PgmNetwork: groups

    def join(self, group: str) -> None:
        """One socket for each group, for a socket has room for few of them."""
        opened = self.medium.socket()
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_SIZE)
            with suppress(OSError):  # not everywhere
                opened.setsockopt(_IP, IP_MULTICAST_ALL, 0)
            opened.bind(self.medium.multicast_target(group))
            member = socket.inet_aton(group) + socket.inet_aton(self._interface or "0.0.0.0")
            opened.setsockopt(_IP, socket.IP_ADD_MEMBERSHIP, member)
        except OSError:
            opened.close()
            raise
        self._groups[group] = opened
        self._ready_sender(group)  # for NAKs
        self._read(opened, group)

    def leave(self, group: str) -> None:
        """The system forgets the membership with the socket."""
        opened = self._groups.pop(group, None)
        if opened is not None:
            self._loop.remove_reader(opened)
            opened.close()

    def pause(self) -> None:
        """What comes now waits in the system's buffer, or is lost and asked for again."""
        self._paused = True
        for opened in self._groups.values():
            self._loop.remove_reader(opened)

    def resume(self) -> None:
        """Reads on."""
        self._paused = False
        for group, opened in self._groups.items():
            self._read(opened, group)

    # -- PgmNetwork: sending

    def open_source(self, group: str) -> str:
        """The sockets to send with, and the one on which NAKs come."""
        own = self._ready_sender(group)
        if own not in self._listeners:
            opened = self.medium.socket()
            try:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                opened.bind(self.medium.unicast_target(own))
            except OSError:
                opened.close()
                raise
            self._listeners[own] = opened
            self._read(opened, None)
        return own

    def _ready_sender(self, group: str) -> str:
        own = self._own[group] = self._interface or _route_to(group)
        if own not in self._senders:
            self._senders[own] = self._open_senders(own)
        return own

    def _open_senders(self, own: str) -> dict[str, socket.socket]:
        hops = self.settings.hops
        opened: dict[str, socket.socket] = {}
        try:
            for name, ttl in (("plain", hops), ("alert", hops), ("near", 1)):
                made = opened[name] = self.medium.socket()
                made.setsockopt(_IP, socket.IP_MULTICAST_TTL, ttl)
                made.setsockopt(_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
                made.bind((own, 0))
                if name == "alert" and self.medium.raw:
                    made.setsockopt(_IP, socket.IP_OPTIONS, ROUTER_ALERT_OPTION)
        except OSError:
            for made in opened.values():
                made.close()
            raise
        return opened

    def multicast(self, group: str, kind: int, packet: bytes) -> None:
        """SPM, NCF and RDATA bear the router alert option (RFC 3208 4)."""
        name = "alert" if kind in ROUTER_ALERT else "plain"
        self._send(group, name, packet, self.medium.multicast_target(group))

    def multicast_near(self, group: str, packet: bytes) -> None:
        """With a TTL of 1."""
        self._send(group, "near", packet, self.medium.multicast_target(group))

    def unicast(self, address: str, packet: bytes) -> None:
        """From any of our sockets: the packet states which session it is about."""
        for group in self._own:
            self._send(group, "plain", packet, self.medium.unicast_target(address))
            return

    def _send(self, group: str, name: str, packet: bytes, target: tuple[str, int]) -> None:
        own = self._own.get(group)
        if own is None or self._closed:
            return
        try:
            self._senders[own][name].sendto(packet, target)
        except OSError:
            self.errors += 1  # as if it had been lost on the way

    # -- reading

    def _read(self, opened: socket.socket, group: str | None) -> None:
        if group is None or not self._paused:
            self._loop.add_reader(opened, self._readable, opened, group)

    def _readable(self, opened: socket.socket, group: str | None) -> None:
        for _ in range(READS_MAX):
            try:
                datagram, sender = opened.recvfrom(DATAGRAM_MAX)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.errors += 1
                return
            self.protocol.receive(self.medium.payload(datagram), sender[0], group)
            if self._paused and group is not None:
                return


def _ipv4(interface: str) -> str:
    try:
        return str(IPv4Address(interface))
    except AddressValueError:
        return ""  # an IPv6 address is of no use for IPv4 groups


def _route_to(group: str) -> str:
    """Our own address on the way to a group; nothing is sent for that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((group, 9))
        return str(probe.getsockname()[0])
