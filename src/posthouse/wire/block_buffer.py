"""A buffer for something large that arrives in pieces, kept in blocks until it is whole.

One buffer that grows is moved again and again, and leaves holes in the memory of the process that
are never quite filled. Blocks of one size fill the holes that others leave.
"""

from __future__ import annotations

BLOCK = 64 << 10


class Gathered:
    """Pieces of any size; a tiny one costs no more than its bytes."""

    __slots__ = ("_blocks", "size")

    def __init__(self) -> None:
        self._blocks: list[bytes | bytearray] = []  # only the last one grows, up to BLOCK
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def add(self, data: bytes | memoryview) -> None:
        """One more piece, at the end."""
        self.size += len(data)
        last = self._blocks[-1] if self._blocks else b""
        if isinstance(last, bytearray):
            room = BLOCK - len(last)
            last += data[:room]
            data = data[room:]
        for at in range(0, len(data), BLOCK):
            part = data[at : at + BLOCK]
            self._blocks.append(bytes(part) if len(part) == BLOCK else bytearray(part))

    def take(self) -> bytes:
        """All of it as one; nothing is left."""
        whole = b"".join(self._blocks)
        self._blocks, self.size = [], 0
        return whole
