"""The verification trailer after a request's stub ([MS-RPCE] 2.2.2.13).

A client whose header is not signed repeats in the stub, which is, what it put into the headers:
who changes a header on the way is found out.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from posthouse.rpc.pdu import LITTLE_ENDIAN, REQUEST
from posthouse.rpc.syntax import SyntaxId

MAGIC: Final = bytes.fromhex("8ae3137102f43671")
LOOKED_THROUGH: Final = 1024  # it is at the very end, and small
BITMASK_1: Final = 1
PCONTEXT: Final = 2
HEADER_2: Final = 3
SUPPORT_HEADER_SIGN: Final = 0x00000001  # of the bitmask: the client could have signed headers
END: Final = 0x4000
MUST_PROCESS: Final = 0x8000
_COMMAND: Final = struct.Struct("<HH")
_SYNTAX: Final = struct.Struct("<16sHH")
_HEADER_2: Final = struct.Struct("<BxxxIIHH")


class Said(NamedTuple):
    """What the headers of a call said."""

    call_id: int
    context_id: int
    opnum: int
    abstract: SyntaxId
    transfer: SyntaxId


def commands_at(stub: bytes, at: int) -> list[tuple[int, bytes]] | None:
    """The commands of a trailer; None if what is there does not end just where the stub does."""
    commands = []
    while at + _COMMAND.size <= len(stub):
        command, size = _COMMAND.unpack_from(stub, at)
        at += _COMMAND.size
        commands.append((command, stub[at : at + size]))
        at += size
        if command & END:
            return commands if at == len(stub) else None
    return None


def cut_off(stub: bytes, said: Said, *, is_header_signed: bool = False) -> bytes | None:
    """The stub without its trailer, if it has one; None if that contradicts the headers."""
    at = stub.rfind(MAGIC, max(0, len(stub) - LOOKED_THROUGH))
    if at < 0:
        return stub
    commands = commands_at(stub, at + len(MAGIC))
    if commands is None:
        return stub
    agrees = all(_agrees(*command, said, is_header_signed) for command in commands)
    return stub[:at] if agrees else None


def _agrees(command: int, value: bytes, said: Said, is_header_signed: bool) -> bool:
    kind = command & 0x3FFF
    if kind == BITMASK_1:
        # Who could sign headers, and does not, was told a lie when the connection was bound.
        return len(value) == 4 and (is_header_signed or not value[0] & SUPPORT_HEADER_SIGN)
    if kind == PCONTEXT:
        return value == _SYNTAX.pack(*said.abstract) + _SYNTAX.pack(*said.transfer)
    if kind == HEADER_2:
        wanted = REQUEST, LITTLE_ENDIAN, said.call_id, said.context_id, said.opnum
        return len(value) == _HEADER_2.size and _HEADER_2.unpack(value) == wanted
    return not command & MUST_PROCESS
