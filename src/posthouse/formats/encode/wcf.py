"""Messages of WCF's netMsmqBinding with a text envelope."""

from __future__ import annotations

from typing import Final

from posthouse.formats.encode.xml_text import whole_text
from posthouse.formats.limits import FormatError

_DATAGRAM: Final = b"\0\x01\0\x01\x04\x02"
_KNOWN_ENCODING: Final = 3
_CODECS: Final = {
    0: "utf-8",
    1: "utf-16-le",
    2: "utf-16-be",
    3: "utf-8",
    4: "utf-16-le",
    5: "utf-16-be",
}
_VIA_SIZE_MAX: Final = 2048
BODY_TYPE: Final = 0x1011


def wcf_text_body(envelope: str, via: str, encoding: int = 3) -> bytes:
    """A datagram that carries an envelope as text; its body type is 0x1011.

    `encoding` is that of [MC-NMF]: 0 to 2 for SOAP 1.1, 3 to 5 for SOAP 1.2, in UTF-8, UTF-16 and
    big-endian UTF-16.
    """
    if encoding not in _CODECS:
        raise FormatError(f"{encoding} is not an encoding of text: take 0 to 5")
    address = whole_text(via).encode()
    if len(address) > _VIA_SIZE_MAX:
        raise FormatError(f"a via of {len(address)} bytes, {_VIA_SIZE_MAX} is the limit")
    head = _DATAGRAM + _variable(len(address)) + address + bytes((_KNOWN_ENCODING, encoding))
    return head + whole_text(envelope).encode(_CODECS[encoding])


def _variable(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
