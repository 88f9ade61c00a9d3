"""Redirection of SRMP messages by the operator's rules ([MC-MQSRM] 3.1.1.1.8-10).

A From URL that ends in `*` matches everything that begins like it. A To URL that ends in `*` takes
over what the asterisk of its From stood for; the document replaces the whole URL, as one without
does. Neither link-local addresses nor our own admin port are ever redirected to (decision 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.queues.collection import Queues
from posthouse.engine.transfer.srmp.web_names import is_link_local
from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt
from posthouse.model.urls import host_of

_ANY = "*"


class Redirects:
    """Where messages go instead of to their URLs."""

    def __init__(self, core: Ledger, registry: Queues) -> None:
        self.core = core
        self._registry = registry
        self.settings = settings = core.settings.srmp.redirect
        self._forbidden_ports: set[int] = set()
        for table in (settings.outbound, settings.inbound, settings.receipt_urls):
            for source, target in table.items():
                self._check(source, target)

    def _check(self, source: str, target: str) -> None:
        found = host_of(target)
        if found is None or host_of(source) is None:
            raise InvalidParameter(
                f"srmp.redirect leads from {excerpt(source)} to {excerpt(target)}",
                "Write both as URLs: http://host/msmq/queue, with * at the end for any queue.",
            )
        if is_link_local(found[0]):
            raise InvalidParameter(f"srmp.redirect leads to the link-local address {found[0]}")

    def forbid_port(self, port: int) -> None:
        """The admin door listens there: nothing of another machine is ever sent to it."""
        self._forbidden_ports.add(port)
        self.core.rights_version += 1  # what URLs mean may have changed

    def is_forbidden(self, host: str, port: int | None) -> bool:
        """Decision 11: link-local addresses, and our own admin port."""
        if is_link_local(host):
            return True
        return port in self._forbidden_ports and self._registry.is_own(host, None)

    def outbound(self, url: str) -> str | None:
        """The URL whose host is connected to instead (3.1.7.9); the message keeps its own."""
        target = _match(self.settings.outbound, url)
        if target is None or self._is_exception(url):
            return None
        return self._allowed(target)

    def _is_exception(self, url: str) -> bool:
        known = _key(url)
        return any(_fits(_key(entry), known) for entry in self.settings.outbound_exceptions)

    def inbound(self, url: str) -> str | None:
        """The queue that an arriving message goes to instead of that in its `to` (3.1.5.1.3)."""
        target = _match(self.settings.inbound, url)
        return None if target is None else self._allowed(target)

    def _allowed(self, target: str) -> str | None:
        found = host_of(target)
        if found is None or self.is_forbidden(*found):
            self.core.refusals["redirection_not_allowed"] += 1
            return None
        return target

    def receipts_to(self, url: str, default: str) -> str:
        """What we write into `sendReceiptsTo` of a stream to a URL (3.1.7.2.4)."""
        replaced = _match(self.settings.receipt_urls, url)
        return replaced or self.settings.default_receipt_url or default

    def leads_here(self, url: str) -> bool:
        """Whether a URL is one that we write into `sendReceiptsTo` because we were told to."""
        known, settings = _key(url), self.settings
        named = [settings.default_receipt_url, *settings.receipt_urls.values()]
        return known in [_key(to) for to in named if to]


def _key(url: str) -> str:
    return unquote(url).casefold()


def _fits(pattern: str, url: str) -> bool:
    if pattern.endswith(_ANY):
        return url.startswith(pattern[:-1])
    return url == pattern


def _match(table: Mapping[str, str], url: str) -> str | None:
    """To of the first entry whose From matches."""
    if not table:
        return None
    text, known = unquote(url), _key(url)
    for source, target in table.items():
        pattern = _key(source)
        if _fits(pattern, known):
            if not target.endswith(_ANY):
                return target
            rest = text[len(pattern) - 1 :] if pattern.endswith(_ANY) else ""
            return target[:-1] + rest
    return None
