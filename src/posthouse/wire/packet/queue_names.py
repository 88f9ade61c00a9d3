"""Queue names inside packets: of the UserHeader and of the lists of the multi-queue header.

[MS-MQMQ] 2.2.18.1.4, 2.2.18.1.5, 2.2.18.1.7 and the type codes of 2.2.19.2.
"""

from functools import lru_cache
from ipaddress import IPv4Address
from typing import Annotated, NamedTuple

from posthouse.model.errors import IllegalFormatName, MalformedPacket
from posthouse.model.guids import NULL_GUID
from posthouse.model.names import (
    DirectName,
    DistributionListName,
    FormatName,
    FormatType,
    MulticastName,
    PrivateName,
    PublicName,
    SingleName,
    Suffix,
    direct_from_wire,
)
from posthouse.wire.layout import Layout, Reader, align4, decode_text, encode_text, guid, u16, u32
from posthouse.wire.packet.headers import (
    QUEUE_DIRECT,
    QUEUE_NONE,
    QUEUE_PRIVATE_ON_ADMINISTRATION,
    QUEUE_PRIVATE_ON_DESTINATION,
    QUEUE_PRIVATE_ON_OTHER,
    QUEUE_PRIVATE_ON_SOURCE,
    QUEUE_PUBLIC,
    QUEUE_SAME_AS_ADMINISTRATION,
    UserFlags,
)


class QueueNumber(NamedTuple):
    """PrivateQueueFormatNameId, [MS-MQMQ] 2.2.18.1.5.1: the host follows from the type code."""

    number: u32


class QueueNumberOnHost(NamedTuple):
    """PrivateQueueFormatName, [MS-MQMQ] 2.2.18.1.7.2."""

    host: guid
    number: u32


class DirectCount(NamedTuple):
    """The start of a DirectQueueFormatName, [MS-MQMQ] 2.2.18.1.5.2."""

    size: u16  # Count: bytes of the text with its NUL


class MulticastElement(NamedTuple):
    """MULTICAST_ID: a group and its port, as Windows has them; no document shows them in a list."""

    address: Annotated[bytes, "4s"]  # in network order
    port: u32


class ElementType(NamedTuple):
    """The start of an MQFFormatNameElement, [MS-MQMQ] 2.2.18.1.4."""

    format_type: u16


QUEUE_NUMBER = Layout(QueueNumber)
QUEUE_NUMBER_ON_HOST = Layout(QueueNumberOnHost)
DIRECT_COUNT = Layout(DirectCount)
ELEMENT_TYPE = Layout(ElementType)
MULTICAST_ELEMENT = Layout(MulticastElement)

# A busy sender writes the same few names into every packet. Names are short, so this is small.
CACHED_NAMES_MAX = 1024

PRIVATE_CODES = frozenset(
    {
        QUEUE_PRIVATE_ON_SOURCE,
        QUEUE_PRIVATE_ON_DESTINATION,
        QUEUE_PRIVATE_ON_ADMINISTRATION,
        QUEUE_PRIVATE_ON_OTHER,
    }
)


class QueueNames(NamedTuple):
    """What follows the fixed part of a UserHeader, [MS-MQMQ] 2.2.19.2."""

    destination: SingleName | None
    administration: SingleName | None
    response: SingleName | None
    connector_type: bytes
    texts: tuple[str, str, str]  # the three names as format names, empty for None


@lru_cache(CACHED_NAMES_MAX)
def read_queue_names(raw: bytes, flags: UserFlags, source: bytes, address: bytes) -> QueueNames:
    """Reads the three queue names and the connector type by the codes in the flags.

    The codes are legal ones, as `summarize` has checked. A private name whose host is implied by a
    direct or public name gets the null GUID, since the packet does not contain the GUID of that
    host.
    """
    reader = Reader(raw)
    hosts = {QUEUE_PRIVATE_ON_SOURCE: source, QUEUE_PRIVATE_ON_DESTINATION: address}
    destination = _read_name(reader, flags.destination_type, hosts)
    administration = _read_name(reader, flags.administration_type, hosts)
    hosts[QUEUE_PRIVATE_ON_ADMINISTRATION] = _host_of(administration)
    response = _read_name(reader, flags.response_type, hosts)
    if flags.response_type == QUEUE_SAME_AS_ADMINISTRATION:
        response = administration
    connector_type = reader.take(16) if flags.connector_type else NULL_GUID
    texts = _text(destination), _text(administration), _text(response)
    return QueueNames(destination, administration, response, connector_type, texts)


def _text(name: SingleName | None) -> str:
    return "" if name is None else str(name)


def _host_of(name: FormatName | None) -> bytes:
    return name.guid if isinstance(name, PrivateName) else NULL_GUID


def _read_name(reader: Reader, code: int, hosts: dict[int, bytes]) -> SingleName | None:
    if code == QUEUE_DIRECT:
        return _read_direct(reader)
    if code == QUEUE_PUBLIC:
        return PublicName(reader.take(16))
    if code == QUEUE_PRIVATE_ON_OTHER:
        return PrivateName(*reader.read(QUEUE_NUMBER_ON_HOST))
    if code in (QUEUE_NONE, QUEUE_SAME_AS_ADMINISTRATION):
        return None
    return PrivateName(hosts[code], reader.read(QUEUE_NUMBER).number)


def _read_direct(reader: Reader) -> DirectName:
    """DirectQueueFormatName, [MS-MQMQ] 2.2.18.1.5.2: counted text with padding after it."""
    text = decode_text(reader.take(reader.read(DIRECT_COUNT).size))
    reader.align()
    return _direct_name(text)


