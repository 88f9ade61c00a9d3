"""A 16-byte digest of a message's content, to recognise a message that is sent again.

Anybody can send under the identifier of another machine, or in its sequence. So a message is known
by its source, its identifier or place, and this digest. It covers every byte but those that may
differ between a message and its resend: TimeToReachQueue, QueueManagerAddress (a public queue may
have moved meanwhile), the hops, the previous number of a sequence (gaps are bridged, decision 76).
A SessionHeader belongs to the hop, and is gone before; an encrypted body is opened before, since
it is encrypted again each time that it is sent.
"""

from hashlib import sha256
from struct import Struct

from posthouse.wire.packet.headers import HOPS
from posthouse.wire.packet.packet_fields import (
    NAMES_AT,
    ORDINAL_AT,
    ORDINAL_END,
    PacketSummary,
    summarize,
)

DIGEST_SIZE = 16
_TTRQ_AT, _SOURCE_AT, _ADDRESS_AT, _LIFE_AT = 12, 16, 32, 48
_FLAGS_AT = NAMES_AT - 4
_IDENTITY = Struct("<16sIQI")  # source, ordinal, place
_PREVIOUS_AT, _PREVIOUS_END = 16, 20  # in a TransactionHeader


def content_digest(packet: bytes, seen: PacketSummary) -> bytes:
    """The digest of a UserMessage packet without SessionHeader."""
    return content_digests([packet], [seen])[0]


def content_digests(packets: list[bytes], looks: list[PacketSummary]) -> list[bytes]:
    """The digests of UserMessage packets; those that share a summary begin with the same bytes."""
    digests: list[bytes] = []
    known, front, flags, at = None, b"", b"", 0
    for packet, seen in zip(packets, looks, strict=True):
        if seen is not known:
            known, at = seen, seen.transaction_at
            front = packet[:_TTRQ_AT] + packet[_SOURCE_AT:_ADDRESS_AT] + packet[_LIFE_AT:ORDINAL_AT]
            marks = int.from_bytes(packet[_FLAGS_AT:NAMES_AT], "little")
            flags = (marks & ~HOPS).to_bytes(4, "little")
        digest, rest = sha256(front + packet[ORDINAL_AT:ORDINAL_END] + flags), memoryview(packet)
        if at:
            digest.update(rest[NAMES_AT : at + _PREVIOUS_AT])
            digest.update(rest[at + _PREVIOUS_END :])
        else:
            digest.update(rest[NAMES_AT:])
        digests.append(digest.digest()[:DIGEST_SIZE])
    return digests


def passing_digest(packet: bytes, seen: PacketSummary) -> bytes:
    """The digest of a message that is passed on; it covers destination and times, too.

    Else a copy that is sent elsewhere, or dies on the way, would be taken for the message itself.
    """
    where = packet[_TTRQ_AT:_SOURCE_AT] + packet[_ADDRESS_AT:_LIFE_AT]
    return sha256(content_digest(packet, seen) + where).digest()[:DIGEST_SIZE]


def web_digest(packet: bytes, seen: PacketSummary, place: tuple[int, int] = (0, 0)) -> bytes:
    """The digest of a message that came over HTTP, by its content and its place.

    Its sender writes the envelope again for each post, and proxies write the head.
    """
    end = seen.body_at + seen.body_size
    digest = sha256(_IDENTITY.pack(seen.source_guid, seen.ordinal, *place))
    digest.update(memoryview(packet)[seen.properties_at or seen.body_at : end])
    return digest.digest()[:DIGEST_SIZE]


def message_digest(packet: bytes, message_class: int) -> int:
    """Eight bytes by which a message that was pulled is known beside its lookup id.

    The class of a dead letter is not in its packet, and counts as well.
    """
    digest = int.from_bytes(content_digest(packet, summarize(packet))[:8], "little")
    return digest ^ message_class
