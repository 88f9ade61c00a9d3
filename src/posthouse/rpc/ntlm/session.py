"""Signing and sealing under NTLM with extended session security ([MS-NLMP] 3.4.3-4)."""

from __future__ import annotations

import hmac
import struct
from typing import Final

from posthouse.rpc.ntlm.keys import DirectionKeys, rc4
from posthouse.rpc.security import BadProtection, Level

SIGNATURE_SIZE: Final = 16
_VERSION = b"\1\0\0\0"
_CHECKSUM_SIZE = 8
_SEQUENCE = struct.Struct("<I")
_SEQUENCE_MASK = 0xFFFF_FFFF
_PACKET = int(Level.PACKET)
_PRIVACY = int(Level.PRIVACY)


class NtlmSession:
    """The keys of both directions, with their key streams and sequence numbers."""

    def __init__(self, ours: DirectionKeys, theirs: DirectionKeys, *, key_exchange: bool) -> None:
        self._ours = ours
        self._theirs = theirs
        self._encrypt = rc4(ours.seal).update
        self._decrypt = rc4(theirs.seal).update
        self._key_exchange = key_exchange  # checksums are encrypted, too
        self._sent = 0
        self._received = 0
        self._broken = False

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        """The body, sealed at PRIVACY, and its signature; below PACKET there is none."""
        if level < _PACKET:
            return body, b""
        number = _SEQUENCE.pack(self._sent)
        self._sent = (self._sent + 1) & _SEQUENCE_MASK
        signed = number + before + body + after
        checksum = hmac.digest(self._ours.sign, signed, "md5")[:_CHECKSUM_SIZE]
        if level >= _PRIVACY and self._key_exchange:  # one pass over both
            stream = self._encrypt(body + checksum)
            return stream[:-_CHECKSUM_SIZE], _VERSION + stream[-_CHECKSUM_SIZE:] + number
        if level >= _PRIVACY:
            body = self._encrypt(body)
        elif self._key_exchange:
            checksum = self._encrypt(checksum)
        return body, _VERSION + checksum + number

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        """The body in the clear. After one failed check every later one fails."""
        if level < _PACKET:
            return body
        if self._broken or len(signature) != SIGNATURE_SIZE:
            raise BadProtection("no signature of NTLM")
        number = _SEQUENCE.pack(self._received)
        self._received = (self._received + 1) & _SEQUENCE_MASK
        self._broken = True  # until it is found to fit: the key stream has moved on
        body, checksum = self._opened(level, body, signature[4:12])
        signed = number + before + body + after
        expected = hmac.digest(self._theirs.sign, signed, "md5")[:_CHECKSUM_SIZE]
        # The version and the number are those we expect, or the signature is another one.
        if not hmac.compare_digest(
            _VERSION + expected + number, signature[:4] + checksum + signature[12:]
        ):
            raise BadProtection("the signature does not fit")
        self._broken = False
        return body

    def _opened(self, level: Level, body: bytes, checksum: bytes) -> tuple[bytes, bytes]:
        if level >= _PRIVACY:
            if not self._key_exchange:
                return self._decrypt(body), checksum
            stream = self._decrypt(body + checksum)
            return stream[:-_CHECKSUM_SIZE], stream[-_CHECKSUM_SIZE:]
        if self._key_exchange:
            checksum = self._decrypt(checksum)
        return body, checksum

    def sign(self, message: bytes) -> bytes:
        """A signature by itself: the mechListMIC of SPNEGO.

        The key stream begins again after it ([MS-SPNG] 3.3.5.1), the sequence numbers go on.
        """
        _, signature = self.protect(Level.INTEGRITY, b"", message, b"")
        self._encrypt = rc4(self._ours.seal).update
        return signature

    def verify(self, message: bytes, signature: bytes) -> None:
        """Checks the other end's mechListMIC; raises BadProtection."""
        self.unprotect(Level.INTEGRITY, b"", message, b"", signature)
        self._decrypt = rc4(self._theirs.seal).update
