"""The addresses of this machine: in a direct name they mean this queue manager (decision 41)."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import Final

# As the kernel shows its routes: a line with an address, below it what the address is.
_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")
_FIB_TRIE = Path("/proc/net/fib_trie")
_IF_INET6 = Path("/proc/net/if_inet6")
# The kernel's groups of notices about addresses: RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR.
_ADDRESS_NOTICES: Final = 0x10 | 0x100
_NOTICE_BYTES: Final = 65_536
SETTLE_S: Final = 0.2  # one change of an interface is many notices
LOOK_S: Final = 60.0  # where the kernel gives no notices


def local_addresses() -> tuple[str, ...]:
    """Every IPv4 and IPv6 address of this machine, as far as the system lists them."""
    found = ipv4_addresses(_text(_FIB_TRIE)) + ipv6_addresses(_text(_IF_INET6))
    return tuple(dict.fromkeys(found))


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""


def ipv4_addresses(fib_trie: str) -> list[str]:
    """Those in the routing tables of the kernel."""
    return _LOCAL.findall(fib_trie)


def ipv6_addresses(if_inet6: str) -> list[str]:
    """Those in the list of interfaces, without link-local ones, which need an interface too."""
    words = [line.split()[0] for line in if_inet6.splitlines() if line.strip()]
    found = [IPv6Address(int(word, 16)) for word in words if re.fullmatch("[0-9a-f]{32}", word)]
    return [str(address) for address in found if not address.is_link_local]


class AddressWatch:
    """Looks at the addresses of this machine again when an interface gets or loses one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        known: Collection[str],
        changed: Callable[[tuple[str, ...]], None],
        look: Callable[[], tuple[str, ...]] = local_addresses,
    ) -> None:
        self._loop = loop
        self._changed = changed
        self._look = look
        self._known = frozenset(known)
        self._notices = _address_notices()
        self._timer: asyncio.TimerHandle | None = loop.call_later(SETTLE_S, self._again)
        if self._notices is not None:
            loop.add_reader(self._notices.fileno(), self._noticed, self._notices)

    def close(self) -> None:
        """Nothing is looked at after this."""
        if self._timer is not None:
            self._timer.cancel()
        if self._notices is not None:
            self._loop.remove_reader(self._notices.fileno())
            self._notices.close()
            self._notices = None

    def _noticed(self, notices: socket.socket) -> None:
        with suppress(OSError):  # more than fit: what has changed is looked at all the same
            notices.recv(_NOTICE_BYTES)
        if self._timer is None:
            self._timer = self._loop.call_later(SETTLE_S, self._again)

    def _again(self) -> None:
        self._timer = None
        if self._notices is None:
            self._timer = self._loop.call_later(LOOK_S, self._again)
        addresses = self._look()
        if not addresses:  # the kernel could not be asked, for example for lack of descriptors
            self._timer = self._timer or self._loop.call_later(LOOK_S, self._again)
            return
        if frozenset(addresses) != self._known:
            self._known = frozenset(addresses)
            self._changed(addresses)


def _address_notices() -> socket.socket | None:
    """A socket with the kernel's notices of addresses; None where it gives none."""
    try:
        notices = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    except (OSError, AttributeError):
        return None
    try:
        notices.bind((0, _ADDRESS_NOTICES))
        notices.setblocking(False)
    except OSError:
        notices.close()
        return None
    return notices
