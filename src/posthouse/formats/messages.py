"""Decodes the content of a message that is given as JSON."""

from __future__ import annotations

from posthouse.formats.decoded import Decoded
from posthouse.formats.detect import decode
from posthouse.formats.limits import DEFAULT, Limits
from posthouse.model.code_pages import DEFAULT_CODE_PAGE
from posthouse.model.message_json import MessageJson


def decode_message(message: MessageJson, limits: Limits = DEFAULT) -> Decoded | None:
    """The content of a message; None where its body was not asked for."""
    if message.body is None:
        return None
    return decode(
        message.body,
        body_type=message.body_type,
        extension=message.extension or b"",
        label=message.label,
        app_specific=message.app_specific,
        correlation_id=bytes.fromhex(message.correlation_id),
        code_page=message.code_page or DEFAULT_CODE_PAGE,
        limits=limits,
    )
