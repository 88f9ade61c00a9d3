"""Escapes texts of strangers for an HTML page."""

from __future__ import annotations

import html
import unicodedata
from typing import Final

LENGTH_MAX: Final = 500
# Controls, invisible and direction-changing characters, halves of pairs, line separators.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str, length_max: int = LENGTH_MAX) -> str:
    """The text with what would hide or turn something around written out, and not too long."""
    shown = text if len(text) <= length_max else text[:length_max] + "…"
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _HIDDEN
        else character
        for character in shown
    )


def escaped(text: str, length_max: int = LENGTH_MAX) -> str:
    """A text for any place in a page, between quotes too."""
    return html.escape(visible(text, length_max), quote=True)
