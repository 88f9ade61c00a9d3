"""Formats values of packets on one line."""

from __future__ import annotations

from typing import Any, Final

BYTES_SHOWN: Final = 32
HEX_NUMBERS: Final = {
    "version_number",
    "signature",
    "recoverable_ack_flags",
    "message_class",
    "hash_algorithm",
    "encryption_algorithm",
}


def words(value: Any, name: str = "") -> str:
    """A value on one line; of flags and lists only what is set."""
    if isinstance(value, bytes):
        more = "..." if len(value) > BYTES_SHOWN else ""
        return f"{len(value)} bytes {value[:BYTES_SHOWN].hex(' ')}{more}".rstrip()
    if isinstance(value, dict):
        return ", ".join(f"{key} {words(item)}" for key, item in value.items() if item) or "none"
    if isinstance(value, list):
        return ", ".join(words(item) for item in value) or "none"
    if isinstance(value, int) and name in HEX_NUMBERS:
        return f"0x{value:X}"
    return "none" if value is None or value == "" else str(value)
