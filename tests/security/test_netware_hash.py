"""NetWare's keyed login (qms-facts 4.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import CorruptedSecurityData
from posthouse.security.netware_hash import (
    answers_to,
    keyed_answer,
    netware_hash,
    open_netware_hash,
    password_hash,
    seal_netware_hash,
)

KEY = b"12345678"
VECTORS = [
    (0x00010001, "", "72cab55bc906160883fd558488916bd9", "d79efad569dbc023"),
    (0x00010001, "SECRET", "2fac59e760a43e37553aa5ced46033ff", "5835dbc77f24a30a"),
    (0x00010001, "ABC", "c6382a860c58a8484564f7730030777a", "8aec6785aca213d1"),
    (0x00000001, "", "4ad22a173e5984b681545a08bee44ce3", "1870aa0965edf55a"),
    (0x00010007, "", "3e4762d00df6995cf5ee66899f2d6683", "cb16ad9e595619e8"),
]


@pytest.mark.spec("NCP 0x17/2")
@pytest.mark.parametrize(("object_id", "password", "verifier", "answer"), VECTORS)
def test_hashes_and_answers_are_those_of_real_clients(
    object_id: int, password: str, verifier: str, answer: str
) -> None:
    assert password_hash(object_id, password).hex() == verifier
    assert keyed_answer(KEY, bytes.fromhex(verifier)).hex() == answer


def test_letters_of_a_password_have_no_case() -> None:
    assert password_hash(7, "secret") == password_hash(7, "SECRET")


@given(st.binary(max_size=100), st.binary(min_size=4, max_size=4))
def test_every_text_has_a_hash_of_sixteen_bytes(text: bytes, salt: bytes) -> None:
    assert len(netware_hash(salt, text)) == 16
    assert netware_hash(salt, text + b"\0") == netware_hash(salt, text)


@given(st.text(max_size=70), st.binary(min_size=8, max_size=8))
def test_only_the_right_answer_is_accepted(password: str, key: bytes) -> None:
    verifier = password_hash(5, password)
    answer = keyed_answer(key, verifier)
    assert answers_to(key, verifier, answer)
    assert not answers_to(key, verifier, bytes(7) + bytes([answer[7] ^ 1]))


def test_a_sealed_hash_opens_for_its_owner_only() -> None:
    value, key = password_hash(5, "x"), bytes(32)
    sealed = seal_netware_hash(value, key, bytes(12), b"one")
    assert open_netware_hash(sealed, key, b"one") == value
    for owner, with_key, data in (
        (b"two", key, sealed),
        (b"one", bytes(31) + b"x", sealed),
        (b"one", key, sealed[:-1]),
        (b"one", key, b""),
    ):
        with pytest.raises(CorruptedSecurityData):
            open_netware_hash(data, with_key, owner)
