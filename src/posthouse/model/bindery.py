"""Values of the bindery: objects, properties and what protects them (qms-facts 4)."""

from typing import Final, NamedTuple

from posthouse.model.completion_codes import (
    ILLEGAL_NAME,
    INVALID_BINDERY_SECURITY,
    WILD_CARD_NOT_ALLOWED,
)
from posthouse.model.errors import QmsError
from posthouse.model.text import excerpt

# Object types (qms-facts 4.1), by their names in the document.
NWOT_WILD: Final = 0xFFFF  # any, in scans
NWOT_UNKNOWN: Final = 0
NWOT_USER: Final = 1
NWOT_USER_GROUP: Final = 2
NWOT_PRINT_QUEUE: Final = 3
NWOT_FILE_SERVER: Final = 4
NWOT_JOB_SERVER: Final = 5
NWOT_GATEWAY: Final = 6
NWOT_PRINT_SERVER: Final = 7
NWOT_ARCHIVE_QUEUE: Final = 8
NWOT_ARCHIVE_SERVER: Final = 9
NWOT_JOB_QUEUE: Final = 0x0A
NWOT_ADMINISTRATION: Final = 0x0B
NWOT_NAS_SNA_GATEWAY: Final = 0x21
NWOT_REMOTE_BRIDGE_SERVER: Final = 0x24
NWOT_ADVERTISING_PRINT_SERVER: Final = 0x47
OBJECT_TYPE_MAX: Final = 0xFFFE

TYPE_NAMES: Final = {
    NWOT_UNKNOWN: "unknown",
    NWOT_USER: "user",
    NWOT_USER_GROUP: "group",
    NWOT_PRINT_QUEUE: "print_queue",
    NWOT_FILE_SERVER: "file_server",
    NWOT_JOB_SERVER: "job_server",
    NWOT_GATEWAY: "gateway",
    NWOT_PRINT_SERVER: "print_server",
    NWOT_ARCHIVE_QUEUE: "archive_queue",
    NWOT_ARCHIVE_SERVER: "archive_server",
    NWOT_JOB_QUEUE: "job_queue",
    NWOT_ADMINISTRATION: "administration",
    NWOT_NAS_SNA_GATEWAY: "sna_gateway",
    NWOT_REMOTE_BRIDGE_SERVER: "bridge_server",
    NWOT_ADVERTISING_PRINT_SERVER: "advertising_print_server",
}
"""Types that have a name, for people; every other one is its number."""

# Flags of objects and properties: two bits, the second of properties only.
STATIC: Final = 0x00
DYNAMIC: Final = 0x01  # gone with the next start
ITEM: Final = 0x00
SET: Final = 0x02

# Security: the level to read in the low nibble, the one to write in the high one.
NWBS_ANY_READ: Final = 0x00
NWBS_LOGGED_READ: Final = 0x01
NWBS_OBJECT_READ: Final = 0x02
NWBS_SUPER_READ: Final = 0x03
NWBS_BINDERY_READ: Final = 0x04
NWBS_ANY_WRITE: Final = 0x00
NWBS_LOGGED_WRITE: Final = 0x10
NWBS_OBJECT_WRITE: Final = 0x20
NWBS_SUPER_WRITE: Final = 0x30
NWBS_BINDERY_WRITE: Final = 0x40

ANYONE, LOGGED_IN, OBJECT, SUPERVISOR_LEVEL, NETWARE = range(5)

OBJECT_NAME_MAX: Final = 47
PROPERTY_NAME_MAX: Final = 15
SEGMENT_SIZE: Final = 128  # NWMAX_PROPERTY_VALUE_LENGTH
SEGMENTS_MAX: Final = 255
MEMBERS_OF_SEGMENT: Final = 32
NO_OBJECT: Final = 0xFFFFFFFF

SUPERVISOR: Final = "SUPERVISOR"
EVERYONE: Final = "EVERYONE"
SUPERVISOR_ID: Final = 1

