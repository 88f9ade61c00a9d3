"""Encodes JSON answers, with control characters for terminals escaped."""

from __future__ import annotations

import re

import msgspec

# DEL, the C1 controls, zero-width and bidirectional marks, line and paragraph separators, the BOM.
# In JSON they stand in strings only, where an escape means the same.
_STEERING = re.compile(
    b"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf"
)
_STARTS = (b"\x7f", b"\xc2", b"\xe2\x80", b"\xe2\x81", b"\xef\xbb\xbf")
_encode = msgspec.json.Encoder().encode


def encode_json(value: object) -> bytes:
    """The value as JSON that is safe to print."""
    data = _encode(value)
    # A page holds megabytes of base64: most have nothing of the kind, which is quick to see.
    if any(start in data for start in _STARTS):
        return _STEERING.sub(_escaped, data)
    return data


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode())
