"""Names in an LDAP directory: distinguished names, common names of queues, filters.

Whatever comes from people or from other machines passes here before a server sees it, so that no
name can be more than a name ([MS-MQDSSM] 2.2, RFC 4514, RFC 4515).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from posthouse.directory.distinguished_names import escaped

QUEUE_CN_LENGTH_MAX: Final = 63  # a common name of 64 characters is a cut one
_CUT_LENGTH: Final = 55
_HASH_POLYNOMIAL: Final = 0x9B61_9023
DN_LENGTH_MAX: Final = 4096
DN_DEPTH_MAX: Final = 64

_HEX_PAIR = re.compile(r"[0-9A-Fa-f]{2}")
_SAFE_IN_FILTER = frozenset(range(0x20, 0x7F)) - frozenset(b"*()\\")


class BadEntry(Exception):
    """An entry of the directory that cannot be used; the text states why."""


class Dn(NamedTuple):
    """A distinguished name: pairs of an attribute in upper case and its value, leaf first."""

    parts: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Dn:
        """Reads the text of RFC 4514; parts of a name that has several are joined in one."""
        if len(text) > DN_LENGTH_MAX:
            raise BadEntry(f"a distinguished name of {len(text)} characters")
        pieces = _split(text) if text.strip() else []
        if len(pieces) > DN_DEPTH_MAX:
            raise BadEntry(f"a distinguished name of {len(pieces)} parts")
        return cls(tuple(map(_part, pieces)))

    def __str__(self) -> str:
        return ",".join(f"{attribute}={escaped(value)}" for attribute, value in self.parts)

    @property
    def key(self) -> str:
        """The form in which equal names are equal, whatever their letter case and blanks."""
        return ",".join(f"{a}={escaped(' '.join(v.split()).casefold())}" for a, v in self.parts)

    @property
    def name(self) -> str:
        """The value of the first part."""
        return self.parts[0][1] if self.parts else ""

    @property
    def parent(self) -> Dn:
        """What the entry stands below."""
        return Dn(self.parts[1:])

    def child(self, name: str) -> Dn:
        """The entry of this common name below it."""
        return Dn((("CN", name), *self.parts))

    def below(self, *names: str) -> Dn:
        """The entry of these common names below it, the innermost first."""
        return Dn((*(("CN", name) for name in names), *self.parts))


def _split(text: str) -> list[str]:
    """At commas and semicolons that no backslash stands before."""
    pieces, start, index = [], 0, 0
    while index < len(text):
        if text[index] == "\\":
            index += 2
            continue
        if text[index] in ",;":
            pieces.append(text[start:index])
            start = index + 1
        index += 1
    return [*pieces, text[start:]]


def _part(piece: str) -> tuple[str, str]:
    attribute, separator, value = piece.partition("=")
    attribute = attribute.strip().upper()
    if not separator or not attribute or not attribute.replace(".", "").replace("-", "").isalnum():
        raise BadEntry(f"{piece[:64]!r} is not part of a distinguished name")
    return attribute, _unescaped(value)


def _unescaped(value: str) -> str:
    out = bytearray()
    value = value.lstrip(" ")
    index, kept = 0, 0  # what an escape stands for is never cut off as a blank
    while index < len(value):
        if value[index] != "\\":
            out += value[index].encode("utf-8", "surrogatepass")
            index += 1
            continue
        pair = value[index + 1 : index + 3]
        if _HEX_PAIR.fullmatch(pair):
            out.append(int(pair, 16))
            index += 3
        elif pair:
            out += pair[0].encode("utf-8", "surrogatepass")
            index += 2
        else:
            raise BadEntry("a distinguished name ends with a backslash")
        kept = len(out)
    while len(out) > kept and out[-1] == 0x20:
        del out[-1]
    try:
        return out.decode()
    except UnicodeDecodeError:
        raise BadEntry("a distinguished name is not text") from None


# -- filters (RFC 4515)


def escaped_value(value: str | bytes) -> str:
    """A value for a filter: all that could have a meaning there becomes a hex pair."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if isinstance(value, bytes):
        return "".join(f"\\{byte:02x}" for byte in data)
    return "".join(chr(byte) if byte in _SAFE_IN_FILTER else f"\\{byte:02x}" for byte in data)


def equal(attribute: str, value: str | bytes) -> str:
    """The filter for entries that have the value."""
    return f"({attribute}={escaped_value(value)})"


def equal_octets(attribute: str, value: bytes) -> str:
    """The filter for a value of bytes, also where the schema has no equality rule for it."""
    octets = escaped_value(value)
    return f"(|({attribute}={octets})({attribute}:2.5.13.17:={octets}))"


def any_of(*filters: str) -> str:
    """Entries that one of the filters fits."""
    return f"(|{''.join(filters)})" if len(filters) > 1 else filters[0]


def all_of(*filters: str) -> str:
    """Entries that all of the filters fit."""
    return f"(&{''.join(filters)})" if len(filters) > 1 else filters[0]


# -- queues


def queue_hash(name: str) -> int:
    """The checksum in the common name of a queue whose own name is too long, [MS-MQDSSM] 2.2."""
    value = 0
    for byte in name.lower().encode("utf-16-be", "surrogatepass"):
        value = (value >> 8) ^ _HASH_TABLE[(value ^ byte) & 0xFF]
    return value


def _hash_entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (_HASH_POLYNOMIAL if value & 1 else 0)
    return value


_HASH_TABLE: Final = tuple(map(_hash_entry, range(256)))


class QueueCn(NamedTuple):
    """A queue's name as the directory keeps it: a common name, and what did not fit there."""

    cn: str
    extension: str = ""

    @classmethod
    def of(cls, name: str) -> QueueCn:
        """The common name of a queue."""
        if len(name) <= QUEUE_CN_LENGTH_MAX:
            return cls(name)
        return cls(f"{name[:_CUT_LENGTH]}-{queue_hash(name):08x}", name[_CUT_LENGTH:])

    @property
    def name(self) -> str:
        """The name of the queue; other writers leave their backslashes in."""
        cn = self.cn[:_CUT_LENGTH] if len(self.cn) > QUEUE_CN_LENGTH_MAX else self.cn
        return (cn + self.extension).replace("\\", "")
