"""Trusted queue managers: names, addresses, keys that nobody gets to see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalPropertyValue, MalformedPacket, QueueError
from posthouse.security.peers import (
    KEY_SIZE,
    Peer,
    check_url,
    decode_peer,
    encode_peer,
    key_text,
    parse_key,
    peer_key,
)

GUID = bytes(range(16))
KEY = bytes(range(32))


def peer(**values: object) -> Peer:
    standard = {"name": "BETA", "guid": GUID, "url": "https://beta:8816", "key": KEY}
    return Peer(**standard | values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("http://beta", "http://beta:8816"),
        ("HTTPS://Beta.Example.COM:9000/", "https://beta.example.com:9000"),
        ("http://127.0.0.1:80", "http://127.0.0.1:80"),
        ("http://[::1]:8816", "http://[::1]:8816"),
    ],
)
def test_an_address_has_one_plain_form(text: str, plain: str) -> None:
    assert check_url(text) == check_url(check_url(text)) == plain


@pytest.mark.parametrize(
    "text",
    [
        "",
        "beta:8816",
        "ftp://beta",
        "http://",
        "http://user:word@beta",
        "http://@beta",
        "http://beta/api",
        "http://beta?x",
        "http://beta#x",
        "http://beta:port",
        "http://beta:99999",
        "http://be ta",
        "http://be\nta",
        "http://[::1",
        "http://bèta",
        "http://" + "b" * 600,
    ],
)
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(QueueError, match="not an address"):
        check_url(text)


@given(st.text(max_size=80) | st.text(max_size=40).map("http://".__add__))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        plain = check_url(text)
    except QueueError:
        return
    assert check_url(plain) == plain


@pytest.mark.parametrize(
    "values",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "a" * 65},
        {"guid": bytes(16)},
        {"guid": b"short"},
        {"key": b"short"},
        {"url": "https://BETA:8816"},
    ],
)
def test_an_impossible_peer_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(QueueError):
        peer(**values).checked()


def test_a_peer_is_kept_and_read_back() -> None:
    assert decode_peer(encode_peer(peer())) == peer().checked()
    assert peer_key("Beta") == peer_key("BETA")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_malformed(data: bytes) -> None:
    try:
        decode_peer(data)
    except MalformedPacket:
        return


def test_a_key_shows_in_no_text_of_its_peer() -> None:
    shown = " ".join(map(str, peer().__rich_repr__()))
    for text in (repr(peer()), str(peer()), f"{peer()}", repr([peer()]), shown):
        assert KEY.hex() not in text
        assert repr(KEY)[2:-1] not in text
        assert "BETA" in text


@given(st.binary(min_size=KEY_SIZE, max_size=KEY_SIZE))
def test_a_key_is_carried_as_text(key: bytes) -> None:
    assert parse_key(f" {key_text(key)}\n") == key


@given(st.text(max_size=80))
def test_any_other_text_is_no_key_and_is_not_repeated(text: str) -> None:
    with pytest.raises(IllegalPropertyValue) as caught:
        parse_key("x" + text)
    assert not text or len(text) < 5 or text not in str(caught.value)
