"""Headers with variable parts that a UserMessage packet may have, [MS-MQMQ] 2.2.20.

Each is read from a `Reader` that stands at its start and written as bytes that fill whole
4-byte units.
"""

from typing import NamedTuple

from posthouse.model.errors import IllegalPropertyValue, MalformedPacket
from posthouse.model.guids import NULL_GUID
from posthouse.model.names import ELEMENTS_MAX, FormatName, SingleName
from posthouse.wire.layout import Layout, Reader, align4, decode_text, encode_text, u32
from posthouse.wire.packet.headers import (
    DEBUG_HEADER,
    MQF_ADDRESS_HEADER,
    MQF_ADMINISTRATION,
    MQF_DESTINATION,
    MQF_RESPONSE,
    MQF_SIGNATURE,
    MQF_SIGNATURE_HEADER,
    SECURITY_HEADER,
    SOAP_BODY_SECTION,
    SOAP_HEADER_SECTION,
    SOAP_SECTION,
    DebugFlags,
    DebugHeader,
    MqfAddressHeader,
    MqfSignatureHeader,
    SecurityFlags,
    SecurityHeader,
    SoapSection,
)
from posthouse.wire.packet.queue_names import append_element, read_element


def padded(raw: bytes) -> bytes:
    """The bytes with zeros up to a multiple of four."""
    return raw.ljust(align4(len(raw)), b"\0")


class ProviderType(NamedTuple):
    """The start of ProviderInfo, [MS-MQMQ] 2.2.20.6; the provider's name follows."""

    provider_type: u32


PROVIDER_TYPE = Layout(ProviderType)


class Provider(NamedTuple):
    """ProviderInfo, [MS-MQMQ] 2.2.20.6: the cryptographic provider of the signature."""

    type: int
    name: str

    def pack(self) -> bytes:
        """Type and name; ProviderInfoSize counts both."""
        return PROVIDER_TYPE.codec.pack(self.type) + encode_text(self.name)


class Security(NamedTuple):
    """SecurityHeader with its five items, [MS-MQMQ] 2.2.20.6."""

    flags: SecurityFlags = SecurityFlags(0)
    sender_id: bytes = b""
    encryption_key: bytes = b""
    signature: bytes = b""
    sender_certificate: bytes = b""
    provider: Provider | None = None

    def pack(self) -> bytes:
        """The header and each item padded to four bytes, which the sizes do not count."""
        provider = self.provider.pack() if self.provider else b""
        items = (
            self.sender_id,
            self.encryption_key,
            self.signature,
            self.sender_certificate,
            provider,
        )
        header = SecurityHeader(self.flags, *map(len, items))
        return SECURITY_HEADER.pack(header) + b"".join(map(padded, items))


def read_security(reader: Reader) -> Security:
    """SecurityHeader, [MS-MQMQ] 2.2.20.6; the flag AI is ignored, the sizes decide."""
    header = reader.read(SECURITY_HEADER)
    return Security(
        header.flags,
        _read_item(reader, header.sender_id_size),
        _read_item(reader, header.encryption_key_size),
        _read_item(reader, header.signature_size),
        _read_item(reader, header.sender_certificate_size),
        _provider(_read_item(reader, header.provider_info_size)),
    )


def _read_item(reader: Reader, size: int) -> bytes:
    item = reader.take(size)
    reader.align()
    return item


def _provider(raw: bytes) -> Provider | None:
    if not raw:
        return None
    provider_type = PROVIDER_TYPE.unpack(raw).provider_type
    return Provider(provider_type, decode_text(raw[PROVIDER_TYPE.size :]))


def read_debug(reader: Reader) -> bytes:
    """DebugHeader, [MS-MQMQ] 2.2.20.8: the GUID of the report queue, null if there is none."""
    return reader.take(16) if reader.read(DEBUG_HEADER).flags.queue_type == 1 else NULL_GUID


def pack_debug(queue: bytes) -> bytes:
    """DebugHeader, [MS-MQMQ] 2.2.20.8; QT is 1 only with a report queue."""
    if queue == NULL_GUID:
        return DEBUG_HEADER.pack(DebugHeader(DebugFlags(0)))
    return DEBUG_HEADER.pack(DebugHeader(DebugFlags.of(queue_type=1))) + queue


