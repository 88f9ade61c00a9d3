"""What a signature covers, and that it does."""

import hashlib

import pytest
from Cryptodome.Hash import MD2, MD4
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.model.message import Message, MessageId
from posthouse.security.signing import (
    SignatureKind,
    hash_input,
    may_sign_with,
    may_verify_with,
    sign,
    verify,
)
from posthouse.wire.layout import encode_text
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from tests.security.key_ring import private_key
from tests.support.signed_samples import ADDRESS, SOURCE, private, sample
from tests.wire.strategies import messages

KINDS = tuple(SignatureKind)
STRONG = [0x8004, 0x800C, 0x800E]
WEAK = [0x8001, 0x8002, 0x8003]


def packet(**fields: object) -> Packet:
    return Packet(serialize(sample(**fields)))


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/7")
def test_hash_input_is_the_fields_in_the_order_of_the_reference() -> None:
    lists = ("DIRECT=OS:a\\private$\\x", "DIRECT=OS:b\\private$\\y")
    view = packet(destination_multi_queue_format_name=lists)
    first = (
        ADDRESS
        + (9).to_bytes(4, "little")
        + bytes.fromhex("04030201")
        + b"<order/>"
        + encode_text("order")
        + encode_text("DIRECT=OS:alpha\\private$\\answers")
        + encode_text(private(SOURCE, 4))
    )
    later = SOURCE + bytes((1, 5, 2, 5, 0, 0, 8, 0, 0, 0)) + b"c" * 16
    assert hash_input(view, SignatureKind.MSMQ_1_0) == first
    assert hash_input(view, SignatureKind.MSMQ_2_0) == (
        first + later + encode_text(private(ADDRESS, 3))
    )
    assert hash_input(view, SignatureKind.MSMQ_3_0) == (
        first + b"extension" + encode_text(",".join(lists)) + later
    )


def test_absent_parts_are_nothing_and_an_absent_connector_type_is_zeros() -> None:
    bare = Message(source_machine_identifier=SOURCE, destination_queue_type=0)
    view = Packet(serialize(bare))
    assert hash_input(view, SignatureKind.MSMQ_1_0) == bytes(24)
    assert hash_input(view, SignatureKind.MSMQ_2_0) == (
        bytes(24) + SOURCE + bytes((0, 3, 0, 0)) + bytes(6) + bytes(16)
    )


@pytest.mark.spec("MS-MQQB 3.1.7.1.4/4", "MS-MQQB 3.1.5.8.3/5", "MS-MQMQ 2.2.19.3/7")
@pytest.mark.parametrize("hash_algorithm", STRONG)
@pytest.mark.parametrize("kind", KINDS)
def test_signature_is_the_named_hash_under_rsa(kind: SignatureKind, hash_algorithm: int) -> None:
    view = packet(hash_algorithm=hash_algorithm)
    key = private_key("alpha")
    signature = sign(view, kind, key)
    numbers = key.public_key().public_numbers()
    opened = pow(int.from_bytes(signature, "little"), numbers.e, numbers.n)
    names = {0x8004: hashlib.sha1, 0x800C: hashlib.sha256, 0x800E: hashlib.sha512}
    digest = names[hash_algorithm](hash_input(view, kind)).digest()
    assert opened.to_bytes(len(signature), "big").endswith(digest)
    assert verify(view, (kind,), signature, key.public_key()) is kind
    assert verify(view, (kind,), signature, private_key("beta").public_key()) is None


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/3")
def test_the_first_form_that_fits_is_the_one() -> None:
    key = private_key("alpha")
    view = packet()
    both = (SignatureKind.MSMQ_2_0, SignatureKind.MSMQ_1_0)
    for kind in both:
        assert verify(view, both, sign(view, kind, key), key.public_key()) is kind
    newest = sign(view, SignatureKind.MSMQ_3_0, key)
    assert verify(view, both, newest, key.public_key()) is None


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/6", "MS-MQMQ 2.2.19.3/7")
@pytest.mark.parametrize("hash_algorithm", WEAK)
def test_broken_hashes_verify_only_where_they_are_allowed(hash_algorithm: int) -> None:
    view = packet(hash_algorithm=hash_algorithm)
    kind = SignatureKind.MSMQ_2_0
    data = hash_input(view, kind)
    names = {0x8001: (MD2.new, "02"), 0x8002: (MD4.new, "04"), 0x8003: (hashlib.md5, "05")}
    compute, number = names[hash_algorithm]
    info = bytes.fromhex(f"3020300c06082a864886f70d02{number}05000410")
    key = private_key("alpha")
    signature = _raw_signature(info + compute(data).digest())
    assert verify(view, (kind,), signature, key.public_key()) is None
    assert verify(view, (kind,), signature, key.public_key(), weak=True) is kind
    assert not may_verify_with(hash_algorithm, weak=False)


