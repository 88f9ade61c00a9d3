"""SOAP envelopes of SRMP messages read, [MC-MQSRM] 2.2.

Whatever breaks section 2 is `MalformedPacket`, which is HTTP 400 (3.1.5.1.2). Elements are known by
namespace and local name; unknown ones are skipped unless they are marked as `mustUnderstand`.
"""

from collections.abc import Callable
from typing import Final

from posthouse.model.errors import MalformedPacket
from posthouse.model.message import PRIORITY_MAX
from posthouse.model.text import excerpt
from posthouse.wire.packet.optional_headers import Provider
from posthouse.wire.srmp.fast_reader import read_plain
from posthouse.wire.srmp.message import (
    NEGATIVE,
    POSITIVE,
    CommitmentReceipt,
    DeliveryReceipt,
    Reference,
    SignatureElement,
    SrmpMessage,
    Stream,
    StreamReceipt,
)
from posthouse.wire.srmp.values import (
    is_url,
    read_correlation,
    read_date,
    read_guid,
    read_message_id,
    read_number,
    read_stream_id,
    read_u32,
)
from posthouse.wire.srmp.xml import Element, octets_of, read_xml

SE: Final = "http://schemas.xmlsoap.org/soap/envelope/"  # 2.2.3
RP: Final = "http://schemas.xmlsoap.org/rp/"
SRMP: Final = "http://schemas.xmlsoap.org/srmp/"
MSMQ: Final = "msmq.namespace.xml"
DSIG: Final = "http://www.w3.org/2000/02/xmldsig#"  # 2.2.7
MULTICAST: Final = "MSMQ:MULTICAST="  # 2.2.4.2

ENVELOPE: Final = f"{SE} Envelope"
HEADER: Final = f"{SE} Header"
BODY: Final = f"{SE} Body"
SIGNATURE: Final = f"{DSIG} Signature"
MUST_UNDERSTAND: Final = f"{SE} mustUnderstand"
SIGNED_INFO_PATH: Final = (ENVELOPE, HEADER, SIGNATURE, f"{DSIG} SignedInfo")


def read_envelope(xml: bytes) -> SrmpMessage:
    """The message that a SOAP envelope describes; `MalformedPacket` for any other bytes."""
    return read_plain(xml) or read_tree(xml)


def read_tree(xml: bytes) -> SrmpMessage:
    """The message that an envelope in any form of XML describes."""
    root = read_xml(xml)
    children = root.children
    if root.name != ENVELOPE or len(children) < 2:
        raise MalformedPacket("the root is not a SOAP Envelope with Header and Body")
    if children[0].name != HEADER or children[1].name != BODY:
        raise MalformedPacket("Header and Body are not the first elements of the Envelope")
    message = SrmpMessage()
    found = _read_header(children[0], message)
    if "path" not in found or "properties" not in found:
        raise MalformedPacket("path or properties is missing")
    if message.stream is not None:
        _check_stream(message, found["stream"])
    if message.has_msmq:
        message.ordinal = read_message_id(message.id).ordinal
    if "Signature" in found:
        message.signature = _read_signature(found["Signature"], xml)
    return message


def _read_header(header: Element, message: SrmpMessage) -> dict[str, Element]:
    """Reads every known element, and shows which there were."""
    found: dict[str, Element] = {}
    for element in header.children:
        entry = _HEADER.get(element.name)
        if entry is None:
            if element.attributes.get(MUST_UNDERSTAND) == "1":
                raise MalformedPacket(f"{excerpt(element.name)} must be understood and is not")
            continue
        name, marked, read = entry
        if name in found:
            raise MalformedPacket(f"{name} is there twice")
        if marked and element.attributes.get(MUST_UNDERSTAND) != "1":
            raise MalformedPacket(f"{name} without mustUnderstand")
        found[name] = element
        read(element, message)
    return found


