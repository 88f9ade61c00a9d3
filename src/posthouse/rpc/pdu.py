"""PDUs of connection-oriented DCE/RPC, read and built ([MS-RPCE] 2.2.2, C706 12.6).

Readers take a whole PDU, as `split` measures it, and refuse what breaks its structure with
`RemoteProtocolError`. Only little-endian PDUs are read further than their header; builders write
little-endian. Bodies with a security trailer are cut by `trailer_of` first.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket, RemoteProtocolError, Truncated
from posthouse.rpc.syntax import SyntaxId

Octets = bytes | bytearray | memoryview

# Kinds (C706 12.6.3.1, [MS-RPCE] 2.2.2.5)
REQUEST: Final = 0
RESPONSE: Final = 2
FAULT: Final = 3
BIND: Final = 11
BIND_ACK: Final = 12
BIND_NAK: Final = 13
ALTER_CONTEXT: Final = 14
ALTER_CONTEXT_RESP: Final = 15
AUTH3: Final = 16
SHUTDOWN: Final = 17
CO_CANCEL: Final = 18
ORPHANED: Final = 19
KINDS: Final = frozenset((REQUEST, RESPONSE, FAULT, *range(BIND, ORPHANED + 1)))

# Flags. Bit 2 has two meanings ([MS-RPCE] 2.2.2.3): header signing in what negotiates a security
# context, a cancel that is pending elsewhere.
FIRST_FRAG: Final = 0x01
LAST_FRAG: Final = 0x02
WHOLE: Final = FIRST_FRAG | LAST_FRAG
SUPPORT_HEADER_SIGN: Final = 0x04
PENDING_CANCEL: Final = 0x04
CONC_MPX: Final = 0x10
DID_NOT_EXECUTE: Final = 0x20
OBJECT_UUID: Final = 0x80

VERSION: Final = 5
LITTLE_ENDIAN: Final = 0x00000010  # integers little-endian, ASCII, IEEE (C706 14.1)
HEADER: Final = struct.Struct("<BBBBIHHI")
HEADER_SIZE: Final = HEADER.size
CALL_HEADER: Final = struct.Struct("<BBBBIHHIIHH")
"""The common header with what a request goes on with: alloc_hint, p_cont_id, opnum.

