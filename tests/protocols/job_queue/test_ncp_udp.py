"""NCP over UDP: bound to its peer, answered once, watched (qms-facts 1.3, 7.3)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.client.ncp.core import NcpLost
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.qms import NWQueueJobStruct
from posthouse.net.connections import Connections
from posthouse.protocols.ncp.datagrams import ENDED_KEPT
from posthouse.wire.ncp import framing as ncp
from posthouse.wire.ncp.framing import Reply, Request, read_reply, write_request
from tests.protocols.job_queue.rig import NcpRig, UdpLine
from tests.protocols.job_queue.walk import Walk, line_of


def udp(walk: Walk, name: str = "ALICE") -> UdpLine:
    line = line_of(walk.rig.logged_in(name, udp=True))
    assert isinstance(line, UdpLine)
    return line


def fresh(rig: NcpRig) -> UdpLine:
    return UdpLine(rig, "192.0.2.9")


def said(line: UdpLine, request: Request) -> list[Reply]:
    """What a datagram is answered with, at once and once it is durable."""
    before = len(line.replies)
    line.deliver(write_request(request))
    line.rig.desk.settle()
    return [read_reply(reply) for reply in line.replies[before:]]


CREATE = Request(ncp.CREATE_CONNECTION, 1, 0xFFFF, 1, 0, b"\0")


def clock(line: UdpLine, sequence: int, connection: int | None = None) -> Request:
    number = line.connection if connection is None else connection
    return Request(ncp.REQUEST, sequence, number, 1, 0x14)


@pytest.fixture
def line(rig: NcpRig) -> UdpLine:
    """A client that has its connection."""
    made = fresh(rig)
    made.open()
    return made


# -- one message a datagram


@pytest.mark.spec("NCP UDP/1")
def test_a_datagram_is_one_bare_message(rig: NcpRig) -> None:
    line = fresh(rig)
    line.open()
    assert line.replies == [bytes.fromhex("3333 01 01 01 00 00 00")]


@pytest.mark.spec("NCP UDP/1")
def test_what_is_no_message_is_dropped_and_counted(rig: NcpRig, line: UdpLine) -> None:
    for datagram in (b"", b"\x22", b"DmdT" + bytes(30), b"\x77\x77" + bytes(9), b"\x3e\x3e"):
        line.deliver(datagram)
    rig.desk.settle()
    assert len(line.replies) == 1
    assert rig.ncp.figures.refused == {"malformed": 5}
    assert said(line, clock(line, 1))[0].completion == 0


def test_a_walk_through_a_job_works_over_udp(walk: Walk) -> None:
    alice = walk.rig.logged_in("ALICE", udp=True)
    server = walk.rig.logged_in("SERVER", 5, udp=True)
    server.attach_queue_server_to_queue(walk.queue)
    job = alice.create_queue_file(walk.queue, NWQueueJobStruct())
    data = bytes(range(256)) * 20
    alice.write_file(job.job_file_handle, 0, data)
    alice.close_file_and_start_queue_job(walk.queue, job.job_number)
    taken = server.service_queue_job(walk.queue)
    assert server.read_file(taken.job_file_handle, 0, 1 << 20) == data
    server.finish_servicing_queue_job(walk.queue, taken.job_number)
    assert walk.numbers == ()
    alice.close()
    server.close()


# -- repeats


@pytest.mark.spec("NCP UDP/2")
def test_a_repeated_request_gets_the_kept_reply_and_is_not_run_again(walk: Walk) -> None:
    line = udp(walk)
    data = bytes.fromhex("011d 79") + walk.queue.to_bytes(4, "big") + bytes(280)
    create = Request(ncp.REQUEST, line.core._sequence + 1, line.connection, 1, 0x17, data)
    (first,) = said(line, create)
    assert first.completion == 0
    assert said(line, create) == [first]
    assert said(line, create) == [first]
    assert walk.oscar.get_queue_job_list(walk.queue).total == 1
    assert walk.rig.ncp.figures.repeated == 2


@pytest.mark.spec("NCP UDP/3")
def test_a_repeat_of_a_running_request_is_answered_with_0x9999(rig: NcpRig, line: UdpLine) -> None:
    request = write_request(clock(line, 1))
    line.deliver(request)
    line.deliver(request)  # nothing is synced yet
    assert line.replies[1:] == [bytes.fromhex("9999 01 01 01 00 00 00")]
    rig.desk.settle()
    assert [read_reply(reply).kind for reply in line.replies[1:]] == [0x9999, 0x3333]
    assert rig.ncp.figures.working == 1


@pytest.mark.spec("NCP UDP/2")
def test_an_old_request_that_comes_late_is_not_run_again(rig: NcpRig, line: UdpLine) -> None:
    for sequence in (1, 2, 3):
        said(line, clock(line, sequence))
    assert said(line, clock(line, 2)) == []
    assert rig.ncp.figures.refused == {"out of sequence": 1}
    assert said(line, clock(line, 4))[0].completion == 0


@pytest.mark.spec("NCP UDP/2")
def test_sequence_numbers_wrap(line: UdpLine) -> None:
    for sequence in (*range(1, 256), 0, 1):
        (reply,) = said(line, clock(line, sequence))
        assert (reply.sequence, reply.completion) == (sequence, 0)


def test_the_next_request_waits_for_the_one_that_runs(rig: NcpRig, line: UdpLine) -> None:
    line.deliver(write_request(clock(line, 1)))
    line.deliver(write_request(clock(line, 2)))
    rig.desk.settle()
    assert [read_reply(reply).sequence for reply in line.replies[1:]] == [1]
    assert said(line, clock(line, 2))[0].completion == 0


@pytest.mark.spec("NCP UDP/2")
def test_a_repeated_0x1111_gets_the_same_connection(rig: NcpRig) -> None:
    line = fresh(rig)
    (first,) = said(line, CREATE)
    assert said(line, CREATE) == [first]
    assert len(rig.ncp.services) == 1


def test_somebody_new_at_the_same_port_inherits_nothing(walk: Walk) -> None:
    line = udp(walk)
    (reply,) = said(line, CREATE)
    assert reply.completion == 0
    station = walk.rig.manager.stations.find(reply.connection)
    assert station is not None
    assert not station.object_id


@pytest.mark.spec("NCP UDP/2", "NCP session/7")
def test_0x5555_is_answered_again_when_its_answer_was_lost(rig: NcpRig, line: UdpLine) -> None:
    destroy = Request(ncp.DESTROY_CONNECTION, 1, line.connection, 1)
    (first,) = said(line, destroy)
    assert first.completion == 0
    assert rig.manager.stations.find(line.connection) is None
    assert said(line, destroy) == [first]
    (late,) = said(line, clock(line, 2))
    assert late.status == 0x01


# -- whose connection


@pytest.mark.spec("NCP UDP/4", "NCP framing/8")
def test_a_connection_is_honoured_only_from_its_address_and_port(walk: Walk) -> None:
    line = udp(walk)
    other_port, other_host = UdpLine(walk.rig, "192.0.2.7"), UdpLine(walk.rig, "192.0.2.8")
    for stranger in (other_port, other_host):
        (reply,) = said(stranger, clock(stranger, 9, line.connection))
        assert (reply.status, reply.completion) == (0x01, 0xFF)
    assert walk.rig.ncp.figures.refused == {"unknown connection": 2}


@pytest.mark.spec("NCP UDP/4")
def test_connections_of_tcp_are_none_on_udp(walk: Walk) -> None:
    number = line_of(walk.alice).connection
    stranger = UdpLine(walk.rig, "192.0.2.7")
    (reply,) = said(stranger, clock(stranger, 1, number))
    assert reply.status == 0x01


def test_addresses_have_limits(rig: NcpRig) -> None:
    rig.ncp.limits = Connections(10, 1)
    first, second = fresh(rig), fresh(rig)
    first.open()
    assert said(second, CREATE) == []
    said(first, Request(ncp.DESTROY_CONNECTION, 1, first.connection, 1))
    second.open()


def test_a_connection_that_is_refused_leaves_nothing() -> None:
    rig = NcpRig(qms=QmsSettings(stations_max=0))
    line = fresh(rig)
    (reply,) = said(line, CREATE)
    assert reply.completion == 0xD9
    assert rig.ncp.limits.count == 0
    assert not rig.ncp.services


# -- the watchdog


@pytest.mark.spec("NCP lost connections/4")
def test_a_silent_client_is_asked_and_stays_while_it_answers(walk: Walk) -> None:
    line = udp(walk)
    rig, settings_ = walk.rig, walk.rig.ncp_settings
    before = len(line.replies)
    rig.pass_time(settings_.watchdog_delay_ms - 1)
    assert len(line.replies) == before
    rig.pass_time(1)
    assert line.replies[before:] == [ncp.write_watchdog(line.connection)]
    line.push()  # its answer
    rig.pass_time(settings_.watchdog_interval_ms)
    assert len(line.replies) == before + 1
    assert rig.manager.stations.find(line.connection) is not None


@pytest.mark.spec("NCP lost connections/4", "NCP lost connections/1")
def test_a_client_that_answers_no_watchdog_is_lost(walk: Walk) -> None:
    alice = walk.rig.logged_in("ALICE", udp=True)
    line = line_of(alice)
    alice.create_queue_file(walk.queue, NWQueueJobStruct())
    kept = alice.create_queue_file(walk.queue, NWQueueJobStruct(job_control_flags=0x08))
    rig, settings_ = walk.rig, walk.rig.ncp_settings
    rig.pass_time(settings_.watchdog_delay_ms)
    for _ in range(settings_.watchdog_count - 1):
        rig.pass_time(settings_.watchdog_interval_ms)
    assert rig.manager.stations.find(line.connection) is not None
    rig.pass_time(settings_.watchdog_interval_ms)
    assert rig.ncp.figures.polled == settings_.watchdog_count
    assert rig.manager.stations.find(line.connection) is None
    assert walk.numbers == (kept.job_number,)
    assert rig.ncp.figures.refused == {"silent": 1}


@pytest.mark.spec("NCP lost connections/4")
def test_who_has_not_logged_in_is_lost_unasked(rig: NcpRig) -> None:
    line = fresh(rig)
    line.open()
    rig.pass_time(299_999)
    assert rig.ncp.services
    rig.pass_time(1)
    assert not rig.ncp.services
    assert rig.ncp.figures.polled == 0
    assert rig.ncp.limits.count == 0


@pytest.mark.spec("NCP lost connections/4")
def test_the_watchdog_has_the_times_of_netware(walk: Walk) -> None:
    """First after 4 min 56.6 s, then every 59.3 s, ten times; the last is given its time, too."""
    line, rig = udp(walk), walk.rig
    before, asked = len(line.replies), list[int]()
    began = rig.clock.now_ms
    while rig.manager.stations.find(line.connection) is not None:
        deadline = rig.ncp.timers.next_deadline_ms()
        assert deadline is not None
        rig.pass_time(deadline - rig.clock.now_ms)
        line.core.take_outgoing()
        if len(line.replies) > before + len(asked):
            asked.append(rig.clock.now_ms - began)
    assert asked == [296_600 + 59_300 * n for n in range(10)]
    assert rig.clock.now_ms - began == 296_600 + 59_300 * 10


def test_a_watchdog_that_is_answered_begins_anew(walk: Walk) -> None:
    line, rig, settings_ = udp(walk), walk.rig, walk.rig.ncp_settings
    rig.pass_time(settings_.watchdog_delay_ms)
    for _ in range(settings_.watchdog_count - 1):
        line.core.take_outgoing()  # lost
        rig.pass_time(settings_.watchdog_interval_ms)
    line.push()  # the last answer that counts
    asked = rig.ncp.figures.polled
    rig.pass_time(settings_.watchdog_delay_ms - 1)
    assert rig.ncp.figures.polled == asked
    rig.pass_time(1)
    assert rig.ncp.figures.polled == asked + 1


def test_requests_wind_the_watchdog_up_too(walk: Walk) -> None:
    line, rig = udp(walk), walk.rig
    rig.pass_time(200_000)
    said(line, clock(line, line.core._sequence + 1))
    rig.pass_time(296_599)
    assert rig.ncp.figures.polled == 0
    rig.pass_time(1)
    assert rig.ncp.figures.polled == 1


def test_answers_to_the_watchdog_count_only_as_answers_of_that_connection(walk: Walk) -> None:
    line, rig, settings_ = udp(walk), walk.rig, walk.rig.ncp_settings
    rig.pass_time(settings_.watchdog_delay_ms)
    line.core.take_outgoing()
    line.deliver(ncp.write_watchdog(line.connection + 1, ncp.ALIVE))
    line.deliver(ncp.write_watchdog(line.connection))  # our own question
    rig.pass_time(settings_.watchdog_interval_ms)
    assert rig.ncp.figures.polled == 2


def test_a_connection_that_has_ended_has_no_clock(rig: NcpRig, line: UdpLine) -> None:
    assert rig.ncp.timers.next_deadline_ms() is not None
    said(line, Request(ncp.DESTROY_CONNECTION, 1, line.connection, 1))
    assert rig.ncp.timers.next_deadline_ms() is None
    assert rig.ncp.limits.count == 0
    rig.pass_time(86_400_000)
    assert rig.ncp.figures.refused == {}


def test_an_end_that_is_not_durable_yet_is_no_silence(rig: NcpRig, line: UdpLine) -> None:
    """However long the disk takes, the client gets its answer."""
    line.deliver(write_request(Request(ncp.DESTROY_CONNECTION, 1, line.connection, 1)))
    rig.clock.advance(rig.ncp_settings.login_ms)
    rig.ncp.tick()
    rig.desk.settle()
    assert [read_reply(reply).completion for reply in line.replies[1:]] == [0]
    assert rig.ncp.figures.refused == {}


def test_what_is_told_at_the_end_is_kept_for_so_many(rig: NcpRig) -> None:
    """The oldest is forgotten; who asks for it again is told that there is no such connection."""
    rig.ncp.limits = Connections(ENDED_KEPT + 2, ENDED_KEPT + 2)
    ends = list[tuple[UdpLine, Request]]()
    for _ in range(ENDED_KEPT + 1):
        line = fresh(rig)
        line.open()
        destroy = Request(ncp.DESTROY_CONNECTION, 1, line.connection, 1)
        assert said(line, destroy)[0].completion == 0
        ends.append((line, destroy))
    oldest, next_one = ends[0], ends[1]
    assert said(*oldest)[0].status == 0x01
    assert said(*next_one)[0].status == 0


def test_another_request_on_an_ended_connection_is_no_repeat(rig: NcpRig, line: UdpLine) -> None:
    said(line, Request(ncp.DESTROY_CONNECTION, 1, line.connection, 1))
    (reply,) = said(line, Request(ncp.DESTROY_CONNECTION, 2, line.connection, 1))
    assert (reply.status, reply.completion) == (0x01, 0xFF)
    assert rig.ncp.figures.refused == {"unknown connection": 1}
    assert rig.ncp.figures.repeated == 0


@pytest.mark.parametrize(("ahead", "run"), [(1, True), (127, True), (128, False), (255, False)])
def test_half_of_the_sequence_numbers_are_behind(line: UdpLine, ahead: int, run: bool) -> None:
    said(line, clock(line, 200))
    assert bool(said(line, clock(line, (200 + ahead) & 0xFF))) is run


def test_an_answer_to_a_client_that_is_gone_goes_to_nobody(rig: NcpRig, line: UdpLine) -> None:
    """It was dropped while its request ran, and somebody else has its port."""
    line.deliver(write_request(clock(line, 9)))
    line.deliver(write_request(CREATE))
    rig.desk.settle()
    told = [read_reply(reply) for reply in line.replies[1:]]
    assert [(reply.sequence, reply.completion) for reply in told] == [(1, 0)]
    assert len(rig.ncp.services) == 1
    assert rig.ncp.limits.count == 1


def test_a_stop_drops_everybody(walk: Walk) -> None:
    alice = walk.rig.logged_in("ALICE", udp=True)
    line = line_of(alice)
    assert isinstance(line, UdpLine)
    alice.create_queue_file(walk.queue, NWQueueJobStruct())
    assert not line.server.is_answering
    line.deliver(write_request(clock(line, line.core._sequence + 1)))
    assert line.server.is_answering
    line.server.stop()
    walk.rig.desk.settle()
    assert not line.server.is_answering
    assert walk.rig.manager.stations.find(line.connection) is None
    assert walk.numbers == ()


def test_strangers_do_not_answer_for_a_client(walk: Walk) -> None:
    line, stranger = udp(walk), UdpLine(walk.rig, "192.0.2.8")
    walk.rig.pass_time(walk.rig.ncp_settings.watchdog_delay_ms)
    stranger.deliver(ncp.write_watchdog(line.connection, ncp.ALIVE))
    line.core.take_outgoing()  # the client's own answer is lost
    for _ in range(walk.rig.ncp_settings.watchdog_count):
        walk.rig.pass_time(walk.rig.ncp_settings.watchdog_interval_ms)
        line.core.take_outgoing()
    assert walk.rig.manager.stations.find(line.connection) is None


# -- a client that sends again


def test_requests_are_sent_again_until_they_are_answered(walk: Walk) -> None:
    line = udp(walk)
    lost: list[bytes] = []
    line.drop = lambda datagram: len(lost) < 3 and not lost.append(datagram)
    line.core.ask(0x14, b"", walk.rig.clock.now_ms)
    for _ in range(3):
        line.push()
        walk.rig.pass_time(3000)
        line.core.tick(walk.rig.clock.now_ms)
    assert line.answer().completion == 0
    assert line.core.repeated == 3
    assert walk.rig.ncp.figures.repeated == 3


def test_a_server_that_never_answers_is_given_up(walk: Walk) -> None:
    line = udp(walk)
    line.drop = lambda datagram: True
    line.core.ask(0x14, b"", walk.rig.clock.now_ms)
    for _ in range(20):
        line.push()
        walk.rig.desk.settle()
        walk.rig.clock.advance(3000)
        line.core.tick(walk.rig.clock.now_ms)
    walk.rig.clock.advance(3000)
    with pytest.raises(NcpLost):
        line.core.tick(walk.rig.clock.now_ms)
    assert line.core.repeated == 20


def test_still_working_gives_a_server_more_time(walk: Walk) -> None:
    line = udp(walk)
    line.core.ask(0x14, b"", walk.rig.clock.now_ms)
    for _ in range(30):
        line.push()  # nothing is settled: the request runs
        walk.rig.clock.advance(3000)
        line.core.tick(walk.rig.clock.now_ms)
    assert line.answer().completion == 0


@pytest.mark.spec("NCP UDP/2", "NCP UDP/3")
@settings(max_examples=25)
@given(st.integers(0, 1 << 32))
def test_jobs_are_created_once_whatever_the_network_does(seed: int) -> None:
    chance = random.Random(seed)
    rig = NcpRig()
    rig.user("ALICE")
    queue = rig.queue(users="ALICE")
    alice = rig.logged_in("ALICE", udp=True)
    line = line_of(alice)
    assert isinstance(line, UdpLine)
    line.drop = lambda datagram: chance.random() < 0.4
    body = bytes.fromhex("011d 79") + queue.to_bytes(4, "big") + bytes(280)
    late: list[bytes] = []
    for _ in range(3):
        line.core.ask(0x17, body, rig.clock.now_ms)
        while line.core.reply is None:
            for datagram in line.core.take_outgoing():
                late.append(datagram)
                for _ in range(chance.choice((0, 1, 1, 2))):
                    line.deliver(datagram)
            if chance.random() < 0.2:
                line.deliver(chance.choice(late))
            if chance.random() < 0.6:
                rig.desk.settle()
            rig.clock.advance(3000)
            line.core.tick(rig.clock.now_ms)
        assert line.core.reply.completion == 0
    for datagram in late:
        line.deliver(datagram)
    rig.desk.settle()
    line.drop = lambda datagram: False
    assert alice.get_queue_job_list(queue).total == 3
