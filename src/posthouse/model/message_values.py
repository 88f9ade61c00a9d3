"""The values that properties of messages take ([MS-MQDMPR] 3.1.1.12, [MS-MQMQ] 2.2.19, 2.2.20).

Enumerations name the values; fields of messages stay plain integers.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.text import excerpt


class DeliveryGuarantee(IntEnum):
    """Whether a message outlives an interruption of the service."""

    EXPRESS = 0
    RECOVERABLE = 1


ACK_POS_ARRIVAL: Final = 0x01
ACK_POS_RECEIVE: Final = 0x02
ACK_NEG_ARRIVAL: Final = 0x04
ACK_NEG_RECEIVE: Final = 0x08
ACK_NONE: Final = 0x00
ACK_NACK_REACH_QUEUE: Final = ACK_NEG_ARRIVAL
ACK_FULL_REACH_QUEUE: Final = ACK_POS_ARRIVAL | ACK_NEG_ARRIVAL
ACK_NACK_RECEIVE: Final = ACK_NEG_ARRIVAL | ACK_NEG_RECEIVE
ACK_FULL_RECEIVE: Final = ACK_POS_RECEIVE | ACK_NEG_ARRIVAL | ACK_NEG_RECEIVE
ACK_BITS: Final = 0x0F

_ACK_WORDS = {
    "pos-arrival": ACK_POS_ARRIVAL,
    "neg-arrival": ACK_NEG_ARRIVAL,
    "pos-receive": ACK_POS_RECEIVE,
    "neg-receive": ACK_NEG_RECEIVE,
}

JOURNAL_NONE: Final = 0
JOURNAL_NEGATIVE: Final = 1  # a copy in the dead-letter queue when delivery fails
JOURNAL_POSITIVE: Final = 2  # a copy in the system journal when delivery succeeds

_JOURNAL_WORDS = {"positive": JOURNAL_POSITIVE, "negative": JOURNAL_NEGATIVE}


def ack_words(bits: int) -> list[str]:
    """The acknowledgments asked for, as words."""
    return _words(_ACK_WORDS, bits)


def ack_bits(words: Iterable[str]) -> int:
    """The acknowledgment bits for words such as `pos-arrival`."""
    return _bits(_ACK_WORDS, words, "an acknowledgment")


def journal_words(bits: int) -> list[str]:
    """The source journaling asked for, as words."""
    return _words(_JOURNAL_WORDS, bits)


def journal_bits(words: Iterable[str]) -> int:
    """The journal bits for `positive` and `negative`."""
    return _bits(_JOURNAL_WORDS, words, "a kind of journaling")


def _words(table: dict[str, int], bits: int) -> list[str]:
    return [word for word, bit in table.items() if bits & bit]


def _bits(table: dict[str, int], words: Iterable[str], what: str) -> int:
    bits = 0
    for word in words:
        if word not in table:
            raise IllegalPropertyValue(f"{excerpt(word)} is not {what}: {', '.join(table)}")
        bits |= table[word]
    return bits


class PrivacyLevel(IntEnum):
    """How the body is encrypted on its way."""

    NONE = 0
    BASE = 1  # 40 bits
    ENHANCED = 3  # 128 bits
    ADVANCED = 5  # AES


class AuthenticationLevel(IntEnum):
    """How a message is signed; the numbers are those of a verified signature."""

    NONE = 0
    SIG10 = 1
    SIG20 = 3
    SIG30 = 5
    XML_SIG = 9


class RequestedAuthentication(IntEnum):
    """The signature that an application asks for when sending."""

    NONE = 0
    ALWAYS = 1
    SIG10 = 2
    SIG20 = 4
    SIG30 = 8


class HashAlgorithm(IntEnum):
    """The hash that is signed."""

    MD2 = 0x8001
    MD4 = 0x8002
    MD5 = 0x8003
    SHA1 = 0x8004
    SHA = 0x8004  # the document's second name
    SHA_256 = 0x800C
    SHA_512 = 0x800E


WEAK_HASH_ALGORITHMS: Final = frozenset({HashAlgorithm.MD2, HashAlgorithm.MD4, HashAlgorithm.MD5})
"""Never sent, and accepted only where a setting allows it."""


class EncryptionAlgorithm(IntEnum):
    """The ciphers that occur in packets; the document lists more that never do."""

    RC2 = 0x6602
    AES128 = 0x660E
    AES192 = 0x660F
    AES256 = 0x6610
    RC4 = 0x6801


ENCRYPTION_OF_PRIVACY: Final = {
    PrivacyLevel.BASE: frozenset({EncryptionAlgorithm.RC2, EncryptionAlgorithm.RC4}),
    PrivacyLevel.ENHANCED: frozenset({EncryptionAlgorithm.RC2, EncryptionAlgorithm.RC4}),
    PrivacyLevel.ADVANCED: frozenset(
        {EncryptionAlgorithm.AES128, EncryptionAlgorithm.AES192, EncryptionAlgorithm.AES256}
    ),
}
"""Which ciphers go with which level ([MS-MQMQ] 2.2.19.3)."""


class SenderIdentifierType(IntEnum):
    """What the sender identifier holds; with NONE the sender is anonymous."""

    NONE = 0
    SID = 1
    QUEUE_MANAGER_IDENTIFIER = 2


class QueueTypeCode(IntEnum):
    """How a queue name is written into the UserHeader: DQ, AQ and RQ ([MS-MQMQ] 2.2.19.2)."""

    NONE = 0
    SAME_AS_ADMINISTRATION_QUEUE = 1
    PRIVATE_QUEUE_ON_SOURCE = 2
    PRIVATE_QUEUE_ON_DESTINATION = 3
    PRIVATE_QUEUE_ON_ADMIN = 4
    PUBLIC_QUEUE = 5
    PRIVATE_QUEUE_ON_OTHER = 6
    DIRECT_QUEUE = 7


DESTINATION_QUEUE_TYPES: Final = frozenset(
    {
        QueueTypeCode.PRIVATE_QUEUE_ON_DESTINATION,
        QueueTypeCode.PUBLIC_QUEUE,
        QueueTypeCode.DIRECT_QUEUE,
    }
)
ADMINISTRATION_QUEUE_TYPES: Final = DESTINATION_QUEUE_TYPES | {
    QueueTypeCode.NONE,
    QueueTypeCode.PRIVATE_QUEUE_ON_SOURCE,
    QueueTypeCode.PRIVATE_QUEUE_ON_OTHER,
}
RESPONSE_QUEUE_TYPES: Final = ADMINISTRATION_QUEUE_TYPES | {
    QueueTypeCode.SAME_AS_ADMINISTRATION_QUEUE,
    QueueTypeCode.PRIVATE_QUEUE_ON_ADMIN,
}

BASE_PROVIDER: Final = "Microsoft Base Cryptographic Provider v1.0"
ENHANCED_PROVIDER: Final = "Microsoft Enhanced Cryptographic Provider v1.0"
AES_PROVIDER: Final = "Microsoft Enhanced RSA and AES Cryptographic Provider"
PROVIDER_NAMES: Final = (BASE_PROVIDER, ENHANCED_PROVIDER, AES_PROVIDER)