def _raw_signature(content: bytes) -> bytes:
    """EMSA-PKCS1-v1_5 of bytes that no library would sign any more."""
    numbers = private_key("alpha").private_numbers()
    size = 128
    padded = b"\0\1" + b"\xff" * (size - 3 - len(content)) + b"\0" + content
    power = pow(int.from_bytes(padded, "big"), numbers.d, numbers.public_numbers.n)
    return power.to_bytes(size, "little")


@pytest.mark.spec("MS-MQQB 3.1.7.1.4/4")
def test_we_sign_with_no_broken_or_unknown_hash() -> None:
    assert [may_sign_with(value) for value in STRONG] == [True] * 3
    assert not any(map(may_sign_with, [*WEAK, 0, 0x800D]))


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/5", "MS-MQMQ 2.2.19.3/7")
def test_unknown_hash_proves_nothing() -> None:
    key = private_key("alpha")
    signed = sign(packet(), SignatureKind.MSMQ_2_0, key)
    view = packet(hash_algorithm=0x800D)
    assert verify(view, KINDS, signed, key.public_key(), weak=True) is None


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/5")
@given(st.binary(max_size=200))
def test_any_bytes_are_no_signature(signature: bytes) -> None:
    assert verify(packet(), KINDS, signature, private_key("alpha").public_key()) is None


COVERED = {
    "correlation_identifier": MessageId(ADDRESS, 10),
    "application_tag": 1,
    "body": b"<other/>",
    "label": "orders",
    "response_queue_format_name": "DIRECT=OS:alpha\\private$\\others",
    "administration_queue_format_name": private(SOURCE, 5),
}
LATER = {
    "source_machine_identifier": b"t" * 16,
    "delivery_guarantee": 0,
    "priority": 4,
    "positive_journaling_requested": False,
    "negative_journaling_requested": True,
    "acknowledgements_requested": 1,
    "message_class": 1,
    "body_type": 9,
    "connector_type_identifier": b"e" * 16,
}
ONLY_2_0 = {"destination_queue_format_name": private(ADDRESS, 4)}
ONLY_3_0 = {
    "extension": b"other",
    "destination_multi_queue_format_name": ("DIRECT=OS:c\\private$\\z",),
}
OF_KIND = {
    SignatureKind.MSMQ_1_0: COVERED,
    SignatureKind.MSMQ_2_0: COVERED | LATER | ONLY_2_0,
    SignatureKind.MSMQ_3_0: COVERED | LATER | ONLY_3_0,
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in OF_KIND[kind]]
)
def test_a_change_of_any_covered_field_breaks_the_signature(kind: SignatureKind, name: str) -> None:
    key = private_key("alpha")
    signature = sign(packet(), kind, key)
    changed = packet(**{name: OF_KIND[kind][name]})
    assert verify(changed, (kind,), signature, key.public_key()) is None


def _covered_places(view: Packet) -> list[tuple[int, int]]:
    """Where the bytes are that a 2.0 signature covers as they stand."""
    seen = view.summary
    at = seen.properties_at
    return [
        (16, 32),  # SourceQueueManager
        (at + 2, at + 32),  # class, correlation id, body type, application tag
        (seen.label_at, seen.label_at + seen.label_size),
        (seen.body_at, seen.body_at + seen.body_size),
    ]


@given(st.data())
def test_any_flipped_bit_of_the_covered_bytes_breaks_the_signature(data: st.DataObject) -> None:
    view = packet()
    key = private_key("alpha")
    places = [at for start, end in _covered_places(view) for at in range(start, end)]
    at, bit = data.draw(st.sampled_from(places)), data.draw(st.integers(0, 7))
    flipped = bytearray(view.data)
    flipped[at] ^= 1 << bit
    kind = SignatureKind.MSMQ_2_0
    signature = _signed_sample()
    assert verify(Packet(bytes(flipped)), (kind,), signature, key.public_key()) is None
    assert verify(view, (kind,), signature, key.public_key()) is kind


def _signed_sample() -> bytes:
    return sign(packet(), SignatureKind.MSMQ_2_0, private_key("alpha"))


@given(messages(), st.sampled_from(KINDS))
@settings(max_examples=50)
def test_every_packet_has_a_hash_input_that_ways_of_travelling_do_not_change(
    message: Message, kind: SignatureKind
) -> None:
    before = hash_input(Packet(serialize(message)), kind)
    message.time_to_reach_queue = 1
    message.sent_time = 2
    message.transaction_sequence_number = 3
    data = serialize(message)
    assert hash_input(Packet(data, summarize(data)), kind) == before
