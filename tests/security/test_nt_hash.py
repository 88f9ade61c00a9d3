"""NT hashes and their seal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import CorruptedSecurityData
from posthouse.security.nt_hash import nt_hash, nt_hash_of_account, open_nt_hash, seal_nt_hash

KEY, NONCE, SID = bytes(range(32)), bytes(range(12)), b"one account"
HASH = nt_hash("secret")


def test_known_hashes() -> None:
    assert nt_hash("").hex() == "31d6cfe0d16ae931b73c59d7e0c089c0"
    assert nt_hash("Password").hex() == "a4f49c406510bdcab6824ee7c30fd852"


def test_a_password_is_one_however_it_is_typed() -> None:
    assert nt_hash_of_account("gru\u0308n") == nt_hash_of_account("grün") == nt_hash("grün")


def test_lone_surrogates_have_a_hash_too() -> None:
    assert len(nt_hash("\ud800")) == 16


def test_a_seal_hides_and_gives_back() -> None:
    sealed = seal_nt_hash(HASH, KEY, NONCE, SID)
    assert HASH not in sealed
    assert open_nt_hash(sealed, KEY, SID) == HASH


def test_a_seal_is_good_for_one_account_and_one_key_file() -> None:
    sealed = seal_nt_hash(HASH, KEY, NONCE, SID)
    for key, sid in ((KEY, b"another"), (bytes(32), SID)):
        with pytest.raises(CorruptedSecurityData):
            open_nt_hash(sealed, key, sid)


def test_a_changed_octet_breaks_the_seal() -> None:
    sealed = seal_nt_hash(HASH, KEY, NONCE, SID)
    for at in range(len(sealed)):
        with pytest.raises(CorruptedSecurityData):
            open_nt_hash(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], KEY, SID)


@given(st.binary(max_size=64))
def test_any_bytes_are_no_seal(data: bytes) -> None:
    with pytest.raises(CorruptedSecurityData):
        open_nt_hash(data, KEY, SID)
