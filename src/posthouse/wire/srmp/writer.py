"""SOAP envelopes of SRMP messages written, [MC-MQSRM] 3.1.7.2.4: the strings in their order."""

from base64 import b64encode
from typing import Final

from posthouse.model.guids import NULL_GUID
from posthouse.wire.srmp.message import SrmpMessage, Stream
from posthouse.wire.srmp.values import escape, write_date, write_guid, write_message_id

_BEGIN: Final = (
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
    '<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
)
_END: Final = "</se:Header><se:Body></se:Body></se:Envelope>"


def write_envelope(message: SrmpMessage, signature: bytes = b"") -> bytes:
    """The envelope of a message, with a Signature element that was made for it."""
    parts = [
        _BEGIN,
        _path(message),
        _properties(message),
        _services(message),
    ]
    if message.stream is not None:
        parts.append(_stream(message.stream))
    if (
        message.delivery_receipt or message.commitment_receipt or message.stream_receipt
    ) is not None:
        parts.append(_receipts(message))
    if message.has_msmq:
        parts.append(_msmq(message))
    if signature:
        parts.append(signature.decode())
    parts.append(_END)
    return "".join(parts).encode()


def _path(message: SrmpMessage) -> str:
    via = message.via
    rev = f"<rev><via>{escape(via)}</via></rev>" if via else ""
    return (
        f"<action>{escape(message.action)}</action><to>{escape(message.to)}</to>"
        f"<id>{escape(message.id)}</id>{rev}</path>"
    )


def _properties(message: SrmpMessage) -> str:
    sent_at = message.sent_at
    sent = "" if sent_at is None else f"<sentAt>{write_date(sent_at)}</sentAt>"
    return (
        '<properties se:mustUnderstand="1">'
        f"<expiresAt>{write_date(message.expires_at)}</expiresAt>{sent}</properties>"
    )


def _services(message: SrmpMessage) -> str:
    asked = ""
    if message.durable:
        asked = "<durable/>"
    if message.delivery_receipt_to:
        asked += (
            f"<deliveryReceiptRequest><sendTo>{escape(message.delivery_receipt_to)}</sendTo>"
            "</deliveryReceiptRequest>"
        )
    if message.commitment_receipt_to:
        positive = "<positiveOnly/>" if message.positive_only else ""
        negative = "<negativeOnly/>" if message.negative_only else ""
        asked += (
            f"<commitmentReceiptRequest><sendTo>{escape(message.commitment_receipt_to)}</sendTo>"
            f"{positive}{negative}</commitmentReceiptRequest>"
        )
    return f'<services se:mustUnderstand="1">{asked}</services>' if asked else ""


def _stream(stream: Stream) -> str:
    """A number of 0 is left out where readers find it by themselves.

    They do not where a stream begins late, because what was in front has expired (decision 76).
    """
    previous = ""
    if stream.previous or stream.current > 1:
        previous = f"<previous>{stream.previous}</previous>"
    start = stream.send_receipts_to
    if start is not None:
        start = f"<start><sendReceiptsTo>{escape(start)}</sendReceiptsTo></start>"
    return (
        f'<stream se:mustUnderstand="1"><streamId>{escape(stream.stream_id)}</streamId>'
        f"<current>{stream.current}</current>{previous}{start or ''}</stream>"
    )


def _receipts(message: SrmpMessage) -> str:
    """2.2.5.4 to 2.2.5.6; a final stream receipt has two of them."""
    texts = []
    if message.stream_receipt is not None:
        stream_id, _, _, last_ordinal = message.stream_receipt
        texts.append(
            f"<streamReceipt><streamId>{escape(stream_id)}</streamId>"
            f"<lastOrdinal>{last_ordinal}</lastOrdinal></streamReceipt>"
        )
    if message.delivery_receipt is not None:
        received_at, identifier = message.delivery_receipt
        texts.append(
            f"<deliveryReceipt><receivedAt>{write_date(received_at)}</receivedAt>"
            f"<id>{write_message_id(*identifier)}</id></deliveryReceipt>"
        )
    if message.commitment_receipt is not None:
        decided_at, decision, identifier = message.commitment_receipt
        texts.append(
            f"<commitmentReceipt><decidedAt>{write_date(decided_at)}</decidedAt>"
            f"<decision>{decision}</decision><id>{write_message_id(*identifier)}</id>"
            "</commitmentReceipt>"
        )
    return "".join(texts)


def _msmq(message: SrmpMessage) -> str:
    """The Msmq element; what is not asked for, or not set, is left out."""
    parts = [
        f'<Msmq xmlns="msmq.namespace.xml"><Class>{message.message_class}</Class>'
        f"<Priority>{message.priority}</Priority>"
    ]
    add = parts.append
    if message.journal:
        add("<Journal/>")
    if message.dead_letter:
        add("<DeadLetter/>")
    if message.correlation:
        add(f"<Correlation>{b64encode(message.correlation).decode()}</Correlation>")
    if message.trace:
        add("<Trace/>")
    if message.connector_type != NULL_GUID:
        add(f"<ConnectorType>{write_guid(message.connector_type)}</ConnectorType>")
    if message.application_tag:
        add(f"<App>{message.application_tag}</App>")
    add(f"<BodyType>{message.body_type}</BodyType>")
    if message.hash_algorithm:
        add(f"<HashAlgorithm>{message.hash_algorithm}</HashAlgorithm>")
    if message.first or message.last or message.connector_id != NULL_GUID:
        add(_eod(message))
    if message.provider is not None:
        kind, name = message.provider
        add(f"<Provider><Type>{kind}</Type><Name>{escape(name)}</Name></Provider>")
    add(f"<SourceQmGuid>{write_guid(message.source_guid)}</SourceQmGuid>")
    if message.destination_mqf or message.admin_mqf or message.response_mqf:
        add(_lists(message))
    reach_by = message.expires_at if message.reach_by is None else message.reach_by
    add(f"<TTrq>{write_date(reach_by)}</TTrq></Msmq>")
    return "".join(parts)


def _eod(message: SrmpMessage) -> str:
    first = "<First/>" if message.first else ""
    last = "<Last/>" if message.last else ""
    connector = ""
    if message.connector_id != NULL_GUID:
        connector = f"<ConnectorId>{write_guid(message.connector_id)}</ConnectorId>"
    return f"<Eod>{first}{last}{connector}</Eod>"


def _lists(message: SrmpMessage) -> str:
    """Each name is followed by a white-space character."""
    return "".join(
        f"<{name}>{''.join(f'{escape(queue)} ' for queue in queues)}</{name}>"
        for name, queues in (
            ("DestinationMqf", message.destination_mqf),
            ("AdminMqf", message.admin_mqf),
            ("ResponseMqf", message.response_mqf),
        )
        if queues
    )
