"""Access control lists."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalSecurityDescriptor
from posthouse.security.acls import (
    ALLOWED,
    ALLOWED_CALLBACK,
    ALLOWED_OBJECT,
    DENIED,
    DENIED_OBJECT,
    INHERIT_ONLY,
    Ace,
    Acl,
    unpack_acl,
)
from posthouse.security.sids import ANONYMOUS, EVERYONE

from .strategies import acls


def object_ace(kind: int, present: int) -> Ace:
    guids = bytes(16) * present.bit_count()
    return Ace(kind, 0, struct.pack("<II", 0x4, present) + guids + EVERYONE)


def test_a_plain_entry_has_its_documented_layout() -> None:
    packed = Acl((Ace.of(ALLOWED, EVERYONE, 0x4),)).pack()
    assert packed.hex() == "02001c00010000000000140004000000010100000000000100000000"


@given(acls)
def test_every_list_survives_unpack_and_pack(acl: Acl) -> None:
    packed = acl.pack()
    assert unpack_acl(b"pad" + packed + b"behind", 3) == acl
    assert unpack_acl(packed, 0).pack() == packed


@given(acls)
def test_a_list_cut_anywhere_is_refused(acl: Acl) -> None:
    packed = acl.pack()
    for length in range(len(packed)):
        with pytest.raises(IllegalSecurityDescriptor):
            unpack_acl(packed[:length], 0)


@given(st.binary(max_size=64), st.integers(-4, 70))
def test_any_bytes_give_a_list_or_the_one_error(data: bytes, at: int) -> None:
    try:
        acl = unpack_acl(b"\x02" + data, at)
    except IllegalSecurityDescriptor:
        return
    assert acl.pack() == (b"\x02" + data)[at : at + len(acl.pack())]


def test_unknown_entries_have_neither_mask_nor_sid() -> None:
    ace = Ace(0x11, 0, b"odd")
    assert (ace.understood, ace.mask, ace.sid, ace.allows, ace.denies) == (
        False,
        0,
        b"",
        False,
        False,
    )


@pytest.mark.parametrize("present", [0, 1, 2, 3])
def test_the_sid_of_an_object_entry_stands_behind_its_guids(present: int) -> None:
    assert object_ace(ALLOWED_OBJECT, present).sid == EVERYONE


def test_an_entry_for_one_property_gives_nothing_but_still_denies() -> None:
    assert object_ace(ALLOWED_OBJECT, 0).allows
    assert object_ace(ALLOWED_OBJECT, 2).allows
    assert not object_ace(ALLOWED_OBJECT, 1).allows
    assert object_ace(DENIED_OBJECT, 1).denies


@pytest.mark.parametrize("kind", range(0x16))
def test_entry_types_have_the_numbers_of_the_document(kind: int) -> None:
    """[MS-DTYP] 2.4.4.1: what is given, what is taken, and what can be read at all."""
    plain, of_objects = (0, 1, 2, 9, 10, 13), (5, 6, 7, 11, 12, 15)
    ace = object_ace(kind, 0) if kind in of_objects else Ace.of(kind, EVERYONE, 4)
    assert ace.allows == (kind in (0, 5))
    assert ace.denies == (kind in (1, 6, 10, 12))
    assert ace.understood == (kind in plain + of_objects)
    assert (ace.mask, ace.sid) == ((4, EVERYONE) if ace.understood else (0, b""))


def test_a_conditional_entry_gives_nothing() -> None:
    assert not Ace.of(ALLOWED_CALLBACK, EVERYONE, 4).allows


def test_inherit_only_entries_do_not_count_here() -> None:
    assert not Ace.of(ALLOWED, EVERYONE, 4)._replace(flags=INHERIT_ONLY).allows
    assert not Ace.of(DENIED, EVERYONE, 4)._replace(flags=INHERIT_ONLY).denies


def test_a_known_entry_without_a_sid_is_refused() -> None:
    packed = Acl((Ace(ALLOWED, 0, bytes(4) + b"\x01\x0f"),)).pack()
    with pytest.raises(IllegalSecurityDescriptor):
        unpack_acl(packed, 0)


def test_a_list_beyond_its_size_field_is_refused() -> None:
    many = Acl(tuple(Ace.of(DENIED, ANONYMOUS, 1) for _ in range(4000)))
    with pytest.raises(IllegalSecurityDescriptor):
        many.pack()


@pytest.mark.parametrize("size", [0, 3, 21, 0xFFFF])
def test_an_entry_that_leaves_its_list_is_refused_though_bytes_follow(size: int) -> None:
    packed = bytearray(Acl((Ace.of(ALLOWED, EVERYONE, 4),)).pack() + bytes(70_000))
    struct.pack_into("<H", packed, 10, size)
    with pytest.raises(IllegalSecurityDescriptor):
        unpack_acl(bytes(packed), 0)
    struct.pack_into("<HH", packed, 2, 8, 1)
    with pytest.raises(IllegalSecurityDescriptor):
        unpack_acl(bytes(packed), 0)
