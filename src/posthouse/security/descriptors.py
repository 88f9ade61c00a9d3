"""Self-relative security descriptors, read and written without loss ([MS-DTYP] 2.4.6).

`unpack_descriptor(data).pack() == data` for every valid descriptor: the order of its parts, gaps
between them, unknown entries and reserved bits included. Edits change what they are about and
leave the rest as it was.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from posthouse.model.errors import IllegalSecurityDescriptor
from posthouse.security.acls import ACL_SIZE_MAX, ALLOWED, DENIED, INHERITED, Ace, Acl, unpack_acl
from posthouse.security.rights import QUEUE, AccessMasks
from posthouse.security.sids import EVERYONE, SID_SIZE_MAX, format_sid, is_sid, sid_size_at

DESCRIPTOR_REVISION: Final = 1
DACL_PRESENT: Final = 0x0004
SACL_PRESENT: Final = 0x0010
SELF_RELATIVE: Final = 0x8000

_HEADER = struct.Struct("<BBHIIII")
DESCRIPTOR_SIZE_MAX: Final = _HEADER.size + 2 * ACL_SIZE_MAX + 2 * SID_SIZE_MAX

_SLOTS = ("owner", "group", "sacl", "dacl")  # in the order of the header's offsets
_NEW_PARTS = ("sacl", "dacl", "owner", "group")  # the order Windows writes them in

Layout = tuple[tuple[str, ...] | bytes, ...]
"""What follows the header: names of parts that begin at one place, or bytes of no meaning."""


class SecurityDescriptor(NamedTuple):
    """Owner, group, access list and audit list of an object, [MS-DTYP] 2.4.6.

    `dacl` is None both for a list that is absent and for a NULL list; either way everyone has
    every right. An empty `Acl` gives no rights.
    """

    owner: bytes = b""
    group: bytes = b""
    sacl: Acl | None = None
    dacl: Acl | None = None
    control: int = SELF_RELATIVE
    sbz1: int = 0
    layout: Layout = ()

    @property
    def has_dacl(self) -> bool:
        """Whether an access list was given at all, a NULL one included."""
        return bool(self.control & DACL_PRESENT)

    def pack(self) -> bytes:
        """The self-relative form, parts where they were when it was read."""
        out = bytearray(_HEADER.size)
        offsets = dict.fromkeys(_SLOTS, 0)
        for item in self.layout:
            if isinstance(item, bytes):
                out += item
            else:
                self._place(item, out, offsets)
        for slot in self._new_parts():
            out += bytes(-len(out) % 4)
            self._place((slot,), out, offsets)
        _HEADER.pack_into(
            out, 0, DESCRIPTOR_REVISION, self.sbz1, self.control, *map(offsets.__getitem__, _SLOTS)
        )
        return bytes(out)

    def with_owner(self, owner: bytes) -> Self:
        """The descriptor with another owner."""
        assert is_sid(owner)
        return self._replace(owner=owner)

    def with_dacl(self, dacl: Acl | None) -> Self:
        """The descriptor with another access list; None is the NULL list."""
        return self._replace(dacl=dacl, control=self.control | DACL_PRESENT)

    def with_sacl(self, sacl: Acl | None) -> Self:
        """The descriptor with another audit list."""
        return self._replace(sacl=sacl, control=self.control | SACL_PRESENT)

    def with_generic_mapped(self, masks: AccessMasks) -> Self:
        """Generic rights of all entries replaced by the bits of the object's kind."""
        return self._replace(
            dacl=self.dacl and self.dacl.with_masks(masks.mapped),
            sacl=self.sacl and self.sacl.with_masks(masks.mapped),
        )

    def grant(self, sid: bytes, mask: int, masks: AccessMasks = QUEUE) -> Self:
        """`sid` gets these rights; denials of the same rights to the same SID go."""
        aces = _without(self._editable(masks), sid, mask)
        for index, ace in enumerate(aces):
            if ace.simple and ace.kind == ALLOWED and ace.sid == sid:
                aces[index] = ace.with_mask(ace.mask | mask)
                break
        else:
            aces.insert(_end_of_explicit(aces), Ace.of(ALLOWED, sid, mask))
        return self._with_aces(aces)

    def deny(self, sid: bytes, mask: int, masks: AccessMasks = QUEUE) -> Self:
        """`sid` loses these rights, in front of anything that allows them."""
        aces = _without(self._editable(masks), sid, mask)
        for index, ace in enumerate(aces):
            if not ace.denies:
                aces.insert(0, Ace.of(DENIED, sid, mask))
                break
            if ace.simple and ace.sid == sid:
                aces[index] = ace.with_mask(ace.mask | mask)
                break
        else:
            aces.insert(0, Ace.of(DENIED, sid, mask))
        return self._with_aces(aces)

    def revoke(self, sid: bytes, masks: AccessMasks = QUEUE) -> Self:
        """Every entry that gives or denies `sid` something goes."""
        aces = self._editable(masks)
        return self._with_aces(
            ace for ace in aces if ace.sid != sid or not (ace.allows or ace.denies)
        )

    def with_entries(
        self, entries: Iterable[tuple[bytes, int, bool]], masks: AccessMasks = QUEUE
    ) -> Self:
        """Only these entries give or deny something: SID, rights, whether they are denied.

        Denials stand first, as Windows writes a list.
        """
        kept = [ace for ace in self._editable(masks) if not (ace.allows or ace.denies)]
        ordered = sorted(entries, key=lambda entry: not entry[2])
        new = [Ace.of(DENIED if denied else ALLOWED, sid, mask) for sid, mask, denied in ordered]
        return self._with_aces([*new, *kept])

    def check_masks(self, masks: AccessMasks) -> None:
        """Refuses entries with bits outside the kind's set, [MS-MQDMPR] 3.1.1.1, .2, .6, .7, .9."""
        for acl in (self.dacl, self.sacl):
            for ace in acl.aces if acl else ():
                if ace.understood and not masks.allows(ace.mask):
                    raise IllegalSecurityDescriptor(
                        f"the entry of {format_sid(ace.sid)} has mask 0x{ace.mask:08X} with bits "
                        f"that mean nothing for a {masks.name}"
                    )

    def _editable(self, masks: AccessMasks) -> list[Ace]:
        """The entries to edit; the NULL list becomes the entry it stands for."""
        if self.dacl is None:
            return [Ace.of(ALLOWED, EVERYONE, masks.all)]
        return list(self.dacl.with_masks(masks.mapped).aces)

    def _with_aces(self, aces: Iterable[Ace]) -> Self:
        return self.with_dacl((self.dacl or Acl()).with_aces(aces))

    def _part(self, slot: str) -> bytes:
        value = getattr(self, slot)
        if isinstance(value, Acl):
            return value.pack()
        return value or b""

    def _new_parts(self) -> list[str]:
        placed = {slot for item in self.layout if not isinstance(item, bytes) for slot in item}
        return [slot for slot in _NEW_PARTS if slot not in placed and self._part(slot)]

    def _place(self, slots: tuple[str, ...], out: bytearray, offsets: dict[str, int]) -> None:
        placed: dict[bytes, int] = {}
        for slot in slots:
            part = self._part(slot)
            if part and part not in placed:
                placed[part] = len(out)
                out += part
            offsets[slot] = placed.get(part, 0)


