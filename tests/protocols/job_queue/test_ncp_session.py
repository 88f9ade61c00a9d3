"""Connections over TCP: from 0x1111 to 0x5555, and whatever is not NCP (qms-facts 1.1-1.4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.client.ncp.core import NcpLost
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.errors import (
    InsufficientResources,
    MessageStorageFailed,
    QmsError,
    QueueError,
    QueueNotFound,
)
from posthouse.net.connections import Connections
from posthouse.protocols.ncp.session import completion_of
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.wire.ncp import framing as ncp
from posthouse.wire.ncp.bindery_calls import (
    SERVER_INFORMATION,
    STATION_INFORMATION,
    ServerInformation,
    Station,
)
from posthouse.wire.ncp.calls import NOTHING, NcpCall
from posthouse.wire.ncp.framing import (
    Reply,
    Request,
    Stream,
    frame_request,
    read_reply,
    write_request,
)
from posthouse.wire.ncp.functions import (
    CALLS,
    NEGOTIATE,
    NEGOTIATE_SIZE,
    NOT_SERVED,
    SERVER_CLOCK,
    WRITE_FILE,
    BufferSize,
    ProposedSize,
)
from posthouse.wire.ncp.queue_calls import CREATE_JOB
from tests.protocols.job_queue.rig import NcpRig, TcpLine
from tests.protocols.job_queue.walk import Walk, line_of, refused


class Raw(TcpLine):
    """A client of any bytes."""

    def say(self, *requests: Request) -> list[Reply]:
        return self.say_bytes(b"".join(frame_request(write_request(each)) for each in requests))

    def say_bytes(self, data: bytes) -> list[Reply]:
        before = len(self.replies)
        if not self.closed:
            self.session.receive(data)
        self.rig.desk.settle()
        stream = Stream(ncp.REPLY_MAGIC)
        return [read_reply(each) for each in stream.feed(b"".join(self.replies[before:]))]

    def send(self, *args: Any) -> None:
        self.replies.append(args[0])

    def create(self) -> int:
        (reply,) = self.say(CREATE)
        return reply.connection


CREATE = Request(ncp.CREATE_CONNECTION, 1, 0xFFFF, 1, 0, bytes.fromhex("01100000") + bytes(15))


def asks(connection: int, function: int, data: bytes = b"", sequence: int = 1) -> Request:
    return Request(ncp.REQUEST, sequence, connection, 7, function, data)


@pytest.fixture
def raw(rig: NcpRig) -> Raw:
    return Raw(rig, "192.0.2.9")


# -- connections


@pytest.mark.spec("NCP framing/3", "NCP framing/4", "NCP framing/2")
def test_the_reply_to_0x1111_announces_a_connection_number(rig: NcpRig, raw: Raw) -> None:
    assert raw.say(CREATE) == [Reply(0x3333, 1, 1, 1)]
    other = Raw(rig, "192.0.2.10")
    assert other.say(CREATE._replace(sequence=0, connection=0)) == [Reply(0x3333, 0, 2, 1)]
    assert {1, 2} <= rig.ncp.services.keys()


@pytest.mark.spec("NCP framing/2")
def test_a_reply_repeats_sequence_connection_and_task(raw: Raw) -> None:
    number = raw.create()
    (reply,) = raw.say(asks(number, 0x14, sequence=200))
    assert (reply.sequence, reply.connection, reply.task) == (200, number, 7)
    assert (reply.completion, reply.status) == (0, 0)


@pytest.mark.spec("NCP framing/8")
def test_an_unknown_connection_number_is_told_so(raw: Raw) -> None:
    (before,) = raw.say(asks(1, 0x14))
    assert before.status == 0x01
    number = raw.create()
    (other,) = raw.say(asks(number + 1, 0x14, sequence=9))
    assert (other.status, other.sequence, other.connection) == (0x01, 9, number + 1)
    (own,) = raw.say(asks(number, 0x14))
    assert own.status == 0


@pytest.mark.spec("NCP framing/8")
def test_the_number_of_another_client_is_no_connection_here(rig: NcpRig, raw: Raw) -> None:
    other = Raw(rig, "192.0.2.9")
    number = other.create()
    raw.create()
    (reply,) = raw.say(asks(number, 0x14))
    assert reply.status == 0x01


@pytest.mark.spec("NCP framing/3", "NCP session/7")
def test_0x5555_ends_the_connection_and_is_answered(rig: NcpRig, raw: Raw) -> None:
    number = raw.create()
    assert raw.say(Request(ncp.DESTROY_CONNECTION, 2, number, 1)) == [Reply(0x3333, 2, number, 1)]
    assert rig.manager.stations.find(number) is None
    (reply,) = raw.say(asks(number, 0x14))
    assert reply.status == 0x01
    assert raw.create() == number  # the TCP connection takes another one


def test_a_second_0x1111_ends_what_was_before(walk: Walk) -> None:
    line = line_of(walk.alice)
    number = walk.created().job_number
    line.open()
    assert not line.station.object_id
    assert number not in walk.numbers


@pytest.mark.spec("NCP session/7", "NCP lost connections/1")
def test_a_lost_transport_logs_out_and_cleans_up(walk: Walk) -> None:
    kept = walk.created(job_control_flags=0x08).job_number
    walk.created()
    line = line_of(walk.alice)
    line.lose()
    assert walk.rig.manager.stations.find(line.connection) is None
    assert walk.numbers == (kept,)
    assert walk.entry(kept).job_control_flags == 0x08


def test_there_are_as_many_connections_as_the_settings_say() -> None:
    rig = NcpRig(qms=QmsSettings(stations_max=1))
    first, second = Raw(rig, "192.0.2.1"), Raw(rig, "192.0.2.2")
    first.create()
    (reply,) = second.say(CREATE)
    assert reply.completion == 0xD9
    first.lose()
    assert second.create() == 1


# -- requests that are none


def test_clients_that_never_log_in_leave_connections_to_other_doors() -> None:
    rig = NcpRig(qms=QmsSettings(stations_max=8))
    for at in range(7):
        Raw(rig, f"192.0.2.{at}").create()
    (refusal,) = Raw(rig, "192.0.2.9").say(CREATE)
    assert refusal.completion == 0xD9
    assert rig.root().number == 8


def test_who_got_no_connection_cannot_ask_on_number_0() -> None:
    rig = NcpRig(qms=QmsSettings(stations_max=1))
    rig.client()
    late = Raw(rig, "192.0.2.9")
    (refusal,) = late.say(CREATE)
    assert refusal.completion == 0xD9
    (reply,) = late.say(asks(0, 0x14))
    assert reply.completion == 0xFF
    assert not rig.driver.failed


@pytest.mark.spec("NCP framing/7", "NCP session/3")
@pytest.mark.parametrize(
    "request_data", ["68 01", "77", "16 0003 0a 0000", "17 0001 ff", "15 0001 00", "00", "ff"]
)
def test_unknown_functions_are_not_served_and_the_connection_stays(
    raw: Raw, request_data: str
) -> None:
    number = raw.create()
    function, *data = bytes.fromhex(request_data)
    (reply,) = raw.say(asks(number, function, bytes(data)))
    assert (reply.completion, reply.data) == (0xFB, b"")
    (again,) = raw.say(asks(number, 0x14, sequence=2))
    assert again.completion == 0


@pytest.mark.spec("NCP framing/7")
@pytest.mark.parametrize("key", sorted(NOT_SERVED, key=str), ids=str)
def test_directory_and_trustee_calls_are_not_served(raw: Raw, key: tuple[int, int | None]) -> None:
    function, subfunction = key
    data = b"" if subfunction is None else ncp.write_subfunction(subfunction, bytes(8))
    (reply,) = raw.say(asks(raw.create(), function, data))
    assert reply.completion == 0xFB


@pytest.mark.spec("NCP framing/6")
@pytest.mark.parametrize(
    "data", ["", "00", "0001", "0005 6f 00015d", "0006 6f 00015d03", "0001 6f", "0004 6f 015d03"]
)
def test_a_length_that_is_not_right_is_answered_with_0x7e(raw: Raw, data: str) -> None:
    (reply,) = raw.say(asks(raw.create(), 0x17, bytes.fromhex(data)))
    assert reply.completion == 0x7E


@pytest.mark.spec("NCP framing/6", "NCP 0x68/1", "NCP 0x79/1")
@pytest.mark.parametrize("key", sorted(CALLS, key=str), ids=str)
def test_data_too_short_for_its_call_is_answered_with_0x7e(
    raw: Raw, key: tuple[int, int | None]
) -> None:
    function, subfunction = key
    data = b"" if subfunction is None else ncp.write_subfunction(subfunction, b"")
    number = raw.create()
    (reply,) = raw.say(asks(number, function, data))
    try:
        CALLS[key].request.read(b"")
    except ncp.Truncated:
        assert reply.completion == 0x7E
    else:
        assert reply.completion != 0x7E


@pytest.mark.spec("NCP TCP/3")
def test_requests_in_one_piece_and_one_in_many_are_answered_in_order(raw: Raw) -> None:
    number = raw.create()
    requests = [asks(number, function, sequence=at) for at, function in enumerate(b"\x14\x77\x14")]
    replies = raw.say(*requests)
    assert [(reply.sequence, reply.completion) for reply in replies] == [(0, 0), (1, 0xFB), (2, 0)]
    data = frame_request(write_request(requests[0]))
    replies = [reply for byte in data for reply in raw.say_bytes(bytes((byte,)))]
    assert [reply.completion for reply in replies] == [0]


@pytest.mark.spec("NCP TCP/4", "NCP TCP/5", "NCP framing/3")
@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"DmdT" + (1 << 20).to_bytes(4, "big"),
        b"DmdT" + bytes.fromhex("8000001e"),
        b"DmdT" + bytes(4),
        b"tNcP" + bytes.fromhex("00000010"),
        frame_request(bytes.fromhex("7777 01 01 01 00 00 00")),
        frame_request(bytes.fromhex("3333 01 01 01 00 00 00")),
    ],
    ids=["http", "long", "signed", "short", "reply", "burst", "a reply in a request"],
)
def test_what_is_not_ncp_closes_its_connection_and_no_other(
    rig: NcpRig, raw: Raw, data: bytes
) -> None:
    other = Raw(rig, "192.0.2.10")
    number = other.create()
    raw.create()
    assert raw.say_bytes(data) == []
    assert raw.closed
    raw.session.lost()
    rig.desk.settle()
    assert rig.ncp.figures.refused == {"malformed": 1}
    assert other.say(asks(number, 0x14))[0].completion == 0
    assert rig.ncp.services.keys() == {number}


def test_what_came_in_front_of_garbage_is_decided(walk: Walk) -> None:
    job = walk.created()
    line = line_of(walk.alice)
    start = bytes.fromhex("17 0009 7f") + walk.queue.to_bytes(4, "big")
    start += job.job_number.to_bytes(4, "little")
    request = Request(ncp.REQUEST, 1, line.connection, 1, start[0], start[1:])
    line.deliver(frame_request(write_request(request)) + b"garbage")
    walk.rig.desk.settle()
    assert walk.entry(job.job_number).job_control_flags & 0x20 == 0


# -- the small functions


@pytest.mark.spec("NCP session/1", "NCP TCP/5")
@pytest.mark.parametrize(
    ("proposed", "flags", "accepted"), [(1032, 2, 1032), (1024, 0, 1024), (65_000, 0, 61_440)]
)
def test_a_buffer_size_is_agreed_on_and_signing_is_not(
    rig: NcpRig, proposed: int, flags: int, accepted: int
) -> None:
    line = line_of(rig.client())
    answer = line.request(NEGOTIATE_SIZE, ProposedSize(proposed, flags))
    assert answer == (accepted, 0, 0)


@pytest.mark.spec("NCP session/2")
@pytest.mark.parametrize(("proposed", "accepted"), [(1024, 1024), (100, 512), (65_535, 61_440)])
def test_an_old_client_negotiates_with_0x21(rig: NcpRig, proposed: int, accepted: int) -> None:
    assert line_of(rig.client()).request(NEGOTIATE, BufferSize(proposed)) == (accepted,)


@pytest.mark.spec("NCP session/4")
def test_the_clock_has_seven_bytes_and_sunday_is_0(rig: NcpRig) -> None:
    # START_UTC of the rig: a Tuesday.
    clock = line_of(rig.client()).request(SERVER_CLOCK, NOTHING).clock
    assert clock == bytes((23, 11, 14, 22, 13, 20, 2))
    rig.pass_time(5 * 86_400_000 + 41_000)
    clock = line_of(rig.client()).request(SERVER_CLOCK, NOTHING).clock
    assert clock == bytes((23, 11, 19, 22, 14, 1, 0))


@pytest.mark.spec("NCP session/6")
def test_server_information_names_the_server_and_version_3_12(rig: NcpRig) -> None:
    """Of what we are not, levels and versions are 0; accounting is there."""
    rig.ncp.limits = Connections(connections_max=77)
    other, calls = rig.client(), rig.client()
    other.close()
    found = line_of(calls).request(SERVER_INFORMATION, NOTHING)
    assert found == ServerInformation(
        name="ALPHA",
        major=3,
        minor=12,
        connections_max=77,
        connections=1,
        volumes=0,
        revision=0,
        sft_level=0,
        tts_level=0,
        peak=2,
        accounting=1,
        vap=0,
        queue_version=1,
        print_version=0,
        console_version=0,
        restriction_level=0,
        bridge_version=0,
        reserved=bytes(len(found.reserved)),
    )
    rig.ncp.server_name = "alpha"
    assert calls.get_file_server_information().name == "ALPHA"


@pytest.mark.spec("NCP session/5")
def test_a_logout_leaves_the_connection_for_another_login(walk: Walk) -> None:
    walk.created()
    line = line_of(walk.alice)
    walk.alice.logout()
    assert not line.station.object_id
    assert walk.numbers == ()
    walk.alice.login("OSCAR", password="SECRET")
    assert line.station.object_id


def test_end_of_job_is_answered(rig: NcpRig) -> None:
    assert line_of(rig.client()).raw(0x18, b"") == Reply(0x3333, 1, 1, 1)


def test_stations_are_told_to_who_has_logged_in(walk: Walk) -> None:
    alice = line_of(walk.alice)
    asked = Station(alice.connection)
    own = alice.request(STATION_INFORMATION, asked)
    # START_UTC of the rig, where the clock of the server stands at UTC.
    assert own == (alice.station.object_id, 1, "ALICE", bytes((23, 11, 14, 22, 13, 20, 2)), 0)
    assert line_of(walk.oscar).request(STATION_INFORMATION, asked) == own
    stranger = line_of(walk.rig.client())
    refused(0xFF, stranger.request, STATION_INFORMATION, asked)
    nobody = stranger.request(STATION_INFORMATION, Station(stranger.connection))
    assert nobody == (0, 0, "", bytes(7), 0)
    refused(0xFF, alice.request, STATION_INFORMATION, Station(999))


@pytest.mark.parametrize(
    ("error", "call", "code"),
    [
        (QmsError(0xD3, "no"), None, 0xD3),
        (InsufficientResources("full"), WRITE_FILE, 0x01),
        (InsufficientResources("full"), CREATE_JOB, 0x96),
        (InsufficientResources("full"), None, 0x96),
        (MessageStorageFailed("broken"), CREATE_JOB, 0xD0),
        (QueueNotFound("gone"), None, 0xFF),
    ],
)
def test_refusals_have_the_completion_code_of_their_cause(
    error: QueueError, call: NcpCall[Any, Any] | None, code: int
) -> None:
    assert completion_of(error, call) == code


def test_times_and_limits_of_a_server_that_is_told_nothing() -> None:
    """1.2: a bound before anything is kept; 7.3: NetWare's watchdog; decision 13: keyed only."""
    assert NcpSettings() == NcpSettings(
        keyed_logins=True,
        clear_text_logins=False,
        request_max=128 * 1024,
        buffer_size_max=60 * 1024,
        datagram_buffer_max=8 * 1024,
        calls_max=16,
        watchdog_delay_ms=296_600,
        watchdog_interval_ms=59_300,
        watchdog_count=10,
        create_ms=30_000,
        unfinished_ms=30_000,
        login_ms=300_000,
    )


