"""What PGM needs of a network; sockets and the simulation each have one."""

from __future__ import annotations

from typing import Protocol


class PgmNetwork(Protocol):
    """Datagrams may get lost, so sending never fails; opening may, with OSError."""

    def open_source(self, group: str) -> str:
        """Sending to a group begins; returns our own address there, on which NAKs are awaited."""
        ...

    def join(self, group: str) -> None:
        """What is sent to the group comes to `PgmProtocol.receive` from now on."""
        ...

    def leave(self, group: str) -> None:
        """Nothing of the group comes any more."""
        ...

    def multicast(self, group: str, kind: int, packet: bytes) -> None:
        """Sends a packet of this type to a group; some bear the router alert option (4)."""
        ...

    def multicast_near(self, group: str, packet: bytes) -> None:
        """Sends a packet to a group with a TTL of 1 (6.3)."""
        ...

    def unicast(self, address: str, packet: bytes) -> None:
        """Sends a packet to one computer."""
        ...

    def pause(self) -> None:
        """Nothing is read until `resume`; what comes too much meanwhile gets lost."""
        ...

    def resume(self) -> None:
        """There is room again."""
        ...

    def wake_at(self, when_ms: int) -> None:
        """`PgmProtocol.tick` is to be called then; only ever earlier than asked before, or after a
        tick."""
        ...
