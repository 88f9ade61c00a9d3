"""The blocking client with a server over real sockets, and the same embedded."""

from __future__ import annotations

import gc
import json
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse import Draft, IoTimeout, QueueManagerClient
from posthouse.client.errors import (
    MessageReturned,
    ServerUnreachable,
    SessionEnded,
    TransactionAborted,
)
from posthouse.client.requests import Request
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidParameter,
    QueueExists,
    QueueNotAvailable,
    QueueNotFound,
    ServiceNotAvailable,
    SharingViolation,
    TransactionSequence,
    TransactionUsage,
    UnsupportedFormatNameOperation,
)
from tests.client.serving import Serving, serving


@pytest.fixture(params=["socket", "embedded"])
def manager(
    request: pytest.FixtureRequest, server: Serving, home: Path
) -> Iterator[QueueManagerClient]:
    """A queue manager that is elsewhere, and one that is here."""
    if request.param == "socket":
        with posthouse.connect(server.home) as connected:
            yield connected
    else:
        with posthouse.open(home, name="ALPHA") as opened:
            yield opened


Manager = QueueManagerClient


def test_who_it_is(manager: Manager) -> None:
    assert manager.name == "ALPHA"
    assert manager.guid == manager.status().guid
    assert "ALPHA" in repr(manager)


