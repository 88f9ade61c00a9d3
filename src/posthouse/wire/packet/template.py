"""Packets of many messages that differ only in their bodies: the headers are made once."""

from __future__ import annotations

import struct
from typing import Final

from posthouse.model.errors import InsufficientResources
from posthouse.model.message import AuthenticationLevel, Message
from posthouse.wire.packet.headers import MESSAGE_PROPERTIES_HEADER, PACKET_SIZE_MAX, SecurityFlags
from posthouse.wire.packet.patch import PACKET_SIZE_AT, U16
from posthouse.wire.packet.serialize import construct

_MESSAGE_SIZE_AT: Final = 32  # in MessagePropertiesHeader, [MS-MQMQ] 2.2.19.3; the other follows
_PROPERTIES: Final = MESSAGE_PROPERTIES_HEADER.size
_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")  # by size modulo 4


class Template:
    """The packet of a message that is sent often, without its sizes and its body."""

    __slots__ = (
        "_content",
        "_fixed",
        "_head",
        "_last",
        "_layout",
        "_middle",
        "_rest",
        "_tail",
        "body_type",
    )

    def __init__(self, message: Message, sign: bool = False) -> None:
        parts = construct(message)
        front = b"".join(parts[: parts._fields.index("label")])
        if sign:
            front = _asking_for_signature(front, len(front) - len(parts.security) - _PROPERTIES)
        sizes_at = len(front) - MESSAGE_PROPERTIES_HEADER.size + _MESSAGE_SIZE_AT
        self._head = front[:PACKET_SIZE_AT]
        self._middle = front[PACKET_SIZE_AT + 4 : sizes_at]
        self._rest = front[sizes_at + 8 :] + parts.label + parts.extension
        self._tail = parts.debug + parts.soap + parts.multi_queue
        self._content = len(parts.label) + len(parts.extension)
        self._fixed = len(front) + len(self._tail)
        self._layout = struct.Struct(
            f"<{len(self._head)}sI{len(self._middle)}sII{len(self._rest)}s"
        )
        self._last: tuple[int, tuple[bytes, bytes]] = -1, (b"", b"")
        self.body_type = message.body_type

    def packet(self, body: bytes) -> bytes:
        """The packet with this body."""
        size, last = len(body), self._last
        front, back = last[1] if last[0] == size else self.around(size)
        return b"".join((front, body, back))

    def around(self, body_size: int) -> tuple[bytes, bytes]:
        """What is in front of a body of this size, and what is after it."""
        content = self._content + body_size
        padding = _PADDING[content & 3]
        size = self._fixed + content + len(padding)
        if size > PACKET_SIZE_MAX:
            raise InsufficientResources(
                f"the message takes {size} bytes, a packet holds at most {PACKET_SIZE_MAX}",
                "Split the body over several messages, or send a reference to it.",
            )
        front = self._layout.pack(self._head, size, self._middle, body_size, body_size, self._rest)
        around = front, padding + self._tail
        self._last = body_size, around  # as one value: other threads may come between
        return around


def _asking_for_signature(front: bytes, security_at: int) -> bytes:
    """The bits AS ask the queue manager to sign; on the wire they are zero (decision 3)."""
    (flags,) = U16.unpack_from(front, security_at)
    asking = SecurityFlags(flags).replace(signature_kind=AuthenticationLevel.SIG20)
    return front[:security_at] + U16.pack(asking) + front[security_at + 2 :]
