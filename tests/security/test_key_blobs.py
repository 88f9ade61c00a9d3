"""PUBLICKEYBLOB, SIMPLEBLOB and what is computed from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.model.message_values import ENHANCED_PROVIDER
from posthouse.security.body_encryption import unwrap_key, wrap_key
from posthouse.security.key_blobs import (
    SESSION_KEY_ALGORITHMS,
    SimpleBlob,
    exchange_blob,
    pack_simple_blob,
    public_key_of,
    rsa_key,
    unpack_simple_blob,
)
from posthouse.security.keys import (
    KEY_EXCHANGE,
    KEY_SIGNATURE,
    ProviderKey,
    PublicKey,
    pack_public_key,
    unpack_public_key,
)
from tests.security.key_ring import BITS, private_key

AES256 = 0x6610


@pytest.mark.spec("MS-MQQB 2.4.1/1", "MS-MQQB 2.4.1/2", "MS-MQQB 2.4.1/3", "MS-MQQB 2.4.1/4")
def test_public_key_blob_is_constants_sizes_and_the_modulus_lowest_byte_first() -> None:
    key = private_key("alpha").public_key()
    blob = pack_public_key(public_key_of(key))
    assert blob[:12] == bytes.fromhex("06020000 00a40000 52534131")
    assert int.from_bytes(blob[12:16], "little") == BITS
    assert int.from_bytes(blob[16:20], "little") == 65537
    assert len(blob[20:]) == BITS // 8
    assert int.from_bytes(blob[20:], "little") == key.public_numbers().n
    assert rsa_key(unpack_public_key(blob)) == key


@pytest.mark.spec("MS-MQQB 2.4.1/4")
def test_modulus_of_another_length_than_it_says_is_refused() -> None:
    blob = pack_public_key(public_key_of(private_key("alpha").public_key()))
    for wrong in (blob[:-1], blob + b"\0"):
        with pytest.raises(RemoteProtocolError):
            unpack_public_key(wrong)


@pytest.mark.spec("MS-MQQB 2.4.2/1")
def test_simple_blob_is_a_head_the_cipher_the_key_kind_and_the_encrypted_key() -> None:
    blob = pack_simple_blob(SimpleBlob(AES256, b"\xab" * 128))
    assert blob == bytes.fromhex("01020000 10660000 00a40000") + b"\xab" * 128
    assert unpack_simple_blob(blob) == SimpleBlob(AES256, b"\xab" * 128)


@pytest.mark.spec("MS-MQQB 2.4.2/2")
@pytest.mark.parametrize("algorithm", [0x660E, 0x660F, 0x6610, 0x6602, 0x6801])
def test_simple_blob_names_one_of_five_ciphers(algorithm: int) -> None:
    assert algorithm in SESSION_KEY_ALGORITHMS
    blob = pack_simple_blob(SimpleBlob(algorithm, bytes(128)))
    assert unpack_simple_blob(blob).algorithm == algorithm


@pytest.mark.spec("MS-MQQB 2.4.2/2")
@given(st.integers(0, 0xFFFFFFFF))
def test_simple_blob_of_another_cipher_is_refused(algorithm: int) -> None:
    blob = pack_simple_blob(SimpleBlob(algorithm, bytes(128)))
    if algorithm not in SESSION_KEY_ALGORITHMS:
        with pytest.raises(MalformedPacket):
            unpack_simple_blob(blob)


@pytest.mark.spec("MS-MQQB 2.4.2/3", "MS-MQQB 2.4.2/4")
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_session_key_is_rsa_encrypted_lowest_byte_first_and_as_long_as_the_modulus(
    name: str,
) -> None:
    key = private_key(name)
    blob = wrap_key(AES256, b"k" * 32, key.public_key())
    encrypted = unpack_simple_blob(blob).encrypted_key
    assert len(encrypted) == BITS // 8
    numbers = key.private_numbers()
    opened = pow(int.from_bytes(encrypted, "little"), numbers.d, numbers.public_numbers.n)
    padded = opened.to_bytes(BITS // 8, "big")
    assert padded[:2] == b"\0\2"  # RSAES-PKCS1-v1_5, [RFC3447] 7.2
    assert padded.endswith(b"\0" + b"k" * 32)
    assert unwrap_key(blob, AES256, 32, key) == b"k" * 32


@pytest.mark.spec("MS-MQQB 3.1.7.1.5.2/1")
def test_directory_key_becomes_an_exchange_blob_with_the_same_numbers() -> None:
    number = public_key_of(private_key("alpha").public_key(), KEY_SIGNATURE)
    entry = ProviderKey(ENHANCED_PROVIDER, 1, pack_public_key(number))
    blob = exchange_blob(entry)
    assert unpack_public_key(blob) == number._replace(algorithm=KEY_EXCHANGE)
    assert blob[12:] == entry.blob[12:]


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda b: b"\1\2\0\0\x10\x66" + b))
def test_any_bytes_are_a_simple_blob_or_a_protocol_error(data: bytes) -> None:
    try:
        blob = unpack_simple_blob(data)
    except RemoteProtocolError:
        return
    assert pack_simple_blob(blob) == data


@given(st.integers(0, 0xFFFFFFFF), st.binary(min_size=1, max_size=300))
def test_any_numbers_are_a_key_or_a_protocol_error(exponent: int, modulus: bytes) -> None:
    try:
        key = rsa_key(PublicKey(KEY_EXCHANGE, 8 * len(modulus), exponent, modulus))
    except RemoteProtocolError:
        return
    assert key.public_numbers().e == exponent


def test_small_keys_need_the_weak_setting() -> None:
    small = PublicKey(KEY_EXCHANGE, 512, 65537, b"\xff" * 64)
    with pytest.raises(MalformedPacket):
        rsa_key(small)
    assert rsa_key(small, weak=True).key_size == 512
    with pytest.raises(MalformedPacket):
        rsa_key(PublicKey(KEY_EXCHANGE, 16_384, 65537, b"\xff" * 2048), weak=True)
