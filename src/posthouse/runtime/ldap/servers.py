"""The directory servers of a domain, by the name service (RFC 2782; facts 2.1)."""

from __future__ import annotations

import random
from typing import Any, Final

import dns.exception
import dns.resolver

from posthouse.directory.ldap.settings import Server

_NAMES: Final = ("_ldap._tcp.dc._msdcs.{}", "_ldap._tcp.{}")
_TIME_LIMIT_S: Final = 10.0


def looked_up(domain: str, resolver: dns.resolver.Resolver | None = None) -> list[Server]:
    """Servers in the order they are to be tried; none where none is known.

    The certificate of a server proves its name, and the name service proves nothing: whoever could
    answer in its place would name a server of their own. So the name has to be one of the domain.
    """
    if not domain:
        return []
    asked = resolver or dns.resolver.Resolver()
    for name in _NAMES:
        try:
            answer = asked.resolve(name.format(domain), "SRV", lifetime=_TIME_LIMIT_S)
        except dns.exception.DNSException:
            continue
        found = [_server(record) for record in sorted(answer, key=_turn)]
        return [server for server in found if _is_within(server.host, domain)]
    return []


def _is_within(host: str, domain: str) -> bool:
    wanted = domain.strip(".").lower()
    return host == wanted or host.endswith(f".{wanted}")


def _turn(record: Any) -> tuple[int, float]:
    """Lower priorities first; among equals by chance, heavier ones more often early."""
    return record.priority, random.random() ** (1 / (record.weight or 0.01)) * -1


def _server(record: Any) -> Server:
    return Server("ldap", record.target.to_text(omit_final_dot=True).lower(), record.port)
