"""Fuzz target: any bytes are a capture file; what is read of it can be blanked and read again."""

from posthouse.cli.decode.capture.blanking import blanked
from posthouse.cli.decode.capture.offline import own_answers
from posthouse.cli.decode.capture.transcript import CaptureFound, read_capture
from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.remote_read.stubs import REMOTE_READ
from posthouse.rpc import pdu
from posthouse.rpc.syntax import NDR
from posthouse.wire.binary.internal import connection_parameters, establish_connection
from posthouse.wire.capture.packets import Endpoint
from tests.support.capture_files import (
    CLIENT,
    conversation,
    datagram,
    fragments,
    pcap,
    pcapng,
    timed,
)

BODY = b"a body that nobody else may see"
HELLO = establish_connection(bytes(16), time_stamp=1) + connection_parameters(500, 20_000, 64)
POST = b"POST /msmq/q HTTP/1.1\r\nContent-Length: 31\r\nCookie: a\r\n\r\n" + BODY
RPC = bytes.fromhex("05000b03100000001c00000001000000d016d0160000000000000000")
TALK = conversation((True, HELLO), (False, HELLO), size=300)
BIND = pdu.pack_bind(pdu.Bind(5840, 5840, 0, (pdu.ContextItem(0, REMOTE_READ, (NDR,)),)))
BOUND = pdu.pack_bind_ack(pdu.BindAck(5840, 5840, 7, "2103", (pdu.ContextResult(0, 0, NDR),)))
READS = [
    (True, pdu.pack(pdu.BIND, pdu.WHOLE, 1, BIND)),
    (False, pdu.pack(pdu.BIND_ACK, pdu.WHOLE, 1, BOUND)),
    (True, pdu.pack(pdu.REQUEST, pdu.WHOLE, 2, pdu.pack_request(0, 7, bytes(56)))),
    (False, pdu.pack(pdu.RESPONSE, pdu.WHOLE, 2, pdu.pack_response(0, bytes(64)))),
]
HERE, THERE = Endpoint("2001:db8::1", 80), Endpoint("2001:db8::2", 9)
OVER_IPV6 = conversation((True, POST), server=HERE, client=THERE, size=20)
DATAGRAMS = [
    *fragments("192.0.2.1", "192.0.2.2", 17, bytes(40), 16),
    datagram(CLIENT, Endpoint("192.0.2.2", 524), b"\x22\x22" + bytes(9)),
]

SEEDS = [
    pcap(timed(TALK), "ethernet"),
    pcap(timed(TALK[1:4] + TALK[5:]), "cooked", ">"),
    pcapng(timed(TALK), "vlan"),
    pcapng(timed(OVER_IPV6), "cooked 2", ">"),
    pcap(timed(conversation((True, RPC), (False, RPC))), "loopback"),
    pcap(timed(conversation(*READS)), "raw"),
    pcap(timed(DATAGRAMS)),
]


def fuzz_one(data: bytes) -> bool:
    """A copy has the same sessions, and no message that its protocol could not read."""
    try:
        found = read_capture(data)
    except RemoteProtocolError:
        return False
    if len(data) % 8 == 0:  # a queue manager for each session takes its time
        for session in found.sessions[:2]:
            own_answers(session)
    copy = blanked(data, found)
    if POST in data:
        assert BODY not in copy
    read_capture(copy)
    return _is_something(found)


def _is_something(found: CaptureFound) -> bool:
    for session in found.sessions:
        times = [line.at_us for line in session.lines]
        assert times == sorted(times)
    return bool(found.sessions)