def _check_stream(message: SrmpMessage, element: Element) -> None:
    """2.2.5.3: what a stream message has to have.

    Choice: 4.4 spells the element `Stream` and has no services at all. That spelling is taken as
    the example has it, for a durable message; `stream` has to keep the rule.
    """
    if not message.has_msmq:
        raise MalformedPacket("stream without Msmq")
    if not message.durable and element.name != _CAPITAL_STREAM:
        raise MalformedPacket("stream without durable")
    message.durable = True


# -- the children of an element


def _leaf(element: Element) -> str:
    """The text of an element that holds nothing else."""
    _, _, children, texts = element
    if children:
        raise MalformedPacket(f"{excerpt(element.name)} holds elements where text is due")
    return texts[0] if len(texts) == 1 else "".join(texts)


def _texts(element: Element, namespace: str) -> dict[str, str]:
    """The children of one namespace by local name; none of them may be there twice."""
    texts: dict[str, str] = {}
    for child in element.children:
        space, _, name = child.name.rpartition(" ")
        if space != namespace:
            continue
        if name in texts:
            raise MalformedPacket(f"{excerpt(name)} is there twice")
        texts[name] = "" if child.children else "".join(child.texts).strip()
    return texts


def _need(texts: dict[str, str], name: str) -> str:
    text = texts.get(name)
    if text is None:
        raise MalformedPacket(f"{name} is missing")
    return text


def _url(texts: dict[str, str], name: str) -> str:
    """An address for receipts, which has to be a URL: 2.2.5.2.2, 2.2.5.2.3, 2.2.5.3.4."""
    text = _need(texts, name)
    if not is_url(text):
        raise MalformedPacket(f"{name} is {excerpt(text)}, which is not a URL of HTTP or HTTPS")
    return text


def _child(element: Element, name: str) -> Element | None:
    return next((child for child in element.children if child.name == name), None)


# -- path, 2.2.4


def _read_path(element: Element, message: SrmpMessage) -> None:
    found = set()
    for child in element.children:
        name = _PATH.get(child.name)
        if name is None:
            continue
        if name in found:
            raise MalformedPacket(f"{name} is there twice")
        found.add(name)
        if name == "rev":
            message.via = _read_rev(child)
        else:
            text = _leaf(child)
            setattr(message, name, text if name == "action" else text.strip())
    if not found >= _PATH_NEEDS:
        raise MalformedPacket("action, to or id is missing")
    if not (is_url(message.to) or message.to.startswith(MULTICAST)):
        raise MalformedPacket(
            f"to is {excerpt(message.to)}, which is neither a URL nor a multicast name"
        )


def _read_rev(element: Element) -> str:
    """2.2.4.4: exactly one via, which may be empty."""
    vias = [child for child in element.children if child.name == _VIA]
    if len(vias) != 1:
        raise MalformedPacket(f"rev with {len(vias)} via elements")
    return _leaf(vias[0]).strip()


# -- properties and services, 2.2.5.1 and 2.2.5.2


def _read_properties(element: Element, message: SrmpMessage) -> None:
    texts = _texts(element, SRMP)
    message.expires_at = read_date(_need(texts, "expiresAt"))
    if "sentAt" in texts:
        message.sent_at = read_date(texts["sentAt"])


def _read_services(element: Element, message: SrmpMessage) -> None:
    texts = _texts(element, SRMP)
    message.durable = "durable" in texts
    delivery = _child(element, _DELIVERY_REQUEST)
    if delivery is not None:
        message.delivery_receipt_to = _url(_texts(delivery, SRMP), "sendTo")
    commitment = _child(element, _COMMITMENT_REQUEST)
    if commitment is not None:
        asked = _texts(commitment, SRMP)
        message.commitment_receipt_to = _url(asked, "sendTo")
        message.positive_only = "positiveOnly" in asked
        message.negative_only = "negativeOnly" in asked


# -- stream, 2.2.5.3


