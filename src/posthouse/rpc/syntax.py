"""Interfaces and transfer syntaxes by name ([MS-RPCE] 2.2.4.12, 2.2.5; C706 appendix I)."""

from typing import Final, NamedTuple
from uuid import UUID


class SyntaxId(NamedTuple):
    """A UUID in wire order with its version."""

    uuid: bytes
    major: int
    minor: int = 0


def syntax(text: str, major: int) -> SyntaxId:
    """A syntax by the text of its UUID, of minor version 0."""
    return SyntaxId(UUID(text).bytes_le, major, 0)


NDR: Final = syntax("8a885d04-1ceb-11c9-9fe8-08002b104860", 2)
NDR64: Final = syntax("71710533-beba-4937-8319-b5dbef9ccc36", 1)
BIND_TIME_FEATURES: Final = UUID("6cb71c2c-9812-4540-0000-000000000000").bytes_le[:8]
"""The first half of the UUID that stands for features; their bits are in the other half."""
