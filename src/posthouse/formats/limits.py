"""Limits of decoders, and the one error that they raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class FormatError(ValueError):
    """Bytes that claim a format and break it, or that go beyond a limit."""


class LimitReached(FormatError):
    """The bytes may be what they claim, but reading them costs more than is allowed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What decoding one message may cost. Bodies of real programs stay far below the defaults."""

    size: int = 16 << 20
    """Bytes of a body, an extension, and of what compressed bytes unpack to. MSMQ takes 4 MiB."""
    text: int = 16 << 20
    """Characters of decoded text, all parts together."""
    depth: int = 256
    """Levels of elements, of JSON and of references between objects."""
    elements: int = 120_000
    """Elements of XML, containers of JSON, records of NRBF and of binary XML."""
    items: int = 1_000_000
    """Items of all arrays of an NRBF stream together, and values of a JSON document."""
    attributes: int = 100_000
    """Attributes of an XML document."""
    wraps: int = 3
    """Documents inside the string of a document, one in the other."""
    lines: int = 500_000
    """Lines and references of an XML document."""
    members: int = 10_000
    """Members of one class of NRBF, and envelopes of one message of WCF."""
    shown: int = 1 << 18
    """Characters of the text that people read."""


DEFAULT: Final = Limits()


class Budget:
    """Counts the characters of decoded text down."""

    __slots__ = ("left",)

    def __init__(self, limits: Limits) -> None:
        self.left = limits.text

    def spend(self, count: int) -> None:
        """Take characters; refuses when the budget is used up."""
        self.left -= count
        if self.left < 0:
            raise FormatError("the decoded text is larger than the limit")