# -- pace and time


def test_only_so_many_requests_wait_for_their_answers(rig: NcpRig) -> None:
    rig.ncp.settings = NcpSettings(calls_max=2)
    raw = Raw(rig, "192.0.2.9")
    number = raw.create()
    before = rig.desk.decisions
    data = b"".join(frame_request(write_request(asks(number, 0x14))) for _ in range(5))
    raw.session.receive(data)
    assert rig.desk.decisions == before + 2
    assert raw.session.held_bytes > 0
    rig.desk.settle()
    assert rig.desk.decisions == before + 5
    assert len(raw.replies) == 1 + 5
    assert (raw.session.held_bytes, raw.session.unsynced_bytes) == (0, 0)


def test_a_client_that_does_not_read_is_not_read_either(rig: NcpRig) -> None:
    raw = Raw(rig, "192.0.2.9")
    number = raw.create()
    raw.transport.writable = False
    assert raw.say(asks(number, 0x14)) == []
    raw.transport.writable = True
    raw.session.pump()
    rig.desk.settle()
    assert len(raw.replies) == 2


@pytest.mark.parametrize(
    ("begin", "wait_ms", "reason"),
    [
        (b"", 30_000, "idle"),
        (frame_request(write_request(CREATE)), 300_000, "idle"),
        (frame_request(write_request(CREATE)) + b"DmdT", 30_000, "slow"),
    ],
    ids=["nothing", "no login", "half a request"],
)
def test_who_takes_too_long_is_let_go(rig: NcpRig, begin: bytes, wait_ms: int, reason: str) -> None:
    raw = Raw(rig, "192.0.2.9")
    raw.say_bytes(begin)
    rig.pass_time(wait_ms - 1)
    assert not raw.closed
    rig.pass_time(1)
    assert raw.closed
    assert rig.ncp.figures.refused == {reason: 1}