@pytest.mark.spec("MS-MQQB 3.1.3.2/16", clause="unique")
def test_the_guid_of_a_queue_manager_is_its_own_whatever_it_is_called(tmp_path: Path) -> None:
    guids = []
    for home in (tmp_path / "one", tmp_path / "two", tmp_path / "one"):
        with posthouse.open(home, name="ALPHA") as opened:
            guids.append(opened.guid)
    first, second, again = guids
    assert first == again != second


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.15/2", "MS-MQDMPR 3.1.7.1.9/10")
def test_a_message_goes_in_and_comes_out(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    identifier = queue.send(b"<order/>", label="order 1", priority=5)
    assert queue.count() == 1
    assert queue.peek(timeout=0).id == identifier
    message = queue.receive(timeout=0)
    assert (message.id, message.body, message.label) == (identifier, b"<order/>", "order 1")
    assert (message.priority, message.delivery, message.queue) == (5, "express", path)
    assert not message.in_doubt
    assert queue.count() == 0


def test_bodies_of_every_kind(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"bytes", "grüße", {"customer": 7}, [1, 2]])
    first, second, third, fourth = queue.receive_many(10)
    assert (first.body, second.text) == (b"bytes", "grüße")
    assert (third.json(), fourth.json()) == ({"customer": 7}, [1, 2])


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/5", "MS-MQDMPR 3.1.7.1.15/6")
def test_nothing_in_time_is_a_timeout(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    for timeout in (0, 0.01):
        with pytest.raises(IoTimeout):
            queue.receive(timeout=timeout)
        with pytest.raises(IoTimeout):
            queue.peek(timeout=timeout)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/4", "MS-MQDMPR 3.1.7.1.10/13", "MS-MQDMPR 3.1.7.2.2/2")
def test_a_receive_waits_for_another_thread(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(queue.receive(timeout=30).body))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    ids = [queue.send(b"%d" % number) for number in range(4)]
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 4
    assert sorted(found) == [b"0", b"1", b"2", b"3"]


def test_many_threads_share_one_session(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)

    def work(name: int) -> None:
        for number in range(20):
            queue.send(b"%d/%d" % (name, number))
            queue.receive(timeout=30)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert queue.count() == 0


def test_many_messages_keep_their_order(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    bodies = [b"%d" % number for number in range(2000)]
    ids = queue.send_many(iter(bodies), recoverable=True)
    assert len(set(ids)) == len(ids) == 2000
    assert ids[:2] == [ids[0], ids[1]]
    assert "2000" in repr(ids)
    assert [message.body for message in queue.browse()] == bodies
    assert [message.body for message in queue.consume(timeout=0)] == bodies
    assert queue.count() == 0


def test_large_messages_go_both_ways_at_once(manager: Manager, path: str) -> None:
    """Neither side may wait for the other to read."""
    queue = manager.create_queue(path)
    bodies = [bytes([number]) * 3_000_000 for number in range(8)]
    found: list[bytes] = []

    def read() -> None:
        found.extend(queue.receive(timeout=30).body for _ in bodies)

    threads = [threading.Thread(target=work) for work in (read, lambda: queue.send_many(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == bodies


def test_bodies_may_come_of_the_same_session(manager: Manager, path: str) -> None:
    """What is sent is made while it is sent; that may need the session too."""
    queue = manager.create_queue(path)
    other = manager.create_queue(path + "-copy")
    queue.send_many([b"%d" % number for number in range(700)])
    other.send_many(message.body for message in queue.browse())
    assert other.count() == 700


def test_what_breaks_while_it_is_sent(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)

    def bodies() -> Iterator[bytes]:
        yield from [b"x"] * 300
        raise KeyError("oh")

    with pytest.raises(KeyError):
        queue.send_many(bodies())
    queue.send(b"last", priority=0)
    assert [message.body for message in queue.consume(timeout=0)][-1] == b"last"


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/16", "MS-MQDMPR 3.1.7.1.9/7")
def test_drafts_differ(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    queue.send_many([Draft(b"low", priority=1), Draft(b"high", priority=6, label="now")])
    assert [message.body for message in queue.browse()] == [b"high", b"low"]
    assert [queue.receive(timeout=0).body for _ in range(2)] == [b"high", b"low"]


def test_frames_that_the_system_takes_in_parts_arrive_whole(server: Serving, path: str) -> None:
    """Each is larger than the buffer of the socket."""
    bodies = [b"%04d" % number * 1_000 for number in range(500)]
    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path)
        link: Any = manager._channel._link
        link._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
        queue.send_many(bodies)
        assert manager._channel.core.generation == 1, "in the first connection"
        assert [message.body for message in queue.receive_many(500, 0)] == bodies


def test_a_refused_message_among_many(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path, transactional=True)
    with pytest.raises(TransactionUsage):
        queue.send_many([b"1", b"2"])
    assert queue.count() == 0


@pytest.mark.spec("MS-MQDMPR 3.1.4.4/3", "MS-MQDMPR 3.1.7.1.10/9", "MS-MQDMPR 3.1.7.1.9/9")
def test_a_transaction_over_two_queues(manager: Manager, path: str) -> None:
    orders = manager.create_queue(path, transactional=True)
    ledger = manager.create_queue(path + "-ledger", transactional=True)
    with manager.transaction() as tx:
        orders.send(b"order", tx=tx)
        assert orders.count() == 0
    assert orders.peek(timeout=0).delivery == "transactional"
    with manager.transaction() as tx:
        order = orders.receive(timeout=0, tx=tx)
        ledger.send_many([order.body, b"entry"], tx=tx)
    assert (orders.count(), ledger.count()) == (0, 2)


@pytest.mark.spec("MS-MQDMPR 3.1.4.5/2")
def test_an_exception_aborts(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path, transactional=True)
    queue.send(b"kept", transactional=True)

    def work() -> None:
        with manager.transaction() as tx:
            queue.receive(timeout=0, tx=tx)
            queue.send(b"never", tx=tx)
            raise KeyError("oh")

    with pytest.raises(KeyError):
        work()
    message = queue.receive(timeout=0)
    assert (message.body, message.abort_count) == (b"kept", 1)


@pytest.mark.spec("MS-MQDMPR 3.1.4.5/4")
def test_a_transaction_by_hand(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path, transactional=True)
    tx = manager.transaction().begin()
    with pytest.raises(TransactionSequence):
        tx.begin()
    queue.send(b"1", tx=tx)
    tx.abort()
    with pytest.raises(TransactionSequence):
        queue.send(b"2", tx=tx)
    with manager.transaction() as other:
        queue.send(b"3", tx=other)
        other.commit()
    assert [message.body for message in queue.browse()] == [b"3"]


def test_many_in_a_transaction_of_their_own(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path, transactional=True)
    queue.send_many([b"%d" % number for number in range(300)], transactional=True)
    assert queue.count() == 300


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.13/3")
def test_lookups(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"a", b"b", b"c"])
    first = queue.lookup(seek="first")
    second = queue.lookup(first.lookup_id, "next")
    assert (first.body, second.body, queue.lookup(seek="last").body) == (b"a", b"b", b"c")
    assert queue.lookup(second.lookup_id, "previous").body == b"a"
    assert queue.lookup(second.lookup_id, receive=True).body == b"b"
    assert [message.body for message in queue.browse()] == [b"a", b"c"]
    assert [message.body for message in queue.consume(lookup_id=first.lookup_id)] == [b"a"]
    assert [message.body for message in queue.browse()] == [b"c"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.14/3")
def test_cursors(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"a", b"b", b"c"])
    with queue.cursor(receiving=True) as cursor:
        assert cursor.peek().body == b"a"
        assert cursor.next().body == b"b"
        assert cursor.receive().body == b"b"
        assert cursor.next().body == b"c"
        with pytest.raises(IoTimeout):
            cursor.next()
    assert queue.count() == 2


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/1", "MS-MQDMPR 3.1.7.1.3/4")
def test_subqueues_and_journals(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path, journal=True)
    queue.send_many([b"good", b"bad"])
    poison = queue.subqueue("poison")
    queue.move(queue.lookup(seek="last"), poison)
    assert (queue.count(), poison.count()) == (1, 1)
    message = poison.receive(timeout=0)
    assert (message.body, message.move_count) == (b"bad", 1)
    queue.receive(timeout=0)
    assert [copy.body for copy in queue.journal.browse()] == [b"bad", b"good"]
    with pytest.raises(InvalidParameter):
        poison.subqueue("more")


@pytest.mark.spec("Subqueues/1", "Subqueues/2")
def test_a_reader_of_a_subqueue_waits_for_the_first_message(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    poison = queue.subqueue("poison")
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(poison.receive(timeout=30).body))
    thread.start()
    while not any(one.path.endswith(";poison") and one.waiting_readers for one in manager.queues()):
        pass
    queue.send(b"bad")
    queue.move(queue.lookup(seek="first"), queue.subqueue("poison"))
    thread.join()
    assert found == [b"bad"]
    with pytest.raises(IoTimeout):
        queue.subqueue("retry").receive(timeout=0)
    with pytest.raises(UnsupportedFormatNameOperation, match="cannot be sent to a subqueue"):
        queue.subqueue("retry").send(b"never")


@pytest.mark.spec("Subqueues/4", "Subqueues/5")
def test_a_subqueue_shares_the_quota_of_its_queue(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path, quota_kib=2)
    queue.send(bytes(1200))
    retry = queue.subqueue("retry")
    queue.move(queue.peek(timeout=0), retry)
    with pytest.raises(InsufficientResources, match="quota of 2 KiB"):
        queue.send(bytes(1200))
    queue.send(bytes(300))
    retry.move(retry.peek(timeout=0), queue)
    assert queue.count() == 2


def test_properties(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path, label="Orders", quota_kib=100)
    assert queue.properties().label == "Orders"
    assert queue.set(label="New", quota_kib=None).label == "New"
    shown = queue.properties()
    assert (shown.label, shown.quota_kib) == ("New", None)
    assert path.rpartition("\\")[2] in [one.path.rpartition("\\")[2] for one in manager.queues()]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.7/1", "MS-MQDMPR 3.1.7.1.4/3")
def test_purge_and_delete(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"1", b"2", b"3"])
    assert queue.purge() == 3
    queue.send(b"4")
    queue.close()
    assert queue.delete() == 1
    with pytest.raises(QueueNotFound):
        queue.count()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.3/2")
def test_a_queue_that_is_there_already(manager: Manager, path: str) -> None:
    manager.create_queue(path)
    with pytest.raises(QueueExists):
        manager.create_queue(path)
    assert manager.create_queue(path, exist_ok=True) is manager.queue(path)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/20", "MS-MQDMPR 3.1.7.1.6/3")
def test_a_queue_of_one_reader(manager: Manager, path: str) -> None:
    manager.create_queue(path).send(b"1")
    alone = manager.queue(path, exclusive=True)
    assert alone.receive(timeout=0).body == b"1"
    with pytest.raises(SharingViolation):
        manager.queue(path).receive(timeout=0)
    alone.close()
    with pytest.raises(IoTimeout):
        manager.queue(path).receive(timeout=0)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.11/1")
def test_consumers_give_back_what_they_did_not_finish(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"%d" % number for number in range(10)])
    for message in queue.consume(timeout=0):
        if message.body == b"3":
            break
    assert queue.peek(timeout=0).body == b"3"
    with queue.consume(timeout=0, prefetch=True) as messages:
        for message in messages:
            if message.body == b"5":
                messages.done()
                break
    assert queue.peek(timeout=0).body == b"6"
    assert queue.properties().locked == 0


@pytest.mark.parametrize("prefetch", [False, True])
def test_a_break_leaves_the_consumer_as_it_is(manager: Manager, path: str, prefetch: bool) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"%d" % number for number in range(10)])
    with queue.consume(timeout=0, batch=3, prefetch=prefetch) as messages:
        for message in messages:
            if message.body == b"3":
                break
        messages.done()
        assert queue.count() == 6, "`done` after a `break` acknowledges"
        assert next(messages).body == b"4"
        assert [message.body for message in messages] == [b"5", b"6", b"7", b"8", b"9"]
        assert queue.properties().locked == 0, "nothing is held for a loop that is over"
        queue.send(b"later")
        assert [message.body for message in messages] == [b"later"], "another loop goes on"


