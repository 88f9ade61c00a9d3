"""Transaction tokens: believed with the key only, and refused with one code otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import TransactionEnlist
from posthouse.security.enlistment import (
    MAGIC,
    TOKEN_SIZE_MAX,
    EnlistmentToken,
    pack_token,
    parse_token,
)

KEY, OTHER_KEY = bytes(32), b"k" * 32
TOKEN = EnlistmentToken(b"c" * 16, "https://alpha:8816", b"t" * 16, 1_700_000_000)

guids = st.binary(min_size=16, max_size=16)
keys = st.binary(min_size=32, max_size=32)
tokens = st.builds(
    EnlistmentToken,
    guids,
    st.text(st.characters(max_codepoint=126, min_codepoint=33), max_size=512),
    guids,
    st.integers(0, 2**64 - 1),
)


@given(tokens, keys, keys)
def test_a_token_says_what_was_packed_to_holders_of_its_key(
    token: EnlistmentToken, key: bytes, other: bytes
) -> None:
    data = pack_token(token, key)
    assert len(data) <= TOKEN_SIZE_MAX
    read = parse_token(data)
    assert read.token == token
    assert read.accepts(key)
    assert read.accepts(other) == (key == other)


@given(tokens, st.data())
def test_a_token_that_was_touched_is_not_believed(
    token: EnlistmentToken, data: st.DataObject
) -> None:
    packed = bytearray(pack_token(token, KEY))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    try:
        read = parse_token(bytes(packed))
    except TransactionEnlist:
        return
    assert not read.accepts(KEY)


@given(st.binary(max_size=300) | st.binary(max_size=300).map((MAGIC + b"\x01").__add__))
def test_any_bytes_are_a_token_or_refused(data: bytes) -> None:
    try:
        read = parse_token(data)
    except TransactionEnlist:
        return
    assert not read.accepts(OTHER_KEY)


@pytest.mark.parametrize("cut", range(0, len(pack_token(TOKEN, KEY)), 7))
def test_a_token_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(TransactionEnlist):
        parse_token(pack_token(TOKEN, KEY)[:cut])


@pytest.mark.spec("MS-MQDMPR 3.1.4.6/4")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not one of this kind"),
        (bytes(72), "not one of this kind"),  # as a Windows propagation token begins
        (pack_token(TOKEN, KEY)[:4] + b"\x02" + pack_token(TOKEN, KEY)[5:], "version 2"),
        (pack_token(TOKEN, KEY) + b"\x00", "the length in the transaction token"),
        (pack_token(TOKEN, KEY).replace(b"alpha", b"alph\xff"), "address"),
    ],
)
def test_other_tokens_are_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(TransactionEnlist, match=why) as caught:
        parse_token(data)
    assert caught.value.code == 0xC00E0058
