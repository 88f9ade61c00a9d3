"""Messages for property tests: every attribute a packet carries, in every combination.

They are in the form that reading gives: queue types that fit the names, no sender type without a
sender, priority zero and recoverable delivery for transactional messages.
"""

from typing import Any

from hypothesis import strategies as st

from posthouse.model.message import Message, MessageId, TxSequenceId
from posthouse.model.names import DirectName, PrivateName, Protocol, PublicName

U8 = st.integers(0, 0xFF)
U16 = st.integers(0, 0xFFFF)
U32 = st.integers(0, 0xFFFFFFFF)
NULL = bytes(16)
GUIDS = st.binary(min_size=16, max_size=16).filter(lambda guid: guid != NULL)
OPTIONAL_GUIDS = st.just(NULL) | GUIDS
SMALL = st.binary(max_size=21)
SOME = st.binary(min_size=1, max_size=21)
WORDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
DIRECT = st.builds(
    DirectName, st.just(Protocol.OS), WORDS, st.none(), WORDS, private=st.booleans()
).map(str)
PUBLIC = GUIDS.map(lambda guid: str(PublicName(guid)))
IDS = st.builds(MessageId, OPTIONAL_GUIDS, U32)
LABELS = st.text(max_size=124)  # 248 units even if every character takes two


def private(guid: bytes, number: int) -> str:
    return str(PrivateName(guid, number))


ELEMENTS = (
    DIRECT
    | PUBLIC
    | st.builds(private, GUIDS, U32)
    | GUIDS.map(lambda guid: str(PublicName(guid)).replace("PUBLIC", "DL"))
)
LISTS = st.lists(ELEMENTS, max_size=3).map(tuple)


@st.composite
def name_fields(draw: st.DrawFn) -> dict[str, Any]:
    source, address, other, number = draw(GUIDS), draw(GUIDS), draw(GUIDS), draw(U32)
    code = draw(st.sampled_from([0, 3, 5, 7]))
    if code == 7:
        address = NULL
    names = {0: "", 3: private(address, number), 5: draw(PUBLIC), 7: draw(DIRECT)}
    fields: dict[str, Any] = {
        "source_machine_identifier": source,
        "identifier": MessageId(source, draw(U32)),
        "destination_queue_manager_identifier": address,
        "destination_queue_type": code,
        "destination_queue_format_name": names[code],
    }
    names |= {2: private(source, number), 3: private(address, number), 6: private(other, number)}
    code = draw(st.sampled_from([0, 2, 3, 5, 6, 7]))
    fields["administration_queue_type"] = code
    administration = fields["administration_queue_format_name"] = names[code]
    host = {2: source, 3: address, 6: other}.get(code, NULL)
    names |= {1: administration, 4: private(host, number)}
    code = draw(st.integers(0, 7))
    fields["response_queue_type"] = code
    fields["response_queue_format_name"] = names[code]
    return fields


@st.composite
def transaction_fields(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"priority": draw(st.integers(0, 7)), "delivery_guarantee": draw(st.integers(0, 1))}
    return {
        "priority": 0,
        "delivery_guarantee": 1,
        "transaction_identifier": draw(st.integers(0, 0xFFFFF)),
        "transactional_message_sequence_identifier": draw(st.builds(TxSequenceId, U32, U32)),
        "transaction_sequence_number": draw(U32),
        "transaction_previous_sequence_number": draw(U32),
        "connector_queue_manager_identifier": draw(OPTIONAL_GUIDS),
        "final_ack_required": draw(st.booleans()),
        "first_in_transaction": draw(st.booleans()),
        "last_in_transaction": draw(st.booleans()),
    }


@st.composite
def security_fields(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        return {}
    named = draw(st.booleans())
    return {
        "privacy_level": draw(U32 if named else st.integers(1, 5)),
        "sender_identifier_type": draw(st.integers(1, 2)) if named else 0,
        "sender_identifier": draw(SOME) if named else b"",
        "symmetric_key": draw(SMALL),
        "signature": draw(SMALL),
        "sender_certificate": draw(SMALL),
        "authentication_provider_type": draw(U32),
        "authentication_provider_name": draw(st.text(max_size=9)),
    }


def properties_fields() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "message_class": U16,
            "correlation_identifier": IDS,
            "body_type": U32,
            "application_tag": U32,
            "acknowledgements_requested": st.integers(0, 15),
            "hash_algorithm": U32,
            "encryption_algorithm": U32,
            "label": LABELS,
            "extension": SMALL,
            "body": st.binary(max_size=100),
        }
    )


def other_fields() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "time_to_reach_queue": U32,
            "time_to_be_received": U32,
            "sent_time": U32,
            "connector_type_identifier": OPTIONAL_GUIDS,
            "positive_journaling_requested": st.booleans(),
            "negative_journaling_requested": st.booleans(),
            "tracing_requested": st.booleans(),
            "tracing_queue_identifier": OPTIONAL_GUIDS,
            "destination_multi_queue_format_name": LISTS,
            "administration_multi_queue_format_name": LISTS,
            "response_multi_queue_format_name": LISTS,
            "multiple_destination_signature": SMALL,
            "soap_header": st.text(max_size=9),
            "soap_body": st.text(max_size=9),
        }
    )


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Any message that a packet can hold."""
    fields: dict[str, Any] = {}
    for part in (name_fields(), transaction_fields(), security_fields()):
        fields |= draw(part)
    return Message(**fields, **draw(properties_fields()), **draw(other_fields()))