def test_done_raises_for_what_went_back(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"1", b"2"])
    with queue.consume(timeout=0) as messages:
        next(messages)
    for _ in range(2):
        with pytest.raises(MessageReturned, match=r"went back to its queue.* inside the `with`"):
            messages.done()
    assert queue.count() == 2
    with queue.consume(timeout=0) as messages:
        next(messages)
        messages.done()
    messages.done()  # nothing went back but what was not seen
    assert queue.count() == 1
    with queue.consume(timeout=0, at_once=True) as messages:
        next(messages)
    messages.done()
    assert queue.count() == 0


def test_a_consumer_that_garbage_collection_finds_within_a_call_gives_back(
    manager: Manager, path: str
) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"1", b"2"])
    threads: list[int] = []
    cycle: list[Any] = [queue.consume(timeout=0)]
    cycle.append(cycle)
    assert next(cycle[0]).body == b"1"
    close = cycle[0]._consuming.close
    cycle[0]._consuming.close = lambda: threads.append(threading.get_ident()) or close()
    del cycle
    core = manager._channel.core
    take_in = core.take_in

    def collect(request: Request) -> None:
        gc.collect()  # with the lock of the core in hand
        take_in(request)

    core.take_in = collect  # type: ignore[method-assign]
    try:
        queue.count()
    finally:
        core.take_in = take_in  # type: ignore[method-assign]
    assert queue.receive(timeout=60).body in (b"1", b"2")
    assert queue.receive(timeout=60).body in (b"1", b"2")
    (thread,) = threads
    assert thread != threading.get_ident()


