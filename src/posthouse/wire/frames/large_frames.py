"""Large frames, whose bytes are copied as seldom as possible."""

from __future__ import annotations

from collections.abc import Iterable


class LargeSend(bytes):
    """The payload of a SEND of one large packet: its fields, and apart from them the packet.

    That is a view of the frame's buffer if the frame was read into one.
    """

    packet: bytes | memoryview

    def __new__(cls, fields: bytes, packet: bytes | memoryview) -> LargeSend:
        """Both parts."""
        made = super().__new__(cls, fields)
        made.packet = packet
        return made


class LargeFrame:
    """The buffer of one frame, filled as its bytes come; its messages stay there."""

    __slots__ = ("_filled", "_view", "size")

    def __init__(self, size: int, begun: Iterable[bytes | bytearray]) -> None:
        self.size = size
        self._view = memoryview(bytearray(size))
        self._filled = 0
        for some in begun:
            self.take(some)

    @property
    def filled(self) -> int:
        """Bytes that have come."""
        return self._filled

    @property
    def room(self) -> memoryview:
        """Where its next bytes go."""
        return self._view[self._filled :]

    def take(self, data: bytes | bytearray | memoryview) -> bytes:
        """More bytes: copied, unless they were read into its `room`. Returns what is after it."""
        if isinstance(data, memoryview) and data.obj is self._view.obj:
            self._filled += len(data)
            return b""
        end = min(self._filled + len(data), self.size)
        mine = end - self._filled
        self._view[self._filled : end] = data if mine == len(data) else data[:mine]
        self._filled = end
        return bytes(data[mine:])

    def whole(self) -> memoryview:
        """All of it, to be read only."""
        return self._view.toreadonly()

    def filled_part(self) -> bytes:
        """What has come, in bytes of their own."""
        return bytes(self._view[: self._filled])
