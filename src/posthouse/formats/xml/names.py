"""Names of XML as .NET escapes them: a character that a name cannot have is `_xHHHH_`."""

from __future__ import annotations

import re
from typing import Final

_ESCAPED: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")
_FIRST: Final = re.compile(r"[A-Za-z_\u00c0-\u02ff\u0370-\u1fff\u3001-\ud7ff\uf900-\ufdcf]")
_OTHER: Final = re.compile(r"[A-Za-z0-9_.\-\u00b7\u00c0-\u02ff\u0370-\u1fff\u3001-\ud7ff]")


def decode_name(name: str) -> str:
    """The name that was escaped."""
    return _ESCAPED.sub(_character, name) if "_x" in name else name


def _character(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return escape[0] if "\ud800" <= character <= "\udfff" else character


def is_name(name: str) -> bool:
    """Whether XML takes it as the name of an element or attribute without a prefix."""
    return bool(name) and bool(_FIRST.match(name)) and all(map(_OTHER.match, name[1:]))