def _read_stream(element: Element, message: SrmpMessage) -> None:
    texts = _texts(element, SRMP)
    current = read_u32(_need(texts, "current"))
    if not current:
        raise MalformedPacket("current is 0; a stream begins with 1")
    previous = read_u32(texts["previous"]) if "previous" in texts else current - 1
    start = _child(element, _START)
    receipts = None if start is None else _url(_texts(start, SRMP), "sendReceiptsTo")
    stream_id = read_stream_id(_need(texts, "streamId"))
    message.stream = Stream(*stream_id, current, previous, receipts)


# -- receipts, 2.2.5.4 to 2.2.5.6


def _read_delivery_receipt(element: Element, message: SrmpMessage) -> None:
    texts = _texts(element, SRMP)
    received_at = read_date(_need(texts, "receivedAt"))
    message.delivery_receipt = DeliveryReceipt(received_at, read_message_id(_need(texts, "id")))


def _read_commitment_receipt(element: Element, message: SrmpMessage) -> None:
    texts = _texts(element, SRMP)
    decision = _need(texts, "decision")
    if decision not in (POSITIVE, NEGATIVE):
        raise MalformedPacket(f"decision is {excerpt(decision)}")
    decided_at = read_date(_need(texts, "decidedAt"))
    identifier = read_message_id(_need(texts, "id"))
    message.commitment_receipt = CommitmentReceipt(decided_at, decision, identifier)


def _read_stream_receipt(element: Element, message: SrmpMessage) -> None:
    texts = _texts(element, SRMP)
    stream_id = read_stream_id(_need(texts, "streamId"))
    message.stream_receipt = StreamReceipt(*stream_id, read_number(_need(texts, "lastOrdinal")))


# -- Msmq, 2.2.6


def _read_msmq(element: Element, message: SrmpMessage) -> None:
    message.has_msmq = True
    found = set()
    for child in element.children:
        name = child.name
        entry = _MSMQ.get(name)
        if entry is None:
            continue
        if name in found:
            raise MalformedPacket(f"{name} is there twice")
        found.add(name)
        attribute, read = entry
        setattr(message, attribute, read(_leaf(child).strip()))
    if not found >= _MSMQ_NEEDS:
        raise MalformedPacket("Class, Priority, BodyType, SourceQmGuid or TTrq is missing")
    _read_eod(_child(element, _EOD), message)
    _read_provider(_child(element, _PROVIDER), message)


def _read_priority(text: str) -> int:
    priority = read_number(text)
    if priority > PRIORITY_MAX:
        raise MalformedPacket(f"priority {priority}")
    return priority


def _is_present(_: str) -> bool:
    return True


def _read_list(text: str) -> tuple[str, ...]:
    """Format names, split at white space (decision 89)."""
    return tuple(text.split())


def _read_eod(element: Element | None, message: SrmpMessage) -> None:
    """2.2.6.11."""
    if element is None:
        return
    texts = _texts(element, MSMQ)
    message.first, message.last = "First" in texts, "Last" in texts
    if "ConnectorId" in texts:
        message.connector_id = read_guid(texts["ConnectorId"])


def _read_provider(element: Element | None, message: SrmpMessage) -> None:
    """2.2.6.12; either of the two will do (decision 89)."""
    if element is None:
        return
    texts = _texts(element, MSMQ)
    if not ("Type" in texts or "Name" in texts):
        raise MalformedPacket("Provider without type and name")
    message.provider = Provider(read_u32(texts.get("Type", "0")), texts.get("Name", ""))


# -- Signature, 2.2.7


def _read_later(element: Element, message: SrmpMessage) -> None:
    """The signature is read when the rest is known to be good."""


