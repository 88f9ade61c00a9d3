"""Fuzz target: bytes of a server to a remote reader are an answer, or break the connection.

The client's end of a connection, the answers of R_StartReceive, and the messages in them. It runs
with its siblings by `make fuzz`; alone, guided by coverage, by
`python -m fuzz.guided rpc_client -max_total_time=600` (see there).
"""

from posthouse.client.packets import Options, PacketMaker
from posthouse.client.remote.messages import rebuilt
from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    REMOTE_READ,
    Opnum,
    Received,
    Section,
)
from posthouse.rpc import pdu, statuses
from posthouse.rpc.client import BindRefused, ClientConnection
from posthouse.rpc.ndr import BadStub
from posthouse.rpc.syntax import NDR
from posthouse.wire.packet.remote_read import pack_trailers

ANSWER = METHODS[Opnum.START_RECEIVE].response
NAME = r"DIRECT=OS:far\private$\q"
MESSAGE = PacketMaker(NAME, "far").packet(b"a body", Options(label="label"), False)
PADDED = MESSAGE + bytes(-len(MESSAGE) % 4)
TRAILERS = pack_trailers(0, 1, 2, 3, "sub", "", r"far\private$\dead", True, "10.0.0.7")
WHOLE = PADDED[:8] + (len(PADDED) + len(TRAILERS)).to_bytes(4, "little") + PADDED[12:] + TRAILERS
RESULTS = (pdu.ContextResult(0, 0, NDR), pdu.ContextResult(statuses.NEGOTIATE_ACK, 3))
ACK = pdu.pack(
    pdu.BIND_ACK,
    pdu.WHOLE | pdu.CONC_MPX,
    1,
    pdu.pack_bind_ack(pdu.BindAck(5840, 5840, 7, "2103", RESULTS)),
)


def _answer(*sections: Section, flags: int = pdu.WHOLE) -> bytes:
    stub = ANSWER.encode(Received(1, 2, sections, 0))
    return pdu.pack(pdu.RESPONSE, flags, 2, pdu.pack_response(0, stub))


SEEDS = [
    b"\0" + ACK,
    b"\0" + pdu.pack(pdu.BIND_NAK, pdu.WHOLE, 1, pdu.pack_bind_nak(pdu.BindNak(4))),
    b"\1" + _answer(Section(0, len(WHOLE), WHOLE)),
    b"\1" + _answer(Section(1, 200, WHOLE[:190]), Section(2, len(TRAILERS), TRAILERS)),
    b"\1" + _answer(Section(0, len(MESSAGE), MESSAGE), flags=pdu.FIRST_FRAG),
    b"\1" + pdu.pack(pdu.FAULT, pdu.WHOLE, 2, pdu.pack_fault(0, 0xC00E0003)),
    b"\1" + pdu.pack(pdu.SHUTDOWN, pdu.WHOLE, 2, b""),
]


def fuzz_one(data: bytes) -> bool:
    """The first byte sets whether the connection is bound; pieces of any size give one result."""
    is_bound = bool(data and data[0] & 1)
    whole = _heard(is_bound, data[1:], len(data) or 1)
    assert _heard(is_bound, data[1:], 5) == whole
    for _, status, stub in whole or ():
        if not status:
            _rebuild(stub)
    return bool(whole)


def _heard(is_bound: bool, data: bytes, size: int) -> list[tuple[int, int, bytes]] | None:
    connection = ClientConnection(REMOTE_READ)
    connection.begin()
    answers: list[tuple[int, int, bytes]] = []
    try:
        if is_bound:
            connection.receive(ACK)
            connection.request(Opnum.START_RECEIVE, b"")
        for at in range(0, len(data), size):
            answers += connection.receive(data[at : at + size])
    except (RemoteProtocolError, BindRefused):
        return None
    return answers


def _rebuild(stub: bytes) -> None:
    """An answer is a message, or refused as one."""
    try:
        message = rebuilt(ANSWER.decode(stub), NAME)
    except (BadStub, RemoteProtocolError):
        return
    assert len(message.body) <= len(message.packet)
