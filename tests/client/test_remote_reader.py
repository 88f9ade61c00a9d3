"""Reading from another computer: the rules of [MS-MQRR] 3.2, against a peer that takes notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse.client.errors import ServerUnreachable, SessionLost
from posthouse.client.remote import connect as remote_connecting
from posthouse.client.remote.reader import QueueReader
from posthouse.client.remote.state import RECEIVE_ACCESS, Outage, Want
from posthouse.client.rpc_link import LinkLost
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import (
    AccessDenied,
    BufferOverflow,
    IoTimeout,
    MessageNotFound,
    OperationCancelled,
    OperationNotSupportedByRemoteComputer,
    QueueError,
    QueueNotFound,
    RemoteProtocolError,
    TransactionSequence,
    TransactionUsage,
    UnsupportedOperation,
)
from posthouse.model.guids import format_guid
from posthouse.model.names import parse_format_name
from posthouse.protocols.queue_format import QueueFormat
from posthouse.protocols.remote_read.stubs import Ack, Opnum, Received, Section, ServerPort
from posthouse.rpc import statuses
from posthouse.rpc.kerberos import KerberosMissing
from posthouse.rpc.statuses import Fault
from tests.client.neighbours import QUICK
from tests.client.read_peer import Break, Peer, packet, reading, with_trailers
from tests.client.reading_house import ReadingHouse
from tests.client.serving import serving
from tests.engine.settings import engine_settings
from tests.support.result_thread import Thread

NAME = r"DIRECT=TCP:127.0.0.1\private$\orders"
UOW = bytes(range(16))
START, CANCEL, END = Opnum.START_RECEIVE, Opnum.CANCEL_RECEIVE, Opnum.END_RECEIVE


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer(b"one!", b"two!") as peer:
        yield peer


@pytest.fixture
def empty() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.fixture
def here(home: Path) -> Iterator[ReadingHouse]:
    """A queue manager that decides transactions."""
    server = ReadingHouse(home, None, QUICK, 0, EngineSettings("ALPHA"))
    yield server
    server.stop()


def receiving(manager: posthouse.RemoteQueueManager) -> QueueReader:
    """The queue as opened for receiving, below the names that users see."""
    return manager._reading.reader.queue(NAME, parse_format_name(NAME), RECEIVE_ACCESS, 0)


def broken(request: Any, call: Any) -> None:
    raise Break


# -- connecting and opening


@pytest.mark.spec("MS-MQRR 3.2.3/1", "MS-MQRR 3.1.4/5")
def test_the_connection_is_there_before_the_first_method(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        assert peer.connections == 0
        queue.peek(0)
        assert peer.connections == 1
    assert 1 not in peer.opnums


@pytest.mark.spec(
    "MS-MQRR 3.2.4.1/1",
    "MS-MQRR 3.2.4.1/3",
    "MS-MQRR 3.1.4.2/9",
    "MS-MQRR 3.1.4.2/14",
)
def test_a_queue_is_opened_by_name_access_and_share_mode(peer: Peer) -> None:
    with reading(peer) as (manager, queue):
        queue.peek(0)
        queue.receive(0)
        manager.queue(r"private$\orders", exclusive=True).receive(0)
    opened = peer.asked(Opnum.OPEN_QUEUE)
    assert [(one.access, one.share_mode) for one in opened] == [(0x20, 0), (1, 0), (1, 1)]
    assert {one.queue_format for one in opened} == {
        QueueFormat(3, 0, r"TCP:127.0.0.1\private$\orders")
    }
    assert len({one.client_id for one in opened}) == 1
    assert opened[0].client_id != bytes(16)
    assert {one[4:] for one in opened} == {(1, 6, 1, 0, 1)}


def open_both(manager: posthouse.RemoteQueueManager, queue: posthouse.RemoteQueue) -> None:
    """R_OpenQueue and R_OpenQueueForMove."""
    queue.move(queue.peek(0), manager.queue(r"private$\orders;poison"))


def identities(peer: Peer) -> set[tuple[str, int, int]]:
    """GUID, fNonRoutingServer and fWorkgroup of all opens; both methods were called."""
    opened = [peer.asked(one) for one in (Opnum.OPEN_QUEUE, Opnum.OPEN_QUEUE_FOR_MOVE)]
    assert all(opened)
    return {
        (format_guid(one.client_id), one.non_routing_server, one.workgroup)
        for one in chain(*opened)
    }


IDENTITY_RULES = pytest.mark.spec(
    "MS-MQRR 3.1.4.2/9", "MS-MQRR 3.1.4.2/12", "MS-MQRR 3.1.4.2/15", "MS-MQRR 3.1.4.11/5"
)


@IDENTITY_RULES
@pytest.mark.parametrize("routing_server", [False, True])
@pytest.mark.parametrize("source", ["", "file /srv/directory.toml"])
def test_a_reader_for_a_server_sends_the_identity_of_its_queue_manager(
    peer: Peer, home: Path, routing_server: bool, source: str
) -> None:
    engine = engine_settings(
        "ALPHA", routing_server=routing_server, directory_file=source.removeprefix("file ")
    )
    with (
        serving(home, engine=engine) as server,
        posthouse.connect(server.home) as near,
        reading(peer, via=near) as (manager, queue),
    ):
        open_both(manager, queue)
        assert identities(peer) == {(near.guid, int(not routing_server), int(not source))}


@IDENTITY_RULES
@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", (1, 1)),
        ("[queue_manager]\nrouting_server = true\n", (0, 1)),
        ('[directory]\nfile = "directory.toml"\n', (1, 0)),
        ("[directory]\nintegrated = false\n", (1, 1)),
    ],
)
def test_a_reader_for_a_home_sends_the_identity_of_its_queue_manager(
    peer: Peer, tmp_path: Path, text: str, flags: tuple[int, int]
) -> None:
    home = tmp_path / "near"
    with posthouse.open(home) as near:
        guid = near.guid
    (home / "posthouse.toml").write_text(text)
    with reading(peer, home=home) as (manager, queue):
        open_both(manager, queue)
        assert identities(peer) == {(guid, *flags)}


@IDENTITY_RULES
def test_a_program_that_reads_for_itself_is_in_a_workgroup_and_has_a_guid_of_its_own(
    peer: Peer,
) -> None:
    with reading(peer) as (manager, queue):
        open_both(manager, queue)
    with reading(peer) as (_, queue):
        queue.peek(0)
    found = identities(peer)
    assert {one[1:] for one in found} == {(1, 1)}
    assert len({one[0] for one in found} - {format_guid(bytes(16))}) == 2


def test_the_identity_is_asked_for_once(peer: Peer, home: Path) -> None:
    """Reading goes on while the queue manager that it is for is away."""
    with ExitStack() as stack:
        with serving(home) as server:
            near = stack.enter_context(posthouse.connect(server.home, reconnect=0))
            _, queue = stack.enter_context(reading(peer, via=near))
            queue.peek(0)
        assert queue.receive(0).body == b"one!"
    assert len(peer.asked(Opnum.OPEN_QUEUE)) == 2


@pytest.mark.spec("MS-MQRR 3.2.4.1/3")
def test_the_handle_is_remembered(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        queue.receive(0)
        queue.receive(0)
    assert peer.opnums.count(Opnum.OPEN_QUEUE) == 1
    assert len({one.handle for one in peer.asked(START)}) == 1


@pytest.mark.spec("MS-MQRR 2.1/2", "RPC/29")
def test_the_endpoint_mapper_says_where(peer: Peer) -> None:
    with reading(peer, rpc_port=None, epm_port=peer.port) as (_, queue):
        assert queue.receive(0).body == b"one!"


@pytest.mark.spec("MS-MQRR 3.2.4.1/4")
def test_a_mapper_that_knows_no_remote_read_is_told_of(peer: Peer) -> None:
    peer.entries.clear()
    with (
        reading(peer, rpc_port=None, epm_port=peer.port) as (_, queue),
        pytest.raises(OperationNotSupportedByRemoteComputer, match="not list remote read") as told,
    ):
        queue.receive(0)
    assert "MS-MQQP" in told.value.remedy


def test_a_server_without_the_interface_is_told_of() -> None:
    with (
        Peer(interfaces=False) as peer,
        reading(peer) as (_, queue),
        pytest.raises(OperationNotSupportedByRemoteComputer, match="interface of remote read"),
    ):
        queue.peek(0)


@pytest.mark.spec("MS-MQRR 3.2.4.1/2", "MS-MQRR 3.1.4.1/5")
def test_without_a_mapper_the_usual_port_says_where(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer() as first:
        first.instead[Opnum.GET_SERVER_PORT] = lambda request, call: ServerPort(peer.port)
        monkeypatch.setattr(remote_connecting, "RPC_PORT", first.port)
        with reading(peer, rpc_port=None, epm_port=1) as (_, queue):
            assert queue.receive(0).body == b"one!"
        assert first.opnums == [Opnum.GET_SERVER_PORT]


@pytest.mark.spec("MS-MQRR 3.1.4.1/5")
def test_a_usual_port_that_names_itself_is_used_on(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_connecting, "RPC_PORT", peer.port)
    with reading(peer, rpc_port=None, epm_port=1) as (_, queue):
        assert queue.receive(0).body == b"one!"
    assert peer.connections == 1


def failing(status: int) -> Callable[[Any, Any], None]:
    """A method that throws."""

    def throw(request: Any, call: Any) -> None:
        raise Fault(status)

    return throw


def test_a_usual_port_that_says_nothing_useful_is_told_of(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_connecting, "RPC_PORT", peer.port)
    with reading(peer, rpc_port=None, epm_port=1, timeout=0.5) as (_, queue):
        peer.instead[Opnum.GET_SERVER_PORT] = failing(statuses.ACCESS_DENIED)
        with pytest.raises(AccessDenied):
            queue.peek(0)
        peer.instead[Opnum.GET_SERVER_PORT] = lambda request, call: call.answer(b"x")
        with pytest.raises(OperationNotSupportedByRemoteComputer, match="does not understand"):
            queue.peek(0)
        peer.instead[Opnum.GET_SERVER_PORT] = lambda request, call: None
        with pytest.raises(ServerUnreachable, match="did not answer in time"):
            queue.peek(0)
        peer.instead[Opnum.GET_SERVER_PORT] = lambda request, call: ServerPort(0)
        assert queue.peek(0).body == b"one!"


def test_a_login_that_cannot_be_made_here_is_told(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise KerberosMissing("the extra extra kerberos is not installed")

    monkeypatch.setattr(remote_connecting, "initiator", missing)
    with (
        reading(peer, mechanism="kerberos") as (_, queue),
        pytest.raises(UnsupportedOperation, match=r"extra kerberos"),
    ):
        queue.peek(0)


def test_nobody_there_is_told_with_a_remedy() -> None:
    with (
        posthouse.msmq("127.0.0.1", rpc_port=1, timeout=5) as manager,
        pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:1: Connection refused.*--rpc-port"),
    ):
        manager.queue("x").receive(0)


@pytest.mark.spec("MS-MQRR 3.1.4.2/20", "MS-MQRR 3.1.4.11/12")
@pytest.mark.parametrize("status", [0xC00E0003, 0xC00E0025, 0xC00E0009, 0xC00E0123])
@pytest.mark.parametrize("opnum", [Opnum.OPEN_QUEUE, Opnum.OPEN_QUEUE_FOR_MOVE])
def test_an_open_that_throws_is_that_error(peer: Peer, status: int, opnum: Opnum) -> None:
    peer.instead[opnum] = failing(status)
    with reading(peer) as (manager, queue), pytest.raises(QueueError) as refused:
        queue.move(100, manager.queue(r"private$\orders;poison"))
    assert refused.value.code == status
    assert Opnum.MOVE_MESSAGE not in peer.opnums


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (0xC00E0003, QueueNotFound),
        (0xC0000022, AccessDenied),
        (statuses.ACCESS_DENIED, AccessDenied),
        (statuses.OPNUM_OUT_OF_RANGE, OperationNotSupportedByRemoteComputer),
        (statuses.CANCELLED, OperationCancelled),
        (statuses.BAD_STUB_DATA, OperationNotSupportedByRemoteComputer),
    ],
)
def test_faults_have_their_errors(peer: Peer, status: int, kind: type[QueueError]) -> None:
    peer.instead[Opnum.PURGE_QUEUE] = failing(status)
    with reading(peer) as (_, queue), pytest.raises(kind):
        queue.purge()


# -- peeking


@pytest.mark.spec("MS-MQRR 3.2.4.3/1", "MS-MQRR 3.2.4.3/3")
def test_a_peek_has_no_cursor_and_no_end(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        message = queue.peek(2.5, body_max=77)
        assert (message.body, message.lookup_id) == (b"one!", 100)
        assert queue.lookup(101).body == b"two!"
        with pytest.raises(MessageNotFound):
            queue.lookup(7, "next")
    first, second, third = peer.asked(START)
    assert first[1:5] == (0, 0, 0x80000000, 2500)
    assert first[6:] == (77, 77)
    assert second[1:5] == (101, 0, 0x40000010, 0)
    assert third[1:5] == (7, 0, 0x40000011, 0)
    assert END not in peer.opnums
    assert peer.bodies == [b"one!", b"two!"]


@pytest.mark.spec("MS-MQRR 3.2.4.3/2", "MS-MQRR 3.1.4.7/31")
def test_reads_that_wait_have_numbers_of_their_own(empty: Peer) -> None:
    with reading(empty) as (_, queue):
        threads = [Thread(lambda: queue.peek(20)) for _ in range(3)]
        threads += [Thread(lambda: queue.receive(20)) for _ in range(3)]
        empty.await_waiting(6)
        numbers = {one.request_id for one in empty.asked(START)}
        assert len(numbers) == 6
        for _ in range(9):
            empty.put(packet(b"here"))
        for thread in threads:
            assert thread.result().body == b"here"


@pytest.mark.spec("MS-MQRR 3.1.4.7/49")
def test_a_failed_start_gives_its_error_and_nothing_else(peer: Peer) -> None:
    data = packet(b"not for you")
    answer = Received(1, 2, (Section(0, len(data), data),), 0xC00E001D)
    peer.instead[START] = lambda request, call: answer
    with reading(peer) as (_, queue), pytest.raises(QueueError) as refused:
        queue.receive(0)
    assert refused.value.code == 0xC00E001D
    assert END not in peer.opnums


# -- receiving without a transaction


@pytest.mark.spec(
    "MS-MQRR 3.2.4.4/1",
    "MS-MQRR 3.2.4.4.1/1",
    "MS-MQRR 3.2.4.4.1/2",
    "MS-MQRR 3.2.4.4.1/3",
    "MS-MQRR 3.1.4.7/2",
    "MS-MQRR 3.1.4.9/1",
)
def test_a_receive_is_a_start_and_an_end_with_the_same_number(peer: Peer) -> None:
    with reading(peer) as (manager, queue):
        message = queue.receive(3, body_max=50)
        assert (message.body, message.in_doubt) == (b"one!", False)
        assert manager.in_doubt == 0
    (start,), (end,) = peer.asked(START), peer.asked(END)
    assert start[1:5] == (0, 0, 0, 3000)
    assert end == (start.handle, Ack.ACK, start.request_id)
    assert peer.bodies == [b"two!"]


def test_a_message_is_received_by_its_lookup_identifier(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        assert queue.lookup(101, receive=True).body == b"two!"
    (start,), (end,) = peer.asked(START), peer.asked(END)
    assert start[1:5] == (101, 0, 0x40000020, 0)
    assert (end.ack, end.request_id) == (Ack.ACK, start.request_id)


BROKEN = {
    "no packet": Received(1, 100, (Section(0, 4, b"none"),), 0),
    "no section": Received(1, 100, (), 0),
    "a second section alone": Received(1, 100, (Section(2, 4, b"none"),), 0),
    "sections of two kinds": Received(1, 100, (Section(1, 9, b"x"), Section(4, 1, b"y")), 0),
    "a front longer than it says": Received(1, 100, (Section(1, 1, b"long"),), 0),
    "trailers that are too short": Received(
        1, 100, (Section(0, 0, with_trailers(packet(b"x"))[:-8]),), 0
    ),
}


@pytest.mark.spec("MS-MQRR 3.2.4.4.1/1", "MS-MQRR 3.2.4.4.1/2")
@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_a_message_that_cannot_be_rebuilt_is_refused(peer: Peer, answer: Received) -> None:
    peer.instead[START] = lambda request, call: answer
    with reading(peer) as (_, queue), pytest.raises(RemoteProtocolError):
        queue.receive(0)
    (start,), (end,) = peer.asked(START), peer.asked(END)
    assert end == (start.handle, Ack.NACK, start.request_id)


def test_an_answer_that_is_no_stub_is_refused_too(peer: Peer) -> None:
    def nonsense(request: Any, call: Any) -> None:
        call.answer(b"nonsense")

    peer.instead[START] = nonsense
    with reading(peer) as (_, queue), pytest.raises(RemoteProtocolError):
        queue.receive(0)
    assert [end.ack for end in peer.asked(END)] == [Ack.NACK]


def test_a_body_above_the_limit_stays_in_the_queue(peer: Peer) -> None:
    data = packet(b"a long body.")
    at = data.index(b"a long")
    sections = (
        Section(1, at + 12, data[: at + 6]),
        Section(2, len(data) - at - 12, data[at + 12 :]),
    )
    peer.instead[START] = lambda request, call: Received(1, 100, sections, 0)
    with reading(peer) as (_, queue):
        seen = queue.peek(0, body_max=6)
        assert (seen.body, seen.body_size) == (b"a long", 12)
        with pytest.raises(BufferOverflow, match="12 bytes, and 6"):
            queue.receive(0, body_max=6)
    assert [end.ack for end in peer.asked(END)] == [Ack.NACK]


@pytest.mark.spec("MS-MQRR 3.2.4.4.1/4")
@pytest.mark.parametrize("result", [0xC00E0006, 0xC00E0007, 0xC00E0088])
def test_a_message_whose_end_fails_is_in_doubt(peer: Peer, result: int) -> None:
    peer.instead[END] = lambda request, call: result
    with reading(peer) as (manager, queue):
        message = queue.receive(0)
        assert (message.body, message.in_doubt, manager.in_doubt) == (b"one!", True, 1)


@pytest.mark.spec("MS-MQRR 3.2.4.4.1/4")
@pytest.mark.parametrize("done", [True, False], ids=["it was ended", "it was not"])
def test_a_message_whose_end_has_no_answer_is_in_doubt(peer: Peer, done: bool) -> None:
    def lose(request: Any, call: Any) -> None:
        peer.instead.pop(END)
        if done:
            peer._end_receive(request, call)
        raise Break

    peer.instead[END] = lose
    with reading(peer) as (manager, queue):
        message = queue.receive(0)
        assert (message.body, message.in_doubt, manager.in_doubt) == (b"one!", True, 1)
        assert queue.peek(0).in_doubt is not done
        again = queue.receive(0)
        assert again.body == (b"two!" if done else b"one!")
        assert again.in_doubt is not done
        assert manager.in_doubt == 1


def test_a_connection_that_breaks_before_the_end_costs_nothing(peer: Peer) -> None:
    """The message is back in its queue, and is asked for again."""

    def lose(request: Any, call: Any) -> None:
        if len(peer.asked(START)) == 1:
            raise Break

    peer.before[START] = lose
    with reading(peer) as (manager, queue):
        message = queue.receive(5)
        assert (message.body, message.in_doubt, manager.in_doubt) == (
            b"one!",
            False,
            0,
        )
    assert peer.connections == 2
    assert len(peer.asked(START)) == 2


def test_a_message_that_the_broken_connection_still_holds_is_not_said_to_be_gone(
    peer: Peer,
) -> None:
    def lose(request: Any, call: Any) -> Any:
        if len(peer.asked(START)) == 1:
            raise Break
        return 0xC00E0088

    peer.instead[START] = lose
    with reading(peer) as (_, queue):
        with pytest.raises(SessionLost):
            queue.lookup(100, receive=True)
        with pytest.raises(MessageNotFound):
            queue.lookup(100, receive=True)


def test_a_connection_that_broke_unnoticed_is_made_anew(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        queue.peek(0)
        peer.cut()
        assert queue.receive(0).body == b"one!"
        peer.cut()
        queue.purge()
        assert peer.messages == {}
        assert peer.opnums.count(Opnum.PURGE_QUEUE) == 1


def test_what_may_not_be_asked_twice_is_not(peer: Peer) -> None:
    peer.instead[Opnum.PURGE_QUEUE] = peer.instead[Opnum.MOVE_MESSAGE] = broken
    with reading(peer) as (manager, queue):
        with pytest.raises(SessionLost):
            queue.purge()
        with pytest.raises(SessionLost):
            queue.move(100, manager.queue(r"private$\orders;poison"))
    assert peer.opnums.count(Opnum.PURGE_QUEUE) == 1
    assert peer.opnums.count(Opnum.MOVE_MESSAGE) == 1


def test_a_peer_that_breaks_every_connection_is_given_up(peer: Peer) -> None:
    peer.instead[START] = broken
    with reading(peer) as (_, queue), pytest.raises(ConnectionError):
        queue.receive(5)
    assert 2 <= peer.connections < 20


def test_outages_far_apart_do_not_add_up() -> None:
    outage = Outage(0.0)
    for _ in range(20):
        outage.go_on(LinkLost("once again"))
    with pytest.raises(ServerUnreachable):
        outage.go_on(ServerUnreachable("and now for good"))


def test_a_wait_goes_on_over_another_connection(empty: Peer) -> None:
    with reading(empty) as (_, queue):
        thread = Thread(lambda: queue.receive())
        empty.await_waiting(1)
        empty.cut()
        empty.await_calls(START, 2)
        empty.put(packet(b"late"))
        assert thread.result().body == b"late"
    first, second = empty.asked(START)
    assert (first.timeout, second.timeout) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert first.request_id != second.request_id


def test_a_peer_that_does_not_answer_is_given_up(peer: Peer, monkeypatch: Any) -> None:
    monkeypatch.setattr("posthouse.client.remote.reader.GRACE_S", 0.1)
    peer.instead[START] = lambda request, call: None
    with (
        reading(peer, timeout=0.1) as (_, queue),
        pytest.raises(ServerUnreachable, match="did not answer in time"),
    ):
        queue.receive(0)


def test_nothing_within_the_time_is_a_timeout(empty: Peer) -> None:
    with reading(empty) as (_, queue):
        for read in (queue.receive, queue.peek):
            with pytest.raises(IoTimeout, match=r"no message came to DIRECT=.*orders in time"):
                read(0)


@pytest.mark.spec("MS-MQRR 3.2.2/1")
def test_a_wait_is_left_to_the_other_computer(empty: Peer) -> None:
    with reading(empty) as (_, queue):
        thread = Thread(lambda: queue.receive())
        empty.await_waiting(1)
        empty.put(packet(b"here"))
        assert thread.result().body == b"here"
        assert empty.opnums == [Opnum.OPEN_QUEUE, START, END]
    assert empty.asked(START)[0].timeout == 0xFFFFFFFF


# -- transactions


def started(peer: Peer) -> Any:
    (start,) = peer.asked(Opnum.START_TRANSACTIONAL_RECEIVE)
    return start


@pytest.mark.spec(
    "MS-MQRR 3.2.4.2/2",
    "MS-MQRR 3.2.4.4/1",
    "MS-MQRR 3.2.4.4.2/1",
    "MS-MQRR 3.2.4.4.2/2",
    "MS-MQRR 3.1.4.13/2",
    "MS-MQRR 3.1.4.15/1",
)
def test_a_transactional_receive_has_methods_of_its_own(peer: Peer) -> None:
    with reading(peer) as (manager, _):
        queue = receiving(manager)
        queue.enlist(UOW, b"token")
        assert queue.read(Want(transaction=UOW), 1).body == b"one!"
    (enlisted,) = peer.asked(Opnum.ENLIST_REMOTE_TRANSACTION)
    assert enlisted[:2] == (UOW, b"token")
    assert enlisted.queue_format == QueueFormat(3, 0, r"TCP:127.0.0.1\private$\orders")
    assert started(peer)[1:5] == (0, 0, 0, 1000)
    assert started(peer).transaction_id == UOW
    (end,) = peer.asked(Opnum.END_TRANSACTIONAL_RECEIVE)
    assert end == (started(peer).handle, Ack.ACK, started(peer).request_id)
    assert START not in peer.opnums
    assert END not in peer.opnums


@pytest.mark.spec("MS-MQRR 3.2.4.4.2/2")
def test_a_transactional_message_that_cannot_be_rebuilt_is_refused(peer: Peer) -> None:
    peer.instead[Opnum.START_TRANSACTIONAL_RECEIVE] = lambda request, call: BROKEN["no packet"]
    with reading(peer) as (manager, _), pytest.raises(RemoteProtocolError):
        receiving(manager).read(Want(transaction=UOW), 1)
    assert [end.ack for end in peer.asked(Opnum.END_TRANSACTIONAL_RECEIVE)] == [Ack.NACK]


@pytest.mark.spec("MS-MQRR 3.2.4.4.2/3", "MS-MQRR 3.2.4.10.2/2")
@pytest.mark.parametrize("with_cursor", [False, True])
def test_a_failed_end_in_a_transaction_is_an_error(peer: Peer, with_cursor: bool) -> None:
    peer.instead[Opnum.END_TRANSACTIONAL_RECEIVE] = lambda request, call: 0xC00E0051
    with reading(peer) as (manager, _):
        queue = receiving(manager)
        opened, cursor = queue.create_cursor()
        want = Want(transaction=UOW)
        if with_cursor:
            want = want._replace(cursor=cursor, on=opened)
        with pytest.raises(TransactionSequence):
            queue.read(want, 0)
        assert manager.in_doubt == 0


@pytest.mark.spec("MS-MQRR 3.1.4.13/15")
def test_a_failed_start_in_a_transaction_is_an_error(peer: Peer) -> None:
    peer.instead[Opnum.START_TRANSACTIONAL_RECEIVE] = lambda request, call: 0xC00E0050
    with reading(peer) as (manager, _), pytest.raises(TransactionUsage):
        receiving(manager).read(Want(transaction=UOW), 0)
    assert Opnum.END_TRANSACTIONAL_RECEIVE not in peer.opnums


@pytest.mark.parametrize(
    "opnum", [Opnum.START_TRANSACTIONAL_RECEIVE, Opnum.END_TRANSACTIONAL_RECEIVE]
)
def test_a_transaction_does_not_go_on_over_another_connection(peer: Peer, opnum: Opnum) -> None:
    peer.instead[opnum] = broken
    with reading(peer) as (manager, _), pytest.raises(SessionLost):
        receiving(manager).read(Want(transaction=UOW), 0)
    assert peer.opnums.count(opnum) == 1


@pytest.mark.spec("MS-MQRR 2.2.8/2", "MS-MQRR 2.2.8/3", "MS-MQRR 3.2.4.2/1", "MS-MQRR 3.1.4.12/1")
def test_a_transaction_is_known_by_what_its_coordinator_calls_it(
    peer: Peer, here: ReadingHouse
) -> None:
    """Announced before it is used, the same throughout, and another one each time."""
    peer.instead[Opnum.MOVE_MESSAGE] = lambda request, call: 0
    seen: list[bytes] = []
    with (
        posthouse.connect(here.home) as near,
        reading(peer, via=near, peer="FAR") as (manager, queue),
    ):
        here.ask(
            lambda m: m.transactions.add_peer("FAR", b"f" * 16, "http://127.0.0.1:1", b"k" * 32)
        )
        for lookup_id in (100, 101):
            tx = near.transaction().begin()
            queue.lookup(lookup_id, receive=True, tx=tx)
            queue.move(lookup_id, manager.queue(r"private$\orders;poison"), tx=tx)
            seen.append(tx.handle.identifier)
            tx.abort()
    asked = {
        opnum: [one.transaction_id for one in peer.asked(opnum)]
        for opnum in (
            Opnum.ENLIST_REMOTE_TRANSACTION,
            Opnum.START_TRANSACTIONAL_RECEIVE,
            Opnum.MOVE_MESSAGE,
        )
    }
    assert list(asked.values()) == [seen] * 3
    assert len({*seen, bytes(16)}) == 3
    order = [opnum for opnum in peer.opnums if opnum in asked]
    assert order == [12, 13, 10, 12, 13, 10]


def test_a_transaction_needs_somebody_who_decides_it(peer: Peer, tmp_path: Any) -> None:
    with (
        posthouse.open(tmp_path / "other") as other,
        reading(peer) as (_, queue),
        other.transaction() as tx,
        pytest.raises(TransactionUsage, match="needs a local queue manager"),
    ):
        queue.receive(0, tx=tx)


# -- rejecting, moving, purging


@pytest.mark.spec("MS-MQRR 3.2.4.5/1", "MS-MQRR 3.1.4.14/1")
def test_a_rejection_names_the_message_and_the_class(peer: Peer) -> None:
    with reading(peer) as (manager, _):
        queue = receiving(manager)
        message = queue.read(Want(transaction=UOW), 0)
        queue.reject(message.lookup_id)
    (rejected,) = peer.asked(Opnum.SET_USER_ACKNOWLEDGEMENT_CLASS)
    assert rejected == (started(peer).handle, 100, 0xC004)
    order = [opnum for opnum in peer.opnums if opnum >= 13]
    assert order == [13, 15, 14]


@pytest.mark.spec(
    "MS-MQRR 3.2.4.6/1",
    "MS-MQRR 3.2.4.6/2",
    "MS-MQRR 3.1.4.10/6",
    "MS-MQRR 3.1.4.11/2",
    "MS-MQRR 3.1.4.11/3",
    "MS-MQRR 3.1.4.11/4",
)
@pytest.mark.parametrize("transaction", [None, UOW])
def test_a_move_names_source_target_and_message(peer: Peer, transaction: bytes | None) -> None:
    with reading(peer) as (manager, _):
        target = manager.queue(r"private$\orders;poison")._for(4)
        receiving(manager).move(101, target, transaction)
    (opened,) = peer.asked(Opnum.OPEN_QUEUE_FOR_MOVE)
    assert opened.queue_format.arm == r"TCP:127.0.0.1\private$\orders;poison"
    assert (opened.access, opened.share_mode, opened.non_routing_server) == (4, 0, 1)
    assert opened.client_id != bytes(16)
    (moved,) = peer.asked(Opnum.MOVE_MESSAGE)
    assert moved[1:] == (0x1234_5678_9ABC, 101, transaction or bytes(16))
    assert peer.bodies == [b"one!"]


def test_a_message_is_moved_by_itself_or_by_its_number(peer: Peer) -> None:
    with reading(peer) as (manager, queue):
        poison = manager.queue(r"private$\orders;poison")
        queue.move(queue.peek(0), poison)
        queue.move(101, poison)
        with pytest.raises(MessageNotFound):
            queue.move(101, poison)
    assert [moved.lookup_id for moved in peer.asked(Opnum.MOVE_MESSAGE)] == [100, 101, 101]
    assert peer.opnums.count(Opnum.OPEN_QUEUE_FOR_MOVE) == 1


@pytest.mark.spec("MS-MQRR 3.2.4.7/1")
def test_a_purge_names_the_open_queue(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        queue.purge()
        assert peer.asked(Opnum.PURGE_QUEUE)[0].handle in peer.handles
    assert peer.messages == {}


# -- cursors


@pytest.mark.spec("MS-MQRR 3.2.4.8/1", "MS-MQRR 3.2.4.9/1")
def test_a_cursor_is_remembered_and_steps(peer: Peer) -> None:
    with reading(peer) as (_, queue), queue.cursor() as cursor:
        assert cursor.peek().body == b"one!"
        assert cursor.next(4).body == b"two!"
        with pytest.raises(IoTimeout):
            cursor.next()
        (number,) = peer.cursors
    starts = peer.asked(START)
    assert [one[1:5] for one in starts] == [
        (0, number, 0x80000000, 0),
        (0, number, 0x80000001, 4000),
        (0, number, 0x80000001, 0),
    ]
    assert len({one.request_id for one in starts}) == 3
    assert peer.opnums.count(Opnum.CREATE_CURSOR) == 1


@pytest.mark.spec("MS-MQRR 3.2.4.10/1", "MS-MQRR 3.2.4.10.1/1")
def test_a_cursor_receives_with_a_start_and_an_end(peer: Peer) -> None:
    with reading(peer) as (_, queue), queue.cursor(receiving=True) as cursor:
        cursor.peek()
        cursor.next()
        assert cursor.receive(2).body == b"two!"
        (number,) = peer.cursors
    start = peer.asked(START)[-1]
    assert start[1:5] == (0, number, 0, 2000)
    assert peer.asked(END) == [(start.handle, Ack.ACK, start.request_id)]
    assert peer.bodies == [b"one!"]


@pytest.mark.spec("MS-MQRR 3.2.4.10.1/2")
def test_a_cursor_receive_whose_end_fails_is_in_doubt(peer: Peer) -> None:
    peer.instead[END] = lambda request, call: 0xC00E0007
    with reading(peer) as (manager, queue), queue.cursor(receiving=True) as cursor:
        message = cursor.receive()
        assert (message.body, message.in_doubt, manager.in_doubt) == (b"one!", True, 1)


@pytest.mark.spec("MS-MQRR 3.2.4.10/1", "MS-MQRR 3.2.4.10.2/1")
def test_a_cursor_receives_in_a_transaction(peer: Peer) -> None:
    with reading(peer) as (manager, _):
        queue = receiving(manager)
        queue.enlist(UOW, b"token")
        opened, number = queue.create_cursor()
        queue.read(Want(cursor=number, on=opened, transaction=UOW), 0)
    assert started(peer)[1:4] == (0, number, 0)
    assert started(peer).transaction_id == UOW
    (end,) = peer.asked(Opnum.END_TRANSACTIONAL_RECEIVE)
    assert end == (started(peer).handle, Ack.ACK, started(peer).request_id)


@pytest.mark.spec("MS-MQRR 3.1.4.4/5")
def test_a_cursor_that_is_refused_is_none(peer: Peer) -> None:
    from posthouse.protocols.remote_read.stubs import CreatedCursor

    peer.instead[Opnum.CREATE_CURSOR] = lambda request, call: CreatedCursor(99, 0xC00E0007)
    with reading(peer) as (_, queue), queue.cursor() as cursor, pytest.raises(QueueError):
        cursor.peek()
    assert START not in peer.opnums
    assert Opnum.CLOSE_CURSOR not in peer.opnums


def test_a_cursor_is_lost_with_its_connection(peer: Peer) -> None:
    with reading(peer) as (_, queue), queue.cursor() as cursor:
        cursor.peek()
        peer.cut()
        with pytest.raises(SessionLost):
            cursor.next()
        with pytest.raises(SessionLost, match="cursor was lost"):
            cursor.next()
    with reading(peer) as (_, queue):
        messages = queue.browse()
        next(messages)
        peer.cut()
        with pytest.raises(SessionLost):
            next(messages)


@pytest.mark.parametrize("prefetch", [0, 8])
def test_browsing_shows_everything_and_takes_nothing(prefetch: int) -> None:
    bodies = [b"%04d" % number for number in range(70)]
    with Peer(*bodies) as peer, reading(peer, prefetch=prefetch) as (_, queue):
        assert [message.body for message in queue.browse()] == bodies
        assert peer.bodies == bodies
        assert peer.cursors == {}
        assert next(queue.browse(body_max=0)).lookup_id == 100
    assert END not in peer.opnums


# -- cancelling and closing


@pytest.mark.spec("MS-MQRR 3.2.4.11/1")
def test_a_wait_is_cancelled_by_handle_and_number(empty: Peer) -> None:
    with reading(empty) as (_, queue):
        threads = [Thread(lambda: queue.receive()), Thread(lambda: queue.peek(30))]
        empty.await_waiting(2)
        assert queue.cancel() == 2
        for thread in threads:
            assert isinstance(thread.result(), OperationCancelled)
        asked = [(one.handle, one.request_id) for one in empty.asked(CANCEL)]
        assert sorted(asked) == sorted((one.handle, one.request_id) for one in empty.asked(START))
        assert queue.cancel() == 0


@pytest.mark.spec("MS-MQRR 3.2.4.12/1", "MS-MQRR 3.2.4.12/2", "MS-MQRR 3.1.4.5/1")
def test_closing_a_cursor_cancels_what_waits_on_it(empty: Peer) -> None:
    with reading(empty) as (_, queue):
        cursor, other = queue.cursor(), queue.cursor()
        waits = Thread(lambda: cursor.peek(None))
        empty.await_waiting(1)
        stays = Thread(lambda: other.peek(None))
        empty.await_waiting(2)
        cursor.close()
        assert isinstance(waits.result(), OperationCancelled)
        opnums = empty.opnums
        assert opnums[-2:] == [CANCEL, Opnum.CLOSE_CURSOR]
        cursor.close()
        assert empty.opnums == opnums
        empty.put(packet(b"here"))
        assert stays.result().body == b"here"
        other.close()
        assert empty.cursors == {}


@pytest.mark.spec(
    "MS-MQRR 3.2.1/1",
    "MS-MQRR 3.2.4.13/1",
    "MS-MQRR 3.2.4.13/2",
    "MS-MQRR 3.1.4.3/6",
    "MS-MQRR 2.2.4/2",
)
@pytest.mark.parametrize("result", [0, 0xC0000008])
def test_closing_a_queue_cancels_and_closes_all_it_has(empty: Peer, result: int) -> None:
    from posthouse.protocols.remote_read.stubs import ClosedQueue

    if result:
        empty.instead[Opnum.CLOSE_QUEUE] = lambda request, call: ClosedQueue(bytes(20), result)
    with reading(empty) as (_, queue):
        cursors = [queue.cursor(), queue.cursor()]
        for cursor in cursors:
            with pytest.raises(IoTimeout):
                cursor.peek()
        thread = Thread(lambda: queue.peek())
        empty.await_waiting(1)
        queue.close()
        assert isinstance(thread.result(), OperationCancelled)
        tail = [CANCEL, Opnum.CLOSE_CURSOR, Opnum.CLOSE_CURSOR, Opnum.CLOSE_QUEUE]
        assert empty.opnums[-4:] == tail
        queue.close()
        assert empty.opnums[-4:] == tail
        with suppress(IoTimeout):
            queue.peek(0)
        assert empty.opnums.count(Opnum.OPEN_QUEUE) == 2


def test_a_closed_reader_is_closed(peer: Peer) -> None:
    with reading(peer) as (manager, queue):
        queue.peek(0)
        manager.close()
        with pytest.raises(posthouse.SessionEnded):
            queue.peek(0)
        manager.close()
    assert peer.handles == set()


def test_a_close_over_a_broken_connection_is_quiet(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        queue.peek(0)
        peer.instead[Opnum.CLOSE_QUEUE] = broken


def test_what_remote_read_cannot_do_is_said(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        with pytest.raises(QueueError, match="does not have the interface of management"):
            queue.count()
        with pytest.raises(QueueError, match="finds no message"):
            queue.lookup(5, "last")
        with pytest.raises(QueueError, match="must be at least 1"):
            queue.receive_many(0)
        assert queue.lookup(seek="first").body == b"one!"
        assert queue.lookup(seek="first", receive=True).body == b"one!"
    assert peer.bodies == [b"two!"]


# -- what messages say


def test_what_the_other_computer_adds_is_read(empty: Peer) -> None:
    data = packet(b"body", label="a label", priority=6, recoverable=True, time_to_reach_queue=60)
    sent = int.from_bytes(data[52:56], "little")
    expiring = data[:12] + (sent + 60).to_bytes(4, "little") + data[16:]
    empty.put(with_trailers(expiring, aborts=2, moves=3, last_move=9, subqueue="poison"))
    with reading(empty) as (_, queue):
        message = queue.receive(0)
    assert message.packet == data
    assert (message.label, message.priority, message.delivery) == ("a label", 6, "recoverable")
    assert (message.abort_count, message.move_count) == (2, 3)
    assert message.arrived_time.timestamp() == 1_700_000_000
    assert message.queue == NAME
    assert message.to_json().label == "a label"
