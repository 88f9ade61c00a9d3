"""Values of LDAP attributes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.ldap.names import BadEntry, Dn
from posthouse.directory.ldap.values import (
    OCTETS_MAX,
    TEXT_LENGTH_MAX,
    VALUES_MAX,
    LdapEntry,
    of_flag,
    of_number,
    of_octets,
    of_text,
    of_time,
    of_u32,
    parse_time,
)

HERE = Dn.parse("CN=x,DC=posthouse")


def entry(*values: bytes) -> LdapEntry:
    return LdapEntry(HERE, {"a": list(values)})


NOTHING = LdapEntry(HERE, {})


@given(st.integers(0, 0xFFFF_FFFF))
def test_numbers_of_32_bits_survive_as_signed_ones(number: int) -> None:
    written = of_u32(number)
    assert -0x8000_0000 <= int(written[0]) <= 0x7FFF_FFFF
    assert entry(*written).u32("A", 7) == number


def test_numbers_that_others_wrote_unsigned_are_read_as_well() -> None:
    assert entry(b"4294967295").u32("a", 0) == 0xFFFF_FFFF
    assert entry(b"-2147483648").u32("a", 0) == 0x8000_0000
    assert NOTHING.u32("a", 5) == NOTHING.number("a", 5) == 5
    assert entry(*of_number(-3)).number("a", 0) == -3


@pytest.mark.parametrize("text", [b"", b"x", b"1.5", b"+1", b"1" * 20, b"\xff", b" 1"])
def test_what_is_no_number_is_a_bad_entry(text: bytes) -> None:
    with pytest.raises(BadEntry):
        entry(text).number("a", 0)
    for beyond in (b"4294967296", b"-2147483649"):
        with pytest.raises(BadEntry):
            entry(beyond).u32("a", 0)


@pytest.mark.parametrize(("text", "flag"), [(b"TRUE", True), (b"0", False), (b"true", True)])
def test_flags(text: bytes, flag: bool) -> None:
    assert entry(text).flag("a") is flag
    assert entry(*of_flag(flag)).flag("a") is flag
    assert NOTHING.flag("a") is False
    with pytest.raises(BadEntry):
        entry(b"yes").flag("a")


@given(st.integers(0, 0xFFFF_FFFF))
def test_times_survive(utc_s: int) -> None:
    assert entry(*of_time(utc_s)).time_s("a") == utc_s


@pytest.mark.parametrize(
    ("text", "utc_s"),
    [
        ("19700101000000Z", 0),
        ("20240229120000.5Z", 1_709_208_000),
        ("20240229130000+0100", 1_709_208_000),
        ("2024022907-05", 1_709_208_000),
        ("19600101000000Z", 0),
    ],
)
def test_times_of_others_are_read(text: str, utc_s: int) -> None:
    assert parse_time(text) == utc_s


@given(st.text(max_size=24) | st.from_regex(r"[0-9]{10,14}(\.[0-9])?Z"))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        assert parse_time(text) >= 0
    except BadEntry:
        return


def test_identifiers_have_sixteen_bytes() -> None:
    assert entry(bytes(range(16))).guid("a", b"") == bytes(range(16))
    assert entry(bytes(16), bytes(16)).guids("a") == (bytes(16),)
    assert NOTHING.guid("a", b"none") == b"none"
    for call in (lambda: entry(b"short").guid("a", b""), lambda: entry(b"short").guids("a")):
        with pytest.raises(BadEntry):
            call()


def test_values_have_limits() -> None:
    for call in (
        lambda: entry(*[b"x"] * (VALUES_MAX + 1)).texts("a"),
        lambda: entry(b"x" * (TEXT_LENGTH_MAX + 1)).text("a"),
        lambda: entry(b"x" * (OCTETS_MAX + 1)).octets("a"),
        lambda: entry(b"\xff\xfe").text("a"),
    ):
        with pytest.raises(BadEntry):
            call()


def test_nothing_is_no_value() -> None:
    assert of_text("") == of_octets(b"") == []
    assert (NOTHING.text("a"), NOTHING.octets("a"), NOTHING.has("a")) == ("", b"", False)


def test_references_that_are_none_are_left_out() -> None:
    found = entry(b"CN=y,DC=posthouse", b"nonsense").dns("a")
    assert list(map(str, found)) == ["CN=y,DC=posthouse"]
