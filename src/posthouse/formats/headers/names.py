"""Names of .NET types, as headers have them."""

from __future__ import annotations


def type_name(qualified: str) -> str:
    """The type without its assembly: what stands before the first comma outside of brackets."""
    depth = 0
    for at, character in enumerate(qualified):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth <= 0:
            return qualified[:at].strip()
    return qualified.strip()