def test_a_bare_name_is_a_private_queue_here(manager: Manager, path: str) -> None:
    bare = path.rpartition("\\")[2]
    queue = manager.create_queue(bare, journal=True)
    assert queue.properties().path == f"ALPHA{path[1:]}"
    queue.send(b"1", response_queue="answers")
    message = manager.queue(f"FormatName:DIRECT=OS:./private$/{bare}").peek(0)
    assert message == manager.queue(path).peek(0)
    assert message.response_queue == r"DIRECT=OS:ALPHA\private$\answers"
    queue.move(message, queue.subqueue("later"))
    assert manager.queue(f"{path};later").receive(0).body == b"1"
    assert manager.queue(f"{bare};journal").count() == queue.journal.count() == 1
    with pytest.raises(QueueNotFound):
        manager.queue(rf".\{bare}").peek(0)  # that would be a public one
    assert manager.delete_queue(bare) == 1
    with pytest.raises(posthouse.QueueError, match="is a pattern, and one queue is to be named"):
        manager.queue("bare*").peek(0)


def test_a_queue_that_is_there_is_used_if_it_is_of_the_kind_that_was_asked_for(
    manager: Manager, path: str
) -> None:
    plain = manager.create_queue(path)
    assert manager.create_queue(path, exist_ok=True, label="x") is plain
    assert plain.properties().label == ""
    with pytest.raises(QueueExists, match="--exist-ok`; in Python exist_ok=True"):
        manager.create_queue(path)
    with pytest.raises(QueueExists):
        manager.create_queue(path, transactional=True, exist_ok=True)
    orderly = manager.create_queue(path + "-2", transactional=True)
    assert manager.create_queue(path + "-2", transactional=True, exist_ok=True) is orderly


