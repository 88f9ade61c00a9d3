"""Text of a body: which encoding its bytes are in, and whether they are text at all."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

UTF_8: Final = "utf-8"
UTF_16: Final = "utf-16"
UTF_16_BE: Final = "utf-16BE"
UTF_32: Final = "utf-32"
_BOMS: Final = (
    (b"\xef\xbb\xbf", UTF_8, "utf-8"),
    (b"\xff\xfe\0\0", UTF_32, "utf-32-le"),
    (b"\0\0\xfe\xff", UTF_32, "utf-32-be"),
    (b"\xff\xfe", UTF_16, "utf-16-le"),
    (b"\xfe\xff", UTF_16_BE, "utf-16-be"),
)
# The first characters of XML, where there is no byte order mark.
_WIDE_MARKUP: Final = (
    (re.compile(rb"<\0\0\0[^\0]\0\0\0"), UTF_32, "utf-32-le"),
    (re.compile(rb"\0\0\0<\0\0\0[^\0]"), UTF_32, "utf-32-be"),
    (re.compile(rb"<\0[^\0]\0"), UTF_16, "utf-16-le"),
    (re.compile(rb"\0<\0[^\0]"), UTF_16_BE, "utf-16-be"),
)
# Encodings that a document may name; others are not looked up by name.
NAMED: Final = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "utf-16": "utf-16-le",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "unicodefffe": "utf-16-be",
    "utf-32": "utf-32-le",
    "iso-8859-1": "latin-1",
    "latin1": "latin-1",
    "iso-8859-2": "iso8859-2",
    "iso-8859-15": "iso8859-15",
    **{f"windows-{page}": f"cp{page}" for page in range(1250, 1259)},
    "shift_jis": "cp932",
    "gb2312": "gbk",
    "gbk": "gbk",
    "big5": "big5",
    "euc-kr": "cp949",
}
# Neither a byte order mark nor characters of two or four bytes begin like this.
_PLAIN_START: Final = re.compile(rb"[\t\n\r -~]{2}")
_CONTROLS: Final = re.compile("[\0-\x08\x0e-\x19\x1b\x7f]")
PADDING: Final = " \t\r\n\0\ufeff"


class Text(NamedTuple):
    """Decoded text and the name of its encoding."""

    text: str
    encoding: str
    marked: bool = False  # by a byte order mark


def read_text(body: bytes) -> Text | None:
    """The body as text, or None where its bytes are not text."""
    if _PLAIN_START.match(body):
        return _unmarked(body)
    for mark, name, codec in _BOMS:
        if body.startswith(mark):
            text = decoded(body[len(mark) :], codec)
            return None if text is None else Text(text, name, True)
    for start, name, codec in _WIDE_MARKUP:
        if start.match(body) and (text := decoded(body, codec)) is not None:
            return Text(text, name)
    return _unmarked(body)


def read_padded_text(body: bytes) -> Text | None:
    """The body as text; NULs around a document of XML or JSON are left out."""
    text = read_text(body)
    if text is None and body[:1] in (b"\0", b" ", b"\t", b"\r", b"\n"):
        document = body.strip(b"\0 \t\r\n")
        return read_text(document) if document.startswith((b"<", b"{", b"[")) else None
    return text


def _unmarked(body: bytes) -> Text | None:
    text = decoded(body, "utf-8")
    if text is not None:
        text = text.rstrip("\0")
        if not _CONTROLS.search(text):
            return Text(text, UTF_8)
    return _wide(body)


def _wide(body: bytes) -> Text | None:
    """UTF-16 without a mark: every second byte of its first characters is zero."""
    front = body[:64]
    if len(body) % 2 or len(body) < 4:
        return None
    for at, name, codec in ((1, UTF_16, "utf-16-le"), (0, UTF_16_BE, "utf-16-be")):
        if not any(front[at::2]) and all(front[1 - at :: 2]):
            text = decoded(body, codec)
            if text is not None and not _CONTROLS.search(text.rstrip("\0")):
                return Text(text.rstrip("\0"), name)
    return None


def decoded(body: bytes, codec: str) -> str | None:
    """The text, or None where the bytes are not in that encoding."""
    try:
        return body.decode(codec)
    except UnicodeDecodeError:
        return None
