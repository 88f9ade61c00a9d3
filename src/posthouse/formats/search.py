"""What filters compare: the content of a message, decoded within narrow limits."""

from __future__ import annotations

from typing import Any, Final

from posthouse.formats.detect import decode
from posthouse.formats.limits import Limits
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


def content_of(message: MessageJson) -> dict[str, Any]:
    """The fields of a decoded message; none where its body is not at hand."""
    if message.body is None:
        return {}
    return decode(
        message.body,
        body_type=message.body_type,
        extension=message.extension or b"",
        label=message.label,
        app_specific=message.app_specific,
        correlation_id=bytes.fromhex(message.correlation_id),
        limits=SEARCHED,
    ).to_json()
