"""GUIDs as 16 bytes in packet order: the first three fields little-endian ([MS-DTYP] 2.3.4)."""

import re

from posthouse.model.errors import IllegalPropertyValue

NULL_GUID = bytes(16)
GUID_PATTERN = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

_GUID = re.compile(rf"({GUID_PATTERN})|\{{({GUID_PATTERN})\}}")


def format_guid(guid: bytes) -> str:
    """The lower-case 8-4-4-4-12 text of a GUID."""
    assert len(guid) == 16
    first, second, third = guid[3::-1].hex(), guid[5:3:-1].hex(), guid[7:5:-1].hex()
    return f"{first}-{second}-{third}-{guid[8:10].hex()}-{guid[10:].hex()}"


def parse_guid(text: str) -> bytes:
    """The bytes of a GUID text, with or without braces, in any letter case."""
    match = _GUID.fullmatch(text)
    if match is None:
        raise IllegalPropertyValue(f"{text[:64]!r} is not a GUID of the form 8-4-4-4-12 hex digits")
    digits = bytes.fromhex((match[1] or match[2]).replace("-", ""))
    return digits[3::-1] + digits[5:3:-1] + digits[7:5:-1] + digits[8:]
