"""Network interfaces that the protocols between queue managers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Resolved = Callable[[list[str], str], None]
"""Gets the addresses of a host, or none and why in words."""


class ConnectionOwner(Protocol):
    """The owner of a connection: an incoming one, or a link."""

    @property
    def held_bytes(self) -> int:
        """Of a message that is not whole yet."""
        ...

    @property
    def announced_bytes(self) -> int:
        """Of that message when it is whole, as far as the peer has announced it."""
        ...

    @property
    def unsynced_bytes(self) -> int:
        """Of what is neither safe nor answered yet."""
        ...

    def receive(self, data: bytes) -> None:
        """Bytes of the peer."""
        ...

    def pump(self) -> None:
        """The peer takes more."""
        ...

    def lost(self, words: str) -> None:
        """The connection has ended, not by `close`."""
        ...
