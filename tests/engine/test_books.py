"""The books: every accepted message is accounted for once, by its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from posthouse.engine.ledger.books import (
    Books,
    SenderBooks,
    books_of,
    sender_books_of,
)
from posthouse.engine.ledger.state import State
from tests.engine.letters import DEAD_LETTERS, FAR, JOURNAL, RECEIVE_ADMIN, PostRig
from tests.engine.rig import MOVE, RECEIVE
from tests.support.machine_books import machine_books

ENDS = ("received", "expired", "purged", "rejected", "moved_away")


@pytest.fixture
def rig() -> Iterator[PostRig]:
    rig = PostRig()
    rig.create("orders")
    yield rig
    rig.check_books()


def books(rig: PostRig, name: str = "orders") -> dict[str, int]:
    """The columns of a queue that are not zero."""
    found = books_of(rig.queue(name))
    assert found.balanced
    return {column: value for column, value in asdict(found).items() if value}


def end(rig: PostRig, way: str) -> None:
    """Ends the one message of the queue."""
    if way == "received":
        rig.receive("orders")
    elif way == "expired":
        rig.advance(11)
    elif way == "purged":
        rig.purge("orders")
    elif way == "rejected":
        rig.reject("orders")
    else:
        source, target = rig.open("orders", RECEIVE), rig.open("orders;sub", MOVE)
        lookup_id = rig.peek(source).read.lookup_id
        rig.run(lambda m: m.messages.move_message(source, lookup_id, target))
        rig.close(source)


@pytest.mark.parametrize("recoverable", [True, False])
@pytest.mark.parametrize("way", ENDS)
def test_a_message_is_counted_once_by_its_end(rig: PostRig, way: str, recoverable: bool) -> None:
    rig.send("orders", b"x", recoverable=recoverable, time_to_be_received=10)
    assert books(rig) == {"accepted": 1, "waiting": 1}
    end(rig, way)
    assert books(rig) == {"accepted": 1, way: 1}
    rig.advance(100)
    assert books(rig) == {"accepted": 1, way: 1}
    lines = rig.manager.queues.books_apart(rig.queue("orders"))
    assert [line.accepted for line in lines] == ([1, 0] if recoverable else [0, 1])


def test_the_durable_line_is_the_same_after_a_crash(rig: PostRig) -> None:
    for way in ENDS:
        rig.send("orders", b"x", time_to_be_received=10)
        end(rig, way)
    rig.send("orders", b"still here")
    before = books(rig)
    assert before == {"accepted": 6, "waiting": 1, **dict.fromkeys(ENDS, 1)}
    rig.restart()
    assert books(rig) == before


def test_a_locked_message_waits_for_nobody_else(rig: PostRig) -> None:
    rig.create("accounts", transactional=True)
    tx = rig.begin()
    for body in (b"a", b"b"):
        rig.send("accounts", body, tx=tx)
    assert books(rig, "accounts") == {}  # what is not committed is not accepted
    rig.commit(tx)
    tx = rig.begin("read")
    rig.receive("accounts", transaction=tx)
    assert books(rig, "accounts") == {"accepted": 2, "waiting": 1, "locked": 1}
    rig.abort(tx)
    assert books(rig, "accounts") == {"accepted": 2, "waiting": 2}


def test_an_aborted_send_is_in_no_books(rig: PostRig) -> None:
    rig.create("accounts", transactional=True)
    tx = rig.begin()
    rig.send("accounts", b"a", tx=tx)
    rig.abort(tx)
    assert books(rig, "accounts") == {}


def test_journals_and_dead_letters_have_books_of_their_own(rig: PostRig) -> None:
    rig.set("orders", journaling=True)
    rig.send("orders", b"to the journal", positive_journaling_requested=True)
    rig.receive("orders")
    rig.send("orders", b"dies", negative_journaling_requested=True)
    rig.purge("orders")
    assert books(rig) == {"accepted": 2, "received": 1, "purged": 1}
    assert books(rig, "orders;journal") == {"accepted": 1, "waiting": 1}
    assert books(rig, JOURNAL) == {"accepted": 1, "waiting": 1}
    assert books(rig, DEAD_LETTERS) == {"accepted": 1, "waiting": 1}
    for name in ("orders;journal", JOURNAL, DEAD_LETTERS):
        rig.receive(name)
        assert books(rig, name) == {"accepted": 1, "received": 1}


def test_a_refused_message_is_in_no_books(rig: PostRig) -> None:
    rig.set("orders", quota_kib=1)
    rig.send("orders", b"small")
    with rig.refused(0xC00E0027):
        rig.send(rig.open("orders"), bytes(2000))
    assert books(rig) == {"accepted": 1, "waiting": 1}


def test_a_deleted_queue_takes_its_books_along(rig: PostRig) -> None:
    rig.send("orders", b"x")
    rig.delete("orders")
    assert not any("orders" in name for name in machine_books(rig.manager.queues.all()))
    rig.create("orders")
    assert books(rig) == {}


def test_after_a_crash_the_express_line_begins_anew(rig: PostRig) -> None:
    for body in (b"a", b"b", b"c"):
        rig.send("orders", body, recoverable=False)
    rig.receive("orders")
    rig.send("orders", b"durable")
    state = State.load(rig.manager.ledger.state.dump())
    queue = rig.queue("orders")
    assert state.drop_express() == {queue.number: 2}
    queue.state = state.queue(queue.number)
    found = books_of(queue)
    assert found.balanced
    assert (found.accepted, found.waiting, found.lost_express) == (3, 1, 2)
    assert found.estimated
    assert not books_of(rig.queue("orders;journal")).estimated


def test_every_queue_is_in_the_books_of_the_machine(rig: PostRig) -> None:
    rig.send(FAR, b"x")
    names = set(machine_books(rig.manager.queues.all()))
    assert {r"ALPHA\private$\orders", r"ALPHA\private$\orders;journal", FAR} <= names
    assert {rf"ALPHA\system$;{word}" for word in ("journal", "deadletter", "deadxact")} <= names
    assert len(names) == len(rig.manager.queues.all())


def test_the_senders_books_balance(rig: PostRig) -> None:
    for way in ("delivered", "refused", "purged", "expired", "waits", "in flight"):
        rig.send(FAR, way.encode(), time_to_reach_queue=10 if way == "expired" else 1000)
    queue = rig.outgoing()[0]
    numbers = [number for _, number in queue.state.order.forward()]
    assert sender_books_of(queue) == SenderBooks(6, 6, 0, 0, 0)
    rig.deliver()
    rig.run(lambda m: m.transfer.refused(queue, numbers[1], 0x8000))
    reader = rig.open(FAR, RECEIVE_ADMIN)
    rig.receive(reader)
    rig.advance(11)
    found = sender_books_of(queue, unacknowledged=1)
    assert found == SenderBooks(sent=6, unsent=1, unacknowledged=1, delivered=1, failed=3)
    assert found.balanced
    rig.restart()
    assert sender_books_of(rig.outgoing()[0], unacknowledged=1) == found


def test_books_that_do_not_balance_say_so() -> None:
    zero = Books(0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert zero.balanced
    for position in range(9):
        columns = [0] * 9
        columns[position] = 1
        assert not Books(*columns).balanced
    assert not SenderBooks(1, 0, 0, 0, 0).balanced
