"""SRMP messages made into packets, [MC-MQSRM] 3.1.5.1.1.

Inside the queue manager every message is a UserMessage packet, whatever brought it. What HTTP
brought goes along in the two headers of [MS-MQRR] 2.2.5.1.2, less the body, which is where all
messages have theirs (`stored_messages.py`).
"""

import struct
from codecs import BOM_UTF8
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from posthouse.model.errors import IllegalFormatName, IllegalPropertyValue, MalformedPacket
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import (
    ACK_NEG_RECEIVE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    CLASS_CODE_MAX,
    MESSAGE_ID_SIZE,
    EncryptionAlgorithm,
)
from posthouse.model.names import (
    ELEMENT_LENGTH_MAX,
    DirectName,
    FormatName,
    MulticastName,
    PrivateName,
    PublicName,
    parse_format_name,
)
from posthouse.model.text import utf16_length
from posthouse.wire.layout import encode_text
from posthouse.wire.packet.headers import (
    COMPOUND_MESSAGE,
    COMPOUND_MESSAGE_HEADER,
    INFINITE,
    LABEL_UNITS_MAX,
    MESSAGE_PROPERTIES_HEADER,
    OVER_HTTP,
    PACKET_SIZE_MAX,
    SIGNATURE,
    SRMP_ENVELOPE,
    SRMP_ENVELOPE_HEADER,
    TRANSACTION_HEADER,
    VERSION_NUMBER,
)
from posthouse.wire.packet.optional_headers import MultiQueue, Security
from posthouse.wire.packet.packet_fields import HEAD
from posthouse.wire.packet.serialize import pack_queue_names
from posthouse.wire.srmp.message import LABEL_PREFIX, SrmpMessage, Stream
from posthouse.wire.srmp.mime_parts import Parts
from posthouse.wire.srmp.values import is_url

_CACHED: Final = 1024
_NO_CORRELATION: Final = bytes(MESSAGE_ID_SIZE)
_PADDINGS: Final = tuple(map(bytes, range(6)))
_RC4: Final = int(EncryptionAlgorithm.RC4)  # unused, but what every message has by default
_U32_MAX: Final = 0xFFFF_FFFF
_DIRECT: Final = "DIRECT="
_URL_LENGTH_MAX: Final = 12 * ELEMENT_LENGTH_MAX  # up to 4 bytes a character, each escaped by 3
_NAME_LENGTH_MAX: Final = 2 * ELEMENT_LENGTH_MAX  # longer ones name nothing, and are not kept
# Flags of the UserHeader, [MS-MQMQ] 2.2.19.2
_RECOVERABLE, _JN, _JP = 1 << 5, 1 << 8, 1 << 9
_SH, _TH, _MP, _MQ = 1 << 19, 1 << 20, 1 << 21, 1 << 23
_TRACING: Final = 1 << 8  # of the BaseHeader
# Flags of the TransactionHeader, [MS-MQMQ] 2.2.20.5; its number is our choice, as SRMP has none
_CG, _FA, _FM, _LM, _NUMBER = 1, 2, 4, 8, 1 << 4


def packet_of(
    message: SrmpMessage,
    parts: Parts,
    head: bytes,
    utc: int,
    security: Security | None = None,
) -> bytes:
    """The packet that is kept of a message that came with this HTTP head at this time.

    `security` has what a verification found. `MalformedPacket` for what fits into no message.
    """
    body, extension, stream = parts.body, parts.extension, message.stream
    raw, flags, address, multicast = _names(message)
    label = _label(message.label)
    protection = _security(message, security)
    lists = _lists(message, multicast)
    padding = -(len(label) + len(extension) + len(body)) % 4
    pieces = [
        b"",
        raw,
        b"" if stream is None else _transaction(message, stream),
        protection,
        _properties(message, label, extension, body),
        label,
        extension,
        body,
        _PADDINGS[padding],
        *_origin(parts, head),
        lists,
    ]
    size = HEAD.size + sum(map(len, pieces))
    if size > PACKET_SIZE_MAX:
        raise MalformedPacket(f"the message takes {size} bytes, {PACKET_SIZE_MAX} is the limit")
    flags |= _user_flags(message)
    if protection:
        flags |= _SH
    if lists:
        flags |= _MQ
    sent = utc if message.sent_at is None else min(max(message.sent_at, 0), _U32_MAX)
    pieces[0] = HEAD.pack(
        VERSION_NUMBER,
        (message.priority if stream is None else 0) | (_TRACING if message.trace else 0),
        SIGNATURE,
        size,
        min(message.time_to_reach_queue(utc), INFINITE),
        message.source_guid,
        address,
        INFINITE,
        sent,
        message.ordinal,
        flags,
    )
    return b"".join(pieces)


