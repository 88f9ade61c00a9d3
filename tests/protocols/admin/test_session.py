"""What a client session does with each frame, and with none."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.records import FLAG_EXPRESS
from posthouse.model.enumerations import MessageSeekAction
from posthouse.model.errors import (
    AccessDenied,
    IllegalFormatName,
    InsufficientResources,
    InvalidHandle,
    InvalidParameter,
    IoTimeout,
    MessageNotFound,
    OperationCancelled,
    QueueError,
    QueueNotFound,
    StatusNotFound,
    TransactionSequence,
    TransactionUsage,
    UnsupportedOperation,
)
from posthouse.model.message import NACK_RECEIVE_REJECTED
from posthouse.protocols.sessions.handles import SessionLimits
from posthouse.protocols.sessions.session import Finish
from posthouse.security.access import Caller
from posthouse.wire.frames import frames, payloads
from posthouse.wire.packet.message import deserialize
from tests.engine.letters import ALICE, BOB
from tests.protocols.admin.session_rig import (
    MOVE,
    ORDERS,
    PEEK,
    RECEIVE,
    SEND,
    Client,
    SessionRig,
    packet,
    packets,
)

LEDGER = r".\private$\ledger"


@pytest.fixture
def rig() -> SessionRig:
    return SessionRig()


@pytest.fixture
def client(rig: SessionRig) -> Client:
    return rig.client()


def is_refused(answer: Any, error: type[QueueError]) -> bool:
    """Whether an answer is this refusal, with a cause and a remedy."""
    assert isinstance(answer, payloads.Refusal), answer
    assert answer.cause
    assert answer.remedy
    return answer.code == error.code


# -- the session


def test_welcome_names_the_queue_manager_and_the_limits(rig: SessionRig) -> None:
    limits = SessionLimits(frame_size_max=5000, requests_max=7, waits_max=8, batch_max=9)
    welcome = rig.client(limits=limits, software="posthouse 1.2").welcome
    assert (welcome.version, welcome.software, welcome.name) == (2, "posthouse 1.2", "ALPHA")
    assert welcome.guid == rig.manager.machine.identifier
    assert (welcome.frame_size_max, welcome.requests_max) == (5000, 7)
    assert (welcome.waits_max, welcome.batch_max, welcome.unanswered_max) == (8, 9, 64)


@pytest.mark.parametrize(
    "payload",
    [
        payloads.Ping(),
        payloads.Hello(version=2),
        payloads.Hello(session=b"short"),
    ],
)
def test_a_wrong_beginning_ends_the_session(rig: SessionRig, payload: payloads.Payload) -> None:
    client = rig.client(greet=False)
    client.put(payload)
    assert is_refused(client.answer(0), InvalidParameter)
    assert client.closed
    assert rig.manager.machine.refusals["session_frame"] == 1


def test_a_session_begins_once(client: Client) -> None:
    client.put(payloads.Hello())
    assert is_refused(client.answer(0), InvalidParameter)


def test_request_zero_is_no_request(client: Client) -> None:
    client.session.receive(frames.encode(0, payloads.Ping()))
    assert is_refused(client.answer(0), InvalidParameter)


@pytest.mark.parametrize("kind", [0x00, 0x7F, frames.DONE, frames.ERROR])
def test_a_kind_that_is_no_request_ends_the_session(client: Client, kind: int) -> None:
    frame = frames.encode(5, payloads.Ping())
    client.session.receive(frame[:4] + bytes((kind,)) + frame[5:])
    assert is_refused(client.answer(0), InvalidParameter)
    assert client.closed


def test_nothing_is_answered_behind_a_bad_frame(client: Client) -> None:
    good = frames.encode(50, payloads.Ping())
    bad = frames.encode(51, payloads.Close(1))[:-1] + b"\xc1"
    client.session.receive(good + bad + frames.encode(52, payloads.Ping()))
    assert set(client.answers) == {1, 50, 0}
    client.session.receive(good)
    assert client.closed


def test_ping_is_answered(client: Client) -> None:
    client.done(payloads.Ping())


def test_a_call_runs_the_management_interface(rig: SessionRig) -> None:
    seen: list[Any] = []

    def api(caller: Caller, role: str, method: str, path: str, body: bytes, finish: Finish) -> None:
        seen.append((caller, role, method, path, body))
        finish(404, b"{}")

    client = rig.client(ALICE, api=api)
    answer = client.ask(payloads.Call("GET", "/api/v1/queues", b"x"), payloads.Called)
    assert (answer.status, answer.body) == (404, b"{}")
    assert seen == [(ALICE, "administer", "GET", "/api/v1/queues", b"x")]
    assert client.session.requests == 0


def test_a_session_without_that_interface_says_so(rig: SessionRig, client: Client) -> None:
    assert is_refused(client.refused(payloads.Call("GET", "/")), UnsupportedOperation)
    assert rig.manager.machine.refusals[UnsupportedOperation.name] == 1


# -- queues


def test_an_open_queue_says_how_packets_are_addressed(client: Client) -> None:
    opened = client.ask(payloads.Open(LEDGER, SEND), payloads.Opened)
    assert opened.destination == r"DIRECT=OS:ALPHA\private$\ledger"
    assert opened.transactional
    assert not opened.outgoing
    away = client.ask(payloads.Open(r"DIRECT=OS:BRAVO\private$\x", SEND), payloads.Opened)
    assert away.outgoing
    assert away.destination == r"DIRECT=OS:BRAVO\private$\x"


def test_a_queue_that_is_not_there_is_refused(rig: SessionRig, client: Client) -> None:
    refusal = client.refused(payloads.Open(r".\private$\none", RECEIVE))
    assert is_refused(refusal, QueueNotFound)
    assert rig.manager.machine.refusals[QueueNotFound.name] == 1


def test_rights_are_the_callers(rig: SessionRig) -> None:
    bob = rig.client(BOB)
    assert bob.open(access=SEND)
    assert is_refused(bob.refused(payloads.Open(ORDERS, RECEIVE)), AccessDenied)


def test_a_closed_handle_is_good_for_nothing(client: Client) -> None:
    queue = client.open()
    client.done(payloads.Close(queue))
    assert is_refused(client.send(queue, packets(b"x")), InvalidHandle)
    assert is_refused(client.refused(payloads.Close(queue)), InvalidHandle)


def test_a_handle_means_nothing_in_another_session(rig: SessionRig, client: Client) -> None:
    queue = client.open(access=RECEIVE)
    other = rig.client()
    other.open(access=RECEIVE)
    assert is_refused(other.read(queue), InvalidHandle)


def test_a_session_has_so_many_handles_of_each_kind(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(handles_max=2))
    queue = client.open(access=PEEK)
    client.open(access=PEEK)
    assert is_refused(client.refused(payloads.Open(ORDERS, PEEK)), InsufficientResources)
    for _ in range(2):
        client.ask(payloads.OpenCursor(queue), payloads.CursorOpened)
        client.begin()
    assert is_refused(client.refused(payloads.OpenCursor(queue)), InsufficientResources)
    assert is_refused(client.refused(payloads.Begin()), InsufficientResources)
    client.done(payloads.Close(queue))
    assert client.open(access=PEEK)


def test_count_and_purge(client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b", b"c"))
    source = client.open(access=RECEIVE)
    client.read(source)
    counted = client.ask(payloads.Count(source), payloads.Counted)
    assert (counted.messages, counted.locked) == (3, 1)
    assert counted.size == 3 * len(packet(b"a"))
    assert client.ask(payloads.Purge(source), payloads.Counted).messages == 3
    assert client.ask(payloads.Count(source), payloads.Counted).messages == 1


def test_a_queue_open_for_sending_is_not_counted(client: Client) -> None:
    assert is_refused(client.refused(payloads.Count(client.open())), AccessDenied)


# -- sending


def test_a_batch_arrives_in_order_with_its_ordinals(rig: SessionRig, client: Client) -> None:
    ordinals = client.send(client.open(), packets(b"a", b"b", b"c"))
    assert rig.bodies("orders") == [b"a", b"b", b"c"]
    assert list(ordinals) == [m.identifier.ordinal for m in rig.messages("orders")]
    assert rig.messages("orders")[0].source_machine_identifier == rig.manager.machine.identifier


def test_an_empty_batch_is_sent(client: Client) -> None:
    assert client.send(client.open(), []) == ()


def test_express_and_recoverable_messages_keep_their_kind(rig: SessionRig, client: Client) -> None:
    queue = client.open()
    client.send(queue, [packet(b"r"), packet(b"e", recoverable=False)])
    assert [bool(r.flags & FLAG_EXPRESS) for r in rig.reads("orders")] == [False, True]


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("bad", [b"", b"nonsense", packet(b"x")[:-4], packet(b"x") + bytes(4)])
def test_one_packet_that_is_none_refuses_the_batch(
    rig: SessionRig, client: Client, bad: bytes, place: int
) -> None:
    queue, batch = client.open(), packets(b"a", b"b")
    client.send(queue, batch)
    before = rig.manager.ledger.state.dump()
    batch.insert(place, bad)
    assert is_refused(client.send(queue, batch), InvalidParameter)
    assert rig.manager.ledger.state.dump() == before
    assert not client.closed
    assert client.send(queue, packets(b"c"))
    assert rig.bodies("orders") == [b"a", b"b", b"c"]


def test_a_packet_with_bad_names_is_refused_by_itself(rig: SessionRig, client: Client) -> None:
    queue, good = client.open(), packet(b"x")
    at = good.index("ALPHA".encode("utf-16-le"))
    client.send(queue, [good])
    bad = good[: at - 2] + b"\xff\xff" + good[at:]
    assert isinstance(client.send(queue, [bad]), payloads.Refusal)
    assert rig.bodies("orders") == [b"x"]


@pytest.mark.parametrize("first", [True, False])
def test_a_packet_without_properties_is_refused(
    rig: SessionRig, client: Client, first: bool
) -> None:
    """Nothing says where its body is: it would be delivered empty."""
    good = packet(b"x")
    bad = good[:62] + bytes([good[62] & ~0x20]) + good[63:]
    batch = [bad] if first else [good, bad]
    assert is_refused(client.send(client.open(), batch), InvalidParameter)
    assert rig.bodies("orders") == []


def test_a_packet_for_another_queue_is_refused(rig: SessionRig, client: Client) -> None:
    queue = client.open()
    batch = [packet(b"mine"), packet(b"yours", to="ledger")]
    assert is_refused(client.send(queue, batch), IllegalFormatName)
    assert rig.bodies("orders") == []


def test_packets_with_more_headers_are_read_one_by_one(rig: SessionRig, client: Client) -> None:
    queue, names = client.open(), (r"DIRECT=OS:ALPHA\private$\orders",)
    batch = packets(b"a", b"b", destination_multi_queue_format_name=names)
    assert len(client.send(queue, batch)) == 2
    at = batch[1].rindex("ALPHA".encode("utf-16-le"))
    bad = batch[1][:at] + b"\x00\xd8" + batch[1][at + 2 :]
    assert is_refused(client.send(queue, [batch[0], bad]), InvalidParameter)
    assert rig.bodies("orders") == [b"a", b"b"]


def test_names_are_compared_as_names_are(client: Client) -> None:
    to = r"direct=os:alpha\PRIVATE$\Orders"
    assert client.send(client.open(), [packet(b"x", to=to)])


def test_a_batch_has_so_many_messages(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(batch_max=2))
    queue = client.open()
    assert is_refused(client.send(queue, packets(b"1", b"2", b"3")), InvalidParameter)
    assert client.send(queue, packets(b"1", b"2"))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/3")
def test_a_batch_over_the_quota_is_refused_whole(rig: SessionRig, client: Client) -> None:
    rig.create("small", quota_kib=1)
    queue = client.open(r".\private$\small")
    assert isinstance(
        client.send(queue, packets(b"x" * 400, b"y" * 400, to="small")), payloads.Refusal
    )
    assert rig.bodies("small") == []


def test_a_list_of_queues_takes_one_message_at_a_time(rig: SessionRig, client: Client) -> None:
    rig.create("copies")
    names = r"DIRECT=OS:ALPHA\private$\orders,DIRECT=OS:ALPHA\private$\copies"
    opened = client.ask(payloads.Open(names, SEND), payloads.Opened)
    assert opened.elements == 2
    assert is_refused(client.send(opened.queue, packets(b"a", b"b")), InvalidParameter)
    assert is_refused(client.send(opened.queue, [b"junk"]), InvalidParameter)
    assert len(client.send(opened.queue, packets(b"a"))) == 1
    assert rig.bodies("orders") == rig.bodies("copies") == [b"a"]


# -- receiving


def test_a_received_message_is_locked_until_its_end(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b"))
    source = client.open(access=RECEIVE)
    (message,) = client.read(source)
    assert deserialize(message.packet).body == b"a"
    assert rig.queue("orders").locked == 1
    assert client.end(source, [message.lookup_id]) == 1
    assert rig.bodies("orders") == [b"b"]
    rig.check_books()


def test_many_are_received_and_ended_at_once(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(*(b"%d" % n for n in range(20))))
    source = client.open(access=RECEIVE)
    first, rest = client.read(source, count=5), client.read(source, count=100)
    assert (len(first), len(rest)) == (5, 15)
    lookup_ids = [m.lookup_id for m in first + rest]
    assert lookup_ids == sorted(lookup_ids)
    assert client.end(source, lookup_ids) == 20
    assert rig.bodies("orders") == []


def test_messages_come_with_their_row(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), [packet(b"a", priority=5)])
    source = client.open(access=RECEIVE)
    (message,) = client.read(source)
    (row,) = rig.reads("orders")
    assert message.lookup_id == row.lookup_id
    assert message.arrived == rig.clock.utc_seconds
    assert (message.priority, message.aborts, message.moves) == (5, 0, 0)
    assert message.flags == row.flags


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/6")
def test_a_message_that_is_given_back_or_rejected(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b"))
    source = client.open(access=RECEIVE)
    a, b = client.read(source, count=2)
    assert client.end(source, [a.lookup_id], positive=False) == 1
    assert client.end(source, [b.lookup_id], message_class=NACK_RECEIVE_REJECTED) == 1
    assert rig.bodies("orders") == [b"a"]
    assert books_of(rig.queue("orders")).rejected == 1
    (again,) = client.read(source, count=2)
    assert again.lookup_id == a.lookup_id


@pytest.mark.parametrize("positive", [True, False])
def test_an_end_is_for_all_or_none(rig: SessionRig, client: Client, positive: bool) -> None:
    client.send(client.open(), packets(b"a", b"b"))
    source = client.open(access=RECEIVE)
    a, b = client.read(source, count=2)
    for lookup_ids in ([a.lookup_id, 999], [a.lookup_id, a.lookup_id]):
        answer = client.end(source, lookup_ids, positive=positive)
        assert is_refused(answer, TransactionSequence)
    answer = client.end(source, [a.lookup_id], message_class=7)
    assert is_refused(answer, InvalidParameter)
    assert rig.queue("orders").locked == 2
    other = client.open(access=RECEIVE)
    assert is_refused(client.end(other, [b.lookup_id], positive=positive), TransactionSequence)


@pytest.mark.parametrize("positive", [True, False])
def test_a_moved_message_ends_once_whatever_it_is_called(
    rig: SessionRig, client: Client, positive: bool
) -> None:
    client.send(client.open(), packets(b"a"))
    source, later = client.open(access=RECEIVE), client.open(ORDERS + ";later", MOVE)
    (before,) = client.read(client.open(access=PEEK), kind=frames.PEEK)
    client.done(payloads.Move(source, before.lookup_id, later, 0))
    source = client.open(ORDERS + ";later", RECEIVE)
    (moved, *_) = client.read(source, count=2)
    both = [moved.lookup_id, before.lookup_id]
    assert is_refused(client.end(source, both, positive=positive), TransactionSequence)
    assert rig.queue("orders;later").locked == 1
    assert client.end(source, [before.lookup_id], positive=positive) == 1


def test_more_ends_than_reads_are_refused_unseen(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a"))
    source = client.open(access=RECEIVE)
    (read,) = client.read(source)
    answer = client.end(source, [read.lookup_id, *range(100, 1000)])
    assert is_refused(answer, TransactionSequence)
    assert client.end(source, [read.lookup_id]) == 1


def test_a_message_received_at_once_has_no_end(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b"))
    source = client.open(access=RECEIVE)
    assert client.bodies(source, flags=frames.READ_AT_ONCE) == [b"a"]
    assert client.bodies(source, flags=frames.READ_AT_ONCE, count=9) == [b"b"]
    assert rig.bodies("orders") == []


def test_an_empty_queue_is_a_timeout(client: Client) -> None:
    source = client.open(access=RECEIVE)
    assert is_refused(client.read(source), IoTimeout)
    assert is_refused(client.read(source, count=10), IoTimeout)


def test_an_answer_has_so_many_bytes_beyond_the_first() -> None:
    client = SessionRig(step_bytes=2500).client()
    client.send(client.open(), packets(*[b"x" * 3000] * 2, *[b"y" * 700] * 5))
    source = client.open(access=RECEIVE)
    cursor = client.ask(payloads.OpenCursor(source), payloads.CursorOpened).cursor
    browse: dict[str, Any] = {"kind": frames.PEEK, "cursor": cursor, "flags": frames.READ_NEXT}
    assert [len(client.read(source, **browse, count=10)) for _ in range(4)] == [1, 1, 3, 2]
    assert [len(client.read(source, count=10)) for _ in range(5)] == [1, 1, 2, 2, 1]


def test_a_handle_holds_so_many_messages(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(held_max=2))
    client.send(client.open(), packets(b"a", b"b", b"c"))
    source = client.open(access=RECEIVE)
    a, _ = client.read(source, count=2)
    assert is_refused(client.read(source), InsufficientResources)
    client.end(source, [a.lookup_id])
    assert client.bodies(source) == [b"c"]


# -- waiting


def test_a_wait_ends_with_the_message_that_comes(client: Client) -> None:
    source = client.open(access=RECEIVE)
    request = client.put_read(source, timeout_ms=-1)
    assert client.waits(request)
    assert client.session.requests == 0
    client.send(client.open(), packets(b"late"))
    (message,) = client.answer(request)
    assert client.end(source, [message.lookup_id]) == 1


def test_a_wait_for_several_takes_what_came_together(client: Client) -> None:
    source = client.open(access=RECEIVE)
    request = client.put_read(source, timeout_ms=-1, count=3)
    assert client.waits(request)
    client.send(client.open(), packets(b"a", b"b", b"c", b"d"))
    assert [deserialize(m.packet).body for m in client.answer(request)] == [b"a", b"b", b"c"]
    assert client.session.requests == 0


def test_a_wait_has_its_time(rig: SessionRig, client: Client) -> None:
    request = client.put_read(client.open(access=RECEIVE), timeout_ms=5000)
    assert client.waits(request)
    rig.advance(6)
    assert is_refused(client.answer(request), IoTimeout)
    assert rig.manager.machine.refusals[IoTimeout.name] == 1


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.17/1")
def test_a_wait_can_be_cancelled(client: Client) -> None:
    source = client.open(access=RECEIVE)
    request = client.put_read(source, timeout_ms=-1)
    client.done(payloads.Cancel(request))
    assert is_refused(client.answer(request), OperationCancelled)
    assert is_refused(client.refused(payloads.Cancel(request)), StatusNotFound)
    client.send(client.open(), packets(b"a"))
    assert client.bodies(source) == [b"a"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.6/2")
def test_closing_a_queue_ends_its_waits(client: Client) -> None:
    source = client.open(access=RECEIVE)
    request = client.put_read(source, timeout_ms=-1, kind=frames.PEEK)
    client.done(payloads.Close(source))
    assert is_refused(client.answer(request), OperationCancelled)


def test_a_session_has_so_many_waits(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(waits_max=1))
    source = client.open(access=RECEIVE)
    first = client.put_read(source, timeout_ms=-1)
    assert is_refused(client.read(source, timeout_ms=1), InsufficientResources)
    client.done(payloads.Cancel(first))
    assert client.waits(client.put_read(source, timeout_ms=-1))


def test_a_number_that_waits_is_not_used_again(client: Client) -> None:
    source = client.open(access=RECEIVE)
    client.put_read(source, timeout_ms=-1)
    client.requests -= 1
    client.put_read(source, timeout_ms=-1)
    assert is_refused(client.answer(0), InvalidParameter)
    assert client.closed


# -- peeking


def test_peek_takes_nothing(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b"))
    source = client.open(access=PEEK)
    assert client.bodies(source, kind=frames.PEEK) == [b"a"]
    assert client.bodies(source, kind=frames.PEEK, count=10) == [b"a"]
    assert rig.queue("orders").locked == 0


def test_a_cursor_browses_in_batches(client: Client) -> None:
    client.send(client.open(), packets(*(b"%d" % n for n in range(7))))
    source = client.open(access=PEEK)
    cursor = client.ask(payloads.OpenCursor(source), payloads.CursorOpened).cursor
    row = client.bodies(source, kind=frames.PEEK, cursor=cursor, count=3)
    assert row == [b"0", b"1", b"2"]
    more: dict[str, Any] = {"kind": frames.PEEK, "cursor": cursor, "flags": frames.READ_NEXT}
    assert client.bodies(source, **more, count=2) == [b"3", b"4"]
    assert client.bodies(source, **more, count=9) == [b"5", b"6"]
    assert is_refused(client.read(source, **more, count=9), IoTimeout)
    client.send(client.open(), packets(b"new"))
    assert client.bodies(source, **more, count=9) == [b"new"]


def test_a_cursor_waits_for_the_next_message(client: Client) -> None:
    source = client.open(access=PEEK)
    cursor = client.ask(payloads.OpenCursor(source), payloads.CursorOpened).cursor
    request = client.put_read(source, kind=frames.PEEK, cursor=cursor, timeout_ms=-1, count=5)
    assert client.waits(request)
    client.send(client.open(), packets(b"a", b"b"))
    assert len(client.answer(request)) == 1


def test_a_peek_waits_for_one_message(client: Client) -> None:
    source = client.open(access=PEEK)
    request = client.put_read(source, kind=frames.PEEK, timeout_ms=-1, count=5)
    assert client.waits(request)
    client.send(client.open(), packets(b"a", b"b"))
    assert len(client.answer(request)) == 1


def test_a_receive_through_a_cursor_takes_what_is_under_it(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b", b"c"))
    source = client.open(access=RECEIVE)
    cursor = client.ask(payloads.OpenCursor(source), payloads.CursorOpened).cursor
    client.read(source, kind=frames.PEEK, cursor=cursor)
    client.read(source, kind=frames.PEEK, cursor=cursor, flags=frames.READ_NEXT)
    (message,) = client.read(source, cursor=cursor, count=10)
    client.end(source, [message.lookup_id])
    assert rig.bodies("orders") == [b"a", b"c"]


def test_cursors_end_with_their_queue_or_by_themselves(client: Client) -> None:
    source = client.open(access=PEEK)
    one = client.ask(payloads.OpenCursor(source), payloads.CursorOpened).cursor
    two = client.ask(payloads.OpenCursor(source), payloads.CursorOpened).cursor
    client.done(payloads.CloseCursor(one))
    assert is_refused(client.refused(payloads.CloseCursor(one)), InvalidHandle)
    client.done(payloads.Close(source))
    assert is_refused(client.refused(payloads.CloseCursor(two)), InvalidHandle)


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (frames.PEEK, frames.READ_AT_ONCE),
        (frames.PEEK, frames.READ_NEXT),
        (frames.RECEIVE, frames.READ_NEXT),
    ],
)
def test_flags_that_make_no_sense_are_refused(client: Client, kind: int, flags: int) -> None:
    source = client.open(access=RECEIVE)
    assert is_refused(client.read(source, kind=kind, flags=flags), InvalidParameter)


def test_to_go_on_from_nowhere_is_to_begin(client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b"))
    source = client.open(access=PEEK)
    cursor = client.ask(payloads.OpenCursor(source), payloads.CursorOpened).cursor
    more: dict[str, Any] = {"kind": frames.PEEK, "cursor": cursor, "flags": frames.READ_NEXT}
    assert client.bodies(source, **more) == [b"a"]
    assert client.bodies(source, **more) == [b"b"]


# -- lookup and move


def test_lookup_finds_one_message(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b"))
    source = client.open(access=RECEIVE)
    first, second = (read.lookup_id for read in rig.reads("orders"))
    request = client.put(payloads.Lookup(source, first, MessageSeekAction.NEXT))
    assert client.answer(request)[0].lookup_id == second
    request = client.put(payloads.Lookup(source, second, peek=False))
    client.answer(request)
    assert client.end(source, [second]) == 1
    assert rig.bodies("orders") == [b"a"]
    assert is_refused(client.refused(payloads.Lookup(source, second)), MessageNotFound)


def test_move_puts_a_message_into_a_subqueue(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a"))
    source = client.open(access=RECEIVE)
    target = client.open(ORDERS + ";aside", MOVE)
    (read,) = rig.reads("orders")
    client.done(payloads.Move(source, read.lookup_id, target))
    assert rig.bodies("orders") == []
    assert rig.bodies(r".\private$\orders;aside") == [b"a"]


# -- transactions


def test_a_transaction_over_two_queues_is_all_or_nothing(rig: SessionRig, client: Client) -> None:
    rig.create("second", transactional=True)
    one, two = client.open(LEDGER), client.open(r".\private$\second")
    for end, count in ((payloads.Abort, 0), (payloads.Commit, 2)):
        tx = client.begin()
        client.send(one, packets(b"a", b"b", to="ledger", transactional=True), tx=tx)
        client.send(two, packets(b"c", to="second", transactional=True), tx=tx)
        assert rig.bodies("ledger") == []
        client.done(end(tx))
        assert len(rig.bodies("ledger")) == count
        assert is_refused(client.refused(end(tx)), TransactionSequence)
    assert rig.bodies("second") == [b"c"]


def test_a_receive_in_a_transaction_ends_with_it(rig: SessionRig, client: Client) -> None:
    tx = client.begin()
    batch = packets(b"a", b"b", to="ledger", transactional=True)
    client.send(client.open(LEDGER), batch, tx=tx)
    client.done(payloads.Commit(tx))
    source = client.open(LEDGER, RECEIVE)
    tx = client.begin()
    a, b = client.read(source, tx=tx, count=5)
    assert is_refused(client.end(source, [a.lookup_id]), TransactionSequence)
    assert client.end(source, [b.lookup_id], positive=False) == 1
    client.done(payloads.Commit(tx))
    assert rig.bodies("ledger") == [b"b"]
    assert is_refused(client.read(client.open(access=RECEIVE), tx=tx), TransactionSequence)


def test_a_wait_in_a_transaction_takes_several(rig: SessionRig, client: Client) -> None:
    source, tx = client.open(LEDGER, RECEIVE), client.begin()
    request = client.put_read(source, tx=tx, timeout_ms=-1, count=4)
    assert client.waits(request)
    other = client.begin()
    batch = packets(b"a", b"b", to="ledger", transactional=True)
    client.send(client.open(LEDGER), batch, tx=other)
    client.done(payloads.Commit(other))
    assert len(client.answer(request)) == 2
    client.done(payloads.Commit(tx))
    assert rig.bodies("ledger") == []


def test_a_peek_is_in_no_transaction(client: Client) -> None:
    source = client.open(LEDGER, RECEIVE)
    answer = client.read(source, kind=frames.PEEK, tx=client.begin())
    assert is_refused(answer, InvalidParameter)


def test_a_transaction_has_the_identifier_its_client_wants(client: Client) -> None:
    begun = client.ask(payloads.Begin(b"i" * 16), payloads.Begun)
    assert begun.identifier == b"i" * 16
    assert is_refused(client.refused(payloads.Begin(b"i" * 16)), TransactionSequence)
    assert is_refused(client.refused(payloads.Begin(b"short")), InvalidParameter)
    assert is_refused(client.refused(payloads.Begin(bytes(16))), TransactionUsage)


def test_a_transaction_is_its_sessions(rig: SessionRig, client: Client) -> None:
    tx = client.begin()
    other = rig.client()
    other.begin()
    assert is_refused(other.refused(payloads.Commit(tx)), TransactionSequence)
    client.done(payloads.Abort(tx))


def test_a_handle_does_not_pass_to_another_transaction(rig: SessionRig, client: Client) -> None:
    old = client.ask(payloads.Begin(b"i" * 16), payloads.Begun).transaction
    rig.advance(rig.settings.transactions.idle_s + 1)
    other = rig.client()
    new = other.ask(payloads.Begin(b"i" * 16), payloads.Begun).transaction
    source = client.open(LEDGER, RECEIVE)
    assert is_refused(client.read(source, tx=old), TransactionSequence)
    assert is_refused(client.refused(payloads.Prepare(old, b"x")), TransactionSequence)
    assert is_refused(client.refused(payloads.Commit(old)), TransactionSequence)
    other.done(payloads.Commit(new))


def test_a_prepared_transaction_outlives_its_session(rig: SessionRig, client: Client) -> None:
    begun = client.ask(payloads.Begin(), payloads.Begun)
    queue, batch = client.open(LEDGER), packets(b"a", to="ledger", transactional=True)
    client.send(queue, batch, tx=begun.transaction)
    voted = client.ask(payloads.Prepare(begun.transaction, b"coordinator"), payloads.Voted)
    assert voted.vote == "prepared"
    client.session.lost()
    rig.desk.settle()
    (left,) = rig.manager.transactions.in_doubt()
    assert left.identifier == begun.identifier


def test_a_read_of_a_prepared_transaction_has_no_other_end(client: Client) -> None:
    tx = client.begin()
    batch = packets(b"a", to="ledger", transactional=True)
    client.send(client.open(LEDGER), batch, tx=tx)
    client.done(payloads.Commit(tx))
    source, tx = client.open(LEDGER, RECEIVE), client.begin()
    (message,) = client.read(source, tx=tx)
    client.ask(payloads.Prepare(tx, b"coordinator"), payloads.Voted)
    answer = client.end(source, [message.lookup_id], positive=False)
    assert is_refused(answer, TransactionSequence)


def test_a_prepared_transaction_is_committed_by_its_session(
    rig: SessionRig, client: Client
) -> None:
    tx = client.begin()
    batch = packets(b"a", to="ledger", transactional=True)
    client.send(client.open(LEDGER), batch, tx=tx)
    client.ask(payloads.Prepare(tx, b"coordinator"), payloads.Voted)
    client.done(payloads.Commit(tx))
    assert rig.bodies("ledger") == [b"a"]


# -- the end of a session


def test_a_broken_session_leaves_nothing_behind(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b"))
    source, waiting = client.open(access=RECEIVE), client.open(LEDGER, RECEIVE)
    client.read(source)
    tx = client.begin()
    batch = packets(b"never", to="ledger", transactional=True)
    client.send(client.open(LEDGER), batch, tx=tx)
    client.put_read(waiting, timeout_ms=-1)
    rig.desk.settle()
    answers = dict(client.answers)
    client.session.lost()
    client.session.lost()
    rig.desk.settle()
    core = rig.manager.ledger
    assert client.answers == answers
    assert not core.locks
    assert not rig.manager.transactions.collection.open
    assert not rig.queue("ledger").waiters
    assert not rig.queue("orders").descriptors
    assert [
        (r.aborts, b) for r, b in zip(rig.reads("orders"), rig.bodies("orders"), strict=True)
    ] == [(0, b"a"), (0, b"b")]
    rig.check_books()


def test_a_message_on_its_way_to_a_lost_client_is_back(rig: SessionRig, client: Client) -> None:
    client.send(client.open(), packets(b"a", b"b", b"c"))
    source = client.open(access=RECEIVE)
    client.put_read(source, count=2)
    rig.desk.append()
    client.session.lost()
    rig.desk.settle()
    assert rig.queue("orders").locked == 0


def test_a_wait_served_for_a_lost_client_takes_nothing_more(
    rig: SessionRig, client: Client
) -> None:
    source = client.open(access=RECEIVE)
    client.put_read(source, timeout_ms=-1, count=5)
    rig.desk.settle()
    rig.send("orders", b"a")
    rig.send("orders", b"b")
    client.session.lost()
    rig.desk.settle()
    assert rig.queue("orders").locked == 0
    assert rig.bodies("orders") == [b"a", b"b"]


def test_a_session_ended_from_here_says_why(rig: SessionRig, client: Client) -> None:
    client.session.end(OperationCancelled("the queue manager stops"))
    assert is_refused(client.answer(0), OperationCancelled)
    assert client.closed
    client.session.receive(frames.encode(9, payloads.Ping()))
    assert 9 not in client.answers


# -- pace


def test_one_frame_is_one_decision(rig: SessionRig, client: Client) -> None:
    queue, source = client.open(), client.open(access=RECEIVE)
    before = rig.desk.decisions
    client.send(queue, packets(*(b"%d" % n for n in range(50))))
    messages = client.read(source, count=50)
    client.end(source, [m.lookup_id for m in messages])
    assert rig.desk.decisions == before + 3


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/11")
def test_no_answer_leaves_before_its_sync(rig: SessionRig, client: Client) -> None:
    queue = client.open()
    request = client.put_send(queue, packets(b"a"))
    assert request not in client.answers
    rig.desk.append()
    rig.driver.release()
    assert request not in client.answers
    rig.driver.sync()
    rig.driver.release()
    assert request in client.answers


def test_the_answers_of_one_sync_are_one_write(rig: SessionRig) -> None:
    later: list[Any] = []
    client = rig.client(greet=False, soon=later.append)

    def run_later() -> None:
        while later:
            later.pop()()

    client.put(payloads.Hello())
    rig.desk.settle()
    run_later()
    for _ in range(5):
        client.put(payloads.Open(ORDERS, SEND))
    rig.desk.settle()
    assert len(client.writes) == 1
    run_later()
    assert [len(parts) for parts in client.writes] == [1, 5]


def test_more_than_it_may_ask_is_not_begun(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(requests_max=3))
    queue = client.open()
    requests = [client.put_send(queue, packets(b"%d" % n)) for n in range(8)]
    assert client.session.requests == 3
    assert client.pauses == [True]
    rig.desk.settle()
    assert all(request in client.answers for request in requests)
    assert client.pauses == [True, False]
    assert rig.bodies("orders") == [b"%d" % n for n in range(8)]


def test_more_bytes_than_it_may_ask_are_not_begun(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(request_bytes_max=2000))
    queue = client.open()
    for n in range(4):
        client.put_send(queue, packets(b"%d" % n + b"x" * 1500))
    assert client.session.requests == 2
    rig.desk.settle()
    assert client.session.request_bytes == 0
    assert len(rig.bodies("orders")) == 4


@pytest.mark.parametrize("kind", [frames.RECEIVE, frames.PEEK, frames.LOOKUP])
def test_what_reads_have_brought_holds_up_the_next_ones(rig: SessionRig, kind: int) -> None:
    client = rig.client(limits=SessionLimits(request_bytes_max=3000))
    client.send(client.open(), packets(*(b"x" * 1000 for _ in range(9))))
    source = client.open(access=RECEIVE)
    for _ in range(9):
        if kind == frames.LOOKUP:
            client.put(payloads.Lookup(source, 0, MessageSeekAction.FIRST, True, 0))
        else:
            client.put_read(source, kind=kind)
    assert client.pauses == [True]
    assert client.session.requests == 3
    rig.desk.settle()
    assert client.pauses == [True, False]
    assert client.session.answer_bytes == client.session.requests == 0
    assert not rig.driver.waiting_answers
    assert len(client.answers) == client.requests


def test_waiting_reads_leave_room_for_other_requests(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(requests_max=2))
    source = client.open(access=RECEIVE)
    waits = [client.put_read(source, timeout_ms=-1) for _ in range(10)]
    rig.desk.settle()
    client.send(client.open(), packets(*(b"%d" % n for n in range(10))))
    rig.desk.settle()
    assert all(request in client.answers for request in waits)


def test_a_full_connection_is_left_in_peace(rig: SessionRig, client: Client) -> None:
    queue = client.open()
    client.session.hold(True)
    client.put_send(queue, packets(b"a"))
    rig.desk.settle()
    assert client.pauses == [True]
    assert rig.bodies("orders") == []
    client.session.hold(False)
    rig.desk.settle()
    assert client.pauses == [True, False]
    assert rig.bodies("orders") == [b"a"]


def test_a_client_that_does_not_read_loses_its_session(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(unread_bytes_max=3000))
    source = client.open(access=RECEIVE)
    for _ in range(4):
        client.put_read(source, timeout_ms=-1)
    rig.desk.settle()
    client.session.hold(True)
    other = rig.client()
    queue = other.open()
    for _ in range(4):
        other.send(queue, packets(b"x" * 1000))
    assert client.closed
    assert rig.manager.machine.refusals["session_unread"] == 1
    assert rig.queue("orders").locked == 0
    assert len(rig.bodies("orders")) == 4


def test_a_bad_frame_behind_held_ones_ends_the_session_after_them(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(requests_max=1))
    queue = client.open()
    sends = b"".join(frames.encode_send(100 + n, queue, 0, 0, packets(b"x")) for n in range(3))
    client.session.receive(sends + b"\0\0\0\0\0\0\0\0\0")
    assert not client.closed
    rig.desk.settle()
    assert client.closed
    assert {100, 101, 0} <= set(client.answers)
    assert len(rig.bodies("orders")) == 3


def test_bytes_of_a_frame_that_is_not_whole_are_known(client: Client) -> None:
    client.session.receive(frames.encode(9, payloads.Ping())[:7])
    assert client.session.splitter.pending == 7
