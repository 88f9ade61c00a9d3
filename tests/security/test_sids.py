"""Security identifiers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalSecurityDescriptor
from posthouse.security.sids import (
    ADMINISTRATORS,
    ANONYMOUS,
    AUTHENTICATED_USERS,
    EVERYONE,
    LOCAL_SYSTEM,
    PRINCIPALS,
    domain_sid,
    format_sid,
    is_sid,
    local_sid,
    make_sid,
    parse_sid,
    principal_word,
    sid_size_at,
    sub_authorities_of,
)

from .strategies import sids

GUID = bytes(range(16))


@pytest.mark.parametrize(
    ("sid", "text"),
    [
        (EVERYONE, "S-1-1-0"),
        (ANONYMOUS, "S-1-5-7"),
        (AUTHENTICATED_USERS, "S-1-5-11"),
        (LOCAL_SYSTEM, "S-1-5-18"),
        (ADMINISTRATORS, "S-1-5-32-544"),
        (make_sid(1 << 32, 7), "S-1-0x000100000000-7"),
        (make_sid((1 << 32) - 1), "S-1-4294967295"),
    ],
)
def test_text_and_bytes_name_the_same_sid(sid: bytes, text: str) -> None:
    assert format_sid(sid) == text
    assert parse_sid(text) == sid


def test_authority_is_big_endian_and_sub_authorities_little_endian() -> None:
    assert make_sid(5, 0x01020304).hex() == "010100000000000504030201"


@given(sids)
def test_every_sid_survives_text_and_bytes(sid: bytes) -> None:
    assert parse_sid(format_sid(sid)) == sid
    assert sid_size_at(sid + b"tail", 0, len(sid) + 4) == len(sid)
    assert sid_size_at(b"xx" + sid, 2, len(sid) + 2) == len(sid)


@given(sids)
def test_a_sid_cut_anywhere_is_refused(sid: bytes) -> None:
    for length in range(len(sid)):
        assert not is_sid(sid[:length])
        assert sid_size_at(sid, 0, length) == 0


@given(st.binary(max_size=90))
def test_any_bytes_are_a_sid_or_not(data: bytes) -> None:
    assert is_sid(data) is (0 < sid_size_at(data, 0, len(data)) == len(data))


@given(st.one_of(st.text(), st.from_regex(r"S-1(-[0-9]{1,11}){0,17}", fullmatch=True)))
def test_any_text_gives_a_sid_or_the_one_error(text: str) -> None:
    try:
        sid = parse_sid(text)
    except IllegalSecurityDescriptor:
        return
    assert is_sid(sid)


@pytest.mark.parametrize("text", ["", "S-1", "S-2-5", "S-1-5-", "S-1-5-4294967296", "S-1-5-٣"])
def test_text_that_is_no_sid_is_refused(text: str) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        parse_sid(text)


def test_sixteen_sub_authorities_are_refused() -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        parse_sid("S-1-5" + "-1" * 16)
    assert not is_sid(bytes([1, 16, 0, 0, 0, 0, 0, 5]) + bytes(64))


def test_local_accounts_share_the_domain_of_their_queue_manager() -> None:
    sid = local_sid(GUID, 1000)
    assert format_sid(sid).startswith(format_sid(domain_sid(GUID)) + "-1000")
    assert sub_authorities_of(sid)[0] == 21


def test_another_queue_manager_has_other_accounts() -> None:
    other = bytes(16)
    assert local_sid(GUID, 1000) != local_sid(other, 1000)


def test_local_sids_never_change() -> None:
    assert format_sid(local_sid(GUID, 1000)) == "S-1-5-21-650855870-3191258885-2223302333-1000"


def test_words_of_the_command_line_stand_for_sids() -> None:
    assert PRINCIPALS["users"] == AUTHENTICATED_USERS
    assert principal_word(EVERYONE) == "everyone"
    assert principal_word(LOCAL_SYSTEM) == ""
