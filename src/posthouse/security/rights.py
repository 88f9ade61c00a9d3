"""Access masks of the directory objects, and the words the command line has for them.

[MS-MQMQ] 2.2.23 to 2.2.27 list the bits; [MS-DTYP] 2.4.3 the generic ones.
"""

import difflib
from typing import Final, NamedTuple

from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt

# Common to all kinds ([MS-DTYP] 2.4.3)
DELETE: Final = 0x0001_0000
READ_CONTROL: Final = 0x0002_0000
WRITE_DACL: Final = 0x0004_0000
WRITE_OWNER: Final = 0x0008_0000
ACCESS_SYSTEM_SECURITY: Final = 0x0100_0000
MAXIMUM_ALLOWED: Final = 0x0200_0000
GENERIC_ALL: Final = 0x1000_0000
GENERIC_EXECUTE: Final = 0x2000_0000
GENERIC_WRITE: Final = 0x4000_0000
GENERIC_READ: Final = 0x8000_0000
GENERIC_BITS: Final = GENERIC_ALL | GENERIC_EXECUTE | GENERIC_WRITE | GENERIC_READ

# MQQUEUEACCESSMASK ([MS-MQMQ] 2.2.24)
DELETE_MESSAGE: Final = 0x0000_0001
PEEK_MESSAGE: Final = 0x0000_0002
WRITE_MESSAGE: Final = 0x0000_0004
DELETE_JOURNAL_MESSAGE: Final = 0x0000_0008
SET_QUEUE_PROPERTIES: Final = 0x0000_0010
GET_QUEUE_PROPERTIES: Final = 0x0000_0020
DELETE_QUEUE: Final = DELETE
GET_QUEUE_PERMISSIONS: Final = READ_CONTROL
CHANGE_QUEUE_PERMISSIONS: Final = WRITE_DACL
TAKE_QUEUE_OWNERSHIP: Final = WRITE_OWNER
RECEIVE_MESSAGE: Final = DELETE_MESSAGE | PEEK_MESSAGE
RECEIVE_JOURNAL_MESSAGE: Final = DELETE_JOURNAL_MESSAGE | PEEK_MESSAGE
QUEUE_GENERIC_READ: Final = 0x0002_002B
QUEUE_GENERIC_WRITE: Final = 0x0002_0024
QUEUE_GENERIC_ALL: Final = 0x000F_003F

# MQQMACCESSMASK ([MS-MQMQ] 2.2.23)
DELETE_DEADLETTER_MESSAGE: Final = 0x0000_0001
PEEK_DEADLETTER_MESSAGE: Final = 0x0000_0002
CREATE_QUEUE: Final = 0x0000_0004
SET_MACHINE_PROPERTIES: Final = 0x0000_0010
GET_MACHINE_PROPERTIES: Final = 0x0000_0020
DELETE_JOURNAL_QUEUE_MESSAGE: Final = 0x0000_0040
PEEK_JOURNAL_QUEUE_MESSAGE: Final = 0x0000_0080
DELETE_MACHINE: Final = DELETE
GET_MACHINE_PERMISSIONS: Final = READ_CONTROL
CHANGE_MACHINE_PERMISSIONS: Final = WRITE_DACL
TAKE_MACHINE_OWNERSHIP: Final = WRITE_OWNER
RECEIVE_DEADLETTER_MESSAGE: Final = DELETE_DEADLETTER_MESSAGE | PEEK_DEADLETTER_MESSAGE
RECEIVE_JOURNAL_QUEUE_MESSAGE: Final = DELETE_JOURNAL_QUEUE_MESSAGE | PEEK_JOURNAL_QUEUE_MESSAGE
MACHINE_GENERIC_READ: Final = 0x0002_00E3
MACHINE_GENERIC_WRITE: Final = 0x0002_0024
MACHINE_GENERIC_ALL: Final = 0x000F_00F7
MACHINE_WORLD_RIGHTS: Final = 0x0002_0020

# MQSITEACCESSMASK ([MS-MQMQ] 2.2.25)
CREATE_FRS: Final = 0x0000_0001
CREATE_BSC: Final = 0x0000_0002
CREATE_MACHINE: Final = 0x0000_0004
SET_SITE_PROPERTIES: Final = 0x0000_0010
GET_SITE_PROPERTIES: Final = 0x0000_0020
SITE_GENERIC_READ: Final = 0x0002_0020
SITE_GENERIC_WRITE: Final = 0x0002_0024
SITE_GENERIC_ALL: Final = 0x000F_0037

# MQENTACCESSMASK ([MS-MQMQ] 2.2.26)
CREATE_USER: Final = 0x0000_0001
CREATE_SITE: Final = 0x0000_0002
CREATE_CN: Final = 0x0000_0004
SET_ENTERPRISE_PROPERTIES: Final = 0x0000_0010
GET_ENTERPRISE_PROPERTIES: Final = 0x0000_0020
ENTERPRISE_GENERIC_READ: Final = 0x0002_0021
ENTERPRISE_GENERIC_WRITE: Final = 0x0002_0027
ENTERPRISE_GENERIC_ALL: Final = 0x000F_0037

