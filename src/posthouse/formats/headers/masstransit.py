"""MassTransit 2: a content type in the extension, and an envelope around the message."""

from __future__ import annotations

from typing import Any, Final

from posthouse.formats.decoded import Decoded, Meaning

CONTENT_TYPE: Final = "Content-Type"
PREFIX: Final = "application/vnd.masstransit+"
ENVELOPED: Final = frozenset({"json", "xml"})


def is_masstransit(headers: dict[str, Any]) -> bool:
    """Whether the extension names a content type of MassTransit."""
    kind = headers.get(CONTENT_TYPE)
    return isinstance(kind, str) and kind.startswith(PREFIX)


def kind_of(headers: dict[str, str | None]) -> str:
    """`json`, `xml`, `bson`, `binary` or `psk`."""
    kind = (headers[CONTENT_TYPE] or "")[len(PREFIX) :]
    return kind.partition(";")[0].strip().lower()


def meaning_of(headers: dict[str, str | None], label: str, body: Decoded) -> tuple[Meaning, Any]:
    """What headers and envelope mean, and the message in the envelope."""
    if kind_of(headers) in ENVELOPED and body.error is None and isinstance(body.value, dict):
        return _enveloped(headers, label, body.value)
    found = body.details.get("nrbf_headers")
    more = found if isinstance(found, dict) else {}
    meaning = Meaning(
        headers,
        message_type=_text(more.get("MessageType")) or label or None,
        conversation_id=_text(more.get("ConversationId")),
        correlation_id=_text(more.get("CorrelationId")),
        related_to=_text(more.get("RequestId")),
        reply_to=_text(more.get("ResponseAddress")),
    )
    return meaning, body.value


def _enveloped(
    headers: dict[str, str | None], label: str, whole: dict[str, Any]
) -> tuple[Meaning, Any]:
    envelope = {key: value for key, value in whole.items() if key != "message"}
    types = envelope.get("messageType")
    listed = types if isinstance(types, list) else [types]
    names = [name for name in listed if isinstance(name, str) and name]
    meaning = Meaning(
        headers,
        message_type=names[0] if names else label or None,
        message_types=names,
        conversation_id=_text(envelope.get("conversationId")),
        correlation_id=_text(envelope.get("correlationId")),
        related_to=_text(envelope.get("requestId")),
        reply_to=_text(envelope.get("responseAddress")),
        more={"envelope": envelope},
    )
    return meaning, whole.get("message")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