class Soap(NamedTuple):
    """SoapHeader, [MS-MQMQ] 2.2.20.7: two texts of a message that came by SRMP."""

    header: str = ""
    body: str = ""

    def pack(self) -> bytes:
        """Both sections, each padded to four bytes."""
        header = _pack_section(SOAP_HEADER_SECTION, self.header)
        return header + _pack_section(SOAP_BODY_SECTION, self.body)


def read_soap(reader: Reader) -> Soap:
    """SoapHeader, [MS-MQMQ] 2.2.20.7."""
    header = _read_section(reader, SOAP_HEADER_SECTION)
    return Soap(header, _read_section(reader, SOAP_BODY_SECTION))


def _read_section(reader: Reader, section_id: int) -> str:
    reader.align()
    section = reader.read(SOAP_SECTION)
    if section.section_id != section_id:
        raise MalformedPacket(f"SOAP section 0x{section.section_id:04x}")
    return reader.text(section.data_length)


def _pack_section(section_id: int, text: str) -> bytes:
    # The lengths count UTF-16 units, unlike nearly all others of a packet.
    raw = encode_text(text)
    return padded(SOAP_SECTION.pack(SoapSection(section_id, 0, len(raw) // 2)) + raw)


class MultiQueue(NamedTuple):
    """MultiQueueFormatHeader, [MS-MQMQ] 2.2.20.1: every queue a message was sent to at once."""

    destination: tuple[FormatName, ...] = ()
    administration: tuple[FormatName, ...] = ()
    response: tuple[FormatName, ...] = ()
    signature: bytes = b""

    def pack(self) -> bytes:
        """Three address headers and the signature, each padded to four bytes."""
        signature = MqfSignatureHeader(MQF_SIGNATURE, 0, len(self.signature))
        return b"".join(
            (
                _pack_addresses(MQF_DESTINATION, self.destination),
                _pack_addresses(MQF_ADMINISTRATION, self.administration),
                _pack_addresses(MQF_RESPONSE, self.response),
                MQF_SIGNATURE_HEADER.pack(signature),
                padded(self.signature),
            )
        )


def read_multi_queue(reader: Reader) -> MultiQueue:
    """MultiQueueFormatHeader, [MS-MQMQ] 2.2.20.1."""
    destination = _read_addresses(reader, MQF_DESTINATION)
    administration = _read_addresses(reader, MQF_ADMINISTRATION)
    response = _read_addresses(reader, MQF_RESPONSE)
    reader.align()
    header = reader.read(MQF_SIGNATURE_HEADER)
    if header.header_id != MQF_SIGNATURE:
        raise MalformedPacket(f"MQFSignatureHeader with id 0x{header.header_id:04x}")
    return MultiQueue(destination, administration, response, reader.take(header.size))


def _read_addresses(reader: Reader, header_id: int) -> tuple[SingleName, ...]:
    """MQFAddressHeader, [MS-MQMQ] 2.2.20.2.

    Whether HeaderSize counts the padding after the elements is not said: either will do.
    """
    reader.align()
    start = reader.at
    header = reader.read(MQF_ADDRESS_HEADER)
    if header.header_id != header_id or header.element_count > ELEMENTS_MAX:
        raise MalformedPacket(
            f"MQFAddressHeader 0x{header.header_id:04x} of {header.element_count} names"
        )
    reader.skip(header.header_size - MQF_ADDRESS_HEADER.size)
    elements = Reader(reader.data, start + MQF_ADDRESS_HEADER.size, reader.at)
    return tuple([read_element(elements) for _ in range(header.element_count)])


def _pack_addresses(header_id: int, names: tuple[FormatName, ...]) -> bytes:
    # Choice: HeaderSize counts the padding, so that a reader who adds it up lands on the next part.
    if len(names) > ELEMENTS_MAX:
        raise IllegalPropertyValue(f"a list of {len(names)} queues, {ELEMENTS_MAX} is the limit")
    buffer = bytearray(MQF_ADDRESS_HEADER.size)
    for name in names:
        append_element(buffer, name)
    buffer += bytes(-len(buffer) % 4)
    header = MqfAddressHeader(len(buffer), header_id, 0, len(names))
    MQF_ADDRESS_HEADER.codec.pack_into(buffer, 0, *header)
    return bytes(buffer)
