"""PDUs under a security context: padding, trailer, signature ([MS-RPCE] 2.2.2.11-12, 3.3.1.5.2)."""

from __future__ import annotations

from typing import Final

from posthouse.model.errors import MalformedPacket
from posthouse.rpc.pdu import (
    HEADER,
    HEADER_SIZE,
    LITTLE_ENDIAN,
    TRAILER,
    TRAILER_SIZE,
    VERSION,
)
from posthouse.rpc.security import Level, SecurityContext

PAD: Final = 16  # protected bodies are a multiple of it ([MS-RPCE] 2.2.2.12)
_PADDING: Final = [bytes(size) for size in range(PAD)]


class Protection:
    """A security context as it is applied to PDUs with a stub; the same at both ends.

    Below PACKET nothing is protected, and nothing has to be packed or unpacked here.
    """

    __slots__ = ("auth_type", "context", "context_id", "level", "negotiated_header", "said_level")

    def __init__(
        self,
        context: SecurityContext,
        auth_type: int,
        level: Level,
        context_id: int = 0,
        *,
        header_signing: bool = False,
    ) -> None:
        self.context = context
        self.auth_type = auth_type
        self.said_level = level  # in trailers
        # CALL means PACKET over a connection ([MS-RPCE] 2.2.1.1.8).
        self.level = Level.PACKET if level == Level.CALL else level
        self.context_id = context_id
        self.negotiated_header = header_signing

    @property
    def signs_header(self) -> bool:
        """Whether header and trailer are signed too: if both ends agreed on it, and always with
        NTLM.

        With NTLM's extended session security all implementations sign them, whatever was
        negotiated.
        """
        return self.negotiated_header or self.context.mechanism == "ntlm"

    @property
    def overhead(self) -> int:
        """What trailer and signature take of each PDU, without padding."""
        return TRAILER_SIZE + self.context.signature_size_at(self.level)

    def room(self, frag_length: int, head_size: int = 8) -> int:
        """How much of a stub fits a PDU of that size, where more follows."""
        return (frag_length - HEADER_SIZE - head_size - self.overhead) // PAD * PAD

    def pack(self, kind: int, flags: int, call_id: int, head: bytes, stub: bytes) -> bytes:
        """A PDU: `head` is what stands between the common header and the stub, in the clear."""
        pad = -len(stub) % PAD
        body = stub + _PADDING[pad] if pad else stub
        size = self.context.signature_size_at(self.level)
        length = HEADER_SIZE + len(head) + len(body) + TRAILER_SIZE + size
        before = HEADER.pack(VERSION, 0, kind, flags, LITTLE_ENDIAN, length, size, call_id) + head
        after = TRAILER.pack(self.auth_type, self.said_level, pad, 0, self.context_id)
        if self.signs_header:
            sealed, signature = self.context.protect(self.level, before, body, after)
        else:
            sealed, signature = self.context.protect(self.level, b"", body, b"")
        return b"".join((before, sealed, after, signature))

    def unpack(self, pdu: bytes, auth_length: int, head_size: int = 8) -> bytes:
        """The stub of a PDU; `head_size` bytes between the common header and it are in the clear.

        Raises `BadProtection`, or `RemoteProtocolError` where the trailer contradicts the PDU or
        the context.
        """
        end = len(pdu) - auth_length - TRAILER_SIZE
        start = HEADER_SIZE + head_size
        auth_type, level, pad, _, context_id = TRAILER.unpack_from(pdu, end)
        if (auth_type, level, context_id) != (self.auth_type, self.said_level, self.context_id):
            raise MalformedPacket("a security trailer of another security context")
        if pad > end - start:
            raise MalformedPacket("a stub is padded with more than there is")
        body, after = pdu[start:end], pdu[end : end + TRAILER_SIZE]
        signature = pdu[end + TRAILER_SIZE :]
        if self.signs_header:
            clear = self.context.unprotect(self.level, pdu[:start], body, after, signature)
        else:
            clear = self.context.unprotect(self.level, b"", body, b"", signature)
        return clear[: len(clear) - pad] if pad else clear
