"""Interfaces of a session: its states, its connection and the host that owns it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeVar

from posthouse.engine.transfer.protocol_interface import Peer

Session = TypeVar("Session", contravariant=True)
"""A `BinarySession`."""


class Role(Enum):
    """Who opened the transport connection."""

    INITIATOR = "initiator"
    ACCEPTOR = "acceptor"


class BinaryTransport(Protocol):
    """The connection under a session. After `close` nothing is called but `close`."""

    @property
    def writable(self) -> bool:
        """False while too much waits to be sent; then `BinarySession.pump` is called."""
        ...

    def send(self, parts: list[bytes]) -> None:
        """Sends bytes in their order; never blocks, and takes them also while not `writable`."""
        ...

    def close(self) -> None:
        """Closes after what was sent. May be called twice; `BinarySession.lost` may follow."""
        ...

    def pause(self) -> None:
        """Stops reading; what was read already may still be handed to `BinarySession.receive`."""
        ...

    def resume(self) -> None:
        """Reads again."""
        ...

    def relieved(self) -> None:
        """Fewer bytes wait for the engine: `BinarySession.unsynced_bytes` has gone down."""
        ...

    def later(self, work: Callable[[], None]) -> None:
        """Does something in its turn: others have theirs before it. Perhaps at once."""
        ...


class SessionHost(Protocol[Session]):
    """The owner of sessions: the protocol's side of the queue manager."""

    def rearm(self, session: Session) -> None:
        """`BinarySession.next_deadline_ms` is earlier than before; `tick` is due then."""
        ...

    def admits(self, session: Session) -> bool:
        """Asked by an acceptor that has its `remote_guid`: whether limits allow the session."""
        ...

    def established(self, session: Session) -> None:
        """EstablishPacketReceived: an initiator has its first answer, 3.1.5.3.2."""
        ...

    def opened(self, session: Session) -> None:
        """The session is OPEN; queues may be attached from here on, and also before."""
        ...

    def closed(self, session: Session, reason: str) -> None:
        """The session is CLOSED, by either side. Called once, and last."""
        ...

    def peer_of(self, session: Session) -> Peer:
        """Asked once, after `opened`: the other side as the engine has it."""
        ...

    def sequences_touched(self, session: Session, sequences: tuple[tuple[int, bytes], ...]) -> None:
        """Transactional messages of these (queue, source) are safe: order acks are due."""
        ...

    def refused(self, reason: str) -> None:
        """Counts a packet that closes its session, by one of few reasons."""
        ...
