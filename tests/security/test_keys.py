"""Key and certificate structures of the directory."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message_values import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    PROVIDER_NAMES,
)
from posthouse.security.keys import (
    CERTIFICATE_SIZE_MAX,
    KEY_BITS_MAX,
    KEY_EXCHANGE,
    KEY_SIGNATURE,
    KEYS_MAX,
    PROVIDER_OF_PRIVACY_LEVEL,
    PROVIDER_TYPE,
    ProviderKey,
    PublicKey,
    UserCertificate,
    certificate_digest,
    pack_provider_keys,
    pack_public_key,
    pack_user_certificates,
    unpack_provider_keys,
    unpack_public_key,
    unpack_user_certificates,
)

keys = st.builds(
    lambda algorithm, exponent, modulus: PublicKey(algorithm, 8 * len(modulus), exponent, modulus),
    st.sampled_from([KEY_EXCHANGE, KEY_SIGNATURE]),
    st.integers(0, 0xFFFFFFFF),
    st.binary(min_size=1, max_size=40),
)
provider_keys = st.builds(
    ProviderKey,
    st.one_of(
        st.sampled_from(PROVIDER_NAMES),
        st.text(st.characters(exclude_characters="\0"), max_size=20),
    ),
    st.integers(0, 0xFFFFFFFF),
    st.binary(max_size=40),
)
certificates = st.builds(
    UserCertificate.of, st.binary(max_size=40), st.binary(min_size=16, max_size=16)
)


@pytest.mark.parametrize(("bits", "size"), [(512, 84), (1024, 148), (2048, 276)])
def test_key_blobs_have_their_documented_size(bits: int, size: int) -> None:
    key = PublicKey(KEY_EXCHANGE, bits, 65537, b"\xab" * (bits // 8))
    blob = pack_public_key(key)
    assert len(blob) == size
    assert blob[:12].hex() == "0602000000a4000052534131"
    assert unpack_public_key(blob) == key


@given(keys)
def test_every_key_survives_and_no_cut_one_does(key: PublicKey) -> None:
    blob = pack_public_key(key)
    assert unpack_public_key(blob) == key
    for wrong in [blob[:cut] for cut in range(len(blob))] + [blob + b"\0"]:
        with pytest.raises(RemoteProtocolError):
            unpack_public_key(wrong)


@pytest.mark.parametrize(("at", "value"), [(0, 7), (4, 1), (8, 0), (12, 9), (15, 0xFF)])
def test_other_blobs_are_refused(at: int, value: int) -> None:
    blob = bytearray(pack_public_key(PublicKey(KEY_EXCHANGE, 64, 3, bytes(8))))
    blob[at] = value
    with pytest.raises(RemoteProtocolError):
        unpack_public_key(bytes(blob))


@pytest.mark.parametrize("bits", [0, 4, 63, KEY_BITS_MAX + 8, 1 << 31])
def test_a_key_of_impossible_length_is_refused_for_its_length(bits: int) -> None:
    blob = bytes.fromhex("0602000000a4000052534131") + bits.to_bytes(4, "little") + bytes(4)
    with pytest.raises(RemoteProtocolError, match=f"of {bits} bits"):
        unpack_public_key(blob + bytes(min(bits, KEY_BITS_MAX + 8) // 8))


def test_the_longest_key_is_accepted() -> None:
    key = PublicKey(KEY_SIGNATURE, KEY_BITS_MAX, 3, bytes(KEY_BITS_MAX // 8))
    blob = pack_public_key(key)
    assert blob[4:8].hex() == "00240000"
    assert unpack_public_key(blob) == key


@pytest.mark.spec("MS-MQDMPR 3.1.3/8")
def test_provider_names_are_nul_terminated_utf16() -> None:
    raw = pack_provider_keys([ProviderKey(BASE_PROVIDER, 1, b"blob")])
    name = (BASE_PROVIDER + "\0").encode("utf-16-le")
    assert raw == (
        (8 + 12 + len(name) + 4).to_bytes(4, "little")
        + (1).to_bytes(4, "little")
        + (4).to_bytes(4, "little")
        + len(name).to_bytes(4, "little")
        + (1).to_bytes(4, "little")
        + name
        + b"blob"
    )
    unterminated = raw.replace(name, name[:-2] + b"x\0")
    with pytest.raises(RemoteProtocolError):
        unpack_provider_keys(unterminated)


@given(st.lists(provider_keys, max_size=4))
def test_key_lists_survive_and_no_cut_one_does(entries: list[ProviderKey]) -> None:
    raw = pack_provider_keys(entries)
    assert unpack_provider_keys(raw) == tuple(entries)
    for wrong in [raw[:cut] for cut in range(1, len(raw))] + [raw + b"\0"]:
        with pytest.raises(RemoteProtocolError):
            unpack_provider_keys(wrong)


def test_a_list_whose_own_size_is_wrong_is_refused() -> None:
    raw = pack_provider_keys([ProviderKey("x", 1, b"")])
    for size in (len(raw) - 1, len(raw) + 1):
        with pytest.raises(RemoteProtocolError, match="wrong size"):
            unpack_provider_keys(size.to_bytes(4, "little") + raw[4:])


def test_a_list_has_a_limit_and_so_has_a_name() -> None:
    full = [ProviderKey("x" * 255, 1, b"")] * KEYS_MAX
    assert unpack_provider_keys(pack_provider_keys(full)) == tuple(full)
    with pytest.raises(RemoteProtocolError, match="too many keys"):
        unpack_provider_keys(pack_provider_keys([*full, full[0]]))
    with pytest.raises(RemoteProtocolError, match="name of 514 bytes"):
        unpack_provider_keys(pack_provider_keys([ProviderKey("x" * 256, 1, b"")]))
    nameless = bytes.fromhex("14000000 01000000 00000000 00000000 01000000")
    with pytest.raises(RemoteProtocolError, match="name of 0 bytes"):
        unpack_provider_keys(nameless)


def test_the_list_of_a_new_machine_is_empty() -> None:
    assert unpack_provider_keys(b"") == ()
    assert unpack_provider_keys(pack_provider_keys([])) == ()


def test_privacy_levels_choose_providers() -> None:
    assert PROVIDER_OF_PRIVACY_LEVEL == {1: BASE_PROVIDER, 3: ENHANCED_PROVIDER, 5: AES_PROVIDER}
    assert [PROVIDER_TYPE[name] for name in PROVIDER_NAMES] == [1, 1, 0x18]


@given(st.lists(certificates, max_size=4))
def test_certificate_lists_survive_and_no_cut_one_does(entries: list[UserCertificate]) -> None:
    raw = pack_user_certificates(entries)
    assert unpack_user_certificates(raw) == tuple(entries)
    for wrong in [raw[:cut] for cut in range(1, len(raw))] + [raw + b"\0"]:
        with pytest.raises(RemoteProtocolError):
            unpack_user_certificates(wrong)


@pytest.mark.spec("MS-MQDMPR 3.1.1.15/1")
def test_the_digest_of_a_certificate_is_its_md5() -> None:
    entry = UserCertificate.of(b"certificate")
    assert entry.digest == certificate_digest(b"certificate")
    assert entry.digest == hashlib.md5(b"certificate").digest()
    assert len(entry.digest) == 16


@given(st.binary(max_size=80))
def test_any_bytes_give_a_structure_or_the_one_error(data: bytes) -> None:
    for unpack in (unpack_public_key, unpack_provider_keys, unpack_user_certificates):
        try:
            unpack(data)
        except RemoteProtocolError:
            continue
        assert unpack(data) == unpack(data)


def test_counts_beyond_any_real_list_are_refused_at_once() -> None:
    with pytest.raises(RemoteProtocolError):
        unpack_user_certificates(b"\xff\xff\xff\xff" + bytes(100))
    with pytest.raises(RemoteProtocolError):
        unpack_provider_keys((108).to_bytes(4, "little") + b"\xff\xff\xff\xff" + bytes(100))


def test_a_certificate_has_a_limit() -> None:
    largest = pack_user_certificates([UserCertificate.of(bytes(CERTIFICATE_SIZE_MAX))])
    assert len(unpack_user_certificates(largest)) == 1
    with pytest.raises(RemoteProtocolError, match="certificate of 1048577 bytes"):
        unpack_user_certificates(
            pack_user_certificates([UserCertificate.of(bytes(CERTIFICATE_SIZE_MAX + 1))])
        )
