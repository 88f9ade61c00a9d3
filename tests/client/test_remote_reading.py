"""Reading queues of our own queue manager from afar, with logins and without."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest

import posthouse
from posthouse.client.remote.login import LEVELS
from posthouse.model.errors import (
    AccessDenied,
    IoTimeout,
    OperationCancelled,
    QueueNotFound,
    SharingViolation,
)
from tests.client.read_serving import PASSWORD, USER, ReadServing, SecretServing, read_serving
from tests.support.result_thread import Thread

LOGIN = {"user": USER, "password": PASSWORD}
numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[ReadServing]:
    with read_serving() as server:
        yield server


@pytest.fixture(scope="module")
def local(server: ReadServing) -> Iterator[posthouse.QueueManagerClient]:
    with posthouse.connect(server.home) as client:
        yield client


@pytest.fixture
def here(local: posthouse.QueueManagerClient) -> posthouse.Queue:
    """A queue that alice and everybody may do everything with."""
    queue = local.create_queue(rf".\private$\q{next(numbers)}")
    for who in (USER, "anonymous"):
        body = {"who": who, "rights": ["full"]}
        local.call("POST", f"/queues/{queue.name.replace(chr(92), '%5C')}/access/grant", body)
    return queue


@pytest.fixture
def there(
    server: ReadServing, here: posthouse.Queue
) -> Iterator[tuple[posthouse.RemoteQueueManager, posthouse.RemoteQueue]]:
    with posthouse.msmq("127.0.0.1", rpc_port=server.rpc_port, **LOGIN) as manager:
        yield manager, manager.queue(here.name)


There = tuple[posthouse.RemoteQueueManager, posthouse.RemoteQueue]


@pytest.mark.parametrize("mechanism", ["ntlm", "negotiate"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_message_is_received_at_every_level(
    server: ReadServing, here: posthouse.Queue, level: Any, mechanism: Any
) -> None:
    here.send("hello", label="a label", priority=5, recoverable=True, app_specific=77)
    login = {} if level == "none" else LOGIN
    with posthouse.msmq(
        "127.0.0.1",
        rpc_port=server.rpc_port,
        authentication=level,
        mechanism=mechanism,
        **login,
    ) as manager:
        message = manager.queue(here.name).receive(5)
    assert (message.text, message.label, message.priority) == ("hello", "a label", 5)
    assert (message.app_specific, message.delivery) == (77, "recoverable")
    assert not message.in_doubt
    assert here.count() == 0


def test_what_comes_from_afar_is_what_is_here(here: posthouse.Queue, there: There) -> None:
    here.send_many([posthouse.Draft(b"%d" % size + b"x" * size) for size in (0, 1, 5000, 70_000)])
    here.send(b"y" * 4_000_000, time_to_reach_queue=60, time_to_be_received=600)
    near = list(here.browse())
    far = list(there[1].browse())
    for one, other in zip(near, far, strict=True):
        ours, theirs = one.to_json(), other.to_json()
        theirs.queue = ours.queue
        assert theirs == ours
        assert other.body == one.body
        assert (other.lookup_id, other.arrived_time) == (one.lookup_id, one.arrived_time)


def test_the_mapper_finds_the_port(server: ReadServing, here: posthouse.Queue) -> None:
    here.send(b"x")
    with posthouse.msmq("127.0.0.1", epm_port=server.epm_port, **LOGIN) as manager:
        assert manager.queue(here.name).receive(5).body == b"x"


@pytest.mark.parametrize("mechanism", ["ntlm", "negotiate"])
def test_a_wrong_password_is_told(
    server: ReadServing, here: posthouse.Queue, mechanism: Any
) -> None:
    with (
        posthouse.msmq(
            "127.0.0.1",
            rpc_port=server.rpc_port,
            user=f"WORK\\{mechanism}",
            password="wrong",
            mechanism=mechanism,
        ) as manager,
        pytest.raises(AccessDenied, match="login"),
    ):
        manager.queue(here.name).receive(0)


def test_too_low_a_level_is_told() -> None:
    with (
        read_serving(SecretServing) as server,
        posthouse.msmq(
            "127.0.0.1", rpc_port=server.rpc_port, authentication="integrity", **LOGIN
        ) as manager,
        pytest.raises(AccessDenied, match="level too low"),
    ):
        manager.queue(r"private$\x").receive(0)


def test_rights_are_those_of_the_user(
    local: posthouse.QueueManagerClient, server: ReadServing
) -> None:
    local.create_queue(r".\private$\mine")
    with posthouse.msmq("127.0.0.1", rpc_port=server.rpc_port, **LOGIN) as manager:
        with pytest.raises(AccessDenied):
            manager.queue(r"private$\mine").receive(0)
        with pytest.raises(QueueNotFound):
            manager.queue(r"private$\nowhere").receive(0)


def test_a_wait_ends_with_a_message_a_timeout_or_a_cancel(
    here: posthouse.Queue, there: There
) -> None:
    _, queue = there
    with pytest.raises(IoTimeout):
        queue.receive(0.05)
    thread = Thread(lambda: queue.receive())
    here.send(b"came")
    assert thread.result().body == b"came"
    waiting = Thread(lambda: queue.peek())
    while not queue.cancel():
        pass
    assert isinstance(waiting.result(), OperationCancelled)


def test_cursors_lookups_and_moves(here: posthouse.Queue, there: There) -> None:
    manager, queue = there
    here.send_many([b"a", b"b", b"c"])
    with queue.cursor(receiving=True) as cursor:
        assert [cursor.peek().body, cursor.next().body] == [b"a", b"b"]
        assert cursor.receive().body == b"b"
    first = queue.peek(0)
    assert queue.lookup(first.lookup_id, "next").body == b"c"
    last = queue.lookup(first.lookup_id, "next")
    assert queue.lookup(last.lookup_id, "previous").body == b"a"
    poison = manager.queue(f"{here.name};poison")
    queue.move(first, poison)
    moved = poison.receive(0)
    assert (moved.body, moved.move_count) == (b"a", 1)
    queue.purge()
    assert here.count() == 0


def test_an_exclusive_reader_is_alone(
    here: posthouse.Queue, there: There, server: ReadServing
) -> None:
    manager, queue = there
    here.send(b"x")
    alone = manager.queue(here.name, exclusive=True)
    alone.peek(0)
    with (
        posthouse.msmq("127.0.0.1", rpc_port=server.rpc_port, **LOGIN) as other,
        pytest.raises(SharingViolation),
    ):
        other.queue(here.name).receive(0)
    alone.close()
    assert queue.receive(0).body == b"x"


def test_a_body_is_cut_where_the_reader_says(here: posthouse.Queue, there: There) -> None:
    here.send(b"0123456789", label="long")
    seen = there[1].peek(0, body_max=4)
    assert (seen.body, seen.body_size, seen.label) == (b"0123", 10, "long")
    assert next(there[1].browse(body_max=0)).body == b""


@pytest.mark.spec("MS-MQRR 3.2.4.4.1/5")
def test_giving_back_does_not_count_as_a_failure(here: posthouse.Queue, there: There) -> None:
    here.send_many([b"%d" % number for number in range(20)])
    with there[1].consume(timeout=5, prefetch=10) as consumer:
        consumer.next()
        consumer.next()
    messages = list(here.browse())
    assert [message.body for message in messages] == [b"%d" % number for number in range(1, 20)]
    assert {message.abort_count for message in messages} == {0}
    assert not any(message.in_doubt for message in messages)


@pytest.mark.parametrize("prefetch", [0, 16])
def test_many_messages_pass_once_and_in_order(
    here: posthouse.Queue, there: There, prefetch: int
) -> None:
    bodies = [b"%d" % number for number in range(500)]
    here.send_many(bodies, recoverable=True)
    found = [message.body for message in there[1].consume(timeout=0, prefetch=prefetch)]
    assert found == bodies
    here.send_many(bodies)
    assert [message.body for message in there[1].receive_many(1000, 0)] == bodies
    assert here.count() == 0


def test_a_reader_goes_on_after_a_break(
    here: posthouse.Queue, there: There, server: ReadServing
) -> None:
    """Nothing is lost; what comes twice says so."""
    manager, queue = there
    bodies = [b"%d" % number for number in range(200)]
    here.send_many(bodies)
    seen: list[tuple[bytes, bool]] = []
    for number, message in enumerate(queue.consume(timeout=0, prefetch=8)):
        seen.append((message.body, message.in_doubt))
        if number % 50 == 49:
            server.break_readers()
    assert {body for body, _ in seen} == set(bodies)
    again = [body for body, _ in seen]
    twice = {body for body in again if again.count(body) > 1}
    assert twice == {body for body, doubt in seen if doubt}
    assert manager.in_doubt >= len(twice)
    assert here.count() == 0


def test_threads_read_in_every_way_while_connections_break(
    here: posthouse.Queue, server: ReadServing
) -> None:
    """Nothing is lost, and what comes twice says so, whoever shares a connection with whom."""
    total = 1500
    here.send_many([b"%d" % number for number in range(total)])
    seen: Counter[bytes] = Counter()
    kept: list[posthouse.Message] = []
    lock = threading.Lock()

    def note(*messages: posthouse.Message) -> None:
        with lock:
            before = len(kept) // 200
            kept.extend(messages)
            seen.update(message.body for message in messages)
            is_time = len(kept) // 200 > before
        if is_time:
            server.break_readers()

    def ahead(queue: posthouse.RemoteQueue) -> None:
        note(queue.receive(0.2))

    def together(queue: posthouse.RemoteQueue) -> None:
        note(*queue.receive_many(20, 0.2))

    def on_and_on(queue: posthouse.RemoteQueue) -> None:
        with queue.consume(timeout=0.2, prefetch=8) as consumer:
            for _ in range(50):
                message = consumer.next()
                if message is None:
                    raise IoTimeout("nothing")
                note(message)
            with suppress(posthouse.MessageReturned):
                consumer.done()

    def work(way: Callable[[posthouse.RemoteQueue], None]) -> None:
        while True:
            try:
                way(manager.queue(here.name))
            except IoTimeout:
                if not here.count():
                    return

    with posthouse.msmq("127.0.0.1", rpc_port=server.rpc_port, prefetch=8, **LOGIN) as manager:
        threads = [Thread(partial(work, way)) for way in (ahead, together, on_and_on) * 2]
        assert [thread.result() for thread in threads] == [None] * 6
    assert len(seen) == total
    doubtful = {message.body for message in kept if message.in_doubt}
    assert {body for body, times in seen.items() if times > 1} <= doubtful