def _read_signature(element: Element, xml: bytes) -> SignatureElement:
    """What there is, as often as it is there: the one who verifies judges it."""
    infos = _all(element, "SignedInfo")
    values = tuple(_stripped(value) for value in _all(element, "SignatureValue"))
    if len(infos) != 1:
        return SignatureElement(len(infos), b"", signature_values=values)
    methods = tuple(_algorithm(method) for method in _all(infos[0], "SignatureMethod"))
    references = tuple(_read_reference(reference) for reference in _all(infos[0], "Reference"))
    certificates = tuple(
        _stripped(certificate)
        for info in _all(element, "KeyInfo")
        for data in _all(info, "X509Data")
        for certificate in _all(data, "X509Certificate")
    )
    literal = octets_of(xml, SIGNED_INFO_PATH)[0]
    signed_id = infos[0].attributes.get("Id", "")
    return SignatureElement(1, literal, methods, references, values, certificates, signed_id)


def _read_reference(element: Element) -> Reference:
    return Reference(
        element.attributes.get("URI", ""),
        tuple(_algorithm(method) for method in _all(element, "DigestMethod")),
        tuple(_stripped(value) for value in _all(element, "DigestValue")),
    )


def _all(element: Element, name: str) -> list[Element]:
    wanted = f"{DSIG} {name}"
    return [child for child in element.children if child.name == wanted]


def _algorithm(element: Element) -> str:
    return element.attributes.get("Algorithm", "")


def _stripped(element: Element) -> str:
    """Base64, which may be broken into lines."""
    return "".join(_leaf(element).split())


# -- all names

_CAPITAL_STREAM: Final = f"{SRMP} Stream"
_VIA: Final = f"{RP} via"
_DELIVERY_REQUEST: Final = f"{SRMP} deliveryReceiptRequest"
_COMMITMENT_REQUEST: Final = f"{SRMP} commitmentReceiptRequest"
_START: Final = f"{SRMP} start"
_EOD: Final = f"{MSMQ} Eod"
_PROVIDER: Final = f"{MSMQ} Provider"
_PATH: Final = {f"{RP} {name}": name for name in ("action", "to", "id", "rev")}
_PATH_NEEDS: Final = {"action", "to", "id"}

# Name, whether it is to carry mustUnderstand, and what reads it.
_HEADER: Final[dict[str, tuple[str, bool, Callable[[Element, SrmpMessage], None]]]] = {
    f"{RP} path": ("path", True, _read_path),
    f"{SRMP} properties": ("properties", True, _read_properties),
    f"{SRMP} services": ("services", True, _read_services),
    f"{SRMP} stream": ("stream", True, _read_stream),
    _CAPITAL_STREAM: ("stream", True, _read_stream),  # decision 67
    f"{SRMP} deliveryReceipt": ("deliveryReceipt", False, _read_delivery_receipt),
    f"{SRMP} commitmentReceipt": ("commitmentReceipt", False, _read_commitment_receipt),
    f"{SRMP} streamReceipt": ("streamReceipt", False, _read_stream_receipt),
    f"{MSMQ} Msmq": ("Msmq", False, _read_msmq),
    SIGNATURE: ("Signature", False, _read_later),
}
HEADERS: Final = frozenset(_HEADER)  # all others are of applications

_MSMQ_CHILDREN: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "Class": ("message_class", read_number),
    "Priority": ("priority", _read_priority),
    "Journal": ("journal", _is_present),
    "DeadLetter": ("dead_letter", _is_present),
    "Correlation": ("correlation", read_correlation),
    "Trace": ("trace", _is_present),
    "ConnectorType": ("connector_type", read_guid),
    "App": ("application_tag", read_u32),
    "BodyType": ("body_type", read_u32),
    "HashAlgorithm": ("hash_algorithm", read_u32),
    "SourceQmGuid": ("source_guid", read_guid),
    "DestinationMqf": ("destination_mqf", _read_list),
    "AdminMqf": ("admin_mqf", _read_list),
    "ResponseMqf": ("response_mqf", _read_list),
    "TTrq": ("reach_by", read_date),
}
_MSMQ: Final = {f"{MSMQ} {name}": entry for name, entry in _MSMQ_CHILDREN.items()}
_MSMQ_NEEDS: Final = {
    f"{MSMQ} {name}" for name in ("Class", "Priority", "BodyType", "SourceQmGuid", "TTrq")
}
