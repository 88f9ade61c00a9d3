"""gzip and deflate, unpacked up to a limit."""

from __future__ import annotations

import zlib
from typing import Final

from posthouse.formats.limits import FormatError, Limits

GZIP: Final = 31
DEFLATE: Final = -15


def unpack(data: bytes, kind: int, limits: Limits) -> bytes:
    """The bytes that were packed."""
    stream = zlib.decompressobj(kind)
    try:
        out = stream.decompress(data, limits.size)
    except zlib.error as error:
        raise FormatError(f"the compressed bytes are broken: {error}") from None
    if stream.unconsumed_tail:
        raise FormatError("the compressed bytes unpack to more than the limit")
    if not stream.eof:
        raise FormatError("the compressed bytes end in the middle")
    return out
