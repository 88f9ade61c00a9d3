"""RSA padding as an oracle (Bleichenbacher): nothing shows whether a forged key had right padding.

An attacker has a captured session key, encrypted for us, and sends messages with changed ones. Each
answer, each count of what was done for it, and each repetition has to look alike.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from posthouse.model.message import Message, MessageId
from posthouse.model.message_classes import NACK_BAD_ENCRYPTION
from posthouse.model.message_values import AES_PROVIDER, ENHANCED_PROVIDER, PrivacyLevel
from posthouse.model.names import PrivateName
from posthouse.security import message_security
from posthouse.security.body_encryption import _rsa_decrypted
from posthouse.security.key_blobs import SimpleBlob, pack_simple_blob, unpack_simple_blob
from posthouse.security.message_security import MessageSecurity, Verified
from posthouse.security.providers import RC2, RC4
from posthouse.security.settings import MessageSecuritySettings
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.optional_headers import Provider
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.protection import with_protection
from tests.security.key_ring import MemoryRing, private_key, provider_key

ALPHA, BETA = b"A" * 16, b"B" * 16
AES256, SIZE = 0x6610, 32
CHANCE = Random(7)


class CountingKey:
    """Our private key. `strict` fails on wrong padding, as OpenSSL did before version 3.2."""

    def __init__(self, key: RSAPrivateKey, *, strict: bool) -> None:
        self.key, self.strict = key, strict
        self.key_size = key.key_size
        self.calls = 0

    def decrypt(self, data: bytes, padding: Any) -> bytes:
        self.calls += 1
        if self.strict and not is_padded(raw(self.key, data)):
            raise ValueError("Decryption failed")
        return self.key.decrypt(data, padding)


def raw(key: RSAPrivateKey, data: bytes) -> bytes:
    """RSA without any padding."""
    numbers = key.private_numbers()
    n = numbers.public_numbers.n
    return pow(int.from_bytes(data), numbers.d, n).to_bytes(key.key_size // 8)


def is_padded(block: bytes) -> bool:
    return block[:2] == b"\0\2" and block.find(b"\0", 2) >= 10


def encrypted(block: bytes) -> bytes:
    """A block that the attacker has chosen, under our public key."""
    numbers = private_key("own").public_key().public_numbers()
    return pow(int.from_bytes(block), numbers.e, numbers.n).to_bytes(len(block))


def blob_of(block: bytes, algorithm: int = AES256) -> bytes:
    return pack_simple_blob(SimpleBlob(algorithm, encrypted(block)[::-1]))


def padded(key: bytes, size: int) -> bytes:
    filler = bytes(CHANCE.randrange(1, 256) for _ in range(size - 3 - len(key)))
    return b"\0\2" + filler + b"\0" + key


class Forged(NamedTuple):
    """Blocks with wrong padding, and right ones with a key of another length."""

    wrong: list[bytes]
    other_length: list[bytes]


def forged(count: int) -> Forged:
    size = private_key("own").key_size // 8
    wrong = [
        block
        for _ in range(count)
        for block in (
            b"\0\1" + padded(b"k" * SIZE, size)[2:],
            b"\0\2" + bytes(CHANCE.randrange(1, 256) for _ in range(size - 2)),  # no end
            b"\0" + CHANCE.randbytes(size - 1),
            b"\0\2abc\0" + CHANCE.randbytes(size - 6),  # too short a filler
        )
        if not is_padded(block)
    ]
    return Forged(wrong, [padded(CHANCE.randbytes(at % 24), size) for at in range(count)])


class Oracle:
    """ALPHA, to whom the attacker sends; what it does is counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, strict: bool, **settings: Any) -> None:
        ring = MemoryRing()
        self.key = CountingKey(private_key("own"), strict=strict)
        ring.private_key = lambda provider: self.key  # type: ignore[assignment,method-assign,return-value]
        chosen = MessageSecuritySettings(**settings)
        self.security = MessageSecurity(ring, Random(3).randbytes, chosen)
        self.decrypted: list[tuple[int, int]] = []
        decrypt = message_security.decrypt

        def counted(algorithm: int, key: bytes, body: bytes) -> bytes:
            self.decrypted.append((algorithm, len(key)))
            return decrypt(algorithm, key, body)

        monkeypatch.setattr(message_security, "decrypt", counted)
        sender = MemoryRing()
        sender.published[ALPHA] = [provider_key(AES_PROVIDER, "own")]
        packet = serialize(
            Message(
                body=b"secret",
                identifier=MessageId(BETA, 1),
                source_machine_identifier=BETA,
                destination_queue_format_name=str(PrivateName(ALPHA, 9)),
                privacy_level=PrivacyLevel.ADVANCED,
            )
        )
        self.sealed = MessageSecurity(sender, Random(4).randbytes).seal(
            packet, summarize(packet), 0
        )

    def ask(self, blob: bytes) -> Verified:
        view = Packet(self.sealed)
        assert view.security is not None
        assert view.properties is not None
        security = view.security._replace(encryption_key=blob)
        data = with_protection(self.sealed, view.summary, security, view.properties)
        return self.security.open(data, summarize(data), 0)

    @property
    def own_blob(self) -> bytes:
        view = Packet(self.sealed)
        assert view.security is not None
        return view.security.encryption_key