CARRIED = {
    "label": "an order",
    "priority": 6,
    "delivery": "recoverable",
    "app_specific": 7,
    "extension": b"more",
    "journal": ["positive", "negative"],
    "acknowledge": ["pos-receive", "neg-receive"],
    "correlation_id": "ab" * 20,
    "connector_type": "01234567-89ab-cdef-0123-456789abcdef",
    "trace": "PUBLIC=01234567-89ab-cdef-0123-456789abcdef",
    "body_type": 17,
    "time_to_be_received": 3600,
}


def test_a_received_message_is_sent_again_with_all_that_its_sender_gave(
    manager: Manager, path: str
) -> None:
    queue, acks = manager.create_queue(path), manager.create_queue(path + "-acks")
    answers = r"DIRECT=OS:BETA\private$\answers"
    first = queue.send(
        b"\0\xff",
        admin_queue=acks.name,
        response_queue=answers,
        **CARRIED,  # type: ignore[arg-type]
    )
    received = queue.receive(timeout=0)
    assert {name: getattr(received, name) for name in CARRIED} == CARRIED
    second = queue.send(received)
    ids = queue.send_many([received, posthouse.Draft(received, label="other", response_queue="")])
    again, third, changed = queue.receive_many(3, timeout=0)
    names = [*CARRIED, "body", "admin_queue", "response_queue"]
    for copy in (again, third):
        assert {name: getattr(copy, name) for name in names} == {
            name: getattr(received, name) for name in names
        }
        assert copy != received
    assert [again.id, third.id, changed.id] == [second, *ids]
    assert first not in (second, *ids)
    assert (changed.label, changed.response_queue, changed.body) == ("other", "", received.body)
    queue.send(received, label="", delivery="express", time_to_be_received=timedelta(minutes=5))
    express = queue.receive(timeout=0)
    assert (express.label, express.delivery, express.time_to_be_received) == ("", "express", 300)
    with pytest.raises(TypeError, match=r"has options of its own.*Draft\(message, ...\)"):
        queue.send_many([received], label="x")
    import opentelemetry.trace  # noqa: F401 - a program with it is traced

    with pytest.raises(TypeError, match="has options of its own"):
        queue.send_many([received], label="x")
    assert len(queue.send_many([received])) == 1
    with pytest.raises(TypeError, match=r"^delivery and recoverable are one option"):
        queue.send(received, delivery="express", recoverable=True)
    with pytest.raises(TypeError, match="no option 'labell'"):
        queue.send(received, labell="x")  # type: ignore[call-arg]


