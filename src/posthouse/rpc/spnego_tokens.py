"""The tokens of SPNEGO in DER (RFC 4178 4.2; [MS-SPNG] 2.2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from posthouse.rpc.security import LoginRefused

SPNEGO_OID: Final = bytes.fromhex("2b0601050502")
NTLM_OID: Final = bytes.fromhex("2b06010401823702020a")
KERBEROS_OID: Final = bytes.fromhex("2a864886f712010202")
KERBEROS_OID_OF_WINDOWS: Final = bytes.fromhex("2a864882f712010202")
"""One bit was lost in Windows 2000; Windows still names Kerberos by it first."""

# negState
ACCEPT_COMPLETED: Final = 0
ACCEPT_INCOMPLETE: Final = 1
REJECT: Final = 2
REQUEST_MIC: Final = 3

_OCTETS: Final = 0x04
_OID: Final = 0x06
_ENUMERATED: Final = 0x0A
_SEQUENCE: Final = 0x30
_APPLICATION: Final = 0x60
_MECHANISMS_MAX: Final = 32
_MECHANISM_LIST_SIZE_MAX: Final = 1024  # it is kept until the login is over


class Init(NamedTuple):
    """NegTokenInit: what the initiator can do, and the first token of what it likes best."""

    mechanisms: tuple[bytes, ...]
    mechanism_list: bytes  # the octets that are signed
    token: bytes | None
    mic: bytes | None


class Response(NamedTuple):
    """NegTokenResp: every later token, in both directions."""

    state: int | None = None
    mechanism: bytes | None = None
    token: bytes | None = None
    mic: bytes | None = None


def _packed(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(octets))) + octets + content


def _field(number: int, content: bytes) -> bytes:
    return _packed(0xA0 | number, content)


def pack_mechanism_list(mechanisms: tuple[bytes, ...]) -> bytes:
    """MechTypeList, which a mechListMIC signs."""
    return _packed(_SEQUENCE, b"".join(_packed(_OID, one) for one in mechanisms))


def pack_init(mechanisms: tuple[bytes, ...], token: bytes) -> bytes:
    """The initiator's first token."""
    fields = _field(0, pack_mechanism_list(mechanisms)) + _field(2, _packed(_OCTETS, token))
    content = _field(0, _packed(_SEQUENCE, fields))
    return _packed(_APPLICATION, _packed(_OID, SPNEGO_OID) + content)


def pack_response(response: Response) -> bytes:
    """Any later token."""
    fields = b""
    if response.state is not None:
        fields += _field(0, _packed(_ENUMERATED, bytes((response.state,))))
    if response.mechanism is not None:
        fields += _field(1, _packed(_OID, response.mechanism))
    for number, value in ((2, response.token), (3, response.mic)):
        if value is not None:
            fields += _field(number, _packed(_OCTETS, value))
    return _field(1, _packed(_SEQUENCE, fields))


def unpack_init(data: bytes) -> Init:
    """What an initiator begins with."""
    framed = _only(data, _APPLICATION)
    parts = list(_elements(framed))
    if len(parts) != 2 or parts[0] != (_OID, SPNEGO_OID) or parts[1][0] != 0xA0:
        raise LoginRefused("not the first token of SPNEGO")
    fields = _fields(_only(parts[1][1], _SEQUENCE))
    listed = fields.get(0, b"")
    if len(listed) > _MECHANISM_LIST_SIZE_MAX:
        raise LoginRefused("the names of the mechanisms are too long")
    mechanisms = tuple(_mechanisms(listed))
    # What follows as field 3 is the MIC, or hints that Windows puts there; then the MIC is 4.
    mic = fields.get(4, fields.get(3) if fields.get(3, b"")[:1] == b"\x04" else None)
    return Init(mechanisms, listed, _octets(fields.get(2)), _octets(mic))


def _mechanisms(listed: bytes) -> Iterator[bytes]:
    found = list(_elements(_only(listed, _SEQUENCE)))
    if not 0 < len(found) <= _MECHANISMS_MAX:
        raise LoginRefused("SPNEGO without mechanisms, or with too many")
    for tag, content in found:
        if tag != _OID:
            raise LoginRefused("a mechanism of SPNEGO without a name")
        yield content


def unpack_response(data: bytes) -> Response:
    """What either end goes on with."""
    fields = _fields(_only(_only(data, 0xA1), _SEQUENCE))
    state = fields.get(0)
    mechanism = fields.get(1)
    return Response(
        None if state is None else _state(state),
        None if mechanism is None else _only(mechanism, _OID),
        _octets(fields.get(2)),
        _octets(fields.get(3)),
    )


def _state(field: bytes) -> int:
    content = _only(field, _ENUMERATED)
    if len(content) != 1 or content[0] > REQUEST_MIC:
        raise LoginRefused("an unknown state of SPNEGO")
    return content[0]


def _octets(field: bytes | None) -> bytes | None:
    return None if field is None else _only(field, _OCTETS)


def _fields(content: bytes) -> dict[int, bytes]:
    """The fields of a sequence by their context tags, each once and in order."""
    fields: dict[int, bytes] = {}
    last = -1
    for tag, value in _elements(content):
        number = tag - 0xA0
        if not last < number <= 0x1E:
            raise LoginRefused("fields of a SPNEGO token are not in order")
        fields[number] = value
        last = number
    return fields


def _only(data: bytes, tag: int) -> bytes:
    """The content of one element that is all there is."""
    found = list(_elements(data))
    if len(found) != 1 or found[0][0] != tag:
        raise LoginRefused("not a token of SPNEGO")
    return found[0][1]


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        tag = data[at]
        size, at = _size(data, at + 1)
        if at + size > len(data):
            raise LoginRefused("a SPNEGO token that is cut off")
        yield tag, data[at : at + size]
        at += size


def _size(data: bytes, at: int) -> tuple[int, int]:
    """The length of an element and where its content begins; forms without length are not DER."""
    first = data[at] if at < len(data) else 0xFF
    if first < 0x80:
        return first, at + 1
    count = first & 0x7F
    if not 0 < count <= 4 or at + 1 + count > len(data):
        raise LoginRefused("a SPNEGO token with a wrong length")
    return int.from_bytes(data[at + 1 : at + 1 + count], "big"), at + 1 + count
