"""An SRMP message by its elements, [MC-MQSRM] 2.2, and what kind of message it is."""

from enum import Enum
from typing import Final, NamedTuple

import msgspec

from posthouse.model.guids import NULL_GUID
from posthouse.model.message import PRIORITY_DEFAULT, MessageId
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    NACK_PURGED,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_RECEIVE_REJECTED,
    NACK_RECEIVE_TIMEOUT,
    NORMAL,
    ORDER_ACK,
)
from posthouse.wire.packet.headers import INFINITE
from posthouse.wire.packet.optional_headers import Provider

LABEL_PREFIX: Final = "MSMQ:"  # 2.2.4.1
STREAM_RECEIPT_ACTION: Final = "MSMQ:QM Ordering Ack"  # 2.2.4.1
POSITIVE: Final = "positive"  # 2.2.5.5
NEGATIVE: Final = "negative"
FOREVER: Final = 0x7FFF_FFFF  # 20380119T031407: no expiry (decision 63)
ANONYMOUS_ORDINAL: Final = 1  # 3.1.5.1.1: of a message without an Msmq element

NEGATIVE_CLASSES: Final = frozenset(
    {
        NACK_PURGED,
        NACK_QUEUE_DELETED,
        NACK_QUEUE_PURGED,
        NACK_RECEIVE_TIMEOUT,
        NACK_RECEIVE_REJECTED,  # decision 85
    }
)
"""The ends of a message that a negative commitment receipt shows of, 3.1.7.3.1."""


class Stream(NamedTuple):
    """The stream element, 2.2.5.3."""

    stream_id: str  # as it came
    guid: bytes
    sequence_id: int  # TimeStamp << 32 | Ordinal
    current: int
    previous: int  # current - 1 where the element is missing (state-machines 8.4 c)
    send_receipts_to: str | None = None  # None: there is no start element


class DeliveryReceipt(NamedTuple):
    """The deliveryReceipt element, 2.2.5.4."""

    received_at: int
    id: MessageId


class CommitmentReceipt(NamedTuple):
    """The commitmentReceipt element, 2.2.5.5."""

    decided_at: int
    decision: str
    id: MessageId


class StreamReceipt(NamedTuple):
    """The streamReceipt element, 2.2.5.6."""

    stream_id: str  # as it came
    guid: bytes
    sequence_id: int
    last_ordinal: int


class Reference(NamedTuple):
    """A Reference element, 2.2.7.1.2: each of its children as often as it was there."""

    uri: str
    digest_methods: tuple[str, ...]
    digest_values: tuple[str, ...]


class SignatureElement(NamedTuple):
    """The Signature element, 2.2.7, as it came: whether it is a good one is not judged here."""

    signed_infos: int  # how many there are
    signed_info: bytes  # the literal octets of the one, which are what is signed
    signature_methods: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    signature_values: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()  # KeyInfo/X509Data/X509Certificate, base64
    signed_id: str = ""  # the attribute Id of SignedInfo


class SrmpMessage(msgspec.Struct, gc=False):
    """All elements of the SOAP header; an absent one has the default, times are UTC seconds."""

    action: str = ""
    to: str = ""
    id: str = ""
    via: str = ""
    expires_at: int = FOREVER
    sent_at: int | None = None
    durable: bool = False
    delivery_receipt_to: str = ""
    commitment_receipt_to: str = ""
    positive_only: bool = False
    negative_only: bool = False
    stream: Stream | None = None
    delivery_receipt: DeliveryReceipt | None = None
    commitment_receipt: CommitmentReceipt | None = None
    stream_receipt: StreamReceipt | None = None
    has_msmq: bool = False
    message_class: int = NORMAL
    priority: int = PRIORITY_DEFAULT
    journal: bool = False
    dead_letter: bool = False
    correlation: bytes = b""
    trace: bool = False
    connector_type: bytes = NULL_GUID
    application_tag: int = 0
    body_type: int = 0
    hash_algorithm: int = 0
    first: bool = False
    last: bool = False
    connector_id: bytes = NULL_GUID
    provider: Provider | None = None
    source_guid: bytes = NULL_GUID
    ordinal: int = ANONYMOUS_ORDINAL
    destination_mqf: tuple[str, ...] = ()
    admin_mqf: tuple[str, ...] = ()
    response_mqf: tuple[str, ...] = ()
    reach_by: int | None = None  # TTrq
    signature: SignatureElement | None = None

    @property
    def label(self) -> str:
        """The text after `MSMQ:` in action (3.1.5.1.1); another action is not a label."""
        action = self.action
        return action[len(LABEL_PREFIX) :] if action.startswith(LABEL_PREFIX) else ""

    @property
    def is_plain(self) -> bool:
        """Whether it wants nothing but to get into its queue."""
        return (
            self.message_class == NORMAL
            and self.stream is None
            and not (self.journal or self.dead_letter or self.trace)
            and not (self.delivery_receipt_to or self.commitment_receipt_to)
            and self.signature is None
            and self.provider is None
            and not self.destination_mqf
            and self.delivery_receipt is None
            and self.commitment_receipt is None
            and self.stream_receipt is None
        )

    def expires(self) -> int:
        """When the message is late, or INFINITE; TTrq beats expiresAt, 3.1.5.1.4."""
        until = self.expires_at if self.reach_by is None else self.reach_by
        return until if until < FOREVER else INFINITE

    def time_to_reach_queue(self, utc: int) -> int:
        """Seconds from sentAt, or from the arrival where it is missing (decision 89)."""
        until = self.expires()
        if until == INFINITE:
            return INFINITE
        return max(until - (utc if self.sent_at is None else self.sent_at), 0)


class SrmpKind(Enum):
    """3.1.5.1.5: what a message is; any other is ignored."""

    USER = "user message"
    DELIVERY_RECEIPT = "delivery receipt"
    STREAM_RECEIPT = "stream receipt"
    FINAL_STREAM_RECEIPT = "final stream receipt"
    COMMITMENT_RECEIPT = "commitment receipt"
    IGNORED = "ignored"


def kind_of(message: SrmpMessage) -> SrmpKind:
    """Identifying the Message Type, 3.1.5.1.5."""
    delivery, committed = message.delivery_receipt, message.commitment_receipt
    stream = message.stream_receipt
    code = message.message_class
    if delivery is None and committed is None and stream is None:
        return SrmpKind.USER if code == NORMAL else SrmpKind.IGNORED
    if delivery is not None:
        alone = committed is None and stream is None and code == ACK_REACH_QUEUE
        return SrmpKind.DELIVERY_RECEIPT if alone else SrmpKind.IGNORED
    if committed is None:
        ordering = code == ORDER_ACK and message.action == STREAM_RECEIPT_ACTION
        return SrmpKind.STREAM_RECEIPT if ordering else SrmpKind.IGNORED
    if committed.decision != decision_of(code):
        return SrmpKind.IGNORED
    # Decision 86: whatever the action of a final one is.
    return SrmpKind.COMMITMENT_RECEIPT if stream is None else SrmpKind.FINAL_STREAM_RECEIPT


def decision_of(message_class: int) -> str:
    """The decision element for an end of a message, 3.1.7.3.1; empty where none is told."""
    if message_class == ACK_RECEIVE:
        return POSITIVE
    return NEGATIVE if message_class in NEGATIVE_CLASSES else ""
