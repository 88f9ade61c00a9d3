"""Security descriptors: nothing is lost, edits change only what they are about."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalSecurityDescriptor
from posthouse.security.acls import ALLOWED, DENIED, INHERITED, Ace, Acl
from posthouse.security.descriptors import (
    DESCRIPTOR_SIZE_MAX,
    Entry,
    SecurityDescriptor,
    entries,
    unpack_descriptor,
)
from posthouse.security.rights import (
    CONNECTED_NETWORK,
    ENTERPRISE,
    GENERIC_ALL,
    GENERIC_READ,
    MACHINE,
    QUEUE,
    QUEUE_GENERIC_ALL,
    SITE,
    AccessMasks,
)
from posthouse.security.sids import ADMINISTRATORS, ANONYMOUS, EVERYONE, make_sid

from .strategies import acls, raw_descriptors, sids

ALICE = make_sid(5, 21, 1, 2, 3, 1000)
BOB = make_sid(5, 21, 1, 2, 3, 1001)


def with_aces(*aces: Ace) -> SecurityDescriptor:
    return SecurityDescriptor(ALICE).with_dacl(Acl(aces))


def aces_of(descriptor: SecurityDescriptor) -> tuple[Ace, ...]:
    assert descriptor.dacl is not None
    return descriptor.dacl.aces


@given(raw_descriptors())
def test_every_valid_descriptor_survives_unchanged(raw: bytes) -> None:
    assert unpack_descriptor(raw).pack() == raw


@given(raw_descriptors())
def test_a_descriptor_cut_before_its_last_part_is_refused(raw: bytes) -> None:
    offsets = struct.unpack_from("<4I", raw, 4)
    for length in range(max(20, *offsets)):
        with pytest.raises(IllegalSecurityDescriptor):
            unpack_descriptor(raw[:length])


@given(raw_descriptors(), st.integers(0, 200), st.integers(0, 255))
def test_damage_gives_a_descriptor_or_the_one_error(raw: bytes, at: int, value: int) -> None:
    damaged = bytearray(raw)
    damaged[at % len(raw)] = value
    with contextlib.suppress(IllegalSecurityDescriptor):
        assert unpack_descriptor(bytes(damaged)).pack() == damaged


@given(st.binary(max_size=80))
def test_any_bytes_give_a_descriptor_or_the_one_error(data: bytes) -> None:
    raw = b"\x01\x00\x14\x80" + data
    with contextlib.suppress(IllegalSecurityDescriptor):
        assert unpack_descriptor(raw).pack() == raw


def test_a_new_descriptor_is_self_relative_and_aligned() -> None:
    raw = SecurityDescriptor(ALICE, BOB).with_dacl(Acl((Ace.of(ALLOWED, EVERYONE, 4),))).pack()
    revision, _, control, owner, group, sacl, dacl = struct.unpack_from("<BBHIIII", raw)
    assert (revision, control, sacl) == (1, 0x8004, 0)
    assert raw[owner:].startswith(ALICE)
    assert raw[group:] == BOB
    assert [owner % 4, group % 4, dacl % 4] == [0, 0, 0]


def test_parts_that_overlap_are_refused() -> None:
    raw = bytearray(SecurityDescriptor(ALICE).with_dacl(Acl((Ace.of(ALLOWED, BOB, 4),))).pack())
    dacl = struct.unpack_from("<I", raw, 16)[0]
    struct.pack_into("<I", raw, 8, dacl + 16)  # the SID inside the entry
    with pytest.raises(IllegalSecurityDescriptor):
        unpack_descriptor(bytes(raw))


def test_an_offset_into_the_header_is_refused() -> None:
    raw = bytearray(20)
    struct.pack_into("<BBHIIII", raw, 0, 1, 0, 0x8000, 12, 0, 0, 0)
    with pytest.raises(IllegalSecurityDescriptor):
        unpack_descriptor(bytes(raw) + ALICE)


@pytest.mark.parametrize("control", [0x0004, 0x8000])
def test_absolute_form_and_lists_without_their_bit_are_refused(control: int) -> None:
    raw = bytearray(with_aces().pack())
    struct.pack_into("<H", raw, 2, control)
    with pytest.raises(IllegalSecurityDescriptor):
        unpack_descriptor(bytes(raw))


def test_an_audit_list_without_its_bit_is_refused() -> None:
    raw = bytearray(SecurityDescriptor(ALICE).with_sacl(Acl()).pack())
    struct.pack_into("<H", raw, 2, 0x8000)
    with pytest.raises(IllegalSecurityDescriptor, match="audit list"):
        unpack_descriptor(bytes(raw))


def test_parts_that_come_later_begin_on_a_border_of_four() -> None:
    raw = SecurityDescriptor(ALICE).pack() + b"x"  # one byte of no meaning behind the owner
    longer = unpack_descriptor(raw).with_dacl(Acl()).pack()
    assert longer[20 : 20 + len(ALICE) + 1] == ALICE + b"x"
    assert struct.unpack_from("<I", longer, 16)[0] == 20 + len(ALICE) + 4


def test_a_descriptor_beyond_any_real_one_is_refused() -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        unpack_descriptor(SecurityDescriptor(ALICE).pack() + bytes(DESCRIPTOR_SIZE_MAX))


def test_the_null_list_differs_from_the_empty_one() -> None:
    null = unpack_descriptor(SecurityDescriptor(ALICE).with_dacl(None).pack())
    empty = unpack_descriptor(with_aces().pack())
    assert (null.dacl, null.has_dacl) == (None, True)
    assert empty.dacl == Acl()
    assert not SecurityDescriptor(ALICE).has_dacl


def test_owner_and_group_at_one_place_part_when_the_owner_changes() -> None:
    raw = bytearray(20)
    struct.pack_into("<BBHIIII", raw, 0, 1, 0, 0x8000, 20, 20, 0, 0)
    descriptor = unpack_descriptor(bytes(raw) + ALICE)
    assert descriptor.pack() == bytes(raw) + ALICE
    changed = unpack_descriptor(descriptor.with_owner(BOB).pack())
    assert (changed.owner, changed.group) == (BOB, ALICE)


def test_grant_joins_the_entry_that_is_there() -> None:
    descriptor = with_aces(Ace.of(ALLOWED, BOB, 4)).grant(BOB, 2)
    assert aces_of(descriptor) == (Ace.of(ALLOWED, BOB, 6),)


def test_grant_takes_back_an_earlier_denial_of_the_same_right() -> None:
    descriptor = with_aces(Ace.of(DENIED, BOB, 6)).grant(BOB, 4)
    assert aces_of(descriptor) == (Ace.of(DENIED, BOB, 2), Ace.of(ALLOWED, BOB, 4))


def test_grant_stands_in_front_of_inherited_entries() -> None:
    inherited = Ace.of(ALLOWED, EVERYONE, 2)._replace(flags=INHERITED)
    descriptor = with_aces(Ace.of(DENIED, ANONYMOUS, 4), inherited).grant(BOB, 4)
    assert aces_of(descriptor)[1:] == (Ace.of(ALLOWED, BOB, 4), inherited)


def test_deny_stands_in_front_and_takes_what_was_given() -> None:
    descriptor = with_aces(Ace.of(ALLOWED, BOB, 6), Ace.of(ALLOWED, EVERYONE, 4)).deny(BOB, 4)
    assert aces_of(descriptor) == (
        Ace.of(DENIED, BOB, 4),
        Ace.of(ALLOWED, BOB, 2),
        Ace.of(ALLOWED, EVERYONE, 4),
    )


def test_an_entry_with_no_right_left_goes() -> None:
    descriptor = with_aces(Ace.of(ALLOWED, BOB, 4), Ace.of(ALLOWED, EVERYONE, 4)).deny(BOB, 6)
    assert aces_of(descriptor) == (Ace.of(DENIED, BOB, 6), Ace.of(ALLOWED, EVERYONE, 4))


def test_deny_joins_the_denial_that_is_there() -> None:
    descriptor = with_aces(Ace.of(DENIED, EVERYONE, 1), Ace.of(DENIED, BOB, 2)).deny(BOB, 4)
    assert aces_of(descriptor) == (Ace.of(DENIED, EVERYONE, 1), Ace.of(DENIED, BOB, 6))


def test_deny_does_not_rely_on_a_denial_behind_allowing_entries() -> None:
    late = Ace.of(DENIED, BOB, 2)
    descriptor = with_aces(Ace.of(ALLOWED, EVERYONE, 4), late).deny(BOB, 4)
    assert aces_of(descriptor) == (Ace.of(DENIED, BOB, 4), Ace.of(ALLOWED, EVERYONE, 4), late)


def test_revoke_removes_everything_about_the_sid_and_nothing_else() -> None:
    others = (Ace(0x11, 0, b"label"), Ace.of(ALLOWED, EVERYONE, 4))
    descriptor = with_aces(Ace.of(DENIED, BOB, 1), *others, Ace.of(ALLOWED, BOB, 2)).revoke(BOB)
    assert aces_of(descriptor) == others


def test_editing_the_null_list_spells_it_out_first() -> None:
    descriptor = SecurityDescriptor(ALICE).with_dacl(None).deny(BOB, 4)
    assert aces_of(descriptor) == (
        Ace.of(DENIED, BOB, 4),
        Ace.of(ALLOWED, EVERYONE, QUEUE_GENERIC_ALL),
    )


def test_editing_spells_out_generic_rights() -> None:
    descriptor = with_aces(Ace.of(ALLOWED, BOB, GENERIC_ALL)).deny(BOB, 4)
    assert aces_of(descriptor)[1] == Ace.of(ALLOWED, BOB, QUEUE_GENERIC_ALL & ~4)


@given(raw_descriptors(), sids, st.integers(1, QUEUE_GENERIC_ALL), st.sampled_from("gdr"))
def test_edits_keep_what_they_are_not_about(raw: bytes, sid: bytes, mask: int, edit: str) -> None:
    before = unpack_descriptor(raw)
    if edit == "g":
        after = before.grant(sid, mask)
    elif edit == "d":
        after = before.deny(sid, mask)
    else:
        after = before.revoke(sid)
    again = unpack_descriptor(after.pack())
    assert again._replace(layout=()) == after._replace(layout=())
    assert (again.owner, again.group, again.sacl) == (before.owner, before.group, before.sacl)
    assert again.control == before.control | 0x4
    assert again.sbz1 == before.sbz1
    if before.dacl is not None:
        mapped = before.dacl.with_masks(QUEUE.mapped)
        untouched = [ace for ace in mapped.aces if ace.sid != sid]
        assert again.dacl is not None
        assert [ace for ace in again.dacl.aces if ace.sid != sid] == untouched
        assert again.dacl.slack == before.dacl.slack


@given(acls)
def test_mapping_generic_rights_leaves_other_masks_alone(acl: Acl) -> None:
    mapped = SecurityDescriptor(ALICE).with_dacl(acl).with_generic_mapped(QUEUE).dacl
    assert mapped is not None
    for before, after in zip(acl.aces, mapped.aces, strict=True):
        assert after.body[4:] == before.body[4:]
        assert after.mask == QUEUE.mapped(before.mask)


@pytest.mark.spec(
    "MS-MQDMPR 3.1.1.1/13",
    "MS-MQDMPR 3.1.1.2/10",
    "MS-MQDMPR 3.1.1.6/4",
    "MS-MQDMPR 3.1.1.7/3",
    "MS-MQDMPR 3.1.1.9/1",
)
@pytest.mark.parametrize(
    ("masks", "foreign"),
    [
        (MACHINE, 0x8),
        (QUEUE, 0x40),
        (ENTERPRISE, 0x8),
        (SITE, 0x40),
        (CONNECTED_NETWORK, 0x2),
        (QUEUE, 0x100000),
    ],
)
def test_entries_use_only_bits_of_their_object_kind(masks: AccessMasks, foreign: int) -> None:
    for kind in (ALLOWED, DENIED):
        fine = with_aces(Ace.of(kind, BOB, masks.all), Ace.of(kind, BOB, GENERIC_READ))
        fine.check_masks(masks)
        with pytest.raises(IllegalSecurityDescriptor):
            with_aces(Ace.of(kind, BOB, foreign)).check_masks(masks)
    audit = SecurityDescriptor(ALICE).with_sacl(Acl((Ace.of(2, BOB, foreign),)))
    with pytest.raises(IllegalSecurityDescriptor):
        audit.check_masks(masks)


def test_entries_nobody_understands_have_no_mask_to_check() -> None:
    with_aces(Ace(0x11, 0, b"\xff" * 16)).check_masks(QUEUE)


def test_entries_are_listed_as_the_check_reads_them() -> None:
    descriptor = with_aces(
        Ace.of(DENIED, ANONYMOUS, 4),
        Ace(0x11, 0, b""),
        Ace.of(ALLOWED, ADMINISTRATORS, GENERIC_ALL),
    )
    assert entries(descriptor) == (
        Entry(ANONYMOUS, True, 4),
        Entry(ADMINISTRATORS, False, QUEUE_GENERIC_ALL),
    )
    null = SecurityDescriptor(ALICE).with_dacl(None)
    assert entries(null) == (Entry(EVERYONE, False, QUEUE_GENERIC_ALL),)
