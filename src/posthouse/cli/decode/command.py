"""`posthouse decode`: prints captured packets field by field, or what is in a body."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from posthouse.cli.decode.body import BodyOptions, decode_body
from posthouse.cli.decode.capture.command import CaptureOptions, decode_capture
from posthouse.cli.decode.ncp import is_ncp, ncp_extent, view_ncp
from posthouse.cli.decode.packets import View, view_packet, view_ping
from posthouse.cli.decode.pgm import is_pgm, view_pgm
from posthouse.cli.decode.srmp import is_srmp, srmp_extent, view_srmp
from posthouse.cli.decode.value_text import words
from posthouse.cli.output import print_json, say
from posthouse.model.code_pages import DEFAULT_CODE_PAGE
from posthouse.model.errors import InvalidParameter, RemoteProtocolError, Truncated
from posthouse.wire.binary.ping import PING_SIGNATURE, PING_SIZE
from posthouse.wire.binary.stream import packet_extent
from posthouse.wire.capture.files import is_capture
from posthouse.wire.packet.headers import BASE_HEADER, SIGNATURE
from posthouse.wire.pgm.packets import pgm_extent

INPUT_SIZE_MAX = 1 << 28
GZIP = b"\x1f\x8b"
HEX = frozenset(b"0123456789abcdefABCDEF \t\r\n")


class Found(NamedTuple):
    """A packet of the input and where it lies."""

    offset: int
    size: int
    view: View


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Installation")(decode)


def decode(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            show_default=False,
            help="pcap or pcapng file, or file of packets, one after the other, as bytes or hex "
            "digits; - reads standard input.",
        ),
    ] = None,
    body: Annotated[
        Path | None,
        typer.Option(
            "--body", metavar="FILE", help="File with the body of one message, instead of packets."
        ),
    ] = None,
    body_type: Annotated[
        int, typer.Option("--body-type", metavar="N", min=0, help="Body type of the message.")
    ] = 0,
    extension: Annotated[
        Path | None,
        typer.Option("--extension", metavar="FILE", help="File with the extension of the message."),
    ] = None,
    label: Annotated[
        str, typer.Option("--label", metavar="TEXT", help="Label of the message.")
    ] = "",
    app_specific: Annotated[
        int,
        typer.Option(
            "--app-specific", metavar="N", min=0, help="Application-specific number of the message."
        ),
    ] = 0,
    correlation_id: Annotated[
        str,
        typer.Option(
            "--correlation-id",
            metavar="HEX",
            help="Correlation identifier: 40 hex digits, or GUID\\NUMBER.",
        ),
    ] = "",
    code_page: Annotated[
        str,
        typer.Option(
            "--code-page", metavar="N", help="Code page of the sender, for bodies of type VT_LPSTR."
        ),
    ] = DEFAULT_CODE_PAGE,
    answers: Annotated[
        bool,
        typer.Option(
            "--answers/--no-answers",
            help="For a capture: also print what Posthouse would have answered, in lines with =.",
        ),
    ] = True,
    blank_bodies: Annotated[
        bool,
        typer.Option(
            "--blank-bodies",
            help="For a capture: write a copy without bodies, tokens and passwords to --output.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="The copy, a new pcap file."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print each packet or message as one line of JSON.")
    ] = False,
) -> None:
    """Print a capture as transcripts, packets field by field, or what is in a body.

    A capture file (tcpdump, Wireshark) is printed as a transcript of the sessions of all protocols,
    one line for each message: > is sent by the client, < by the server, and = is what Posthouse
    would have sent instead of that server. --blank-bodies writes a copy without secrets.

    Any other input is what one side of a connection sends: packets of the binary protocol, ping
    datagrams, HTTP requests or responses with SRMP, NCP requests or replies (TCP, or one datagram),
    PGM packets. A malformed packet ends the command with exit code 1 and its offset; the packets
    before it are printed.

    With --body it decodes the body of a message: XML, JSON, text, ActiveX values, BinaryFormatter,
    WCF, and the headers of NServiceBus, Rebus and MassTransit in the extension. If the bytes do not
    match their format, the reason is shown. Files are only read.

    Example: posthouse decode message.bin

    Example: posthouse decode capture.pcap

    Example: posthouse decode capture.pcap --blank-bodies --output safe.pcap

    Example: posthouse decode --body order.bin --body-type 768 --json
    """
    if (file is None) == (body is None):
        raise typer.BadParameter("give either FILE with packets or --body FILE")
    if body is not None:
        how = BodyOptions(body_type, extension, label, app_specific, correlation_id, code_page)
        decode_body(body, how, json)
        return
    assert file is not None
    data = read_input(file)
    if blank_bodies != (output is not None):
        raise typer.BadParameter("--blank-bodies and --output FILE go together")
    if is_capture(data):
        decode_capture(data, CaptureOptions(json, answers, output))
        return
    if remedy := _other_capture(file, data):
        raise InvalidParameter(f"{file} is not a pcap or pcapng file", remedy)
    if blank_bodies:
        raise typer.BadParameter("--blank-bodies is for pcap and pcapng files")
    for found in split(data):
        if json:
            print_json(as_json(found))
        else:
            print_packet(found)


def _other_capture(file: Path, data: bytes) -> str:
    """What to do with a capture in a form that is not read; empty: it is not one of those."""
    if data.startswith(GZIP):
        return "It is compressed: unpack it with gunzip."
    if file.suffix.lower() == ".etl":
        return "It is a trace of Windows: convert it there with etl2pcapng (docs/captures.md)."
    return ""


def read_input(file: Path) -> bytes:
    """The bytes of a file; hex digits with `#` comments are read as the bytes they stand for."""
    stream = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    with stream:
        data = stream.read(INPUT_SIZE_MAX + 1)
    if len(data) > INPUT_SIZE_MAX:
        raise RemoteProtocolError(f"more than {INPUT_SIZE_MAX} bytes")
    if is_capture(data):
        return data
    digits = b"\n".join(line for line in data.splitlines() if not line.startswith(b"#"))
    # A packet begins with 0x10 and a ping has the letters HU, which are not digits.
    if not HEX.issuperset(digits):
        return data
    try:
        return bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        raise RemoteProtocolError("an odd number of hex digits") from None


def split(data: bytes) -> Iterator[Found]:
    """Each packet with its offset; errors name the offset."""
    at = 0
    while True:
        try:
            found = take(data, at)
        except RemoteProtocolError as error:
            raise type(error)(f"packet at offset {at}: {error}") from None
        yield found
        at += found.size
        if at >= len(data):
            return


def take(data: bytes, at: int) -> Found:
    """The packet or ping datagram that begins here."""
    front = data[at : at + BASE_HEADER.size]
    if is_ping(front):
        return Found(at, PING_SIZE, view_ping(data[at : at + PING_SIZE]))
    if is_ncp(front):
        return _whole(data, at, ncp_extent(data, at), view_ncp)
    if is_srmp(front):
        return _whole(data, at, srmp_extent(data, at), view_srmp)
    if is_pgm(front):
        return _whole(data, at, pgm_extent(data, at), view_pgm)
    if len(front) < BASE_HEADER.size:
        raise Truncated(f"{len(front)} bytes are left, a BaseHeader has {BASE_HEADER.size}")
    return _whole(data, at, packet_extent(data, at, len(data)), view_packet)


def _whole(data: bytes, at: int, size: int, view: Callable[[bytes], View]) -> Found:
    if at + size > len(data):
        raise Truncated(f"it has {size} bytes, but only {len(data) - at} are left")
    return Found(at, size, view(data[at : at + size]))


def is_ping(front: bytes) -> bool:
    """Whether these bytes begin a ping datagram; a packet of a session has its own signature."""
    is_packet = front[4:8] == SIGNATURE.to_bytes(4, "little")
    return front[2:4] == PING_SIGNATURE.to_bytes(2, "little") and not is_packet


def as_json(found: Found) -> dict[str, Any]:
    """One packet for machines."""
    kind, section, headers = found.view
    rows = [header._asdict() for header in headers]
    place = {"offset": found.offset, "size": found.size}
    return place | {"kind": kind, "section": section, "headers": rows}


def print_packet(found: Found) -> None:
    """One packet for people."""
    kind, section, headers = found.view
    say(f"{kind} at offset {found.offset}, {found.size} bytes [{section}]")
    for header in headers:
        say(f"  {header.name} [{header.section}]")
        for name, value in header.fields.items():
            say(f"    {name:<32} {words(value, name)}")
