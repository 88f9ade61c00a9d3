"""Security identifiers: packet form, text form and the well-known ones ([MS-DTYP] 2.4.2).

Everywhere in the program a SID is its packet form as plain `bytes`; equal bytes are equal SIDs.
"""

import hashlib
import re
import struct
from typing import Final

from posthouse.model.errors import IllegalSecurityDescriptor
from posthouse.model.text import excerpt

SID_REVISION: Final = 1
SUB_AUTHORITY_COUNT_MAX: Final = 15  # [MS-DTYP] 2.4.2.2
SID_SIZE_MIN: Final = 8
SID_SIZE_MAX: Final = SID_SIZE_MIN + 4 * SUB_AUTHORITY_COUNT_MAX
FIRST_ACCOUNT_RID: Final = 1000
"""Relative ids below are kept for built-in accounts, as Windows does."""
GUEST_RID: Final = 501  # DOMAIN_USER_RID_GUEST, [MS-MQDMPR] 3.1.7.1.3.1 step 9

_AUTHORITY_TEXT_MAX = 1 << 32  # larger authorities are printed in hexadecimal
_TEXT = re.compile(r"[Ss]-1-(?:0[xX]([0-9a-fA-F]{1,12})|([0-9]{1,10}))((?:-[0-9]{1,10}){0,15})")


def make_sid(authority: int, *sub_authorities: int) -> bytes:
    """The packet form: revision, count, authority big-endian, sub-authorities little-endian."""
    count = len(sub_authorities)
    assert count <= SUB_AUTHORITY_COUNT_MAX
    head = bytes((SID_REVISION, count)) + authority.to_bytes(6, "big")
    return head + struct.pack(f"<{count}I", *sub_authorities)


EVERYONE: Final = make_sid(1, 0)
OWNER_RIGHTS: Final = make_sid(3, 4)
ANONYMOUS: Final = make_sid(5, 7)
AUTHENTICATED_USERS: Final = make_sid(5, 11)
LOCAL_SYSTEM: Final = make_sid(5, 18)
ADMINISTRATORS: Final = make_sid(5, 32, 544)

PRINCIPALS: Final = {
    "everyone": EVERYONE,
    "users": AUTHENTICATED_USERS,
    "anonymous": ANONYMOUS,
    "administrators": ADMINISTRATORS,
}
"""The words that stand for a SID where a user name is expected; no account may bear one."""
_WORD_OF_PRINCIPAL = {sid: word for word, sid in PRINCIPALS.items()}


def sid_size_at(data: bytes, at: int, end: int) -> int:
    """The size of the SID that begins at `at` and stays before `end`; 0 when there is none."""
    if at < 0 or end - at < SID_SIZE_MIN or data[at] != SID_REVISION:
        return 0
    count = data[at + 1]
    size = SID_SIZE_MIN + 4 * count
    return size if count <= SUB_AUTHORITY_COUNT_MAX and size <= end - at else 0


def is_sid(data: bytes) -> bool:
    """Whether the bytes are one SID and nothing else."""
    return bool(data) and sid_size_at(data, 0, len(data)) == len(data)


def authority_of(sid: bytes) -> int:
    """The identifier authority, 5 for everything Windows-like."""
    return int.from_bytes(sid[2:8], "big")


def sub_authorities_of(sid: bytes) -> tuple[int, ...]:
    """The sub-authorities, the relative id last."""
    return struct.unpack_from(f"<{sid[1]}I", sid, SID_SIZE_MIN)


def format_sid(sid: bytes) -> str:
    """The text `S-1-...`; an authority of 2^32 and more is printed in hexadecimal."""
    assert is_sid(sid)
    authority = authority_of(sid)
    first = str(authority) if authority < _AUTHORITY_TEXT_MAX else f"0x{authority:012X}"
    return "-".join(("S-1", first, *map(str, sub_authorities_of(sid))))


def parse_sid(text: str) -> bytes:
    """The SID of a text that a caller gave."""
    match = _TEXT.fullmatch(text)
    if match is not None:
        authority = int(match[1], 16) if match[1] else int(match[2])
        subs = [int(number) for number in match[3].split("-")[1:]]
        if all(sub < 1 << 32 for sub in subs):
            return make_sid(authority, *subs)
    raise IllegalSecurityDescriptor(f"{excerpt(text)} is not a security identifier like S-1-5-7")


def principal_word(sid: bytes) -> str:
    """`everyone`, `users`, `anonymous` or `administrators`; empty for any other SID."""
    return _WORD_OF_PRINCIPAL.get(sid, "")


def domain_sid(manager_guid: bytes) -> bytes:
    """The SID that all local accounts of one queue manager share: S-1-5-21 and three numbers.

    Choice: the numbers are the first 96 bits of the SHA-256 of the GUID, so that two managers
    never share an account SID and a restored one keeps its own.
    """
    assert len(manager_guid) == 16
    return make_sid(5, 21, *struct.unpack_from("<3I", hashlib.sha256(manager_guid).digest()))


def local_sid(manager_guid: bytes, rid: int) -> bytes:
    """The SID of a local account: the domain of the queue manager and a relative id."""
    return make_sid(5, *sub_authorities_of(domain_sid(manager_guid)), rid)