@pytest.fixture(params=[False, True], ids=["openssl", "old openssl"])
def oracle(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Oracle:
    return Oracle(monkeypatch, strict=request.param)


def test_forged_keys_get_one_answer_after_the_same_work(oracle: Oracle) -> None:
    blocks = forged(4)
    answers = set()
    for block in (*blocks.wrong, *blocks.other_length):
        before = oracle.key.calls, len(oracle.decrypted)
        verdict = oracle.ask(blob_of(block))
        answers.add((verdict.refusal, verdict.reason))
        assert (oracle.key.calls - before[0], len(oracle.decrypted) - before[1]) == (1, 1)
    assert answers == {(NACK_BAD_ENCRYPTION, "the body cannot be decrypted")}
    assert set(oracle.decrypted) == {(AES256, SIZE)}


def test_a_second_message_with_the_same_key_does_the_same_whatever_the_key(oracle: Oracle) -> None:
    """A key that is remembered saves the work of RSA: a bad one has to save it, too."""
    blocks = forged(2)
    for blob in (oracle.own_blob, *map(blob_of, blocks.wrong + blocks.other_length)):
        first = oracle.ask(blob)
        calls = oracle.key.calls
        assert oracle.ask(blob)._replace(packet=b"", seen=first.seen) == first._replace(packet=b"")
        assert oracle.key.calls == calls
    assert oracle.ask(oracle.own_blob).refusal is None


@pytest.mark.parametrize("strict", [False, True], ids=["openssl", "old openssl"])
def test_wrong_padding_gives_keys_of_all_lengths(strict: bool) -> None:
    """So a key of the right length says nothing of the padding: most of them are made up."""
    key: Any = CountingKey(private_key("own"), strict=strict)
    found = [_rsa_decrypted(key, encrypted(block), b"s" * 32) for block in forged(15).wrong]
    lengths = {len(one) for one in found}
    assert len(lengths) > len(found) // 3
    assert max(lengths) <= key.key_size // 8 - 11
    assert key.calls == len(found)


def test_what_is_made_up_for_a_blob_is_always_the_same_and_ours_alone() -> None:
    key: Any = CountingKey(private_key("own"), strict=True)
    data = encrypted(forged(1).wrong[0])
    made_up = [_rsa_decrypted(key, data, secret.to_bytes(32)) for secret in (0, 1, 2, 0)]
    assert made_up[0] == made_up[3]
    assert len(set(made_up)) == 3


def test_a_key_of_40_bits_is_refused_after_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = Oracle(monkeypatch, strict=False)
    size = private_key("own").key_size // 8
    view = Packet(oracle.sealed)
    assert view.properties is not None
    assert view.security is not None
    properties = view.properties._replace(
        encryption_algorithm=RC2, privacy_level=PrivacyLevel.ENHANCED
    )
    provider = Provider(1, ENHANCED_PROVIDER)
    for key, reason in ((b"12345" + bytes(11), "an RC2 key of 40 bits"), (b"short", "the body")):
        security = view.security._replace(
            encryption_key=blob_of(padded(key, size), RC2), provider=provider
        )
        data = with_protection(oracle.sealed, view.summary, security, properties)
        verdict = oracle.security.open(data, summarize(data), 0)
        assert verdict.refusal == NACK_BAD_ENCRYPTION
        assert verdict.reason.startswith(reason)
    assert oracle.decrypted == [(RC2, 16)] * 2
    assert oracle.key.calls == 2


def test_weak_ciphers_are_off_by_default() -> None:
    settings = MessageSecuritySettings()
    assert settings.reject_40_bit_rc2
    assert not settings.weak_algorithms
    assert settings.preferred_enhanced_algorithm == RC4  # with 128 bits and a key for each message
    assert unpack_simple_blob(blob_of(forged(1).wrong[0])).algorithm == AES256