def test_a_silent_client_that_has_logged_in_stays(walk: Walk) -> None:
    line = line_of(walk.alice)
    walk.rig.pass_time(86_400_000)
    assert not line.closed
    assert walk.alice.get_queue_job_list(walk.queue).total == 0


def test_connections_are_counted_by_address(rig: NcpRig) -> None:
    rig.ncp.limits = Connections(connections_max=10, per_address_max=1)
    first = rig.ncp.admit("192.0.2.1")
    assert first is not None
    assert rig.ncp.admit("192.0.2.1") is None
    first.leave()
    assert rig.ncp.admit("192.0.2.1") is not None
    assert rig.ncp.figures.refused == {"too many connections of one address": 1}


def test_figures_count_calls_and_codes(walk: Walk) -> None:
    walk.submitted()
    refused(0xD5, walk.oscar.read_queue_job_entry, walk.queue, 99)
    figures = walk.rig.ncp.figures
    assert figures.calls["Close File And Start Queue Job"] == 1
    assert figures.completions["0xD5"] == 1
    assert (figures.connections, figures.logged_in) == (2, 2)


# -- anything


@settings(max_examples=30)
@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=20), st.data())
def test_any_request_is_answered_and_nothing_breaks(
    requests: list[bytes], data: st.DataObject
) -> None:
    rig = NcpRig()
    rig.user("ALICE")
    queue = rig.queue(users="ALICE", operators="ALICE")
    calls = rig.logged_in("ALICE")
    line = line_of(calls)
    for rest in requests:
        key = data.draw(st.sampled_from(sorted(CALLS, key=str)))
        function, subfunction = key
        front = queue.to_bytes(4, "big") if subfunction and subfunction >= 0x64 else b""
        body = front + rest
        if subfunction is not None:
            body = ncp.write_subfunction(subfunction, body)
        assert line.raw(function, body).kind == 0x3333
    assert rig.client().get_file_server_information().name == "ALPHA"


def test_a_lost_connection_is_told_to_the_caller(rig: NcpRig) -> None:
    calls = rig.client()
    line = line_of(calls)
    assert isinstance(line, TcpLine)
    rig.run(lambda manager: None)
    service = rig.ncp.services[line.connection]
    service.end()
    rig.desk.settle()
    with pytest.raises(NcpLost):
        calls.get_file_server_information()
