"""The addresses of this machine: in a direct name they mean this queue manager (decision 41)."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from pathlib import Path

# As the kernel shows its routes: a line with an address, below it what the address is.
_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")
_FIB_TRIE = Path("/proc/net/fib_trie")
_IF_INET6 = Path("/proc/net/if_inet6")


def local_addresses() -> tuple[str, ...]:
    """Every IPv4 and IPv6 address of this machine, as far as the system tells."""
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