def _without(aces: Iterable[Ace], sid: bytes, mask: int) -> list[Ace]:
    """The entries with these rights of this SID taken out, whether given or denied."""
    kept = []
    for ace in aces:
        if ace.sid != sid or not (ace.allows or ace.denies) or not ace.mask & mask:
            kept.append(ace)
        elif ace.mask & ~mask:
            kept.append(ace.with_mask(ace.mask & ~mask))
    return kept


def _end_of_explicit(aces: list[Ace]) -> int:
    """Where explicit entries end and inherited ones begin, in the usual order."""
    return next((i for i, ace in enumerate(aces) if ace.flags & INHERITED), len(aces))


def unpack_descriptor(data: bytes) -> SecurityDescriptor:
    """Reads a self-relative descriptor; anything else is refused with its code."""
    if not _HEADER.size <= len(data) <= DESCRIPTOR_SIZE_MAX:
        raise IllegalSecurityDescriptor(f"{len(data)} bytes cannot be a security descriptor")
    revision, sbz1, control, *places = _HEADER.unpack_from(data)
    if revision != DESCRIPTOR_REVISION or not control & SELF_RELATIVE:
        raise IllegalSecurityDescriptor("not a self-relative security descriptor of revision 1")
    offsets = dict(zip(_SLOTS, places, strict=True))
    _check_presence(control, offsets)
    owner = _sid_at(data, offsets["owner"])
    group = _sid_at(data, offsets["group"])
    sacl = unpack_acl(data, offsets["sacl"]) if offsets["sacl"] else None
    dacl = unpack_acl(data, offsets["dacl"]) if offsets["dacl"] else None
    read = SecurityDescriptor(owner, group, sacl, dacl, control, sbz1)
    return read._replace(layout=_layout(data, read, offsets))


def _check_presence(control: int, offsets: dict[str, int]) -> None:
    """A list that the control bits deny has no offset, [MS-DTYP] 2.4.6."""
    if offsets["dacl"] and not control & DACL_PRESENT:
        raise IllegalSecurityDescriptor("access list without its control bit")
    if offsets["sacl"] and not control & SACL_PRESENT:
        raise IllegalSecurityDescriptor("audit list without its control bit")


def _sid_at(data: bytes, at: int) -> bytes:
    size = sid_size_at(data, at, len(data))
    if at and not size:
        raise IllegalSecurityDescriptor(f"no security identifier at offset {at}")
    return data[at : at + size] if at else b""


def _layout(data: bytes, read: SecurityDescriptor, offsets: dict[str, int]) -> Layout:
    """The order of the parts with the gaps between them; parts that overlap are refused."""
    layout: list[tuple[str, ...] | bytes] = []
    place = _HEADER.size
    for at in sorted({at for at in offsets.values() if at}):
        slots = tuple(slot for slot in _SLOTS if offsets[slot] == at)
        sizes = {len(read._part(slot)) for slot in slots}
        if at < place or len(sizes) > 1:
            raise IllegalSecurityDescriptor(f"parts overlap at offset {at}")
        if at > place:
            layout.append(bytes(data[place:at]))
        layout.append(slots)
        place = at + sizes.pop()
    if place < len(data):
        layout.append(bytes(data[place:]))
    return tuple(layout)


class Entry(NamedTuple):
    """One line of `posthouse queue access`: who, allowed or denied, which rights."""

    sid: bytes
    denied: bool
    mask: int


def entries(descriptor: SecurityDescriptor, masks: AccessMasks = QUEUE) -> tuple[Entry, ...]:
    """The entries that the access check heeds, in its order."""
    if descriptor.dacl is None:
        return (Entry(EVERYONE, False, masks.all),)
    return tuple(
        Entry(ace.sid, ace.denies, masks.mapped(ace.mask))
        for ace in descriptor.dacl.aces
        if ace.allows or ace.denies
    )
