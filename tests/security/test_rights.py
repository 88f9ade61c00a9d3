"""Access masks and their words."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InvalidParameter
from posthouse.security import rights
from posthouse.security.rights import (
    CONNECTED_NETWORK,
    ENTERPRISE,
    GENERIC_ALL,
    GENERIC_READ,
    GENERIC_WRITE,
    MACHINE,
    QUEUE,
    QUEUE_GENERIC_ALL,
    RIGHTS,
    SITE,
    format_rights,
    parse_rights,
    rights_words,
)


@pytest.mark.parametrize(
    ("words", "mask"),
    [
        ("send", 0x4),
        ("peek", 0x2),
        ("purge", 0x1),
        ("receive", 0x3),
        ("properties", 0x30),
        ("full", 0xF003F),
        (" Send , PEEK", 0x6),
    ],
)
def test_words_stand_for_masks(words: str, mask: int) -> None:
    assert parse_rights(words) == mask


def test_receive_includes_peek_and_purge_and_no_other_right_includes_another() -> None:
    assert parse_rights("receive") == parse_rights("peek,purge")
    assert not parse_rights("peek") & parse_rights("purge,send")
    assert not parse_rights("send") & parse_rights("receive,properties")


def test_largest_words_are_printed() -> None:
    assert format_rights(0x3) == "receive"
    assert format_rights(0x2002B) == "receive,get-properties,journal,get-permissions"
    assert format_rights(QUEUE_GENERIC_ALL) == "full"
    assert format_rights(GENERIC_ALL) == "full"
    assert format_rights(0) == "none"
    assert rights_words(0x100004) == ("send", "0x100000")


@given(st.integers(0, QUEUE_GENERIC_ALL).map(lambda mask: mask & QUEUE_GENERIC_ALL))
def test_every_queue_mask_is_printed_and_read_back(mask: int) -> None:
    if mask:
        assert parse_rights(format_rights(mask)) == mask


def test_every_queue_bit_has_a_word_of_its_own() -> None:
    single = {mask for mask in RIGHTS.values() if mask.bit_count() == 1}
    assert sum(single) == QUEUE_GENERIC_ALL


@given(st.text())
def test_any_text_gives_a_mask_or_the_one_error(text: str) -> None:
    with contextlib.suppress(InvalidParameter):
        assert parse_rights(text) & ~QUEUE_GENERIC_ALL == 0


def test_an_unknown_right_names_the_nearest() -> None:
    with pytest.raises(InvalidParameter, match="receive"):
        parse_rights("recieve")


@pytest.mark.parametrize(
    ("masks", "all_", "read", "write"),
    [
        (QUEUE, 0xF003F, 0x2002B, 0x20024),
        (MACHINE, 0xF00F7, 0x200E3, 0x20024),
        (SITE, 0xF0037, 0x20020, 0x20024),
        (ENTERPRISE, 0xF0037, 0x20021, 0x20027),
        (CONNECTED_NETWORK, 0xF0031, 0x20020, 0),
    ],
)
def test_generic_rights_map_to_the_sums_of_the_kind(
    masks: rights.AccessMasks, all_: int, read: int, write: int
) -> None:
    assert masks.mapped(GENERIC_ALL) == all_
    assert masks.mapped(GENERIC_READ) == read
    assert masks.mapped(GENERIC_WRITE | 0x10) == write | 0x10
    assert masks.mapped(rights.GENERIC_EXECUTE) == 0
    assert masks.mapped(0x5) == 0x5
    assert masks.allows(read | write | GENERIC_ALL)
    assert not masks.allows(0x100000)


BITS = {
    "DELETE_MESSAGE PEEK_MESSAGE WRITE_MESSAGE DELETE_JOURNAL_MESSAGE "
    "SET_QUEUE_PROPERTIES GET_QUEUE_PROPERTIES": (0, 1, 2, 3, 4, 5),
    "DELETE_QUEUE GET_QUEUE_PERMISSIONS CHANGE_QUEUE_PERMISSIONS TAKE_QUEUE_OWNERSHIP": (
        16,
        17,
        18,
        19,
    ),
    "DELETE_DEADLETTER_MESSAGE PEEK_DEADLETTER_MESSAGE CREATE_QUEUE SET_MACHINE_PROPERTIES "
    "GET_MACHINE_PROPERTIES DELETE_JOURNAL_QUEUE_MESSAGE "
    "PEEK_JOURNAL_QUEUE_MESSAGE": (0, 1, 2, 4, 5, 6, 7),
    "DELETE_MACHINE GET_MACHINE_PERMISSIONS CHANGE_MACHINE_PERMISSIONS TAKE_MACHINE_OWNERSHIP": (
        16,
        17,
        18,
        19,
    ),
    "CREATE_FRS CREATE_BSC CREATE_MACHINE SET_SITE_PROPERTIES GET_SITE_PROPERTIES": (0, 1, 2, 4, 5),
    "CREATE_USER CREATE_SITE CREATE_CN SET_ENTERPRISE_PROPERTIES GET_ENTERPRISE_PROPERTIES": (
        0,
        1,
        2,
        4,
        5,
    ),
    "CN_OPEN_CONNECTOR SET_CN_PROPERTIES GET_CN_PROPERTIES": (0, 4, 5),
    "ACCESS_SYSTEM_SECURITY MAXIMUM_ALLOWED "
    "GENERIC_ALL GENERIC_EXECUTE GENERIC_WRITE GENERIC_READ": (24, 25, 28, 29, 30, 31),
}


@pytest.mark.parametrize("names", BITS)
def test_every_right_is_the_bit_of_its_table(names: str) -> None:
    """[MS-MQMQ] 2.2.23 to 2.2.27 and [MS-DTYP] 2.4.3."""
    assert [getattr(rights, name) for name in names.split()] == [1 << bit for bit in BITS[names]]


def test_sums_are_what_the_bits_add_up_to() -> None:
    assert rights.RECEIVE_DEADLETTER_MESSAGE == 0x3
    assert rights.RECEIVE_JOURNAL_MESSAGE == 0xA
    assert rights.RECEIVE_JOURNAL_QUEUE_MESSAGE == 0xC0
    assert rights.MACHINE_WORLD_RIGHTS == rights.GET_MACHINE_PROPERTIES | rights.READ_CONTROL
    assert sum(1 << bit for bit in (0, 1, 2, 3, 4, 5, 16, 17, 18, 19)) == QUEUE_GENERIC_ALL
