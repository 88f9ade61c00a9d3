"""The decoded content of a message for people: format, headers, value."""

from __future__ import annotations

from typing import Any

from posthouse.cli.output import print_pairs, say
from posthouse.formats import Decoded


def print_decoded(result: Decoded) -> None:
    """A result for people: what it is, what its headers mean, then the text."""
    print_pairs(summary(result))
    text = result.text
    if text:
        say("")
    for line in text.split("\n"):
        say(line.rstrip("\r"))


def summary(result: Decoded) -> dict[str, str]:
    """Names and values, without those that are empty."""
    found = result.to_json()
    rows: dict[str, Any] = {
        "format": _format(result),
        "error": result.error,
        "type": found.get("message_type") or found.get("root_type") or found.get("root"),
        "action": found.get("action"),
        "via": found.get("via"),
        "intent": found.get("intent"),
        "failed queue": found.get("failed_queue"),
        "exception": ": ".join(filter(None, _exception(found))),
        "conversation": found.get("conversation_id"),
        "related to": found.get("related_to"),
    }
    rows |= {f"  {key}": value for key, value in (found.get("headers") or {}).items()}
    return {key: str(value) for key, value in rows.items() if value}


def _format(result: Decoded) -> str:
    parts = [result.format]
    if result.body is not None:
        parts.append(f"body {result.body.format}")
    if "vt" in result.details:
        parts.append(result.details["vt"])
    parts.append(result.confidence)
    return ", ".join(parts)


def _exception(found: dict[str, Any]) -> list[str | None]:
    exception = found.get("exception") or {}
    return [exception.get("type"), exception.get("message")]
