"""Fuzz target: any NCP PDU or datagram is read and written again, or refused, in both directions.

The first byte chooses who reads: the server's stream, the client, or the decoder.
"""

from posthouse.cli.decode.ncp import is_ncp, view_ncp
from posthouse.client.errors import ClientConnectionError
from posthouse.client.ncp.core import NcpConversation
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.qms import NWQueueJobStruct
from posthouse.wire.ncp import bindery_calls as ncp_bindery_calls
from posthouse.wire.ncp import framing as ncp
from posthouse.wire.ncp import functions as ncp_functions
from posthouse.wire.ncp import queue_calls as ncp_queue_calls
from posthouse.wire.ncp.framing import Request, Stream, frame_request, read_request, write_request
from posthouse.wire.ncp.functions import CALLS

QUEUE = 0x00015D03
JOB = NWQueueJobStruct(job_type=3, job_description=b"x", queue_record=bytes(range(152)))
ASKED = [
    (ncp_queue_calls.CREATE_JOB, ncp_queue_calls.QueueJobStructure(QUEUE, JOB)),
    (ncp_queue_calls.OLD_CREATE_JOB, ncp_queue_calls.QueueJobStructure(QUEUE, JOB)),
    (ncp_queue_calls.FINISH_JOB, ncp_queue_calls.FinishJob(QUEUE, 2, 7)),
    (ncp_queue_calls.LIST_BY_FORMS, ncp_queue_calls.FormList(QUEUE, 1, (1, 2, 3))),
    (ncp_queue_calls.CREATE_QUEUE, ncp_queue_calls.CreateQueue(3, "PQ", 0, "SYS:SYSTEM")),
    (ncp_bindery_calls.ADD_TO_SET, ncp_bindery_calls.SetMember(3, "PQ", "Q_USERS", 1, "ALICE")),
    (
        ncp_bindery_calls.WRITE_PROPERTY,
        ncp_bindery_calls.WriteProperty(1, "ALICE", 1, False, "NOTE", bytes(128)),
    ),
    (ncp_bindery_calls.KEYED_LOGIN, ncp_bindery_calls.KeyedObject(bytes(8), 1, "ALICE")),
    (ncp_functions.WRITE_FILE, ncp_functions.WriteFile(0, 1, 3, b"data")),
    (ncp_functions.READ_FILE, ncp_functions.ReadFile(0, 1, 3, 512)),
]
MESSAGES = [
    write_request(Request(ncp.REQUEST, 1, 1, 1, call.function, call.ask(asked)))
    for call, asked in ASKED
]
REPLY = ncp.write_reply(ncp.Reply(ncp.REPLY, 1, 1, 1, 0, 0, b"data"))
SEEDS = [
    *(b"\0" + frame_request(message) for message in MESSAGES),
    b"\0" + frame_request(MESSAGES[2]) + frame_request(MESSAGES[3]),
    b"\1" + ncp.frame_reply(REPLY),
    b"\2" + REPLY,
    b"\2" + ncp.write_watchdog(0xFFFF),
    *(b"\3" + message for message in MESSAGES),
    b"\3" + ncp.write_watchdog(1),
]


def fuzz_one(data: bytes) -> bool:
    """True: it was NCP."""
    who, rest = (data[0] if data else 0) % 4, data[1:]
    try:
        if who == 0:
            return sum(map(_read, Stream().feed(rest))) > 0
        if who < 3:
            return _client(rest, datagrams=who == 2)
        return _decoded(rest)
    except RemoteProtocolError:
        return False


def _read(message: bytes) -> bool:
    request = read_request(message)
    assert read_request(write_request(request)) == request
    if request.kind != ncp.REQUEST:
        return True
    number, data = None, request.data
    if request.function in ncp.FUNCTION_GROUPS:
        number, data = ncp.read_subfunction(data)
    call = CALLS.get((request.function, number))
    if call is None:
        return True
    asked = call.request.read(data)
    assert call.request.read(call.request.write(asked)) == asked
    return True


def _client(data: bytes, *, datagrams: bool) -> bool:
    """A server that sends anything."""
    core = NcpConversation(datagrams=datagrams)
    core.create(0)
    try:
        core.receive(data, 0)
    except ClientConnectionError:
        return False
    return core.reply is not None


def _decoded(data: bytes) -> bool:
    if not is_ncp(data):
        return False
    view_ncp(data)
    return True