# MQCNACCESSMASK ([MS-MQMQ] 2.2.27)
CN_OPEN_CONNECTOR: Final = 0x0000_0001
SET_CN_PROPERTIES: Final = 0x0000_0010
GET_CN_PROPERTIES: Final = 0x0000_0020
CN_GENERIC_READ: Final = 0x0002_0020
CN_GENERIC_ALL: Final = 0x000F_0031


class AccessMasks(NamedTuple):
    """The access mask set of one object kind: its bits, and what the generic rights mean."""

    name: str
    all: int
    generic_read: int
    generic_write: int
    generic_execute: int = 0

    def mapped(self, mask: int) -> int:
        """The mask with generic rights replaced by the bits they stand for ([MS-DTYP] 2.4.3)."""
        if not mask & GENERIC_BITS:
            return mask
        specific = mask & ~GENERIC_BITS
        if mask & GENERIC_ALL:
            specific |= self.all
        if mask & GENERIC_READ:
            specific |= self.generic_read
        if mask & GENERIC_WRITE:
            specific |= self.generic_write
        if mask & GENERIC_EXECUTE:
            specific |= self.generic_execute
        return specific

    def allows(self, mask: int) -> bool:
        """Whether every bit, generic rights mapped, belongs to the kind."""
        return not self.mapped(mask) & ~self.all


QUEUE: Final = AccessMasks("queue", QUEUE_GENERIC_ALL, QUEUE_GENERIC_READ, QUEUE_GENERIC_WRITE)
MACHINE: Final = AccessMasks(
    "queue manager", MACHINE_GENERIC_ALL, MACHINE_GENERIC_READ, MACHINE_GENERIC_WRITE
)
SITE: Final = AccessMasks("site", SITE_GENERIC_ALL, SITE_GENERIC_READ, SITE_GENERIC_WRITE)
ENTERPRISE: Final = AccessMasks(
    "enterprise", ENTERPRISE_GENERIC_ALL, ENTERPRISE_GENERIC_READ, ENTERPRISE_GENERIC_WRITE
)
# Choice: the document lists no generic write for connected networks, so it gives nothing.
CONNECTED_NETWORK: Final = AccessMasks("connected network", CN_GENERIC_ALL, CN_GENERIC_READ, 0)

# Choice: MSMQ has one bit for taking messages away and one for seeing them. Taking without seeing
# is a purge, both together a receive; so `receive` includes `peek` and `purge`
# ([MS-MQDMPR] 3.1.1.17, ReceiveAccess), and every mask can be printed and read back.
RIGHTS: Final = {
    "full": QUEUE_GENERIC_ALL,
    "receive": RECEIVE_MESSAGE,
    "peek": PEEK_MESSAGE,
    "purge": DELETE_MESSAGE,
    "send": WRITE_MESSAGE,
    "properties": GET_QUEUE_PROPERTIES | SET_QUEUE_PROPERTIES,
    "get-properties": GET_QUEUE_PROPERTIES,
    "set-properties": SET_QUEUE_PROPERTIES,
    "journal": DELETE_JOURNAL_MESSAGE,
    "delete": DELETE_QUEUE,
    "get-permissions": GET_QUEUE_PERMISSIONS,
    "change-permissions": CHANGE_QUEUE_PERMISSIONS,
    "take-ownership": TAKE_QUEUE_OWNERSHIP,
}
"""Words for queue rights; a word in front includes those after it whose bits it covers."""


def parse_rights(text: str) -> int:
    """The queue mask of a comma list such as `send,peek`."""
    mask = 0
    for word in text.split(","):
        mask |= _right(word.strip().lower())
    return mask


def _right(word: str) -> int:
    mask = RIGHTS.get(word)
    if mask is None:
        nearest = difflib.get_close_matches(word[:32], RIGHTS, 1, 0.6)
        guess = f"Did you mean {nearest[0]}? " if nearest else ""
        hint = f"{guess}There are {', '.join(RIGHTS)}."
        raise InvalidParameter(f"{excerpt(word)} is not a queue right", hint)
    return mask


def rights_words(mask: int) -> tuple[str, ...]:
    """The shortest list of words for a queue mask, largest first; bits without a word in hex."""
    words = []
    left = QUEUE.mapped(mask)
    for word, bits in RIGHTS.items():
        if left & bits == bits:
            words.append(word)
            left &= ~bits
    return (*words, f"0x{left:X}") if left else tuple(words)


def format_rights(mask: int) -> str:
    """The comma list of `rights_words`; `none` for an empty mask."""
    return ",".join(rights_words(mask)) or "none"


def missing_rights(desired: int, missing: int) -> str:
    """The words for a desired mask that lack a bit: who has `peek` and not `receive` lacks that."""
    words = rights_words(desired)
    return ",".join(word for word in words if RIGHTS.get(word, desired) & missing)
