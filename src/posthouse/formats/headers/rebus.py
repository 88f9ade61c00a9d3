"""Headers of Rebus: a JSON object in the extension."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from posthouse.formats.decoded import ExceptionInfo, Meaning
from posthouse.formats.headers.names import type_name

_INTENTS: Final = {"p2p": "Send", "pub": "Publish"}
_PREFIXES: Final = ("rbs2-", "rebus-")
_EXCEPTION: Final = re.compile(
    r"(?:^|[\s:])([A-Za-z_][\w.+`]{0,200}(?:Exception|Error)): ([^\r\n]*)", re.ASCII
)
_STACK: Final = re.compile(r"\r?\n[ \t]+at ")


def is_rebus(headers: dict[str, Any]) -> bool:
    """Whether the keys are those of Rebus."""
    return any(key.startswith(_PREFIXES) for key in headers)


def text_headers(headers: dict[str, Any]) -> dict[str, str | None]:
    """All values as strings; anything else that a sender puts there as JSON."""
    return {
        key: value if isinstance(value, str) or value is None else json.dumps(value)
        for key, value in headers.items()
    }


def header(headers: dict[str, str | None], name: str, old: str = "") -> str | None:
    """A header of version 2 and later, or of version 1."""
    return headers.get(f"rbs2-{name}") or headers.get(f"rebus-{old or name}")


def meaning_of(headers: dict[str, str | None]) -> Meaning:
    """What the headers mean."""
    qualified = header(headers, "msg-type")
    details = header(headers, "error-details", "error-message")
    meaning = Meaning(
        headers,
        message_type=type_name(qualified) if qualified else None,
        message_types=[qualified] if qualified else [],
        intent=_INTENTS.get(header(headers, "intent") or ""),
        failed_queue=header(headers, "source-queue"),
        exception=None if details is None else _exception(details),
        conversation_id=header(headers, "corr-id", "correlation-id"),
        correlation_id=header(headers, "corr-id", "correlation-id"),
        related_to=header(headers, "in-reply-to"),
        reply_to=header(headers, "return-address"),
    )
    if details is not None:
        meaning.more["error_details"] = details
    return meaning


def _exception(details: str) -> ExceptionInfo:
    """The first exception of the details that Rebus writes."""
    found = _EXCEPTION.search(details[:100_000])
    stack = details if _STACK.search(details) else None
    if found is None:
        return ExceptionInfo(None, details.splitlines()[0] if details else None, stack)
    return ExceptionInfo(found[1], found[2], stack)
