"""Message classes: normal messages, acknowledgments and reports ([MS-MQMQ] 2.2.18.1.6).

The codes are plain integers, because they are compared for every message and because any
value an application makes up has to be carried.
"""

import re
from typing import Final, NamedTuple

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.text import excerpt

NORMAL: Final = 0x0000
REPORT: Final = 0x0001
ACK_REACH_QUEUE: Final = 0x0002
ORDER_ACK: Final = 0x00FF
ACK_RECEIVE: Final = 0x4000
NACK_BAD_DEST_QUEUE: Final = 0x8000
NACK_PURGED: Final = 0x8001
NACK_REACH_QUEUE_TIMEOUT: Final = 0x8002
NACK_QUEUE_EXCEED_QUOTA: Final = 0x8003
NACK_ACCESS_DENIED: Final = 0x8004
NACK_HOP_COUNT_EXCEEDED: Final = 0x8005
NACK_BAD_SIGNATURE: Final = 0x8006
NACK_BAD_ENCRYPTION: Final = 0x8007
NACK_COULD_NOT_ENCRYPT: Final = 0x8008
NACK_NOT_TRANSACTIONAL_QUEUE: Final = 0x8009
NACK_NOT_TRANSACTIONAL_MESSAGE: Final = 0x800A
NACK_UNSUPPORTED_CRYPTO_PROVIDER: Final = 0x800B
NACK_SOURCE_COMPUTER_GUID_CHANGED: Final = 0x800C
NACK_MESSAGE_TOO_LARGE: Final = 0x800D
NACK_QUEUE_DELETED: Final = 0xC000
NACK_QUEUE_PURGED: Final = 0xC001
NACK_RECEIVE_TIMEOUT: Final = 0xC002
NACK_RECEIVE_TIMEOUT_AT_SENDER: Final = 0xC003
NACK_RECEIVE_REJECTED: Final = 0xC004

CLASS_CODE_MAX: Final = 0xFFFF
CLASS_BITS: Final = 0xE1FF  # of which every class is made, those of applications too

_NEGATIVE: Final = 0x8000
_RECEIVE: Final = 0x4000


class MessageClass(NamedTuple):
    """A class with our word for it, the name in packets and what it means."""

    code: int
    word: str
    packet_name: str
    meaning: str


