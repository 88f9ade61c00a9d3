"""Decodes messages for filters and lists, within narrow limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from posthouse.formats.limits import Limits
from posthouse.formats.messages import decode_message
from posthouse.model.message_json import MessageJson

SEARCHED: Final = Limits(
    size=4 << 20,
    text=4 << 20,
    elements=30_000,
    items=200_000,
    attributes=30_000,
    lines=100_000,
    shown=4 << 20,
)
"""A search decodes many messages, each of which may be hostile."""
LISTED: Final = replace(SEARCHED, shown=1 << 16)
"""A page of messages is to be read by people: the text of each is cut earlier."""


def content_of(message: MessageJson, limits: Limits = SEARCHED) -> dict[str, Any]:
    """The fields of a decoded message; none where its body is not at hand."""
    decoded = decode_message(message, limits)
    return {} if decoded is None else decoded.to_json()
