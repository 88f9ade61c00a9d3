"""Every NCP call in both directions; the requests of real clients byte for byte (qms-facts 10)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError, Truncated
from posthouse.model.qms import NWQueueJobStruct
from posthouse.wire.ncp import bindery_calls as bindery
from posthouse.wire.ncp import functions
from posthouse.wire.ncp import queue_calls as queues
from posthouse.wire.ncp.calls import NOTHING, NcpCall
from posthouse.wire.ncp.framing import (
    REQUEST,
    Request,
    read_request,
    read_subfunction,
    write_request,
)
from posthouse.wire.ncp.functions import CALLS
from posthouse.wire.ncp.jobs import NEW_JOB, OLD_JOB

Q = 0x00015D03
JOB = NWQueueJobStruct(
    job_number=2,
    job_type=7,
    job_description=b"x".ljust(50, b"\0"),
    queue_record=bytes(152),
)

# Call, what it asks, and its bytes behind `2222 seq conn task conn`, as ncpfs sent them.
REFERENCE: list[tuple[NcpCall[Any, Any], Any, str]] = [
    (queues.ATTACH, (Q,), "17 0005 6f 00015d03"),
    (queues.SERVICE_JOB, (Q, 0xFFFF), "17 0007 7c 00015d03 ffff"),
    (queues.LIST_JOBS, (Q, 1), "17 0009 81 00015d03 01000000"),
    (queues.READ_JOB, (Q, 1), "17 0009 7a 00015d03 01000000"),
    (queues.START_JOB, (Q, 1), "17 0009 7f 00015d03 01000000"),
    (queues.CREATE_JOB, (Q, JOB), "17 011d 79 00015d03" + NEW_JOB.write(JOB).hex()),
    (queues.FINISH_JOB, (Q, 2, 0), "17 000d 83 00015d03 02000000 00000000"),
    (bindery.SCAN_OBJECT, (0xFFFFFFFF, 3, "*"), "17 0009 37 ffffffff 0003 01 2a"),
    (bindery.CREATE_OBJECT, (0, 0x30, 0x0A, "JQ1"), "17 0009 32 00 30 000a 03 4a5131"),
]
# The rest of qms-facts 1.4, 1.5, 3.1 and 4.2, as their tables have it.
REQUESTS: list[tuple[NcpCall[Any, Any], Any, str]] = [
    (queues.CREATE_QUEUE, (3, "PQ", 0, "SYS:"), "17 000c 64 0003 02 5051 00 04 5359533a"),
    (queues.DESTROY_QUEUE, (Q,), "17 0005 65 00015d03"),
    (queues.OLD_READ_STATUS, (Q,), "17 0005 66 00015d03"),
    (queues.READ_STATUS, (Q,), "17 0005 7d 00015d03"),
    (queues.OLD_SET_STATUS, (Q, 4), "17 0006 67 00015d03 04"),
    (queues.SET_STATUS, (Q, 4), "17 0006 7e 00015d03 04"),
    (queues.OLD_CREATE_JOB, (Q, JOB), "17 0105 68 00015d03" + OLD_JOB.write(JOB).hex()),
    (queues.OLD_START_JOB, (Q, 0x0102), "17 0007 69 00015d03 0102"),
    (queues.OLD_REMOVE_JOB, (Q, 0x0102), "17 0007 6a 00015d03 0102"),
    (queues.REMOVE_JOB, (Q, 0x0102), "17 0009 80 00015d03 02010000"),
    (queues.OLD_LIST_JOBS, (Q,), "17 0005 6b 00015d03"),
    (queues.OLD_READ_JOB, (Q, 0x0102), "17 0007 6c 00015d03 0102"),
    (queues.OLD_CHANGE_JOB, (Q, JOB), "17 0105 6d 00015d03" + OLD_JOB.write(JOB).hex()),
    (queues.CHANGE_JOB, (Q, JOB), "17 011d 7b 00015d03" + NEW_JOB.write(JOB).hex()),
    (queues.OLD_CHANGE_POSITION, (Q, 5, 1), "17 0008 6e 00015d03 0005 01"),
    (queues.CHANGE_POSITION, (Q, 5, 1), "17 000d 82 00015d03 05000000 01000000"),
    (queues.DETACH, (Q,), "17 0005 70 00015d03"),
    (queues.OLD_SERVICE_JOB, (Q, 0x0102), "17 0007 71 00015d03 0102"),
    (queues.OLD_FINISH_JOB, (Q, 2, 9), "17 000b 72 00015d03 0002 00000009"),
    (queues.OLD_ABORT_JOB, (Q, 2), "17 0007 73 00015d03 0002"),
    (queues.ABORT_JOB, (Q, 2), "17 0009 84 00015d03 02000000"),
    (queues.OLD_CLIENT_RIGHTS, (Q, 2), "17 0007 74 00015d03 0002"),
    (queues.CLIENT_RIGHTS, (Q, 2), "17 0009 85 00015d03 02000000"),
    (queues.RESTORE_RIGHTS, (), "17 0001 75"),
    (queues.OLD_SERVER_STATUS, (Q, 9, 3), "17 000a 76 00015d03 00000009 03"),
    (queues.SERVER_STATUS, (Q, 9, 3), "17 000d 86 00015d03 00000009 03000000"),
    (queues.SET_SERVER_STATUS, (Q, bytes(64)), "17 0045 77 00015d03" + "00" * 64),
    (queues.OLD_FILE_SIZE, (Q, 2), "17 0007 78 00015d03 0002"),
    (queues.FILE_SIZE, (Q, 2), "17 0009 87 00015d03 02000000"),
    (queues.MOVE_JOB, (Q, 2, 7), "17 000d 88 00015d03 02000000 00000007"),
    (queues.LIST_BY_FORMS, (Q, 1, (0x102,)), "17 000f 89 00015d03 01000000 01000000 0201"),
    (queues.SERVICE_BY_FORMS, (Q, 1, (3,)), "17 000f 8a 00015d03 01000000 01000000 0300"),
    (bindery.SERVER_INFORMATION, (), "17 0001 11"),
    (bindery.LOGIN, (1, "AL", b"PW"), "17 0009 14 0001 02 414c 02 5057"),
    (bindery.LOGIN_KEY, (), "17 0001 17"),
    (bindery.KEYED_LOGIN, (b"12345678", 1, "AL"), "17 000e 18 3132333435363738 0001 02 414c"),
    (bindery.STATION_INFORMATION, (1,), "17 0005 1c 01000000"),
    (bindery.DELETE_OBJECT, (1, "AL"), "17 0006 33 0001 02 414c"),
    (bindery.RENAME_OBJECT, (1, "AL", "B"), "17 0008 34 0001 02 414c 01 42"),
    (bindery.GET_OBJECT_ID, (1, "AL"), "17 0006 35 0001 02 414c"),
    (bindery.GET_OBJECT_NAME, (Q,), "17 0005 36 00015d03"),
    (bindery.OBJECT_SECURITY, (0x31, 1, "AL"), "17 0007 38 31 0001 02 414c"),
    (bindery.CREATE_PROPERTY, (1, "AL", 2, 0x31, "P"), "17 000a 39 0001 02 414c 02 31 01 50"),
    (bindery.DELETE_PROPERTY, (1, "AL", "P"), "17 0008 3a 0001 02 414c 01 50"),
    (bindery.PROPERTY_SECURITY, (1, "AL", 0x31, "P"), "17 0009 3b 0001 02 414c 31 01 50"),
    (bindery.SCAN_PROPERTY, (1, "AL", 0xFFFFFFFF, "*"), "17 000c 3c 0001 02 414c ffffffff 01 2a"),
    (bindery.READ_PROPERTY, (1, "AL", 1, "P"), "17 0009 3d 0001 02 414c 01 01 50"),
    (
        bindery.WRITE_PROPERTY,
        (1, "AL", 1, False, "P", bytes(128)),
        "17 008a 3e 0001 02 414c 01 00 01 50" + "00" * 128,
    ),
    (bindery.VERIFY_PASSWORD, (1, "AL", b"PW"), "17 0009 3f 0001 02 414c 02 5057"),
    (bindery.CHANGE_PASSWORD, (1, "AL", b"P", b"N"), "17 000a 40 0001 02 414c 01 50 01 4e"),
    (bindery.ADD_TO_SET, (3, "PQ", "S", 1, "AL"), "17 000d 41 0003 02 5051 01 53 0001 02 414c"),
    (bindery.DELETE_FROM_SET, (3, "PQ", "S", 1, "A"), "17 000c 42 0003 02 5051 01 53 0001 01 41"),
    (bindery.IS_IN_SET, (3, "PQ", "S", 1, "A"), "17 000c 43 0003 02 5051 01 53 0001 01 41"),
    (bindery.ACCESS_LEVEL, (), "17 0001 46"),
    (bindery.KEYED_VERIFY, (b"12345678", 1, "AL"), "17 000e 4a 3132333435363738 0001 02 414c"),
    (functions.SERVER_CLOCK, (), "14"),
    (functions.END_OF_JOB, (), "18"),
    (functions.LOGOUT, (), "19"),
    (functions.NEGOTIATE, (1024,), "21 0400"),
    (functions.NEGOTIATE_SIZE, (1032, 2), "61 0408 02"),
    (functions.CLOSE_FILE, (0, 7), "42 00 0800 07000000"),
    (functions.CURRENT_SIZE, (0, 7), "47 00 0800 07000000"),
    (functions.READ_FILE, (0, 7, 3, 512), "48 00 0800 07000000 00000003 0200"),
    (functions.WRITE_FILE, (0, 7, 3, b"abc"), "49 00 0800 07000000 00000003 0003 616263"),
]
SERVERS = ((9, 3), (0x0A, 0x0102))
REPLIES: list[tuple[NcpCall[Any, Any], Any, str]] = [
    (queues.CREATE_QUEUE, (Q,), "00015d03"),
    (
        queues.OLD_READ_STATUS,
        (Q, 1, 300, SERVERS),
        "00015d03 01 ff 02 00000009 0000000a 03 02",
    ),
    (
        queues.READ_STATUS,
        (Q, 1, 300, SERVERS),
        "00015d03 01000000 2c010000 02000000 00000009 0000000a 03000000 02010000",
    ),
    (queues.OLD_LIST_JOBS, ((1, 0x102),), "0002 0001 0102"),
    (queues.LIST_JOBS, (9, (1, 0x102)), "09000000 02000000 01000000 02010000"),
    (queues.LIST_BY_FORMS, (1, (3,)), "01000000 01000000 03000000"),
    (queues.READ_JOB, (JOB,), NEW_JOB.write(JOB).hex()),
    (queues.OLD_READ_JOB, (JOB,), OLD_JOB.write(JOB).hex()),
    (queues.CREATE_JOB, (JOB,), NEW_JOB.write(JOB)[:78].hex()),
    (queues.SERVICE_JOB, (JOB,), NEW_JOB.write(JOB)[:78].hex()),
    (queues.SERVICE_BY_FORMS, (JOB,), NEW_JOB.write(JOB)[:78].hex()),
    (queues.OLD_CREATE_JOB, (JOB,), OLD_JOB.write(JOB)[:54].hex()),
    (queues.OLD_SERVICE_JOB, (JOB,), OLD_JOB.write(JOB)[:54].hex()),
    (queues.SERVER_STATUS, (b"s" * 64,), "73" * 64),
    (queues.OLD_SERVER_STATUS, (b"s" * 64,), "73" * 64),
    (queues.OLD_FILE_SIZE, (Q, 0x0102, 5), "00015d03 0102 00000005"),
    (queues.FILE_SIZE, (Q, 0x0102, 5), "00015d03 02010000 00000005"),
    (queues.MOVE_JOB, (0x0102,), "02010000"),
    (bindery.GET_OBJECT_ID, (Q, 1, "ALICE"), "00015d03 0001" + b"ALICE".ljust(48, b"\0").hex()),
    (bindery.GET_OBJECT_NAME, (Q, 1, "AL"), "00015d03 0001" + b"AL".ljust(48, b"\0").hex()),
    (
        bindery.SCAN_OBJECT,
        (Q, 3, "PQ", 0, 0x30, True),
        "00015d03 0003" + b"PQ".ljust(48, b"\0").hex() + "00 30 ff",
    ),
    (
        bindery.SCAN_PROPERTY,
        ("Q_USERS", 2, 0x30, 5, True, False),
        b"Q_USERS".ljust(16, b"\0").hex() + "02 30 00000005 ff 00",
    ),
    (bindery.READ_PROPERTY, (bytes(128), True, 2), "00" * 128 + "ff 02"),
    (bindery.ACCESS_LEVEL, (0x33, 1), "33 00000001"),
    (bindery.LOGIN_KEY, (b"12345678",), "3132333435363738"),
    (
        bindery.STATION_INFORMATION,
        (1, 1, "AL", bytes(7), 0),
        "00000001 0001" + b"AL".ljust(48, b"\0").hex() + "00" * 8,
    ),
    (functions.SERVER_CLOCK, (bytes(range(7)),), "00010203040506"),
    (functions.NEGOTIATE, (1024,), "0400"),
    (functions.NEGOTIATE_SIZE, (1032, 0, 0), "0408 0000 00"),
    (functions.CURRENT_SIZE, (9,), "00000009"),
]


def _ids(cases: list[tuple[NcpCall[Any, Any], Any, str]]) -> list[str]:
    return [call.number for call, _, _ in cases]


@pytest.mark.spec(
    "NCP framing/1",
    "NCP 0x7C/2",
    "NCP 0x81/2",
    "NCP job numbers/1",
    "NCP 0x79/1",
    "NCP 0x83/2",
)
@pytest.mark.parametrize(("call", "asked", "data"), REFERENCE, ids=_ids(REFERENCE))
def test_the_reference_exchanges_are_what_we_send(
    call: NcpCall[Any, Any], asked: Any, data: str
) -> None:
    request = Request(REQUEST, 3, 5, 1, call.function, call.ask(call.request.record(*asked)))
    assert write_request(request) == bytes.fromhex("2222 03 05 01 00" + data)
    assert _read(data) == (call, asked)


@pytest.mark.spec(
    "NCP 0x64/1",
    "NCP 0x68/1",
    "NCP 0x7B/1",
    "NCP 0x86/1",
    "NCP 0x89/1",
    "NCP 0x8A/1",
    "NCP fn 0x48/1",
    "NCP fn 0x49/1",
    "NCP session/2",
)
@pytest.mark.parametrize(("call", "asked", "data"), REQUESTS, ids=_ids(REQUESTS))
def test_requests_have_the_layout_of_the_facts(
    call: NcpCall[Any, Any], asked: Any, data: str
) -> None:
    assert bytes((call.function,)) + call.ask(call.request.record(*asked)) == bytes.fromhex(data)
    assert _read(data) == (call, asked)


def _read(data: str) -> tuple[NcpCall[Any, Any], Any]:
    request = read_request(bytes.fromhex("2222 03 05 01 00" + data))
    if (request.function, None) in CALLS:
        call, body = CALLS[request.function, None], request.data
    else:
        subfunction, body = read_subfunction(request.data)
        call = CALLS[request.function, subfunction]
    return call, call.request.read(body)


@pytest.mark.spec(
    "NCP 0x66/1",
    "NCP 0x7D/1",
    "NCP 0x6B/1",
    "NCP 0x81/1",
    "NCP 0x7A/1",
    "NCP 0x87/1",
    "NCP 0x35/1",
    "NCP 0x3C/1",
    "NCP 0x3D/1",
    "NCP 0x46/1",
    "NCP session/1",
    "NCP fn 0x47/1",
)
@pytest.mark.parametrize(("call", "answered", "data"), REPLIES, ids=_ids(REPLIES))
def test_replies_have_the_layout_of_the_facts(
    call: NcpCall[Any, Any], answered: Any, data: str
) -> None:
    packed = bytes.fromhex(data)
    assert call.reply.write(call.reply.record(*answered)) == packed
    assert call.reply.write(call.reply.read(packed)) == packed


def test_every_call_has_a_request_above() -> None:
    assert {call.key for call, _, _ in REFERENCE + REQUESTS} == CALLS.keys()
    queue_calls = set(range(0x64, 0x8B))
    assert {sub for function, sub in CALLS if function == 0x17 and sub in queue_calls} == (
        queue_calls
    )


@pytest.mark.spec("NCP session/6")
def test_server_information_has_128_bytes() -> None:
    reply = bindery.SERVER_INFORMATION.reply
    fields = ("ALPHA", 3, 12, 250, 2, 1, *[0] * 3, 5, *[0] * 7, b"")
    written = reply.write(bindery.ServerInformation._make(fields))
    assert len(written) == 128
    assert written[:58] == b"ALPHA".ljust(48, b"\0") + bytes.fromhex("03 0c 00fa 0002 0001 00 00")


@pytest.mark.spec("NCP 0x7E/1")
@pytest.mark.parametrize("status", ["05", "05000000", "05ffffff"])
def test_only_the_first_byte_of_a_status_counts(status: str) -> None:
    asked = queues.SET_STATUS.request.read(bytes.fromhex("00015d03" + status))
    assert asked == (Q, 5)


@pytest.mark.spec("NCP 0x83/2")
def test_a_charge_has_four_bytes_or_two() -> None:
    read = queues.FINISH_JOB.request.read
    front = bytes.fromhex("00015d03 02000000")
    assert read(front + bytes.fromhex("00010002")) == (Q, 2, 0x10002)
    assert read(front + bytes.fromhex("0102")) == (Q, 2, 0x102)
    with pytest.raises(Truncated):
        read(front + b"\1")


@pytest.mark.spec("NCP fn 0x48/2")
@pytest.mark.parametrize(("offset", "data"), [(4, "0003616263"), (5, "000300616263")])
def test_a_read_at_an_odd_offset_has_a_byte_of_padding(offset: int, data: str) -> None:
    packed = bytes.fromhex(data)
    assert functions.write_file_data(offset, b"abc") == packed
    assert functions.read_file_data(offset, packed) == b"abc"


@pytest.mark.spec("NCP fn 0x48/3")
@pytest.mark.parametrize("offset", [8, 9])
def test_nothing_read_is_a_count_of_zero(offset: int) -> None:
    written = functions.write_file_data(offset, b"")
    assert written[:2] == b"\0\0"
    assert functions.read_file_data(offset, written) == b""
    assert functions.read_file_data(offset, b"\0\0") == b""


@pytest.mark.spec("NCP framing/6", "NCP 0x68/1", "NCP 0x79/1")
@pytest.mark.parametrize(
    ("call", "asked", "data"), REFERENCE + REQUESTS, ids=_ids(REFERENCE + REQUESTS)
)
def test_requests_cut_anywhere_are_truncated(
    call: NcpCall[Any, Any], asked: Any, data: str
) -> None:
    body = call.request.write(call.request.record(*asked))
    takes_two = call in (queues.FINISH_JOB, queues.OLD_FINISH_JOB)  # bytes of charge, too
    for cut in range(len(body) - 2 * takes_two):
        with pytest.raises(Truncated):
            call.request.read(body[:cut])


@given(st.sampled_from(sorted(CALLS, key=str)), st.binary(max_size=400))
def test_any_data_is_read_or_refused(key: tuple[int, int | None], data: bytes) -> None:
    call = CALLS[key]
    for form in (call.request, call.reply):
        try:
            value = form.read(data)
        except RemoteProtocolError:
            continue
        if call.key != (0x17, 0x64):
            assert form.read(form.write(value)) is not None


def test_names_that_a_client_cannot_show_have_low_lines() -> None:
    written = bindery.GET_OBJECT_NAME.reply.write(bindery.ObjectIdentity(1, 1, "Jürgen\u4e2d"))
    assert written[6:14] == b"J\x81rgen_\0"
    assert bindery.GET_OBJECT_NAME.reply.read(written).name == "Jürgen_"


def test_an_empty_request_is_nothing() -> None:
    assert queues.RESTORE_RIGHTS.request.read(b"") == NOTHING
