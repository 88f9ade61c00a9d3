"""The network interface of SRMP; asyncio and the simulation each implement it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from posthouse.model.enumerations import ConnectionStatus
from posthouse.protocols.transport import ConnectionOwner, Resolved


class SrmpTransport(Protocol):
    """One connection, as its owner uses it."""

    @property
    def writable(self) -> bool:
        """Whether the peer takes what is written."""
        ...

    @property
    def local_address(self) -> str:
        """Our own address on this connection, without port."""
        ...

    def send(self, parts: list[bytes]) -> None:
        """Writes, or keeps what the peer does not take now."""
        ...

    def close(self) -> None:
        """Ends it when what was written is sent; its owner gets no more calls."""
        ...

    def pause(self) -> None:
        """Reads nothing until `resume`."""
        ...

    def resume(self) -> None:
        """Reads on."""
        ...

    def relieved(self) -> None:
        """What the owner holds has become less."""
        ...


class SrmpAttempt(Protocol):
    """Who waits for a connection; exactly one of the two is called, once."""

    def connected(self, transport: SrmpTransport) -> ConnectionOwner | None:
        """The owner that gets the bytes; None: the connection is no longer wanted."""
        ...

    def failed(self, status: ConnectionStatus, words: str) -> None:
        """There is no connection."""
        ...


class Secure(NamedTuple):
    """A connection over TLS (2.1.1)."""

    server_name: str  # that its certificate has to name
    tunnel: str = ""  # `host:port` that the proxy there is asked for first


class SrmpNetwork(Protocol):
    """Calls return at once; what they ask for is told later, never from inside the call."""

    def resolve(self, host: str, done: Resolved) -> None:
        """Looks a host name up afresh."""
        ...

    def connect(self, address: str, port: int, secure: Secure | None, attempt: SrmpAttempt) -> None:
        """Opens a connection (2.1.1); gives up after `connect_timeout_ms`."""
        ...

    def soon(self, action: Callable[[], None]) -> None:
        """Calls it when everything that has arrived by now was handed over."""
        ...

    def wake_at(self, when_ms: int) -> None:
        """`SrmpProtocol.tick` is to be called then; only ever earlier than asked before, or
        after a tick."""
        ...
