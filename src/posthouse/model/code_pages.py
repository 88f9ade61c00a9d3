"""Code pages of Windows: how bytes of the body type VT_LPSTR become text."""

from __future__ import annotations

from codecs import charmap_decode
from functools import cache
from typing import Final

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.text import excerpt

CODE_PAGES: Final = {
    "ascii": "ascii",
    "utf-8": "utf-8",
    **{str(page): f"cp{page}" for page in (437, 850, 852, 866, 874, 932, 936, 949, 950)},
    **{str(page): f"cp{page}" for page in range(1250, 1259)},
}
"""ANSI and OEM code pages of Windows by number, and the two encodings that people name."""
DEFAULT_CODE_PAGE: Final = "1252"
_MULTIBYTE: Final = frozenset({"utf-8", "cp932", "cp936", "cp949", "cp950"})
_OTHER_NAMES: Final = {"utf8": "utf-8", "65001": "utf-8", "us-ascii": "ascii", "20127": "ascii"}


def known_code_page(name: str) -> str | None:
    """The code page in one spelling; None where there is none of that name."""
    plain = name.strip().lower().removeprefix("cp").removeprefix("windows-")
    plain = _OTHER_NAMES.get(plain, plain)
    return plain if plain in CODE_PAGES else None


def checked_code_page(name: str) -> str:
    """The code page of a queue in one spelling; empty where the queue has none."""
    if not name:
        return ""
    known = known_code_page(name)
    if known is None:
        raise IllegalPropertyValue(
            f"{excerpt(name)} is not a known code page", f"Name one of {', '.join(CODE_PAGES)}."
        )
    return known


def code_page_text(body: bytes, code_page: str) -> str | None:
    """The text of bytes in a code page; None where that is not known. Any bytes have a text."""
    known = known_code_page(code_page)
    if known is None:
        return None
    codec = CODE_PAGES[known]
    if codec in _MULTIBYTE:
        return body.decode(codec, "replace")
    return charmap_decode(body, "strict", _characters(codec))[0]


@cache
def _characters(codec: str) -> str:
    """The 256 characters of a code page: a table is quick for undefined ones too."""
    return bytes(range(256)).decode(codec, "replace")
