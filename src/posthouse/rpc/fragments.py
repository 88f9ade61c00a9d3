"""Calls in fragments: splits a stub, and puts it together again (C706 12.6.2)."""

from __future__ import annotations

from typing import Final

from posthouse.model.errors import MalformedPacket

CALL_OVERHEAD: Final = 512  # about what is kept for a call that is not whole or not answered


def cut(stub: bytes, room: int) -> list[bytes]:
    """The pieces of a stub, none larger than there is room; at least one."""
    assert room > 0
    return [stub[at : at + room] for at in range(0, len(stub) or 1, room)]


class Partial:
    """A call of which fragments are missing yet."""

    __slots__ = (
        "announced",
        "begun_ms",
        "context_id",
        "flags",
        "opnum",
        "parts",
        "security",
        "status",
    )

    def __init__(
        self, context_id: int, opnum: int, security: object, begun_ms: int, announced: int = 0
    ) -> None:
        self.context_id = context_id
        self.opnum = opnum
        self.security = security  # all fragments are under the same one
        self.begun_ms = begun_ms
        self.announced = announced  # bytes of its stub, as its first fragment has it
        self.parts = bytearray()
        self.flags = 0
        self.status = 0  # why it will not be served; its fragments are not kept then

    def add(self, stub: bytes, size_max: int, status: int) -> int:
        """One more fragment; how many bytes more are held. Beyond the size it fails as told."""
        if self.status:
            return 0
        if len(self.parts) + len(stub) > size_max:
            return self.fail(status)
        self.parts += stub
        return len(stub)

    def fail(self, status: int) -> int:
        """It will not be served; how many bytes more are held (it is less)."""
        self.status = status
        freed = len(self.parts)
        self.parts = bytearray()
        return -freed

    def check(self, context_id: int, opnum: int, security: object) -> None:
        """A later fragment has to be of the same call as the first (C706 12.6.4.9)."""
        if (context_id, opnum) != (self.context_id, self.opnum) or security is not self.security:
            raise MalformedPacket("fragments of one call contradict each other")
