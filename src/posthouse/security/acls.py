"""Access control lists and their entries ([MS-DTYP] 2.4.4, 2.4.5).

An entry keeps the bytes it came with; unknown types travel through unchanged.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Self

from posthouse.model.errors import IllegalSecurityDescriptor
from posthouse.security.sids import sid_size_at

ALLOWED: Final = 0x00
DENIED: Final = 0x01
AUDIT: Final = 0x02
ALLOWED_OBJECT: Final = 0x05
DENIED_OBJECT: Final = 0x06
AUDIT_OBJECT: Final = 0x07
ALLOWED_CALLBACK: Final = 0x09
DENIED_CALLBACK: Final = 0x0A
ALLOWED_CALLBACK_OBJECT: Final = 0x0B
DENIED_CALLBACK_OBJECT: Final = 0x0C
AUDIT_CALLBACK: Final = 0x0D
AUDIT_CALLBACK_OBJECT: Final = 0x0F

INHERIT_ONLY: Final = 0x08
INHERITED: Final = 0x10

ACL_REVISIONS: Final = frozenset({2, 3, 4})  # 4 as soon as there are object entries
ACL_SIZE_MAX: Final = 0xFFFF

_OBJECT_TYPE_PRESENT = 0x1
_INHERITED_OBJECT_TYPE_PRESENT = 0x2
_PLAIN = frozenset({ALLOWED, DENIED, AUDIT, ALLOWED_CALLBACK, DENIED_CALLBACK, AUDIT_CALLBACK})
_OBJECT = frozenset(
    {
        ALLOWED_OBJECT,
        DENIED_OBJECT,
        AUDIT_OBJECT,
        ALLOWED_CALLBACK_OBJECT,
        DENIED_CALLBACK_OBJECT,
        AUDIT_CALLBACK_OBJECT,
    }
)
_KNOWN = _PLAIN | _OBJECT
_DENYING = frozenset({DENIED, DENIED_OBJECT, DENIED_CALLBACK, DENIED_CALLBACK_OBJECT})

_ACE_HEADER = struct.Struct("<BBH")
_ACL_HEADER = struct.Struct("<BBHHH")
_U32 = struct.Struct("<I")


class Ace(NamedTuple):
    """One entry: type, flags and the bytes after the header, [MS-DTYP] 2.4.4.1."""

    kind: int
    flags: int
    body: bytes

    @classmethod
    def of(cls, kind: int, sid: bytes, mask: int) -> Self:
        """A plain entry for a SID."""
        return cls(kind, 0, _U32.pack(mask) + sid)

    @property
    def understood(self) -> bool:
        """Whether the type is one whose mask and SID can be read."""
        return self.kind in _KNOWN

    @property
    def mask(self) -> int:
        """The access mask; 0 for entries not understood."""
        return int(_U32.unpack_from(self.body)[0]) if self.kind in _KNOWN else 0

    @property
    def sid(self) -> bytes:
        """Whom the entry is about; empty for entries not understood."""
        at = self._sid_at()
        return self.body[at : at + sid_size_at(self.body, at, len(self.body))]

    @property
    def inherit_only(self) -> bool:
        """Whether it is about objects below this one, and a queue has none."""
        return bool(self.flags & INHERIT_ONLY)

    @property
    def allows(self) -> bool:
        """Whether it gives rights to its SID here and now.

        Choice: entries with a condition or for one property of an object give nothing, because
        a queue has neither; the denying ones below are honoured all the same.
        """
        if self.inherit_only:
            return False
        return self.kind == ALLOWED or (self.kind == ALLOWED_OBJECT and not self._typed)

    @property
    def denies(self) -> bool:
        """Whether it takes rights from its SID here and now."""
        return self.kind in _DENYING and not self.inherit_only

    @property
    def simple(self) -> bool:
        """Whether it is an explicit allowing or denying entry that edits may join with another."""
        return self.kind in (ALLOWED, DENIED) and not self.flags

    def with_mask(self, mask: int) -> Self:
        """This entry with another mask."""
        return self._replace(body=_U32.pack(mask) + self.body[4:])

    def pack(self) -> bytes:
        """The bytes of the entry."""
        return _ACE_HEADER.pack(self.kind, self.flags, 4 + len(self.body)) + self.body

    @property
    def _typed(self) -> bool:
        return bool(_U32.unpack_from(self.body, 4)[0] & _OBJECT_TYPE_PRESENT)

    def _sid_at(self) -> int:
        if self.kind in _PLAIN:
            return 4
        if self.kind not in _OBJECT or len(self.body) < 8:
            return len(self.body)
        present = _U32.unpack_from(self.body, 4)[0]
        types = bool(present & _OBJECT_TYPE_PRESENT) + bool(
            present & _INHERITED_OBJECT_TYPE_PRESENT
        )
        return 8 + 16 * types


class Acl(NamedTuple):
    """A list of entries in their stored order, with every reserved and unused byte of it."""

    aces: tuple[Ace, ...] = ()
    revision: int = 2
    sbz1: int = 0
    sbz2: int = 0
    slack: bytes = b""
    """Bytes of the list after its last entry."""

    def pack(self) -> bytes:
        """The bytes of the list."""
        body = b"".join([ace.pack() for ace in self.aces]) + self.slack
        size = _ACL_HEADER.size + len(body)
        if size > ACL_SIZE_MAX:
            raise IllegalSecurityDescriptor(f"an access list of {size} bytes exceeds 65,535")
        head = _ACL_HEADER.pack(self.revision, self.sbz1, size, len(self.aces), self.sbz2)
        return head + body

    def with_aces(self, aces: Iterable[Ace]) -> Self:
        """The list with other entries, everything else as it was."""
        return self._replace(aces=tuple(aces))

    def with_masks(self, change: Callable[[int], int]) -> Self:
        """The list with every mask that is understood changed; untouched entries stay the same."""
        return self.with_aces(
            ace.with_mask(change(ace.mask)) if ace.understood else ace for ace in self.aces
        )


def unpack_acl(data: bytes, at: int) -> Acl:
    """The list at this offset; every size in it is checked against the bytes that are there."""
    if at < 0 or at + _ACL_HEADER.size > len(data):
        raise IllegalSecurityDescriptor(f"no access list at offset {at}")
    revision, sbz1, size, count, sbz2 = _ACL_HEADER.unpack_from(data, at)
    end = at + size
    if revision not in ACL_REVISIONS or size < _ACL_HEADER.size or end > len(data):
        raise IllegalSecurityDescriptor(f"damaged access list at offset {at}")
    aces = []
    place = at + _ACL_HEADER.size
    for _ in range(count):
        ace = _unpack_ace(data, place, end)
        aces.append(ace)
        place += 4 + len(ace.body)
    return Acl(tuple(aces), revision, sbz1, sbz2, bytes(data[place:end]))


def _unpack_ace(data: bytes, at: int, end: int) -> Ace:
    if at + _ACE_HEADER.size > end:
        raise IllegalSecurityDescriptor(f"access list ends before its entry at offset {at}")
    kind, flags, size = _ACE_HEADER.unpack_from(data, at)
    if size < _ACE_HEADER.size or at + size > end:
        raise IllegalSecurityDescriptor(f"entry of {size} bytes at offset {at} does not fit")
    ace = Ace(kind, flags, bytes(data[at + 4 : at + size]))
    if ace.understood and not ace.sid:
        raise IllegalSecurityDescriptor(f"entry at offset {at} has no security identifier")
    return ace
