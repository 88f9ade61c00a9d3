"""The three messages of NTLM and their attributes ([MS-NLMP] 2.2.1, 2.2.2.1, 2.2.2.7).

Values are what the other end sent. To check a proof, hash the octets that came, never octets
encoded again from these values.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from posthouse.rpc.security import LoginRefused

SIGNATURE: Final = b"NTLMSSP\0"
NEGOTIATE: Final = 1
CHALLENGE: Final = 2
AUTHENTICATE: Final = 3

# NegotiateFlags, 2.2.2.5
UNICODE: Final = 0x0000_0001
REQUEST_TARGET: Final = 0x0000_0004
SIGN: Final = 0x0000_0010
SEAL: Final = 0x0000_0020
DATAGRAM: Final = 0x0000_0040
NTLM: Final = 0x0000_0200
ANONYMOUS: Final = 0x0000_0800
ALWAYS_SIGN: Final = 0x0000_8000
TARGET_TYPE_SERVER: Final = 0x0002_0000
EXTENDED_SESSION_SECURITY: Final = 0x0008_0000
TARGET_INFO: Final = 0x0080_0000
VERSION: Final = 0x0200_0000
KEY_128: Final = 0x2000_0000
KEY_EXCHANGE: Final = 0x4000_0000
KEY_56: Final = 0x8000_0000

# AV_PAIR, 2.2.2.1
AV_END: Final = 0
AV_COMPUTER: Final = 1
AV_DOMAIN: Final = 2
AV_DNS_COMPUTER: Final = 3
AV_DNS_DOMAIN: Final = 4
AV_FLAGS: Final = 6
AV_TIMESTAMP: Final = 7
AV_TARGET_NAME: Final = 9
AV_CHANNEL_BINDINGS: Final = 10
AV_FLAG_MIC: Final = 2

# 2.2.2.10: the version of NTLM is what counts, the rest is for people who debug.
VERSION_FIELD: Final = struct.pack("<BBH3xB", 6, 1, 0, 15)
MIC_OFFSET: Final = 72
MIC_SIZE: Final = 16

_HEAD = struct.Struct("<8sI")
_FIELD = struct.Struct("<HHI")
_AV = struct.Struct("<HH")
_CHALLENGE = struct.Struct("<8sIHHII8s8xHHI8s")
_AUTHENTICATE = struct.Struct("<8sI" + 6 * "HHI" + "I8s16s")
_AUTHENTICATE_SIZE_MIN = 64  # neither version nor MIC


class Challenge(NamedTuple):
    """What an initiator reads of the acceptor's message (2.2.1.2)."""

    flags: int
    server_challenge: bytes
    target_info: bytes


class Authenticate(NamedTuple):
    """What an acceptor reads of the initiator's last message (2.2.1.3)."""

    nt_response: bytes
    domain: str
    user: str
    session_key: bytes  # encrypted, where there is a key exchange
    flags: int
    workstation: str = ""


def message_type(token: bytes) -> int:
    """The type of a message; refused where it is none of NTLM."""
    if len(token) < _HEAD.size:
        raise LoginRefused("not a message of NTLM")
    signature, kind = _HEAD.unpack_from(token)
    if signature != SIGNATURE:
        raise LoginRefused("not a message of NTLM")
    return int(kind)


def _expect(token: bytes, kind: int, size_min: int) -> None:
    if message_type(token) != kind or len(token) < size_min:
        raise LoginRefused(f"not a whole NTLM message of type {kind}")


def pack_negotiate(flags: int) -> bytes:
    """The first message, naming neither domain nor workstation (2.2.1.1)."""
    fields = _FIELD.pack(0, 0, 0) * 2
    return _HEAD.pack(SIGNATURE, NEGOTIATE) + struct.pack("<I", flags) + fields + VERSION_FIELD


def unpack_negotiate(token: bytes) -> int:
    """The flags; what old clients leave out after them is not needed."""
    _expect(token, NEGOTIATE, 16)
    return int.from_bytes(token[12:16], "little")