MESSAGE_CLASSES: Final = tuple(
    MessageClass(*row)
    for row in (
        (NORMAL, "normal", "NORMAL", "a message of an application"),
        (REPORT, "report", "REPORT", "a traced message passed here"),
        (ACK_REACH_QUEUE, "ack-reach-queue", "ACK_REACH_QUEUE", "arrived in its queue"),
        (ORDER_ACK, "order-ack", "ORDER_ACK", "transactional messages arrived in order"),
        (ACK_RECEIVE, "ack-receive", "ACK_RECEIVE", "received by an application"),
        (NACK_BAD_DEST_QUEUE, "nack-bad-dest-queue", "NACK_BAD_DST_Q", "no such queue"),
        (NACK_PURGED, "nack-purged", "NACK_DELETED", "removed by hand before it arrived"),
        (
            NACK_REACH_QUEUE_TIMEOUT,
            "nack-reach-queue-timeout",
            "NACK_REACH_QUEUE_TIMEOUT",
            "ran out of time on the way",
        ),
        (
            NACK_QUEUE_EXCEED_QUOTA,
            "nack-queue-exceed-quota",
            "NACK_Q_EXCEED_QUOTA",
            "the queue was full",
        ),
        (
            NACK_ACCESS_DENIED,
            "nack-access-denied",
            "NACK_ACCESS_DENIED",
            "the sender may not write to the queue",
        ),
        (
            NACK_HOP_COUNT_EXCEEDED,
            "nack-hop-count-exceeded",
            "NACK_HOP_COUNT_EXCEEDED",
            "passed too many routing servers",
        ),
        (NACK_BAD_SIGNATURE, "nack-bad-signature", "NACK_BAD_SIGNATURE", "signature not valid"),
        (NACK_BAD_ENCRYPTION, "nack-bad-encryption", "NACK_BAD_ENCRYPTION", "cannot be decrypted"),
        (
            NACK_COULD_NOT_ENCRYPT,
            "nack-could-not-encrypt",
            "NACK_COULD_NOT_ENCRYPT",
            "the source could not encrypt it",
        ),
        (
            NACK_NOT_TRANSACTIONAL_QUEUE,
            "nack-not-transactional-queue",
            "NACK_NOT_TRANSACTIONAL_Q",
            "sent in a transaction to a plain queue",
        ),
        (
            NACK_NOT_TRANSACTIONAL_MESSAGE,
            "nack-not-transactional-message",
            "NACK_NOT_TRANSACTIONAL_MSG",
            "sent without a transaction to a transactional queue",
        ),
        (
            NACK_UNSUPPORTED_CRYPTO_PROVIDER,
            "nack-unsupported-crypto-provider",
            "NACK_UNSUPPORTED_CRYPTO_PROVIDER",
            "its cryptography is unknown at the destination",
        ),
        (
            NACK_SOURCE_COMPUTER_GUID_CHANGED,
            "nack-source-computer-guid-changed",
            "NACK_SOURCE_COMPUTER_GUID_CHANGED",
            "the source has got another identity",
        ),
        (
            NACK_MESSAGE_TOO_LARGE,
            "nack-message-too-large",
            "NACK_MESSAGE_TOO_LARGE",
            "outgrew the largest packet",
        ),
        (NACK_QUEUE_DELETED, "nack-queue-deleted", "NACK_Q_DELETED", "its queue was deleted"),
        (NACK_QUEUE_PURGED, "nack-queue-purged", "NACK_Q_PURGED", "its queue was purged"),
        (
            NACK_RECEIVE_TIMEOUT,
            "nack-receive-timeout",
            "NACK_RECEIVE_TIMEOUT",
            "not received in time",
        ),
        (
            NACK_RECEIVE_TIMEOUT_AT_SENDER,
            "nack-receive-timeout-at-sender",
            "NACK_RECEIVE_TIMEOUT_AT_SENDER",
            "its time to be received ended at the source",
        ),
        (
            NACK_RECEIVE_REJECTED,
            "nack-receive-rejected",
            "NACK_RECEIVE_REJECTED",
            "rejected by the receiving application",
        ),
    )
)
"""Every class with a meaning of its own, in the order of the codes."""

_WORD_OF_CODE = {entry.code: entry.word for entry in MESSAGE_CLASSES}
_CODE_OF_WORD = {entry.word.replace("-", ""): entry.code for entry in MESSAGE_CLASSES} | {
    entry.packet_name.lower().replace("_", ""): entry.code for entry in MESSAGE_CLASSES
}
_HEX_WORD = re.compile(r"0[xX]([0-9a-fA-F]{1,4})")
_PREFIX = "mqmsgclass"


def class_name(code: int) -> str:
    """The word for a class; one of an application is shown as `0x` and four hex digits."""
    return _WORD_OF_CODE.get(code) or f"0x{code:04x}"


def class_code(word: str) -> int:
    """The code of a class given by our word, by a document's name for it, or in hex."""
    number = _HEX_WORD.fullmatch(word)
    if number is not None:
        return int(number[1], 16)
    plain = word.lower().replace("-", "").replace("_", "").removeprefix(_PREFIX)
    code = _CODE_OF_WORD.get(plain)
    if code is None:
        raise IllegalPropertyValue(f"{excerpt(word)} is not a message class")
    return code


def is_negative(code: int) -> bool:
    """Whether a class shows of a failure; so the codes of the table are built."""
    return code & _NEGATIVE != 0


def is_about_receiving(code: int) -> bool:
    """Whether a class shows what happened after the arrival in the queue."""
    return code & _RECEIVE != 0
