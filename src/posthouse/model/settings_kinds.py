"""Types for declaring sections of `posthouse.toml`: kinds of values, limits, meanings.

Each section is a struct in the package that uses it. Its fields are the settings; a declaration
has the type, the limits, the meaning as docs/configuration.md prints it, and the default.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

SIZE = "size"  # the unit of settings that may be written as "64MiB"
FILE = "file"  # the unit of names of files that have to be there
KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
SIZE_MAX = 1 << 50
MINUTE_MS = 60_000
DAY_S = 86_400
DAY_MS = DAY_S * 1000
YEAR_S = 366 * DAY_S
COUNT_MAX = 1_000_000_000

Name = Annotated[str, Meta(max_length=256)]
Names = Annotated[tuple[Name, ...], Meta(max_length=1000)]
FileName = Annotated[str, Meta(max_length=4096)]
ExistingFile = Annotated[str, Meta(max_length=4096, extra={"unit": FILE})]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Ms = Annotated[int, Meta(ge=1, le=DAY_MS)]

Fault = tuple[str, str]


class Section(Struct, frozen=True):
    """One table of `posthouse.toml`."""

    def faults(self) -> Iterator[Fault]:
        """The settings that cannot stand together: the name of one, and what is wrong with it."""
        return iter(())

    def in_order(self, *pairs: tuple[str, str]) -> Iterator[Fault]:
        """The faults of pairs of settings of which the first is at most the second."""
        for least, most in pairs:
            if getattr(self, least) > getattr(self, most):
                yield least, f"this is more than {most}"


def meaning(description: str) -> Meta:
    """What a setting is for."""
    return Meta(description=description)


def within(least: float, most: float, description: str) -> Meta:
    """A number with its limits."""
    return Meta(ge=least, le=most, description=description)


def size(least: int, most: int, description: str) -> Meta:
    """A number of bytes with its limits."""
    return Meta(ge=least, le=most, extra={"unit": SIZE}, description=description)


def text(longest: int, description: str) -> Meta:
    """A text with its limit in characters."""
    return Meta(max_length=longest, description=description)


def is_address(text: str) -> bool:
    """Whether this is an IP address, or the name of the loopback."""
    if text == "localhost":
        return True
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(text: str) -> bool:
    """Whether only this machine reaches the address."""
    return text == "localhost" or (is_address(text) and ipaddress.ip_address(text).is_loopback)