# -- the parts of a packet


def _user_flags(message: SrmpMessage) -> int:
    flags = OVER_HTTP | _MP
    if message.durable:
        flags |= _RECOVERABLE
    if message.stream is not None:
        flags |= _TH
    if message.dead_letter:
        flags |= _JN
    if message.journal:
        flags |= _JP
    return flags


class _Names(NamedTuple):
    """The names of a UserHeader, its flags and address; a multicast name, which has a list."""

    raw: bytes
    flags: int
    address: bytes
    multicast: tuple[FormatName, ...]


def _names(message: SrmpMessage) -> _Names:
    """3.1.5.1.1; of two addresses for receipts the one of the commitment receipt comes last.

    What is not a name of a queue stays in the envelope, where applications may see it (2.2.4.4).
    """
    if len(message.to) > _URL_LENGTH_MAX:
        raise MalformedPacket(f"to has {len(message.to)} characters")
    via = message.via
    return _names_of(
        message.to,
        message.commitment_receipt_to or message.delivery_receipt_to,
        via if len(via) <= _NAME_LENGTH_MAX else "",
        message.source_guid,
        message.connector_type,
    )


@lru_cache(_CACHED)
def _names_of(
    to: str, administration: str, via: str, source: bytes, connector_type: bytes
) -> _Names:
    """The names that many messages of a sender share."""
    try:
        packed = pack_queue_names(
            _destination_name(to),
            _DIRECT + administration if administration else "",
            _response_name(via) if via else "",
            0,
            0,
            source,
            NULL_GUID,
            connector_type,
        )
    except IllegalFormatName as error:
        raise MalformedPacket(error.cause) from None
    return _Names(*packed, _multicast(to))


def _destination_name(to: str) -> str:
    """A URL as a name, without percent-encoding; a multicast name stands in the list."""
    if not is_url(to):
        return ""
    try:
        return _DIRECT + unquote(to, errors="strict") if "%" in to else _DIRECT + to
    except UnicodeDecodeError:
        raise MalformedPacket("to has percent-encoded octets that are not UTF-8") from None


def _response_name(via: str) -> str:
    name = _listed(via)
    single = isinstance(name, DirectName) or (
        isinstance(name, PublicName | PrivateName) and not name.suffix
    )
    return str(name) if single else ""


def _listed(text: str) -> FormatName | None:
    """A URL, or a format name with or without the prefix; None for other text (decision 89)."""
    return _listed_name(text) if len(text) <= _NAME_LENGTH_MAX else None


@lru_cache(_CACHED)
def _listed_name(text: str) -> FormatName | None:
    name = _DIRECT + text if is_url(text) else text.removeprefix(LABEL_PREFIX)
    try:
        return parse_format_name(name)
    except IllegalFormatName:
        return None


@lru_cache(_CACHED)
def _short_label(label: str) -> bytes:
    return encode_text(label)


def _label(label: str) -> bytes:
    if not label:
        return b""
    if len(label) >= LABEL_UNITS_MAX or utf16_length(label) >= LABEL_UNITS_MAX:
        raise MalformedPacket(f"a label of {utf16_length(label)} characters")
    return _short_label(label)


