"""Ciphers and session keys."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.security.body_encryption import (
    CannotOpen,
    decrypt,
    encrypt,
    make_session_key,
    unwrap_key,
    uses_40_bits,
    wrap_key,
)
from posthouse.security.providers import (
    AES,
    AES128,
    AES192,
    AES256,
    BASE,
    ENHANCED,
    PROVIDERS,
    RC2,
    RC4,
    CryptoProvider,
    provider_of_level,
)
from tests.security.key_ring import private_key

PAIRS = [
    (provider, algorithm) for provider in PROVIDERS.values() for algorithm in provider.key_sizes
]


def counting(size: int) -> bytes:
    return bytes(range(1, size + 1))


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/22", "MS-MQQB 3.1.7.1.5/14")
@pytest.mark.parametrize(
    ("algorithm", "size", "block"),
    [
        (AES128, 16, "69c4e0d86a7b0430d8cdb78070b4c55a"),  # [FIPS197] appendix C
        (AES192, 24, "dda97ca4864cdfe06eaf70a0ec0d7191"),
        (AES256, 32, "8ea2b7ca516745bfeafc49904b496089"),
    ],
)
def test_aes_is_cbc_with_a_zero_vector(algorithm: int, size: int, block: str) -> None:
    key = bytes(range(size))
    plain = bytes.fromhex("00112233445566778899aabbccddeeff")
    first = bytes.fromhex(block)
    # The second block is chained: with the first as its vector it is again the same plaintext.
    second = bytes(a ^ b for a, b in zip(plain, first, strict=True))
    sealed = encrypt(algorithm, key, plain + second)
    assert sealed[:32] == first + first
    assert decrypt(algorithm, key, sealed) == plain + second


def test_rc2_uses_all_bits_of_its_key() -> None:
    key = bytes.fromhex("88bca90e90875a7f0f79c384627bafb2")  # [RFC2268] 5
    assert encrypt(RC2, key, bytes(8))[:8].hex() == "2269552ab0f85ca6"


@pytest.mark.parametrize(
    ("size", "stream"),
    [(5, "b2396305f03dc027ccc3524a0a1118a8"), (16, "9ac7cc9a609d1ef7b2932899cde41b97")],
)
def test_rc4_gives_the_published_stream(size: int, stream: str) -> None:
    assert encrypt(RC4, counting(size), bytes(16)).hex() == stream  # [RFC6229] 2


@given(st.sampled_from(PAIRS), st.data(), st.binary(max_size=200))
def test_every_cipher_of_every_provider_round_trips(
    pair: tuple[CryptoProvider, int], data: st.DataObject, body: bytes
) -> None:
    provider, algorithm = pair
    size = provider.key_sizes[algorithm]
    key = data.draw(st.binary(min_size=size, max_size=size))
    sealed = encrypt(algorithm, key, body)
    assert decrypt(algorithm, key, sealed) == body
    if algorithm != RC4:
        assert len(sealed) > len(body)  # PKCS #5 padding is never empty


@given(st.sampled_from(PAIRS), st.binary(max_size=200))
def test_any_bytes_decrypt_or_cannot_be_opened(
    pair: tuple[CryptoProvider, int], body: bytes
) -> None:
    provider, algorithm = pair
    with suppress(CannotOpen):
        assert len(decrypt(algorithm, counting(provider.key_sizes[algorithm]), body)) <= len(body)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/8", clause="strengths")
@pytest.mark.spec("MS-MQQB 3.1.7.1.5/8")
def test_session_keys_have_the_length_of_their_cipher() -> None:
    for provider, algorithm, bits in (
        (AES, AES256, 256),
        (AES, AES192, 192),
        (AES, AES128, 128),
        (ENHANCED, RC2, 128),
        (ENHANCED, RC4, 128),
    ):
        assert len(make_session_key(provider, algorithm, counting)) * 8 == bits
    assert set(BASE.key_sizes.values()) == {40 // 8}


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/13", "MS-MQQB 3.1.1.3/3", "MS-MQQB 3.1.3.1/8")
def test_rc2_keys_of_which_only_40_bits_count_are_not_made() -> None:
    drawn = [b"12345" + bytes(11), b"12345" + bytes(10) + b"\1"]
    assert (
        make_session_key(ENHANCED, RC2, lambda size: drawn.pop(0)) == b"12345" + bytes(10) + b"\1"
    )
    assert not drawn
    assert uses_40_bits(b"12345" + bytes(11))


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/16", "MS-MQMQ 2.2.19.3/6")
def test_privacy_levels_name_their_providers() -> None:
    names = [getattr(provider_of_level(level), "name", None) for level in range(7)]
    assert names == [None, BASE.name, None, ENHANCED.name, None, AES.name, None]


@given(st.binary(max_size=200))
def test_any_bytes_unwrap_to_a_key_or_to_nothing(data: bytes) -> None:
    assert unwrap_key(data, AES256, 32, private_key("alpha")) is None


def test_key_for_another_receiver_cipher_or_length_is_none() -> None:
    blob = wrap_key(AES256, b"k" * 32, private_key("alpha").public_key())
    assert unwrap_key(blob, AES256, 32, private_key("alpha")) == b"k" * 32
    assert unwrap_key(blob, AES192, 32, private_key("alpha")) is None
    assert unwrap_key(blob, AES256, 24, private_key("alpha")) is None
    assert unwrap_key(blob, AES256, 32, private_key("beta")) != b"k" * 32