A response has the same shape: the cancel count is in the low byte of the last field.
"""
CALL_HEADER_SIZE: Final = CALL_HEADER.size
TRAILER: Final = struct.Struct("<BBBBI")
TRAILER_SIZE: Final = TRAILER.size
FRAG_LENGTH_MIN: Final = 1432  # what every implementation has to take (C706 12.6.3.1)
FRAG_LENGTH_MAX: Final = 0xFFFF
# What a client that names no size of its own asks for, as Windows does.

_BIND_HEAD: Final = struct.Struct("<HHI")
_SYNTAX: Final = struct.Struct("<16sHH")
_CONTEXT: Final = struct.Struct("<HBx")
_RESULT: Final = struct.Struct("<HH16sHH")
_CALL: Final = struct.Struct("<IHH")
_FAULT: Final = struct.Struct("<IHBxII")
_COUNT: Final = struct.Struct("<Bxxx")
NO_SYNTAX: Final = SyntaxId(bytes(16), 0)


class NotRpc(RemoteProtocolError):
    """Bytes of another protocol, or of a version of this one that is not 5.0 or 5.1."""

    def __init__(self, call_id: int) -> None:
        super().__init__("these bytes are not DCE/RPC 5.0")
        self.call_id = call_id  # what stands where a PDU has it


class Header(NamedTuple):
    """C706 12.6.3.1: the header that all PDUs begin with."""

    kind: int
    flags: int
    frag_length: int
    auth_length: int
    call_id: int
    is_little_endian: bool = True


class Trailer(NamedTuple):
    """[MS-RPCE] 2.2.2.11: the security trailer with its token or signature."""

    auth_type: int
    level: int
    pad_length: int
    context_id: int
    token: bytes


class ContextItem(NamedTuple):
    """[MS-RPCE] 2.2.2.4: one presentation context that a client asks for."""

    context_id: int
    abstract: SyntaxId
    transfers: tuple[SyntaxId, ...]


class Bind(NamedTuple):
    """C706 12.6.4.3, 12.6.4.1: the body of bind and alter_context."""

    max_xmit: int
    max_recv: int
    group_id: int
    items: tuple[ContextItem, ...]


class ContextResult(NamedTuple):
    """What became of one presentation context; feature bits stand in `reason` of result 3."""

    result: int
    reason: int = 0
    transfer: SyntaxId = NO_SYNTAX


class BindAck(NamedTuple):
    """C706 12.6.4.4, 12.6.4.2: the body of bind_ack and alter_context_resp."""

    max_xmit: int
    max_recv: int
    group_id: int
    secondary_address: str
    results: tuple[ContextResult, ...]


class BindNak(NamedTuple):
    """C706 12.6.4.5: why there is no association, and the versions that could have one."""

    reason: int
    versions: tuple[tuple[int, int], ...] = ((5, 0),)


class Request(NamedTuple):
    """C706 12.6.4.9: a fragment of a call."""

    alloc_hint: int
    context_id: int
    opnum: int
    object_uuid: bytes | None
    stub: bytes


class Response(NamedTuple):
    """C706 12.6.4.10: a fragment of an answer."""

    alloc_hint: int
    context_id: int
    cancel_count: int
    stub: bytes


class FaultBody(NamedTuple):
    """C706 12.6.4.7: the end of a call that has no answer."""

    alloc_hint: int
    context_id: int
    cancel_count: int
    status: int


# -- any PDU


def split(data: Octets, at: int = 0) -> Header | int:
    """The header of the PDU that begins there, or how many bytes are missing for its end.

    While the header itself is not whole, that is how many are missing for the header. Bytes of
    another protocol raise `NotRpc`.
    """
    left = len(data) - at
    if left < HEADER_SIZE:
        return HEADER_SIZE - left
    header = read_header(data, at)
    missing = header.frag_length - left
    return header if missing <= 0 else missing


def read_header(data: Octets, at: int = 0) -> Header:
    """The header alone, which is there; lengths in it fit each other."""
    version, minor, kind, flags, drep, length, auth_length, call_id = HEADER.unpack_from(data, at)
    is_little = drep & 0xF0 == 0x10
    if version != VERSION or minor > 1:
        raise NotRpc(call_id)
    if kind not in KINDS:
        raise MalformedPacket(f"a PDU of the unknown kind {kind}")
    if not is_little:  # the first byte shows the order
        length, auth_length, call_id = struct.unpack_from(">HHI", data, at + 8)
    if length < HEADER_SIZE + (auth_length and auth_length + TRAILER_SIZE):
        raise MalformedPacket(f"a PDU of {length} bytes with {auth_length} of authentication")
    return Header(kind, flags, length, auth_length, call_id, is_little)


def pack(kind: int, flags: int, call_id: int, body: bytes, trailer: Trailer | None = None) -> bytes:
    """A PDU. The trailer's pad length is worked out here; what it has is not looked at."""
    if trailer is None:
        return b"".join((_header(kind, flags, len(body), 0, call_id), body))
    pad = -len(body) % 4  # [MS-RPCE] 2.2.2.11
    tail = trailer_bytes(trailer._replace(pad_length=pad))
    size = len(body) + pad + len(tail)
    return b"".join(
        (_header(kind, flags, size, len(trailer.token), call_id), body, bytes(pad), tail)
    )


def _header(kind: int, flags: int, size: int, auth_length: int, call_id: int) -> bytes:
    length = HEADER_SIZE + size
    assert length <= FRAG_LENGTH_MAX, f"a PDU of {length} bytes"
    return HEADER.pack(VERSION, 0, kind, flags, LITTLE_ENDIAN, length, auth_length, call_id)


def trailer_bytes(trailer: Trailer) -> bytes:
    """The security trailer as it stands at the end of a PDU."""
    auth_type, level, pad_length, context_id, token = trailer
    return TRAILER.pack(auth_type, level, pad_length, 0, context_id) + token


def trailer_of(pdu: bytes, auth_length: int) -> Trailer:
    """The security trailer of a PDU that has one."""
    at = len(pdu) - auth_length - TRAILER_SIZE
    auth_type, level, pad_length, _, context_id = TRAILER.unpack_from(pdu, at)
    if pad_length > at - HEADER_SIZE:
        raise MalformedPacket("a security trailer is padded with more than its PDU has")
    return Trailer(auth_type, level, pad_length, context_id, bytes(pdu[at + TRAILER_SIZE :]))


def body_of(pdu: bytes, header: Header) -> tuple[bytes, Trailer | None]:
    """What is between header and security trailer, without padding; nothing is decrypted."""
    if not header.auth_length:
        return pdu[HEADER_SIZE:], None
    trailer = trailer_of(pdu, header.auth_length)
    end = len(pdu) - header.auth_length - TRAILER_SIZE - trailer.pad_length
    return pdu[HEADER_SIZE:end], trailer


# -- bind and alter_context


def pack_bind(bind: Bind) -> bytes:
    """The body of a bind or an alter_context."""
    parts = [_BIND_HEAD.pack(*bind[:3]), _COUNT.pack(len(bind.items))]
    for context_id, abstract, transfers in bind.items:
        parts.append(_CONTEXT.pack(context_id, len(transfers)))
        parts.append(_SYNTAX.pack(*abstract))
        parts += [_SYNTAX.pack(*transfer) for transfer in transfers]
    return b"".join(parts)