def _transaction(message: SrmpMessage, stream: Stream) -> bytes:
    """TransactionHeader, [MS-MQMQ] 2.2.20.5, of a stream message."""
    flags = _NUMBER
    if message.commitment_receipt_to:
        flags |= _FA
    if message.first:
        flags |= _FM
    if message.last:
        flags |= _LM
    connector = message.connector_id
    if connector == NULL_GUID:
        connector = b""
    else:
        flags |= _CG
    place = TRANSACTION_HEADER.codec.pack(
        flags, stream.sequence_id, stream.current, stream.previous
    )
    return place + connector


def _security(message: SrmpMessage, security: Security | None) -> bytes:
    if security is None and message.provider is None:
        return b""
    try:
        return (security or Security())._replace(provider=message.provider).pack()
    except struct.error:
        raise MalformedPacket("a certificate or provider that is too long") from None


def _properties(message: SrmpMessage, label: bytes, extension: bytes, body: bytes) -> bytes:
    """MessagePropertiesHeader, [MS-MQMQ] 2.2.19.3."""
    if message.message_class > CLASS_CODE_MAX:
        raise MalformedPacket(f"class {message.message_class}")
    acknowledgments = 0
    if message.delivery_receipt_to:
        acknowledgments = ACK_POS_ARRIVAL
    if message.positive_only:
        acknowledgments |= ACK_POS_RECEIVE
    if message.negative_only:
        acknowledgments |= ACK_NEG_RECEIVE
    return MESSAGE_PROPERTIES_HEADER.codec.pack(
        acknowledgments,
        len(label) // 2,
        message.message_class,
        message.correlation or _NO_CORRELATION,
        message.body_type,
        message.application_tag,
        len(body),
        len(body),
        0,
        message.hash_algorithm,
        _RC4,
        len(extension),
    )


def _origin(parts: Parts, head: bytes) -> tuple[bytes, ...]:
    """The two headers of [MS-MQRR] 2.2.5.1.2 in stored form, padded to four bytes.

    SoapEnvelope whole, SoapCompoundMessage octet for octet but for the body.
    """
    try:
        text = parts.envelope.removeprefix(BOM_UTF8).decode().encode("utf-16-le")
    except UnicodeDecodeError:
        raise MalformedPacket("an envelope that is not UTF-8") from None
    payload, body_at, body_size = parts.payload, parts.body_at, len(parts.body)
    size = len(head) + len(payload) - body_size
    return (
        SRMP_ENVELOPE_HEADER.codec.pack(SRMP_ENVELOPE, 0, len(text) // 2 + 1),
        text,
        _PADDINGS[2 + -(len(text) + 2) % 4],
        COMPOUND_MESSAGE_HEADER.codec.pack(
            COMPOUND_MESSAGE, 0, size, body_size, len(head) + body_at
        ),
        head,
        payload[:body_at],
        payload[body_at + body_size :],
        _PADDINGS[-size % 4],
    )


def _lists(message: SrmpMessage, multicast: tuple[FormatName, ...]) -> bytes:
    """MultiQueueFormatHeader, [MS-MQMQ] 2.2.20.1: the three Mqf elements, and a multicast name."""
    if not (multicast or message.destination_mqf or message.admin_mqf or message.response_mqf):
        return b""
    destination, administration, response = (
        tuple(name for text in texts if (name := _listed(text)) is not None)
        for texts in (message.destination_mqf, message.admin_mqf, message.response_mqf)
    )
    try:
        return MultiQueue(destination or multicast, administration, response).pack()
    except (IllegalFormatName, IllegalPropertyValue) as error:
        raise MalformedPacket(error.cause) from None


def _multicast(to: str) -> tuple[FormatName, ...]:
    if is_url(to):
        return ()
    name = _listed(to)
    if not isinstance(name, MulticastName):
        raise MalformedPacket("to is not a multicast name")
    return (name,)