def test_a_transactional_message_is_sent_again(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path, transactional=True)
    plain = manager.create_queue(path + "-plain")
    queue.send(b"1", delivery="transactional")
    queue.send_many([b"2"], delivery="transactional")
    with manager.transaction() as tx:
        for message in queue.receive_many(2, tx=tx):
            queue.send(message, tx=tx)
    again = queue.receive_many(2, timeout=0)
    assert [(one.body, one.delivery) for one in again] == [
        (b"1", "transactional"),
        (b"2", "transactional"),
    ]
    queue.send(again[0], delivery="transactional")
    plain.send(again[0])
    assert plain.receive(timeout=0).delivery == "recoverable"
    with pytest.raises(TransactionUsage):
        queue.send(again[0])
    with pytest.raises(TypeError, match="a Draft has no transaction of its own"):
        Draft(b"1", delivery="transactional")


def test_the_same_message_is_equal(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"same", b"same"])
    assert queue.peek(0) == queue.peek(0)
    first, second = queue.browse()
    assert first == queue.peek(0)
    assert first != second
    assert len({first, second, queue.peek(0)}) == 2
    assert first != first.body
    plain = first.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["body"], plain["class"], plain["queue"]) == ("c2FtZQ==", "normal", path)


def test_a_timeout_is_a_timeout_error_and_takes_a_timedelta(manager: Manager, path: str) -> None:
    queue, soon = manager.create_queue(path), timedelta(milliseconds=1)
    for wait in (
        lambda: queue.receive(soon),
        lambda: queue.receive_many(2, soon),
        lambda: queue.peek(soon),
        lambda: queue.cursor().peek(soon),
        lambda: queue.cursor(receiving=True).receive(soon),
    ):
        with pytest.raises(TimeoutError, match="MQ_ERROR_IO_TIMEOUT") as error:
            wait()
        assert isinstance(error.value, IoTimeout)
        assert error.value.errno is None
    assert list(queue.consume(timeout=soon)) == []
    with pytest.raises(TypeError, match=r"^timeout takes seconds or a timedelta, not '5'"):
        queue.receive("5")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^timeout takes seconds or a timedelta, not True"):
        queue.peek(True)
    with pytest.raises(TypeError, match=r"^reconnect takes seconds or a timedelta, not None"):
        posthouse.connect("/nowhere", reconnect=None)  # type: ignore[arg-type]


