"""The values that properties of messages take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model import message_values as values
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.message_values import (
    AuthenticationLevel,
    DeliveryGuarantee,
    EncryptionAlgorithm,
    HashAlgorithm,
    PrivacyLevel,
    QueueTypeCode,
    SenderIdentifierType,
    ack_bits,
    ack_words,
    journal_bits,
    journal_words,
)


@given(st.integers(0, 15))
def test_acknowledgments_are_words_and_bits(bits: int) -> None:
    assert ack_bits(ack_words(bits)) == bits
    assert journal_bits(journal_words(bits & 3)) == bits & 3


def test_the_words_are_those_of_the_command_line() -> None:
    assert ack_words(0x0F) == ["pos-arrival", "neg-arrival", "pos-receive", "neg-receive"]
    assert ack_bits(["pos-arrival"]) == 0x01
    assert ack_bits(["pos-receive"]) == 0x02
    assert ack_bits(["neg-arrival"]) == 0x04
    assert ack_bits(["neg-receive"]) == 0x08
    assert (journal_bits(["negative"]), journal_bits(["positive"])) == (1, 2)


@pytest.mark.parametrize("word", ["", "POS-ARRIVAL", "all"])
def test_other_words_are_refused_with_the_known_ones(word: str) -> None:
    with pytest.raises(IllegalPropertyValue, match="pos-arrival, neg-arrival"):
        ack_bits([word])
    with pytest.raises(IllegalPropertyValue, match="positive, negative"):
        journal_bits([word])


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/33", "MS-MQDMPR 3.1.1.12/35", "MS-MQDMPR 3.1.1.12/36")
def test_combined_acknowledgments_are_sums_of_the_single_ones() -> None:
    assert ack_words(values.ACK_NACK_REACH_QUEUE) == ["neg-arrival"]
    assert ack_words(values.ACK_FULL_REACH_QUEUE) == ["pos-arrival", "neg-arrival"]
    assert ack_words(values.ACK_NACK_RECEIVE) == ["neg-arrival", "neg-receive"]
    assert ack_words(values.ACK_FULL_RECEIVE) == ["neg-arrival", "pos-receive", "neg-receive"]
    combined = (
        values.ACK_FULL_REACH_QUEUE,
        values.ACK_NACK_RECEIVE,
        values.ACK_FULL_RECEIVE,
    )
    assert combined == (0x05, 0x0C, 0x0E)


def test_privacy_levels() -> None:
    assert {level.name: level.value for level in PrivacyLevel} == {
        "NONE": 0,
        "BASE": 1,
        "ENHANCED": 3,
        "ADVANCED": 5,
    }


def test_authentication_levels() -> None:
    assert {level.name: level.value for level in AuthenticationLevel} == {
        "NONE": 0,
        "SIG10": 1,
        "SIG20": 3,
        "SIG30": 5,
        "XML_SIG": 9,
    }


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/40")
def test_hash_algorithms() -> None:
    assert {kind.name: kind.value for kind in HashAlgorithm} == {
        "MD2": 0x8001,
        "MD4": 0x8002,
        "MD5": 0x8003,
        "SHA1": 0x8004,
        "SHA_256": 0x800C,
        "SHA_512": 0x800E,
    }
    assert HashAlgorithm["SHA"] is HashAlgorithm.SHA1
    assert {kind.name for kind in values.WEAK_HASH_ALGORITHMS} == {"MD2", "MD4", "MD5"}


def test_encryption_algorithms_are_those_of_packets() -> None:
    assert {kind.name: kind.value for kind in EncryptionAlgorithm} == {
        "RC2": 0x6602,
        "RC4": 0x6801,
        "AES128": 0x660E,
        "AES192": 0x660F,
        "AES256": 0x6610,
    }


def test_delivery_and_sender_types() -> None:
    assert [guarantee.value for guarantee in DeliveryGuarantee] == [0, 1]
    assert {kind.name: kind.value for kind in SenderIdentifierType} == {
        "NONE": 0,
        "SID": 1,
        "QUEUE_MANAGER_IDENTIFIER": 2,
    }


def test_each_kind_of_queue_has_its_type_codes() -> None:
    assert [code.value for code in QueueTypeCode] == list(range(8))
    assert sorted(values.DESTINATION_QUEUE_TYPES) == [3, 5, 7]
    assert sorted(values.ADMINISTRATION_QUEUE_TYPES) == [0, 2, 3, 5, 6, 7]
    assert sorted(values.RESPONSE_QUEUE_TYPES) == list(range(8))