def pack_challenge(flags: int, server_challenge: bytes, target: str, target_info: bytes) -> bytes:
    """The acceptor's message.

    The version field is there whether it was asked for or not: some clients take its room for
    granted. Without the flag it holds zeros.
    """
    name = target.encode("utf-16-le")
    offset = _CHALLENGE.size
    version = VERSION_FIELD if flags & VERSION else bytes(8)
    sizes = len(name), len(name), offset
    info = len(target_info), len(target_info), offset + len(name)
    head = _CHALLENGE.pack(SIGNATURE, CHALLENGE, *sizes, flags, server_challenge, *info, version)
    return head + name + target_info


def unpack_challenge(token: bytes) -> Challenge:
    """What the acceptor wants."""
    _expect(token, CHALLENGE, 48)
    flags = int.from_bytes(token[20:24], "little")
    info = _payload(token, 40) if flags & TARGET_INFO else b""
    return Challenge(flags, token[24:32], info)


def pack_authenticate(message: Authenticate, lm_response: bytes, workstation: str) -> bytes:
    """The initiator's last message, with room for the MIC (zeros until it is known)."""
    values = (
        lm_response,
        message.nt_response,
        message.domain.encode("utf-16-le", "surrogatepass"),
        message.user.encode("utf-16-le", "surrogatepass"),
        workstation.encode("utf-16-le", "surrogatepass"),
        message.session_key,
    )
    fields: list[int] = []
    offset = _AUTHENTICATE.size
    for value in values:
        fields += (len(value), len(value), offset)
        offset += len(value)
    head = _AUTHENTICATE.pack(
        SIGNATURE, AUTHENTICATE, *fields, message.flags, VERSION_FIELD, bytes(MIC_SIZE)
    )
    return head + b"".join(values)


def unpack_authenticate(token: bytes) -> Authenticate:
    """The name that the initiator claims, and the proof."""
    _expect(token, AUTHENTICATE, _AUTHENTICATE_SIZE_MIN)
    return Authenticate(
        nt_response=_payload(token, 20),
        domain=_text(_payload(token, 28)),
        user=_text(_payload(token, 36)),
        session_key=_payload(token, 52),
        flags=int.from_bytes(token[60:64], "little"),
        workstation=_text(_payload(token, 44)),
    )


def _payload(token: bytes, at: int) -> bytes:
    size, _, offset = _FIELD.unpack_from(token, at)
    if offset + size > len(token):
        raise LoginRefused("a field of an NTLM message lies outside of it")
    return token[offset : offset + size]


def _text(data: bytes) -> str:
    if len(data) % 2:
        raise LoginRefused("text of an NTLM message ends within a character")
    return data.decode("utf-16-le", "surrogatepass")


def has_mic_room(token: bytes) -> bool:
    """Whether nothing of the payload begins before the MIC ends."""
    if len(token) < MIC_OFFSET + MIC_SIZE:
        return False
    fields = [_FIELD.unpack_from(token, at) for at in range(12, 60, 8)]
    return all(not size or offset >= MIC_OFFSET + MIC_SIZE for size, _, offset in fields)


def mic_of(token: bytes) -> bytes:
    """The MIC of an AUTHENTICATE message."""
    return token[MIC_OFFSET : MIC_OFFSET + MIC_SIZE]


def with_mic(token: bytes, mic: bytes) -> bytes:
    """The message with another MIC."""
    return token[:MIC_OFFSET] + mic + token[MIC_OFFSET + MIC_SIZE :]


def pack_attributes(attributes: Mapping[int, bytes]) -> bytes:
    """A list of AV_PAIRs with its end."""
    pairs = [_AV.pack(name, len(value)) + value for name, value in attributes.items()]
    return b"".join(pairs) + _AV.pack(AV_END, 0)


def unpack_attributes(data: bytes) -> dict[int, bytes]:
    """The AV_PAIRs up to their end; what follows it is none of them."""
    attributes: dict[int, bytes] = {}
    at = 0
    while at + _AV.size <= len(data):
        name, size = _AV.unpack_from(data, at)
        if name == AV_END:
            return attributes
        at += _AV.size + size
        attributes[name] = data[at - size : at]
    raise LoginRefused("a list of NTLM attributes without end")
