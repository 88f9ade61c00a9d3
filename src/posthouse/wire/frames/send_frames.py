"""SEND frames as clients make them: of one packet, and of many that differ only in their bodies."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from posthouse.wire.frames.frames import HEADER_SIZE, LARGE, SEND

_FRONT: Final = struct.Struct("<IBIIIQI")  # frame header; queue, transaction, request id, count
_FRONT_OF_ONE: Final = struct.Struct("<IBIIIQII")  # with the size of its packet
_SIZE: Final = struct.Struct("<I")
_LENGTH_SIZE: Final = 4  # of the length itself, which does not count
_ONE_MORE: Final = _FRONT_OF_ONE.size - _LENGTH_SIZE
assert _FRONT.size - struct.calcsize("<IIQI") == HEADER_SIZE


class PacketRun:
    """Packets of equal size that are alike but for their bodies."""

    __slots__ = ("_back", "_bodies", "_front", "packet_size", "size")

    def __init__(self, front: bytes, bodies: Sequence[bytes], back: bytes) -> None:
        self._front = front
        self._bodies = bodies
        self._back = back
        self.packet_size = len(front) + len(bodies[0]) + len(back)
        self.size = self.packet_size * len(bodies)

    def __len__(self) -> int:
        return len(self._bodies)

    @property
    def is_large(self) -> bool:
        """Whether they are sent in parts: copies of their bodies would cost more."""
        return len(self._bodies[0]) >= LARGE

    def parts_after(self, head: bytes) -> list[bytes]:
        """All of them after these bytes, in parts; the bodies are not copied."""
        between, parts = self._back + self._front, [head + self._front]
        for body in self._bodies:
            parts += (body, between)
        del parts[-1]
        return [*parts, self._back] if self._back else parts

    def after(self, head: bytes) -> bytes:
        """All of them after these bytes, copied once."""
        pieces = [*self._bodies]
        pieces[0] = b"".join((head, self._front, pieces[0]))
        pieces[-1] += self._back
        return (self._back + self._front).join(pieces)


Packets = list[bytes] | PacketRun


def size_of(packets: Packets) -> int:
    """Bytes of all of them."""
    return packets.size if isinstance(packets, PacketRun) else sum(map(len, packets))


def one_send_front(request: int, queue: int, transaction: int, request_id: int, size: int) -> bytes:
    """A SEND frame of one packet, up to the packet."""
    return _FRONT_OF_ONE.pack(
        _ONE_MORE + size, SEND, request, queue, transaction, request_id, 1, size
    )


def encode_send_run(
    request: int, queue: int, transaction: int, request_id: int, run: PacketRun
) -> bytes:
    """A whole SEND frame of packets that are alike."""
    return run.after(_run_front(request, queue, transaction, request_id, run))


def send_run_parts(
    request: int, queue: int, transaction: int, request_id: int, run: PacketRun
) -> list[bytes]:
    """A SEND frame of large packets that are alike, in parts."""
    return run.parts_after(_run_front(request, queue, transaction, request_id, run))


def _run_front(
    request: int, queue: int, transaction: int, request_id: int, run: PacketRun
) -> bytes:
    count = len(run)
    sizes = _SIZE.pack(run.packet_size) * count
    size = _FRONT.size - _LENGTH_SIZE + len(sizes) + run.size
    return _FRONT.pack(size, SEND, request, queue, transaction, request_id, count) + sizes