def test_what_is_no_transaction_is_refused(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    for call in (
        lambda: queue.send(b"", tx=1),  # type: ignore[arg-type]
        lambda: queue.send_many([b""], tx=1),  # type: ignore[arg-type]
        lambda: queue.receive(0, tx=1),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=r"^tx takes a transaction, as qm.transaction"):
            call()


def test_the_books_balance(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    queue.send_many([b"%d" % number for number in range(7)])
    queue.receive_many(3)
    books = manager.books()
    assert books.balanced
    (line,) = [one for one in books.books if one.queue.endswith(path[2:])]
    assert (line.accepted, line.waiting, line.received) == (7, 4, 3)


def test_any_call_of_the_api(manager: Manager) -> None:
    assert manager.call("GET", "/status")["name"] == "ALPHA"
    with pytest.raises(posthouse.QueueError):
        manager.call("GET", "/nothing")


def test_a_closed_session_says_so(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    manager.close()
    manager.close()
    with pytest.raises(SessionEnded):
        queue.send(b"late")


def test_closing_ends_what_waits(manager: Manager, path: str) -> None:
    queue = manager.create_queue(path)
    errors: list[BaseException] = []
    waits = threading.Event()

    def wait() -> None:
        waits.set()
        try:
            queue.receive()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait()
    manager.close()
    thread.join()
    assert [type(error) for error in errors] == [SessionEnded]


# -- what only a server has


def test_nobody_there(home: Path) -> None:
    with pytest.raises(ServerUnreachable, match="posthouse serve"):
        posthouse.connect(home)


def test_a_home_has_one_queue_manager(home: Path) -> None:
    with (
        posthouse.open(home),
        pytest.raises(ServiceNotAvailable, match="in use"),
    ):
        posthouse.open(home)


def test_a_token_over_tcp(server: Serving, path: str, tmp_path: Path) -> None:
    with posthouse.connect(server.home) as local:
        token = local.call("POST", "/tokens", {"role": "administer"})["token"]
    file = tmp_path / "token"
    file.write_text(token)
    with posthouse.connect(url=server.url, token_file=file, name="a test") as remote:
        remote.create_queue(path).send(b"from afar")
        assert remote.queue(path).receive(timeout=0).body == b"from afar"
    with pytest.raises(AccessDenied):
        posthouse.connect(url=server.url, token="pht_wrong")


def test_a_broken_connection_is_made_again(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path)
        for number in range(5):
            server.break_connections()
            queue.send(b"%d" % number, recoverable=True)
            server.break_connections()
            assert queue.count() == number + 1
        assert [message.body for message in queue.browse()] == [b"%d" % n for n in range(5)]


@pytest.mark.spec("MS-MQDMPR 3.1.4.5/7")
def test_a_transaction_is_lost_with_its_connection(server: Serving, path: str) -> None:
    def work(manager: Manager) -> None:
        with manager.transaction() as tx:
            manager.queue(path).receive(timeout=0, tx=tx)
            manager.queue(path).send(b"never", tx=tx)
            server.break_connections()

    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path, transactional=True)
        queue.send(b"kept", transactional=True)
        with pytest.raises(TransactionAborted):
            work(manager)
        assert queue.receive(timeout=30).body == b"kept"
        assert queue.count() == 0


def test_a_wait_outlives_a_restart(home: Path, path: str) -> None:
    first = Serving(home)
    with posthouse.connect(home) as manager, posthouse.connect(home) as other:
        queue = manager.create_queue(path)
        found: list[bytes] = []
        thread = threading.Thread(target=lambda: found.append(queue.receive().body))
        thread.start()
        while not other.queue(path).properties().waiting_readers:
            pass
        first.stop()
        with serving(home):
            other.queue(path).send(b"at last", recoverable=True)
            thread.join()
    assert found == [b"at last"]


def test_when_nobody_comes_back_it_says_so(home: Path, path: str) -> None:
    with serving(home):
        manager = posthouse.connect(home, reconnect=0.05)
        queue = manager.create_queue(path)
    with pytest.raises(ConnectionError):
        queue.send(b"late")
    with serving(home):
        assert queue.send(b"in time")
        manager.close()


def test_what_cannot_be_asked_twice_goes_to_a_server_that_came_back(home: Path, path: str) -> None:
    with serving(home):
        manager = posthouse.connect(home)
    with serving(home):
        queue = manager.create_queue(path)  # nobody has looked since the connection ended
        queue.send(b"one")
    with serving(home):
        assert queue.properties().messages == 1
    with serving(home):
        assert queue.purge() == 1
    manager.close()


def test_a_receive_does_not_wait_longer_for_a_server_than_for_a_message(
    home: Path, path: str
) -> None:
    with serving(home):
        manager = posthouse.connect(home, reconnect=3600)
        queue = manager.create_queue(path)
        found: list[bytes] = []
        patient = threading.Thread(target=lambda: found.append(queue.receive().body))
        patient.start()
        while not queue.properties().waiting_readers:
            pass
    for _ in range(2):
        with pytest.raises(ServerUnreachable, match="until the timeout was over: no queue manager"):
            queue.receive(timeout=0.05)
    with pytest.raises(ServerUnreachable):
        next(iter(queue.consume(timeout=0)))
    with serving(home):
        queue.send(b"at last", recoverable=True)
        patient.join()
        manager.close()
    assert found == [b"at last"]


def test_a_queue_that_was_deleted_and_made_again_is_opened_again(
    manager: Manager, path: str
) -> None:
    queue = manager.create_queue(path)
    queue.send(b"before")
    manager.delete_queue(path)
    manager.create_queue(path)
    with pytest.raises(QueueNotAvailable):
        queue.send(b"lost")
    queue.send(b"after")
    assert queue.receive(timeout=0).body == b"after"
