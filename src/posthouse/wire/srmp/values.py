"""The texts inside SRMP elements and what they stand for, [MC-MQSRM] 2.2.1 and the forms of ids.

Any text gives a value or `MalformedPacket`. Peers repeat themselves: the same second, the same
sender. So what is read from such texts is kept a while.
"""

import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from posthouse.model.errors import IllegalPropertyValue, MalformedPacket
from posthouse.model.guids import format_guid, parse_guid
from posthouse.model.message import MESSAGE_ID_SIZE, MessageId
from posthouse.model.text import excerpt
from posthouse.wire.srmp.message import FOREVER

U32_MAX: Final = 0xFFFF_FFFF
U64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF
GUID_LENGTH: Final = 36
_CACHED: Final = 4096
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_DATE: Final = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)", re.ASCII)
_DIGITS: Final = re.compile(r"\d{1,64}", re.ASCII)
_ID: Final = re.compile(r"uuid:(\d{1,64})@(.{36})", re.ASCII | re.DOTALL)
_STREAM_ID: Final = re.compile(r"uid:(.{36})\\(\d{1,64})", re.ASCII | re.DOTALL)
# What XML 1.0 cannot carry in any spelling, [XML1.0] 2.2.
_UNWRITABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NEEDS_CARE: Final = re.compile("[&<>\r\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@lru_cache(_CACHED)
def read_date(text: str) -> int:
    """ISO 8601 Date String, 2.2.1.2: seconds since 1970, negative before it."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise MalformedPacket(f"{excerpt(text)} is not a date of the form YYYYMMDDThhmmss")
    year, month, day, hour, minute, second = map(int, match.groups())
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise MalformedPacket(f"{excerpt(text)} is not a date") from None
    return (moment - _EPOCH) // _SECOND


@lru_cache(_CACHED)
def write_date(utc: int) -> str:
    """Seconds since 1970 as an ISO 8601 date; 2038 and later is for ever (decision 63)."""
    moment = _EPOCH + timedelta(seconds=min(utc, FOREVER))
    return moment.strftime("%Y%m%dT%H%M%S")


def read_number(text: str) -> int:
    """xs:unsignedLong, 2.2.1.3."""
    if _DIGITS.fullmatch(text) is None or (value := int(text)) > U64_MAX:
        raise MalformedPacket(f"{excerpt(text)} is not a number from 0 to {U64_MAX}")
    return value


def read_u32(text: str) -> int:
    """A number with a place of 32 bits in a message; one that does not fit has no meaning there."""
    value = read_number(text)
    if value > U32_MAX:
        raise MalformedPacket(f"{value} has more than 32 bits")
    return value


@lru_cache(_CACHED)
def read_guid(text: str) -> bytes:
    """GUID String, 2.2.1.1: without braces."""
    try:
        if len(text) != GUID_LENGTH:
            raise IllegalPropertyValue("another length")
        return parse_guid(text)
    except IllegalPropertyValue:
        raise MalformedPacket(f"{excerpt(text)} is not a GUID string") from None


write_guid = lru_cache(_CACHED)(format_guid)


def read_message_id(text: str) -> MessageId:
    """The id element, 2.2.4.3: `uuid:`, index, `@` and the GUID of the sending queue manager."""
    match = _ID.fullmatch(text)
    if match is None:
        raise MalformedPacket(f"{excerpt(text)} is not uuid:, a number, @ and a GUID")
    return MessageId(read_guid(match[2]), read_u32(match[1]))


def write_message_id(guid: bytes, ordinal: int) -> str:
    """The text of the id element."""
    return f"uuid:{ordinal}@{write_guid(guid)}"


def read_stream_id(text: str) -> tuple[str, bytes, int]:
    """The streamId element, 2.2.5.3.1: as it came, its GUID and its number."""
    match = _STREAM_ID.fullmatch(text)
    if match is None:
        raise MalformedPacket(f"{excerpt(text)} is not uid:, a GUID, a backslash and a number")
    return text, read_guid(match[1]), read_number(match[2])


def write_stream_id(guid: bytes, sequence_id: int) -> str:
    """The text of the streamId element; the number is the combined one (errata 7.18)."""
    return f"uid:{write_guid(guid)}\\{sequence_id}"


def read_correlation(text: str) -> bytes:
    """The Correlation element, 2.2.6.5: 20 bytes in base64."""
    try:
        raw = a2b_base64(text, strict_mode=True)
    except (NotBase64, ValueError):
        raise MalformedPacket(f"{excerpt(text)} is not base64") from None
    if len(raw) != MESSAGE_ID_SIZE:
        raise MalformedPacket(f"a correlation identifier of {len(raw)} bytes")
    return raw


def is_url(text: str) -> bool:
    """Whether a text is in HTTP/HTTPS name formatting, 2.2.4.2."""
    return text[:7].lower() == "http://" or text[:8].lower() == "https://"


def escape(text: str) -> str:
    """The text as element content, with nothing in it that could end the element.

    Choice: characters that XML cannot carry at all become U+FFFD.
    """
    if _NEEDS_CARE.search(text) is None:
        return text
    plain = _UNWRITABLE.sub("\ufffd", text)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("\r", "&#13;")  # a bare one would be read as a line feed