def _direct_name(text: str) -> DirectName:
    try:
        return direct_from_wire(text)
    except IllegalFormatName as error:
        raise MalformedPacket(error.cause) from None


def destination_type(name: FormatName | None) -> int:
    """The code DQ of [MS-MQMQ] 2.2.19.2; a private destination lies on the destination machine.

    There is none for a multicast address, which stands in the list of destinations instead.
    """
    if isinstance(name, MulticastName):
        return QUEUE_NONE
    return QUEUE_PRIVATE_ON_DESTINATION if isinstance(name, PrivateName) else _types(name, {})[0]


def administration_type(name: FormatName | None, wanted: int, source: bytes, address: bytes) -> int:
    """The code AQ of [MS-MQMQ] 2.2.19.2: the wanted one if it means the same, else the shortest."""
    hosts = {QUEUE_PRIVATE_ON_SOURCE: source, QUEUE_PRIVATE_ON_DESTINATION: address}
    types = _types(name, hosts)
    return wanted if wanted in types else types[0]


def response_type(
    name: FormatName | None,
    wanted: int,
    source: bytes,
    address: bytes,
    administration: FormatName | None,
) -> int:
    """The code RQ of [MS-MQMQ] 2.2.19.2: the wanted one if it means the same, else the shortest."""
    hosts = {
        QUEUE_PRIVATE_ON_SOURCE: source,
        QUEUE_PRIVATE_ON_DESTINATION: address,
        QUEUE_PRIVATE_ON_ADMINISTRATION: _host_of(administration),
    }
    types = _types(name, hosts)
    if name == administration:
        types.append(QUEUE_SAME_AS_ADMINISTRATION)
    return wanted if wanted in types else types[0]


def _types(name: FormatName | None, hosts: dict[int, bytes]) -> list[int]:
    """The type codes a name can have, given the machines that some codes stand for."""
    if name is None:
        return [QUEUE_NONE]
    if isinstance(name, DirectName):
        return [QUEUE_DIRECT]
    if isinstance(name, PublicName):
        return [QUEUE_PUBLIC]
    if isinstance(name, PrivateName):
        near = [code for code, host in hosts.items() if host == name.guid]
        return [*near, QUEUE_PRIVATE_ON_OTHER]
    raise IllegalFormatName(f"{name} cannot stand in the header of a packet")


def pack_queue_name(name: FormatName | None, code: int) -> bytes:
    """The bytes of a queue name under this type code; `IllegalFormatName` if they do not agree."""
    if code in (QUEUE_NONE, QUEUE_SAME_AS_ADMINISTRATION):
        return b""
    if isinstance(name, DirectName) and code == QUEUE_DIRECT:
        text = encode_text(name.wire)
        raw = DIRECT_COUNT.codec.pack(len(text)) + text
        return raw.ljust(align4(len(raw)), b"\0")
    if isinstance(name, PublicName) and code == QUEUE_PUBLIC:
        _check_whole(name)
        return name.guid
    if isinstance(name, PrivateName) and code in PRIVATE_CODES:
        _check_whole(name)
        number = QUEUE_NUMBER.codec.pack(name.number)
        return name.guid + number if code == QUEUE_PRIVATE_ON_OTHER else number
    raise IllegalFormatName(f"{name} is not a queue of type {code}")


def _check_whole(name: PublicName | PrivateName) -> None:
    if name.suffix is not Suffix.NONE:
        raise IllegalFormatName(f"{name} cannot stand in a packet, only the queue itself can")


def read_element(reader: Reader) -> SingleName:
    """MQFFormatNameElement, [MS-MQMQ] 2.2.18.1.4: GUIDs start on 4-byte borders, text on 2-byte."""
    format_type = reader.read(ELEMENT_TYPE).format_type
    if format_type == FormatType.DIRECT:
        return _direct_name(reader.terminated_text())
    reader.align()
    if format_type == FormatType.PUBLIC:
        return PublicName(reader.take(16))
    if format_type == FormatType.PRIVATE:
        return PrivateName(*reader.read(QUEUE_NUMBER_ON_HOST))
    if format_type == FormatType.DL:
        return DistributionListName(reader.take(16))
    if format_type == FormatType.MULTICAST:
        return _multicast_name(*reader.read(MULTICAST_ELEMENT))
    raise MalformedPacket(f"format name of type {format_type} in a list")


def _multicast_name(address: bytes, port: int) -> MulticastName:
    try:
        return MulticastName(str(IPv4Address(address)), port)
    except IllegalFormatName as error:
        raise MalformedPacket(error.cause) from None


def append_element(buffer: bytearray, name: FormatName) -> None:
    """Writes an MQFFormatNameElement after a buffer that begins on a 4-byte border."""
    payload = _element_payload(name)
    format_type = FormatType.DIRECT if isinstance(name, DirectName) else name.type
    buffer += ELEMENT_TYPE.codec.pack(format_type)
    if format_type is not FormatType.DIRECT:
        buffer += bytes(-len(buffer) % 4)
    buffer += payload


def _element_payload(name: FormatName) -> bytes:
    if isinstance(name, DirectName):
        return encode_text(name.wire)
    if isinstance(name, PrivateName):
        return pack_queue_name(name, QUEUE_PRIVATE_ON_OTHER)
    if isinstance(name, PublicName):
        return pack_queue_name(name, QUEUE_PUBLIC)
    if isinstance(name, DistributionListName):
        return name.guid
    if isinstance(name, MulticastName):
        return MULTICAST_ELEMENT.codec.pack(IPv4Address(name.address).packed, name.port)
    raise IllegalFormatName(f"{name} cannot stand in a list of a packet")
