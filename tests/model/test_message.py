"""A message: its attributes, defaults and limits."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model import message as names
from posthouse.model.errors import (
    IllegalFormatName,
    IllegalPropertySize,
    IllegalPropertyValue,
    IllegalQueuePathname,
    InsufficientResources,
    LabelTooLong,
    QueueError,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import (
    INFINITE,
    LONG_LIVED,
    HashAlgorithm,
    Message,
    MessageId,
    TxSequenceId,
    check_label,
    limited_time_to_reach_queue,
    validate,
)

# The attributes of MS-MQDMPR 3.1.1.12 in the document's order; Class is message_class, and the
# reference to the position in a queue belongs to the engine.
ATTRIBUTES = """
LookupIdentifier Identifier AllowPeekWhenLocked ApplicationDeadletterQueue ArrivalTime MessageClass
PrivacyLevel AuthenticationLevel DeliveryGuarantee TracingRequested TracingQueueIdentifier Priority
PositiveJournalingRequested NegativeJournalingRequested ResponseQueueFormatName
ResponseMultiQueueFormatName DestinationQueueFormatName DestinationMultiQueueFormatName
AdministrationQueueFormatName AdministrationMultiQueueFormatName MultipleDestinationSignature
ApplicationTag SourceMachineIdentifier Body BodyType CorrelationIdentifier
AcknowledgementsRequested Label SentTime TimeToReachQueue TimeToBeReceived HashAlgorithm
EncryptionAlgorithm DestinationQueueManagerIdentifier DestinationQueueType AdministrationQueueType
ResponseQueueType SenderIdentifier SenderCertificate SenderIdentifierType Extension
ConnectorTypeIdentifier ConnectorQueueManagerIdentifier TransactionStatusQueueFormatName
SymmetricKey Signature AuthenticationProviderType AuthenticationProviderName
TransactionalMessageSequenceIdentifier TransactionSequenceNumber TransactionPreviousSequenceNumber
TransactionIdentifier FinalAckRequired FirstInTransaction LastInTransaction SoapEnvelope
SoapCompoundMessage SoapBody SoapHeader
"""


def test_a_message_has_the_attributes_of_the_document_in_its_order() -> None:
    found = ["".join(map(str.capitalize, field.name.split("_"))) for field in fields(Message)]
    assert found == ATTRIBUTES.split()


def test_a_default_message_is_valid() -> None:
    validate(Message())


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/37")
@pytest.mark.parametrize(
    ("label", "accepted"),
    [
        ("x" * 249, True),
        ("x" * 250, False),
        ("ä" * 249, True),
        ("\U0001f4ee" * 124, True),
        ("\U0001f4ee" * 125, False),
        ("\U0001f4ee" * 124 + "x", True),
    ],
)
def test_a_label_has_at_most_249_wchars(label: str, accepted: bool) -> None:
    if accepted:
        validate(Message(label=label))
    else:
        with pytest.raises(LabelTooLong, match="250 characters"):
            validate(Message(label=label))


@pytest.mark.parametrize("label", ["a\0b", "\ud800", "x\udfff"])
def test_a_label_that_no_packet_could_carry_is_refused(label: str) -> None:
    with pytest.raises(IllegalPropertyValue, match="label"):
        check_label(label)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/16")
@pytest.mark.parametrize("priority", [-1, 8, 255])
def test_priorities_outside_0_to_7_are_refused(priority: int) -> None:
    for allowed in range(8):
        validate(Message(priority=allowed))
    assert Message().priority == 3
    with pytest.raises(IllegalPropertyValue, match="priority"):
        validate(Message(priority=priority))


def test_a_message_with_a_sequence_is_transactional() -> None:
    assert not Message().is_transactional
    assert Message(transactional_message_sequence_identifier=TxSequenceId(0, 0)).is_transactional


@given(st.integers(0, 0xFFFF))
def test_any_class_is_carried(code: int) -> None:
    validate(Message(message_class=code))


LISTED = r"DIRECT=OS:a\q,DIRECT=OS:b\q"


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/41", "MS-MQDMPR 3.1.1.12/42")
@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"message_class": 0x10000}, IllegalPropertyValue),
        ({"acknowledgements_requested": 0x10}, IllegalPropertyValue),
        ({"application_tag": 0x1_0000_0000}, IllegalPropertyValue),
        ({"application_tag": -1}, IllegalPropertyValue),
        ({"body_type": 0x1_0000_0000}, IllegalPropertyValue),
        ({"time_to_reach_queue": 0x1_0000_0000}, IllegalPropertyValue),
        ({"time_to_be_received": -1}, IllegalPropertyValue),
        ({"delivery_guarantee": 2}, IllegalPropertyValue),
        ({"privacy_level": 2}, IllegalPropertyValue),
        ({"authentication_level": 2}, IllegalPropertyValue),
        ({"hash_algorithm": 0x8000}, IllegalPropertyValue),
        ({"encryption_algorithm": 0x6601}, IllegalPropertyValue),
        ({"privacy_level": 5, "encryption_algorithm": 0x6801}, IllegalPropertyValue),
        ({"privacy_level": 3, "encryption_algorithm": 0x6610}, IllegalPropertyValue),
        ({"sender_identifier_type": 3}, IllegalPropertyValue),
        ({"destination_queue_type": 2}, IllegalPropertyValue),
        ({"administration_queue_type": 4}, IllegalPropertyValue),
        ({"response_queue_type": 8}, IllegalPropertyValue),
        ({"tracing_queue_identifier": b"x"}, IllegalPropertySize),
        ({"connector_type_identifier": bytes(17)}, IllegalPropertySize),
        ({"correlation_identifier": MessageId(b"short", 0)}, IllegalPropertySize),
        ({"correlation_identifier": MessageId(NULL_GUID, 1 << 32)}, IllegalPropertyValue),
        ({"destination_queue_format_name": "orders"}, IllegalFormatName),
        ({"response_queue_format_name": "DIRECT="}, IllegalFormatName),
        ({"application_deadletter_queue": "orders"}, IllegalQueuePathname),
        ({"body": bytes(0x400001)}, InsufficientResources),
        ({"body": bytes(0x200000), "extension": bytes(0x200001)}, InsufficientResources),
    ],
)
def test_values_outside_their_limits_are_refused(
    values: dict[str, Any], refusal: type[QueueError]
) -> None:
    with pytest.raises(refusal):
        validate(Message(**values))


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/40")
def test_broken_hashes_are_never_sent() -> None:
    assert Message().hash_algorithm == HashAlgorithm.SHA1
    for strong in (HashAlgorithm.SHA1, HashAlgorithm.SHA_256, HashAlgorithm.SHA_512):
        validate(Message(hash_algorithm=strong))
    for broken in (HashAlgorithm.MD2, HashAlgorithm.MD4, HashAlgorithm.MD5):
        with pytest.raises(IllegalPropertyValue, match="never sent"):
            validate(Message(hash_algorithm=broken))


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/23")
@pytest.mark.parametrize(
    "values",
    [
        {"destination_queue_format_name": LISTED},
        {"destination_multi_queue_format_name": (LISTED,)},
        {"response_multi_queue_format_name": (r"DIRECT=OS:a\q", LISTED)},
        {"administration_multi_queue_format_name": (LISTED,)},
    ],
)
def test_a_list_is_no_destination_and_no_element(values: dict[str, Any]) -> None:
    with pytest.raises(IllegalFormatName, match="single name"):
        validate(Message(**values))


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/5")
def test_the_dead_letter_queue_of_an_application_is_a_path() -> None:
    assert Message().application_deadletter_queue == ""
    validate(Message(application_deadletter_queue=r".\private$\dead"))
    with pytest.raises(IllegalQueuePathname):
        validate(Message(application_deadletter_queue=r"DIRECT=OS:.\private$\dead"))


def test_names_and_lists_of_names_are_accepted() -> None:
    validate(
        Message(
            destination_queue_format_name=r"DIRECT=OS:a\q",
            destination_multi_queue_format_name=(r"DIRECT=OS:a\q", r"DIRECT=OS:b\q"),
            administration_queue_format_name=r"DIRECT=OS:a\private$\admin",
            privacy_level=5,
            encryption_algorithm=0x6610,
        )
    )


def test_journaling_as_bits() -> None:
    assert Message().journal == 0
    assert Message(negative_journaling_requested=True).journal == 1
    assert Message(positive_journaling_requested=True).journal == 2


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/38")
@pytest.mark.parametrize(
    ("asked", "given_time"),
    [(0, 0), (10, 10), (345_600, 345_600), (345_601, 345_600), (LONG_LIVED, 345_600)],
)
def test_nobody_gets_more_than_four_days_to_reach_a_queue(asked: int, given_time: int) -> None:
    assert limited_time_to_reach_queue(asked) == given_time


def test_the_enterprise_can_set_another_maximum() -> None:
    assert limited_time_to_reach_queue(INFINITE, 60) == 60


def test_everything_about_messages_can_be_imported_from_one_place() -> None:
    assert len(names.__all__) == len(set(names.__all__))
    assert all(hasattr(names, name) for name in names.__all__)
