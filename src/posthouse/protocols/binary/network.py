"""The network interface of the binary protocol; asyncio and the simulation each implement it."""

from __future__ import annotations

from typing import Protocol

from posthouse.model.enumerations import ConnectionStatus
from posthouse.protocols.binary.session import BinarySession, BinaryTransport
from posthouse.protocols.transport import Resolved


class BinaryAttempt(Protocol):
    """Who waits for a connection; exactly one of the two is called, once."""

    def connected(self, transport: BinaryTransport) -> BinarySession | None:
        """The session that gets the bytes; None: the connection is no longer wanted."""
        ...

    def failed(self, status: ConnectionStatus, words: str) -> None:
        """There is no connection."""
        ...


class BinaryNetwork(Protocol):
    """Calls return at once; what they ask for is told later, never from inside the call."""

    def resolve(self, host: str, done: Resolved) -> None:
        """Looks a host name up afresh."""
        ...

    def connect(self, address: str, port: int, attempt: BinaryAttempt) -> None:
        """Opens a connection (2.1.1); gives up after `connect_timeout_ms`."""
        ...

    def ping(self, address: str, datagram: bytes) -> None:
        """Sends a datagram to the ping port there (2.1.2); answers come by
        `BinaryProtocol.ping_answered`."""
        ...

    def wake_at(self, when_ms: int) -> None:
        """`BinaryProtocol.tick` is to be called then; only ever earlier than asked before, or
        after a tick."""
        ...