# Properties that mean something here.
SECURITY_EQUALS: Final = "SECURITY_EQUALS"
GROUPS_IM_IN: Final = "GROUPS_I'M_IN"
GROUP_MEMBERS: Final = "GROUP_MEMBERS"
PASSWORD: Final = "PASSWORD"
ACCOUNT_SERVERS: Final = "ACCOUNT_SERVERS"
ACCOUNT_BALANCE: Final = "ACCOUNT_BALANCE"
Q_DIRECTORY: Final = "Q_DIRECTORY"
Q_SERVERS: Final = "Q_SERVERS"
Q_OPERATORS: Final = "Q_OPERATORS"
Q_USERS: Final = "Q_USERS"
Q_CODE_USERS: Final = "Q_CODE_USERS"  # decision 17: whose jobs may be programs

_EXCLUDED = frozenset("/\\:;,")
_WILD = frozenset("*?")


class ObjectInfo(NamedTuple):
    """What the bindery shows of an object."""

    id: int
    type: int
    name: str
    flags: int
    security: int
    has_properties: bool


class PropertyInfo(NamedTuple):
    """What a scan shows of a property; `instance` goes into the next call of the scan."""

    name: str
    flags: int
    security: int
    instance: int
    has_value: bool
    more: bool


class PropertyValue(NamedTuple):
    """One segment of 128 bytes."""

    value: bytes
    more: bool
    flags: int


class AccessLevel(NamedTuple):
    """NWGetBinderyAccessLevel: write level in the high nibble, read level in the low one."""

    level: int
    id: int


def is_set(flags: int) -> bool:
    """Whether a property has members instead of a value."""
    return bool(flags & SET)


def object_name(name: str) -> str:
    """An object's name as it is kept: in capitals. Refuses what cannot be one."""
    return _checked(name, OBJECT_NAME_MAX)


def property_name(name: str) -> str:
    """A property's name as it is kept: in capitals. Refuses what cannot be one."""
    return _checked(name, PROPERTY_NAME_MAX)


def scan_pattern(pattern: str) -> str:
    """A name with wildcards, for scans; refuses what no name could match."""
    upper = pattern.upper()
    if not 0 < len(upper) <= OBJECT_NAME_MAX or not _is_plain(upper):
        raise _illegal(pattern)
    return upper


def _checked(name: str, longest: int) -> str:
    upper = name.upper()
    if _WILD & set(upper):
        raise QmsError(WILD_CARD_NOT_ALLOWED, f"{excerpt(name)} has wildcards")
    if not 0 < len(upper) <= longest or not _is_plain(upper):
        raise _illegal(name)
    return upper


def _is_plain(upper: str) -> bool:
    printable = upper.isascii() and upper.isprintable() and " " not in upper
    return printable and not _EXCLUDED & set(upper)


def _illegal(name: str) -> QmsError:
    return QmsError(ILLEGAL_NAME, f"{excerpt(name)} cannot be a name in the bindery")


def fits_bindery(name: str) -> bool:
    """Whether the bindery can have an object of this name."""
    try:
        object_name(name)
    except QmsError:
        return False
    return True


def matches(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern; `*` stands for any characters, `?` for one."""
    at, start, star, resume = 0, 0, -1, 0
    while at < len(name):
        if start < len(pattern) and pattern[start] == "*":
            star, resume = start, at
            start += 1
        elif start < len(pattern) and pattern[start] in ("?", name[at]):
            start, at = start + 1, at + 1
        elif star >= 0:
            resume += 1
            start, at = star + 1, resume
        else:
            return False
    return all(character == "*" for character in pattern[start:])


def check_security(security: int) -> None:
    """Refuses levels that do not exist."""
    if not 0 <= security <= 0xFF or security & 0x0F > NETWARE or security >> 4 > NETWARE:
        raise QmsError(
            INVALID_BINDERY_SECURITY, f"0x{security:02X} is not a security of the bindery"
        )


def type_name(number: int) -> str:
    """A type for people."""
    return TYPE_NAMES.get(number, str(number))


def parse_type(text: str) -> int:
    """A type by its name, with or without _queue and _server, or by its number."""
    word = text.strip().lower().replace("-", "_").replace(" ", "_")
    known = {name: number for number, name in TYPE_NAMES.items()}
    if word in known:
        return known[word]
    try:
        number = int(word, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= OBJECT_TYPE_MAX:
        raise QmsError(INVALID_BINDERY_SECURITY, f"{excerpt(text)} is not an object type")
    return number
