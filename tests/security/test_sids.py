"""Security identifiers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalSecurityDescriptor, RemoteProtocolError
from posthouse.security.sids import (
    ADMINISTRATORS,
    ANONYMOUS,
    AUTHENTICATED_USERS,
    EVERYONE,
    LOCAL_SYSTEM,
    PRINCIPALS,
    SID_SIZE_MAX,
    domain_sid,
    format_sid,
    is_guest,
    is_local_sid,
    is_sid,
    local_sid,
    make_sid,
    parse_sid,
    principal_word,
    relative_id,
    sub_authorities_of,
    unpack_sid,
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
    assert unpack_sid(sid + b"tail") == sid
    assert unpack_sid(b"xx" + sid, 2) == sid


@given(sids)
def test_a_sid_cut_anywhere_is_refused(sid: bytes) -> None:
    for length in range(len(sid)):
        assert not is_sid(sid[:length])
        with pytest.raises(RemoteProtocolError):
            unpack_sid(sid[:length])


@given(st.binary(max_size=90))
def test_any_bytes_give_a_sid_or_the_one_error(data: bytes) -> None:
    try:
        sid = unpack_sid(data)
    except RemoteProtocolError:
        return
    assert is_sid(sid)
    assert len(sid) <= SID_SIZE_MAX


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
    assert is_local_sid(sid, GUID)
    assert relative_id(sid) == 1000


def test_another_queue_manager_has_other_accounts() -> None:
    other = bytes(16)
    assert local_sid(GUID, 1000) != local_sid(other, 1000)
    assert not is_local_sid(local_sid(GUID, 1000), other)
    assert not is_local_sid(EVERYONE, GUID)


def test_local_sids_never_change() -> None:
    assert format_sid(local_sid(GUID, 1000)) == "S-1-5-21-650855870-3191258885-2223302333-1000"


def test_guest_is_known_by_its_relative_id() -> None:
    assert is_guest(local_sid(GUID, 501))
    assert not is_guest(local_sid(GUID, 1000))
    assert not is_guest(make_sid(5, 501))


def test_words_of_the_command_line_stand_for_sids() -> None:
    assert PRINCIPALS["users"] == AUTHENTICATED_USERS
    assert principal_word(EVERYONE) == "everyone"
    assert principal_word(LOCAL_SYSTEM) == ""
