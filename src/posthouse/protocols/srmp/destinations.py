"""Where the messages of an outgoing queue are posted to ([MC-MQSRM] 3.1.7.9)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import host_key
from posthouse.engine.transfer.srmp.web_names import url_text
from posthouse.model.names import DirectName, FormatName, Protocol
from posthouse.model.urls import host_of
from posthouse.protocols.srmp.network import Secure
from posthouse.protocols.srmp.settings import SrmpSettings

HTTP_PORT = 80  # 2.1.1, note 1
HTTPS_PORT = 443


class HttpDestination(NamedTuple):
    """Whom to connect to, and how requests look there."""

    host: str
    port: int
    secure: Secure | None
    to_proxy: bool = False  # requests name the whole URL
    is_redirected: bool = False

    def __str__(self) -> str:
        return f"{self.host} port {self.port}"


def is_handled(name: FormatName) -> bool:
    """3.1.7.7: a direct name of HTTP or HTTPS; multicast names are PGM's."""
    return isinstance(name, DirectName) and name.is_web


def destination_of(
    manager: QueueManager, name: DirectName, settings: SrmpSettings
) -> HttpDestination:
    """The host to connect to (3.1.7.9): that of the name, of an outbound redirection, or a proxy.

    Messages for an HTTPS name go over TLS in each case.
    """
    redirected = manager.transfer.redirected(url_text(name))
    host, port = name.host, name.port
    is_secure = name.protocol is Protocol.HTTPS
    if redirected is not None:
        found = host_of(redirected)
        assert found is not None, "the settings were checked"
        host, port = found
        is_secure = is_secure or redirected.lower().startswith("https:")
    port = port or (HTTPS_PORT if is_secure else HTTP_PORT)
    proxy = settings.proxy_address
    if proxy is None or _is_bypassed(host, settings.proxy_bypass):
        secure = Secure(host) if is_secure else None
        return HttpDestination(host, port, secure, is_redirected=redirected is not None)
    tunnel = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    secure = Secure(host, tunnel) if is_secure else None
    return HttpDestination(*proxy, secure, to_proxy=not is_secure)


def _is_bypassed(host: str, bypass: tuple[str, ...]) -> bool:
    known = host_key(host)
    return any(
        known.endswith(each) if each.startswith(".") else known == each
        for each in map(str.casefold, bypass)
    )


def as_address(host: str) -> str | None:
    """The address that a host is written as; None for a name, which has to be resolved."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def usable_addresses(addresses: list[str]) -> list[str]:
    """Each once, in order; what is neither IPv4 nor IPv6 is left out."""
    found = [address for address in map(as_address, addresses) if address is not None]
    return list(dict.fromkeys(found))