def read_bind(body: bytes) -> Bind:
    """The body of a bind or an alter_context; bytes after its list are ignored."""
    try:
        max_xmit, max_recv, group_id = _BIND_HEAD.unpack_from(body)
        (count,) = _COUNT.unpack_from(body, 8)
        items, at = [], 12
        for _ in range(count):
            item, at = _read_item(body, at)
            items.append(item)
    except struct.error:
        raise Truncated("a list of presentation contexts ends too early") from None
    return Bind(max_xmit, max_recv, group_id, tuple(items))


def _read_item(body: bytes, at: int) -> tuple[ContextItem, int]:
    context_id, count = _CONTEXT.unpack_from(body, at)
    at += _CONTEXT.size
    size = _SYNTAX.size
    abstract, *transfers = (
        SyntaxId(*_SYNTAX.unpack_from(body, at + size * nth)) for nth in range(count + 1)
    )
    return ContextItem(context_id, abstract, tuple(transfers)), at + size * (count + 1)


def pack_bind_ack(ack: BindAck) -> bytes:
    """The body of a bind_ack or an alter_context_resp."""
    address = ack.secondary_address.encode("ascii") + b"\0" if ack.secondary_address else b""
    head = _BIND_HEAD.pack(*ack[:3]) + struct.pack("<H", len(address)) + address
    parts = [head, bytes(-len(head) % 4), _COUNT.pack(len(ack.results))]
    parts += [_RESULT.pack(result, reason, *transfer) for result, reason, transfer in ack.results]
    return b"".join(parts)


def read_bind_ack(body: bytes) -> BindAck:
    """The body of a bind_ack or an alter_context_resp."""
    try:
        max_xmit, max_recv, group_id = _BIND_HEAD.unpack_from(body)
        (size,) = struct.unpack_from("<H", body, 8)
        address = body[10 : 10 + size].rstrip(b"\0").decode("ascii", "replace")
        at = 10 + size + -(10 + size) % 4
        (count,) = _COUNT.unpack_from(body, at)
        found = [_RESULT.unpack_from(body, at + 4 + 24 * nth) for nth in range(count)]
    except struct.error:
        raise Truncated("a list of results ends too early") from None
    results = (
        ContextResult(result, reason, SyntaxId(*syntax)) for result, reason, *syntax in found
    )
    return BindAck(max_xmit, max_recv, group_id, address, tuple(results))


def pack_bind_nak(nak: BindNak) -> bytes:
    """The body of a bind_nak, padded as Windows does, which port scanners look for."""
    versions = b"".join(bytes(version) for version in nak.versions)
    body = struct.pack("<HB", nak.reason, len(nak.versions)) + versions
    return body + bytes(-len(body) % 8)


def read_bind_nak(body: bytes) -> BindNak:
    """The body of a bind_nak; an old server may leave the versions out."""
    if len(body) < 2:
        raise Truncated("a bind_nak has no reason")
    (reason,) = struct.unpack_from("<H", body)
    versions = body[3 : 3 + 2 * body[2]] if len(body) > 2 else b""
    if len(versions) % 2:
        raise Truncated("a bind_nak names half a version")
    return BindNak(reason, tuple(zip(versions[::2], versions[1::2], strict=True)))


# -- calls


def pack_request(context_id: int, opnum: int, stub: bytes, *, alloc_hint: int = 0) -> bytes:
    """The body of a request fragment."""
    return _CALL.pack(alloc_hint or len(stub), context_id, opnum) + stub


def read_request(body: bytes, flags: int) -> Request:
    """The body of a request fragment."""
    if len(body) < (24 if flags & OBJECT_UUID else 8):
        raise Truncated("a request ends in its header")
    hint, context_id, opnum = _CALL.unpack_from(body)
    if flags & OBJECT_UUID:
        return Request(hint, context_id, opnum, body[8:24], body[24:])
    return Request(hint, context_id, opnum, None, body[8:])


def pack_response(context_id: int, stub: bytes, *, alloc_hint: int = 0) -> bytes:
    """The body of a response fragment."""
    return _CALL.pack(alloc_hint or len(stub), context_id, 0) + stub


def read_response(body: bytes) -> Response:
    """The body of a response fragment."""
    if len(body) < _CALL.size:
        raise Truncated("a response ends in its header")
    hint, context_id, count = _CALL.unpack_from(body)
    return Response(hint, context_id, count & 0xFF, body[8:])


def pack_fault(context_id: int, status: int) -> bytes:
    """The body of a fault."""
    return _FAULT.pack(_FAULT.size + HEADER_SIZE, context_id, 0, status, 0)


def read_fault(body: bytes) -> FaultBody:
    """The body of a fault; what may follow the status is ignored."""
    if len(body) < 12:
        raise Truncated("a fault ends before its status")
    hint, context_id, count, status = struct.unpack_from("<IHBxI", body)
    return FaultBody(hint, context_id, count, status)
