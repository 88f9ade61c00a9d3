"""`posthouse decode` of capture files: transcripts of every protocol, own answers, blank copies."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posthouse.cli import main
from posthouse.cli.decode.capture.blanking import blanked
from posthouse.cli.decode.capture.command import told_fields
from posthouse.cli.decode.capture.offline import not_asked, own_answers
from posthouse.cli.decode.capture.transcript import CaptureFound, Session, read_capture
from posthouse.model.message import Message, MessageId, TxSequenceId
from posthouse.protocols.remote_read import stubs
from posthouse.protocols.remote_read.stubs import REMOTE_READ, Opnum
from posthouse.rpc import pdu
from posthouse.rpc.syntax import NDR, SyntaxId
from posthouse.wire.binary.internal import (
    connection_parameters,
    establish_connection,
    establish_connection_response,
    read_establish_connection,
    read_session_ack,
)
from posthouse.wire.binary.ping import ping_request, ping_response, read_ping
from posthouse.wire.binary.stream import PacketSplitter, packet_kind
from posthouse.wire.capture.packets import Endpoint
from posthouse.wire.ncp.framing import (
    CREATE_CONNECTION,
    REPLY,
    Reply,
    Request,
    frame_reply,
    frame_request,
    write_reply,
    write_request,
    write_subfunction,
)
from posthouse.wire.ncp.framing import (
    REQUEST as NCP_REQUEST,
)
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.pgm.packets import ODATA, Tsi, pack_data, pack_spm
from tests.support.capture_files import (
    CLIENT,
    SERVER,
    conversation,
    datagram,
    ip_packet,
    pcap,
    pcapng,
    segment,
    timed,
)

GUID, FAR = bytes(range(1, 17)), bytes(range(17, 33))
SECRET = b"a secret of the hospital"
TSI = Tsi(b"\1\2\3\4\5\6", 7)
SENT_TIME = 1_700_000_000
ORDERS = r"DIRECT=OS:WINBOX\private$\orders"


def message(number: int, *, transactional: bool = False, **attributes: Any) -> bytes:
    if transactional:
        attributes |= {
            "transaction_identifier": 1,
            "transactional_message_sequence_identifier": TxSequenceId(SENT_TIME - 1000, 1),
            "transaction_sequence_number": number,
            "transaction_previous_sequence_number": number - 1,
        }
    return serialize(
        Message(
            body=SECRET,
            extension=b"ext: " + SECRET,
            label=f"order {number}",
            identifier=MessageId(GUID, number),
            source_machine_identifier=GUID,
            sent_time=SENT_TIME,
            time_to_reach_queue=0xFFFFFFFF,
            destination_queue_format_name=ORDERS,
            **attributes,
        )
    )


REQUEST = establish_connection(GUID, time_stamp=5)
RESPONSE = establish_connection_response(read_establish_connection(REQUEST), FAR)
PARAMETERS = connection_parameters(500, 20_000, 64)
HANDSHAKE = [(True, REQUEST), (False, RESPONSE), (True, PARAMETERS), (False, PARAMETERS)]


def binary(*messages: bytes, size: int = 1460) -> list[bytes]:
    return conversation(*HANDSHAKE, *((True, one) for one in messages), size=size)


def only(packets: list[bytes]) -> Session:
    (session,) = read_capture(pcap(timed(packets))).sessions
    return session


def transcript(session: Session, *, of_client: bool) -> list[tuple[str, Any]]:
    """What a direction says, without times."""
    return [
        (line.problem if line.view is None else line.view.kind, line.data)
        for line in session.lines
        if line.from_client == of_client
    ]


def kinds(session: Session) -> list[str]:
    return ["?" if line.view is None else line.view.kind for line in session.lines]


def decode(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main.run(["decode", *words])
    return code, capsys.readouterr().out


# -- the binary protocol


def test_a_session_is_printed_line_by_line_with_our_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "capture.pcap"
    file.write_bytes(pcap(timed(binary(message(1), message(2))), "ethernet"))
    code, out = decode(capsys, str(file))
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith(
        "Session 1: binary protocol [MS-MQQB], 192.0.2.7:50000 -> 192.0.2.1:1801"
    )
    told = [line.split()[1:3] for line in lines[1:] if "#" not in line and line]
    assert told == [
        [">", "EstablishConnection"],
        ["=", "EstablishConnection"],
        ["<", "EstablishConnection"],
        [">", "ConnectionParameters"],
        ["=", "ConnectionParameters"],
        ["<", "ConnectionParameters"],
        [">", "UserMessage"],
        [">", "UserMessage"],
        ["=", "SessionAck"],
    ]
    assert rf"destination={ORDERS}" in out
    assert "The connection is closed" in out


def test_machines_get_every_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "capture.pcapng"
    file.write_bytes(pcapng(timed(binary(message(1))), "cooked 2"))
    code, out = decode(capsys, str(file), "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert rows[0]["protocol"] == "binary"
    assert rows[0]["answers"] == "asked"
    (told,) = [row for row in rows if row.get("kind") == "UserMessage"]
    assert told["headers"][1]["fields"]["destination"] == ORDERS
    ours = [row for row in rows if row.get("from") == "posthouse"]
    assert ours[0]["packets"][0]["kind"] == "EstablishConnection"
    assert rows[-1] == {"passed_over": {}, "cut": ""}


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(50, 900), st.randoms(use_true_random=False))
def test_any_cut_into_segments_any_order_and_doubles_give_the_same_transcript(
    size: int, chance: Any
) -> None:
    whole = only(binary(message(1), message(2, transactional=True)))
    frames = binary(message(1), message(2, transactional=True), size=size)
    frames += [frame for frame in frames if chance.random() < 0.3]
    chance.shuffle(frames)
    mixed = only(frames)
    for of_client in (True, False):
        assert transcript(mixed, of_client=of_client) == transcript(whole, of_client=of_client)


def test_a_missing_segment_is_shown_and_the_next_message_is_found() -> None:
    frames = binary(message(1), message(2), message(3), size=100_000)
    del frames[7]  # the second message
    session = only(frames)
    lost = [line.lost for line in session.lines if line.lost]
    assert lost == [len(message(2))]
    assert kinds(session).count("UserMessage") == 2
    cut = binary(message(1), message(2), size=64)
    del cut[-5]
    (broken,) = [line for line in only(cut).lines if line.view is None and line.lost]
    assert "beginning" in broken.problem


def test_a_capture_that_begins_in_the_middle_is_read_from_the_next_message() -> None:
    session = only(binary(message(1), message(2), size=50)[12:])
    assert not session.begun
    assert kinds(session)[-1] == "UserMessage"
    assert own_answers(session) == []
    assert "beginning" in not_asked(session)


def test_what_breaks_the_protocol_is_shown_and_posthouse_closes() -> None:
    frames = conversation(*HANDSHAKE, (True, message(1)), (True, b"\x10" + bytes(40)))
    session = only(frames)
    assert session.lines[-1].problem == "not a message queuing packet"
    assert own_answers(session)[-1].closed == "closes the connection"


def test_transactional_messages_would_get_an_order_acknowledgment() -> None:
    session = only(binary(message(1, transactional=True), message(2, transactional=True)))
    answers = [packet for one in own_answers(session) for packet in PacketSplitter().feed(one.data)]
    told = [packet_kind(packet).value for packet in answers]
    assert told == [
        *("EstablishConnection", "ConnectionParameters", "SessionAck", "OrderAck"),
    ]
    destination = str(Packet(answers[-1]).destination_queue)
    assert destination == r"DIRECT=TCP:192.0.2.7\private$\order_queue$"


def test_our_answers_are_in_the_name_of_the_machine_that_answered() -> None:
    first = own_answers(only(binary(message(1))))[0]
    assert read_establish_connection(first.data).header.server_guid == FAR
    alone = conversation((True, REQUEST))
    assert own_answers(only(alone))[0].data[:4] == REQUEST[:4]


def test_what_follows_a_gap_is_not_answered() -> None:
    frames = binary(message(1), message(2), message(3), size=100_000)
    del frames[7]  # the second message
    answers = [
        packet for one in own_answers(only(frames)) for packet in PacketSplitter().feed(one.data)
    ]
    told = [packet_kind(packet).value for packet in answers]
    assert told == ["EstablishConnection", "ConnectionParameters", "SessionAck"]
    assert read_session_ack(answers[-1]).header.ack_sequence_number == 1


def test_the_same_capture_gives_the_same_answers() -> None:
    session = only(binary(message(1), message(2, transactional=True)))
    assert own_answers(session) == own_answers(session)


# -- the other protocols


def pdus(*parts: tuple[bool, int, int, bytes]) -> list[tuple[bool, bytes]]:
    return [
        (of_client, pdu.pack(kind, pdu.WHOLE, call, body)) for of_client, kind, call, body in parts
    ]


def test_remote_read_is_shown_with_methods_and_parameters() -> None:
    bind = pdu.pack_bind(pdu.Bind(5840, 5840, 0, (pdu.ContextItem(0, REMOTE_READ, (NDR,)),)))
    ack = pdu.pack_bind_ack(pdu.BindAck(5840, 5840, 7, "2103", (pdu.ContextResult(0, 0, NDR),)))
    asked = stubs.METHODS[Opnum.CLOSE_QUEUE].request.parameters(b"h" * 20)
    closes = pdu.pack_request(0, Opnum.CLOSE_QUEUE, stubs.encode_request(Opnum.CLOSE_QUEUE, asked))
    parts = pdus(
        (True, pdu.BIND, 1, bind),
        (False, pdu.BIND_ACK, 1, ack),
        (True, pdu.REQUEST, 2, closes),
        (False, pdu.FAULT, 2, pdu.pack_fault(0, 0x1C00001A)),
    )
    session = only(conversation(*parts, server=Endpoint("192.0.2.1", 2103), size=30))
    assert session.protocol == "rpc"
    assert kinds(session) == ["RPC bind", "RPC bind_ack", "RPC request R_CloseQueue", "RPC fault"]
    fields = told_fields(session.lines[0].view)  # type: ignore[arg-type]
    assert fields["interfaces"] == ["remote read"]
    assert "login" in not_asked(session)


def test_a_stub_that_breaks_its_description_is_shown_as_it_is() -> None:
    bind = pdu.pack_bind(pdu.Bind(5840, 5840, 0, (pdu.ContextItem(0, REMOTE_READ, (NDR,)),)))
    ack = pdu.pack_bind_ack(pdu.BindAck(5840, 5840, 7, "2103", (pdu.ContextResult(0, 0, NDR),)))
    parts = pdus(
        (True, pdu.BIND, 1, bind),
        (False, pdu.BIND_ACK, 1, ack),
        (True, pdu.REQUEST, 2, pdu.pack_request(0, Opnum.START_RECEIVE, b"x" * 40)),
        (False, pdu.RESPONSE, 2, pdu.pack_response(0, b"x" * 80)),
    )
    session = only(conversation(*parts, server=Endpoint("192.0.2.1", 2103)))
    views = [line.view for line in session.lines]
    assert [view.headers[0].fields.get("stub") for view in views if view is not None] == [
        *(None, None),
        b"x" * 40,
        b"x" * 80,
    ]


SOAP = (
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
    '<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
    "<action>MSMQ:order</action><to>http://winbox/msmq/private$/orders</to>"
    "<id>uuid:1@04030201-0605-0807-090a-0b0c0d0e0f10</id></path>"
    '<properties se:mustUnderstand="1"><expiresAt>20380119T031407</expiresAt>'
    "<sentAt>20231114T221320</sentAt></properties>"
    "</se:Header><se:Body></se:Body></se:Envelope>"
)


def post(body: str = SOAP) -> bytes:
    head = (
        "POST /msmq/private$/orders HTTP/1.1\r\nHost: winbox\r\nContent-Type: text/xml\r\n"
        f"Content-Length: {len(body)}\r\nAuthorization: Basic c2VjcmV0\r\n\r\n"
    )
    return (head + body).encode()


def test_srmp_is_shown_and_would_be_answered() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    frames = conversation(
        (True, post()), (False, answer), server=Endpoint("192.0.2.1", 80), size=100
    )
    session = only(frames)
    assert kinds(session) == ["SRMP user message", "HTTP response"]
    ours = own_answers(session)
    assert ours[0].data.startswith(b"HTTP/1.1 200")
    broken = only(
        conversation((True, post("<no>xml")), (False, answer), server=Endpoint("192.0.2.1", 80))
    )
    assert kinds(broken) == ["?", "HTTP response"]
    assert own_answers(broken)[0].data.startswith(b"HTTP/1.1 400")


def test_ncp_over_tcp_and_udp_is_shown_and_blanked() -> None:
    asks = write_request(Request(NCP_REQUEST, 1, 7, 1, 23, write_subfunction(0xEE, SECRET)))
    created = write_request(Request(CREATE_CONNECTION, 0, 0xFFFF, 0, 0, b""))
    answers = write_reply(Reply(REPLY, 1, 7, 1, 0, 0, SECRET))
    parts = [
        (True, frame_request(created)),
        (True, frame_request(asks)),
        (False, frame_reply(answers)),
    ]
    there = Endpoint("192.0.2.1", 524)
    frames = conversation(*parts, server=there, size=9)
    frames += [datagram(CLIENT, there, asks), datagram(there, CLIENT, answers)]
    made, before, after = copy_of(frames)
    over_tcp, over_udp = before.sessions
    assert kinds(over_tcp) == ["NCP Create Service Connection", "NCP Request", "NCP Reply"]
    assert kinds(over_udp) == ["NCP Request", "NCP Reply"]
    assert [line.from_client for line in over_udp.lines] == [True, False]
    assert "bindery" in not_asked(over_tcp)
    assert SECRET not in made
    assert [len(one.lines) for one in after.sessions] == [3, 2]


def test_http_in_chunks_and_without_a_length() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    endless = b"HTTP/1.0 200 OK\r\n\r\nall that follows"
    gets = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    frames = conversation((True, gets * 2), (False, chunked + endless), size=7)
    session = only(frames)
    assert kinds(session).count("HTTP request") == 2
    assert [line.size for line in session.lines if not line.from_client] == [
        len(chunked),
        len(endless),
    ]


def test_pings_and_multicast_and_what_is_not_ours() -> None:
    spm = pack_spm(TSI, 8001, sequence=1, trailing=5, leading=9, path="192.0.2.7")
    odata = pack_data(ODATA, TSI, 8001, sequence=9, trailing=5, data=SECRET)
    asks = ping_request(GUID, 7)
    answers = ping_response(read_ping(asks), FAR, refused=False)
    caller, pinged = Endpoint("192.0.2.7", 999), Endpoint("192.0.2.1", 3527)
    frames = [
        ip_packet("192.0.2.7", "234.0.0.1", 113, spm),
        datagram(Endpoint("192.0.2.7", 9), Endpoint("234.0.0.1", 3056), odata),
        datagram(caller, pinged, asks),
        datagram(pinged, caller, answers),
        datagram(Endpoint("192.0.2.7", 53), Endpoint("192.0.2.1", 53), b"dns"),
        *conversation((True, b"SSH-2.0-x")),
        *conversation((True, b"\x16\x03\x01 tls"), client=Endpoint("192.0.2.7", 50_001)),
        *conversation(client=Endpoint("192.0.2.7", 50_002)),
    ]
    found = read_capture(pcap(timed(frames)))
    assert [kinds(session) for session in found.sessions] == [["SPM"], ["ODATA"], ["Ping"] * 2]
    assert [line.from_client for line in found.sessions[-1].lines] == [True, False]
    assert found.passed_over == {
        "TCP connections: TLS, which cannot be read": 1,
        "TCP connections: another protocol": 1,
        "TCP connections: no data": 1,
        "datagrams of other protocols": 1,
    }
    made, _, after = copy_of(frames)
    assert SECRET not in made
    assert [len(session.lines) for session in after.sessions] == [1, 1, 2]


# -- copies without secrets


def copy_of(packets: list[bytes]) -> tuple[bytes, CaptureFound, CaptureFound]:
    data = pcap(timed(packets), "ethernet")
    found = read_capture(data)
    made = blanked(data, found)
    return made, found, read_capture(made)


def test_a_blank_copy_has_neither_bodies_nor_extensions_and_the_same_sessions() -> None:
    frames = binary(message(1), message(2, transactional=True), size=77)
    frames += frames[8:14]  # that came twice
    made, before, after = copy_of(frames)
    for size in range(8, len(SECRET)):
        assert SECRET[:size] not in made
    assert [kinds(one) for one in before.sessions] == [kinds(one) for one in after.sessions]
    bodies = [Packet(line.data) for line in after.sessions[0].lines[4:]]
    assert {packet.body for packet in bodies} == {b"x" * len(SECRET)}
    assert {packet.label for packet in bodies} == {"order 1", "order 2"}


def test_what_cannot_be_read_is_blanked_and_strangers_are_left_out() -> None:
    frames = conversation(*HANDSHAKE, (True, message(1)[:-3]))
    frames += conversation((True, SECRET), client=Endpoint("192.0.2.7", 50_001))
    made, _, after = copy_of(frames)
    assert SECRET not in made
    assert len(after.sessions) == 1


def test_http_secrets_and_tokens_are_blanked() -> None:
    frames = conversation(
        (True, post()),
        (True, b"GET /x HTTP/1.1\r\nCookie: session=" + SECRET + b"\r\n\r\n"),
        (False, b"HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n" + SECRET),
        server=Endpoint("192.0.2.1", 80),
    )
    made, before, after = copy_of(frames)
    assert SECRET not in made
    assert b"c2VjcmV0" not in made
    assert [kinds(one) for one in before.sessions] == [kinds(one) for one in after.sessions]


def test_the_body_of_an_envelope_is_blanked() -> None:
    body = SOAP.replace("<se:Body></se:Body>", f"<se:Body>{SECRET.decode()}</se:Body>")
    made, _, _ = copy_of(conversation((True, post(body)), server=Endpoint("192.0.2.1", 80)))
    assert SECRET not in made
    assert b"<se:Body>x" in made


FOREIGN = "http://hospital.example/patients"
OF_APPLICATIONS = {
    "a header": f"<a:man xmlns:a='{FOREIGN}' a:name='{{0}}'>{{0}}<a:id>{{0}}</a:id></a:man>",
    "an empty header": f"<patient xmlns='{FOREIGN}' note='{{0}} &gt; > />'/>",
    "a header that looks like ours": f"<path xmlns='{FOREIGN}'><to>{{0}}</to></path>",
    "a header of a known namespace": "<Note xmlns='msmq.namespace.xml'>{0}</Note>",
    "text": "{0}",
    "references": "&#65;{0}&amp;{0}",
    "a section of text": "<![CDATA[<a>{0}</a>]]>",
    "a comment": "<!-- {0} -->",
    "an instruction": "<?note {0}?>",
}


def is_blank(made: bytes) -> bool:
    return not any(SECRET[:size] in made for size in range(8, len(SECRET) + 1))


@pytest.mark.parametrize("what", OF_APPLICATIONS)
@pytest.mark.parametrize("where", ["<se:Header>", "</path>", "<se:Body>", "</se:Body>"])
def test_what_applications_put_into_an_envelope_is_blanked(what: str, where: str) -> None:
    added = OF_APPLICATIONS[what].format(SECRET.decode())
    frames = conversation(
        (True, post(SOAP.replace(where, where + added))), server=Endpoint("192.0.2.1", 80), size=90
    )
    made, before, after = copy_of(frames)
    assert is_blank(made)
    assert FOREIGN.encode() not in made
    assert b"MSMQ:order" in after.sessions[0].lines[0].data
    assert kinds(before.sessions[0]) == kinds(after.sessions[0]) == ["SRMP user message"]


def test_attributes_of_applications_are_blanked() -> None:
    secret = f'xmlns:a="{FOREIGN}" a:token="{SECRET.decode()}" se:mustUnderstand="1"'
    body = SOAP.replace('se:mustUnderstand="1"', secret, 1).replace(
        "<se:Body>", f"<se:Body note = '{SECRET.decode()}'>"
    )
    made, _, after = copy_of(conversation((True, post(body)), server=Endpoint("192.0.2.1", 80)))
    assert is_blank(made)
    assert FOREIGN.encode() not in made
    assert kinds(after.sessions[0]) == ["SRMP user message"]


@pytest.mark.parametrize("line_end", ["", "\r\n"], ids=["as MSMQ", "as the standard"])
def test_parts_of_srmp_are_blanked_and_stay_parts(line_end: str) -> None:
    secret = SECRET.decode()
    lines = [
        f"--cut\r\nContent-Type: text/xml\r\nX-Note: {secret}\r\nContent-Length: {len(SOAP)}\r\n"
        f"\r\n{SOAP}{line_end}--cut\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(secret)}\r\nContent-Id: body@3\r\n\r\n{secret}{line_end}--cut\r\n"
        f"Content-Length: {len(secret)}\r\nContent-Id: extension@3\r\n\r\n{secret}{line_end}--cut--"
    ]
    payload = "".join(lines)
    head = (
        "POST /msmq/private$/orders HTTP/1.1\r\nHost: winbox\r\n"
        f"Content-Type: multipart/related; boundary=cut\r\nContent-Length: {len(payload)}\r\n\r\n"
    )
    frames = conversation((True, (head + payload).encode()), server=Endpoint("192.0.2.1", 80))
    made, before, after = copy_of(frames)
    assert is_blank(made)
    assert kinds(before.sessions[0]) == kinds(after.sessions[0]) == ["SRMP user message"]
    fields = after.sessions[0].lines[0].view.headers[-2].fields  # type: ignore[union-attr]
    assert fields["body"] == b"x" * len(SECRET)


@pytest.mark.parametrize("version", [4, 6])
def test_what_a_link_puts_after_an_ip_packet_is_left_out(version: int) -> None:
    ends = {}
    if version == 6:
        ends = {"client": Endpoint("2001:db8::7", 50_000), "server": Endpoint("2001:db8::1", 1801)}
    frames = conversation(*HANDSHAKE, (True, message(1)), **ends)
    made, before, after = copy_of([frame + SECRET for frame in frames])
    assert is_blank(made)
    assert kinds(before.sessions[0]) == kinds(after.sessions[0])
    pinged = Endpoint("192.0.2.1", 524)
    created = write_request(Request(CREATE_CONNECTION, 0, 0xFFFF, 0, 0, b""))
    made, before, after = copy_of([datagram(CLIENT, pinged, created + bytes(4) + SECRET)])
    assert is_blank(made)
    assert kinds(before.sessions[0]) == kinds(after.sessions[0])


def test_bytes_that_a_second_segment_has_in_the_place_of_the_first_are_not_kept() -> None:
    frames = binary(message(1), size=100_000)
    again = segment(CLIENT, SERVER, 4_294_967_000, SECRET * 20)  # other bytes, known numbers
    before_all = segment(CLIENT, SERVER, 4_294_967_000 - len(SECRET), SECRET)
    made, _, after = copy_of([*frames[:5], again, before_all, *frames[5:]])
    assert is_blank(made)
    assert kinds(after.sessions[0]).count("UserMessage") == 1


def lines_run_to_blank(messages: int) -> int:
    """How many lines of our code run while a connection of this many messages is blanked."""
    data = pcap(timed(binary(*(message(number) for number in range(1, messages + 1)), size=200)))
    found, count = read_capture(data), 0

    def each(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return each

    before = sys.gettrace()
    sys.settrace(each)
    try:
        blanked(data, found)
    finally:
        sys.settrace(before)
    return count


def test_the_work_of_blanking_grows_with_the_messages_and_no_faster() -> None:
    few, many = lines_run_to_blank(20), lines_run_to_blank(80)
    assert many < 4.2 * few


def test_tokens_of_rpc_and_answers_are_blanked() -> None:
    trailer = pdu.Trailer(10, 6, 0, 0, SECRET)
    bind = pdu.pack_bind(pdu.Bind(5840, 5840, 0, (pdu.ContextItem(0, REMOTE_READ, (NDR,)),)))
    parts = [
        (True, pdu.pack(pdu.BIND, pdu.WHOLE, 1, bind, trailer)),
        (False, pdu.pack(pdu.RESPONSE, pdu.WHOLE, 2, pdu.pack_response(0, SECRET))),
    ]
    made, _, after = copy_of(conversation(*parts, server=Endpoint("192.0.2.1", 2103)))
    assert SECRET not in made
    assert kinds(after.sessions[0]) == ["RPC bind", "RPC response"]


def test_the_command_writes_a_copy_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, safe = tmp_path / "capture.pcap", tmp_path / "safe.pcap"
    file.write_bytes(pcap(timed(binary(message(1)))))
    code, out = decode(capsys, str(file), "--blank-bodies", "--output", str(safe))
    assert code == 0
    assert "1 sessions, 5 messages" in out
    assert SECRET not in safe.read_bytes()
    assert decode(capsys, str(file), "--blank-bodies", "--output", str(safe))[0] == 1
    assert decode(capsys, str(file), "--blank-bodies")[0] == 2
    other = tmp_path / "packet"
    other.write_bytes(message(1))
    words = (str(other), "--blank-bodies", "--output", str(tmp_path / "new"))
    assert decode(capsys, *words)[0] == 2


@pytest.mark.parametrize(
    ("name", "data", "remedy"),
    [
        ("capture.pcap.gz", gzip.compress(b"anything", mtime=0), "gunzip"),
        ("capture.etl", b"\0\0\1\0trace", "etl2pcapng"),
    ],
    ids=["compressed", "trace"],
)
def test_captures_in_other_forms_are_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, remedy: str
) -> None:
    (tmp_path / name).write_bytes(data)
    assert main.run(["decode", str(tmp_path / name)]) == 1
    said = capsys.readouterr().err
    assert "is not a pcap or pcapng file" in said
    assert remedy in said


def test_an_empty_and_a_cut_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "capture.pcap"
    file.write_bytes(pcap([]))
    assert "No session of our protocols" in decode(capsys, str(file))[1]
    file.write_bytes(pcap(timed(binary(message(1))))[:-2])
    code, out = decode(capsys, str(file), "--no-answers")
    assert code == 0
    assert "The file ends early" in out
    assert " = " not in out


def test_nothing_of_an_http_head_is_kept_but_a_few_fields() -> None:
    head = (
        b"GET /x?token=" + SECRET + b" HTTP/1.1\r\nHost: alpha\r\nX-Api-Key: " + SECRET
        + b"\r\nAuthorization: Basic\r\n " + SECRET + b"\r\nReferer : /?" + SECRET + b"\r\n\r\n"
    )  # fmt: skip
    made, before, after = copy_of(conversation((True, head), server=Endpoint("192.0.2.1", 80)))
    assert SECRET not in made
    assert b"Host: alpha" in made
    assert [kinds(one) for one in before.sessions] == [kinds(one) for one in after.sessions]


def test_what_follows_an_upgrade_is_blanked() -> None:
    upgrade = b"GET /session HTTP/1.1\r\nUpgrade: posthouse\r\n\r\n"
    frames = conversation(
        (True, upgrade + b"\0\0" + SECRET + b"\r\n\r\n" + SECRET), server=Endpoint("192.0.2.1", 80)
    )
    made, _, _ = copy_of(frames)
    assert SECRET not in made
    assert upgrade in made


def test_calls_of_other_interfaces_are_blanked() -> None:
    other = SyntaxId(bytes(16), 1, 0)
    bind = pdu.pack_bind(pdu.Bind(5840, 5840, 0, (pdu.ContextItem(0, other, (NDR,)),)))
    request = pdu.pack_request(0, 7, SECRET)
    parts = [
        (True, pdu.pack(pdu.BIND, pdu.WHOLE, 1, bind, None)),
        (True, pdu.pack(pdu.REQUEST, pdu.WHOLE, 2, request, None)),
    ]
    made, _, _ = copy_of(conversation(*parts, server=Endpoint("192.0.2.1", 2103)))
    assert SECRET not in made
