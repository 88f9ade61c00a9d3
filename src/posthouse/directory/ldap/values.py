"""Values of LDAP attributes, read and written ([MS-MQDSSM] 2.2; RFC 4517).

A value that cannot be understood is a `BadEntry`: the entry counts as damaged, not the reader.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from posthouse.directory.ldap.names import BadEntry, Dn

VALUES_MAX: Final = 4096
TEXT_LENGTH_MAX: Final = 65_536
OCTETS_MAX: Final = 1_048_576
U32: Final = 0xFFFF_FFFF

_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(?:(\d\d)(\d\d)?)?(?:[.,]\d+)?(Z|[+-]\d\d(?:\d\d)?)")
_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0"})


class LdapEntry(NamedTuple):
    """An entry as a server gave it; names of attributes in lower case."""

    dn: Dn
    attributes: Mapping[str, Sequence[bytes]]

    @property
    def classes(self) -> frozenset[str]:
        """Its object classes, in lower case."""
        return frozenset(text.lower() for text in self.texts("objectclass"))

    def has(self, attribute: str) -> bool:
        """Whether there is any value."""
        return bool(self.attributes.get(attribute.lower()))

    def values(self, attribute: str) -> Sequence[bytes]:
        """All values of an attribute, none where it is absent."""
        found = self.attributes.get(attribute.lower(), ())
        if len(found) > VALUES_MAX:
            raise BadEntry(f"{attribute} has {len(found)} values")
        return found

    def octets(self, attribute: str) -> bytes:
        """Bytes as they are, empty where there are none."""
        found = self.values(attribute)
        if found and len(found[0]) > OCTETS_MAX:
            raise BadEntry(f"{attribute} has {len(found[0])} bytes")
        return bytes(found[0]) if found else b""

    def texts(self, attribute: str) -> list[str]:
        """All values as text."""
        return [_text(attribute, value) for value in self.values(attribute)]

    def text(self, attribute: str, absent: str = "") -> str:
        """The value as text."""
        found = self.texts(attribute)
        return found[0] if found else absent

    def number(self, attribute: str, absent: int) -> int:
        """A signed number."""
        if not self.has(attribute):
            return absent
        text = self.text(attribute)
        if not re.fullmatch(r"-?[0-9]{1,19}", text):
            raise BadEntry(f"{attribute} is not a number: {text[:32]!r}")
        return int(text)

    def u32(self, attribute: str, absent: int) -> int:
        """A number of 32 bits: directories keep the upper half of them as negative ones."""
        value = self.number(attribute, absent)
        if not -0x8000_0000 <= value <= U32:
            raise BadEntry(f"{attribute} is {value}, which is not a number of 32 bits")
        return value & U32

    def flag(self, attribute: str) -> bool:
        """TRUE or FALSE; 1 and 0 count as well. False where there is none."""
        if not self.has(attribute):
            return False
        text = self.text(attribute).lower()
        if text not in _TRUE | _FALSE:
            raise BadEntry(f"{attribute} is neither TRUE nor FALSE: {text[:32]!r}")
        return text in _TRUE

    def guid(self, attribute: str, absent: bytes) -> bytes:
        """A GUID in packet order."""
        found = self.octets(attribute)
        if not found:
            return absent
        return _guid(attribute, found)

    def guids(self, attribute: str) -> tuple[bytes, ...]:
        """GUIDs, each once."""
        values = [_guid(attribute, bytes(value)) for value in self.values(attribute)]
        return tuple(dict.fromkeys(values))

    def time_s(self, attribute: str, absent: int = 0) -> int:
        """Seconds since 1970 of a generalized time."""
        return parse_time(self.text(attribute)) if self.has(attribute) else absent

    def dns(self, attribute: str) -> list[Dn]:
        """Distinguished names; those that are none are left out."""
        found = []
        for text in self.texts(attribute):
            try:
                found.append(Dn.parse(text))
            except BadEntry:
                continue
        return found


def _text(attribute: str, value: bytes) -> str:
    if len(value) > TEXT_LENGTH_MAX:
        raise BadEntry(f"{attribute} has {len(value)} bytes")
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise BadEntry(f"{attribute} is not text") from None


def _guid(attribute: str, value: bytes) -> bytes:
    if len(value) != 16:
        raise BadEntry(f"{attribute}: a GUID has 16 bytes, not {len(value)}")
    return value


def parse_time(text: str) -> int:
    """Seconds since 1970, RFC 4517 3.3.13."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise BadEntry(f"{text[:32]!r} is not a time")
    try:
        moment = datetime(*(int(part or 0) for part in match.groups()[:6]), tzinfo=UTC)  # type: ignore[misc, arg-type]
        moment -= _offset(match[7])
    except (ValueError, OverflowError):
        raise BadEntry(f"{text[:32]!r} is not a time") from None
    return max(0, timegm(moment.timetuple()))


def _offset(zone: str) -> timedelta:
    if zone == "Z":
        return timedelta()
    length = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5] or 0))
    return -length if zone[0] == "-" else length


Values = list[bytes]
"""What an attribute is given; no value at all takes it away."""


def of_text(value: str) -> Values:
    """Text; directories have no empty one."""
    return [value.encode()] if value else []


def of_octets(value: bytes) -> Values:
    """Bytes; none are not a value."""
    return [value] if value else []


def of_number(value: int) -> Values:
    """A number."""
    return [str(int(value)).encode()]


def of_u32(value: int) -> Values:
    """A number of 32 bits, as the signed one that a directory can keep."""
    return of_number(value - (1 << 32) if value > 0x7FFF_FFFF else value)


def of_flag(value: bool) -> Values:
    """TRUE or FALSE."""
    return [b"TRUE" if value else b"FALSE"]


def of_time(utc_s: int) -> Values:
    """A generalized time."""
    return [datetime.fromtimestamp(utc_s, UTC).strftime("%Y%m%d%H%M%S.0Z").encode()]
