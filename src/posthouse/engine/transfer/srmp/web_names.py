"""URLs of queues as direct names, and hosts that no message may be sent to."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import unquote

from posthouse.engine.settings import host_key
from posthouse.model.errors import IllegalFormatName
from posthouse.model.names import ELEMENT_LENGTH_MAX, DirectName, parse_format_name

_URL_LENGTH_MAX = 12 * ELEMENT_LENGTH_MAX  # a character has up to 4 bytes, each escaped by 3


def web_name(url: str) -> DirectName | None:
    """The direct name of an http or https URL of a queue; None for any other text."""
    return _web_name(url) if len(url) <= _URL_LENGTH_MAX else None


@lru_cache(4096)
def _web_name(url: str) -> DirectName | None:
    if not url[:8].lower().startswith(("http://", "https://")):
        return None
    try:
        name = parse_format_name(f"DIRECT={unquote(url, errors='strict')}")
    except (IllegalFormatName, UnicodeDecodeError):
        return None
    return name if isinstance(name, DirectName) else None


def url_text(name: DirectName) -> str:
    """The URL of a direct web name, its scheme in lower case (decision 61)."""
    scheme, _, rest = name.wire.partition(":")
    return f"{scheme.lower()}:{rest}"


def is_link_local(host: str) -> bool:
    """Whether a host is a link-local address, where cloud machines keep their secrets."""
    try:
        return ip_address(host_key(host).partition("%")[0]).is_link_local
    except ValueError:
        return False
