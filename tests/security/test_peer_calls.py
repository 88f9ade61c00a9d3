"""Signed calls between queue managers and their signed answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import AccessDenied, MalformedPacket
from posthouse.security.peer_calls import (
    CALL_WINDOW_S,
    PREFIX,
    PeerCall,
    Reply,
    Verb,
    check_reply,
    parse_call,
    sign_call,
    sign_reply,
)

KEY, OTHER_KEY = bytes(32), b"k" * 32
NOW = 1_700_000_000
ALPHA, BETA = b"a" * 16, b"b" * 16
CALL = PeerCall(Verb.PREPARE, ALPHA, BETA, b"t" * 16, NOW, b"nonce 12")

guids = st.binary(min_size=16, max_size=16)
calls = st.builds(
    PeerCall,
    st.sampled_from(Verb),
    guids,
    guids,
    guids,
    st.integers(0, 2**40),
    st.binary(min_size=8, max_size=8),
)


@given(calls)
def test_a_call_says_what_was_signed(call: PeerCall) -> None:
    text = sign_call(call, KEY)
    assert text.isascii()
    assert text.isprintable()
    read = parse_call(text)
    assert read.call == call
    assert read.accepts(KEY, call.receiver, call.issued_s)
    assert not read.accepts(OTHER_KEY, call.receiver, call.issued_s)


@pytest.mark.parametrize("late", [-CALL_WINDOW_S, CALL_WINDOW_S])
def test_a_call_is_good_for_its_receiver_and_its_time_only(late: int) -> None:
    read = parse_call(sign_call(CALL, KEY))
    assert read.accepts(KEY, BETA, NOW + late)
    assert not read.accepts(KEY, ALPHA, NOW)
    assert not read.accepts(KEY, BETA, NOW + late + (1 if late > 0 else -1))


@given(st.data())
def test_a_call_that_was_touched_is_refused(data: st.DataObject) -> None:
    text = sign_call(CALL, KEY)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda c: c != text[at]))
    try:
        read = parse_call(text[:at] + other + text[at + 1 :])
    except AccessDenied:
        return
    assert not read.accepts(KEY, BETA, NOW)


@given(st.text(max_size=200) | st.text("AZaz09-_", max_size=200).map(PREFIX.__add__))
def test_any_text_is_a_call_or_refused(text: str) -> None:
    with pytest.raises(AccessDenied):
        parse_call(text)


@pytest.mark.parametrize("reply", Reply)
def test_an_answer_belongs_to_its_call_and_its_key(reply: Reply) -> None:
    text = sign_call(CALL, KEY)
    answer = sign_reply(parse_call(text), reply, KEY)
    assert check_reply(text, f"{answer}\n", KEY) is reply
    again = sign_call(CALL._replace(nonce=b"nonce 13"), KEY)
    for call, key in ((again, KEY), (text, OTHER_KEY)):
        with pytest.raises(MalformedPacket):
            check_reply(call, answer, key)


@given(st.text(max_size=80))
def test_any_other_text_is_no_answer(text: str) -> None:
    with pytest.raises(MalformedPacket):
        check_reply(sign_call(CALL, KEY), text, KEY)
