"""`posthouse decode`: prints UserMessage packets, field by field, with section numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from posthouse.cli.output import print_json, say
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.guids import format_guid
from posthouse.model.message_classes import class_name
from posthouse.model.names import FormatName
from posthouse.wire.headers import BASE_HEADER, INFINITE, SESSION_HEADER
from posthouse.wire.layout import Flags, bits
from posthouse.wire.packet import Packet

INPUT_SIZE_MAX = 1 << 28
BYTES_SHOWN = 32
GUIDS = {
    "source_queue_manager",
    "queue_manager_address",
    "connector_type",
    "connector_guid",
    "queue",
}
DURATIONS = {"time_to_reach_queue", "time_to_be_received"}
HEX_NUMBERS = {"signature", "message_class", "hash_algorithm", "encryption_algorithm"}
HEX = frozenset(b"0123456789abcdefABCDEF \t\r\n")


class Header(NamedTuple):
    """One header of a packet: where the document describes it, and its fields."""

    section: str
    name: str
    fields: dict[str, Any]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Installation")(decode)


def decode(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Packets one behind the other, as bytes or as hex digits; - for standard input.",
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="One line of JSON for each packet.")] = False,
) -> None:
    """Print packets field by field, with the section of the document for each header.

    A packet that breaks its document ends the command with exit code 1 and the offset; the
    packets in front of it are printed.

    Example: posthouse decode message.bin
    """
    for at, packet in split(read_input(file)):
        parts = headers(packet)
        if json:
            rows = [part._asdict() for part in parts]
            print_json({"offset": at, "size": packet.glance.packet_size, "headers": rows})
        else:
            print_packet(at, packet, parts)


def read_input(file: Path) -> bytes:
    """The bytes of a file; hex digits with `#` comments are read as the bytes they stand for."""
    stream = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    with stream:
        data = stream.read(INPUT_SIZE_MAX + 1)
    if len(data) > INPUT_SIZE_MAX:
        raise RemoteProtocolError(f"more than {INPUT_SIZE_MAX} bytes")
    digits = b"\n".join(line for line in data.splitlines() if not line.startswith(b"#"))
    if not HEX.issuperset(digits):  # a packet begins with 0x10, which is no digit
        return data
    try:
        return bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        raise RemoteProtocolError("an odd number of hex digits") from None


def split(data: bytes) -> Iterator[tuple[int, Packet]]:
    """Each packet with its offset; errors name the offset."""
    at = 0
    while True:
        try:
            end = at + BASE_HEADER.unpack(data, at).packet_size
            packet = Packet(data[at:end])
            if packet.session_follows:  # decision 27: behind what PacketSize counts
                end += SESSION_HEADER.size
                packet = Packet(data[at:end])
            packet.check()
        except RemoteProtocolError as error:
            raise type(error)(f"packet at offset {at}: {error}") from None
        yield at, packet
        at = end
        if at >= len(data):
            return


def headers(packet: Packet) -> list[Header]:
    """Every header the packet has, in its order."""
    found = [
        Header("MS-MQMQ 2.2.19.1", "BaseHeader", plain(packet.base)),
        Header("MS-MQMQ 2.2.19.2", "UserHeader", plain(packet.user) | plain(packet.names)),
    ]
    if packet.transaction:
        fields = plain(packet.transaction) | fields_of(packet, "connector_guid")
        found.append(Header("MS-MQMQ 2.2.20.5", "TransactionHeader", fields))
    if packet.security:
        found.append(Header("MS-MQMQ 2.2.20.6", "SecurityHeader", plain(packet.security)))
    if packet.properties:
        fields = plain(packet.properties) | {"class": class_name(packet.message_class)}
        fields |= fields_of(packet, "label", "extension", "body")
        found.append(Header("MS-MQMQ 2.2.19.3", "MessagePropertiesHeader", fields))
    if packet.tail.debug_at:
        fields = {"queue": show(packet.tracing_queue, "queue")}
        found.append(Header("MS-MQMQ 2.2.20.8", "DebugHeader", fields))
    if packet.soap:
        found.append(Header("MS-MQMQ 2.2.20.7", "SoapHeader", plain(packet.soap)))
    if packet.multi_queue:
        fields = plain(packet.multi_queue)
        found.append(Header("MS-MQMQ 2.2.20.1", "MultiQueueFormatHeader", fields))
    if packet.session:
        found.append(Header("MS-MQMQ 2.2.20.4", "SessionHeader", plain(packet.session)))
    return found


def fields_of(packet: Packet, *names: str) -> dict[str, Any]:
    """Values that the packet itself knows."""
    return {name: show(getattr(packet, name), name) for name in names}


def plain(record: Any) -> dict[str, Any]:
    """A structure as values that JSON and people can read; flags by their names."""
    return {name: show(value, name) for name, value in record._asdict().items()}


def show(value: Any, name: str = "") -> Any:
    """One value: flags, GUIDs, names and times in their usual form, other bytes as they are."""
    if isinstance(value, Flags):
        return {field: getattr(value, field) for field in flag_names(type(value))}
    if isinstance(value, FormatName):
        return str(value)
    if isinstance(value, str):  # half a surrogate pair fits into no output
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, tuple):
        return plain(value) if hasattr(value, "_fields") else [show(item) for item in value]
    if name in GUIDS:
        return format_guid(value)
    if name == "sent_time":
        return datetime.fromtimestamp(value, UTC).isoformat()
    if name in DURATIONS and value == INFINITE:
        return "infinite"
    return value


def flag_names(kind: type[Flags]) -> list[str]:
    """The bits of a flags word by name, lowest first."""
    return [name for name, value in vars(kind).items() if isinstance(value, bits)]


def print_packet(at: int, packet: Packet, parts: list[Header]) -> None:
    """One packet for people."""
    say(f"UserMessage at offset {at}, {packet.glance.packet_size} bytes")
    for part in parts:
        say(f"  {part.name} [{part.section}]")
        for name, value in part.fields.items():
            say(f"    {name:<26}{words(value, name)}")


def words(value: Any, name: str = "") -> str:
    """A value on one line; of flags and lists only what is set."""
    if isinstance(value, bytes):
        more = "..." if len(value) > BYTES_SHOWN else ""
        return f"{len(value)} bytes {value[:BYTES_SHOWN].hex(' ')}{more}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {words(item)}" for key, item in value.items() if item) or "none"
    if isinstance(value, list):
        return ", ".join(words(item) for item in value) or "none"
    if isinstance(value, int) and name in HEX_NUMBERS:
        return f"0x{value:X}"
    return "none" if value is None or value == "" else str(value)
