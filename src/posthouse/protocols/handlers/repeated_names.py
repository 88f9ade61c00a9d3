"""Refuses JSON bodies with a repeated name in one object, since readers treat them differently."""

from __future__ import annotations

import json
from typing import Any, Final

from posthouse.model.text import excerpt
from posthouse.protocols.handlers.refusals import BadRequest

LONG: Final = 4096  # a string of this many bytes is not read a second time
STEPS_MAX: Final = 64  # quotes that are looked at in search of long strings
_BACKSLASHES_MAX: Final = 32


def refuse_repeated_names(body: bytes) -> None:
    """Refuses a well-formed JSON text in which an object has a name twice.

    Numbers are not read: very long ones are more than Python takes.
    """
    text = without_long_values(body) if len(body) > LONG else body
    json.loads(text, object_pairs_hook=_refuse_repeats, parse_int=str, parse_float=str)


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise BadRequest(f"the body: {excerpt(twice)} is there twice")


def without_long_values(body: bytes) -> bytes:
    """A JSON text with the same objects and names, in which long values are empty strings.

    The body of a message is most of a request, and has no names. Only the first quotes are
    looked at, so what comes after a text with many quotes stays as it is.
    """
    parts, kept, at = list[bytes](), 0, 0
    for _ in range(STEPS_MAX):
        begin = body.find(b'"', at)
        end = _end_of_string(body, begin) if begin >= 0 else -1
        if end < 0:
            break
        at = end + 1
        if end - begin > LONG and not _is_name(body, at):
            parts.append(body[kept : begin + 1])
            kept = end
    return b"".join([*parts, body[kept:]])


def _end_of_string(body: bytes, begin: int) -> int:
    """Where the quote is that ends a string; -1 where it takes too long to find."""
    end = begin
    for _ in range(STEPS_MAX):
        end = body.find(b'"', end + 1)
        before = body[max(begin + 1, end - _BACKSLASHES_MAX) : end]
        backslashes = len(before) - len(before.rstrip(b"\\"))
        if backslashes == _BACKSLASHES_MAX:
            return -1
        if backslashes % 2 == 0:
            return end
    return -1


def _is_name(body: bytes, at: int) -> bool:
    """Whether a colon follows; in doubt it does."""
    after = body[at : at + LONG].lstrip(b" \t\r\n")
    return after[:1] in (b":", b"")
