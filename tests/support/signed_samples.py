"""A message whose every signed field is set."""

from posthouse.model.message import Message, MessageId
from posthouse.model.names import PrivateName

SOURCE, ADDRESS = b"s" * 16, b"d" * 16


SHA512 = 0x800E


def private(guid: bytes, number: int) -> str:
    return str(PrivateName(guid, number))


def sample(**fields: object) -> Message:
    """A message with something in every field that signatures cover."""
    values: dict[str, object] = {
        "identifier": MessageId(SOURCE, 7),
        "source_machine_identifier": SOURCE,
        "destination_queue_manager_identifier": ADDRESS,
        "destination_queue_format_name": private(ADDRESS, 3),
        "destination_queue_type": 3,
        "administration_queue_format_name": private(SOURCE, 4),
        "response_queue_format_name": "DIRECT=OS:alpha\\private$\\answers",
        "response_queue_type": 7,
        "correlation_identifier": MessageId(ADDRESS, 9),
        "connector_type_identifier": b"c" * 16,
        "application_tag": 0x01020304,
        "body_type": 8,
        "label": "order",
        "extension": b"extension",
        "body": b"<order/>",
        "priority": 5,
        "delivery_guarantee": 1,
        "positive_journaling_requested": True,
        "acknowledgements_requested": 5,
        "hash_algorithm": SHA512,
    }
    return Message(**{**values, **fields})  # type: ignore[arg-type]
